"""The working arrays of Newton's method."""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, zeros
from sim.model.model import Model
from sim.simulation.stepping.lane_groups import LaneGroups
from warp_kernels.solver.newton.group.structs import MOST_DOFS
from warp_kernels.solver.newton.islands.parts import PART_ROWS
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.types import warp_types

# Room for entries of the system where there are many trees: this, or as many for each constraint if that is more.
ENTRIES = 2**22
ENTRIES_PER_CONSTRAINT = 256


class NewtonArrays:
    """Arrays of a shard's worlds, see :func:`warp_kernels.solver.newton.structs.newton_structs`.

    Args:
        model: the model.
        groups: its lane groups.
        constraints: room for constraints of a world.
        room: room for entries of a world's system on and below the diagonal.
        divided: whether worlds are divided into islands.

    Attributes:
        grip: one of the arrays of ``Problem``.
        iterate, islands, system: the structs.
    """

    def __init__(self, model: Model, groups: LaneGroups, constraints: int, room: int, divided: bool):
        self._worlds, self._device = groups.num_worlds, groups.device
        t, structs = warp_types(model.scalar), newton_structs(model.scalar)
        nv, worlds_last, whole = model.nv, self._worlds_last, groups.of_whole_groups
        trees, parts = (model.num_trees, constraints) if divided else (0, 0)
        self.grip = worlds_last(constraints, t.vec2)
        self.iterate: Any = fill(
            structs.Iterate,
            **{name: whole(nv, model.scalar) for name in ("z", "residual", "step", "work")},
            **{name: worlds_last(constraints, t.vec3) for name in ("value", "slip", "swept", "step_length")},
            own=worlds_last(constraints, t.mat33),
            softness=worlds_last(constraints, t.vec2),
            held=worlds_last(constraints, model.scalar),
            part=worlds_last(PART_ROWS if divided else 0, wp.int32),
            part_constraint=worlds_last(parts, wp.int32),
            part_dof=worlds_last(nv if divided else 0, wp.int32),
            part_tree=worlds_last(trees, wp.int32),
        )
        self.islands: Any = fill(
            structs.Islands,
            connects=worlds_last(parts, wp.int32),
            **{name: worlds_last(trees, wp.int32) for name in ("island", "changed")},
            **{name: worlds_last(trees, model.scalar) for name in ("scale", "left")},
            start=worlds_last(3 * (trees + 1), wp.int32),
        )
        self.system: Any = fill(
            structs.System,
            answers=worlds_last(constraints, wp.int32),
            **{name: whole(nv, wp.int32) for name in ("place", "first")},
            **{name: worlds_last(model.num_trees, wp.int32) for name in ("queue", "tree_mark")},
            row_start=self._row_starts(nv),
            is_packed=wp.ones(self._worlds, dtype=wp.int32, device=self._device),
            **{name: whole(room, model.scalar) for name in ("lower", "upper")},
        )

    def _worlds_last(self, count: int, dtype: Any) -> wp.array:
        return zeros((count, self._worlds), dtype, self._device)

    def _row_starts(self, nv: int) -> wp.array:
        """Where rows begin: those of a triangle, until a large system packs its own."""
        places = np.arange(nv if nv <= MOST_DOFS else 0)
        starts = np.zeros((nv, self._worlds), dtype=np.int32)
        starts[: len(places)] = (places * (places + 1) // 2)[:, None]
        return wp.array(starts, dtype=wp.int32, device=self._device)


def system_room(model: Model, constraints: int, divided: bool) -> int:
    """Room for entries of a world's system: all of them, or where there are many trees, of what constraints couple."""
    entries = model.nv * (model.nv + 1) // 2
    if not divided:
        return entries
    return min(entries, max(ENTRIES, ENTRIES_PER_CONSTRAINT * constraints))
