"""Linear algebra for the worlds of a lane group: products with their rows, the system of a Newton step, its factors and solution.

What :mod:`warp_kernels.solver.newton.system` and :mod:`warp_kernels.solver.products` do for one world. All worlds of a group have one
outline: a constraint's rows are zero where another world's constraint of the same number acts alone. Zeros change no sum, so that a
world's numbers don't depend on the others of its group.

Degree of freedom k has place nv - 1 - k: leaves come before roots.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code, side_by_side
from warp_kernels.solver.newton.group.structs import LIST
from warp_kernels.types import LEAST_INVERSE, warp_types

_GATHER = """
    number_type* to = reinterpret_cast<number_type*>(rows.data) + constraint * nv * 3 * {lanes};
    int* list = reinterpret_cast<int*>(dofs.data) + constraint * nv;
    const wp::uint64* masks = reinterpret_cast<const wp::uint64*>(path.data);
    int tails[2 * {lanes}];
    wp::uint64 mask = 0;
    for (int n = 0; n < {lanes}; ++n)
        for (int side = 0; side < 2; ++side) {{
            const int own = reinterpret_cast<const int*>(order.data)[constraint * {lanes} + n];
            int t = -1;
            if (own >= 0)
                t = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(tail.data) + (2 * own + side) * wp::int64(tail.strides[0]) + (group * {lanes} + n) * wp::int64(tail.strides[1]));
            tails[2 * n + side] = t;
            if (t >= 0) mask |= masks[t];
        }}
    int place[64];
    int size = 0;
    for (wp::uint64 rest = mask; rest; rest &= rest - 1) {{
        const int k = __builtin_ctzll(rest);
        place[k] = size;
        list[size++] = k;
    }}
    reinterpret_cast<int*>(length.data)[constraint] = size;
    const pack nothing = 0;
    for (int at = 0; at < 3 * size; ++at) *reinterpret_cast<pack*>(to + at * {lanes}) = nothing;
    const int* depths = reinterpret_cast<const int*>(dof_depth.data);
    const int* starts = reinterpret_cast<const int*>(dof_row_start.data);
    const int* ancestors = reinterpret_cast<const int*>(ancestor.data);
    for (int n = 0; n < {lanes}; ++n)
        for (int side = 0; side < 2; ++side) {{
            const int t = tails[2 * n + side];
            if (t < 0) continue;
            const int own = reinterpret_cast<const int*>(order.data)[constraint * {lanes} + n];
            const char* from = reinterpret_cast<const char*>(row.data) + (2 * own + side) * max_depth * wp::int64(row.strides[0])
                + (group * {lanes} + n) * wp::int64(row.strides[1]);
            const int depth = depths[t];
            const int* above = ancestors + starts[t];
            for (int d = 0; d <= depth; ++d, from += row.strides[0]) {{
                number_type* entry = to + place[d < depth ? above[d] : t] * 3 * {lanes} + n;
                const number_type* three_rows = reinterpret_cast<const number_type*>(from);
                for (int r = 0; r < 3; ++r) entry[r * {lanes}] = side == 0 ? three_rows[r] : entry[r * {lanes}] + three_rows[r];
            }}
        }}
"""
_VALUES = """
    pack a = 0, b = 0, c = 0;
    for (int d = 0; d < size; ++d) {{
        const pack x = Z(list[d]);
        a += entries[3 * d] * x;
        b += entries[3 * d + 1] * x;
        c += entries[3 * d + 2] * x;
    }}
    pack* to = reinterpret_cast<pack*>(three.data);
    to[0] = a;
    to[1] = b;
    to[2] = c;
"""
_PUSH = """
    const pack* push = reinterpret_cast<const pack*>(three.data);
    const pack a = push[0], b = push[1], c = push[2];
    for (int d = 0; d < size; ++d)
        RESIDUAL(list[d]) -= entries[3 * d] * a + entries[3 * d + 1] * b + entries[3 * d + 2] * c;
