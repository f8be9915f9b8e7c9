"""Sensors of a world."""

from collections.abc import Iterable, Sequence
from typing import Any

from sim.model.checks import items_of, names_in, number
from sim.model.sensors.sensors import Sensor
from sim.model.sensors.targets import attach_sensor
from sim.model.specs import WORLD, Vector, WorldSpec
from sim.version import renamed_argument


class Sensors(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for sensors."""

    def add_sensor(
        self,
        name: str,
        kind: str,
        target: str = WORLD,
        *,
        reference: str = WORLD,
        lower: float = float("-inf"),
        upper: float = float("inf"),
        magnetic_field: Vector | None = None,
        zone: str | None = None,
        zone_size: Sequence[float] | None = None,
        geometries: Sequence[str] | None = None,
        image: Sequence[float] | None = None,
    ) -> str:
        """Add a sensor, which :class:`sim.torch.Sensors` reads along a rollout.

        The kinds, after MuJoCo's, are

        - of joints "joint_position", "joint_velocity", "joint_actuator_force", "joint_limit_position",
          "joint_limit_velocity", "joint_limit_force", "ball_orientation" and "ball_angular_velocity";
        - of actuators "actuator_position", "actuator_velocity" and "actuator_force";
        - of tendons "tendon_position", "tendon_velocity", "tendon_actuator_force", "tendon_limit_position",
          "tendon_limit_velocity" and "tendon_limit_force";
        - of frames and links "frame_position", "frame_orientation", "frame_x_axis", "frame_y_axis", "frame_z_axis",
          "frame_linear_velocity", "frame_angular_velocity", "frame_linear_acceleration", "frame_angular_acceleration",
          "accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder" (distance along the frame's z axis to
          the nearest geometry that isn't on its link, -1 for none), "touch" (sum of normal forces in a zone), "inside"
          (1 if the frame's origin is in a zone around the reference, otherwise 0), "camera_projection" (pixel
          coordinates of that origin in a camera at the reference [px]), and "force" and "torque" (reaction of the
          parent link on the frame's link through their joint, about the frame's origin and along its axes);
        - of a link with all its descendants "subtree_com", "subtree_linear_velocity" and "subtree_angular_momentum";
        - of the world "potential_energy", "kinetic_energy" and "clock";

        and those of :meth:`add_contact_sensor`, :meth:`add_distance_sensor` and :meth:`add_range_sensor`.

        The position of a limit is the distance to the nearest limit minus the limit's margin, or zero if that is
        positive; its velocity is the rate of that distance. "touch", "force", "torque" and limit forces are measured by
        a simulator with their names in ``contact_sensors``. A contact counts for a touch sensor if it is in the zone,
        or if the ray out of the body along its normal crosses the zone. For "force" and "torque" a link on a fixed
        joint is not merged.

        Args:
            name: unique name.
            kind: measured quantity.
            target: joint, actuator, tendon, frame or link that is measured; omitted for the whole world.
            reference: frame relative to which positions, orientations, axes and velocities of frames are measured;
                frame of the zone of "inside"; camera, which looks along its -z axis, with x to the right and y up.
            lower, upper: bounds to which readings are clamped.
            magnetic_field: magnetic field of the world, for a magnetometer. Default: MuJoCo's (0, -0.5, 0).
            zone: shape of the zone of "touch", around the frame's origin, or of "inside", around the reference:
                "sphere", "capsule", "ellipsoid", "cylinder" or "box".
            zone_size: size of the zone [m]: a radius; radius and half length along z of a capsule or cylinder; three
                half lengths.
            geometries: names of the geometries whose contacts a touch sensor counts.
            image: intrinsics of a camera: focal lengths along x and y, and the centre of the picture, x to the right
                and y down [px].

        Returns:
            the name of the sensor.

        Raises:
            ModelError: for a duplicate name, an unknown kind, a target or reference that doesn't exist or doesn't fit
                the kind, and an empty range.
        """
        record = Sensor(
            name, kind, target, reference, lower, upper, _numbers(magnetic_field), zone, _numbers(zone_size),
            _names(f"sensor '{name}': geometries", geometries), image=_numbers(image),
        )  # fmt: skip
        return attach_sensor(self, record)

    def add_contact_sensor(
        self,
        name: str,
        readings: Sequence[str] = ("found",),
        *,
        geometries: Sequence[str] | None = None,
        against: Sequence[str] | None = None,
        choice: str = "first",
        most: int = 1,
        frame: str = WORLD,
        zone: str | None = None,
        zone_size: Sequence[float] | None = None,
        lower: float = float("-inf"),
        upper: float = float("inf"),
    ) -> str:
        """Add a contact sensor, MuJoCo's ``contact``, which :class:`sim.torch.Sensors` reads along a rollout.

        It is measured by a simulator with its name in ``contact_sensors``. Of each contact it returns, in the order of
        ``readings``,

        - "found": number of contacts, in the slots in use; unused slots are 0, as are their other readings;
        - "force" and "torque": on the second geometry, along the contact's axes: the normal from the first to the
          second geometry, and two tangents [N, N m];
        - "distance": signed distance between the surfaces, negative in penetration [m];
        - "position": midpoint between the surfaces, "normal", and "tangent", the first tangent; in the world;
        - "linear_velocity" and "angular_velocity": velocity of the second geometry relative to the first, at the
          contact, along its axes [m/s, rad/s].

        The choice "net" combines all contacts into one along the world's axes: the sum of the forces, their mean
        position weighted by forces, and the torque about it; its distance is 0. Under MuJoCo's law all contacts within
        their margins count, with hard contact those with force or penetration.

        Args:
            name: unique name.
            readings: quantities that are read of each contact.
            geometries: names of the first geometries. Default: any.
            against: names of the second geometries. Default: any. If both are omitted, MuJoCo's order of types and
                indices decides which geometry is first.
            choice: contacts that are read: "first" for the first ones found, "nearest" for those of smallest distance,
                "strongest" for those of largest force, or "net".
            most: number of contact slots.
            frame: frame of the zone.
            zone, zone_size: as for :meth:`add_sensor`; only contacts with a position inside count. Default: all
                contacts.
            lower, upper: bounds to which readings are clamped.

        Returns:
            the name of the sensor.

        Raises:
            ModelError: for a duplicate name, and for an unknown reading, choice, frame or geometry.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground()
            >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1))
            >>> scene.add_contact_sensor("stands", ["found", "force"], against=["box_0/geometry"], choice="net")
            'stands'
        """
        record = Sensor(
            name, "contact", frame, lower=lower, upper=upper, zone=zone, zone_size=_numbers(zone_size),
            geometries=_names(f"sensor '{name}': geometries", geometries),
            against=_names(f"sensor '{name}': against", against),
            readings=names_in(f"sensor '{name}': readings", readings), choice=choice, most=most,
        )  # fmt: skip
        return attach_sensor(self, record)

    @renamed_argument("reach", "max_distance", "ModelBuilder.add_distance_sensor")
    def add_distance_sensor(
        self,
        name: str,
        kind: str = "geometry_distance",
        *,
        geometries: Sequence[str],
        against: Sequence[str],
        max_distance: float = float("inf"),
    ) -> str:
        """Add a distance sensor of geometries, which :class:`sim.torch.Sensors` reads along a rollout.

        It measures the nearest pair with one geometry of each list.

        Args:
            name: unique name.
            kind: "geometry_distance" for the signed distance, negative in penetration [m]; "geometry_points" for the
                nearest points on both [m]; or "geometry_normal" for the unit vector from the first point to the second;
                in the world.
            geometries, against: names of the geometries on both sides.
            max_distance: maximum distance [m]; beyond it the distance is this, and normal and points are zero.

        Returns:
            the name of the sensor.

        Raises:
            ModelError: for a duplicate name, an unknown kind or geometry, and an empty side.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground()
            >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 0.5))
            >>> sides = {"geometries": ["ground"], "against": ["sphere_0/geometry"]}
            >>> scene.add_distance_sensor("height", **sides, max_distance=2.0)
            'height'
        """
        where = f"sensor '{name}'"
        record = Sensor(
            name, kind, geometries=names_in(f"{where}: geometries", geometries),
            against=names_in(f"{where}: against", against), target=WORLD,
            max_distance=number(where, "max_distance", max_distance),
        )  # fmt: skip
        return attach_sensor(self, record)

    def add_range_sensor(
        self,
        name: str,
        frame: str = WORLD,
        readings: Sequence[str] = ("distance",),
        *,
        image: Sequence[float] | None = None,
        pixels: Sequence[int] | None = None,
        lower: float = float("-inf"),
        upper: float = float("inf"),
    ) -> str:
        """Add a rangefinder with one ray along the z axis of a frame, or one for each pixel of a camera.

        Rays ignore the link of the frame. Of each ray, row by row from the top of the image, it returns, in the order
        of ``readings``,

        - "distance": distance to the nearest geometry, -1 for none [m], and "depth": the same along the camera's axis;
        - "direction", "point" and "normal": direction of the ray, hit point, and normal of the surface; zeros for none;
        - "origin": start of the ray; all in the world.

        Args:
            name: unique name.
            frame: the frame or link; a camera looks along its -z axis, with x to the right and y up.
            readings: quantities that are read of each ray.
            image: intrinsics of a camera: focal lengths along x and y, and the centre of the picture, x to the right
                and y down from its corner [px].
            pixels: number of columns and rows of a camera.
            lower, upper: bounds to which readings are clamped.

        Returns:
            the name of the sensor.

        Raises:
            ModelError: for a duplicate name, an unknown frame or reading, and only one of image and pixels.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground()
            >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 0.5), name="ball")
            >>> scene.add_range_sensor("depth", "ball", ["depth"], image=(8, 8, 4, 3), pixels=(8, 6))
            'depth'
        """
        record = Sensor(
            name, "rangefinder", frame, lower=lower, upper=upper, image=_numbers(image), pixels=_numbers(pixels),
            readings=names_in(f"sensor '{name}': readings", readings),
        )  # fmt: skip
        return attach_sensor(self, record)


def _names(where: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if given is None else names_in(where, given)


def _numbers(given: Sequence[float] | Vector | None) -> Any:
    """Return a vector as a tuple, for a frozen record; anything else is refused by :func:`attach_sensor`."""
    return tuple(items_of("sensor", given, "numbers")) if isinstance(given, Iterable) else given
