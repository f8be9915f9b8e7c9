"""Piles of boxes: a stack that stands, dominoes that fall one after the other."""

import numpy as np

from scenes.physics.scene import G, Motion, PhysicsScene, Quantity, turn_about
from sim import ModelBuilder

HALF = 0.1  # half edge of the stacked cubes [m]
DOMINO = (0.01, 0.05, 0.1)  # half extents [m]
SPACING = 0.08
LEAN = 0.2  # initial tilt of the first domino [rad]


def stack(boxes: int = 10, seconds: float = 10.0, dt: float = 1 / 240) -> PhysicsScene:
    """Build a stack of cubes of 1 kg, at rest."""
    builder = ModelBuilder()
    builder.add_ground()
    for k in range(boxes):
        builder.add_box(half_extents=(HALF,) * 3, mass=1.0, position=(0.0, 0.0, HALF * (2 * k + 1)))
    model = builder.finalize("float64")
    weight = boxes * G

    def drift(motion: Motion) -> float:
        positions = motion.q.reshape(len(motion.q), boxes, 7)[..., :3]
        return float(np.linalg.norm(positions - positions[0], axis=-1).max())

    quantities = (
        Quantity("drift of a box", "m", 0.0, 1e-3, "tolerance for a standing stack", drift),
        Quantity(
            "contact forces, vertical",
            "N",
            weight,
            1e-5 * weight,
            "residual of the sweeps",
            lambda m: float(m.support[2]),
        ),
    )
    return PhysicsScene(f"stack of {boxes} boxes", model, np.zeros(model.nv), dt, seconds, quantities)


def dominoes(count: int = 8, dt: float = 1e-3) -> PhysicsScene:
    """Build a row of dominoes, the first one tilted so that it falls against the next."""
    builder = ModelBuilder()
    builder.add_ground()
    x, _, z = DOMINO
    for k in range(count):
        # The first one leans over its lower edge.
        angle = LEAN if k == 0 else 0.0
        across, up = x - x * np.cos(angle) + z * np.sin(angle), x * np.sin(angle) + z * np.cos(angle)
        position = (k * SPACING + across, 0.0, up)
        builder.add_box(half_extents=DOMINO, mass=0.1, position=position, orientation=turn_about(1, angle))
    model = builder.finalize("float64")
    # Each ends up leaning on the foot of the next one, the last one flat on the ground.
    flat = Quantity("tilt of the last", "rad", 0.5 * np.pi, 1e-3, "it lies flat", lambda m: float(tilts(m)[-1, -1]))
    fallen = Quantity(
        "fallen", "", float(count), 0.0, "each pushes the next", lambda m: float((tilts(m)[-1] > 1.0).sum())
    )
    return PhysicsScene(f"{count} dominoes", model, np.zeros(model.nv), dt, 2.0, (fallen, flat))


def tilts(motion: Motion) -> np.ndarray:
    """Return the angle of every domino from upright about y [steps + 1, count]."""
    quaternion = motion.q.reshape(len(motion.q), -1, 7)[..., 3:]
    return 2.0 * np.arctan2(quaternion[..., 1], quaternion[..., 3])
