"""Readings of a model's sensors along a rollout, as one differentiable tensor."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from sim.errors import ModelError
from sim.model.checks import names_in, require_type
from sim.model.sensors.sensors import FRAME, GEOMETRIES, LINK, SENSOR_KINDS, Sensor
from sim.model.sensors.targets import links_carried
from sim.model.specs import WORLD
from sim.simulation.options import MujocoContact
from sim.simulation.simulator import Simulator
from sim.torch.actuation.actuators import forces_of_actuators, moved_by_actuators, on_joints, require_joints_and_tendons
from sim.torch.actuation.tendon_paths import TendonPaths
from sim.torch.arrays import require_dense
from sim.torch.current_parameters import CurrentRobot, current_parameter, given_parameter, with_given
from sim.torch.modes import PARAMETERS, in_own_precision, not_compiled
from sim.torch.quaternions import quaternion_conjugate, quaternion_product
from sim.torch.robot.robot import Robot
from sim.torch.sensors.contacts import contact_readings
from sim.torch.sensors.formulas import distance_readings, inside, joint_limit, projection, range_readings, tendon_limit
from sim.torch.sensors.slices import Slices

GAIN = "accelerations of joints"
AXES = {f"frame_{axis}_axis": column for column, axis in enumerate("xyz")}


class Sensors(torch.nn.Module):
    """Sensors of a model, see :meth:`sim.ModelBuilder.add_sensor`; those of an MJCF file are included.

    Step t reads the state before it, as MuJoCo's ``sensordata`` after a step does, and the acceleration there, contacts
    included. With hard contact that is the change of velocity over the step's time. Under MuJoCo's law it is, as in
    MuJoCo, the law's acceleration before an integrator is applied: :func:`sim.torch.rollout` with ``sensors`` keeps it.
    From states alone it is recomputed for the integrator "euler", which treats the damping of joints implicitly; with
    the others it is the change of velocity there too. Quaternions are xyzw. An accelerometer and
    "frame_linear_acceleration" give the acceleration of a frame's origin less gravity, the one along the frame's axes
    and the other along the world's.

    Args:
        simulator: the one that makes the rollouts; a reading uses its present parameters, but for those given with it.
        names: names of the sensors to read, in this order. Default: all but those of contacts and forces that the
            simulator doesn't measure.

    Attributes:
        simulator: as given.
        names: names of the sensors.
        slices: slice of a reading for each sensor.

    Raises:
        ModelError: for an unknown name, and for a sensor of contacts, of touch or of a limit's force that isn't among
            the simulator's ``contact_sensors``.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_urdf("scenes/robots/manipulator.urdf", self_collision=False)
        >>> _ = scene.add_sensor("elbow", "joint_position", "joint4")
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
        >>> sensors = sim.torch.Sensors(simulator)
        >>> q, qd = sim.torch.rollout(simulator, torch.full((1, 7), 0.2), torch.zeros(1, 7), steps=3)
        >>> sensors.names, sensors(q, qd).shape
        (('elbow',), torch.Size([3, 1, 1]))
    """

    def __init__(self, simulator: Simulator, names: Sequence[str] | None = None):
        super().__init__()
        require_type("Sensors: simulator", simulator, Simulator, "a sim.Simulator")
        known = {sensor.name: sensor for sensor in simulator.model.sensors}
        measured = simulator.contact_sensors
        found = [name for name, each in known.items() if name in measured or not SENSOR_KINDS[each.kind].by_forces]
        self.names = tuple(found) if names is None else names_in("Sensors: names", names)
        self.slices = Slices(tuple(known), tuple(found))
        for name in self.names:
            if name not in found:
                raise self.slices.why_not(name)
        self.simulator, self._sensors = simulator, [known[name] for name in self.names]
        end = 0
        for sensor in self._sensors:
            self.slices[sensor.name] = slice(end, end := end + sensor.numbers)
        self._current = CurrentRobot(simulator)

    def extra_repr(self) -> str:
        """Return the sensors' names, for ``repr``."""
        return ", ".join(self.slices)

    @property
    def needs_acceleration(self) -> bool:
        """True if a rollout must keep accelerations for these sensors, since states don't determine them."""
        by_acceleration = any(SENSOR_KINDS[sensor.kind].by_acceleration for sensor in self._sensors)
        return by_acceleration and isinstance(self.simulator.contact, MujocoContact)

    @not_compiled(PARAMETERS)
    @in_own_precision
    def forward(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        control: torch.Tensor | None = None,
        contact_force: torch.Tensor | None = None,
        acceleration: torch.Tensor | None = None,
        act: torch.Tensor | None = None,
        **parameters: torch.Tensor,
    ) -> torch.Tensor:
        """Compute all readings of a rollout.

        Args:
            q: coordinates [steps + 1, num_worlds, nq], as :func:`sim.torch.rollout` returns them.
            qd: velocities [steps + 1, num_worlds, nv].
            control: the inputs [steps, num_worlds, nu], where forces of actuators are read.
            contact_force: that of a :class:`sim.torch.Rollout` [steps, num_worlds, sensors, 3], where those of
                contacts, touch and limits are read.
            acceleration: of joints at the states before each step [steps, num_worlds, nv], as
                :func:`sim.torch.rollout` with ``sensors`` keeps it. Default: taken from the states.
            act: states of actuators that have one [steps + 1, num_worlds, na], where their forces are read.
            **parameters: those that the rollout was given, as for :func:`sim.torch.rollout`.

        Returns:
            [steps, num_worlds, numbers], in SI units and rad; ``slices`` gives each sensor's slice.

        Raises:
            ModelError: for fewer than two states, missing inputs, parameters of an unknown name or wrong shape, and
                sensors of a joint's force and torque of Runge-Kutta steps without their accelerations.
        """
        for label, value in (("q", q), ("qd", qd)):
            require_dense(f"Sensors: {label}", value)
            if value.dim() != 3:
                raise ModelError(
                    f"Sensors: {label} has shape {tuple(value.shape)}; expected [steps + 1, num_worlds, n]"
                )
        if len(q) < 2 or len(qd) != len(q):
            raise ModelError(
                f"Sensors: q has {len(q)} states and qd {len(qd)}; give the same number of both, at least two"
            )
        given = {name: given_parameter(self.simulator, name, value) for name, value in parameters.items()}
        simulator = with_given(self.simulator, given)
        with self._current.as_given(simulator, q) as robot:
            motion = _Motion(simulator, robot, self._sensors, q, qd, control, contact_force, acceleration, act)
            readings = [motion.read(sensor).clamp(sensor.lower, sensor.upper) for sensor in self._sensors]
        return torch.cat(readings, dim=-1) if readings else q.new_zeros(len(q) - 1, q.shape[1], 0)


