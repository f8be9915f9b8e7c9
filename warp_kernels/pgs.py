"""Projected Gauss-Seidel on the mixed complementarity problem of one world, and its reverse, sweep by sweep.

The forward kernel keeps the impulses and the row values of every sweep; the reverse kernel unwinds exactly those sweeps with
their clamps (Qiao et al. 2021, algorithm 1), so that the gradient is that of the truncated iteration, not of its limit. All
rows of a world are one problem, solved in blocks of three.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.delassus import Couplings
from warp_kernels.types import COUPLING, FRICTION_LOSS, TORSION, kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"pgs_kernels": [("cone",), ("pyramid",)]}


@functools.cache
def friction_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """How a contact block projects its tangential impulse: on the disc of a "cone" or on the square of a "pyramid"."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33

    @wp.func
    def tiny(d: mat33):
        """A diagonal entry below this has no mobility: its impulse stays as it is."""
        return scalar(1.0e-12) * (d[0, 0] + d[1, 1] + d[2, 2])

    @wp.func
    def inverse(value: scalar, floor: scalar):
        result = scalar(0.0)
        if value > floor:
            result = scalar(1.0) / value
        return result

    if friction == "cone":

        @wp.func
        def block_scale(d: mat33):
            """Step lengths of the three rows.

            The tangential pair takes one common step, so that the fixed point has the friction opposite to the slip. Its length is the
            inverse of the Schatten 4-norm of the tangential block: never above 1 / largest eigenvalue, and smooth also where the
            block is isotropic, which the eigenvalue itself is not.
            """
            tangential = scalar(0.0)
            total = d[1, 1] + d[2, 2]
            if total > tiny(d):
                a = d[1, 1] / total
                b = d[1, 2] / total
                c = d[2, 2] / total
                p = a * a + b * b
                q = b * (a + c)
                r = b * b + c * c
                tangential = scalar(1.0) / (total * wp.sqrt(wp.sqrt(p * p + scalar(2.0) * q * q + r * r)))
            return vec3(inverse(d[0, 0], tiny(d)), tangential, tangential)

        @wp.func
        def tangent_update(old: vec2, r: vec2, coupling: scalar, scale: vec2, limit: scalar):
            """New tangential impulse from row values ``r``. coupling is unused here."""
            x = old[0] - scale[0] * r[0]
            y = old[1] - scale[1] * r[1]
            square = x * x + y * y
            factor = scalar(1.0)
            if square > limit * limit:
                factor = limit / wp.sqrt(square)
            return vec2(x * factor, y * factor)

    elif friction == "pyramid":

        @wp.func
        def block_scale(d: mat33):
            """Step lengths of the three rows: each its own inverse diagonal."""
            return vec3(inverse(d[0, 0], tiny(d)), inverse(d[1, 1], tiny(d)), inverse(d[2, 2], tiny(d)))

        @wp.func
        def tangent_update(old: vec2, r: vec2, coupling: scalar, scale: vec2, limit: scalar):
            """New tangential impulse from row values ``r``; the second row sees the first one's change through ``coupling``."""
            x = wp.clamp(old[0] - scale[0] * r[0], -limit, limit)
            y = wp.clamp(old[1] - scale[1] * (r[1] + coupling * (x - old[0])), -limit, limit)
            return vec2(x, y)

    else:
        raise ValueError(f"friction must be 'cone' or 'pyramid', not {friction!r}")

    @wp.func
    def contact_update(old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, mu: scalar):
        """New impulses of a contact block from row values ``r``; the tangents see the change of the normal impulse.

        normal_column: first column of the block's own Delassus matrix. Friction is bounded by the new normal impulse and zero
        where that is zero.
        """
        normal = wp.max(old[0] - scale[0] * r[0], scalar(0.0))
        change = normal - old[0]
        moved = vec2(r[1] + normal_column[1] * change, r[2] + normal_column[2] * change)
        tangent = tangent_update(vec2(old[1], old[2]), moved, coupling, vec2(scale[1], scale[2]), mu * normal)
        return vec3(normal, tangent[0], tangent[1])

    @wp.func
    def torsion_update(
        old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, spinning: scalar, rolling: scalar
    ):
        """New angular impulses of a contact from row values ``r``, within bounds about its normal and about its tangents."""
        spin = wp.clamp(old[0] - scale[0] * r[0], -spinning, spinning)
        change = spin - old[0]
        moved = vec2(r[1] + normal_column[1] * change, r[2] + normal_column[2] * change)
        roll = tangent_update(vec2(old[1], old[2]), moved, coupling, vec2(scale[1], scale[2]), rolling)
        return vec3(spin, roll[0], roll[1])

    @wp.func
    def torsion_power(
        old: vec3,
        r: vec3,
        normal_column: vec3,
        coupling: scalar,
        scale: vec3,
        spinning: scalar,
        rolling: scalar,
        g: vec3,
    ):
        return wp.dot(torsion_update(old, r, normal_column, coupling, scale, spinning, rolling), g)

    @wp.func
    def loss_update(old: vec3, r: vec3, scale: vec3, limit: scalar):
        """New impulse of dry joint friction or of an actuator, within plus and minus its limit."""
        return vec3(wp.clamp(old[0] - scale[0] * r[0], -limit, limit), scalar(0.0), scalar(0.0))

    # A pivot below this part of the trace is rounding: the row depends on those before it, or can't move.
    singular = scalar(100.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))

    @wp.func
    def equality_update(old: vec3, r: vec3, d: mat33):
        """New impulses of three rows without bounds from row values ``r``: all three values become zero.

        d: the block's own Delassus matrix, factored as L D L'. A row that depends on those before it keeps its impulse.
        """
        floor = singular * (d[0, 0] + d[1, 1] + d[2, 2])
        i0 = inverse(d[0, 0], floor)
        l10 = d[1, 0] * i0
        l20 = d[2, 0] * i0
        i1 = inverse(d[1, 1] - l10 * d[1, 0], floor)
        u21 = d[2, 1] - l20 * d[1, 0]
        l21 = u21 * i1
        i2 = inverse(d[2, 2] - l20 * d[2, 0] - l21 * u21, floor)
        y1 = r[1] - l10 * r[0]
        x2 = (r[2] - l20 * r[0] - l21 * y1) * i2
        x1 = y1 * i1 - l21 * x2
        return old - vec3(r[0] * i0 - l10 * x1 - l20 * x2, x1, x2)

    @wp.func
    def equality_power(old: vec3, r: vec3, d: mat33, g: vec3):
        return wp.dot(equality_update(old, r, d), g)

    @wp.func
    def contact_power(old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, mu: scalar, g: vec3):
        return wp.dot(contact_update(old, r, normal_column, coupling, scale, mu), g)

    @wp.func
    def loss_power(old: vec3, r: vec3, scale: vec3, limit: scalar, g: vec3):
        return wp.dot(loss_update(old, r, scale, limit), g)

    @wp.func
    def scale_power(d: mat33, g: vec3):
        return wp.dot(block_scale(d), g)

    return SimpleNamespace(
        block_scale=block_scale,
        contact_update=contact_update,
        torsion_update=torsion_update,
        torsion_power=torsion_power,
        loss_update=loss_update,
        equality_update=equality_update,
        equality_power=equality_power,
        contact_power=contact_power,
        loss_power=loss_power,
        scale_power=scale_power,
    )


