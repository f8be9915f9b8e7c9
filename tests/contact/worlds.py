"""Small worlds with known motions, and their simulation."""

import numpy as np

import sim

DT = 1e-3
G = 9.81


def loose_box(friction: float = 0.5, tilt: float = 0.0, height: float = 0.05) -> sim.Model:
    """A flat box on the ground, or in the frame of an incline: gravity tilted about y, so that x is downhill."""
    builder = sim.ModelBuilder(gravity=(G * np.sin(tilt), 0.0, -G * np.cos(tilt)))
    builder.add_ground(surface=sim.Surface(friction=friction))
    builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(0.0, 0.0, height))
    return builder.finalize("float64")


def loose_ball(
    restitution: float = 0.0, height: float = 0.1, friction: float = 0.5, dtype: str = "float64"
) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=friction))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0.0, 0.0, height), surface=sim.Surface(restitution=restitution))
    return builder.finalize(dtype)


def hinge(kind: str = "prismatic", gravity: float = 0.0, mass: float = 2.0, **joint: float) -> sim.Model:
    """One joint along or about x; a rod of 1 kg m^2 about its hinge, or a slider of 2 kg."""
    builder = sim.ModelBuilder(gravity=(gravity, 0.0, 0.0))
    builder.add_link("body", mass=mass, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("joint", kind, child="body", axis=(1.0, 0.0, 0.0), **joint)
    return builder.finalize("float64")


def balls(
    positions: list[tuple[float, ...]], masses: list[float], restitution: float = 0.0, friction: float = 0.0
) -> sim.Model:
    """Balls of radius 0.1 m in empty space without gravity. Restitution is that of a pair of them."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for position, mass in zip(positions, masses, strict=True):
        material = sim.Surface(restitution=np.sqrt(restitution), friction=np.sqrt(friction))
        builder.add_sphere(radius=0.1, mass=mass, position=position, surface=material)
    return builder.finalize("float64")


def run(
    model: sim.Model,
    seconds: float,
    qd: list[float] | np.ndarray | None = None,
    *,
    q: np.ndarray | None = None,
    dt: float = DT,
    tau: np.ndarray | None = None,
    **options: object,
) -> tuple[np.ndarray, np.ndarray, sim.Simulator]:
    """Simulate one world. Returns q [steps + 1, nq], qd [steps + 1, nv] and the simulator; tau [nv] is constant.

    By sweeps, enough of them that their error plays no part in the comparison: contacts are exactly hard then.
    """
    contact = sim.PgsContact(**{"sweeps": 200, **options})
    simulator = sim.Simulator(model, dt, device="cpu", contact=contact)
    state = simulator.state(model.q0 if q is None else q, qd)
    steps = round(seconds / dt)
    control = None if tau is None else np.tile(tau, (steps, 1))
    trajectory = simulator.rollout(state, control, steps)
    return trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0], simulator
