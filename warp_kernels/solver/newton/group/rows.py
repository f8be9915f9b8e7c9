"""The rows of constraints for the worlds of a lane group together, with the velocities that they have without impulses.

What the first loop of :mod:`warp_kernels.solver.rows.constraint_rows` does for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code, side_by_side
from warp_kernels.solver.newton.group.order import group_order_functions
from warp_kernels.solver.newton.group.sides import ENTRY, KINDS, MOTION, NO_SIDE, PLACE
from warp_kernels.solver.newton.group.structs import GROUP_ROW_HEADERS, group_structs
from warp_kernels.solver.rows.references import reference_row_functions
from warp_kernels.solver.structs import Constraints, Paths, TreeDofs, solver_structs
from warp_kernels.types import CONE_LIMIT, COUPLING, UPPER_LIMIT, kernel_module, lane_types, warp_types

# Velocities and accelerations side by side, the latter times dt, and the sums of their sizes.
_LOAD = (
    """
    pack* speed = reinterpret_cast<pack*>(velocity.data);
    pack* change = speed + nv;
"""
    + side_by_side("qd", "speed")
    + side_by_side("qdd", "change")
    + """
    for (int k = 0; k < nv; ++k) {{
        change[k] *= dt;
        speed[2 * nv + k] = __builtin_elementwise_abs(speed[k]) + __builtin_elementwise_abs(change[k]);
    }}
"""
)
# One side after the other. A world whose constraint isn't made of velocities has a frame of zeros, and the entries of its joint.
_ROWS = (
    """
    typedef wp::uint64 bits __attribute__((ext_vector_type({lanes})));
    const pack nothing = 0;
    const wp::uint64* masks = reinterpret_cast<const wp::uint64*>(path.data);
    const int* depths = reinterpret_cast<const int*>(dof_depth.data);
    const int* starts = reinterpret_cast<const int*>(dof_row_start.data);
    const int* ancestors = reinterpret_cast<const int*>(ancestor.data);
    const pack* speed = reinterpret_cast<const pack*>(velocity.data);
    const pack part = *reinterpret_cast<const pack*>(share.data);
    const int* own_constraint = reinterpret_cast<const int*>(order.data) + place * {lanes};
    pack rates[3] = {{nothing, nothing, nothing}}, sizes[3] = {{nothing, nothing, nothing}}, rate_before = nothing;
