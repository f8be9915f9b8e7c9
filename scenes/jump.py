"""A quadruped before a step, onto which it should jump."""

from dataclasses import dataclass

import numpy as np

from scenes import quadruped
from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Gains, Surface
from sim.model.model import Model

HEIGHT, GAP, DEPTH, WIDTH = 0.15, 0.35, 1.2, 1.0  # of the step; from the robot's origin to the edge [m]
TARGET = 0.65  # from the edge of the step to where the robot's origin should be [m]
SERVO_KP, SERVO_KD = 100.0, 2.0  # gains of the servos [N m/rad, N m s/rad]
FRICTION = 0.8
DT, STEPS, STANDING = 2.5e-3, 400, 200  # time step [s], steps of the jump, steps of standing afterwards
KNOTS, STRETCH = 11, 3  # and the one at which the guess stretches the legs
# Input range of the joints' servos [rad]: slightly less than the range of the joints.
LOWEST, HIGHEST = np.tile([-0.86, -0.5, -2.7], 4), np.tile([0.86, 2.5, -0.55], 4)
HEIGHTS = (0.05, 0.2)  # range of random steps [m]


@dataclass(frozen=True)
class JumpScene:
    """Scene for optimising a jump.

    Attributes:
        model: ground, step and robot, whose legs have servos.
        q0: initial coordinates [nq], standing before the step.
        target: where the robot's origin should be at the end [3], m.
        height: height of the step [m].
        steps: number of time steps of the jump.
        dt: time step [s].
    """

    model: Model
    q0: np.ndarray
    target: np.ndarray
    height: float
    steps: int
    dt: float

    @property
    def standing(self) -> np.ndarray:
        """Angles of the legs' joints when standing [12], rad."""
        return self.q0[7:]

    @property
    def guess(self) -> np.ndarray:
        """Angles for the servos at all knots [KNOTS, 12]: crouch, stretch, fold, stand. The result is a fall.

        The hind legs stretch more than the front ones, which reduces backward pitch.
        """
        poses = [(0.8, -1.6), (1.2, -2.3), (1.3, -2.4), (1.1, -1.0), (0.8, -2.3), (1.0, -2.4), (0.8, -1.8)]
        rest = [self.standing] * (KNOTS - len(poses))
        knots = np.array([*(quadruped.legs(thigh, calf) for thigh, calf in poses), *rest])
        knots[STRETCH, :6] = quadruped.legs(1.1, -1.6)[:6]
        return knots


def build(height: float = HEIGHT, dtype: str = "float32") -> JumpScene:
    """Build the scene.

    Args:
        height: height of the step [m].
        dtype: "float32" or "float64" (for checks).

    Raises:
        ModelError: for a height that is not positive and finite.
    """
    if not (np.isfinite(height) and height > 0.0):
        raise ModelError(f"height is {height!r}; the step's height must be a positive number of metres")
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=FRICTION))
    builder.add_geometry(
        "world", "box", name="step", size=(0.5 * DEPTH, 0.5 * WIDTH, 0.5 * height),
        position=(GAP + 0.5 * DEPTH, 0.0, 0.5 * height), surface=Surface(friction=FRICTION),
        rgba=(0.72, 0.66, 0.58, 1.0),
    )  # fmt: skip
    start = (0.0, 0.0, quadruped.standing_height())
    builder.add_urdf(quadruped.QUADRUPED_URDF, floating_base=True, position=start, friction=1.0, self_collision=False)
    for joint in quadruped.joint_names():
        builder.add_actuator(joint, "position", gains=Gains(kp=SERVO_KP, kd=SERVO_KD))
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    q0[7:] = quadruped.standing_legs()
    target = np.array([GAP + TARGET, 0.0, height + start[2]])
    return JumpScene(model, q0, target, float(height), STEPS, DT)


def random_heights(seed: int, count: int) -> np.ndarray:
    """Return heights of random steps [count], m."""
    return np.random.default_rng(seed).uniform(*HEIGHTS, count)
