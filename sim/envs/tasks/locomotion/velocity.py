"""Velocity commands for legged robots, on flat ground and on terrain."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.envs.task import DTYPES, Task
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot
from sim.model.model import Model
from sim.rays.patterns import grid_pattern
from sim.rays.targets import RayTargets
from sim.torch.quaternions import quaternion_conjugate, quaternion_product, rotated
from sim.torch.rays import height_scan
from sim.torch.robot.robot import Robot

STANDS = 1.0  # vertical force on a foot that stands [N]
SCAN_SIZE, SCAN_SPACING = (1.2, 0.8), 0.2  # of the heights around the robot that it observes [m]
ERRORS = ("speed_error", "turn_error")  # data of an episode: mean errors so far [m/s, rad/s]
FARTHEST = 1.0  # heights are observed up to this difference from those of flat ground [m]


class VelocityTask(Task):
    """A legged robot that follows velocities ahead, to the left and about the vertical.

    An action changes the targets of the servos, which are those of the standing robot at zero. The reward is a sum of
    :meth:`terms` with weights, and has gradients. Derive from this class to change the attributes, add terms, or
    replace observations: docs/learning.md does it in 40 lines.

    On terrain the robot also observes heights around it (:func:`sim.torch.height_scan`), and episodes have a level: a
    robot that leaves its tile begins on the next one, and one that walks less than half as far as commanded on the one
    before.

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.

    Attributes:
        robot: as given.
        commands: smallest and largest velocity ahead and to the left [m/s], and about the vertical [rad/s].
        command_seconds: time after which a new command is drawn [s].
        idle: fraction of the commands that are zero.
        action_scale: change of a servo's target for an action of 1 [rad].
        tilt: largest angle between base and vertical, beyond which an episode fails [rad].
        least_height: smallest height of the base above the ground, relative to that of the standing robot.
        push: largest velocity along x and y that a push adds [m/s].
        push_seconds: time between two pushes [s].
        spread: smallest and largest factor of parameters that are drawn for each episode, by name; friction is that of
            the robot alone. "actuator_delay" needs servos with a delay.
        noise: standard deviation of what the policy observes, by the names of :meth:`measurements`.
        weights: weights of the reward's terms, by the names of :meth:`terms`, per second.

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedVelocity", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape, observation["critic"].shape
        (torch.Size([4, 48]), torch.Size([4, 64]))
    """

    dt, frame_skip, max_episode_length = 1 / 200, 4, 1000
    state_limit = (1e3, 1e3)
    commands: Sequence[tuple[float, float]] = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    command_seconds: float = 5.0
    idle: float = 0.05
    action_scale: float = 0.5
    tilt: float = 1.0
    least_height: float = 0.5
    push: float = 0.3
    push_seconds: float = 8.0
    spread: Mapping[str, tuple[float, float]] = MappingProxyType(
        {"friction": (0.5, 1.2), "mass": (0.9, 1.1), "actuator_kp": (0.9, 1.1), "actuator_kd": (0.9, 1.1)}
    )
    noise: Mapping[str, float] = MappingProxyType(
        {"velocity": 0.05, "rate": 0.1, "down": 0.02, "joints": 0.01, "speeds": 0.5, "heights": 0.03}
    )
    weights: Mapping[str, float] = MappingProxyType({
        "velocity": 1.5, "turn": 0.75, "vertical": -2.0, "tilt_rate": -0.05, "level": -2.5, "smooth": -0.01,
        "acceleration": -2.5e-7, "air": 0.5, "pose": -0.1,
    })  # fmt: skip

    def __init__(self, robot: LeggedRobot):
        super().__init__(robot.model.dtype)
        self.robot = robot
        self.sensors = tuple(name for foot in robot.feet for name in foot)
        self.logged = (*ERRORS, *(() if robot.terrain is None else ("level",)))
        self._start = torch.tensor(robot.q, dtype=DTYPES[self.dtype])
        self._servos = torch.as_tensor(robot.servos.copy())
        self._given = {name: torch.tensor(robot.model.parameters[name]) for name in self.spread}
        static = [robot.model.is_static(geometry) for geometry in robot.model.geometries]
        self._moves = ~torch.tensor(static)
        if robot.terrain is not None:
            self._rays = Robot(robot.model, device="cpu")
            self._grid = [*grid_pattern(SCAN_SIZE, SCAN_SPACING).tolist(), (0.0, 0.0)]  # the last below the base

    def model(self) -> Model:
        """Return the model of robot and ground."""
        return self.robot.model

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Return the parameters of :attr:`spread`, each with one random factor for each episode."""
        found = {}
        for name, bounds in self.spread.items():
            factor = self.uniform((n, 1), generator, *bounds)
            if name == "friction":
                factor = torch.where(self._moves.to(factor.device), factor, torch.ones_like(factor))
            found[name] = factor * self._given[name].to(factor)
        return found

    # ---- episodes ------------------------------------------------------------------------------------------------

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots that stand, with any heading, almost at rest; on terrain on the tile of their level."""
        n, generator = len(new), new.generator
        start = self._start.to(generator.device)
        q, data = start.repeat(n, 1), {}
        if self.robot.terrain is not None:
            data = self._tiles(new)
            q[:, :3] = data["origin"]
            q[:, 2] += self.robot.height
        half = self.uniform((n, 1), generator, -0.5 * math.pi, 0.5 * math.pi)
        heading = torch.cat([torch.zeros(n, 2).to(half), half.sin(), half.cos()], dim=1)
        q[:, 3:7] = quaternion_product(heading, q[:, 3:7])
        q[:, 7:] += self.uniform((n, len(start) - 7), generator, -0.1, 0.1)
        qd = torch.zeros(n, self.robot.model.nv).to(q)
        qd[:, :6] = self.uniform((n, 6), generator, -0.3, 0.3)
        longest = round(max(self.command_seconds, self.push_seconds) / self.step_dt)
        data |= {
            "command": self.command(n, generator),
            "action": torch.zeros(n, self.robot.model.nu).to(q),
            "air": torch.zeros(n, len(self.robot.feet)).to(q),
            **{name: torch.zeros(n).to(q) for name in ERRORS},
            "offset": torch.randint(longest, (n,), generator=generator, device=q.device),
        }
        if self.robot.terrain is not None:
            data["heights"] = self._scan(q)
        return self.episodes(q, qd, data, self._held(n, q))

    def _held(self, n: int, like: torch.Tensor) -> torch.Tensor | None:
        """Return states of servos with a delay, for robots that have stood for a while [n, na]."""
        model = self.robot.model
        if model.na == 0:
            return None
        targets = self.robot.q[7:][self.robot.servos]
        return torch.tensor(model.act_holding(targets)).to(like).repeat(n, 1)

    def command(self, n: int, generator: torch.Generator | None) -> torch.Tensor:
        """Draw commands [n, 3]."""
        low, high = torch.tensor(self.commands, dtype=DTYPES[self.dtype]).unbind(dim=1)
        part = self.uniform((n, 3), generator, 0.0, 1.0)
        drawn = low.to(part) + (high - low).to(part) * part
        return drawn * (self.uniform((n, 1), generator, 0.0, 1.0) >= self.idle)

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the targets of the servos."""
        targets = self._start.to(action)[7:][self._servos.to(action.device)]
        return {"control": targets + self.action_scale * action}

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the last action, the time that each foot has been in the air [s], the mean errors of the episode, and
        heights on terrain.
        """
        air = torch.where(self.stands(after), 0.0, before.data["air"] + self.step_dt)
        errors = zip(ERRORS, self.errors(after.detach()), strict=True)
        means = {name: before.data[name] + (error - before.data[name]) / after.steps for name, error in errors}
        heights = {} if self.robot.terrain is None else {"heights": self._scan(after.q)}
        return {"action": action, "air": air, **means, **heights}

    def events(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return new commands, and velocities after pushes, each where its time is over."""
        n = len(state.q)
        drawn = self.command(n, state.generator)
        changed = {"command": torch.where(self._due(state, self.command_seconds), drawn, state.data["command"])}
        if self.push > 0.0:
            push = torch.zeros_like(state.qd)
            push[:, :2] = self.uniform((n, 2), state.generator, -self.push, self.push)
            changed["qd"] = torch.where(self._due(state, self.push_seconds), state.qd + push, state.qd)
        return changed

    def _due(self, state: TaskState, seconds: float) -> torch.Tensor:
        """Return a mask of environments [n, 1] at an interval's end; their intervals have different beginnings."""
        interval = max(round(seconds / self.step_dt), 1)
        return ((state.steps + state.data["offset"]) % interval == 0)[:, None]

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

    def errors(self, state: TaskState) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distance of the horizontal velocity from the command [m/s] and that of the rate [rad/s], each
        [n].
        """
        (velocity, rate, _), command = self.motion(state), state.data["command"]
        return (velocity - command)[:, :2].norm(dim=1), (rate - command)[:, 2].abs()

    def measurements(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return what the policy observes, by name, without noise."""
        velocity, rate, down = self.motion(state)
        found = {
            "velocity": velocity,
            "rate": rate,
            "down": down,
            "command": state.data["command"],
            "joints": state.q[:, 7:] - self._start.to(state.q)[7:],
            "speeds": state.qd[:, 6:],
            "action": state.data["action"],
        }
        if self.robot.terrain is not None:
            found["heights"] = (state.data["heights"] + self.robot.height).clamp(-FARTHEST, FARTHEST)
        return found

    def observe(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return the groups "policy", with noise, and "critic": exact, with forces on the feet and random factors."""
        exact = self.measurements(state)
        noisy = [
            value + self.normal(value.shape, state.generator, self.noise[name]) if self.noise.get(name) else value
            for name, value in exact.items()
        ]
        weight = 9.81 * float(self.robot.model.parameters["mass"].sum())
        drawn = [
            state.parameters[name].mean(dim=1, keepdim=True) / given.to(state.q).mean()
            for name, given in self._given.items()
        ]
        known = [*exact.values(), self.forces(state).flatten(1) / weight, *drawn]
        return {"policy": torch.cat(noisy, dim=1), "critic": torch.cat(known, dim=1)}

    # ---- rewards -------------------------------------------------------------------------------------------------

    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""
        (velocity, rate, down), command = self.motion(after), before.data["command"]
        air = before.data["air"]
        landed = self.stands(after) & (air > 0.0)
        moves = command.norm(dim=1) > 0.1
        acceleration = (after.qd[:, 6:] - before.qd[:, 6:]) / self.step_dt
        return {
            "velocity": torch.exp(-4.0 * _square(velocity[:, :2] - command[:, :2])),
            "turn": torch.exp(-4.0 * (rate[:, 2] - command[:, 2]).square()),
            "vertical": velocity[:, 2].square(),
            "tilt_rate": _square(rate[:, :2]),
            "level": _square(down[:, :2]),
            "smooth": _square(action - before.data["action"]),
            "acceleration": _square(acceleration),
            "air": (landed * (air - 0.3)).sum(dim=1) * moves,
            "pose": _square(after.q[:, 7:] - self._start.to(after.q)[7:]),
        }

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms times their weights and the duration of the step."""
        terms = self.terms(before, action, after)
        return {name: self.step_dt * weight * terms[name] for name, weight in self.weights.items()}

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return masks of robots that have fallen or left the terrain, and of those that have tipped over."""
        _, _, down = self.motion(state)
        height = self.height(state)
        low = height < self.least_height * self.robot.height
        return {"fallen": low | height.isinf(), "tipped": down[:, 2] > -math.cos(self.tilt)}

    # ---- terrain -------------------------------------------------------------------------------------------------

    def _scan(self, q: torch.Tensor) -> torch.Tensor:
        """Return heights of the ground relative to the base [n, points], m; the last is below it."""
        others = RayTargets(exclude=self.robot.links)
        return height_scan(self._rays.to(q.device), q, self.robot.base, self._grid, others)

    def _tiles(self, new: NewEpisodes) -> dict[str, torch.Tensor]:
        """Return level and origin of the tiles on which episodes begin, whose kind stays that of the environment."""
        assert self.robot.terrain is not None
        origins = torch.as_tensor(self.robot.terrain.origins).to(new.generator.device, DTYPES[self.dtype])
        levels, kinds = origins.shape[:2]
        if new.last is None:
            level = torch.randint(max(levels // 2, 1), (len(new),), generator=new.generator, device=origins.device)
        else:
            level = self._next_level(new.last, levels, new.generator)
        return {"level": level, "origin": origins[level, new.rows % kinds]}

    def _next_level(self, last: TaskState, levels: int, generator: torch.Generator) -> torch.Tensor:
        """Return the level after an episode: one more, one less or the same; after the last one a random one."""
        assert self.robot.terrain is not None
        walked = (last.q[:, :2] - last.data["origin"][:, :2]).norm(dim=1)
        commanded = last.data["command"][:, :2].norm(dim=1) * last.steps * self.step_dt
        up = walked > 0.5 * self.robot.terrain.size
        level = last.data["level"] + up.long() - (~up & (walked < 0.5 * commanded)).long()
        drawn = torch.randint(levels, level.shape, generator=generator, device=level.device)
        return torch.where(level >= levels, drawn, level.clamp(min=0))


def _square(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of squares over the last dimension."""
    return values.square().sum(dim=-1)
