"""A racecar that slides to rest with its brakes on.

It starts at 1 m/s, all wheels locked, so that it is the sliding friction alone that stops it: after ``v^2 / (2 mu g)``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.model.builder import ModelBuilder
from sim.model.model import Model, Part

RACECAR_URDF = Path(__file__).parent / "robots" / "racecar.urdf"
WHEEL_RADIUS = 0.05
SPEED = 1.0
STEPS = 600
DT = 1.0 / 240.0


@dataclass(frozen=True)
class RacecarScene:
    """What the estimation of the friction needs.

    Attributes:
        model: ground and car. The friction of a pair is the product of the two; that of the wheels is 1.
        car: the part with the car; its chassis comes first in q and qd.
        ground: index of the ground's geometry, whose friction is to be found.
        q0: start coordinates [nq], the wheels just touching the ground.
        qd0: start velocities [nv]: 1 m/s along x.
        steps: number of time steps.
        dt: their length [s].
    """

    model: Model
    car: Part
    ground: int
    q0: np.ndarray
    qd0: np.ndarray
    steps: int
    dt: float


def build(dtype: str = "float32", *, friction: float = 0.2, steps: int = STEPS, dt: float = DT) -> RacecarScene:
    """Make the scene.

    Args:
        dtype: "float32" or "float64".
        friction: sliding friction between wheels and ground.
        steps: number of time steps.
        dt: their length [s].

    Raises:
        ModelError: for a friction that is negative or not finite.
    """
    builder = ModelBuilder()
    builder.add_ground(friction=friction)
    car = builder.add_urdf(RACECAR_URDF, floating_base=True, position=(0.0, 0.0, WHEEL_RADIUS), friction=1.0)
    model = builder.finalize(dtype)
    qd0 = np.zeros(model.nv)
    qd0[model.qd_slice(car).start] = SPEED
    return RacecarScene(model, car, 0, model.q0.copy(), qd0, steps, dt)
