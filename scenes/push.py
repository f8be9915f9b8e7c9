"""A box on the ground, and a pusher that slides over the ground to push it.

The pusher is a ball on two rails, driven by two forces. At the start it stands some way behind the box, which only
contact can move.
"""

from dataclasses import dataclass

import numpy as np

from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Limits, Spring, Surface
from sim.model.model import Model, Part

HALF_EXTENTS = (0.1, 0.1, 0.05)
MASS = 1.0
PUSHER_RADIUS, PUSHER_MASS, PUSHER_DAMPING = 0.03, 0.5, 4.0
GAP = 0.08  # between pusher and box at the start [m]
FORCE = 20.0  # largest force along each rail [N]
FRICTION = 0.4
DT = 0.01
STEPS = 150
TARGET = (0.35, 0.08, 0.4)
# Ranges of random targets: forward and sideways [m], turn [rad].
NEAREST, FARTHEST = (0.2, -0.08, -0.4), (0.45, 0.08, 0.4)


@dataclass(frozen=True)
class PushScene:
    """Scene for optimising a push.

    Attributes:
        model: ground, box and pusher.
        box: the part with the box.
        rails: names of the pusher's joints, along x and y.
        q0: initial coordinates [nq].
        steps: number of time steps.
        dt: time step [s].
        target: target of the box at the end: x and y [m], and turn about the vertical [rad].
    """

    model: Model
    box: Part
    rails: tuple[str, str]
    q0: np.ndarray
    steps: int
    dt: float
    target: np.ndarray


def build(
    target: tuple[float, float, float] = TARGET, dtype: str = "float32", *, steps: int = STEPS, dt: float = DT
) -> PushScene:
    """Build the scene.

    Args:
        target: where the box should lie at the end: x and y [m], and turn about the vertical [rad].
        dtype: "float32" or "float64" (for checks).
        steps: number of time steps.
        dt: time step [s].

    Raises:
        ModelError: if the target is not three finite numbers.
    """
    goal = np.asarray(target, dtype=np.float64)
    if goal.shape != (3,) or not np.isfinite(goal).all():
        raise ModelError(f"target is {target!r}; it must be three finite numbers")
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=1.0))
    # With a small penetration, as at rest.
    box = builder.add_box(
        half_extents=HALF_EXTENTS, mass=MASS, position=(0.0, 0.0, HALF_EXTENTS[2] - 1e-4),
        surface=Surface(friction=FRICTION),
        name="box", rgba=(0.85, 0.62, 0.25, 1.0),
    )  # fmt: skip
    inertia = 0.4 * PUSHER_MASS * PUSHER_RADIUS**2
    start = (-HALF_EXTENTS[0] - GAP - PUSHER_RADIUS, 0.0, HALF_EXTENTS[2])
    builder.add_link("carriage", mass=0.1, com=(0.0, 0.0, 0.0), inertia=(inertia,) * 3)
    builder.add_joint(
        "forward", "prismatic", child="carriage", position=start, axis=(1.0, 0.0, 0.0),
        spring=Spring(damping=PUSHER_DAMPING),
        limits=Limits(effort=FORCE),
    )  # fmt: skip
    builder.add_link("pusher", mass=PUSHER_MASS, com=(0.0, 0.0, 0.0), inertia=(inertia,) * 3)
    builder.add_joint(
        "sideways", "prismatic", parent="carriage", child="pusher", axis=(0.0, 1.0, 0.0),
        spring=Spring(damping=PUSHER_DAMPING),
        limits=Limits(effort=FORCE),
    )  # fmt: skip
    builder.add_geometry(
        "pusher",
        "sphere",
        size=(PUSHER_RADIUS, 0.0, 0.0),
        surface=Surface(friction=0.5),
        rgba=(0.2, 0.45, 0.8, 1.0),
        name="tip",
    )
    model = builder.finalize(dtype)
    return PushScene(model, box, ("forward", "sideways"), model.q0.copy(), steps, dt, goal)


def random_targets(seed: int, count: int) -> np.ndarray:
    """Return random targets [count, 3]."""
    return np.random.default_rng(seed).uniform(NEAREST, FARTHEST, (count, 3))
