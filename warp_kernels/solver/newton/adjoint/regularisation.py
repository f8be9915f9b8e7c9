"""Adjoint of R, a share of each constraint's own effective inverse masses, in its rows and in the mass matrix.

With M = L' D L, rows Z = J L^-1 of a constraint and block_bar, the symmetric adjoint of its effective inverse masses Z
D^-1 Z',

    G = 2 block_bar Z D^-1 L'^-1    is the adjoint of J,    -Z' G    of L at ancestors,    -Z' block_bar Z / D^2    of D,

all of it along the constraint's paths only. The adjoints of L and D are propagated through the factorisation, from the
roots to the leaves.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.products import product_functions
from warp_kernels.cpu.native import Native
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"regularisation_adjoint_kernels": [(True,), (False,)]}
# C++ of these functions.
HEADERS = ("newton/regularisation_adjoint.h",)


@functools.cache
def regularisation_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    native = Native(scalar, 1, "regularisation_adjoint")

    @native.func_native()
    def take_above(
        paths: Paths,
        k: int,
        at: int,
        z: vec3,
        is_new: bool,
        factor_l: wp.array2d(dtype=scalar),
        response: wp.array2d(dtype=vec3),
        bar: wp.array2d(dtype=scalar),
        world: int,
    ) -> vec3:
        """Multiply a degree of freedom's row of L by the responses above it; if ``is_new``, add that row's adjoint."""

    @native.func_native()
    def take_pairs(
        first: int,
        pair: int,
        count: int,
        weight: scalar,
        factor_l: wp.array2d(dtype=scalar),
        bar: wp.array2d(dtype=scalar),
        world: int,
    ) -> scalar:
        """Subtract ``weight`` times the entries from ``first`` on from those from ``pair`` on. Return the latter times
        L's from ``first`` on.
        """

    @wp.func
    def row_adjoint(
        k: int,
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """Convert the adjoints of the row of L of degree of freedom k and of its D, in place, to those of the mass
        matrix; those of its ancestors are already converted.

        The factorisation subtracts l_j D l_i of each degree of freedom from the entries of its ancestors i and j.
        """
        first = paths.dof_row_start[k]
        pivot = scalar(1.0) / factor_d[k, world]
        pivot_bar = mass_bar_diagonal[k, world]
        for d in range(paths.dof_depth[k]):
            j = paths.ancestor[first + d]
            below = factor_l[first + d, world]
            own = mass_bar_diagonal[j, world] * below
            pairs = take_pairs(first, paths.dof_row_start[j], d, pivot * below, factor_l, mass_bar, world)
            pivot_bar -= (own + pairs) * below
            left = mass_bar[first + d, world] - pivot * (scalar(2.0) * own + pairs)
            mass_bar[first + d, world] = left
        for d in range(paths.dof_depth[k]):
            bar = mass_bar[first + d, world] * factor_d[k, world]
            mass_bar[first + d, world] = bar
            pivot_bar -= bar * factor_l[first + d, world]
        mass_bar_diagonal[k, world] = pivot_bar

    return SimpleNamespace(take_above=take_above, row_adjoint=row_adjoint)


@functools.cache
def regularisation_adjoint_kernels(scalar: Any, whole: bool = True) -> SimpleNamespace:
    """Return the kernel for one precision, one thread per world; if not ``whole``, without
    :mod:`warp_kernels.solver.impulse_groups`, which clears the adjoints and propagates them through the factorisation.
    """
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    factor = factor_kernels(scalar)
    products = product_functions(scalar)
    name = "newton.regularisation_adjoint" if whole else "newton.regularisation_adjoint_groups"
    module = kernel_module(name, scalar, headers=HEADERS)
    own = regularisation_functions(scalar)

    @wp.func
    def shared_length(constraint: int, world: int, paths: Paths, constraints: Constraints):
        """Return the number of degrees of freedom that the paths of both sides share, from the root on."""
        a = constraints.tail[2 * constraint, world]
        b = constraints.tail[2 * constraint + 1, world]
        length = int(0)
        if a >= 0 and b >= 0:
            most = wp.min(paths.dof_depth[a], paths.dof_depth[b]) + 1
            while length < most and factor.path_dof(
                paths.dof_depth, paths.dof_row_start, paths.ancestor, a, length
            ) == factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, b, length):
                length += 1
        return length

    @wp.func
    def go_along(
        constraint: int,
        side: int,
        new: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        couplings: Couplings,
        block_bar: mat33,
        coupled_response: wp.array2d(dtype=vec3),
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """Compute G along the path of one side, and the adjoints of L and D where it is ``new``, from that depth on."""
        tail = constraints.tail[2 * constraint + side, world]
        tree = trees.dof_tree[tail]
        at = couplings.constraint_incidence[2 * constraint + side, world] * trees.max_tree_dofs
        at -= trees.tree_dof_start[tree]
        for d in range(paths.dof_depth[tail] + 1):
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
            z = products.whole_entry(constraint, side, d, world, paths, constraints, row)
            response = scalar(2.0) * factor_d[k, world] * (block_bar * z)
            if d >= new:
                solver_mass_bar_diagonal[k, world] -= scalar(0.5) * factor_d[k, world] * wp.dot(response, z)
            response -= own.take_above(paths, k, at, z, d >= new, factor_l, coupled_response, solver_mass_bar, world)
            coupled_response[at + k, world] = response

    @wp.kernel(
        name="regularisation_adjoint" if whole else "regularisation_adjoint_of_constraints",
        module=module,
        enable_backward=False,
    )
    def regularisation_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        couplings: Couplings,
        # Adjoint in
        block_bar: wp.array2d(dtype=mat33),
        # Adjoint out
        coupled_response: wp.array2d(dtype=vec3),
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """Compute the adjoint of R. coupled_response: G, at the degrees of freedom of both paths. solver_mass_bar: packed,
        and its diagonal, of the mass matrix.
        """
        world = wp.tid()
        if wp.static(whole):
            for at in range(solver_mass_bar.shape[0]):
                solver_mass_bar[at, world] = scalar(0.0)
            for k in range(solver_mass_bar_diagonal.shape[0]):
                solver_mass_bar_diagonal[k, world] = scalar(0.0)
        count = constraints.count[world]
        for constraint in range(count):
            new = int(0)
            for side in range(2):
                if constraints.tail[2 * constraint + side, world] >= 0:
                    go_along(
                        constraint,
                        side,
                        new,
                        world,
                        paths,
                        trees,
                        factor_l,
                        factor_d,
                        row,
                        constraints,
                        couplings,
                        block_bar[constraint, world],
                        coupled_response,
                        solver_mass_bar,
                        solver_mass_bar_diagonal,
                    )
                new = shared_length(constraint, world, paths, constraints)
        if wp.static(whole):
            if count > 0:
                for k in range(paths.dof_depth.shape[0]):
                    own.row_adjoint(k, world, paths, factor_l, factor_d, solver_mass_bar, solver_mass_bar_diagonal)

    return SimpleNamespace(module=module, regularisation_adjoint=regularisation_adjoint)