class _Motion:
    """A rollout as its sensors see it; shared intermediate results are computed once."""

    def __init__(
        self,
        simulator: Simulator,
        robot: Robot,
        sensors: Sequence[Sensor],
        q: torch.Tensor,
        qd: torch.Tensor,
        control: torch.Tensor | None,
        contact_force: torch.Tensor | None,
        acceleration: torch.Tensor | None,
        act: torch.Tensor | None,
    ):
        self.simulator, self.model, self.robot = simulator, simulator.model, robot
        self.states, self.rates, self.control, self.contact_force = q, qd, control, contact_force
        self.act = act
        self.q, self.qd = q[:-1], qd[:-1]
        self._kept: dict[str, torch.Tensor] = {}
        if acceleration is not None:
            self._kept[GAIN] = acceleration
        self._paths: tuple[torch.Tensor, torch.Tensor] | None = None
        of_frames = [sensor for sensor in sensors if SENSOR_KINDS[sensor.kind].of == FRAME]
        names = {name for sensor in of_frames for name in (sensor.target, sensor.reference)} - {WORLD}
        self._frames = sorted(names)
        self._readers: dict[str, Callable[[Sensor], torch.Tensor]] = {
            "joint_position": lambda sensor: self._of_joint(self.q, self.model.joint_q_start, sensor.target, 1),
            "joint_velocity": lambda sensor: self._of_joint(self.qd, self.model.joint_qd_start, sensor.target, 1),
            "ball_orientation": lambda sensor: torch.nn.functional.normalize(
                self._of_joint(self.q, self.model.joint_q_start, sensor.target, 4), dim=-1
            ),
            "ball_angular_velocity": lambda sensor: self._of_joint(
                self.qd, self.model.joint_qd_start, sensor.target, 3
            ),
            "actuator_position": lambda sensor: self._of_actuator(0, sensor.target),
            "actuator_velocity": lambda sensor: self._of_actuator(1, sensor.target),
            "actuator_force": self._actuator_force,
            "joint_actuator_force": self._joint_actuator_force,
            "joint_limit_position": lambda sensor: joint_limit(*self._before(), sensor.target)[0],
            "joint_limit_velocity": lambda sensor: joint_limit(*self._before(), sensor.target)[1],
            "tendon_position": lambda sensor: self._of_tendon(sensor)[0],
            "tendon_velocity": lambda sensor: self._of_tendon(sensor)[1],
            "tendon_actuator_force": self._tendon_actuator_force,
            "tendon_limit_position": lambda sensor: self._tendon_limit(sensor)[0],
            "tendon_limit_velocity": lambda sensor: self._tendon_limit(sensor)[1],
            "magnetometer": self._magnetometer,
            "rangefinder": lambda sensor: range_readings(self.simulator, self.robot, self.q, sensor),
            "inside": self._inside,
            "camera_projection": self._projection,
            "frame_position": self._from_reference,
            "frame_orientation": self._orientation,
            "frame_linear_velocity": self._linear_velocity,
            "frame_angular_velocity": self._angular_velocity,
            "frame_linear_acceleration": lambda sensor: self._felt(sensor.target),
            "frame_angular_acceleration": lambda sensor: self._acceleration(sensor.target)[..., :3],
            "accelerometer": lambda sensor: self._seen(sensor.target, self._felt(sensor.target)),
            "gyro": lambda sensor: self._seen(sensor.target, self._velocity(sensor.target)[..., :3]),
            "velocimeter": lambda sensor: self._seen(sensor.target, self._velocity(sensor.target)[..., 3:]),
            "potential_energy": self._potential_energy,
            "kinetic_energy": self._kinetic_energy,
            "clock": self._clock,
        }

    def read(self, sensor: Sensor) -> torch.Tensor:
        """Return the readings of a sensor [steps, num_worlds, numbers]."""
        if sensor.kind in AXES:
            return self._seen(sensor.reference, self._rotation(sensor.target)[..., AXES[sensor.kind]])
        if SENSOR_KINDS[sensor.kind].of == LINK:
            return self._subtree(sensor)
        if SENSOR_KINDS[sensor.kind].by_forces:
            return self._measured(sensor)
        if SENSOR_KINDS[sensor.kind].of == GEOMETRIES:
            return distance_readings(self.simulator, self.robot, self.q, sensor)
        return self._readers[sensor.kind](sensor)

    def _measured(self, sensor: Sensor) -> torch.Tensor:
        if self.contact_force is None or len(self.contact_force) != len(self.q):
            raise ModelError(
                f"Sensors: sensor '{sensor.name}' measures contacts or forces; give contact_force of "
                f"rollout(..., contact_forces=True), of {len(self.q)} steps"
            )
        if sensor.kind == "contact":
            return contact_readings(self.simulator, self.robot, self.q, self.qd, self.contact_force, sensor)
        found = self.contact_force[:, :, self.simulator.contact_sensors.index(sensor.name)]
        if SENSOR_KINDS[sensor.kind].numbers == 1:
            return found[..., :1]
        if self.simulator.integrator == "rk4" and GAIN not in self._kept:
            raise ModelError(
                f"Sensors: sensor '{sensor.name}' needs accelerations, which states of Runge-Kutta steps don't "
                "determine; read it with rollout(..., sensors=sensors)"
            )
        return self._seen(sensor.target, self._moving(sensor) - found)

    def _moving(self, sensor: Sensor) -> torch.Tensor:
        """Return the force, or torque about the origin of the frame, that moves a link and its subtree."""
        links = links_carried(self.model, self.model.frame(sensor.target).link)
        mass, arm, position, rotation, velocity = self._carried(links)
        make = lambda: self.robot.frame_acceleration(self.q, self.qd, self._gain())  # noqa: E731
        acceleration = self._once("link accelerations", make)[:, :, links]
        spin, gain = velocity[..., :3], acceleration[..., :3]
        turning = torch.linalg.cross(gain, arm) + torch.linalg.cross(spin, torch.linalg.cross(spin, arm))
        force = mass * (acceleration[..., 3:] + turning - self._gravity()[..., None, :])
        if sensor.kind == "force":
            return force.sum(dim=-2)
        inertia = self._inertia(links, rotation)
        momentum, rate = ((inertia @ x[..., None])[..., 0] for x in (spin, gain))
        lever = position - self._origin(sensor.target)[:, :, None]
        return (rate + torch.linalg.cross(spin, momentum) + torch.linalg.cross(lever, force)).sum(dim=-2)

    def _of_joint(self, values: torch.Tensor, starts: np.ndarray, joint: str, count: int) -> torch.Tensor:
        start = int(starts[self.model.joint_names.index(joint)])
        return values[..., start : start + count]

    def _of_actuator(self, which: int, actuator: str) -> torch.Tensor:
        """Return position (0) or velocity (1) of an actuator's joint or tendon, times its gear."""
        number = self._followed(actuator)
        make = lambda: torch.stack(moved_by_actuators(self.simulator, self.q, self.qd, self._tendons()))  # noqa: E731
        moved = self._once("moved by actuators", make)
        return self._gear()[..., number, None] * moved[which, ..., number : number + 1]

    def _followed(self, actuator: str) -> int:
        """Return the index of an actuator on a joint or a tendon. Raises ModelError for one on a frame or on
        contacts.
        """
        number = self.model.actuator_names.index(actuator)
        require_joints_and_tendons(self.model, "Sensors", [number])
        return number

    def _gear(self) -> torch.Tensor:
        return current_parameter(self.simulator, "actuator_gear", self.q)

    def _tendons(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return lengths and slopes of tendons, if an actuator acts on one."""
        return self._tendon_paths() if (self.model.actuator_tendon >= 0).any() else None

    def _tendon_paths(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return lengths and slopes of all tendons."""
        if self._paths is None:
            self._paths = TendonPaths(self.simulator, self.robot)(self.q)
        return self._paths

    def _forces(self) -> torch.Tensor:
        if self.control is None:
            raise ModelError("Sensors: actuator forces need the inputs of the rollout; give control")
        given = (self.simulator, self.states, self.rates, self.control, self.act)
        return self._once("forces", lambda: forces_of_actuators(*given, self._tendons()))

    def _actuator_force(self, sensor: Sensor) -> torch.Tensor:
        number = self._followed(sensor.target)
        return self._forces()[..., number : number + 1]

    def _joint_actuator_force(self, sensor: Sensor) -> torch.Tensor:
        if not self.model.nu:
            return torch.zeros_like(self.qd[..., :1])
        require_joints_and_tendons(self.model, "Sensors")
        make = lambda: on_joints(self.simulator, self._forces(), self._tendons())  # noqa: E731
        return self._of_joint(self._once("on joints", make), self.model.joint_qd_start, sensor.target, 1)

    def _before(self) -> tuple[Simulator, torch.Tensor, torch.Tensor]:
        return self.simulator, self.q, self.qd

    def _of_tendon(self, sensor: Sensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return length and rate of a tendon."""
        number = self.model.tendons.names.index(sensor.target)
        length, slope = (each[:, :, number] for each in self._tendon_paths())
        return length[..., None], (slope * self.qd).sum(dim=-1, keepdim=True)

    def _kinetic_energy(self, sensor: Sensor) -> torch.Tensor:
        """Return the kinetic energy of bodies, rotors of joints and tendons."""
        energy = self.robot.kinetic_energy(self.q, self.qd)
        if self.model.tendons.names and self.simulator.parameters["tendon_armature"].any():
            armature = current_parameter(self.simulator, "tendon_armature", self.q)
            rates = (self._tendon_paths()[1] @ self.qd[..., None])[..., 0]
            energy = energy + 0.5 * (armature * rates**2).sum(dim=-1)
        return energy[..., None]

    def _potential_energy(self, sensor: Sensor) -> torch.Tensor:
        """Return the potential energy of gravity and of springs of joints and tendons."""
        energy = self.robot.potential_energy(self.q)
        if not self.model.tendons.names:
            return energy[..., None]
        stiffness, curve, lower, upper = (
            current_parameter(self.simulator, f"tendon_{name}", self.q)
            for name in ("stiffness", "stiffness_polynomial", "rest_lower", "rest_upper")
        )
        length = self._tendon_paths()[0]
        stretch = (length - upper).clamp(min=0.0) + (length - lower).clamp(max=0.0)
        mean = 0.5 * stiffness + curve[..., 0] * stretch / 3.0 + curve[..., 1] * stretch**2 / 4.0
        return (energy + (mean * stretch**2).sum(dim=-1))[..., None]

    def _tendon_limit(self, sensor: Sensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the limit of a tendon; zero if no joint changes the length, since the limit doesn't act then."""
        number = self.model.tendons.names.index(sensor.target)
        moves = (self._tendon_paths()[1][:, :, number] != 0.0).any(dim=-1, keepdim=True)
        position, rate = tendon_limit(self.simulator, *self._of_tendon(sensor), sensor.target)
        return torch.where(moves, position, 0.0), torch.where(moves, rate, 0.0)

    def _tendon_actuator_force(self, sensor: Sensor) -> torch.Tensor:
        tendon = self.model.tendons.names.index(sensor.target)
        acting = torch.as_tensor(self.model.actuator_tendon == tendon, device=self.q.device)
        if not acting.any():
            return torch.zeros_like(self.qd[..., :1])
        return (self._forces() * acting).sum(dim=-1, keepdim=True)  # without gears, as MuJoCo

    def _magnetometer(self, sensor: Sensor) -> torch.Tensor:
        field = torch.tensor(sensor.magnetic_field, dtype=self.q.dtype, device=self.q.device)
        return self._seen(sensor.target, field.expand(*self.q.shape[:2], 3))

    def _clock(self, sensor: Sensor) -> torch.Tensor:
        times = self.simulator.dt * torch.arange(len(self.q), dtype=self.q.dtype, device=self.q.device)
        return times[:, None, None].expand(*self.q.shape[:2], 1)

    def _gain(self) -> torch.Tensor:
        """Return accelerations of joints: given, or from states, before Euler's implicit damping."""

        def make() -> torch.Tensor:
            change = torch.diff(self.rates, dim=0)
            gain = change / self.simulator.dt
            damping = current_parameter(self.simulator, "damping", self.q)
            implicit = self.simulator.integrator == "euler" and isinstance(self.simulator.contact, MujocoContact)
            if not (implicit and damping.any()):
                return gain
            # A step solves (M + dt D) gain = forces, and its sensors M (gain + more) = forces.
            mass = self.robot.mass_matrix(self.q)
            if self.model.tendons.names:
                armature = current_parameter(self.simulator, "tendon_armature", self.q)
                slope = self._tendon_paths()[1]
                mass = mass + slope.mT @ (armature[..., None] * slope)
            return gain + torch.linalg.solve(mass, (damping * change)[..., None])[..., 0]

        return self._once(GAIN, make)

    # ---- frames ------------------------------------------------------------------------------------------------

    def _once(self, what: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if what not in self._kept:
            self._kept[what] = make()
        return self._kept[what]

    def _of_frame(self, what: str, make: Callable[[], torch.Tensor], frame: str) -> torch.Tensor:
        return self._once(what, make)[:, :, self._frames.index(frame)]

    def _pose(self, frame: str) -> torch.Tensor:
        make = lambda: self.robot.forward_kinematics_matrix(self.q, self._frames)  # noqa: E731
        return self._of_frame("pose", make, frame)

    def _rotation(self, frame: str) -> torch.Tensor:
        if frame == WORLD:
            return torch.eye(3, dtype=self.q.dtype, device=self.q.device).expand(*self.q.shape[:2], 3, 3)
        return self._pose(frame)[..., :3, :3]

    def _velocity(self, frame: str) -> torch.Tensor:
        """Return the velocity along the world's axes, angular first; zero for the world."""
        if frame == WORLD:
            return self.q.new_zeros(*self.q.shape[:2], 6)
        make = lambda: self.robot.frame_velocity(self.q, self.qd, self._frames)  # noqa: E731
        return self._of_frame("velocity", make, frame)

    def _acceleration(self, frame: str) -> torch.Tensor:
        if frame == WORLD:
            return self.q.new_zeros(*self.q.shape[:2], 6)
        make = lambda: self.robot.frame_acceleration(self.q, self.qd, self._gain(), self._frames)  # noqa: E731
        return self._of_frame("acceleration", make, frame)

    def _felt(self, frame: str) -> torch.Tensor:
        """Return the acceleration of a frame's origin less gravity, along the world's axes."""
        return self._acceleration(frame)[..., 3:] - self._gravity()

    def _gravity(self) -> torch.Tensor:
        return current_parameter(self.simulator, "gravity", self.q)

    def _origin(self, frame: str) -> torch.Tensor:
        return self.q.new_zeros(*self.q.shape[:2], 3) if frame == WORLD else self._pose(frame)[..., :3, 3]

    def _seen(self, frame: str, vector: torch.Tensor) -> torch.Tensor:
        """Express a vector of the world along the axes of a frame."""
        return vector if frame == WORLD else (self._rotation(frame).mT @ vector[..., None])[..., 0]

    def _position(self, sensor: Sensor) -> torch.Tensor:
        """Return the position from the origin of the reference, along the world's axes."""
        return self._origin(sensor.target) - self._origin(sensor.reference)

    def _inside(self, sensor: Sensor) -> torch.Tensor:
        assert sensor.zone is not None
        assert sensor.zone_size is not None
        return inside(sensor.zone, sensor.zone_size, self._from_reference(sensor))

    def _projection(self, sensor: Sensor) -> torch.Tensor:
        assert sensor.image is not None
        return projection(sensor.image, self._from_reference(sensor))

    def _from_reference(self, sensor: Sensor) -> torch.Tensor:
        """Return the position from the origin of the reference, along the axes of the reference."""
        return self._seen(sensor.reference, self._position(sensor))

    def _orientation(self, sensor: Sensor) -> torch.Tensor:
        make = lambda: self.robot.forward_kinematics(self.q, self._frames)[1]  # noqa: E731
        identity = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=self.q.dtype, device=self.q.device)

        def of(frame: str) -> torch.Tensor:
            if frame == WORLD:
                return identity.expand(*self.q.shape[:2], 4)
            return self._of_frame("orientation", make, frame)

        return quaternion_product(quaternion_conjugate(of(sensor.reference)), of(sensor.target))

    def _angular_velocity(self, sensor: Sensor) -> torch.Tensor:
        difference = self._velocity(sensor.target) - self._velocity(sensor.reference)
        return self._seen(sensor.reference, difference[..., :3])

    def _linear_velocity(self, sensor: Sensor) -> torch.Tensor:
        here, there = self._velocity(sensor.target), self._velocity(sensor.reference)
        carried = torch.linalg.cross(there[..., :3], self._position(sensor))
        return self._seen(sensor.reference, here[..., 3:] - there[..., 3:] - carried)

    # ---- links with their subtrees -----------------------------------------------------------------------------

    def _carried(self, links: list[int]) -> tuple[torch.Tensor, ...]:
        """Return masses, centres of mass from the links' origins and in the world, rotations and velocities of
        links.
        """
        poses = self._once("links", lambda: self.robot.forward_kinematics_matrix(self.q))[:, :, links]
        velocity = self._once("link velocities", lambda: self.robot.frame_velocity(self.q, self.qd))[:, :, links]
        rotation = poses[..., :3, :3]
        mass, com = (current_parameter(self.simulator, name, self.q) for name in ("mass", "com"))
        arm = (rotation @ com[..., links, :, None])[..., 0]
        return mass[..., links, None], arm, poses[..., :3, 3] + arm, rotation, velocity

    def _inertia(self, links: list[int], rotation: torch.Tensor) -> torch.Tensor:
        """Return the inertia about the centres of mass, along the world's axes."""
        return rotation @ current_parameter(self.simulator, "inertia", self.q)[..., links, :, :] @ rotation.mT

    def _subtree(self, sensor: Sensor) -> torch.Tensor:
        """Return centre of mass of a subtree, its velocity, or the angular momentum about it."""
        links = links_carried(self.model, self.model.link_names.index(sensor.target))
        mass, arm, position, rotation, velocity = self._carried(links)
        moving = velocity[..., 3:] + torch.linalg.cross(velocity[..., :3], arm)
        centre, mean = ((mass * x).sum(dim=-2) / mass.sum(dim=-2) for x in (position, moving))
        if sensor.kind == "subtree_com":
            return centre
        if sensor.kind == "subtree_linear_velocity":
            return mean
        spin = (self._inertia(links, rotation) @ velocity[..., :3, None])[..., 0]
        orbit = mass * torch.linalg.cross(position - centre[:, :, None], moving - mean[:, :, None])
        return (spin + orbit).sum(dim=-2)
