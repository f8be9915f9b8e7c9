"""Restitution: a bouncing ball and Newton's cradle."""

import numpy as np

from scenes.physics.scene import G, Motion, PhysicsScene, Quantity
from sim import ModelBuilder
from sim.model.builder.properties import Surface

RADIUS = 0.1
DROP = 0.5  # drop height of the ball [m]
BALLS = 5
STRING = 1.0  # length [m]
GAP = 5e-3  # between the cradle's balls [m]
SWING = 0.5  # initial angle of the first ball [rad]


def bouncing_ball(restitution: float) -> PhysicsScene:
    """Build a ball that falls and bounces once."""
    dt = 1e-4
    builder = ModelBuilder()
    builder.add_ground()
    builder.add_sphere(
        radius=RADIUS, mass=0.5, position=(0.0, 0.0, RADIUS + DROP), surface=Surface(restitution=restitution)
    )
    speed = np.sqrt(2 * G * DROP)
    fall = speed / G

    def height(motion: Motion) -> float:
        bounced = motion.time > fall + 5 * dt
        return float(motion.q[bounced, 2].max() - RADIUS)

    quantities = (Quantity("height", "m", restitution**2 * DROP, 1e-7, "second order in the time step", height),)
    seconds = fall + 1.2 * restitution * speed / G
    return PhysicsScene(
        f"bouncing ball, restitution {restitution:g}", builder.finalize("float64"), np.zeros(6), dt, seconds, quantities
    )


def newtons_cradle() -> PhysicsScene:
    """Build five elastic balls on rods, slightly apart, so that only neighbours collide; the first one swings in.

    A rod turns its ball about the hinge, so each ball is a pendulum of inertia m l^2 + 2/5 m r^2. Equal balls exchange
    their velocities.
    """
    mass, dt = 1.0, 1e-4
    builder = ModelBuilder()
    spacing = 2 * RADIUS + GAP
    for k in range(BALLS):
        inertia = (0.4 * mass * RADIUS**2,) * 3
        builder.add_link(f"ball_{k}", mass=mass, com=(0.0, 0.0, -STRING), inertia=inertia)
        builder.add_joint(
            f"hinge_{k}", "revolute", child=f"ball_{k}", position=(k * spacing, 0.0, STRING), axis=(0.0, 1.0, 0.0),
            q0=[SWING if k == 0 else 0.0],
        )  # fmt: skip
        builder.add_geometry(
            f"ball_{k}",
            "sphere",
            size=(RADIUS, 0.0, 0.0),
            position=(0.0, 0.0, -STRING),
            surface=Surface(friction=0.0, restitution=1.0),
        )
    quarter = 0.5 * np.pi * np.sqrt((STRING**2 + 0.4 * RADIUS**2) / (G * STRING))
    # The gaps delay the last ball: each is crossed at the impact speed.
    quantities = (
        Quantity(
            "swing of the last ball", "rad", SWING, 1e-3, "gaps and steps of 0.1 ms",
            lambda m: float(-m.q[:, BALLS - 1].min()),
        ),
        Quantity(
            "swing of the others", "rad", 0.0, 5e-3, "they rest within a gap of their initial positions",
            lambda m: float(np.abs(m.q[np.argmin(m.q[:, BALLS - 1]), : BALLS - 1]).max()),
        ),
    )  # fmt: skip
    return PhysicsScene("Newton's cradle", builder.finalize("float64"), np.zeros(BALLS), dt, 2.15 * quarter, quantities)