"""
    + ENTRY
    + """
    for (int side = 0; side < 2; ++side) {{
"""
    + NO_SIDE
    + """
        bool any_joint = false;
        int kinds[{lanes}], items[{lanes}], ends[{lanes}];
        for (int n = 0; n < {lanes}; ++n) {{
            kinds[n] = -1;
            const int world = group * {lanes} + n, constraint = own_constraint[n];
            if (constraint < 0) continue;
            const int end = *ENTRY(tail, const int, 2 * constraint + side, world);
            if (end < 0) continue;
            const int which = kinds[n] = *ENTRY(kind, const int, constraint, world);
            const int at = items[n] = *ENTRY(item, const int, constraint, world);
            ends[n] = end;
            paths[n] = masks[end];
            all |= masks[end];
            if (which != {CONTACT} && which != {POINT} && which != {ORIENTATION}) {{
                any_joint = true;
                continue;
            }}
            const int tree = reinterpret_cast<const int*>(dof_tree.data)[end];
            const int other = *ENTRY(reference, const int, constraint, world);
"""
    + PLACE
    + """
        }}
        if (!all) continue;
        pack entries[64][3];
        const bool only_joints = !any_linear && !any_angular;
        if (only_joints)
            for (wp::uint64 rest = all; rest; rest &= rest - 1)
                for (int r = 0; r < 3; ++r) entries[__builtin_ctzll(rest)][r] = nothing;
        else for (wp::uint64 rest = all; rest; rest &= rest - 1) {{
            const int k = __builtin_ctzll(rest);
"""
    + MOTION
    + """
            for (int r = 0; r < 3; ++r)
                entries[k][r] = on * (frame[3 * r] * motion[0] + frame[3 * r + 1] * motion[1] + frame[3 * r + 2] * motion[2]);
        }}
        if (any_joint)
            for (int n = 0; n < {lanes}; ++n) {{
                if (kinds[n] < 0 || kinds[n] == {CONTACT} || kinds[n] == {POINT} || kinds[n] == {ORIENTATION}) continue;
                const int world = group * {lanes} + n, k = ends[n];
                if (kinds[n] == {CONE_LIMIT}) {{
                    const number_type* rate = ENTRY(cone_row, const number_type, items[n], world);
                    for (int axis = 0; axis < 3; ++axis) entries[k - 2 + axis][0][n] = rate[axis];
                }} else if (kinds[n] == {COUPLING} && side == 0) {{
                    const int last = coupling_ratio.shape[0] - 1;
                    entries[k][0][n] = -*ENTRY(coupling_ratio, const number_type, world < last ? world : last, items[n]);
                }} else
                    entries[k][0][n] = kinds[n] == {UPPER_LIMIT} ? -1 : 1;
            }}
        for (wp::uint64 rest = all; rest; rest &= rest - 1) {{
            const int k = __builtin_ctzll(rest);
            const pack rate = part * speed[k] + speed[nv + k], size = speed[2 * nv + k];
            rate_before += entries[k][0] * speed[k];
            for (int r = 0; r < 3; ++r) {{
                rates[r] += entries[k][r] * rate;
                sizes[r] += size * __builtin_elementwise_abs(entries[k][r]);
            }}
        }}
        // Times L'^-1, deepest first.
        for (wp::uint64 rest = all; rest;) {{
            const int k = 63 - __builtin_clzll(rest);
            rest ^= wp::uint64(1) << k;
            const pack x = entries[k][0], y = entries[k][1], z = entries[k][2];
            for (int at = starts[k]; at < starts[k] + depths[k]; ++at) {{
                pack* above = entries[ancestors[at]];
                const pack l = FACTOR_L(at);
                above[0] -= x * l;
                if (only_joints) continue;
                above[1] -= y * l;
                above[2] -= z * l;
            }}
        }}
        for (int n = 0; n < {lanes}; ++n) {{
            if (kinds[n] < 0) continue;
            const int constraint = own_constraint[n];
            char* to = reinterpret_cast<char*>(ENTRY(row, char, (2 * constraint + side) * max_depth, group * {lanes} + n));
            for (wp::uint64 rest = paths[n]; rest; rest &= rest - 1, to += row.strides[0]) {{
                const pack* from = entries[__builtin_ctzll(rest)];
                for (int r = 0; r < 3; ++r) reinterpret_cast<number_type*>(to)[r] = from[r][n];
            }}
        }}
    }}
    for (int n = 0; n < {lanes}; ++n) {{
        const int world = group * {lanes} + n, constraint = own_constraint[n];
        if (constraint < 0) continue;
        number_type* own_rates = ENTRY(rhs, number_type, constraint, world);
        number_type* own_sizes = ENTRY(size, number_type, constraint, world);
        for (int r = 0; r < 3; ++r) own_rates[r] = rates[r][n];
        own_sizes[0] = sizes[0][n];
        own_sizes[1] = sizes[1][n] > sizes[2][n] ? sizes[1][n] : sizes[2][n];
        if (before.shape[0] > 0) *ENTRY(before, number_type, constraint, world) = rate_before[n];
    }}
