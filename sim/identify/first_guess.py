"""First guess of a search for bodies: linear least squares, projected to physical bodies."""

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.estimate import INSIDE
from sim.identify.regressor import from_linear
from sim.identify.unknown.blocks import Bodies, Numbers
from sim.identify.unknown.unknowns import Unknowns
from sim.torch.robot.parametrisations import log_cholesky, pseudo_inertia

TOLERANCE = 1e-8  # zero tolerance, with columns scaled to unit length
THINNEST = 0.03  # smallest radius of gyration of a body, relative to the largest


def linear_solution(matrix: np.ndarray, target: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Solve linear least squares for numbers [n]; undetermined ones stay near their present value.

    Args:
        matrix: matrix [rows, n].
        target: right-hand side [rows].
        present: present values [n].
    """
    norms = np.linalg.norm(matrix, axis=0)
    used = norms > TOLERANCE * norms.max(initial=0.0)
    scaled = matrix[:, used] / norms[used]
    change, *_ = np.linalg.lstsq(scaled, target - matrix @ present, rcond=TOLERANCE)
    found = present.copy()
    found[used] += change / norms[used]
    return found


def first_guess(unknowns: Unknowns, columns: dict[tuple[str, int], np.ndarray], numbers: np.ndarray) -> np.ndarray:
    """Return free numbers [p] for the solution of linear least squares, which may not be a physical body.

    Bodies with a prior start from it.

    Args:
        unknowns: the unknowns.
        columns: for each parameter and entry its indices in ``numbers``; ten for the mass of a link.
        numbers: the solution.
    """
    parts = []
    for block in unknowns.blocks:
        target = block.targets[0]
        found = numbers[columns[target.parameter, target.entries[0]]]
        free = block.start.numpy()
        if isinstance(block, Bodies) and block.prior is None:
            free = _existing(found, free)
        elif isinstance(block, Numbers) and target.parameter != "mass":
            free = np.clip(found, block.lower + INSIDE * block.scale, block.upper - INSIDE * block.scale)
        parts.append(free)
    return np.concatenate(parts)


def _existing(numbers: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return log-Cholesky numbers of the physical body nearest to ten numbers, with a minimum thickness."""
    if not numbers[0] > 0.0:
        return otherwise
    mass, com, inertia = from_linear(torch.from_numpy(numbers))
    spread = 0.5 * np.trace(inertia.numpy()) * np.eye(3) - inertia.numpy()
    values, vectors = np.linalg.eigh(spread)
    if not values[-1] > 0.0:
        return otherwise
    values = np.maximum(values, THINNEST**2 * values[-1])
    thick = vectors @ np.diag(values) @ vectors.T
    try:
        free = log_cholesky(pseudo_inertia(mass, com, torch.from_numpy(np.trace(thick) * np.eye(3) - thick)))
    except ModelError:  # due to rounding
        return otherwise
    return free.numpy()[np.tril_indices(4)]
