"""MuJoCo's noslip solver: friction again after the solution, without regularisation.

Gauss-Seidel sweeps update dry friction first, then friction of contacts, one after the other, while normal impulses
stay fixed. A friction force is set so that nothing slips, or to the nearest value within its bound: an interval for dry
friction, an ellipsoid for elliptic cones, and an interval for each pair of edges of a pyramid, whose normal part they
share. Coupled constraints form an island, whose sweeps end once they gain too little (mj_solNoSlip of MuJoCo's
engine_solver.c).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, is_contact, is_in_cone, is_in_interval, is_of_contact, spins
from warp_kernels.constraints.listing import tree_of
from warp_kernels.solver.mujoco.ellipsoid import ellipsoid_functions
from warp_kernels.solver.mujoco.laws import ALL_CONES, RESISTING
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import LEAST_INVERSE, kernel_module, warp_types

# MuJoCo's smallest force, and the cost that an update may add [N m/s^2].
SMALLEST = 1e-15
HARMLESS = 1e-10
# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"noslip_kernels": [(cone,) for cone in ALL_CONES]}


@wp.struct
class Islands:
    """Islands of coupled constraints, and the order of a sweep.

    Attributes:
        count: constraints that a sweep updates [world].
        sequence: these constraints, in the order of a sweep [nc, world].
        turn: index of each constraint in that sequence, -1 for those not in it [nc, world].
        mate: the TORSION of a contact, -1 for none [nc, world].
        island: the first tree of the island of each tree [num_trees, world].
        sweeps: number of sweeps, by that tree [num_trees, world].
    """

    count: wp.array(dtype=int)
    sequence: wp.array2d(dtype=int)
    turn: wp.array2d(dtype=int)
    mate: wp.array2d(dtype=int)
    island: wp.array2d(dtype=int)
    sweeps: wp.array2d(dtype=int)


@functools.cache
def noslip_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    t = warp_types(scalar)

    @wp.struct
    class Friction:
        """Problem of all sweeps, from :class:`warp_kernels.solver.newton.structs.Problem` and the solution.

        Attributes:
            rhs: row values without impulses [nc, world].
            bound: friction coefficient, or largest impulse [nc, world].
            resistance: torsional and rolling friction of each contact [contact, world], m; no rows if none has any.
            matrix: entries of the Delassus matrix without R.
            row_stiffness: 1 / R of the first row and of the others [nc, world].
            value: row values of the solution [nc, world].
            start: its impulses [nc, world].
        """

        rhs: wp.array2d(dtype=t.vec3)
        bound: wp.array2d(dtype=scalar)
        resistance: wp.array2d(dtype=t.vec2)
        matrix: wp.array2d(dtype=t.mat33)
        row_stiffness: wp.array2d(dtype=t.vec2)
        value: wp.array2d(dtype=t.vec3)
        start: wp.array2d(dtype=t.vec3)

    return SimpleNamespace(Friction=Friction)


@functools.cache
def noslip_functions(scalar: Any, cone: str) -> SimpleNamespace:
    """Return the Warp functions for one precision and cone."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    paired, pyramidal = cone == RESISTING, cone == "pyramidal"
    bowl = ellipsoid_functions(scalar, 5 if paired else 2)
    vec, mat = bowl.vec, bowl.mat
    Friction = noslip_structs(scalar).Friction
    zero, half = scalar(0.0), scalar(0.5)
    smallest, harmless = scalar(SMALLEST), scalar(HARMLESS)

    @wp.func
    def row_values(
        i: int, world: int, rhs: wp.array2d(dtype=vec3), matrix: wp.array2d(dtype=mat33), couplings: Couplings,
        impulse: wp.array2d(dtype=vec3),
    ):  # fmt: skip
        """Return the values of a constraint's rows."""
        total = rhs[i, world]
        ranges = couplings.row[i, world]
        entry = ranges[0]
        for r in range(ranges[2], ranges[3]):
            run = couplings.run[r, world]
            for j in range(run[0], run[1]):
                total += matrix[entry, world] * impulse[j, world]
                entry += 1
        return total

    @wp.func
    def entry_between(i: int, j: int, world: int, couplings: Couplings):
        """Return the offset of the matrix between two constraints of one tree."""
        ranges = couplings.row[i, world]
        entry = ranges[0]
        for r in range(ranges[2], ranges[3]):
            run = couplings.run[r, world]
            if j >= run[0] and j < run[1]:
                return entry + j - run[0]
            entry += run[1] - run[0]
        return entry

    @wp.func
    def edge_push(number: int, i: int, world: int, friction: Friction):
        """Return the impulse along an edge of a pyramid in the solution, the edge minus the normal, and its stiffness."""
        coefficient = friction.bound[i, world]
        sign = scalar(1 - 2 * (number % 2))
        tilt = vec3(zero, sign, zero)
        if number >= 2:
            tilt = vec3(zero, zero, sign)
        stiffness = friction.row_stiffness[i, world][1] / (scalar(2.0) * coefficient * coefficient)
        value = friction.value[i, world]
        return wp.max(zero, -stiffness * (value[0] + coefficient * wp.dot(tilt, value))), tilt, stiffness

    @wp.func
    def pair_pushes(i: int, world: int, friction: Friction):
        """Return the normal parts of both pairs of edges of a pyramid, for each tangent."""
        sums = vec2()
        for number in range(4):
            push, _tilt, _grip = edge_push(number, i, world, friction)
            sums[number // 2] += push
        return sums

    @wp.func
    def in_ellipsoid(i: int, mate: int, world: int, couplings: Couplings, friction: Friction):
        """Return the matrix of the tangents of a contact, its spin and its rolling, and their coefficients."""
        own = friction.matrix[couplings.row[i, world][1], world]
        a = mat()
        d = vec()
        for j in range(2):
            d[j] = friction.bound[i, world]
            for k in range(2):
                a[j, k] = own[j + 1, k + 1]
        if wp.static(paired):
            if mate >= 0:
                mixed = friction.matrix[entry_between(i, mate, world, couplings), world]
                other = friction.matrix[couplings.row[mate, world][1], world]
                for j in range(3):
                    d[2 + j] = friction.resistance[i, world][wp.min(j, 1)]
                    for k in range(3):
                        a[2 + j, 2 + k] = other[j, k]
                    for k in range(2):
                        a[k, 2 + j] = mixed[k + 1, j]
                        a[2 + j, k] = mixed[k + 1, j]
        return a, d

    @wp.func
    def joined(first: vec3, second: vec3):
        """Join tangents of a contact with its spin and rolling."""
        both = vec()
        both[0] = first[1]
        both[1] = first[2]
        if wp.static(paired):
            for j in range(3):
                both[2 + j] = second[j]
        return both

    @wp.func
    def tail_of(both: vec):
        """Return the spin and rolling part."""
        result = vec3()
        if wp.static(paired):
            result = vec3(both[2], both[3], both[4])
        return result

    @wp.func
    def least_friction(a: mat, d: vec, values: vec, old: vec, normal: scalar, dt: scalar):
        """Return the friction of a contact after its update, the multiplier of the bound, and the change of the cost;
        -2 for the multiplier if the friction stays as it is.
        """
        new = vec()
        multiplier = -scalar(1.0)
        if normal >= smallest * dt:
            new, multiplier = bowl.least(a, values - a * old, d, normal, dt)
        change = new - old
        cost = half * wp.dot(change, a * change) + wp.dot(change, values)
        if cost > harmless * dt * dt:
            return old, -scalar(2.0), zero
        return new, multiplier, cost

    @wp.func
    def within(value: scalar, own: scalar, old: scalar, most: scalar):
        """Return a single friction force after its update, and the change of the cost."""
        new = zero
        if own > zero:
            new = wp.clamp(old - value / own, -most, most)
        change = new - old
        return new, (half * own * change + value) * change

    return SimpleNamespace(
        row_values=row_values,
        entry_between=entry_between,
        edge_push=edge_push,
        pair_pushes=pair_pushes,
        in_ellipsoid=in_ellipsoid,
        joined=joined,
        tail_of=tail_of,
        least_friction=least_friction,
        within=within,
        bowl=bowl,
        paired=paired,
        pyramidal=pyramidal,
    )


@functools.cache
def noslip_kernels(scalar: Any, cone: str = "elliptic") -> SimpleNamespace:
    """Return the solver for one precision and cone, one thread per world."""
    t = warp_types(scalar)
    vec3 = t.vec3
    f = noslip_functions(scalar, cone)
    Friction = noslip_structs(scalar).Friction
    module = kernel_module(f"noslip.{cone}", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, half = scalar(0.0), scalar(0.5)

    @wp.func
    def find_islands(count: int, world: int, trees: TreeDofs, constraints: Constraints, friction: Friction, x: Islands):
        for tree in range(x.island.shape[0]):
            x.island[tree, world] = tree
            x.sweeps[tree, world] = 0
        for i in range(count):
            a = tree_of(constraints.tail[2 * i, world], trees.dof_tree)
            b = tree_of(constraints.tail[2 * i + 1, world], trees.dof_tree)
            if a < 0 or b < 0 or friction.row_stiffness[i, world][0] == zero:
                continue
            low = wp.min(x.island[a, world], x.island[b, world])
            high = wp.max(x.island[a, world], x.island[b, world])
            if low != high:
                for tree in range(x.island.shape[0]):
                    if x.island[tree, world] == high:
                        x.island[tree, world] = low

    @wp.func
    def append(i: int, world: int, x: Islands):
        slot = x.count[world]
        x.sequence[slot, world] = i
        x.turn[i, world] = slot
        x.count[world] = slot + 1

    @wp.func
    def find_sequence(count: int, world: int, constraints: Constraints, friction: Friction, x: Islands):
        """Order dry friction, then each contact with its spinning and rolling friction. Contacts without friction are
        omitted.
        """
        x.count[world] = 0
        other = int(-1)
        for i in range(count):
            kind = constraints.kind[i, world]
            x.turn[i, world] = -1
            x.mate[i, world] = -1
            if not is_contact(kind) and other < 0:
                other = i
            if is_in_interval(kind) and wp.isfinite(friction.bound[i, world]):
                append(i, world, x)
        if other < 0:
            other = count
        for i in range(other):
            rubs = friction.bound[i, world] > zero and friction.row_stiffness[i, world][0] > zero
            if rubs:
                append(i, world, x)
            while (
                other < count and is_of_contact(constraints.kind[other, world]) and constraints.item[other, world] == i
            ):
                if rubs and follows_contact(constraints.kind[other, world]):
                    x.mate[i, world] = other
                    x.turn[other, world] = x.turn[i, world]
                elif rubs:
                    append(other, world, x)
                other += 1

    @wp.func
    def island_of(i: int, world: int, trees: TreeDofs, constraints: Constraints, x: Islands):
        tree = tree_of(constraints.tail[2 * i + 1, world], trees.dof_tree)
        if tree < 0:
            tree = tree_of(constraints.tail[2 * i, world], trees.dof_tree)
        return x.island[tree, world]

    @wp.func
    def find_enough(
        world: int, tolerance: scalar, paths: Paths, trees: TreeDofs, factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar), x: Islands, enough: wp.array2d(dtype=scalar),
    ):  # fmt: skip
        """Compute the tolerance times the sum of the entries on the diagonal of M = L' D L, of each island; factor_d is
        1 / D.
        """
        for tree in range(enough.shape[0]):
            enough[tree, world] = zero
        for k in range(paths.dof_depth.shape[0]):
            squares = scalar(1.0)
            for d in range(paths.dof_depth[k]):
                entry = factor_l[paths.dof_row_start[k] + d, world]
                squares += entry * entry
            if factor_d[k, world] > scalar(LEAST_INVERSE):
                enough[x.island[trees.dof_tree[k], world], world] += tolerance * squares / factor_d[k, world]

    @wp.func
    def compliance_cost(i: int, world: int, constraints: Constraints, friction: Friction):
        """Return R times half of the square of a constraint's impulses, by rows or edges as in MuJoCo."""
        stiffness = friction.row_stiffness[i, world]
        kind = constraints.kind[i, world]
        if stiffness[0] == zero:
            return zero
        p = friction.start[i, world]
        if wp.static(f.pyramidal) and is_in_cone(kind) and friction.bound[i, world] > zero:
            total = zero
            for number in range(4):
                push, _tilt, edge_stiffness = f.edge_push(number, i, world, friction)
                total += half * push * push / edge_stiffness
            return total
        if wp.static(f.paired) and follows_contact(kind):
            contact = constraints.item[i, world]
            share = friction.resistance[contact, world] / friction.bound[contact, world]
            total = zero
            for j in range(3):
                if p[j] != zero:
                    entry = p[j] / share[wp.min(j, 1)]
                    total += half * entry * entry / friction.row_stiffness[contact, world][1]
            return total
        return half * (p[0] * p[0] / stiffness[0] + (p[1] * p[1] + p[2] * p[2]) / stiffness[1])

    @wp.func
    def keep(
        i: int,
        world: int,
        at: int,
        value: vec3,
        impulse: vec3,
        values: wp.array2d(dtype=vec3),
        impulses: wp.array2d(dtype=vec3),
    ):
        if impulses.shape[0] > 0:
            values[at + i, world] = value
            impulses[at + i, world] = impulse

    @wp.kernel(module=module, enable_backward=False)
    def noslip(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dt: scalar,
        noslip_iterations: int,
        noslip_tolerance: scalar,
        max_constraints: int,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        constraints: Constraints,
        couplings: Couplings,
        friction: Friction,
        # Data out
        start: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        islands: Islands,
        gain: wp.array2d(dtype=scalar),
        enough: wp.array2d(dtype=scalar),
        impulse_history: wp.array2d(dtype=vec3),
        value_history: wp.array2d(dtype=vec3),
    ):
        """Run the sweeps. impulse: of the solution, then after the sweeps. start: of the solution, in the rows of
        friction. gain: cost reduction by a sweep of an island, enough: the reduction required to continue [num_trees,
        world].

        Histories: impulses after each sweep, and the row values at each update [sweeps nc, world]; no rows if not
        requested.
        """
        world = wp.tid()
        count = constraints.count[world]
        for i in range(count):
            start[i, world] = impulse[i, world]
        find_islands(count, world, trees, constraints, friction, islands)
        find_sequence(count, world, constraints, friction, islands)
        find_enough(world, noslip_tolerance * dt * dt, paths, trees, factor_l, factor_d, islands, enough)
        for sweep in range(noslip_iterations):
            for tree in range(gain.shape[0]):
                gain[tree, world] = zero
            if sweep == 0:
                for i in range(count):
                    island = island_of(i, world, trees, constraints, islands)
                    gain[island, world] += compliance_cost(i, world, constraints, friction)
            at = sweep * max_constraints
            for slot in range(islands.count[world]):
                i = islands.sequence[slot, world]
                kind = constraints.kind[i, world]
                island = island_of(i, world, trees, constraints, islands)
                if islands.sweeps[island, world] < sweep:
                    continue
                own = friction.matrix[couplings.row[i, world][1], world]
                old = impulse[i, world]
                value = f.row_values(i, world, friction.rhs, friction.matrix, couplings, impulse)
                cost = zero
                if is_in_interval(kind):
                    after, more = f.within(value[0], own[0, 0], old[0], friction.bound[i, world])
                    old[0] = after
                    cost = more
                elif wp.static(f.pyramidal):
                    most = friction.bound[i, world] * f.pair_pushes(i, world, friction)
                    if spins(kind):
                        # Both rows are one.
                        after, more = f.within(value[1], own[1, 1], old[1] + old[2], most[0] + most[1])
                        old[1] = half * after
                        old[2] = half * after
                        cost = more
                    else:
                        for j in range(1, 3):
                            before = old[j]
                            after, more = f.within(value[j], own[j, j], before, most[j - 1])
                            old[j] = after
                            cost += more
                            if j == 1:
                                value[2] = value[2] + own[2, 1] * (after - before)
                else:
                    mate = islands.mate[i, world]
                    a, d = f.in_ellipsoid(i, mate, world, couplings, friction)
                    second = vec3()
                    second_value = vec3()
                    if wp.static(f.paired):
                        if mate >= 0:
                            second = impulse[mate, world]
                            second_value = f.row_values(mate, world, friction.rhs, friction.matrix, couplings, impulse)
                    new, _multiplier, change = f.least_friction(
                        a, d, f.joined(value, second_value), f.joined(old, second), old[0], dt
                    )
                    cost = change
                    old = vec3(old[0], new[0], new[1])
                    if wp.static(f.paired):
                        if mate >= 0:
                            impulse[mate, world] = f.tail_of(new)
                            keep(mate, world, at, second_value, f.tail_of(new), value_history, impulse_history)
                impulse[i, world] = old
                keep(i, world, at, value, old, value_history, impulse_history)
                gain[island, world] -= cost
            going = int(0)
            for tree in range(gain.shape[0]):
                # An island that has ended keeps its number of sweeps.
                if islands.island[tree, world] == tree and islands.sweeps[tree, world] == sweep:
                    islands.sweeps[tree, world] = sweep + 1
                    if gain[tree, world] < enough[tree, world]:
                        islands.sweeps[tree, world] = -sweep - 1
                    else:
                        going = 1
            if going == 0:
                break
        for tree in range(gain.shape[0]):
            islands.sweeps[tree, world] = wp.abs(islands.sweeps[tree, world])

    return SimpleNamespace(module=module, noslip=noslip)
