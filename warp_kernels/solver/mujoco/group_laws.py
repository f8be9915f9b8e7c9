"""MuJoCo's laws for the worlds of a lane group side by side, with masks in place of the branches of :mod:`warp_kernels.solver.mujoco.laws`.

What a law needs of a constraint is gathered once, zero for a world that has no constraint of this number. Then every constraint has all
that any kind has: a row between two bounds, rows without bounds, and a cone.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code
from warp_kernels.solver.mujoco.laws import CONES, flattest_square
from warp_kernels.solver.newton.descent import SLIDES_FROM, SLOPE, SUMS
from warp_kernels.solver.newton.group.structs import LIST, group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import CONTACT, COUPLING, FRICTION_LOSS, SPIN, warp_types

# What is kept of a constraint, [constraint, FIELDS, L]: values, impulses, change of the values along a step, values without impulses; the
# first row's 1 / R where it is without a cone, and its least and largest impulse; 1 / R of other rows without a cone; the friction
# coefficient of a cone, zero without, and two numbers of its own; 1 / R of the other rows, sizes of what the values are sums of,
# and the share of the normal impulse from which friction slides, negative for what doesn't.
VALUE, IMPULSE, SLIP, RHS, FIRST, LOW, HIGH, OTHERS, MU, CONE, GRIP, SIZE, SLIDES = (
    0,
    3,
    6,
    9,
    12,
    13,
    14,
    15,
    16,
    17,
    19,
    20,
    22,
)
assert SLIDES < FIELDS

_ANSWER_PYRAMID = """
        auto edge = [&](pack x) {{ return x < nothing ? -law[{CONE}] * x : nothing; }};
        const pack ahead = edge(r[0] + mu * r[1]), behind = edge(r[0] - mu * r[1]);
        const pack left = edge(r[0] + mu * r[2]), right = edge(r[0] - mu * r[2]);
        answer[0] += ahead + behind + left + right;
        answer[1] += mu * (ahead - behind);
        answer[2] += mu * (left - right);
"""
_SLOPE_PYRAMID = """
        auto edge = [&](pack x) {{ return x < nothing ? -law[{CONE}] : nothing; }};
        const pack ahead = edge(r[0] + mu * r[1]), behind = edge(r[0] - mu * r[1]);
        const pack left = edge(r[0] + mu * r[2]), right = edge(r[0] - mu * r[2]);
        slopes[0] += ahead + behind + left + right;
        slopes[1] = mu * (ahead - behind);
        slopes[2] = mu * (left - right);
        slopes[4] += mu * mu * (ahead + behind);
        slopes[8] += mu * mu * (left + right);
"""
_ON_CONE = """
        const pack slip_size = __builtin_elementwise_sqrt(r[1] * r[1] + r[2] * r[2]);
        const pack excess = mu * slip_size - r[0], ratio = law[{CONE} + 1];
        const lanes_of slides = (mu > nothing) & (excess + (ratio + 1) * r[0] > nothing) & (excess > nothing);
        const lanes_of sticks = (mu > nothing) & ~slides & (excess > nothing);
"""
_ANSWER_ELLIPTIC = (
    _ON_CONE
    + """
        const pack normal = law[{CONE}] * excess / (ratio + 1), along = -mu * normal / slip_size;
        answer[0] += slides ? normal : sticks ? -law[{CONE}] * r[0] : nothing;
        answer[1] += slides ? along * r[1] : sticks ? -law[{GRIP}] * r[1] : nothing;
        answer[2] += slides ? along * r[2] : sticks ? -law[{GRIP}] * r[2] : nothing;
