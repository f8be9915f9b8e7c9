"""Sensors of a world."""

from sim.errors import ModelError
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.sensors.kinds import ACTUATOR, BALL, FRAME, JOINT, LINK, SENSOR_KINDS
from sim.model.sensors.sensor import Sensor
from sim.model.spec_checks import check_name
from sim.model.specs import WORLD, WorldSpec
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
    ) -> str:
        """Add a sensor, which :class:`sim.torch.Sensors` reads along a rollout.

        The kinds, after MuJoCo's, are

        - of joints "joint_position", "joint_velocity", "joint_actuator_force", "ball_orientation" and
          "ball_angular_velocity";
        - of actuators "actuator_position", "actuator_velocity" and "actuator_force";
        - of frames and links "frame_position", "frame_orientation", "frame_x_axis", "frame_y_axis", "frame_z_axis",
          "frame_linear_velocity", "frame_angular_velocity", "frame_linear_acceleration", "frame_angular_acceleration",
          "accelerometer", "gyro" and "velocimeter";
        - of a link with all that it carries "subtree_com", "subtree_linear_velocity" and "subtree_angular_momentum";
        - of the world "potential_energy", "kinetic_energy" and "clock".

        Args:
            name: unique name.
            kind: what it measures.
            target: the joint, actuator, frame or link that it looks at; left out for the whole world.
            reference: for positions, orientations, axes and velocities of frames, the frame in which they are measured.
            lower, upper: what it gives is held between them.

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
        self.sensors[name] = Sensor(name, kind, target, reference, float(lower), float(upper))
        return name

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
        elif of == FRAME and target != WORLD and target not in self.links and target not in self.frames:
            raise ModelError(f"{where}: unknown frame or link '{target}'; add it first")
        elif of == LINK and target not in self.links:
            raise ModelError(f"{where}: unknown link '{target}'; add the link first")
