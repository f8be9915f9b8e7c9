"""Bodies on a surface that moves while its geometry doesn't: conveyor belts."""

import numpy as np

from scenes.physics.scene import G, PhysicsScene, Quantity
from sim import ModelBuilder
from sim.model.builder.properties import Surface

FRICTION = 0.5
SIZE = 0.1  # half extent of the box, radius of the ball [m]
DT = 1e-3
SOFT = "softness of friction"


def conveyor(speed: float) -> PhysicsScene:
    """Build a conveyor belt on which a box is set: it slips until it is as fast."""
    builder = _belt(speed)
    builder.add_box(half_extents=(SIZE,) * 3, mass=1.0, position=(0.0, 0.0, SIZE), surface=Surface(friction=FRICTION))
    model, seconds = builder.finalize("float64"), speed / (FRICTION * G) + 0.3
    slip = speed**2 / (2 * FRICTION * G)
    quantities = (
        Quantity(
            "slip", "m", slip, speed * DT, "one step at the speed of the belt",
            lambda m: float(speed * DT * (len(m.q) - 1) - m.q[-1, 0]),
        ),
        Quantity("speed of the box", "m/s", speed, 1e-3 * speed, SOFT, lambda m: float(m.qd[-1, 0])),
    )  # fmt: skip
    return PhysicsScene(f"box on a surface of {speed:g} m/s", model, np.zeros(model.nv), DT, seconds, quantities)


def ball_on_belt(speed: float) -> PhysicsScene:
    """Build a belt on which a ball is set: it slips until it rolls, at 2/7 of the belt's speed."""
    builder = _belt(speed)
    builder.add_sphere(radius=SIZE, mass=1.0, position=(0.0, 0.0, SIZE), surface=Surface(friction=FRICTION))
    model, seconds = builder.finalize("float64"), 2 * speed / (7 * FRICTION * G) + 0.3
    quantity = Quantity("speed of the ball", "m/s", 2 / 7 * speed, 1e-3 * speed, SOFT, lambda m: float(m.qd[-1, 0]))
    return PhysicsScene(f"ball on a surface of {speed:g} m/s", model, np.zeros(model.nv), DT, seconds, (quantity,))


def _belt(speed: float) -> ModelBuilder:
    """Return a ground whose surface moves along x."""
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=1.0, velocity=(speed, 0.0, 0.0)))
    return builder