"""
_OUTLINE = """
    int* begin = reinterpret_cast<int*>(first.data);
    const int* lengths = reinterpret_cast<const int*>(length.data);
    for (int p = 0; p < nv; ++p) begin[p] = p;
    for (int constraint = 0; constraint < count; ++constraint) {{
        if (!reinterpret_cast<const int*>(answers.data)[constraint]) continue;
        const int* list = reinterpret_cast<const int*>(dofs.data) + constraint * nv;
        const int size = lengths[constraint];
        for (int d = 0; d < size; ++d) {{
            const int p = nv - 1 - list[d], least = nv - 1 - list[size - 1];
            if (least < begin[p]) begin[p] = least;
        }}
    }}
    pack* below = reinterpret_cast<pack*>(lower.data);
    pack* above = reinterpret_cast<pack*>(upper.data);
    const pack nothing = 0;
    for (int p = 0; p < nv; ++p) {{
        const int row = p * (p + 1) / 2;
        for (int q = begin[p]; q < p; ++q) below[row + q] = above[row + q] = nothing;
        below[row + p] = number_type(1) / INVERSE_MASS(nv - 1 - p);
    }}
"""
_ADD = """
    const pack* s = reinterpret_cast<const pack*>(slope.data) + 9 * constraint;
    pack answer[64 * 3];
    for (int e = 0; e < size; ++e) {{
        const pack x = entries[3 * e], y = entries[3 * e + 1], z = entries[3 * e + 2];
        for (int r = 0; r < 3; ++r) answer[3 * e + r] = s[3 * r] * x + s[3 * r + 1] * y + s[3 * r + 2] * z;
    }}
    // Places descend along the list. Two rows at a time, so that answers are read half as often.
    auto row_at = [&](int d) {{
        const int p = nv - 1 - list[d];
        return reinterpret_cast<pack*>(lower.data) + p * (p + 1) / 2 + nv - 1;
    }};
    for (int d = 0; d < size; d += 2) {{
        const pack x = entries[3 * d], y = entries[3 * d + 1], z = entries[3 * d + 2];
        pack* below = row_at(d);
        below[-list[d]] -= x * answer[3 * d] + y * answer[3 * d + 1] + z * answer[3 * d + 2];
        if (d + 1 == size) break;
        const pack u = entries[3 * d + 3], v = entries[3 * d + 4], w = entries[3 * d + 5];
        pack* next = row_at(d + 1);
        for (int e = d + 1; e < size; ++e) {{
            const pack a = answer[3 * e], b = answer[3 * e + 1], c = answer[3 * e + 2];
            below[-list[e]] -= x * a + y * b + z * c;
            next[-list[e]] -= u * a + v * b + w * c;
        }}
    }}
    if (any_coupled) {{
        for (int d = 0; d < size; ++d) {{
            const int p = nv - 1 - list[d];
            pack* above = reinterpret_cast<pack*>(upper.data) + p * (p + 1) / 2 + nv - 1;
            const pack a = answer[3 * d], b = answer[3 * d + 1], c = answer[3 * d + 2];
            for (int e = d + 1; e < size; ++e) above[-list[e]] -= entries[3 * e] * a + entries[3 * e + 1] * b + entries[3 * e + 2] * c;
        }}
    }}
"""
_FACTORISE = """
    const int* begin = reinterpret_cast<const int*>(first.data);
    pack* below = reinterpret_cast<pack*>(lower.data);
    pack* above = reinterpret_cast<pack*>(upper.data);
    lanes_of is_coupled;
    for (int n = 0; n < {lanes}; ++n) is_coupled[n] = reinterpret_cast<const int*>(coupled.data)[n] ? -1 : 0;
    pack smallest = 1;
    for (int p = 0; p < nv; ++p) {{
        pack* own = below + p * (p + 1) / 2;
        pack* own_above = above + p * (p + 1) / 2;
        const pack diagonal = own[p];
        pack pivot = diagonal;
        for (int q = begin[p]; q < p; ++q) {{
            const pack* other = below + q * (q + 1) / 2;
            const pack* other_above = above + q * (q + 1) / 2;
            const int start = begin[p] > begin[q] ? begin[p] : begin[q];
            pack left = own[q];
            for (int m = start; m < q; ++m) left -= own[m] * other_above[m];
            pack right = left;
            if (any_coupled) {{
                pack sum = own_above[q];
                for (int m = start; m < q; ++m) sum -= other[m] * own_above[m];
                right = is_coupled ? sum : left;
            }}
            left *= other[q];
            own[q] = left;
            own_above[q] = right;
            pivot -= left * right;
        }}
        const pack share = __builtin_elementwise_abs(pivot / diagonal);
        // Not a number is the smallest.
        smallest = share >= smallest ? smallest : share;
        own[p] = number_type(1) / pivot;
    }}
    *reinterpret_cast<pack*>(least.data) = smallest;
