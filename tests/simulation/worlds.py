"""A small robot in contact, and a rollout of it, for tests of what surrounds the step."""

import numpy as np

import sim
from warp_kernels.types import BOX

DT = 1 / 240
WORLDS = 3


def hopper(dtype: str = "float64") -> sim.Model:
    """A leg on a sliding joint with a limit and dry friction, a foot on the ground, a loose ball beside it."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    builder.add_link("body", mass=1.0, inertia=(0.02, 0.03, 0.04))
    builder.add_joint("free", "free", child="body", position=(0, 0, 0.3))
    builder.add_link("leg", mass=0.4, com=(0.01, 0, -0.1), inertia=(0.002, 0.003, 0.001))
    builder.add_joint(
        "hip",
        "revolute",
        parent="body",
        child="leg",
        axis=(0, 1, 0),
        limits=sim.Limits(-0.5, 0.6),
        friction_loss=0.05,
        spring=sim.Spring(damping=0.1),
    )
    builder.add_geometry("leg", BOX, size=(0.05, 0.06, 0.15), position=(0, 0, -0.15), surface=sim.Surface(friction=0.8))
    builder.add_geometry("body", BOX, size=(0.1, 0.1, 0.05), surface=sim.Surface(friction=0.8))
    builder.add_sphere(radius=0.1, mass=0.3, position=(0.17, 0.01, 0.1), surface=sim.Surface(restitution=0.5))
    return builder.finalize(dtype)


def inputs(model: sim.Model, steps: int, worlds: int = WORLDS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [worlds, nq], qd [worlds, nv], tau [steps, worlds, nv], all of them different."""
    rng = np.random.default_rng(8)
    q = np.tile(model.q0, (worlds, 1))
    q[:, 7] = rng.uniform(-0.45, 0.55, worlds)
    qd = 0.5 * rng.normal(size=(worlds, model.nv))
    return q, qd, 0.5 * rng.normal(size=(steps, worlds, model.nv))


def rollout(simulator: sim.Simulator, steps: int) -> sim.Trajectory:
    q, qd, tau = inputs(simulator.model, steps, simulator.num_worlds)
    return simulator.rollout(simulator.state(q, qd), tau)


def cotangents(trajectory: sim.Trajectory, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=trajectory.q.shape), rng.normal(size=trajectory.qd.shape)
