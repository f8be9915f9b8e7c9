"""PickAndPlace: grip a box by friction with two fingers of an arm, and hold it at a commanded position."""

import math
from collections.abc import Mapping

import numpy as np
import torch

from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.errors import ModelError
from sim.importers.formats import ModelBuilder
from sim.model.builder.properties import Gains, Surface
from sim.model.model import Model
from sim.simulation.options import ContactMethod, HardContact, MujocoContact
from sim.torch.arrays import TORCH_DTYPES

HALF = 0.025  # half the side of the box [m]
MASS, FRICTION = 0.1, 0.8  # of the box; friction of the fingers too
SHOULDER, UPPER, FORE, HAND = 0.3, 0.3, 0.25, 0.12  # height of the shoulder, lengths to elbow, wrist, fingertips [m]
OPEN, CLOSED = 0.045, 0.02  # inputs of the fingers' servos, half the distance between the fingers [m]
JOINTS = ("turn", "shoulder", "elbow", "wrist", "left", "right")
GAINS = ((80.0, 8.0), (200.0, 10.0), (120.0, 6.0), (20.0, 1.0), (600.0, 10.0), (600.0, 10.0))  # kp, kd of the servos

LAWS: dict[str, tuple[ContactMethod, str | None]] = {
    "hard": (HardContact(), None), "mujoco": (MujocoContact(), "implicitfast"),
}  # fmt: skip
RATES = (0.12, 0.08, 0.08, 0.12, 0.008)  # change of the servos' inputs by an action of 1 [rad, m]
LOWEST, HIGHEST = (-1.6, -1.0, 0.0, -1.0, 0.012), (1.6, 1.8, 2.8, 2.6, OPEN)  # servos' inputs [rad, m]
ABOVE = (0.33, 0.0, 0.12)  # initial position of the fingertips [m]
# Ranges of the box's start and of its target: distance from the arm [m], angle about it [rad], height [m].
START = (0.28, -0.5, HALF), (0.38, 0.5, HALF)
TARGET = (0.27, -0.6, 0.08), (0.4, 0.6, 0.22)
YAW = 0.25  # largest initial angle between box and fingers [rad]
MASSES, FRICTIONS = (0.5, 2.0), (0.7, 1.2)  # random factors of the box's mass and friction
NEAR = 0.02  # distance to the target at which the box counts as placed [m]
NOISE = 0.001  # of observed positions [m]
AWAY = 0.5  # distance between box and fingertips at which an episode ends [m]


