"""Common part of the tasks of legged robots: servos, observations, random parameters, pushes and terrain."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.envs.task import Task
from sim.envs.tasks.common import contact_of
from sim.envs.tasks.locomotion.checks import (
    require_by_name,
    require_noise,
    require_numbers,
    require_spread,
    require_weights,
)
from sim.envs.tasks.locomotion.legged_robot import ByJoint, LeggedRobot, by_joint
from sim.errors import ModelError
from sim.model.checks import require_type
from sim.model.model import Model, MujocoOptions
from sim.rays.patterns import grid_pattern
from sim.rays.targets import RayTargets
from sim.simulation.options import ContactMethod, contact_of_file
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.quaternions import quaternion_conjugate, quaternion_product, rotated
from sim.torch.rays import height_scan
from sim.torch.robot.robot import Robot

STANDS = 1.0  # vertical force on a foot that stands [N]
SCAN_SIZE, SCAN_SPACING = (1.2, 0.8), 0.2  # of the heights around the robot that it observes [m]
MUJOCO = MujocoOptions(integrator="implicitfast", cone="elliptic")  # stable with the gains of servos
LONGEST = 2**31  # largest number of steps by which the intervals of environments differ
FARTHEST = 1.0  # heights are observed up to this difference from those of flat ground [m]


class LeggedTask(Task):
    """A task of a legged robot, whose actions change the targets of its servos from those of the standing robot.

    The reward is a sum of :meth:`terms` with weights, and has gradients. Derive from this class for a task of your own.

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, "hard" or "mujoco", which takes MuJoCo's steps: with the settings of an MJCF
            file, or with the integrator "implicitfast" and elliptic cones.
        **settings: attributes that differ from those of the class, such as ``push=1.0``; see :meth:`setting_names`.

    Attributes:
        robot: as given.
        action_scale: change of a servo's target for an action of 1 [rad]; one number, or numbers by joint, chosen by
            regular expressions as in :func:`sim.envs.legged_robot`.
        start_bend: largest distance of a joint from the standing pose at the beginning [rad].
        start_speed: largest velocity of the base at the beginning [m/s, rad/s].
        push: largest velocity along x and y that a push adds [m/s].
        push_seconds: time between two pushes [s].
        spread: smallest and largest factor of parameters that are drawn for each episode, by name; friction is that of
            the robot alone, and that of mass also scales the inertias. "actuator_delay" needs servos with a delay.
        noise: standard deviation of what the policy observes, by the names of :meth:`measurements`.
        weights: weights of the reward's terms, by the names of :meth:`terms`, per second; each term has one.

    Raises:
        ModelError: for a robot without feet or servos, an unknown law, an unknown setting, values that don't fit one,
            and names in ``spread`` that are no parameters; in the first step for names in ``weights`` and ``noise``
            that are no terms and no observations.

    Example:
        >>> import sim.envs
        >>> class Still(sim.envs.LeggedTask):
        ...     weights = {"motion": -1.0}
        ...
        ...     def terms(self, before, action, after):
        ...         return {"motion": after.qd.square().sum(dim=1)}
        >>> stand = {".*thigh.*": 0.8, ".*calf.*": -1.6}
        >>> task = Still(sim.envs.legged_robot("scenes/robots/quadruped.urdf", stand, kp=60.0, kd=2.0))
        >>> sim.envs.VectorEnv(task, 4, device="cpu", seed=0).num_observations
        45
    """

    dt, frame_skip, max_episode_length = 1 / 200, 4, 1000
    state_limit = (1e3, 1e3)
    action_scale: ByJoint = 0.5
    start_bend: float = 0.1
    start_speed: float = 0.3
    push: float = 0.3
    push_seconds: float = 8.0
    spread: Mapping[str, tuple[float, float]] = MappingProxyType(
        {"friction": (0.5, 1.2), "mass": (0.9, 1.1), "actuator_kp": (0.9, 1.1), "actuator_kd": (0.9, 1.1)}
    )
    noise: Mapping[str, float] = MappingProxyType(
        {"velocity": 0.05, "rate": 0.1, "down": 0.02, "joints": 0.01, "speeds": 0.5, "heights": 0.03}
    )
    weights: Mapping[str, float] = MappingProxyType({})

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        name = type(self).__name__
        for setting, value in settings.items():
            if setting not in self.setting_names():
                raise ModelError(f"{name} has no setting '{setting}'; it has {', '.join(self.setting_names())}")
            setattr(self, setting, value)
        require_type(f"{name}: robot", robot, LeggedRobot, "a LeggedRobot, as sim.envs.legged_robot returns it")
        if not robot.feet:
            raise ModelError(f"{name}: the robot has no feet; name the geometries of each foot")
        if not robot.model.nu:
            raise ModelError(f"{name}: robot: its joints have no servos; give legged_robot their gains kp and kd")
        super().__init__(robot.model.dtype)
        require_spread(name, self.spread, robot.model)
        require_numbers(self, ("start_bend", "start_speed", "push"), ("push_seconds",))
        require_by_name(f"{name}.noise", self.noise, 0.0)
        require_by_name(f"{name}.weights", self.weights)
        self._contact = contact_of(law, name)
        if law == "mujoco":
            stated = next((part.mujoco for part in robot.model.parts if part.mujoco is not None), MUJOCO)
            parts = tuple(replace(part, mujoco=stated) for part in robot.model.parts)
            robot = replace(robot, model=replace(robot.model, mujoco=stated, parts=parts))
            self._contact, self.integrator = contact_of_file(stated), stated.integrator
        self.robot = robot
        self.sensors = tuple(name for foot in robot.feet for name in foot)
        self.logged = () if robot.terrain is None else ("level",)
        self._start = torch.tensor(robot.q, dtype=TORCH_DTYPES[self.dtype])
        self._servos = torch.as_tensor(robot.servos.copy())
        self._change = self.of_joints("action_scale", self.action_scale)[self._servos]
        self._gear = torch.tensor(robot.model.parameters["actuator_gear"])
        names = {*self.spread, "inertia"}
        self._given = {name: torch.tensor(value) for name, value in robot.model.parameters.items() if name in names}
        static = [robot.model.is_static(geometry) for geometry in robot.model.geometries]
        self._moves = ~torch.tensor(static)
        self._scaled = {}  # indices of the entries that show the factor of each parameter
        for parameter in self.spread:
            given = self._given[parameter].flatten()
            shows = given.isfinite() & (given != 0.0)
            self._scaled[parameter] = (shows & self._moves if parameter == "friction" else shows).nonzero()[:, 0]
        self._robots: dict[torch.device, Robot] = {}
        if robot.terrain is not None:
            self._grid = [*grid_pattern(SCAN_SIZE, SCAN_SPACING).tolist(), (0.0, 0.0)]  # the last below the base

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Return the names of the attributes that are arguments, too: those that legged tasks declare."""
        kinds = [kind for kind in reversed(cls.__mro__) if issubclass(kind, LeggedTask)]
        names = [name for kind in kinds for name in vars(kind).get("__annotations__", {}) if not name.startswith("_")]
        return (*dict.fromkeys(names), "max_episode_length")

    def of_joints(self, setting: str, given: ByJoint) -> torch.Tensor:
        """Return a setting's number of each joint of the robot [joints].

        Raises:
            ModelError: for expressions that are invalid or match no joint, joints without a number, and for what isn't
                a number.
        """
        where, joints = f"{type(self).__name__}.{setting}", self.robot.joints
        found = by_joint(where, given, joints)
        for joint in joints:
            if joint not in found:
                raise ModelError(f"{where} has no number for the joint '{joint}'; add '.*', which matches all others")
        return torch.tensor([found[joint] for joint in joints], dtype=TORCH_DTYPES[self.dtype])

    def model(self) -> Model:
        """Return the model of robot and ground."""
        return self.robot.model

    def contact(self) -> ContactMethod:
        """Return the options of the chosen law."""
        return self._contact

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Return the parameters of :attr:`spread`, each with one random factor for each episode, and with "mass" the
        inertias.
        """
        factors, found = {}, {}
        for name, bounds in self.spread.items():
            factors[name] = self.uniform((n, 1), generator, *bounds)
            if name == "friction":
                moves = self._moves.to(generator.device)
                factors[name] = torch.where(moves, factors[name], torch.ones_like(factors[name]))
            given = self._given[name].to(factors[name])
            found[name] = factors[name].reshape(n, -1, *[1] * (given.dim() - 1)) * given
        if "mass" in factors:
            inertia = found.get("inertia", self._given["inertia"].to(factors["mass"]))
            found["inertia"] = factors["mass"][:, :, None, None] * inertia
        return found

    # ---- episodes ------------------------------------------------------------------------------------------------

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots as :meth:`starts` has them, on terrain on the tile of their level."""
        n, generator, model = len(new), new.generator, self.robot.model
        q, qd = self.starts(n, generator)
        data = {}
        if self.robot.terrain is not None:
            data = self._tiles(new)
            q[:, :3] += data["origin"]
            data["heights"] = self.scan(q)
        longest = int(min(self.max_episode_length, LONGEST))
        data |= {
            "action": torch.zeros(n, model.nu).to(q),
            "air": torch.zeros(n, len(self.robot.feet)).to(q),
            "offset": torch.randint(longest, (n,), generator=generator, device=q.device),
        }
        held = None
        if model.na:  # servos with a delay, of robots that have stood for a while
            targets = self.robot.q[7:][self.robot.servos] * self._gear.numpy()
            held = torch.tensor(model.act_holding(targets)).to(q).repeat(n, 1)
        return self.episodes(q, qd, data, held)

    def starts(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return coordinates [n, nq] and velocities [n, nv] of robots at the origin: standing, with any heading, almost
        at rest.
        """
        q = self._start.to(generator.device).repeat(n, 1)
        half = self.uniform((n, 1), generator, -0.5 * math.pi, 0.5 * math.pi)
        heading = torch.cat([torch.zeros(n, 2).to(half), half.sin(), half.cos()], dim=1)
        q[:, 3:7] = quaternion_product(heading, q[:, 3:7])
        q[:, 7:] += self.uniform((n, q.shape[1] - 7), generator, -self.start_bend, self.start_bend)
        qd = torch.zeros(n, self.robot.model.nv).to(q)
        qd[:, :6] = self.uniform((n, 6), generator, -self.start_speed, self.start_speed)
        return q, qd

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the targets of the servos."""
        targets = self._start.to(action)[7:][self._servos.to(action.device)]
        return {"control": self._gear.to(action) * (targets + self._change.to(action) * action)}

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the last action, the time that each foot has been in the air [s], and heights on terrain."""
        air = torch.where(self.stands(after), 0.0, before.data["air"] + self.step_dt)
        heights = {} if self.robot.terrain is None else {"heights": self.scan(after.q)}
        return {"action": action, "air": air, **heights}

    def events(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return velocities after pushes, where their time has come."""
        if self.push == 0.0:
            return {}
        push = torch.zeros_like(state.qd)
        push[:, :2] = self.uniform((len(push), 2), state.generator, -self.push, self.push)
        return {"qd": torch.where(self.due(state, self.push_seconds), state.qd + push, state.qd)}

    def due(self, state: TaskState, seconds: float) -> torch.Tensor:
        """Return a mask of environments [n, 1] at an interval's end; their intervals have different beginnings."""
        interval = max(round(seconds / self.step_dt), 1)
        return ((state.steps + state.data["offset"]) % interval == 0)[:, None]

    def _kinematics(self, device: torch.device) -> Robot:
        """Return the kinematics of robot and ground on a device, made once."""
        if device not in self._robots:
            self._robots[device] = Robot(self.robot.model, device=device)
        return self._robots[device]

    # ---- observations --------------------------------------------------------------------------------------------

    def motion(self, state: TaskState) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return velocity [m/s], angular velocity [rad/s] and the direction of gravity along the axes of the base, each
        [n, 3].
        """
        into = quaternion_conjugate(state.q[:, 3:7])
        down = torch.zeros_like(state.q[:, :3])
        down[:, 2] = -1.0
        vectors = torch.stack([state.qd[:, :3], state.qd[:, 3:6], down], dim=1)
        velocity, rate, down = rotated(into[:, None], vectors).unbind(dim=1)
        return velocity, rate, down

    def bent(self, state: TaskState) -> torch.Tensor:
        """Return the angles of the joints relative to the standing robot [n, joints], rad."""
        return state.q[:, 7:] - self._start.to(state.q)[7:]

    def forces(self, state: TaskState) -> torch.Tensor:
        """Return the contact force on each foot along world axes [n, feet, 3], N."""
        feet = [torch.stack([state.readings[name] for name in foot]).sum(dim=0) for foot in self.robot.feet]
        return torch.stack(feet, dim=1)

    def stands(self, state: TaskState) -> torch.Tensor:
        """Return a mask of the feet that stand [n, feet]."""
        return self.forces(state)[:, :, 2] > STANDS

    def height(self, state: TaskState) -> torch.Tensor:
        """Return the height of the base above the ground [n], m; infinite beyond the border of a terrain."""
        return state.q[:, 2] if self.robot.terrain is None else -state.data["heights"][:, -1]

    def measurements(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return what the policy observes, by name, without noise."""
        velocity, rate, down = self.motion(state)
        found = {
            "velocity": velocity,
            "rate": rate,
            "down": down,
            "joints": self.bent(state),
            "speeds": state.qd[:, 6:],
            "action": state.data["action"],
        }
        if self.robot.terrain is not None:
            found["heights"] = (state.data["heights"] + self.robot.height).clamp(-FARTHEST, FARTHEST)
        return found

    def observe(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return the groups "policy", with noise, and "critic": exact, with forces on the feet and random factors."""
        exact = self.measurements(state)
        require_noise(type(self).__name__, self.noise, {**exact, **LeggedTask.noise})
        noisy = [
            value + self.normal(value.shape, state.generator, self.noise[name]) if self.noise.get(name) else value
            for name, value in exact.items()
        ]
        weight = 9.81 * float(self.robot.model.parameters["mass"].sum())
        drawn = [self.factor(state, name) for name in self.spread]
        known = [*exact.values(), self.forces(state).flatten(1) / weight, *drawn]
        return {"policy": torch.cat(noisy, dim=1), "critic": torch.cat(known, dim=1)}

    def factor(self, state: TaskState, name: str) -> torch.Tensor:
        """Return the mean factor of a parameter in :attr:`spread` [n, 1]; 1 for one that is zero or infinite."""
        given, index = self._given[name].flatten(), self._scaled[name]
        if len(index) == 0:
            return torch.ones_like(state.q[:, :1])
        drawn = state.parameters[name].flatten(1)[:, index.to(state.q.device)]
        return (drawn / given[index].to(state.q)).mean(dim=1, keepdim=True)

    # ---- rewards -------------------------------------------------------------------------------------------------

    @abstractmethod
    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms times their weights and the duration of the step."""
        terms = self.terms(before, action, after)
        require_weights(type(self).__name__, self.weights, terms)
        return {name: self.step_dt * weight * terms[name] for name, weight in self.weights.items()}

    def acceleration(self, before: TaskState, after: TaskState) -> torch.Tensor:
        """Return the sum of squares of the mean accelerations of all joints in a step [n], (rad/s^2)^2."""
        return sum_of_squares((after.qd[:, 6:] - before.qd[:, 6:]) / self.step_dt)

    # ---- terrain -------------------------------------------------------------------------------------------------

    def next_level(self, last: TaskState) -> torch.Tensor:
        """Return the level after an episode [n]; one beyond the last becomes a random one. Default: the same."""
        return last.data["level"]

    def scan(self, q: torch.Tensor) -> torch.Tensor:
        """Return heights of a terrain relative to the base [n, points], m; the last is below it."""
        others = RayTargets(exclude=self.robot.links)
        return height_scan(self._kinematics(q.device), q, self.robot.base, self._grid, others)

    def _tiles(self, new: NewEpisodes) -> dict[str, torch.Tensor]:
        """Return level and origin of the tiles on which episodes begin, whose kind stays that of the environment."""
        assert self.robot.terrain is not None
        origins = torch.as_tensor(self.robot.terrain.origins).to(new.generator.device, TORCH_DTYPES[self.dtype])
        levels, kinds = origins.shape[:2]
        first = max(levels // 2, 1) if new.last is None else levels  # the first episodes are on the easier half
        drawn = torch.randint(first, (len(new),), generator=new.generator, device=origins.device)
        level = drawn if new.last is None else self.next_level(new.last)
        level = torch.where(level >= levels, drawn, level.clamp(min=0))
        return {"level": level, "origin": origins[level, new.rows % kinds]}


def sum_of_squares(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of squares over the last dimension."""
    return values.square().sum(dim=-1)