@functools.cache
def update_adjoint_function(scalar: Any, friction: str) -> Any:
    """The adjoint of a block's update, whatever its kind. For modules of reverse kernels only: it uses wp.grad."""
    t = warp_types(scalar)
    f = friction_functions(scalar, friction)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    # wp.grad takes plain names only.
    contact_power, loss_power = f.contact_power, f.loss_power
    equality_power, torsion_power = f.equality_power, f.torsion_power

    @wp.func
    def update_adjoint(kind: int, old: vec3, value: vec3, d: mat33, scale: vec3, bounds: vec2, g: vec3):
        """Adjoints of old, value, scale, d and bounds for that of the new impulse, g.

        bounds: those of spinning and rolling for TORSION, otherwise the block's own and zero.
        """
        zero = scalar(0.0)
        old_bar = vec3()
        value_bar = vec3()
        scale_bar = vec3()
        own_bar = mat33()
        bounds_bar = vec2()
        column = vec3(d[0, 0], d[1, 0], d[2, 0])
        if kind < FRICTION_LOSS:
            o, v, cb, kb, sb, mb, _gb = wp.grad(contact_power)(old, value, column, d[2, 1], scale, bounds[0], g)
            old_bar = o
            value_bar = v
            scale_bar = sb
            own_bar = mat33(zero, zero, zero, cb[1], zero, zero, cb[2], kb, zero)
            bounds_bar = vec2(mb, zero)
        elif kind <= COUPLING:
            o, v, sb, mb, _gb = wp.grad(loss_power)(old, value, scale, bounds[0], g)
            old_bar = o
            value_bar = v
            scale_bar = sb
            bounds_bar = vec2(mb, zero)
        elif kind == TORSION:
            o, v, cb, kb, sb, tb, rb, _gb = wp.grad(torsion_power)(
                old, value, column, d[2, 1], scale, bounds[0], bounds[1], g
            )
            old_bar = o
            value_bar = v
            scale_bar = sb
            own_bar = mat33(zero, zero, zero, cb[1], zero, zero, cb[2], kb, zero)
            bounds_bar = vec2(tb, rb)
        else:
            o, v, d_bar, _gb = wp.grad(equality_power)(old, value, d, g)
            old_bar = o
            value_bar = v
            own_bar = d_bar
        return old_bar, value_bar, scale_bar, own_bar, bounds_bar

    return update_adjoint