#undef ENTRY
"""
)


@functools.cache
def group_row_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The kernel for one precision and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    t, lane = warp_types(scalar), lane_types(scalar, lanes)
    vec3 = t.vec3
    ints, ints2d, numbers = wp.array(dtype=int), wp.array2d(dtype=int), wp.array(dtype=scalar)
    of_worlds, vectors, frames = wp.array2d(dtype=scalar), wp.array2d(dtype=vec3), wp.array2d(dtype=t.mat33)
    order, reference_rows = group_order_functions(scalar, lanes), reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Contacts, Equalities, Cones = structs.Contacts, structs.Equalities, structs.Cones
    References, Rows, Bounces = structs.References, structs.Rows, structs.Bounces
    Group = group_structs(scalar).Group
    module = kernel_module("group_rows", scalar, lanes, headers=GROUP_ROW_HEADERS)
    kinds = {**KINDS, "CONE_LIMIT": CONE_LIMIT, "COUPLING": COUPLING, "UPPER_LIMIT": UPPER_LIMIT}

    @wp.func_native(native_code(scalar, lanes, _LOAD))
    def load_speeds(group: int, nv: int, dt: scalar, qd: of_worlds, qdd: of_worlds, velocity: numbers):
        """Put what multiplies the rows side by side."""

    @wp.func_native(native_code(scalar, lanes, _ROWS, "factor_l", **kinds))
    def make_rows(
        place: int,
        group: int,
        nv: int,
        max_depth: int,
        order: ints,
        share: numbers,
        dof_depth: ints,
        dof_row_start: ints,
        ancestor: ints,
        path: wp.array(dtype=wp.uint64),
        dof_tree: ints,
        kind: ints2d,
        item: ints2d,
        tail: ints2d,
        reference: ints2d,
        origin: vectors,
        subspace: wp.array2d(dtype=lane.spatial),
        factor_l: of_worlds,
        contact_point: vectors,
        contact_apart: vectors,
        contact_frame: frames,
        anchor_point: vectors,
        anchor_apart: vectors,
        anchor_frame: frames,
        cone_row: vectors,
        coupling_ratio: of_worlds,
        velocity: numbers,
        row: vectors,
        rhs: vectors,
        size: wp.array2d(dtype=t.vec2),
        before: of_worlds,
    ):
        """The rows of the constraints in one place, and the velocities there without impulses."""

    @wp.kernel(module=module, enable_backward=False)
    def group_rows(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dt: scalar,
        # Parameters
        coupling_ratio: of_worlds,
        # Data in
        qd: of_worlds,
        qdd: of_worlds,
        origin: vectors,
        subspace: wp.array2d(dtype=lane.spatial),
        factor_l: of_worlds,
        contacts: Contacts,
        equalities: Equalities,
        cones: Cones,
        references: References,
        constraints: Constraints,
        # Data out
        shared: Group,
        row: vectors,
        rows: Rows,
        bounces: Bounces,
    ):
        """Rows along both paths. rows: ``rhs`` without biases, which come after, and ``size``. Rows of kernels of their own are left out."""
        group = wp.tid()
        nv = paths.dof_depth.shape[0]
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        most = int(0)
        for n in range(worlds):
            most = wp.max(most, constraints.count[group * lanes + n])
        if most == 0:
            return
        load_speeds(group, nv, dt, qd, qdd, shared.velocity)
        for place in range(order.arrange(group, most, constraints, shared)):
            for n in range(lanes):
                i = shared.order[place * lanes + n]
                if i >= 0:
                    world = group * lanes + n
                    kind = constraints.kind[i, world]
                    if reference_rows.has_own_kernels(kind):
                        shared.order[place * lanes + n] = -1
                    else:
                        own = reference_rows.reference(references, kind, constraints.item[i, world], world)
                        shared.three[n] = own[2]
            make_rows(
                place, group, nv, paths.max_depth, shared.order, shared.three, paths.dof_depth, paths.dof_row_start,
                paths.ancestor, shared.path, trees.dof_tree, constraints.kind, constraints.item, constraints.tail,
                constraints.reference, origin, subspace, factor_l, contacts.point, contacts.apart, contacts.frame,
                equalities.anchor_point, equalities.anchor_apart, equalities.anchor_frame, cones.row, coupling_ratio,
                shared.velocity, row, rows.rhs, rows.size, bounces.before,
            )  # fmt: skip

    return SimpleNamespace(module=module, group_rows=group_rows)