"""
_SOLVE = """
    const int* begin = reinterpret_cast<const int*>(first.data);
    const pack* below = reinterpret_cast<const pack*>(lower.data);
    const pack* above = reinterpret_cast<const pack*>(upper.data);
    pack* x = reinterpret_cast<pack*>(velocity.data);
    for (int p = 0; p < nv; ++p) {{
        pack value = -RESIDUAL(nv - 1 - p);
        for (int q = begin[p]; q < p; ++q) value -= below[p * (p + 1) / 2 + q] * x[q];
        x[p] = value;
    }}
    for (int p = nv - 1; p >= 0; --p) {{
        const pack value = x[p] * below[p * (p + 1) / 2 + p];
        x[p] = value;
        STEP(nv - 1 - p) = value;
        for (int q = begin[p]; q < p; ++q) x[q] -= above[p * (p + 1) / 2 + q] * value;
    }}
"""
_SQUARE = """
    pack total = 0;
    for (int k = 0; k < nv; ++k) total += RESIDUAL(k) * RESIDUAL(k) * INVERSE_MASS(k);
    *reinterpret_cast<pack*>(square.data) = total;
"""
_BEGIN_RESIDUAL = """
    for (int k = 0; k < nv; ++k) RESIDUAL(k) = Z(k) / INVERSE_MASS(k);
"""
_LEFT = """
    const pack* below = reinterpret_cast<const pack*>(lower.data);
    pack largest = 0;
    for (int k = 0; k < nv; ++k) {{
        const int p = nv - 1 - k;
        const pack rest = __builtin_elementwise_abs(RESIDUAL(k)) * __builtin_elementwise_abs(below[p * (p + 1) / 2 + p]);
        largest = rest > largest ? rest : largest;
    }}
    *reinterpret_cast<pack*>(left.data) = largest;
"""
_MOVING = """
    lanes_of chosen;
    for (int n = 0; n < {lanes}; ++n) chosen[n] = reinterpret_cast<const int*>(moves.data)[n] ? -1 : 0;
    const pack nothing = 0;
"""
_START = "    for (int k = 0; k < nv; ++k) Z(k) = chosen ? STEP(k) : nothing;"
_MOVE = "    for (int k = 0; k < nv; ++k) Z(k) += chosen ? length * STEP(k) : nothing;"
_MOVE_BY = """
    const pack* length = reinterpret_cast<const pack*>(lengths.data);
    for (int k = 0; k < nv; ++k) Z(k) += chosen ? *length * STEP(k) : nothing;
"""
_ENERGIES = """
    pack begins = 0, grows = 0;
    for (int k = 0; k < nv; ++k) {{
        const pack push = STEP(k) / INVERSE_MASS(k);
        begins += push * Z(k);
        grows += push * STEP(k);
    }}
    reinterpret_cast<pack*>(along.data)[0] = begins;
    reinterpret_cast<pack*>(along.data)[1] = grows;
