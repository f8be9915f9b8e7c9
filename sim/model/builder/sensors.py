"""Sensors of a world."""

from collections.abc import Sequence

from sim.errors import ModelError
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.sensors.kinds import ACTUATOR, BALL, FRAME, JOINT, LINK, SENSOR_KINDS, TENDON, ZONE_SIZES
from sim.model.sensors.sensor import Sensor
from sim.model.spec_checks import check_name, finite
from sim.model.specs import WORLD, Vector, WorldSpec
from warp_kernels import types as codes


class Sensors(WorldSpec):
    """The method of :class:`sim.ModelBuilder` for sensors."""

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
          "accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder", the distance
          along the frame's z axis to the nearest geometry that isn't on its own link, -1 for none, "touch", the sum
          of normal forces in a zone, and "force" and "torque", what the link that carries the frame's link does to it
          through their joint, about the frame's origin and along its axes;
        - of a link with all that it carries "subtree_com", "subtree_linear_velocity" and "subtree_angular_momentum";
        - of the world "potential_energy", "kinetic_energy" and "clock".

        The position of a limit is the distance to the nearest limit less the margin within which it acts, zero farther
        away; its velocity is the rate of that distance there. "touch", "force", "torque" and the forces of limits are
        measured by a simulator that has their names among its ``contact_sensors``. A contact counts for a touch sensor
        where it lies in the zone, or where the way out of the body along its normal leads through the zone. For
        "force" and "torque" a link behind a fixed joint stays a link of its own.

        Args:
            name: unique name.
            kind: what it measures.
            target: the joint, actuator, tendon, frame or link that it looks at; left out for the whole world.
            reference: for positions, orientations, axes and velocities of frames, the frame in which they are measured.
            lower, upper: what it gives is held between them.
            magnetic_field: of the world, for a magnetometer; MuJoCo's (0, -0.5, 0) where it isn't given.

            zone: shape of a touch sensor's zone around the frame's origin: "sphere", "capsule", "ellipsoid", "cylinder"
                or "box".
            zone_size: its size [m]: a radius; radius and half length along z of a capsule or cylinder; three half
                lengths.
            geometries: names of the geometries whose contacts it counts; None for those of the frame's link.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown kind, a target or reference that isn't there or doesn't fit the
                kind, and an empty range.
        """
        check_name(name, self.sensors, "sensor")
        where = f"sensor '{name}'"
        if kind not in SENSOR_KINDS:
            raise ModelError(f"{where}: unknown kind '{kind}'; known are {', '.join(SENSOR_KINDS)}")
        self._check_target(where, kind, target)
        if reference != WORLD and not SENSOR_KINDS[kind].relative:
            raise ModelError(f"{where}: a sensor of kind '{kind}' measures in no other frame; leave reference out")
        if reference != WORLD and reference not in self.links and reference not in self.frames:
            raise ModelError(f"{where}: unknown reference '{reference}'; add the frame or link first")
        if not lower < upper:
            raise ModelError(f"{where}: lower is {lower} and upper {upper}; the first must be less than the second")
        field = None
        if kind == "magnetometer":
            given = (0.0, -0.5, 0.0) if magnetic_field is None else magnetic_field
            x, y, z = finite(f"{where}: magnetic_field", given, (3,)).tolist()
            field = (x, y, z)
        elif magnetic_field is not None:
            raise ModelError(f"{where}: a sensor of kind '{kind}' sees no magnetic_field; leave it out")
        size = self._checked_zone(where, kind, target, zone, zone_size, geometries)
        self.sensors[name] = Sensor(
            name, kind, target, reference, float(lower), float(upper), field, zone, size,
            None if geometries is None else tuple(geometries),
        )  # fmt: skip
        return name

    def _checked_zone(
        self,
        where: str,
        kind: str,
        target: str,
        zone: str | None,
        zone_size: Sequence[float] | None,
        geometries: Sequence[str] | None,
    ) -> tuple[float, ...] | None:
        """The size of the zone of a touch sensor; None for other sensors, which have no zone."""
        if kind in ("touch", "force", "torque") and target == WORLD:
            raise ModelError(
                f"{where}: a sensor of kind '{kind}' needs a frame or link as its target; add_frame makes a frame"
            )
        if kind != "touch":
            if zone is not None or zone_size is not None or geometries is not None:
                raise ModelError(f"{where}: zone, zone_size and geometries are for kind 'touch'; leave them out")
            return None
        if zone not in ZONE_SIZES:
            raise ModelError(f"{where}: zone is {zone!r}; a touch sensor needs one of {', '.join(ZONE_SIZES)}")
        given = () if zone_size is None else zone_size
        size = finite(f"{where}: zone_size", given, (ZONE_SIZES[zone],)).tolist()
        if min(size) <= 0.0:
            raise ModelError(f"{where}: zone_size is {size}; it must be positive")
        for name in geometries or ():
            if name not in self.geometries:
                raise ModelError(f"{where}: unknown geometry '{name}'; add the geometry first")
        return tuple(size)

    def _check_target(self, where: str, kind: str, target: str) -> None:
        of = SENSOR_KINDS[kind].of
        if of in (JOINT, BALL):
            if target not in self.joints:
                raise ModelError(f"{where}: unknown joint '{target}'; add the joint first")
            type = self.joints[target].type
            if not (type == codes.SPHERICAL if of == BALL else is_scalar(type)):
                needed = "spherical" if of == BALL else "revolute or prismatic"
                raise ModelError(
                    f"{where}: joint '{target}' is {JOINT_TYPES[type].name}; '{kind}' needs a {needed} one"
                )
        elif of == ACTUATOR and target not in self.actuators:
            raise ModelError(f"{where}: unknown actuator '{target}'; add the actuator first")
        elif of == TENDON and target not in self.tendons:
            raise ModelError(f"{where}: unknown tendon '{target}'; add the tendon first")
        elif of == FRAME and target != WORLD and target not in self.links and target not in self.frames:
            raise ModelError(f"{where}: unknown frame or link '{target}'; add it first")
        elif of == LINK and target not in self.links:
            raise ModelError(f"{where}: unknown link '{target}'; add the link first")
