"""Sensors of a world."""

from collections.abc import Iterable, Sequence
from typing import Any

from sim.model.checks import names_in, number
from sim.model.sensor_targets import place_sensor
from sim.model.sensors import Sensor
from sim.model.specs import WORLD, Vector, WorldSpec


class Sensors(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` for sensors."""

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
          "accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder", the distance along the frame's z axis
          to the nearest geometry that isn't on its own link, -1 for none, "touch", the sum of normal forces in a zone,
          "inside", 1 where the frame's origin is in a zone around the reference and else 0, "camera_projection", where
          a camera at the reference sees that origin [px], and "force" and "torque", what the link that carries the
          frame's link does to it through their joint, about the frame's origin and along its axes;
        - of a link with all that it carries "subtree_com", "subtree_linear_velocity" and "subtree_angular_momentum";
        - of the world "potential_energy", "kinetic_energy" and "clock";

        and those of :meth:`add_contact_sensor`, :meth:`add_distance_sensor` and :meth:`add_range_sensor`.

        The position of a limit is the distance to the nearest limit less the margin within which it acts, zero farther
        away; its velocity is the rate of that distance there. "touch", "force", "torque" and the forces of limits are
        measured by a simulator that has their names among its ``contact_sensors``. A contact counts for a touch sensor
        where it lies in the zone, or where the way out of the body along its normal leads through the zone. For
        "force" and "torque" a link behind a fixed joint stays a link of its own.

        Args:
            name: unique name.
            kind: what it measures.
            target: the joint, actuator, tendon, frame or link that it looks at; left out for the whole world.
            reference: for positions, orientations, axes and velocities of frames, the frame in which they are measured;
                the frame of the zone in which something is inside; a camera, which looks along its -z axis, with x to
                the right and y up.
            lower, upper: what it gives is held between them.
            magnetic_field: of the world, for a magnetometer; MuJoCo's (0, -0.5, 0) where it isn't given.
            zone: shape of a zone around the frame's origin, of a touch sensor or of one of what is inside: "sphere",
                "capsule", "ellipsoid", "cylinder" or "box".
            zone_size: its size [m]: a radius; radius and half length along z of a capsule or cylinder; three half
                lengths.
            geometries: names of the geometries whose contacts a touch sensor counts.
            image: of a camera, its focal lengths along x and y and the centre of the picture, x to the right and y
                down [px].

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown kind, a target or reference that isn't there or doesn't fit the
                kind, and an empty range.
        """
        record = Sensor(
            name, kind, target, reference, lower, upper, _numbers(magnetic_field), zone, _numbers(zone_size),
            _names(f"sensor '{name}': geometries", geometries), image=_numbers(image),
        )  # fmt: skip
        return place_sensor(self, record)

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
        """Add a sensor of contacts, MuJoCo's ``contact``, which :class:`sim.torch.Sensors` reads along a rollout.

        It is measured by a simulator that has its name among its ``contact_sensors``. Of each contact it gives, in the
        order of ``readings``,

        - "found": how many contacts there are, at the first ones that it has room for; 0 for those that there aren't,
          whose other numbers are 0 too;
        - "force" and "torque": on the second geometry, along the contact's axes: the normal from the first to the
          second geometry and two tangents [N, N m];
        - "distance": between the surfaces, negative where they overlap [m];
        - "position": midway between them, "normal" and "tangent", the first one: in the world;
        - "linear_velocity" and "angular_velocity": of the second geometry beside the first, at the contact, along its
          axes [m/s, rad/s].

        With the choice "net" a single contact stands for all: its axes are the world's, its force is their sum, its
        position their mean weighted by forces, and its torque the one about it; its distance is 0. Under MuJoCo's law
        all contacts within their margins count, with hard contact those that push or overlap.

        Args:
            name: unique name.
            readings: what it reads of each contact.
            geometries: names of the first geometries; None for any.
            against: names of the second ones; None for any. Without either, the order is MuJoCo's: by types and places.
            choice: "first" for the first ones found, "nearest" for those of the least distance, "strongest" for those
                of the greatest force, or "net".
            most: how many contacts it reads.
            frame: of the zone.
            zone, zone_size: as of :meth:`add_sensor`: contacts with a position inside count. None for all.
            lower, upper: what it gives is held between them.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, readings and choices that there aren't, and an unknown frame or geometry.

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
        return place_sensor(self, record)

    def add_distance_sensor(
        self,
        name: str,
        kind: str = "geometry_distance",
        *,
        geometries: Sequence[str],
        against: Sequence[str],
        reach: float = float("inf"),
    ) -> str:
        """Add a sensor of how far two geometries are apart, which :class:`sim.torch.Sensors` reads along a rollout.

        It looks at the two that are nearest to each other, one of each list.

        Args:
            name: unique name.
            kind: "geometry_distance", negative where they overlap [m]; "geometry_points", the nearest points on both
                [m]; or "geometry_normal", the unit vector from the first of these points to the second; in the world.
            geometries, against: names of both sides.
            reach: where they are farther apart [m], the distance is this, and normal and points are zero.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown kind or geometry, and no geometries on a side.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground()
            >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 0.5))
            >>> scene.add_distance_sensor("height", geometries=["ground"], against=["sphere_0/geometry"], reach=2.0)
            'height'
        """
        where = f"sensor '{name}'"
        record = Sensor(
            name, kind, geometries=names_in(f"{where}: geometries", geometries),
            against=names_in(f"{where}: against", against), target=WORLD, reach=number(where, "reach", reach),
        )  # fmt: skip
        return place_sensor(self, record)

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

        Rays pass through the link of the frame. Of each ray it gives, in the order of ``readings``, the upper row of
        pixels first,

        - "distance": to the nearest geometry, -1 for none [m], and "depth": the same along the camera's axis;
        - "direction", "point" and "normal": of the ray, where it ends, and of the surface there; zeros for none;
        - "origin": where it begins; all in the world.

        Args:
            name: unique name.
            frame: the frame or link; a camera looks along its -z axis, with x to the right and y up.
            readings: what it reads of each ray.
            image: of a camera, its focal lengths along x and y and the centre of the picture, x to the right and y
                down from its corner [px].
            pixels: of a camera, numbers of columns and rows.
            lower, upper: what it gives is held between them.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown frame or reading, and an image without pixels or the reverse.

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
        return place_sensor(self, record)


def _names(where: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if given is None else names_in(where, given)


def _numbers(given: Sequence[float] | Vector | None) -> Any:
    """As a tuple, for a record that can't change; what isn't a vector of numbers is refused when it is placed."""
    return tuple(given) if isinstance(given, Iterable) else given
