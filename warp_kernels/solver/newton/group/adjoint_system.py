"""Linear algebra of the way back for the worlds of a lane group: the transposed system, and what reaches factors and rows through R.

What :mod:`warp_kernels.solver.newton.adjoint` and :mod:`warp_kernels.solver.newton.own_adjoint` do for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Paths

# As in ``adjoint_system.h``. Fields of :class:`Group` that the backward pass keeps of a constraint: s, the adjoints of row values, what reaches the impulses other
# than by the next velocity, and the adjoint of the inverse masses of its rows (xx, yy, zz, xy, xz, yz).
S, RHS_BAR, FURTHER, OWN_BAR = 0, 3, 6, 9


@functools.cache
def adjoint_system_functions(scalar: Any, lanes: int, symmetric: bool) -> SimpleNamespace:
    """The functions for one precision, number of lanes and kind of systems. Arguments are as those of :func:`group_functions`.

    Of systems that are always ``symmetric`` U is not kept, D^-1 and L tell it.
    """
    ints, of_worlds = wp.array(dtype=int), wp.array2d(dtype=scalar)
    Group, System = group_structs(scalar).Group, newton_structs(scalar).System
    native = Native(scalar, lanes, "newton::adjoint_system")

    @native.func_native()
    def begin_step(group: int, nv: int, moves: ints, step: of_worlds):
        """Set the step to zero in worlds that move."""

    @native.func_native()
    def solve_transposed(group: int, nv: int, residual: of_worlds, shared: Group, step: of_worlds):
        """Solve the transposed systems for the residual, and add the solution to the step of worlds that move."""

    @native.func_native(symmetric)
    def solve_kept(group: int, nv: int, system: System, residual: of_worlds, shared: Group, step: of_worlds):
        """The same by the factors of the last Newton step."""

    @native.func_native()
    def find_adjoint_residual(
        group: int,
        count: int,
        nv: int,
        has_further: bool,
        weight: of_worlds,
        inverse_mass: of_worlds,
        step: of_worlds,
        shared: Group,
        residual: of_worlds,
    ):
        """For x, the step: s, the adjoints of the row values, and the residual of the right-hand side."""

    @native.func_native()
    def push_weights(
        group: int,
        nv: int,
        moves: ints,
        inverse_mass: of_worlds,
        step: of_worlds,
        residual: of_worlds,
        weight: of_worlds,
    ):
        """Add D^-1 row' rhs_bar in worlds that move."""

    @native.func_native()
    def finish_weights(group: int, nv: int, paths: Paths, factor_l: of_worlds, weight: of_worlds):
        """Multiply the weights by L^-1."""

    @native.func_native()
    def clear_mass_bars(group: int, own_mass_bar: of_worlds, own_mass_bar_diagonal: of_worlds):
        """Set what is added to afterwards to zero."""

    @native.func_native()
    def find_own_response(
        constraint: int,
        group: int,
        nv: int,
        paths: Paths,
        factor_l: of_worlds,
        inverse_mass: of_worlds,
        shared: Group,
        own_mass_bar: of_worlds,
        own_mass_bar_diagonal: of_worlds,
    ):
        """Compute G of a constraint, ``response``, and add its part of the adjoints of L and D."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
