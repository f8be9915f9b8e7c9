"""Working memory of a lane group whose worlds are solved together, see :mod:`warp_kernels.solver.newton.group`."""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.structs import fill
from sim.model.model import Model
from warp_kernels.solver.newton.group.structs import MOST_CONSTRAINTS, group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS


def shared_memory(model: Model, lanes: int, constraints: int, device: wp.Device) -> Any:
    """The struct of one group, which a thread uses for one after the other.

    Args:
        model: the model.
        lanes: worlds of a group.
        constraints: room for constraints of a world.
        device: where the worlds are.
    """
    nv, room, scalar = model.nv, min(constraints, MOST_CONSTRAINTS), model.scalar

    def numbers(count: int) -> wp.array:
        return wp.zeros(count * lanes, dtype=scalar, device=device)

    def integers(count: int) -> wp.array:
        return wp.zeros(count, dtype=wp.int32, device=device)

    entries = nv * (nv + 1) // 2
    return fill(
        group_structs(scalar).Group,
        path=wp.array(path_masks(model), dtype=wp.uint64, device=device),
        dofs=integers(room * nv),
        length=integers(room),
        rows=numbers(room * nv * 3),
        first=integers(nv),
        lower=numbers(entries),
        upper=numbers(entries),
        velocity=numbers(2 * nv),
        three=numbers(3),
        slope=numbers(9 * room),
        answers=integers(room),
        **{name: numbers(1) for name in ("scale", "square", "least", "left", "left_now")},
        fields=numbers(FIELDS * room),
        **{name: integers(lanes) for name in ("coupled", "moves", "mode", "failures", "sweeps", "number")},
    )


def path_masks(model: Model) -> np.ndarray:
    """Of each degree of freedom, those of its path from the root, itself included, as bits."""
    masks: list[int] = []
    for k, parent in enumerate(model.dof_parent):
        masks.append(1 << k | (masks[parent] if parent >= 0 else 0))
    return np.array(masks, dtype=np.uint64)
