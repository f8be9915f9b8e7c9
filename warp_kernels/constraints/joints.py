"""Rows of joints: what a constraint's velocity changes by per rate of a degree of freedom of its own joint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import CONE_LIMIT, COUPLING, UPPER_LIMIT
from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import warp_types


@functools.cache
def joint_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of joint rows for one precision."""
    common = row_functions(scalar)
    vec3 = warp_types(scalar).vec3

    @wp.func
    def joint_row(
        kind: int,
        item: int,
        side: int,
        above: int,
        world: int,
        coupling_ratio: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
    ):
        """Entry of a joint's row for the degree of freedom ``above`` places above the tail."""
        value = scalar(0.0)
        if kind == CONE_LIMIT:
            rate = cone_row[item, world]
            if above == 0:
                value = rate[2]
            elif above == 1:
                value = rate[1]
            elif above == 2:
                value = rate[0]
        elif above == 0:
            value = scalar(1.0)
            if kind == UPPER_LIMIT:
                value = scalar(-1.0)
            if kind == COUPLING and side == 0:
                value = -common.value_of(coupling_ratio, world, item)
        return value

    return SimpleNamespace(joint_row=joint_row)
