"""Solves with the matrix A of Kahan's rule and the mass matrix M, tree by tree: see :mod:`warp_kernels.solver.midpoint.kahan`.

A has the zeros of M, whose factors are those of :mod:`warp_kernels.dynamics.mass_matrix`. It isn't symmetric: entries
below its diagonal are packed in one array, those above it in another, each where its mirror is in the first. The
factors U and L of A are in the place of its entries.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.structs import Paths
from warp_kernels.types import lane_types


def coupled_system_headers(lanes: int) -> tuple[str, ...]:
    """Return the C++ headers of :func:`coupled_system_functions`."""
    return ("dynamics/coupled_system_groups.h",) if lanes > 1 else ("dynamics/coupled_system.h",)


@functools.cache
def coupled_system_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the functions for a tree, whose degrees of freedom are those from start to end, for one precision and a
    number of worlds in a lane group. Vectors are [dof, group].
    """
    reals = wp.array2d(dtype=lane_types(scalar, lanes).real)
    native = Native(scalar, lanes, "coupled")

    @native.func_native()
    def factor_tree(paths: Paths, start: int, end: int, group: int, lower: reals, upper: reals, diagonal: reals):
        """Factor A = U L in place: entries of U above the diagonal, of L on it and below."""

    @native.func_native()
    def solve_tree(
        paths: Paths, start: int, end: int, group: int, lower: reals, upper: reals, diagonal: reals, x: reals
    ):
        """Solve in place: x := A^-1 x."""

    @native.func_native()
    def solve_tree_transposed(
        paths: Paths, start: int, end: int, group: int, lower: reals, upper: reals, diagonal: reals, x: reals
    ):
        """Solve in place: x := A'^-1 x."""

    @native.func_native()
    def multiply_tree(paths: Paths, start: int, end: int, group: int, factor_l: reals, factor_d: reals, x: reals):
        """Multiply in place by the mass matrix, with its factors: x := M x."""

    @native.func_native()
    def solve_tree_mass(paths: Paths, start: int, end: int, group: int, factor_l: reals, factor_d: reals, x: reals):
        """Solve in place with the mass matrix, with its factors: x := M^-1 x."""

    return SimpleNamespace(
        factor_tree=factor_tree,
        solve_tree=solve_tree,
        solve_tree_transposed=solve_tree_transposed,
        multiply_tree=multiply_tree,
        solve_tree_mass=solve_tree_mass,
    )
