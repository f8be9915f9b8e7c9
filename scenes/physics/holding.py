"""Contacts at rest and near misses: heavy on light, a slope, a penetration, flush seams, a miss of an edge."""

import numpy as np

from scenes.physics.scene import G, Motion, PhysicsScene, Quantity
from sim import ModelBuilder
from sim.model.builder.properties import Surface

DT = 1 / 240
SEVERAL_SAGS = "several times the sag"


def drift(motion: Motion) -> float:
    """Return the distance of the body that moves most from its initial position, at any time [m]."""
    positions = motion.q.reshape(len(motion.q), -1, 7)[..., :3]
    return float(np.linalg.norm(positions - positions[0], axis=-1).max())


def heavy_on_light(ratio: float, bound: float) -> PhysicsScene:
    """Build a cube of ``ratio`` kg on one of 1 kg."""
    builder = ModelBuilder()
    builder.add_ground()
    for number, mass in enumerate((1.0, ratio)):
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=mass, position=(0.0, 0.0, 0.1 + 0.2 * number))
    model = builder.finalize("float64")
    quantity = Quantity("drift of a box", "m", 0.0, bound, SEVERAL_SAGS, drift)
    return PhysicsScene(f"{ratio:.0f} kg on 1 kg", model, np.zeros(model.nv), DT, 10.0, (quantity,))


def slab() -> PhysicsScene:
    """Build a slab of 100 kg on four legs of 0.1 kg."""
    builder = ModelBuilder()
    builder.add_ground()
    for x in (-0.3, 0.3):
        for y in (-0.3, 0.3):
            builder.add_box(half_extents=(0.03, 0.03, 0.2), mass=0.1, position=(x, y, 0.2))
    builder.add_box(half_extents=(0.4, 0.4, 0.03), mass=100.0, position=(0.0, 0.0, 0.43))
    model = builder.finalize("float64")
    quantity = Quantity("drift of a body", "m", 0.0, 1e-3, SEVERAL_SAGS, drift)
    return PhysicsScene("slab of 100 kg on four legs of 0.1 kg", model, np.zeros(model.nv), DT, 10.0, (quantity,))


def heavy_on_a_slope() -> PhysicsScene:
    """Build a box of 100 kg on 10 degrees, with friction 1."""
    angle = np.deg2rad(10.0)
    builder = ModelBuilder(gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    builder.add_ground(surface=Surface(friction=1.0))
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=100.0, position=(0.0, 0.0, 0.05), surface=Surface(friction=1.0))
    model = builder.finalize("float64")
    creep = Quantity("creep", "m/s", 0.0, 1e-4, "regularisation of friction", lambda m: float(m.qd[-1, 0]))
    return PhysicsScene("100 kg on a slope of 10 degrees", model, np.zeros(model.nv), DT, 5.0, (creep,))


def held_arm() -> PhysicsScene:
    """Build an arm of 1 kg that dry friction holds 10 degrees off its lowest position, with 1.5 times its weight's
    torque.
    """
    angle, length = np.deg2rad(10.0), 1.0
    builder = ModelBuilder()
    com = (0.5 * length * np.sin(angle), 0.0, -0.5 * length * np.cos(angle))
    builder.add_link("arm", mass=1.0, com=com, inertia=(length**2 / 12.0, length**2 / 12.0, 1e-3))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0, 1, 0), friction_loss=1.5 * G * com[0])
    model = builder.finalize("float64")
    creep = Quantity("creep", "rad/s", 0.0, 2e-5, "regularisation of dry friction", lambda m: abs(float(m.qd[-1, 0])))
    return PhysicsScene("arm held by dry friction", model, np.zeros(model.nv), DT, 2.0, (creep,))


def overlap(depth: float) -> PhysicsScene:
    """Build a cube that starts inside of the ground."""
    builder = ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.1 - depth))
    model = builder.finalize("float64")
    hop = Quantity("hop", "m", 0.0, 1e-3, "it comes up and stays", lambda m: max(float(m.q[:, 2].max()) - 0.1, 0.0))
    return PhysicsScene(f"box {1e3 * depth:.0f} mm in the ground", model, np.zeros(model.nv), DT, 1.0, (hop,))


def seams(speed: float, friction: float, seconds: float) -> PhysicsScene:
    """Build a box that slides over flush tiles."""
    builder = ModelBuilder()
    for number in range(-1, 10):
        position = (float(number), 0.0, -0.1)
        builder.add_geometry(
            "world", "box", size=(0.5, 0.5, 0.1), position=position, surface=Surface(friction=friction)
        )
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=1.0, position=(0.0, 0.0, 0.05))
    model = builder.finalize("float64")
    qd0 = np.zeros(model.nv)
    qd0[0] = speed
    hop = Quantity("hop", "m", 0.0, 1e-4, "a seam leaves no trace", lambda m: max(float(m.q[:, 2].max()) - 0.05, 0.0))
    if friction:
        distance = speed**2 / (2.0 * friction * G)
        end = Quantity("distance", "m", distance, 1e-2 * distance, "one step of friction", lambda m: float(m.q[-1, 0]))
        name = f"box of {speed:.0f} m/s over seams, friction {friction:g}"
    else:
        end = Quantity("speed", "m/s", speed, 1e-3 * speed, "nothing brakes it", lambda m: float(m.qd[-1, 0]))
        name = f"box of {speed:.0f} m/s over seams, no friction"
    return PhysicsScene(name, model, qd0, DT, seconds, (end, hop))


def near_miss(speed: float, clearance: float, dt: float) -> PhysicsScene:
    """Build a ball that passes the edge of a box."""
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(0.2, 0.5, 0.2))
    start = -0.2 - 0.05 * speed - 0.25 * speed * dt
    builder.add_sphere(radius=0.02, mass=1.0, position=(start, 0.0, 0.22 + clearance))
    model = builder.finalize("float64")
    qd0 = np.zeros(model.nv)
    qd0[0] = speed

    def deflection(motion: Motion) -> float:
        across = np.linalg.norm(motion.qd[-1, 1:3])
        return float(np.rad2deg(np.arctan2(across, motion.qd[-1, 0])))

    name = f"ball of {speed:.0f} m/s that misses an edge by {1e3 * clearance:.0f} mm"
    quantity = Quantity("deflection", "degrees", 0.0, 0.5, "nothing is hit", deflection)
    return PhysicsScene(name, model, qd0, dt, 0.2, (quantity,))
