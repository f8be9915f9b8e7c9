"""A block on an incline and on the ground, on a pair with two frictions, and a ball that slides until it rolls: closed
forms of Coulomb friction.
"""

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from scenes.physics.scene import G, Motion, PhysicsScene, Quantity, turn_about
from sim import ModelBuilder
from sim.model.builder.properties import Surface

FRICTION = 0.5
SKID = (0.2, 0.5)  # friction of the skidding block along y, the first tangent, and along x
SPEED = 2.0  # initial speed [m/s]
RADIUS = 0.1
DT = 1e-3


def incline(ratio: float) -> PhysicsScene:
    """Build a block at rest on a slope whose angle's tangent is ``ratio`` times the friction."""
    angle = np.arctan(ratio * FRICTION)
    slope = turn_about(1, angle)
    normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
    downhill = np.array([np.cos(angle), 0.0, -np.sin(angle)])
    builder = ModelBuilder()
    builder.add_geometry("world", "plane", name="slope", orientation=slope, surface=Surface(friction=FRICTION))
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=2.0, position=0.05 * normal, orientation=slope)
    model = builder.finalize("float64")
    acceleration = float(G * (np.sin(angle) - FRICTION * np.cos(angle)))
    why = "residual of 50 sweeps; with 400 it is below 1e-8"
    quantities = (
        Quantity("distance", "m", 0.0, 5e-5, why, lambda m: float((m.q[-1, :3] - m.q[0, :3]) @ downhill))
        if ratio < 1.0
        else Quantity(
            "acceleration", "m/s^2", acceleration, 5e-5, why, lambda m: float(m.qd[-1, :3] @ downhill / m.time[-1])
        ),
    )
    return PhysicsScene(
        f"block on an incline, {ratio:g} of the friction angle's tangent", model, np.zeros(6), DT, 1.0, quantities
    )


def sliding_block() -> PhysicsScene:
    """Build a block that slides over the ground until it stops."""
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=FRICTION))
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=2.0, position=(0.0, 0.0, 0.05))
    quantities = (
        Quantity(
            "distance", "m", SPEED**2 / (2 * FRICTION * G), SPEED * DT, "one step at the initial speed", _distance
        ),
    )
    return PhysicsScene("sliding block", builder.finalize("float64"), _along_x(), DT, 0.6, quantities)


def skid() -> PhysicsScene:
    """Build a block on ground that has two frictions for it, along y and along x, which it crosses obliquely.

    Friction is ``-mu_i^2 u_i / |mu u|`` per weight, so that the velocity along each tangent is a power of the other's:
    ``u_y = c u_x^(mu_y^2 / mu_x^2)``. What remains is one quadrature.
    """
    along, across = SKID
    builder = ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.01), mass=2.0, position=(0.0, 0.0, 0.01), name="block")
    builder.set_pair_friction("block/geometry", "ground", friction=SKID)
    power = (along / across) ** 2
    start, end = SPEED, 0.25 * SPEED  # along x, the second tangent

    def sideways(u: float) -> float:
        return float(SPEED * (u / start) ** power)

    def slowness(u: float) -> float:
        """Return the time per change of the velocity along x."""
        return float(np.hypot(across * u, along * sideways(u)) / (G * across**2 * u))

    # Whole steps, at whose end the velocity along x is that of the quadrature.
    steps = round(quad(slowness, end, start)[0] / DT)
    end = brentq(lambda u: quad(slowness, u, start)[0] - steps * DT, 0.5 * end, start)
    covered = [quad(lambda u, v=v: v(u) * slowness(u), end, start)[0] for v in (lambda u: u, sideways)]
    why = "one step at the initial speed"
    quantities = (
        Quantity("distance along x", "m", covered[0], SPEED * DT, why, lambda m: float(m.q[-1, 0] - m.q[0, 0])),
        Quantity("distance along y", "m", covered[1], SPEED * DT, why, lambda m: float(m.q[-1, 1] - m.q[0, 1])),
        Quantity("velocity along x", "m/s", end, 2e-3, "one step's friction", lambda m: float(m.qd[-1, 0])),
        Quantity("velocity along y", "m/s", sideways(end), 2e-3, "one step's friction", lambda m: float(m.qd[-1, 1])),
    )
    qd = np.array([SPEED, SPEED, 0.0, 0.0, 0.0, 0.0])
    name = f"skid on frictions of {along:g} and {across:g}"
    return PhysicsScene(name, builder.finalize("float64"), qd, DT, steps * DT, quantities)


def rolling_ball() -> PhysicsScene:
    """Build a ball that is pushed without spin: it slides, then rolls at 5/7 of its speed."""
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=FRICTION))
    builder.add_sphere(radius=RADIUS, mass=1.0, position=(0.0, 0.0, RADIUS))
    rolls_after = 2 * SPEED / (7 * FRICTION * G)

    def start_of_rolling(motion: Motion) -> float:
        slip = motion.qd[:, 0] - RADIUS * motion.qd[:, 4]
        return float(motion.time[np.argmax(slip < 1e-3 * SPEED)])

    quantities = (
        # With Newton's method it rolls with a penetration of a micrometre, which shortens the lever arm.
        Quantity("speed", "m/s", 5 / 7 * SPEED, 1e-9, "exact in each step", lambda m: float(m.qd[-1, 0]), 5e-6),
        Quantity("time until rolling", "s", rolls_after, 1.1 * DT, "one step", start_of_rolling),
    )
    return PhysicsScene("rolling ball", builder.finalize("float64"), _along_x(), DT, 0.5, quantities)


def _along_x() -> np.ndarray:
    return np.array([SPEED, 0.0, 0.0, 0.0, 0.0, 0.0])


def _distance(motion: Motion) -> float:
    return float(motion.q[-1, 0] - motion.q[0, 0])
