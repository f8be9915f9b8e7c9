"""Rows of points and orientations in a frame in which all have the same effective inverse mass, so that their R depends
on the direction.

A point at a lever of many radii of gyration moves far more easily across the lever than along it. With one R for all
directions, a share of their mean, a pinned body would stretch along the lever. Here R is a matrix, ``eps (A + s 1)``,
where ``A`` holds the inverse masses of the three rows and s is a small share of its trace. With ``A + s 1 = C C'`` the
rows are multiplied by ``T = C^-1``; then R is ``eps 1``.

Errors are removed along directions in which the point can move: of their biases e the rows keep ``A (A + k 1)^-1 e``,
with k the share eps of the mean inverse mass. Otherwise a straight chain would whirl to get shorter. Loads are carried
along all directions.

The solution depends on T only through R, so that adjoints treat T as constant and R as a matrix.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import pair_index
from warp_kernels.constraints.products import product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Constraints, Paths, solver_structs
from warp_kernels.types import warp_types

# s, as a share of the trace of A: added along immovable directions. With less of it float32 rounds.
FLOOR = {wp.float32: 1e-3, wp.float64: 1e-5}


@functools.cache
def whitening_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    products, immovable, common = product_functions(scalar), immovable_functions(scalar), row_functions(scalar)
    Equalities, Rows = solver_structs(scalar).Equalities, solver_structs(scalar).Rows
    zero, one, half, floor = scalar(0.0), scalar(1.0), scalar(0.5), scalar(FLOOR[scalar])
    whole, nearly = scalar(1.0 + 3.0 * FLOOR[scalar]), scalar(1.001 * FLOOR[scalar])

    @wp.func
    def least_of(
        total: scalar, constraint: int, world: int, least_inverse_mass: wp.array(dtype=scalar), constraints: Constraints
    ):
        """Return s, from the trace of A, or from the inverse masses of the bodies alone if that is larger."""
        least = immovable.least_mobility(constraint, world, least_inverse_mass, constraints)
        return wp.max(floor * total, least)

    @wp.func
    def whitener(own: mat33, least: scalar):
        """Return T of the inverse masses A, to whose diagonal s is added."""
        a = wp.sqrt(own[0, 0] + least)
        b = own[1, 0] / a
        c = own[2, 0] / a
        d = wp.sqrt(wp.max(own[1, 1] + least - b * b, least))
        e = (own[2, 1] - c * b) / d
        f = wp.sqrt(wp.max(own[2, 2] + least - c * c - e * e, least))
        across = -b / (a * d)
        return mat33(
            one / a, zero, zero, across, one / d, zero, -(c / a + e * across) / f, -e / (d * f), one / f
        )  # fmt: skip

    @wp.func
    def left_out(own: mat33, share: scalar, error: vec3):
        """Return the part of the biases of errors that rows omit."""
        k = share * wp.trace(own) / scalar(3.0)
        return k * (wp.inverse(own + k * wp.identity(n=3, dtype=scalar)) * error)

    @wp.func
    def sizes_after(frame: mat33, sizes: vec2):
        """Return bounds of the magnitudes of rows that T multiplies."""
        size = vec3(sizes[0], sizes[1], sizes[1])
        most = vec3()
        for r in range(3):
            most[r] = wp.dot(wp.abs(frame[r]), size)
        return common.sizes(most)

    @wp.func
    def whiten(
        constraint: int,
        world: int,
        epsilon: scalar,
        paths: Paths,
        least_inverse_mass: wp.array(dtype=scalar),
        constraints: Constraints,
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        anchor_error: wp.array2d(dtype=vec3),
        rows: Rows,
        anchor_frame: wp.array2d(dtype=mat33),
    ):
        """Multiply rows and their values by T, which becomes their frame. Return one, or zero for an immovable
        point.
        """
        apart = products.apart_mobility(constraint, world, paths, constraints, row, factor_d)
        own = apart + products.shared_mobility(constraint, world, paths, constraints, row, factor_d)
        total = wp.trace(own)
        if immovable.move_together(total, wp.trace(apart)):
            return zero
        least = least_of(total, constraint, world, least_inverse_mass, constraints)
        if immovable.bounded(total / scalar(3.0), least) <= zero:
            return zero
        frame = whitener(own, least)
        at_anchor = pair_index(constraints.kind[constraint, world], constraints.item[constraint, world])
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                at = (2 * constraint + side) * paths.max_depth
                for d in range(paths.dof_depth[tail] + 1):
                    row[at + d, world] = frame * row[at + d, world]
        omitted = left_out(own, epsilon, anchor_error[at_anchor, world])
        rows.rhs[constraint, world] = frame * (rows.rhs[constraint, world] - omitted)
        rows.value_before[constraint, world] = frame * (rows.value_before[constraint, world] - omitted)
        rows.size[constraint, world] = sizes_after(frame, rows.size[constraint, world])
        rows.size_before[constraint, world] = sizes_after(frame, rows.size_before[constraint, world])
        anchor_frame[at_anchor, world] = frame
        return one

    @wp.func
    def inverse_mass_adjoint(
        constraint: int,
        world: int,
        value: vec3,
        value_bar: vec3,
        stiffness: vec2,
        regularisation: wp.array2d(dtype=scalar),
        least_inverse_mass: wp.array(dtype=scalar),
        constraints: Constraints,
        equalities: Equalities,
        equalities_bar: Equalities,
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Return the adjoint of the inverse masses of the rows, from the present rows; add to that of the
        regularisation.

        Add the adjoint of the error, in addition to that of the bias that it is part of.
        """
        at = pair_index(constraints.kind[constraint, world], constraints.item[constraint, world])
        bias = equalities.anchor_error[at, world]
        if stiffness[0] == zero:
            return mat33()
        # Impulses are -r / R: the adjoint of r determines that of R.
        resistance_bar = (-half * stiffness[0]) * (wp.outer(value_bar, value) + wp.outer(value, value_bar))
        epsilon = common.value_of(regularisation, world, 0)
        epsilon_bar = wp.trace(resistance_bar)
        frame = equalities.anchor_frame[at, world]
        inverse = wp.inverse(frame)
        gram = wp.transpose(inverse) * inverse  # C' C; its trace is that of A + s 1
        total = wp.trace(gram) / whole
        least = least_of(total, constraint, world, least_inverse_mass, constraints)
        if least <= nearly * total:
            share = wp.trace(wp.transpose(frame) * resistance_bar * frame)
            resistance_bar += (floor * share) * gram
        else:
            total = wp.trace(gram) - scalar(3.0) * least
        # Part of the errors that rows omit: k (A + k 1)^-1 e, by k and by A.
        k = epsilon * total / scalar(3.0)
        # A + k 1, where C C' is A + s 1.
        softer = wp.inverse(inverse * wp.transpose(inverse) + (k - least) * wp.identity(n=3, dtype=scalar))
        error_bar = softer * (value_bar * frame)
        error = softer * bias
        equalities_bar.anchor_error[at, world] -= k * error_bar
        k_bar = -wp.dot(error_bar, bias - k * error)
        epsilon_bar += k_bar * total / scalar(3.0)
        common.add_at(regularisation_bar, world, 0, epsilon_bar)
        across = wp.outer(error_bar, error)
        block_bar = (half * k) * (across + wp.transpose(across))
        block_bar += (k_bar * epsilon / scalar(3.0)) * wp.identity(n=3, dtype=scalar)
        return epsilon * resistance_bar + wp.transpose(inverse) * block_bar * inverse

    return SimpleNamespace(whiten=whiten, inverse_mass_adjoint=inverse_mass_adjoint)
