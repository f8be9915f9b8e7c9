"""The way back from rows that are made of velocities to where they act and to the motions of the joints, for the worlds of a lane group.

What :mod:`warp_kernels.solver.row_adjoint` does for the geometric rows of one world. By MuJoCo's law rows hold a share of the velocity
before the step, which has an adjoint as well; by the other one they hold all of it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code, side_by_side
from warp_kernels.solver.newton.group.adjoint_system import OWN_BAR, RHS_BAR
from warp_kernels.solver.newton.group.sides import ENTRY, KINDS, MOTION, NO_SIDE, PLACE
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.structs import Constraints, TreeDofs, solver_structs
from warp_kernels.types import lane_types, warp_types

# The velocities after the step and before it, side by side, and room for the adjoint of the latter between them.
_LOAD = (
    """
    pack* speed = reinterpret_cast<pack*>(velocity.data);
    pack* bars = speed + nv;
    pack* before = bars + nv;
"""
    + side_by_side("qd_solved", "speed")
    + side_by_side("qd", "before")
    + """
    const pack nothing = 0;
    for (int k = 0; k < nv; ++k) bars[k] = nothing;
"""
)
_ADD = """
    const pack* bars = reinterpret_cast<const pack*>(velocity.data) + nv;
    for (int n = 0; n < {lanes} && group * {lanes} + n < qd_bar.shape[0]; ++n) {{
        number_type* v = reinterpret_cast<number_type*>(reinterpret_cast<char*>(qd_bar.data) + (group * {lanes} + n) * wp::int64(qd_bar.strides[0]));
        for (int k = 0; k < nv; ++k) v[k] += bars[k][n];
    }}
"""
# One side of a constraint after the other. A world whose constraint isn't made of velocities is as one without that side.
_ROWS = (
    """
    typedef wp::uint64 bits __attribute__((ext_vector_type({lanes})));
    const pack nothing = 0;
    const wp::uint64* masks = reinterpret_cast<const wp::uint64*>(path.data);
    const int* own_constraint = reinterpret_cast<const int*>(order.data) + place * {lanes};
    const pack* bar = reinterpret_cast<const pack*>(fields.data) + place * {FIELDS} + {RHS_BAR};
    const pack b[3] = {{bar[0], bar[1], bar[2]}};
    const pack* own_bar = reinterpret_cast<const pack*>(fields.data) + place * {FIELDS} + {OWN_BAR};
    bool has_own = false;
    for (int c = 0; c < 6; ++c) has_own |= __builtin_reduce_or(own_bar[c] != nothing);
    const pack* speed = reinterpret_cast<const pack*>(velocity.data);
    pack* speed_bar = reinterpret_cast<pack*>(velocity.data) + nv;
    const pack* before = speed_bar + nv;
    const bool by_share = contact_reference.shape[0] + anchor_reference.shape[0] > 0;
    const pack* g_own = reinterpret_cast<const pack*>(response.data);