"""
)
_SLOPE_ELLIPTIC = (
    _ON_CONE
    + """
        const pack steep = law[{CONE}] / (ratio + 1), bends = mu * steep * excess / slip_size;
        const pack x = r[1] / slip_size, y = r[2] / slip_size;
        slopes[0] += slides ? -steep : sticks ? -law[{CONE}] : nothing;
        slopes[1] = slides ? steep * mu * x : nothing;
        slopes[2] = slides ? steep * mu * y : nothing;
        slopes[4] += slides ? -steep * mu * x * mu * x - bends * y * y : sticks ? -law[{GRIP}] : nothing;
        slopes[5] = slides ? -steep * mu * x * mu * y + bends * x * y : nothing;
        slopes[8] += slides ? -steep * mu * y * mu * y - bends * x * x : sticks ? -law[{GRIP}] : nothing;
"""
)
# Impulses that answer to values.
_RESPOND = """
    const pack nothing = 0;
    auto respond = [&](const pack* law, const pack* r, pack* answer) {{
        const pack mu = law[{MU}], push = -law[{FIRST}] * r[0];
        answer[0] = push < law[{LOW}] ? law[{LOW}] : push;
        answer[0] = answer[0] > law[{HIGH}] ? law[{HIGH}] : answer[0];
        answer[1] = -law[{OTHERS}] * r[1];
        answer[2] = -law[{OTHERS}] * r[2];
        {answer}
    }};
    pack* all_laws = reinterpret_cast<pack*>(fields.data);
"""
_CLEAR = """
    const pack nothing = 0;
    for (int at = 0; at < count * {FIELDS}; ++at) reinterpret_cast<pack*>(fields.data)[at] = nothing;
"""
_RESIDUALS = """
    {respond}
    lanes_of chosen;
    for (int n = 0; n < {lanes}; ++n) chosen[n] = reinterpret_cast<const int*>(waits.data)[n] ? 0 : -1;
    for (int constraint = 0; constraint < count; ++constraint) {{
        {list}
        pack* law = all_laws + constraint * {FIELDS};
        pack r[3] = {{nothing, nothing, nothing}}, answer[3];
        for (int d = 0; d < size; ++d) {{
            const pack z_here = Z(list[d]);
            for (int c = 0; c < 3; ++c) r[c] += entries[3 * d + c] * z_here;
        }}
        for (int c = 0; c < 3; ++c) r[c] += law[{RHS} + c];
        respond(law, r, answer);
        for (int c = 0; c < 3; ++c) {{
            law[{VALUE} + c] = chosen ? r[c] : law[{VALUE} + c];
            law[{IMPULSE} + c] = chosen ? answer[c] : law[{IMPULSE} + c];
            answer[c] = chosen ? answer[c] : nothing;
        }}
        for (int d = 0; d < size; ++d)
            RESIDUAL(list[d]) -= entries[3 * d] * answer[0] + entries[3 * d + 1] * answer[1] + entries[3 * d + 2] * answer[2];
    }}
"""
_SLOPES = """
    const pack nothing = 0;
    lanes_of chosen;
    for (int n = 0; n < {lanes}; ++n) chosen[n] = reinterpret_cast<const int*>(waits.data)[n] ? 0 : -1;
    for (int constraint = 0; constraint < count; ++constraint) {{
        const pack* law = reinterpret_cast<const pack*>(fields.data) + constraint * {FIELDS};
        const pack* r = law + {VALUE};
        pack* to = reinterpret_cast<pack*>(slope.data) + 9 * constraint;
        const pack mu = law[{MU}], push = -law[{FIRST}] * r[0];
        pack slopes[9] = {{nothing, nothing, nothing, nothing, -law[{OTHERS}], nothing, nothing, nothing, -law[{OTHERS}]}};
        slopes[0] = ((push > law[{LOW}]) & (push <= law[{HIGH}])) ? -law[{FIRST}] : nothing;
        {slope}
        lanes_of any = chosen & ((slopes[0] != nothing) | (slopes[4] != nothing) | (slopes[8] != nothing));
        reinterpret_cast<int*>(answers.data)[constraint] = __builtin_reduce_or(any) ? 1 : 0;
        slopes[3] = slopes[1];
        slopes[6] = slopes[2];
        slopes[7] = slopes[5];
        for (int c = 0; c < 9; ++c) to[c] = chosen ? slopes[c] : nothing;
    }}