"""
_KEEP = """
    const int* begin = reinterpret_cast<const int*>(first.data);
    const pack* below = reinterpret_cast<const pack*>(lower.data);
    const pack* above = reinterpret_cast<const pack*>(upper.data);
    typedef int integers __attribute__((ext_vector_type({lanes}), aligned(4)));
    integers kept;
    for (int n = 0; n < {lanes}; ++n) kept[n] = reinterpret_cast<const int*>(moves.data)[n] ? -1 : 0;
    for (int p = 0; p < nv; ++p) {{
        integers& where = *reinterpret_cast<integers*>(reinterpret_cast<char*>(place.data) + (nv - 1 - p) * wp::int64(place.strides[0]) + group * wp::int64(sizeof(integers)));
        integers& start = *reinterpret_cast<integers*>(reinterpret_cast<char*>(system_first.data) + p * wp::int64(system_first.strides[0]) + group * wp::int64(sizeof(integers)));
        const integers here = p, there = begin[p];
        where = kept ? here : where;
        start = kept ? there : start;
        const int row = p * (p + 1) / 2;
        for (int q = begin[p]; q < p; ++q) {{
            SYSTEM_LOWER(row + q) = chosen ? below[row + q] : SYSTEM_LOWER(row + q);
            if (with_upper) SYSTEM_UPPER(row + q) = chosen ? above[row + q] : SYSTEM_UPPER(row + q);
        }}
        SYSTEM_LOWER(row + p) = chosen ? below[row + p] : SYSTEM_LOWER(row + p);
    }}
"""
_LOOK_BACK = (
    """
    pack* speed = reinterpret_cast<pack*>(velocity.data);
    pack* change = speed + nv;
"""
    + side_by_side("qd", "speed")
    + side_by_side("qdd", "change")
    + """
    const int* depths = reinterpret_cast<const int*>(dof_depth.data);
    const int* starts = reinterpret_cast<const int*>(dof_row_start.data);
    const int* ancestors = reinterpret_cast<const int*>(ancestor.data);
    pack total = 0;
    const pack nothing = 0, least = number_type({least_inverse});
    for (int k = 0; k < nv; ++k) speed[k] = __builtin_elementwise_abs(speed[k]) + dt * __builtin_elementwise_abs(change[k]);
    for (int k = 0; k < nv; ++k) {{
        pack way = change[k], size = speed[k];
        for (int d = 0; d < depths[k]; ++d) {{
            const int j = ancestors[starts[k] + d];
            const pack l = FACTOR_L(starts[k] + d);
            way += l * change[j];
            size += __builtin_elementwise_abs(l) * speed[j];
        }}
        STEP(k) = -dt * way;
        total += INVERSE_MASS(k) > least ? size * size / INVERSE_MASS(k) : nothing;
    }}
    *reinterpret_cast<pack*>(scale.data) = total;