"""
    + ENTRY
    + """
    for (int side = 0; side < 2; ++side) {{
"""
    + NO_SIDE
    + """
        pack impulses[3] = {{nothing, nothing, nothing}}, left = nothing, share_bar = nothing;
        int kinds[{lanes}], items[{lanes}], trees[{lanes}], references[{lanes}];
        for (int n = 0; n < {lanes}; ++n) {{
            const int world = group * {lanes} + n;
            kinds[n] = -1;
            const int constraint = own_constraint[n];
            if (constraint < 0) continue;
            const int which = *ENTRY(kind, const int, constraint, world);
            const int end = *ENTRY(tail, const int, 2 * constraint + side, world);
            if (end < 0 || (which != {CONTACT} && which != {POINT} && which != {ORIENTATION})) continue;
            kinds[n] = which;
            paths[n] = masks[end];
            all |= masks[end];
            const int at = items[n] = *ENTRY(item, const int, constraint, world);
            const int tree = trees[n] = reinterpret_cast<const int*>(dof_tree.data)[end];
            const int other = references[n] = *ENTRY(reference, const int, constraint, world);
            const number_type* own_impulse = ENTRY(impulse, const number_type, constraint, world);
            for (int c = 0; c < 3; ++c) impulses[c][n] = own_impulse[c];
            if (by_share)
                left[n] = 1 - (which == {CONTACT} ? ENTRY(contact_reference, const number_type, at, world) : ENTRY(anchor_reference, const number_type, 2 * at + which - {POINT}, world))[2];
"""
    + PLACE
    + """
        }}
        if (!all) continue;
        pack along_impulse[3], along_bar[3], frame_bar[9], lever_bar[3];
        for (int c = 0; c < 3; ++c) {{
            along_impulse[c] = impulses[0] * frame[c] + impulses[1] * frame[3 + c] + impulses[2] * frame[6 + c];
            along_bar[c] = b[0] * frame[c] + b[1] * frame[3 + c] + b[2] * frame[6 + c];
            lever_bar[c] = nothing;
        }}
        for (int c = 0; c < 9; ++c) frame_bar[c] = nothing;
        for (wp::uint64 rest = all; rest; rest &= rest - 1) {{
            const int k = __builtin_ctzll(rest);
"""
    + MOTION
    + """
            pack* column_bar = reinterpret_cast<pack*>(ENTRY(subspace_bar, char, k, group));
            const pack w = on * WEIGHT(k), v = on * (by_share ? speed[k] - left * before[k] : speed[k]);
            pack g[3], push[3];
            for (int r = 0; r < 3; ++r) g[r] = impulses[r] * w + b[r] * v;
            for (int c = 0; c < 3; ++c) push[c] = along_impulse[c] * w + along_bar[c] * v;
            if (has_own) {{
                const pack own[3] = {{on * g_own[3 * k], on * g_own[3 * k + 1], on * g_own[3 * k + 2]}};
                for (int r = 0; r < 3; ++r) g[r] += own[r];
                for (int c = 0; c < 3; ++c) push[c] += own[0] * frame[c] + own[1] * frame[3 + c] + own[2] * frame[6 + c];
            }}
            if (any_linear) {{
                pack turns[3];
                for (int c = 0; c < 3; ++c) {{
                    turns[c] = any_angular ? angular * push[c] : nothing;
                    push[c] = any_angular ? linear * push[c] : push[c];
                    column_bar[3 + c] += push[c];
                }}
                column_bar[0] += (lever[1] * push[2] - lever[2] * push[1]) + turns[0];
                column_bar[1] += (lever[2] * push[0] - lever[0] * push[2]) + turns[1];
                column_bar[2] += (lever[0] * push[1] - lever[1] * push[0]) + turns[2];
                lever_bar[0] += push[1] * z - push[2] * y;
                lever_bar[1] += push[2] * x - push[0] * z;
                lever_bar[2] += push[0] * y - push[1] * x;
            }} else
                for (int c = 0; c < 3; ++c) column_bar[c] += push[c];
            for (int r = 0; r < 3; ++r)
                for (int c = 0; c < 3; ++c) frame_bar[3 * r + c] += g[r] * motion[c];
            const pack along = on * (along_bar[0] * motion[0] + along_bar[1] * motion[1] + along_bar[2] * motion[2]);
            if (by_share) {{
                share_bar += along * before[k];
                speed_bar[k] += along - left * along;
            }} else
                speed_bar[k] += along;
        }}
        for (int n = 0; n < {lanes}; ++n) {{
            if (kinds[n] < 0) continue;
            const int world = group * {lanes} + n, at = items[n];
            const bool touches = kinds[n] == {CONTACT};
            if (by_share)
                (touches ? ENTRY(contact_reference_bar, number_type, at, world) : ENTRY(anchor_reference_bar, number_type, 2 * at + kinds[n] - {POINT}, world))[2] += share_bar[n];
            if (touches || (kinds[n] == {ORIENTATION} && anchor_apart.shape[0] > 0)) {{
                number_type* own_frame_bar = touches ? ENTRY(contact_frame_bar, number_type, at, world) : ENTRY(anchor_frame_bar, number_type, 2 * at + 1, world);
                for (int c = 0; c < 9; ++c) own_frame_bar[c] += sign * frame_bar[c][n];
            }}
            if (kinds[n] == {ORIENTATION}) continue;
            number_type* point_bar = touches ? ENTRY(contact_point_bar, number_type, at, world) : ENTRY(anchor_point_bar, number_type, at, world);
            number_type* from_bar = ENTRY(origin_bar, number_type, references[n], world);
            number_type* to_bar = ENTRY(origin_bar, number_type, trees[n], world);
            for (int c = 0; c < 3; ++c) {{
                point_bar[c] += lever_bar[c][n];
                from_bar[c] += lever_bar[c][n];
                to_bar[c] -= lever_bar[c][n];
            }}
            if (touches ? contact_apart.shape[0] > 0 : anchor_apart.shape[0] > 0) {{
                number_type* apart_bar = touches ? ENTRY(contact_apart_bar, number_type, at, world) : ENTRY(anchor_apart_bar, number_type, at, world);
                for (int c = 0; c < 3; ++c) apart_bar[c] += number_type(0.5) * sign * lever_bar[c][n];
            }}
        }}
    }}
