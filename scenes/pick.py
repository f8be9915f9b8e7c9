"""Arm with a gripper in front of a box, which it should set down elsewhere.

The arm is that of the task PickAndPlace. It turns about the vertical and bends at shoulder, elbow and wrist. Two
fingers, each on a rail, hold the box by friction only. All joints have servos.
"""

from dataclasses import dataclass

import numpy as np

from sim import ModelBuilder
from sim.envs.tasks.pick import CLOSED, FRICTION, HALF, JOINTS, MASS, OPEN, add_arm, posture
from sim.errors import ModelError
from sim.model.builder.properties import Surface
from sim.model.model import Model, Part

START = (0.35, 0.0)  # initial position of the box [m]
TARGET = (0.3, 0.25)
DT, STEPS = 0.005, 400
LIFT = 0.1  # height of the middle of the box half-way [m]
NEAREST, FARTHEST = 0.15, 0.45  # distances from the arm where it can set the box down [m]
# Ranges of random targets: distance from the arm [m] and angle about it [rad].
LEAST, MOST = (0.3, 0.4), (0.4, 1.2)


@dataclass(frozen=True)
class PickScene:
    """Scene for optimising how a box is picked up and placed.

    Attributes:
        model: ground, arm and box.
        box: the part with the box.
        q0: initial coordinates [nq], the fingers open around the box.
        target: target of the box's centre at the end [3], m.
        guess: inputs of the servos at eleven times [11, 6]: close the fingers, lift the box, set it down where it
            was, open the fingers, and go up.
        steps: number of time steps.
        dt: time step [s].
    """

    model: Model
    box: Part
    q0: np.ndarray
    target: np.ndarray
    guess: np.ndarray
    steps: int
    dt: float


def build(target: tuple[float, float] = TARGET, dtype: str = "float32") -> PickScene:
    """Build the scene.

    Args:
        target: x and y of the box's target position [m].
        dtype: "float32" or "float64" (for checks).

    Raises:
        ModelError: for a target that isn't two finite numbers, or that the arm can't reach.
    """
    spot = np.asarray(target, dtype=np.float64)
    if spot.shape != (2,) or not NEAREST < np.linalg.norm(spot) < FARTHEST:
        raise ModelError(
            f"target is {target!r}; it must be two finite numbers, {NEAREST} to {FARTHEST} m away from the arm"
        )
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=1.0))
    add_arm(builder)
    box = builder.add_box(
        half_extents=(HALF, HALF, HALF), mass=MASS, position=(*START, HALF), surface=Surface(friction=FRICTION),
        name="box",
        rgba=(0.85, 0.62, 0.25, 1.0),
    )  # fmt: skip
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    for joint, value in zip(JOINTS, posture(*START, HALF, OPEN), strict=True):
        q0[model.q_slice(joint)] = value
    return PickScene(model, box, q0, np.array([*spot, HALF]), _guess(), STEPS, DT)


def _guess() -> np.ndarray:
    """Return the guess, see :class:`PickScene`."""
    down, up, away = posture(*START, HALF, CLOSED), posture(*START, LIFT, CLOSED), posture(*START, 0.08, OPEN)
    around = posture(*START, HALF, OPEN)
    return np.array([around, down, down, up, up, up, up, down, down, around, away])


def random_targets(seed: int, count: int) -> np.ndarray:
    """Return random targets [count, 2], m."""
    distance, angle = np.random.default_rng(seed).uniform(LEAST, MOST, (count, 2)).T
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
