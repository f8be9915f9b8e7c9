"""Projected Gauss-Seidel on the mixed complementarity problem of one world, and its reverse, sweep by sweep.

The forward kernel stores the impulses and the row values of every sweep; the reverse kernel unwinds exactly those
sweeps with their clamps (Qiao et al. 2021, algorithm 1), so that the gradient is that of the truncated iteration, not
of its limit. All rows of a world are one problem, solved in blocks of the three rows of a constraint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import follows_contact, is_in_interval, is_one_sided
from warp_kernels.solver.projection import FRICTION_MODELS, friction_projection_functions, update_adjoint_function
from warp_kernels.solver.structs import Constraints, Couplings
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"pgs_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def pgs_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """Return the solver and its reverse for one precision and friction model, one thread per world."""
    t = warp_types(scalar)
    f, immovable = friction_projection_functions(scalar, friction), immovable_functions(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    scale_power = f.scale_power  # wp.grad takes plain names only
    update_adjoint = update_adjoint_function(scalar, friction)
    module = kernel_module(f"pgs.{friction}", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def pgs_solve(
        # Model
        max_constraints: int,
        least_inverse_mass: wp.array(dtype=scalar),
        sweeps: int,
        tolerance: scalar,
        # Data in
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        rhs: wp.array2d(dtype=vec3),
        bound: wp.array2d(dtype=scalar),
        constraints: Constraints,
        contact_resistance: wp.array2d(dtype=vec2),
        start: wp.array2d(dtype=vec3),
        # Data out
        scale: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
    ):
        """Sweep from ``start``, or from zero if that is empty, until a sweep changes no row's velocity by ``tolerance``
        or more.

        solver_iterations: number of sweeps. Histories are [sweep max_constraints + constraint, world], or empty without
        a reverse; residual: change of a row's velocity in the last sweep [m/s].
        """
        world = wp.tid()
        count = constraints.count[world]
        for i in range(count):
            least = immovable.least_mobility(i, world, least_inverse_mass, constraints)
            scale[i, world] = f.least_step_lengths(matrix[couplings.row[i, world][1], world], least)
            impulse[i, world] = vec3()
            if start.shape[0] > 0:
                impulse[i, world] = start[i, world]
        change = scalar(0.0)
        sweep = int(0)
        last = sweeps - 1
        while sweep <= last:
            measured = tolerance > scalar(0.0) or sweep == last
            change = scalar(0.0)
            for i in range(count):
                value = rhs[i, world]
                ranges = couplings.row[i, world]
                entry = ranges[0]
                for r in range(ranges[2], ranges[3]):
                    run = couplings.run[r, world]
                    for j in range(run[0], run[1]):
                        value += matrix[entry, world] * impulse[j, world]
                        entry += 1
                old = impulse[i, world]
                d = matrix[ranges[1], world]
                new = old
                kind = constraints.kind[i, world]
                if is_one_sided(kind):
                    column = vec3(d[0, 0], d[1, 0], d[2, 0])
                    new = f.contact_update(old, value, column, d[2, 1], scale[i, world], bound[i, world])
                elif is_in_interval(kind):
                    new = f.loss_update(old, value, scale[i, world], bound[i, world])
                elif follows_contact(kind):
                    column = vec3(d[0, 0], d[1, 0], d[2, 0])
                    contact = constraints.item[i, world]
                    most = contact_resistance[contact, world] * impulse[contact, world][0]
                    new = f.torsion_update(old, value, column, d[2, 1], scale[i, world], most[0], most[1])
                else:
                    new = f.equality_update(old, value, d)
                impulse[i, world] = new
                if impulse_history.shape[0] > 0:
                    impulse_history[sweep * max_constraints + i, world] = new
                    value_history[sweep * max_constraints + i, world] = value
                if measured:
                    moved = d * (new - old)
                    change = wp.max(change, wp.max(wp.abs(moved[0]), wp.max(wp.abs(moved[1]), wp.abs(moved[2]))))
            if measured and change < tolerance:
                last = sweep
            sweep += 1
        residual[world] = change
        solver_iterations[world] = sweep

    # A separate module: wp.grad of a function whose callees another kernel of the module has already used gives silent
    # zeros (Warp 1.19 marks them for adjoint code only when it meets them first under wp.grad).
    negligible = scalar(0.01 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))
    reverse_module = kernel_module(f"pgs_reverse.{friction}", scalar)

    @wp.kernel(module=reverse_module, enable_backward=False)
    def pgs_reverse(
        # Model
        max_constraints: int,
        # Data in
        solver_iterations: wp.array(dtype=int),
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        bound: wp.array2d(dtype=scalar),
        constraints: Constraints,
        contact_resistance: wp.array2d(dtype=vec2),
        start: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
        # Adjoint in
        impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        start_bar: wp.array2d(dtype=vec3),
        value_bar_history: wp.array2d(dtype=vec3),
        scale_bar: wp.array2d(dtype=vec3),
        block_bar: wp.array2d(dtype=mat33),
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        contact_resistance_bar: wp.array2d(dtype=vec2),
        first_sweep: wp.array(dtype=int),
    ):
        """Unwind the sweeps. start_bar: the adjoint of ``start``; block_bar: direct adjoint of a constraint's own matrix.

        The backward pass ends early, at ``first_sweep``, once the adjoints of all row values of a sweep have fallen
        below a hundredth of the precision, relative to the largest seen: the rest is below rounding.
        """
        world = wp.tid()
        count = constraints.count[world]
        for i in range(count):
            start_bar[i, world] = impulse_bar[i, world]
            rhs_bar[i, world] = vec3()
            scale_bar[i, world] = vec3()
            bound_bar[i, world] = scalar(0.0)
            block_bar[i, world] = mat33()
        largest = scalar(0.0)
        sweep = solver_iterations[world]
        going = int(1)
        while sweep > 0 and going == 1:
            sweep -= 1
            size = scalar(0.0)
            for reverse in range(count):
                i = count - 1 - reverse
                old = vec3()
                if sweep > 0:
                    old = impulse_history[(sweep - 1) * max_constraints + i, world]
                elif start.shape[0] > 0:
                    old = start[i, world]
                g = start_bar[i, world]
                value = value_history[sweep * max_constraints + i, world]
                kind = constraints.kind[i, world]
                bounds = vec2(bound[i, world], scalar(0.0))
                normal = scalar(0.0)
                if follows_contact(kind):
                    # The contact comes before in every sweep, and after in the backward pass: its new impulse was the
                    # bound.
                    contact = constraints.item[i, world]
                    normal = impulse_history[sweep * max_constraints + contact, world][0]
                    bounds = contact_resistance[contact, world] * normal
                d = matrix[couplings.row[i, world][1], world]
                old_bar, value_bar, s_bar, d_bar, most_bar = update_adjoint(
                    kind, old, value, d, scale[i, world], bounds, g
                )
                scale_bar[i, world] += s_bar
                block_bar[i, world] += d_bar
                if follows_contact(kind):
                    contact = constraints.item[i, world]
                    contact_resistance_bar[contact, world] += most_bar * normal
                    share = wp.dot(most_bar, contact_resistance[contact, world])
                    start_bar[contact, world] += vec3(share, scalar(0.0), scalar(0.0))
                else:
                    bound_bar[i, world] += most_bar[0]
                start_bar[i, world] = old_bar
                value_bar_history[sweep * max_constraints + i, world] = value_bar
                here = wp.max(wp.abs(value_bar[0]), wp.max(wp.abs(value_bar[1]), wp.abs(value_bar[2])))
                if here > scalar(0.0):
                    size = wp.max(size, here)
                    rhs_bar[i, world] += value_bar
                    ranges = couplings.row[i, world]
                    entry = ranges[0]
                    for r in range(ranges[2], ranges[3]):
                        run = couplings.run[r, world]
                        for j in range(run[0], run[1]):
                            start_bar[j, world] += value_bar * matrix[entry, world]
                            entry += 1
            largest = wp.max(largest, size)
            if size <= negligible * largest:
                going = int(0)
        first_sweep[world] = sweep

    @wp.func
    def sweeps_product(
        i: int,
        j: int,
        world: int,
        max_constraints: int,
        first: int,
        sweeps: int,
        start: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_bar_history: wp.array2d(dtype=vec3),
    ):
        """Compute A_bar_ij + A_bar_ji', j <= i: each the sum over the sweeps of value_bar lambda', with the impulses at
        the time of the update.

        Row i used the new impulse of a constraint before it; row j used that of i, and each its own, from the sweep
        before.
        """
        total = mat33()
        for sweep in range(first, sweeps):
            at = sweep * max_constraints
            before = vec3()
            if sweep > 0:
                before = impulse_history[at - max_constraints + i, world]
            elif start.shape[0] > 0:
                before = start[i, world]
            seen = before
            if j < i:
                seen = impulse_history[at + j, world]
            total += wp.outer(value_bar_history[at + i, world], seen)
            total += wp.outer(before, value_bar_history[at + j, world])
        return total

    @wp.kernel(module=reverse_module, enable_backward=False)
    def delassus_adjoint(
        # Model
        threads: int,
        max_constraints: int,
        least_inverse_mass: wp.array(dtype=scalar),
        # Data in
        solver_iterations: wp.array(dtype=int),
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        constraints: Constraints,
        start: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        first_sweep: wp.array(dtype=int),
        impulse: wp.array2d(dtype=vec3),
        # Adjoint in
        value_bar_history: wp.array2d(dtype=vec3),
        scale_bar: wp.array2d(dtype=vec3),
        block_bar: wp.array2d(dtype=mat33),
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        matrix_bar: wp.array2d(dtype=mat33),
        compliance_bar: wp.array2d(dtype=scalar),
    ):
        """Compute the adjoint of the Delassus matrix. matrix_bar: D + D' with D = A_bar - b_bar lambda', the difference
        of A_bar from that of converged sweeps.

        The entries on the diagonal and before it, and their mirrors.
        """
        thread, world = wp.tid()
        first = first_sweep[world]
        for i in range(thread, constraints.count[world], threads):
            ranges = couplings.row[i, world]
            least = immovable.least_mobility(i, world, least_inverse_mass, constraints)
            own, _least, _unused = wp.grad(scale_power)(matrix[ranges[1], world], least, scale_bar[i, world])
            own += block_bar[i, world]
            own += wp.transpose(own)
            entry = ranges[0]
            for r in range(ranges[2], ranges[3]):
                run = couplings.run[r, world]
                for j in range(run[0], wp.min(run[1], i + 1)):
                    total = sweeps_product(
                        i,
                        j,
                        world,
                        max_constraints,
                        first,
                        solver_iterations[world],
                        start,
                        impulse_history,
                        value_bar_history,
                    )
                    if j == i:
                        total += own
                        compliance_bar[i, world] = scalar(0.5) * total[0, 0]
                    total -= wp.outer(rhs_bar[i, world], impulse[j, world])
                    total -= wp.outer(impulse[i, world], rhs_bar[j, world])
                    matrix_bar[entry, world] = total
                    if j < i:
                        matrix_bar[couplings.mirror[entry, world], world] = wp.transpose(total)
                    entry += 1

    return SimpleNamespace(
        modules=(module, reverse_module),
        pgs_solve=pgs_solve,
        pgs_reverse=pgs_reverse,
        delassus_adjoint=delassus_adjoint,
    )