"""
_LENGTHS = """
    {respond}
    lanes_of searches;
    for (int n = 0; n < {lanes}; ++n) searches[n] = reinterpret_cast<const int*>(moves.data)[n] ? -1 : 0;
    const lanes_of chosen = searches;
    const pack begins = reinterpret_cast<const pack*>(along.data)[0], grows = reinterpret_cast<const pack*>(along.data)[1];
    pack low_slope = begins;
    for (int constraint = 0; constraint < count; ++constraint) {{
        {list}
        pack* slip = all_laws + constraint * {FIELDS} + {SLIP};
        pack r[3] = {{nothing, nothing, nothing}};
        for (int d = 0; d < size; ++d) {{
            const pack step_here = STEP(list[d]);
            for (int c = 0; c < 3; ++c) r[c] += entries[3 * d + c] * step_here;
        }}
        for (int c = 0; c < 3; ++c) slip[c] = r[c];
        const pack* impulse = all_laws + constraint * {FIELDS} + {IMPULSE};
        low_slope -= impulse[0] * slip[0] + impulse[1] * slip[1] + impulse[2] * slip[2];
    }}
    auto slope_at = [&](pack way) {{
        pack total = begins + way * grows;
        for (int constraint = 0; constraint < count; ++constraint) {{
            const pack* law = all_laws + constraint * {FIELDS};
            const pack* slip = law + {SLIP};
            pack r[3], answer[3];
            for (int c = 0; c < 3; ++c) r[c] = law[{VALUE} + c] + way * slip[c];
            respond(law, r, answer);
            total -= answer[0] * slip[0] + answer[1] * slip[1] + answer[2] * slip[2];
        }}
        return total;
    }};
    pack low = nothing, high = nothing + 1, way = high, higher = low;
    pack high_slope = slope_at(high), higher_slope = low_slope;
    const pack goal = number_type({SLOPE}) * __builtin_elementwise_abs(low_slope);
    // A step that doesn't lead down is rounding.
    searches &= ~((__builtin_elementwise_abs(high_slope) <= goal) | (high_slope < nothing)) & ~(low_slope >= nothing);
    for (int search = 0; search < 20 && __builtin_reduce_or(searches); ++search) {{
        const pack secant = search % 3 == 1 ? high - high_slope * (higher - high) / (higher_slope - high_slope)
                                            : low - low_slope * (high - low) / (high_slope - low_slope);
        lanes_of within = (secant > low) & (secant < high);
        if (search % 3 == 2) within ^= within;
        const pack next = within ? secant : number_type(0.5) * (low + high);
        way = searches ? next : way;
        const pack slope = slope_at(way);
        searches &= ~(__builtin_elementwise_abs(slope) <= goal);
        const lanes_of falls = searches & (slope < nothing), rises = searches & ~(slope < nothing);
        low = falls ? way : low;
        low_slope = falls ? slope : low_slope;
        higher = rises ? high : higher;
        higher_slope = rises ? high_slope : higher_slope;
        high = rises ? way : high;
        high_slope = rises ? slope : high_slope;
    }}
    // What is still searching ends beyond the least, see convex_length of warp_kernels.solver.newton.descent.
    way = searches ? high : way;
    *reinterpret_cast<pack*>(lengths.data) = chosen ? way : nothing;
"""
_AT_HAND = """
    const pack nothing = 0;
    pack total = nothing;
    const number_type rounding = number_type({SUMS}) * precision;
    for (int constraint = 0; constraint < count; ++constraint) {{
        const pack* law = reinterpret_cast<const pack*>(fields.data) + constraint * {FIELDS};
        const pack* impulse = law + {IMPULSE};
        const pack first = law[{SIZE}], other = law[{SIZE} + 1];
        const lanes_of answers = (impulse[0] != nothing) | (__builtin_elementwise_abs(law[{VALUE}]) <= rounding * first);
        const pack limit = law[{SLIDES}] * impulse[0];
        const lanes_of holds = (law[{SLIDES}] < nothing) | (impulse[1] * impulse[1] + impulse[2] * impulse[2] < limit * limit);
        total += (answers ? first * first + (holds ? other * other : nothing) : nothing) * law[{GRIP}];
    }}
    *reinterpret_cast<pack*>(at_hand.data) = epsilon * total;
