"""Adjoint of an entry of a row, which all families share.

With the names of :mod:`warp_kernels.solver.impulse`, the adjoint of the rows of constraint c along the path to its tail is

    g_c = lambda_c w + b_bar_c v+ + sum_c' (D + D')_cc' Y_c'.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Couplings, TreeDofs, solver_structs


@functools.cache
def entry_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    structs = solver_structs(scalar)
    Rows, RowInputs, Solved = structs.Rows, structs.RowInputs, structs.Solved

    @wp.func
    def response_start(constraint: int, side: int, tail: int, world: int, trees: TreeDofs, couplings: Couplings):
        """Return the index at which the response of degree of freedom 0 would stand for the incidence of a side."""
        incidence = couplings.constraint_incidence[2 * constraint + side, world]
        return incidence * trees.max_tree_dofs - trees.tree_dof_start[trees.dof_tree[tail]]

    @wp.func
    def entry_bar(
        constraint: int,
        at: int,
        k: int,
        world: int,
        share: scalar,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
    ):
        """Return the adjoint of a constraint's rows at degree of freedom k.

        at: see :func:`response_start`.
        share: of the velocity before the step that rows hold.
        """
        gain = solved.qd[world, k] - (scalar(1.0) - share) * inputs.qd[world, k]
        g = solved.impulse[constraint, world] * solved.weight[k, world] + rows_bar.rhs[constraint, world] * gain
        if solved.response.shape[0] > 0:
            g += solved.response[at + k, world]
        return g

    return SimpleNamespace(response_start=response_start, entry_bar=entry_bar)
