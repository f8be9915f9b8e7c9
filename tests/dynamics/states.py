"""Random states of a model, and how far results are from a reference."""

import numpy as np

import sim
from warp_kernels import types as codes


def relative_error(value: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference over the largest entry of the reference."""
    reference = np.asarray(reference)
    assert value.shape == reference.shape
    return float(np.abs(value - reference).max(initial=0.0) / max(np.abs(reference).max(initial=0.0), 1e-300))


def random_state(model: sim.Model, seed: int, worlds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """q, qd, qdd and wrenches, exact in the model's dtype (so that float32 is judged by its own arithmetic)."""
    rng = np.random.default_rng(seed)
    q = model.q0 + rng.uniform(-1.0, 1.0, (worlds, model.nq))
    for link, kind in enumerate(model.joint_type):
        if kind in (codes.FREE, codes.SPHERICAL):
            start = model.joint_q_start[link] + (3 if kind == codes.FREE else 0)
            quat = rng.normal(size=(worlds, 4))
            q[:, start : start + 4] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    qd = rng.normal(size=(worlds, model.nv))
    qdd = rng.normal(size=(worlds, model.nv))
    wrench = rng.normal(size=(worlds, model.num_links, 6))
    q, qd, qdd, wrench = (array.astype(model.dtype).astype(np.float64) for array in (q, qd, qdd, wrench))
    return q, qd, qdd, wrench
