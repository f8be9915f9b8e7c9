"""Which constraints of a lane group's worlds stand side by side.

Constraints of the same number need not act on the same degrees of freedom, while what stands side by side has those of all. With the
feet of a humanoid mixed, a system takes twice as long. So the constraints of each world are ordered by what they act on, and set side
by side with those that act on the same, or nearly. Their order depends on no other world, nor then do sums over them, to which places
that are empty add zeros.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.structs import MOST_CONSTRAINTS, group_structs
from warp_kernels.solver.structs import Constraints


@functools.cache
def group_order_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes, which write ``order``."""
    Group = group_structs(scalar).Group
    native = Native(scalar, lanes, "newton::order")

    @native.func_native()
    def take_in_order(group: int, most: int, constraints: Constraints, shared: Group):
        """Set constraints of the same number side by side."""

    @native.func_native()
    def align(group: int, constraints: Constraints, shared: Group) -> int:
        """Set constraints side by side that act on the same. Returns the number of places; zero where there isn't room."""

    @wp.func
    def arrange(group: int, most: int, constraints: Constraints, shared: Group):
        """The same where there is room, else those of the same number. Returns the number of places."""
        places = int(0)
        if most <= MOST_CONSTRAINTS:
            places = align(group, constraints, shared)
        if places == 0:
            take_in_order(group, most, constraints, shared)
            places = most
        return places

    return SimpleNamespace(take_in_order=take_in_order, align=align, arrange=arrange)
