"""Racecar that slides to rest with locked brakes.

It starts at 1 m/s with all wheels locked, so that only sliding friction stops it, after a distance of ``v^2 / (2 mu
g)``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim import ModelBuilder
from sim.model.builder.properties import Surface
from sim.model.model import Model, Part

RACECAR_URDF = Path(__file__).parent / "robots" / "racecar.urdf"
WHEEL_RADIUS = 0.05
SPEED = 1.0
STEPS = 600
DT = 1.0 / 240.0


@dataclass(frozen=True)
class RacecarScene:
    """Scene for estimating the friction.

    Attributes:
        model: ground and car. A pair's friction is the product; the wheels have friction 1.
        car: the part with the car; its chassis comes first in q and qd.
        ground: index of the ground's geometry, whose friction is unknown.
        q0: initial coordinates [nq], with the wheels just touching the ground.
        qd0: initial velocities [nv]: 1 m/s along x.
        steps: number of time steps.
        dt: time step [s].
    """

    model: Model
    car: Part
    ground: int
    q0: np.ndarray
    qd0: np.ndarray
    steps: int
    dt: float


def build(dtype: str = "float32", *, friction: float = 0.2, steps: int = STEPS, dt: float = DT) -> RacecarScene:
    """Build the scene.

    Args:
        dtype: "float32" or "float64".
        friction: sliding friction between wheels and ground.
        steps: number of time steps.
        dt: time step [s].

    Raises:
        ModelError: if the friction is negative or not finite.
    """
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=friction))
    car = builder.add_urdf(RACECAR_URDF, floating_base=True, position=(0.0, 0.0, WHEEL_RADIUS), friction=1.0)
    model = builder.finalize(dtype)
    qd0 = np.zeros(model.nv)
    qd0[model.qd_slice(car).start] = SPEED
    return RacecarScene(model, car, 0, model.q0.copy(), qd0, steps, dt)