#undef ENTRY
"""
)


@functools.cache
def group_geometry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes."""
    t, lane = warp_types(scalar), lane_types(scalar, lanes)
    ints, ints2d, numbers = wp.array(dtype=int), wp.array2d(dtype=int), wp.array(dtype=scalar)
    of_worlds, vectors, frames = wp.array2d(dtype=scalar), wp.array2d(dtype=t.vec3), wp.array2d(dtype=t.mat33)
    columns = wp.array2d(dtype=lane.spatial)
    structs, Group = solver_structs(scalar), group_structs(scalar).Group
    Contacts, Equalities, References = structs.Contacts, structs.Equalities, structs.References
    code = functools.partial(native_code, scalar, lanes)
    parts = {"FIELDS": FIELDS, "RHS_BAR": RHS_BAR, "OWN_BAR": OWN_BAR, **KINDS}

    @wp.func_native(code(_LOAD))
    def begin_rows(group: int, nv: int, qd: of_worlds, qd_solved: of_worlds, velocity: numbers):
        """Put v+ and qd of all worlds side by side, with zeros for the adjoint of qd between them."""

    @wp.func_native(code(_ROWS, "weight", **parts))
    def add_rows_adjoint(
        place: int,
        group: int,
        nv: int,
        path: wp.array(dtype=wp.uint64),
        dof_tree: ints,
        order: ints,
        kind: ints2d,
        item: ints2d,
        tail: ints2d,
        reference: ints2d,
        origin: vectors,
        contact_point: vectors,
        contact_apart: vectors,
        contact_frame: frames,
        anchor_point: vectors,
        anchor_apart: vectors,
        anchor_frame: frames,
        contact_reference: vectors,
        anchor_reference: vectors,
        impulse: vectors,
        weight: of_worlds,
        fields: numbers,
        response: numbers,
        subspace: columns,
        velocity: numbers,
        subspace_bar: columns,
        origin_bar: vectors,
        contact_point_bar: vectors,
        contact_apart_bar: vectors,
        contact_frame_bar: frames,
        anchor_point_bar: vectors,
        anchor_apart_bar: vectors,
        anchor_frame_bar: frames,
        contact_reference_bar: vectors,
        anchor_reference_bar: vectors,
    ):
        """The same."""

    @wp.func
    def rows_adjoint(
        place: int,
        group: int,
        nv: int,
        trees: TreeDofs,
        constraints: Constraints,
        origin: vectors,
        contacts: Contacts,
        equalities: Equalities,
        references: References,
        impulse: vectors,
        weight: of_worlds,
        shared: Group,
        subspace: columns,
        subspace_bar: columns,
        origin_bar: vectors,
        contacts_bar: Contacts,
        equalities_bar: Equalities,
        references_bar: References,
    ):
        """From the adjoint of the rows of the constraints in one place to those of what they are made of."""
        add_rows_adjoint(
            place, group, nv, shared.path, trees.dof_tree, shared.order, constraints.kind, constraints.item,
            constraints.tail, constraints.reference, origin, contacts.point, contacts.apart, contacts.frame,
            equalities.anchor_point, equalities.anchor_apart, equalities.anchor_frame, references.contact,
            references.anchor, impulse, weight, shared.fields, shared.response, subspace, shared.velocity, subspace_bar,
            origin_bar, contacts_bar.point, contacts_bar.apart, contacts_bar.frame, equalities_bar.anchor_point,
            equalities_bar.anchor_apart, equalities_bar.anchor_frame, references_bar.contact, references_bar.anchor,
        )  # fmt: skip

    @wp.func_native(code(_ADD))
    def end_rows(group: int, nv: int, velocity: numbers, qd_bar: of_worlds):
        """Add what the rows have found of qd."""

    return SimpleNamespace(begin_rows=begin_rows, rows_adjoint=rows_adjoint, end_rows=end_rows)
