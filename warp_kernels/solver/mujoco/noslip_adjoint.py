"""Backward pass through MuJoCo's noslip solver: its sweeps unwound as they ran, from the row values at each update.

With N the sweeps, ``lambda = N(lambda_0, A, b)``, and the solution's lambda_0 from A and b, the adjoint of b is ``b_N +
b_0`` and that of A is ``A_N + b_0 lambda_0'``. So ``D = A_bar - b_bar lambda'`` of :mod:`warp_kernels.solver.impulse`
is ``A_N - b_N lambda' - b_0 (lambda - lambda_0)'``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_in_interval, spins
from warp_kernels.solver.mujoco.laws import ALL_CONES
from warp_kernels.solver.mujoco.noslip import Islands, noslip_functions, noslip_structs
from warp_kernels.solver.structs import Constraints, Couplings, TreeDofs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"noslip_adjoint_kernels": [(cone,) for cone in ALL_CONES]}


@functools.cache
def noslip_adjoint_kernels(scalar: Any, cone: str = "elliptic") -> SimpleNamespace:
    """Return the kernels for one precision and cone."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    f = noslip_functions(scalar, cone)
    Friction = noslip_structs(scalar).Friction
    module = kernel_module(f"noslip_adjoint.{cone}", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, half = scalar(0.0), scalar(0.5)

    @wp.struct
    class Bars:
        """Adjoints that the backward pass accumulates.

        Attributes:
            start: of the impulses so far, at last of the solution's [nc, world].
            rhs: of the row values without impulses [nc, world].
            bound: of the friction coefficient, or the largest impulse [nc, world].
            pair: of the normal parts of both pairs of edges [nc, world].
            own: of each constraint's own matrix, from its updates [nc, world].
            mixed: of the matrix between a contact and its TORSION, from both sides [nc, world].
            value: of the row values at each update [sweeps nc, world].
        """

        start: wp.array2d(dtype=vec3)
        rhs: wp.array2d(dtype=vec3)
        bound: wp.array2d(dtype=scalar)
        pair: wp.array2d(dtype=vec2)
        own: wp.array2d(dtype=mat33)
        mixed: wp.array2d(dtype=mat33)
        value: wp.array2d(dtype=vec3)

    @wp.func
    def seen(
        i: int, sweep: int, new: bool, world: int, max_constraints: int, islands: Islands, friction: Friction,
        impulse_history: wp.array2d(dtype=vec3),
    ):  # fmt: skip
        """Return a constraint's impulse in a sweep, after its turn or before."""
        at = sweep
        if not new:
            at -= 1
        if at < 0 or islands.turn[i, world] < 0:
            return friction.start[i, world]
        return impulse_history[at * max_constraints + i, world]

    @wp.func
    def within_adjoint(value: scalar, own: scalar, old: scalar, most: scalar, new_bar: scalar):
        """Return the adjoints of the value minus the contribution of the force itself, of the entry of the matrix, and
        of the bound.
        """
        if own <= zero:
            return zero, zero, zero
        free = old - value / own
        if free < -most:
            return zero, zero, -new_bar
        if free > most:
            return zero, zero, new_bar
        value_bar = -new_bar / own
        return value_bar, value_bar * free, zero

    @wp.func
    def spread(i: int, mate: int, world: int, couplings: Couplings, friction: Friction, value_bar: vec3, bars: Bars):
        """Propagate the adjoint of a constraint's values to the impulses of all others, except its mate."""
        bars.rhs[i, world] += value_bar
        ranges = couplings.row[i, world]
        entry = ranges[0]
        for r in range(ranges[2], ranges[3]):
            run = couplings.run[r, world]
            for j in range(run[0], run[1]):
                if j != i and j != mate:
                    bars.start[j, world] += value_bar * friction.matrix[entry, world]
                entry += 1

    @wp.func
    def pyramid_adjoint(
        i: int, kind: int, world: int, old: vec3, new: vec3, value: vec3, own: mat33, friction: Friction, bars: Bars
    ):
        """Return the adjoint of the values. The rest is added."""
        g = bars.start[i, world]
        sums = f.pair_pushes(i, world, friction)
        coefficient = friction.bound[i, world]
        if spins(kind):
            most = coefficient * (sums[0] + sums[1])
            v_bar, a_bar, most_bar = within_adjoint(value[1], own[1, 1], old[1] + old[2], most, half * (g[1] + g[2]))
            bars.start[i, world] = vec3(g[0] + own[1, 0] * v_bar, zero, zero)
            bars.own[i, world] += mat33(zero, zero, zero, v_bar * old[0], a_bar, zero, zero, zero, zero)
            bars.bound[i, world] += most_bar * (sums[0] + sums[1])
            bars.pair[i, world] += vec2(most_bar * coefficient, most_bar * coefficient)
            return vec3(zero, v_bar, zero)
        second_bar, a_second, most_second = within_adjoint(value[2], own[2, 2], old[2], coefficient * sums[1], g[2])
        first_bar, a_first, most_first = within_adjoint(
            value[1], own[1, 1], old[1], coefficient * sums[0], g[1] + own[2, 1] * second_bar
        )
        normal_bar = g[0] + own[1, 0] * first_bar + own[2, 0] * second_bar
        bars.start[i, world] = vec3(normal_bar, zero, own[1, 2] * first_bar)
        bars.own[i, world] += mat33(
            zero, zero, zero,
            first_bar * old[0], a_first, first_bar * old[2],
            second_bar * old[0], second_bar * new[1], a_second,
        )  # fmt: skip
        bars.bound[i, world] += most_first * sums[0] + most_second * sums[1]
        bars.pair[i, world] += coefficient * vec2(most_first, most_second)
        return vec3(zero, first_bar, second_bar)

    @wp.func
    def ellipsoid_adjoint(
        i: int, mate: int, world: int, dt: scalar, old: vec3, second: vec3, value: vec3, second_value: vec3, couplings: Couplings,
        friction: Friction, bars: Bars, contact_resistance_bar: wp.array2d(dtype=vec2),
    ):  # fmt: skip
        """Return the adjoints of the values of a contact, and of its TORSION. The rest is added."""
        g = bars.start[i, world]
        second_g = vec3()
        if mate >= 0:
            second_g = bars.start[mate, world]
        a, d = f.in_ellipsoid(i, mate, world, couplings, friction)
        values = f.joined(value, second_value)
        before = f.joined(old, second)
        _x, multiplier, _cost = f.least_friction(a, d, values, before, old[0], dt)
        if multiplier < -scalar(1.5):  # it was unchanged
            return vec3(), vec3()
        bars.start[i, world] = vec3(g[0], zero, zero)
        if mate >= 0:
            bars.start[mate, world] = vec3()
        if multiplier < zero:
            return vec3(), vec3()
        a_bar, b_bar, d_bar, normal_bar = f.bowl.least_adjoint(
            a, values - a * before, d, old[0], dt, f.joined(g, second_g)
        )
        own = friction.matrix[couplings.row[i, world][1], world]
        normal_bar += b_bar[0] * own[1, 0] + b_bar[1] * own[2, 0]
        bars.bound[i, world] += d_bar[0] + d_bar[1]
        bars.own[i, world] += mat33(
            zero, zero, zero,
            b_bar[0] * old[0], a_bar[0, 0], a_bar[0, 1],
            b_bar[1] * old[0], a_bar[1, 0], a_bar[1, 1],
        )  # fmt: skip
        second_bar = f.tail_of(b_bar)
        if wp.static(f.paired):
            if mate >= 0:
                mixed = friction.matrix[f.entry_between(i, mate, world, couplings), world]
                normal_bar += mixed[0, 0] * second_bar[0] + mixed[0, 1] * second_bar[1] + mixed[0, 2] * second_bar[2]
                other_bar = mat33()
                mixed_bar = mat33()
                for j in range(3):
                    mixed_bar[0, j] = old[0] * second_bar[j]
                    for k in range(3):
                        other_bar[j, k] = a_bar[2 + j, 2 + k]
                    for k in range(2):
                        mixed_bar[1 + k, j] = a_bar[k, 2 + j] + a_bar[2 + j, k]
                bars.own[mate, world] += other_bar
                bars.mixed[i, world] += mixed_bar
                contact_resistance_bar[i, world] += vec2(d_bar[2], d_bar[3] + d_bar[4])
        bars.start[i, world] = vec3(g[0] + normal_bar, zero, zero)
        return vec3(zero, b_bar[0], b_bar[1]), second_bar

    @wp.kernel(module=module, enable_backward=False)
    def noslip_reverse(
        # Model
        dt: scalar,
        noslip_iterations: int,
        max_constraints: int,
        trees: TreeDofs,
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        friction: Friction,
        islands: Islands,
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
        # Adjoint in
        impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        bars: Bars,
        contact_resistance_bar: wp.array2d(dtype=vec2),
        further_value_bar: wp.array2d(dtype=vec3),
    ):
        """Unwind the sweeps. further_value_bar: of the solution's row values, through the impulses of edges only."""
        world = wp.tid()
        count = constraints.count[world]
        for i in range(count):
            bars.start[i, world] = impulse_bar[i, world]
            bars.rhs[i, world] = vec3()
            bars.bound[i, world] = zero
            bars.pair[i, world] = vec2()
            bars.own[i, world] = mat33()
            bars.mixed[i, world] = mat33()
        for back in range(noslip_iterations):
            sweep = noslip_iterations - 1 - back
            at = sweep * max_constraints
            for reverse in range(islands.count[world]):
                i = islands.sequence[islands.count[world] - 1 - reverse, world]
                tail = constraints.tail[2 * i + 1, world]
                if tail < 0:
                    tail = constraints.tail[2 * i, world]
                if islands.sweeps[islands.island[trees.dof_tree[tail], world], world] <= sweep:
                    continue
                kind = constraints.kind[i, world]
                mate = islands.mate[i, world]
                old = seen(i, sweep, False, world, max_constraints, islands, friction, impulse_history)
                new = impulse_history[at + i, world]
                value = value_history[at + i, world]
                own = friction.matrix[couplings.row[i, world][1], world]
                value_bar = vec3()
                if is_in_interval(kind):
                    g = bars.start[i, world]
                    v_bar, a_bar, most_bar = within_adjoint(value[0], own[0, 0], old[0], friction.bound[i, world], g[0])
                    bars.start[i, world] = vec3()
                    bars.own[i, world] += mat33(a_bar, zero, zero, zero, zero, zero, zero, zero, zero)
                    bars.bound[i, world] += most_bar
                    value_bar = vec3(v_bar, zero, zero)
                elif wp.static(f.pyramidal):
                    value_bar = pyramid_adjoint(i, kind, world, old, new, value, own, friction, bars)
                else:
                    second = vec3()
                    second_value = vec3()
                    if mate >= 0:
                        second = seen(mate, sweep, False, world, max_constraints, islands, friction, impulse_history)
                        second_value = value_history[at + mate, world]
                    first_bar, second_bar = ellipsoid_adjoint(
                        i, mate, world, dt, old, second, value, second_value, couplings, friction, bars,
                        contact_resistance_bar,
                    )  # fmt: skip
                    value_bar = first_bar
                    if mate >= 0:
                        spread(mate, i, world, couplings, friction, second_bar, bars)
                        bars.value[at + mate, world] = second_bar
                spread(i, mate, world, couplings, friction, value_bar, bars)
                bars.value[at + i, world] = value_bar
        if wp.static(f.pyramidal):
            for i in range(count):
                value_bar = vec3()
                pair = bars.pair[i, world]
                if wp.dot(pair, pair) > zero:
                    coefficient = friction.bound[i, world]
                    value = friction.value[i, world]
                    for number in range(4):
                        push, tilt, stiffness = f.edge_push(number, i, world, friction)
                        if push > zero:
                            bar = pair[number // 2]
                            value_bar -= (bar * stiffness) * (vec3(scalar(1.0), zero, zero) + coefficient * tilt)
                            bars.bound[i, world] -= bar * (
                                stiffness * wp.dot(tilt, value) + scalar(2.0) * push / coefficient
                            )
                further_value_bar[i, world] = value_bar

    @wp.func
    def sweeps_product(
        i: int, j: int, sweeps: int, world: int, max_constraints: int, islands: Islands, friction: Friction, impulse_history: wp.array2d(dtype=vec3),
        bars: Bars,
    ):  # fmt: skip
        """Return A_ij + A_ji' of two constraints with separate updates: over the sweeps, the value's adjoint times the
        impulse at that time.
        """
        total = mat33()
        turn_i = islands.turn[i, world]
        turn_j = islands.turn[j, world]
        for sweep in range(sweeps):
            at = sweep * max_constraints
            if turn_i >= 0:
                other = seen(j, sweep, turn_j < turn_i, world, max_constraints, islands, friction, impulse_history)
                total += wp.outer(bars.value[at + i, world], other)
            if turn_j >= 0:
                other = seen(i, sweep, turn_i < turn_j, world, max_constraints, islands, friction, impulse_history)
                total += wp.outer(other, bars.value[at + j, world])
        return total

    @wp.kernel(module=module, enable_backward=False)
    def noslip_matrix_adjoint(
        # Model
        threads: int,
        max_constraints: int,
        trees: TreeDofs,
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        friction: Friction,
        islands: Islands,
        impulse: wp.array2d(dtype=vec3),
        impulse_history: wp.array2d(dtype=vec3),
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        bars: Bars,
        # Adjoint out
        matrix_bar: wp.array2d(dtype=mat33),
    ):
        """Compute matrix_bar: D + D', the entries on the diagonal and before it, and their mirrors. rhs_bar: b_0."""
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            tail = constraints.tail[2 * i + 1, world]
            if tail < 0:
                tail = constraints.tail[2 * i, world]
            sweeps = islands.sweeps[islands.island[trees.dof_tree[tail], world], world]
            change = impulse[i, world] - friction.start[i, world]
            ranges = couplings.row[i, world]
            entry = ranges[0]
            for r in range(ranges[2], ranges[3]):
                run = couplings.run[r, world]
                for j in range(run[0], wp.min(run[1], i + 1)):
                    total = mat33()
                    if j == i:
                        total = bars.own[i, world] + wp.transpose(bars.own[i, world])
                    elif islands.mate[j, world] == i:
                        total = wp.transpose(bars.mixed[j, world])
                    else:
                        total = sweeps_product(
                            i, j, sweeps, world, max_constraints, islands, friction, impulse_history, bars
                        )
                    total -= wp.outer(bars.rhs[i, world], impulse[j, world])
                    total -= wp.outer(impulse[i, world], bars.rhs[j, world])
                    total -= wp.outer(rhs_bar[i, world], impulse[j, world] - friction.start[j, world])
                    total -= wp.outer(change, rhs_bar[j, world])
                    matrix_bar[entry, world] = total
                    if j < i:
                        matrix_bar[couplings.mirror[entry, world], world] = wp.transpose(total)
                    entry += 1

    @wp.kernel(module=module, enable_backward=False)
    def add_noslip_bars(
        # Data in
        constraints: Constraints,
        # Adjoint in
        bars: Bars,
        # Adjoint out
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
    ):
        """Add b_N to b_0, after everything else, over (constraint, world)."""
        i, world = wp.tid()
        if i < constraints.count[world]:
            rhs_bar[i, world] += bars.rhs[i, world]
            bound_bar[i, world] += bars.bound[i, world]

    return SimpleNamespace(
        module=module,
        Bars=Bars,
        noslip_reverse=noslip_reverse,
        noslip_matrix_adjoint=noslip_matrix_adjoint,
        add_noslip_bars=add_noslip_bars,
    )