"""
_PUSHES = """
    const number_type* all = reinterpret_cast<const number_type*>(fields.data);
    for (int constraint = 0; constraint < count; ++constraint)
        for (int c = 0; c < 3; ++c)
            if (all[(constraint * {FIELDS} + {IMPULSE} + c) * {lanes} + n] != number_type(0)) return true;
    return false;
"""
_KEEP = """
    const number_type* all = reinterpret_cast<const number_type*>(fields.data);
    for (int n = 0; n < {lanes}; ++n) {{
        const wp::int64 world = group * {lanes} + n;
        if (world >= value.shape[1]) return;
        for (int constraint = 0; constraint < count; ++constraint) {{
            const int own = reinterpret_cast<const int*>(order.data)[constraint * {lanes} + n];
            if (own < 0) continue;
            number_type* values = reinterpret_cast<number_type*>(reinterpret_cast<char*>(value.data) + own * wp::int64(value.strides[0]) + world * wp::int64(value.strides[1]));
            number_type* impulses = reinterpret_cast<number_type*>(reinterpret_cast<char*>(impulse.data) + own * wp::int64(impulse.strides[0]) + world * wp::int64(impulse.strides[1]));
            for (int c = 0; c < 3; ++c) {{
                values[c] = all[(constraint * {FIELDS} + {VALUE} + c) * {lanes} + n];
                impulses[c] = all[(constraint * {FIELDS} + {IMPULSE} + c) * {lanes} + n];
            }}
        }}
    }}
