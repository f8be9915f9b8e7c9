"""A quadruped standing on the ground: 18 degrees of freedom, four contacts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenes.mjcf import to_mjcf
from sim import ModelBuilder
from sim.model.builder.properties import Gains, Surface
from sim.model.model import Model, Part

QUADRUPED_URDF = Path(__file__).parent / "robots" / "quadruped.urdf"
LEGS = ("fl", "fr", "rl", "rr")
JOINTS = ("hip", "thigh", "calf")
SERVO_KP, SERVO_KD = 60.0, 2.0  # gains of the servos [N m/rad, N m s/rad]
LEG_LENGTH = 0.213  # length of both thigh and calf [m]
FOOT_RADIUS = 0.02
THIGH_ANGLE = 0.8  # the calf bends back by twice this angle, so that each foot is below its hip [rad]


@dataclass(frozen=True)
class QuadrupedScene:
    """Standing quadruped.

    Attributes:
        model: ground and robot.
        robot: the part with the robot; its base comes first in q and qd.
        q0: initial coordinates [nq], with all four feet just touching the ground.
        qd0: initial velocities [nv], zero.
    """

    model: Model
    robot: Part
    q0: np.ndarray
    qd0: np.ndarray


def build(dtype: str = "float32", *, friction: float = 0.8, height: float = 0.0, servo: bool = False) -> QuadrupedScene:
    """Build the scene.

    Args:
        dtype: "float32" or "float64" (for checks).
        friction: Coulomb friction between feet and ground.
        height: height of the feet above the ground [m].
        servo: give each joint of the legs a servo, whose input is the angle that it should have [rad].
    """
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=friction))
    robot = builder.add_urdf(
        QUADRUPED_URDF, floating_base=True, position=(0.0, 0.0, standing_height() + height), friction=1.0
    )
    if servo:
        for joint in joint_names():
            builder.add_actuator(joint, "position", gains=Gains(kp=SERVO_KP, kd=SERVO_KD))
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    q0[7:] = standing_legs()
    return QuadrupedScene(model, robot, q0, np.zeros(model.nv))


def joint_names() -> list[str]:
    """Return the joints of the legs, in the order of their coordinates."""
    return [f"{leg}_{joint}_joint" for leg in LEGS for joint in JOINTS]


def legs(thigh: float, calf: float) -> np.ndarray:
    """Return angles of the legs' joints, equal for all four legs, with the feet below the hips [12], rad."""
    return np.tile([0.0, thigh, calf], len(LEGS))


def standing_legs() -> np.ndarray:
    """Return angles of the legs' joints in the standing pose [12], rad."""
    return legs(THIGH_ANGLE, -2.0 * THIGH_ANGLE)


def standing_height() -> float:
    """Return the height of the base's origin at which the feet touch the ground in the standing pose [m]."""
    return 2.0 * LEG_LENGTH * float(np.cos(THIGH_ANGLE)) + FOOT_RADIUS


def mjcf(*, dt: float = 1.0e-3, sweeps: int = 50, friction: float = 0.8) -> str:
    """Return the same scene for MuJoCo, see :func:`scenes.mjcf.to_mjcf`."""
    return to_mjcf(build("float64", friction=friction).model, dt=dt, sweeps=sweeps)
