"""Arm with a gripper in front of a box, which it should set down elsewhere.

The arm turns about the vertical and bends at shoulder, elbow and wrist. Two fingers, each on a rail, hold the box by
friction only. All joints have servos.
"""

from dataclasses import dataclass

import numpy as np

from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Gains, Surface
from sim.model.model import Model, Part

HALF = 0.025  # half the side of the box [m]
MASS, FRICTION = 0.1, 0.8  # of the box
SHOULDER, UPPER, FORE, HAND = 0.3, 0.3, 0.25, 0.12  # height of the shoulder, lengths to elbow, wrist, fingertips [m]
OPEN, CLOSED = 0.045, 0.02  # inputs of the fingers' servos, half the distance between the fingers [m]
START = (0.35, 0.0)  # initial position of the box [m]
TARGET = (0.3, 0.25)
DT, STEPS = 0.005, 400
LIFT = 0.1  # height of the middle of the box half-way [m]
JOINTS = ("turn", "shoulder", "elbow", "wrist", "left", "right")
GAINS = ((80.0, 8.0), (200.0, 10.0), (120.0, 6.0), (20.0, 1.0), (600.0, 10.0), (600.0, 10.0))  # kp, kd of the servos
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
    _add_arm(builder)
    box = builder.add_box(
        half_extents=(HALF, HALF, HALF), mass=MASS, position=(*START, HALF), surface=Surface(friction=FRICTION),
        name="box",
        rgba=(0.85, 0.62, 0.25, 1.0),
    )  # fmt: skip
    for joint, (kp, kd) in zip(JOINTS, GAINS, strict=True):
        builder.add_actuator(joint, "position", gains=Gains(kp=kp, kd=kd))
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


def _add_arm(builder: ModelBuilder) -> None:
    """Add the arm, upright with all joints at zero, on a foot that is only visible."""
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


def posture(x: float, y: float, z: float, opening: float) -> np.ndarray:
    """Return inputs of the six servos at which the fingertips point down at a position [m], in closed form."""
    far, high = np.hypot(x, y), z + HAND - SHOULDER
    reach = np.hypot(far, high)
    elbow = np.arccos(np.clip((reach**2 - UPPER**2 - FORE**2) / (2.0 * UPPER * FORE), -1.0, 1.0))
    shoulder = np.arctan2(far, high) - np.arctan2(FORE * np.sin(elbow), UPPER + FORE * np.cos(elbow))
    return np.array([np.arctan2(y, x), shoulder, elbow, np.pi - shoulder - elbow, opening, opening])


def random_targets(seed: int, count: int) -> np.ndarray:
    """Return random targets [count, 2], m."""
    distance, angle = np.random.default_rng(seed).uniform(LEAST, MOST, (count, 2)).T
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