"""
_CODES = {"pyramidal": (_ANSWER_PYRAMID, _SLOPE_PYRAMID), "elliptic": (_ANSWER_ELLIPTIC, _SLOPE_ELLIPTIC)}


@functools.cache
def mujoco_group_law_functions(scalar: Any, cone: str, lanes: int) -> SimpleNamespace:
    """The functions for one precision, cone and number of lanes; none for a cone that has no code for groups."""
    if cone not in CONES.values():
        return SimpleNamespace()
    t = warp_types(scalar)
    structs = newton_structs(scalar)
    Problem = structs.Problem
    Group = group_structs(scalar).Group
    ints, numbers = wp.array(dtype=int), wp.array(dtype=scalar)
    of_worlds, vectors = wp.array2d(dtype=scalar), wp.array2d(dtype=t.vec3)
    zero, infinite = scalar(0.0), scalar(wp.inf)
    flattest = flattest_square(scalar)
    places = {
        name: globals()[name]
        for name in (
            "FIELDS", "VALUE", "IMPULSE", "SLIP", "RHS", "FIRST", "LOW", "HIGH", "OTHERS", "MU", "CONE", "GRIP", "SIZE", "SLIDES",
        )
    }  # fmt: skip
    answer, slope = (code.format(**places) for code in _CODES[cone])
    parts = {
        **places,
        "list": LIST,
        "slope": slope,
        "respond": _RESPOND.format(answer=answer, **places),
        "SLOPE": SLOPE,
        "SUMS": SUMS[scalar],
    }
    code = functools.partial(native_code, scalar, lanes, **parts)

    @wp.func
    def put(i: int, n: int, field: int, x: scalar, shared: Group):
        shared.fields[(i * FIELDS + field) * lanes + n] = x

    @wp.func
    def put_cone(i: int, n: int, friction: scalar, grip: t.vec2, shared: Group):
        """What a contact's cone is made of, see :mod:`warp_kernels.solver.mujoco.laws`."""
        put(i, n, MU, friction, shared)
        if wp.static(cone == "pyramidal"):
            edge = grip[1] / (scalar(2.0) * friction * friction)
            put(i, n, CONE, edge, shared)
            put(i, n, GRIP, wp.max(grip[1], scalar(2.0) * flattest * edge), shared)
        else:
            put(i, n, CONE, grip[0], shared)
            put(i, n, CONE + 1, friction * friction * grip[0] / grip[1], shared)

    @wp.func_native(code(_CLEAR))
    def clear_fields(count: int, fields: numbers):
        """Set what is kept of constraints to zero."""

    @wp.func
    def gather_laws(group: int, most: int, constraints: Constraints, problem: Problem, shared: Group):
        """Gather what the laws need of all constraints."""
        clear_fields(most, shared.fields)
        for n in range(lanes):
            world = group * lanes + n
            for i in range(most):
                own = shared.order[i * lanes + n]
                if own < 0:
                    continue
                kind = constraints.kind[own, world]
                rhs = problem.rhs[own, world]
                for c in range(3):
                    put(i, n, RHS + c, rhs[c], shared)
                grip = problem.grip[own, world]
                bound = problem.bound[own, world]
                size = problem.size[own, world]
                put(i, n, GRIP, grip[1], shared)
                put(i, n, SIZE, size[0], shared)
                put(i, n, SIZE + 1, size[1], shared)
                put(i, n, SLIDES, scalar(-1.0), shared)
                if kind == CONTACT:
                    put(i, n, SLIDES, scalar(SLIDES_FROM) * bound, shared)
                if (kind == CONTACT or kind >= SPIN) and bound > zero:
                    put_cone(i, n, bound, grip, shared)
                else:
                    put(i, n, FIRST, grip[0], shared)
                    high = infinite
                    if kind >= FRICTION_LOSS and kind <= COUPLING:
                        high = bound
                    low = -high
                    if kind < FRICTION_LOSS:
                        low = zero
                    put(i, n, LOW, low, shared)
                    put(i, n, HIGH, high, shared)
                    if kind > COUPLING:
                        put(i, n, OTHERS, grip[1], shared)

    @wp.func_native(code(_RESIDUALS, "z", "residual"))
    def find_answers(
        group: int,
        count: int,
        nv: int,
        waits: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        fields: numbers,
        z: of_worlds,
        residual: of_worlds,
    ):
        """Values and impulses at z, whose push is taken away from the residual; nothing for worlds that wait."""

    @wp.func_native(code(_SLOPES))
    def find_slopes(count: int, waits: ints, fields: numbers, slope: numbers, answers: ints):
        """As :func:`warp_kernels.solver.newton.group.steps.group_step_functions`' of the same name, of all constraints."""

    @wp.func_native(code(_LENGTHS, "step"))
    def find_lengths(
        group: int,
        count: int,
        nv: int,
        moves: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        fields: numbers,
        along: numbers,
        step: of_worlds,
        lengths: numbers,
    ):
        """As :func:`convex_length` of :mod:`warp_kernels.solver.newton.descent`; zero for worlds that don't move."""

    @wp.func_native(code(_AT_HAND))
    def find_at_hand(count: int, epsilon: scalar, precision: scalar, fields: numbers, at_hand: numbers):
        """As :func:`square_at_hand` there."""

    @wp.func_native(code(_PUSHES))
    def pushes(count: int, n: int, fields: numbers) -> bool:
        """Whether any constraint of world n of the group answers with an impulse."""

    @wp.func_native(code(_KEEP))
    def keep_answers(group: int, count: int, order: ints, fields: numbers, value: vectors, impulse: vectors):
        """Write values and impulses to where others read them."""

    return SimpleNamespace(
        gather_laws=gather_laws,
        find_answers=find_answers,
        find_slopes=find_slopes,
        find_lengths=find_lengths,
        find_at_hand=find_at_hand,
        pushes=pushes,
        keep_answers=keep_answers,
    )