"""
)


@functools.cache
def group_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes. Arguments are arrays of :class:`Group` and those of the worlds."""
    vec3 = warp_types(scalar).vec3
    ints, numbers = wp.array(dtype=int), wp.array(dtype=scalar)
    of_worlds = wp.array2d(dtype=scalar)
    code = functools.partial(native_code, scalar, lanes)

    @wp.func_native(code(_GATHER))
    def gather_rows(
        constraint: int,
        group: int,
        nv: int,
        max_depth: int,
        dof_depth: ints,
        dof_row_start: ints,
        ancestor: ints,
        path: wp.array(dtype=wp.uint64),
        order: ints,
        tail: wp.array2d(dtype=int),
        row: wp.array2d(dtype=vec3),
        dofs: ints,
        length: ints,
        rows: numbers,
    ):
        """Put the rows of all worlds side by side."""

    @wp.func_native(code(LIST + _VALUES, "z"))
    def find_values(
        constraint: int, group: int, nv: int, dofs: ints, length: ints, rows: numbers, z: of_worlds, three: numbers
    ):
        """The rows times z."""

    @wp.func_native(code(LIST + _PUSH, "residual"))
    def take_push(
        constraint: int,
        group: int,
        nv: int,
        dofs: ints,
        length: ints,
        rows: numbers,
        three: numbers,
        residual: of_worlds,
    ):
        """Take the push of the impulses away from the residual."""

    @wp.func_native(code(_BEGIN_RESIDUAL, "z", "inverse_mass", "residual"))
    def begin_residual(group: int, nv: int, z: of_worlds, inverse_mass: of_worlds, residual: of_worlds):
        """D z."""

    @wp.func_native(code(_SQUARE, "inverse_mass", "residual"))
    def find_square(group: int, nv: int, inverse_mass: of_worlds, residual: of_worlds, square: numbers):
        """Twice the kinetic energy of the momenta that the residual holds."""

    @wp.func_native(code(_OUTLINE, "inverse_mass"))
    def begin_system(
        group: int,
        count: int,
        nv: int,
        answers: ints,
        dofs: ints,
        length: ints,
        first: ints,
        inverse_mass: of_worlds,
        lower: numbers,
        upper: numbers,
    ):
        """Where each row begins, and D."""

    @wp.func_native(code(LIST + _ADD))
    def add_constraint(
        constraint: int,
        nv: int,
        any_coupled: bool,
        dofs: ints,
        length: ints,
        rows: numbers,
        slope: numbers,
        lower: numbers,
        upper: numbers,
    ):
        """Take ``row' slope row`` away; entries above the diagonal only where ``any_coupled``."""

    @wp.func_native(code(_FACTORISE))
    def factorise(
        nv: int, any_coupled: bool, coupled: ints, first: ints, lower: numbers, upper: numbers, least: numbers
    ):
        """L U without pivoting, L with a unit diagonal."""

    @wp.func_native(code(_SOLVE, "residual", "step"))
    def solve_systems(
        group: int,
        nv: int,
        first: ints,
        lower: numbers,
        upper: numbers,
        velocity: numbers,
        residual: of_worlds,
        step: of_worlds,
    ):
        """The step that the factors make of the residual."""

    @wp.func_native(code(_MOVING + _START, "z", "step"))
    def start_at(group: int, nv: int, moves: ints, step: of_worlds, z: of_worlds):
        """Set z to the step in worlds that move, to zero in others."""

    @wp.func_native(code(_MOVING + _MOVE, "z", "step"))
    def move_along(group: int, nv: int, length: scalar, moves: ints, step: of_worlds, z: of_worlds):
        """Go this far along the step in worlds that move."""

    @wp.func_native(code(_MOVING + _MOVE_BY, "z", "step"))
    def move_by(group: int, nv: int, moves: ints, lengths: numbers, step: of_worlds, z: of_worlds):
        """Go along the step in worlds that move, each as far as its length says."""

    @wp.func_native(code(_ENERGIES, "inverse_mass", "z", "step"))
    def find_energies(group: int, nv: int, inverse_mass: of_worlds, z: of_worlds, step: of_worlds, along: numbers):
        """The slope of kinetic energy along the step at its beginning, and by how much the whole step changes it."""

    @wp.func_native(code(_LEFT, "residual"))
    def velocities_left(group: int, nv: int, lower: numbers, residual: of_worlds, left: numbers):
        """The largest velocity that the pivots make of the residual."""

    @wp.func_native(code(_MOVING + _KEEP, "system_lower", "system_upper"))
    def keep_system(
        group: int,
        nv: int,
        moves: ints,
        with_upper: bool,
        first: ints,
        lower: numbers,
        upper: numbers,
        place: wp.array2d(dtype=int),
        system_first: wp.array2d(dtype=int),
        system_lower: of_worlds,
        system_upper: of_worlds,
    ):
        """Write the factors of worlds that move, L and D and perhaps U, to where the way back reads them."""

    @wp.func_native(code(_LOOK_BACK, "factor_l", "inverse_mass", "step", least_inverse=LEAST_INVERSE))
    def look_back_all(
        group: int,
        nv: int,
        dt: scalar,
        dof_depth: ints,
        dof_row_start: ints,
        ancestor: ints,
        qd: of_worlds,
        qdd: of_worlds,
        factor_l: of_worlds,
        inverse_mass: of_worlds,
        velocity: numbers,
        step: of_worlds,
        scale: numbers,
    ):
        """As :func:`warp_kernels.solver.newton.descent.look_back`."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