@functools.cache
def pgs_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """The solver and its reverse for one precision and friction model, one thread per world."""
    t = warp_types(scalar)
    f = friction_functions(scalar, friction)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    scale_power = f.scale_power  # wp.grad takes plain names only
    update_adjoint = update_adjoint_function(scalar, friction)
    module = kernel_module(f"pgs.{friction}", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def pgs_solve(
        # Model
        max_blocks: int,
        sweeps: int,
        tolerance: scalar,
        # Data in
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        rhs: wp.array2d(dtype=vec3),
        bound: wp.array2d(dtype=scalar),
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        contact_resistance: wp.array2d(dtype=vec2),
        start: wp.array2d(dtype=vec3),
        # Data out
        scale: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
    ):
        """Sweeps from ``start``, or from zero where that is empty, until one changes no row's velocity by as much as ``tolerance``.

        sweep_count: how many there were.
        Histories are [sweep max_blocks + block, world], or empty where no reverse will follow; residual: change of a row's velocity
        in the last sweep [m/s].
        """
        world = wp.tid()
        count = block_count[world]
        for i in range(count):
            scale[i, world] = f.block_scale(matrix[couplings.row[i, world][1], world])
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
                place = couplings.row[i, world]
                entry = place[0]
                for r in range(place[2], place[3]):
                    run = couplings.run[r, world]
                    for j in range(run[0], run[1]):
                        value += matrix[entry, world] * impulse[j, world]
                        entry += 1
                old = impulse[i, world]
                d = matrix[place[1], world]
                new = old
                kind = block_kind[i, world]
                if kind < FRICTION_LOSS:
                    column = vec3(d[0, 0], d[1, 0], d[2, 0])
                    new = f.contact_update(old, value, column, d[2, 1], scale[i, world], bound[i, world])
                elif kind <= COUPLING:
                    new = f.loss_update(old, value, scale[i, world], bound[i, world])
                elif kind == TORSION:
                    column = vec3(d[0, 0], d[1, 0], d[2, 0])
                    contact = block_item[i, world]
                    most = contact_resistance[contact, world] * impulse[contact, world][0]
                    new = f.torsion_update(old, value, column, d[2, 1], scale[i, world], most[0], most[1])
                else:
                    new = f.equality_update(old, value, d)
                impulse[i, world] = new
                if impulse_history.shape[0] > 0:
                    impulse_history[sweep * max_blocks + i, world] = new
                    value_history[sweep * max_blocks + i, world] = value
                if measured:
                    moved = d * (new - old)
                    change = wp.max(change, wp.max(wp.abs(moved[0]), wp.max(wp.abs(moved[1]), wp.abs(moved[2]))))
            if measured and change < tolerance:
                last = sweep
            sweep += 1
        residual[world] = change
        sweep_count[world] = sweep

    # A module of its own: wp.grad of a function whose callees another kernel of the module has already used gives silent
    # zeros (Warp 1.19 marks them for adjoint code only when it meets them first under wp.grad).
    negligible = scalar(0.01 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))
    reverse_module = kernel_module(f"pgs_reverse.{friction}", scalar)

    @wp.kernel(module=reverse_module, enable_backward=False)
    def pgs_reverse(
        # Model
        max_blocks: int,
        # Data in
        sweep_count: wp.array(dtype=int),
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        bound: wp.array2d(dtype=scalar),
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        contact_resistance: wp.array2d(dtype=vec2),
        start: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
        final_impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        impulse_bar: wp.array2d(dtype=vec3),
        value_bar_history: wp.array2d(dtype=vec3),
        scale_bar: wp.array2d(dtype=vec3),
        own_bar: wp.array2d(dtype=mat33),
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        contact_resistance_bar: wp.array2d(dtype=vec2),
        first_sweep: wp.array(dtype=int),
    ):
        """Unwinds the sweeps. impulse_bar ends as the adjoint of ``start``; own_bar is what reaches a block's own matrix directly.

        The way back ends early, at ``first_sweep``, once the adjoints of all row values of a sweep have fallen below a
        hundredth of the precision, relative to the largest seen: what is left out is below rounding.
        """
        world = wp.tid()
        count = block_count[world]
        for i in range(count):
            impulse_bar[i, world] = final_impulse_bar[i, world]
            rhs_bar[i, world] = vec3()
            scale_bar[i, world] = vec3()
            bound_bar[i, world] = scalar(0.0)
            own_bar[i, world] = mat33()
        largest = scalar(0.0)
        sweep = sweep_count[world]
        going = int(1)
        while sweep > 0 and going == 1:
            sweep -= 1
            size = scalar(0.0)
            for reverse in range(count):
                i = count - 1 - reverse
                old = vec3()
                if sweep > 0:
                    old = impulse_history[(sweep - 1) * max_blocks + i, world]
                elif start.shape[0] > 0:
                    old = start[i, world]
                g = impulse_bar[i, world]
                value = value_history[sweep * max_blocks + i, world]
                kind = block_kind[i, world]
                bounds = vec2(bound[i, world], scalar(0.0))
                normal = scalar(0.0)
                if kind == TORSION:
                    # The contact comes before in every sweep, and after in the way back: its new impulse was the bound.
                    contact = block_item[i, world]
                    normal = impulse_history[sweep * max_blocks + contact, world][0]
                    bounds = contact_resistance[contact, world] * normal
                d = matrix[couplings.row[i, world][1], world]
                old_bar, value_bar, s_bar, d_bar, most_bar = update_adjoint(
                    kind, old, value, d, scale[i, world], bounds, g
                )
                scale_bar[i, world] += s_bar
                own_bar[i, world] += d_bar
                if kind == TORSION:
                    contact = block_item[i, world]
                    contact_resistance_bar[contact, world] += most_bar * normal
                    share = wp.dot(most_bar, contact_resistance[contact, world])
                    impulse_bar[contact, world] += vec3(share, scalar(0.0), scalar(0.0))
                else:
                    bound_bar[i, world] += most_bar[0]
                impulse_bar[i, world] = old_bar
                value_bar_history[sweep * max_blocks + i, world] = value_bar
                here = wp.max(wp.abs(value_bar[0]), wp.max(wp.abs(value_bar[1]), wp.abs(value_bar[2])))
                if here > scalar(0.0):
                    size = wp.max(size, here)
                    rhs_bar[i, world] += value_bar
                    place = couplings.row[i, world]
                    entry = place[0]
                    for r in range(place[2], place[3]):
                        run = couplings.run[r, world]
                        for j in range(run[0], run[1]):
                            impulse_bar[j, world] += value_bar * matrix[entry, world]
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
        max_blocks: int,
        first: int,
        sweeps: int,
        start: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_bar_history: wp.array2d(dtype=vec3),
    ):
        """A_bar_ij + A_bar_ji', j <= i: each the sum over the sweeps of value_bar lambda', with the impulses as its row saw them.

        Row i saw the new impulse of a block before it; row j saw that of i, and each its own, as the sweep before left it.
        """
        total = mat33()
        for sweep in range(first, sweeps):
            at = sweep * max_blocks
            before = vec3()
            if sweep > 0:
                before = impulse_history[at - max_blocks + i, world]
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
        lanes: int,
        max_blocks: int,
        # Data in
        sweep_count: wp.array(dtype=int),
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        block_count: wp.array(dtype=int),
        start: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        value_bar_history: wp.array2d(dtype=vec3),
        scale_bar: wp.array2d(dtype=vec3),
        own_bar: wp.array2d(dtype=mat33),
        first_sweep: wp.array(dtype=int),
        impulse: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        matrix_bar: wp.array2d(dtype=mat33),
        softness_bar: wp.array2d(dtype=scalar),
    ):
        """matrix_bar: D + D' with D = A_bar - b_bar lambda', what A_bar is beyond that of sweeps that have converged.

        The entries on the diagonal and before it, and their mirrors.
        """
        lane, world = wp.tid()
        first = first_sweep[world]
        for i in range(lane, block_count[world], lanes):
            place = couplings.row[i, world]
            own, _unused = wp.grad(scale_power)(matrix[place[1], world], scale_bar[i, world])
            own += own_bar[i, world]
            own += wp.transpose(own)
            entry = place[0]
            for r in range(place[2], place[3]):
                run = couplings.run[r, world]
                for j in range(run[0], wp.min(run[1], i + 1)):
                    total = sweeps_product(
                        i, j, world, max_blocks, first, sweep_count[world], start, impulse_history, value_bar_history
                    )
                    if j == i:
                        total += own
                        softness_bar[i, world] = scalar(0.5) * total[0, 0]
                    total -= wp.outer(rhs_bar[i, world], impulse[j, world])
                    total -= wp.outer(impulse[i, world], rhs_bar[j, world])
                    if j == i:
                        matrix_bar[entry, world] = total
                    else:
                        matrix_bar[entry, world] = total
                        matrix_bar[couplings.mirror[entry, world], world] = wp.transpose(total)
                    entry += 1

    return SimpleNamespace(
        modules=(module, reverse_module),
        pgs_solve=pgs_solve,
        pgs_reverse=pgs_reverse,
        delassus_adjoint=delassus_adjoint,
    )