class PickAndPlace(Task):
    """An arm of four joints with two fingers, and a box on the ground that it should hold at a target in the air.

    An action changes the inputs of the servos: of the four joints, and of both fingers. The box is held by friction
    only. Its start, target, mass and friction are random. Rewards are named: "reach" for fingertips at the box, "grip"
    for fingers on either side of it, "lift", "place" for a box near its target, and "smooth". An episode ends if the
    box rolls "away". Its log has the last distance of the box to the target, and whether it is within 2 cm.

    The group "critic" of observations adds to that of the policy what no camera sees: exact positions, velocities and
    contact forces, mass and friction.

    Args:
        dtype: "float32" or "float64".
        law: "mujoco" for MuJoCo's contacts and its integrator "implicitfast", or "hard".
    """

    dt, frame_skip = 0.005, 8
    max_episode_length = 100
    sensors = ("left finger", "right finger")
    logged = ("distance", "placed")

    def __init__(self, dtype: str = "float32", law: str = "mujoco"):
        super().__init__(dtype)
        if law not in LAWS:
            raise ModelError(f"PickAndPlace: law is {law!r}; it must be {' or '.join(map(repr, LAWS))}")
        self._contact, self.integrator = LAWS[law]
        builder = ModelBuilder()
        builder.add_ground(surface=Surface(friction=1.0))
        add_arm(builder)
        builder.add_box(
            half_extents=(HALF, HALF, HALF), mass=MASS, position=(ABOVE[0], 0.0, HALF),
            surface=Surface(friction=FRICTION), name="box", rgba=(0.85, 0.62, 0.25, 1.0),
        )  # fmt: skip
        self._model = builder.finalize(dtype)

    def model(self) -> Model:
        """Return ground, arm and box."""
        return self._model

    def contact(self) -> ContactMethod:
        """Return the options of the chosen law."""
        return self._contact

    def num_actions(self, model: Model) -> int:
        """Return five: four joints, and both fingers."""
        return len(RATES)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample states at rest, with the open fingers above the middle of where the boxes begin."""
        start, angle = self._positions(n, generator, *START)
        target, _ = self._positions(n, generator, *TARGET)
        half = 0.5 * (angle + self.uniform((n,), generator, -YAW, YAW))
        zero = torch.zeros_like(half)
        quaternion = torch.stack([zero, zero, half.sin(), half.cos()], dim=1)
        joints = start.new_tensor(posture(*ABOVE, OPEN)).expand(n, -1)
        q = torch.cat([joints, start, quaternion], dim=1)
        data = {
            "command": joints[:, :5].clone(), "action": q.new_zeros(n, len(RATES)), "target": target,
            "distance": (target - start).norm(dim=1), "placed": q.new_zeros(n),
        }  # fmt: skip
        return self.episodes(q, q.new_zeros(n, self._model.nv), data)

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Return mass, inertia and friction of the box, each between half and twice the model's or less."""
        given = {
            name: torch.as_tensor(self._model.parameters[name], dtype=TORCH_DTYPES[self.dtype], device=generator.device)
            for name in ("mass", "inertia", "friction")
        }
        found = {name: value.expand(n, *value.shape).clone() for name, value in given.items()}
        link, geometry = self._model.link("box"), self._model.geometry("box/geometry")
        factor = self.uniform((n,), generator, *map(math.log, MASSES)).exp()
        found["mass"][:, link] *= factor
        found["inertia"][:, link] *= factor[:, None, None]
        found["friction"][:, geometry] *= self.uniform((n,), generator, *FRICTIONS)
        return found

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the servos' new inputs; both fingers have the same."""
        command = self._command(state, action)
        return {"control": torch.cat([command, command[:, 4:]], dim=1)}

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> Mapping[str, torch.Tensor]:
        """Keep the servos' inputs and the action, and measure the distance to the target."""
        distance = (before.data["target"] - box_position(after.q)).norm(dim=1)
        placed = (distance.detach() < NEAR).to(distance.dtype)
        return {
            "command": self._command(before, action), "action": action, "distance": distance, "placed": placed,
        }  # fmt: skip

    def observe(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return what a policy sees, with noise in positions, and what a critic sees, without.

        All vectors are along axes that turn with the arm: from fingertips to box, from box to target, the box's
        position, and two of its axes.
        """
        q, qd, command = state.q, state.qd, state.data["command"]
        box = box_position(q)
        forces = torch.cat([state.readings[name] for name in self.sensors], dim=1)
        link, geometry = self._model.link("box"), self._model.geometry("box/geometry")
        hidden = [state.parameters["mass"][:, link, None], state.parameters["friction"][:, geometry, None]]
        arm = [q[:, :6], 0.1 * qd[:, :6], 10.0 * (command - q[:, :5]), state.data["action"]]
        groups = {}
        for name, seen in (("policy", box + self.normal(box.shape, state.generator, NOISE)), ("critic", box)):
            target = state.data["target"]
            vectors = [10.0 * (seen - fingertips(q)), 10.0 * (target - seen), 5.0 * seen]
            turned = [turned_back(q, vector) for vector in vectors]
            turned += [turned_back(q, axis) for axis in box_axes(q)]
            groups[name] = torch.cat([*arm, *turned], dim=1)
        velocity = [turned_back(q, qd[:, 6:9]), turned_back(q, 0.1 * qd[:, 9:12])]
        groups["critic"] = torch.cat([groups["critic"], *velocity, 0.2 * forces, *hidden], dim=1)
        return groups

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms, see the class."""
        box, target = box_position(after.q), before.data["target"]
        left, right = (turned_back(after.q, after.readings[name]) for name in self.sensors)
        grip = torch.tanh(0.5 * torch.minimum(left[:, 1], -right[:, 1]).clamp(min=0.0))
        ground = left[:, 2].clamp(min=0.0) + right[:, 2].clamp(min=0.0)
        lift = ((box[:, 2] - HALF) / 0.05).clamp(0.0, 1.0)
        distance = (target - box).norm(dim=1)
        change = action - before.data["action"]
        return {
            "reach": 1.0 - torch.tanh(8.0 * (box - fingertips(after.q)).norm(dim=1)),
            "grip": grip,
            "lift": 2.0 * lift,
            "place": 4.0 * lift * (1.0 - torch.tanh(6.0 * distance)) + 4.0 * lift * (1.0 - torch.tanh(40.0 * distance)),
            "ground": -0.02 * ground,
            "smooth": -0.02 * change.square().sum(dim=1),
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return the mask of boxes out of reach."""
        return {"away": (box_position(state.q) - fingertips(state.q)).norm(dim=1) > AWAY}

    def _command(self, state: TaskState, action: torch.Tensor) -> torch.Tensor:
        """Return the servos' new inputs [n, 5]."""
        low, high, rates = (action.new_tensor(values) for values in (LOWEST, HIGHEST, RATES))
        return (state.data["command"] + rates * action).clamp(low, high)

    def _positions(
        self, n: int, generator: torch.Generator, low: tuple[float, ...], high: tuple[float, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random positions [n, 3] with distance, angle and height in ranges, and their angles [n]."""
        far, angle, height = (self.uniform((n,), generator, *bounds) for bounds in zip(low, high, strict=True))
        return torch.stack([far * angle.cos(), far * angle.sin(), height], dim=1), angle


def box_position(q: torch.Tensor) -> torch.Tensor:
    """Return the centre of the box [n, 3]."""
    return q[:, 6:9]


def box_axes(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the box's axes x and z along world axes, each [n, 3]."""
    x, y, z, w = q[:, 9:13].unbind(dim=1)
    first = torch.stack([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + z * w), 2.0 * (x * z - y * w)], dim=1)
    third = torch.stack([2.0 * (x * z + y * w), 2.0 * (y * z - x * w), 1.0 - 2.0 * (x * x + y * y)], dim=1)
    return first, third


def fingertips(q: torch.Tensor) -> torch.Tensor:
    """Return the middle between the fingertips, in closed form [n, 3]."""
    turn, shoulder, elbow, wrist = q[:, :4].unbind(dim=1)
    fore, hand = shoulder + elbow, shoulder + elbow + wrist  # angles to the vertical
    far = UPPER * shoulder.sin() + FORE * fore.sin() + HAND * hand.sin()
    height = SHOULDER + UPPER * shoulder.cos() + FORE * fore.cos() + HAND * hand.cos()
    return torch.stack([far * turn.cos(), far * turn.sin(), height], dim=1)


def turned_back(q: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return a world vector [n, 3] along axes that turn with the arm about the vertical."""
    cos, sin = q[:, 0].cos(), q[:, 0].sin()
    x, y, z = vector.unbind(dim=1)
    return torch.stack([cos * x + sin * y, cos * y - sin * x, z], dim=1)


def add_arm(builder: ModelBuilder) -> None:
    """Add the arm with its servos, upright with all joints at zero, on a foot that is only visible."""
    builder.add_geometry(
        "world", "capsule", size=(0.06, 0.5 * SHOULDER - 0.06, 0.0), position=(0.0, 0.0, 0.5 * SHOULDER - 0.06),
        collides=False, rgba=(0.35, 0.37, 0.4, 1.0),
    )  # fmt: skip
    parts = (
        ("turn", "world", (0.0, 0.0, SHOULDER - 0.05), (0.0, 0.0, 1.0), 1.0, 0.05, 0.04),
        ("shoulder", "turn", (0.0, 0.0, 0.05), (0.0, 1.0, 0.0), 1.0, UPPER, 0.03),
        ("elbow", "shoulder", (0.0, 0.0, UPPER), (0.0, 1.0, 0.0), 0.6, FORE, 0.025),
        ("wrist", "elbow", (0.0, 0.0, FORE), (0.0, 1.0, 0.0), 0.2, HAND - 0.05, 0.02),
    )
    for name, parent, offset, axis, mass, length, radius in parts:
        inertia = mass * (length**2 / 12.0 + 0.25 * radius**2)
        builder.add_link(
            name, mass=mass, com=(0.0, 0.0, 0.5 * length), inertia=(inertia, inertia, 0.5 * mass * radius**2)
        )
        builder.add_joint(name, "revolute", parent=parent, child=name, position=offset, axis=axis)
        builder.add_geometry(
            name, "capsule", size=(radius, 0.5 * length, 0.0), position=(0.0, 0.0, 0.5 * length), collides=False,
            rgba=(0.2, 0.42, 0.68, 1.0),
        )  # fmt: skip
    for side, name in ((1.0, "left"), (-1.0, "right")):
        builder.add_link(name, mass=0.05, com=(0.0, 0.0, -0.02), inertia=(2e-5, 2e-5, 1e-5))
        builder.add_joint(
            name, "prismatic", parent="wrist", child=name, position=(0.0, 0.0, HAND), axis=(0.0, side, 0.0)
        )
        builder.add_geometry(
            name, "box", name=f"{name} finger", size=(0.012, 0.005, 0.03), position=(0.0, 0.005 * side, -0.015),
            surface=Surface(friction=FRICTION, group=2, mask=1), rgba=(0.25, 0.27, 0.3, 1.0),
        )  # fmt: skip
    for joint, (kp, kd) in zip(JOINTS, GAINS, strict=True):
        builder.add_actuator(joint, "position", gains=Gains(kp=kp, kd=kd))


def posture(x: float, y: float, z: float, opening: float) -> np.ndarray:
    """Return inputs of the six servos at which the fingertips point down at a position [m], in closed form."""
    far, high = np.hypot(x, y), z + HAND - SHOULDER
    elbow = np.arccos(np.clip((far**2 + high**2 - UPPER**2 - FORE**2) / (2.0 * UPPER * FORE), -1.0, 1.0))
    shoulder = np.arctan2(far, high) - np.arctan2(FORE * np.sin(elbow), UPPER + FORE * np.cos(elbow))
    return np.array([np.arctan2(y, x), shoulder, elbow, np.pi - shoulder - elbow, opening, opening])
