"""Sweeps of Gauss-Seidel over the constraints of a lane group's worlds, as :mod:`warp_kernels.solver.newton.sweeps` has them for one.

Each world has its own number of sweeps; those that have had theirs keep what they have.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.algebra.lane_code import native_code
from warp_kernels.solver.newton.group.structs import LIST
from warp_kernels.solver.newton.sweeps import EVERY

# What the sweeps keep of a constraint, [constraint, FIELDS, L]: swept impulses, values without impulses, R of the first row and of the
# others, the constraint's own matrix row by row, step lengths, bound, the class, see CLASSES, the direction along which the impulses go
# on between sweeps, and their change in the last one.
SWEPT, RHS, SOFTNESS, OWN, LENGTHS, BOUND, CLASS, DIRECTION, CHANGE, FIELDS = 0, 3, 6, 8, 17, 20, 21, 22, 25, 28
# A world has no constraint of this number, or one that nothing moves; one with friction or that pushes only; one within a bound on
# both sides; rows without bounds.
NONE, PUSHES, BOUNDED, UNBOUNDED = 0, 1, 2, 3

_FIELDS = f"""
    pack* own_fields = reinterpret_cast<pack*>(fields.data) + constraint * {FIELDS};
    pack* swept = own_fields + {SWEPT};
    const pack* rhs = own_fields + {RHS};
    const pack* soft = own_fields + {SOFTNESS};
    const pack* own = own_fields + {OWN};
    const pack* lengths = own_fields + {LENGTHS};
    const pack bound = own_fields[{BOUND}], is = own_fields[{CLASS}];
    pack* moved = own_fields + {CHANGE};
"""
_OWN = (
    LIST
    + f"""
    pack* matrix = reinterpret_cast<pack*>(fields.data) + constraint * {FIELDS} + {OWN};
    for (int d = 0; d < size; ++d) {{{{
        const pack mass = INVERSE_MASS(list[d]);
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) matrix[3 * r + c] += entries[3 * d + r] * entries[3 * d + c] * mass;
    }}}}
"""
)
_CONE = """
            const pack x = old[1] - lengths[1] * (r[1] + own[3] * change), y = old[2] - lengths[2] * (r[2] + own[6] * change);
            const pack square = x * x + y * y, limit = bound * pushed;
            pack factor = limit == nothing ? nothing : nothing + 1;
            factor = square > limit * limit ? limit / __builtin_elementwise_sqrt(square) : factor;
            const pack first = x * factor, second = y * factor;
"""
_PYRAMID = """
            const pack limit = bound * pushed;
            const pack first = clamp(old[1] - lengths[1] * (r[1] + own[3] * change), limit);
            const pack second = clamp(old[2] - lengths[2] * (r[2] + own[6] * change + own[7] * (first - old[1])), limit);
"""
_SWEEP = """
    const pack nothing = 0;
    auto clamp = [](pack x, pack limit) {{
        x = x < -limit ? -limit : x;
        return x > limit ? limit : x;
    }};
    auto inverse = [&](pack x, pack floor) {{ return x > floor ? (nothing + 1) / x : nothing; }};
    int most = 0;
    lanes_of wanted;
    for (int n = 0; n < {lanes}; ++n) {{
        wanted[n] = reinterpret_cast<const int*>(number.data)[n];
        if (wanted[n] > most) most = wanted[n];
    }}
    pack* start = reinterpret_cast<pack*>(motion.data);
    pack* further = start + nv;
    for (int k = 0; k < nv; ++k) further[k] = nothing;
    pack* all_fields = reinterpret_cast<pack*>(fields.data);
    for (int constraint = 0; constraint < count; ++constraint)
        for (int c = 0; c < 3; ++c) all_fields[constraint * {FIELDS} + {DIRECTION} + c] = nothing;
    pack before = nothing + number_type(__builtin_inf());
    for (int turn = 0; turn < most; ++turn) {{
        pack energy = nothing;
        for (int k = 0; k < nv; ++k) start[k] = Z(k);
        for (int constraint = 0; constraint < count; ++constraint) {{
            {fields}
            const pack old[3] = {{swept[0], swept[1], swept[2]}};
            lanes_of goes_on = (wanted > turn) & (is != nothing);
            if (turn % {every}) goes_on &= (old[0] != nothing) | (old[1] != nothing) | (old[2] != nothing);
            for (int c = 0; c < 3; ++c) moved[c] = nothing;
            if (!__builtin_reduce_or(goes_on)) continue;
            {list}
            pack r[3] = {{rhs[0], rhs[1], rhs[2]}};
            for (int d = 0; d < size; ++d) {{
                const pack z_here = Z(list[d]);
                for (int c = 0; c < 3; ++c) r[c] += entries[3 * d + c] * z_here;
            }}
            r[0] += soft[0] * old[0];
            r[1] += soft[1] * old[1];
            r[2] += soft[1] * old[2];
            const pack unbounded = old[0] - lengths[0] * r[0];
            // Contacts and limits.
            const pack pushed = unbounded > nothing ? unbounded : nothing;
            const pack change = pushed - old[0];
            {friction}
            pack found[3] = {{is == {PUSHES} ? pushed : clamp(unbounded, bound), is == {PUSHES} ? first : nothing, is == {PUSHES} ? second : nothing}};
            if (__builtin_reduce_or(is == {UNBOUNDED})) {{
                const pack floor = number_type({singular}) * (own[0] + own[4] + own[8]);
                const pack i0 = inverse(own[0], floor);
                const pack l10 = own[3] * i0, l20 = own[6] * i0;
                const pack i1 = inverse(own[4] - l10 * own[3], floor);
                const pack u21 = own[7] - l20 * own[3];
                const pack l21 = u21 * i1;
                const pack i2 = inverse(own[8] - l20 * own[6] - l21 * u21, floor);
                const pack y1 = r[1] - l10 * r[0];
                const pack x2 = (r[2] - l20 * r[0] - l21 * y1) * i2;
                const pack x1 = y1 * i1 - l21 * x2;
                found[0] = is == {UNBOUNDED} ? old[0] - (r[0] * i0 - l10 * x1 - l20 * x2) : found[0];
                found[1] = is == {UNBOUNDED} ? old[1] - x1 : found[1];
                found[2] = is == {UNBOUNDED} ? old[2] - x2 : found[2];
            }}
            for (int c = 0; c < 3; ++c) {{
                moved[c] = goes_on ? found[c] - old[c] : nothing;
                swept[c] = goes_on ? found[c] : old[c];
            }}
            for (int c = 0; c < 3; ++c)
                energy += moved[c] * (own[3 * c] * moved[0] + own[3 * c + 1] * moved[1] + own[3 * c + 2] * moved[2]);
            for (int d = 0; d < size; ++d)
                Z(list[d]) += (entries[3 * d] * moved[0] + entries[3 * d + 1] * moved[1] + entries[3 * d + 2] * moved[2]) * INVERSE_MASS(list[d]);
        }}
        // Fletcher and Reeves, as for one world.
        const lanes_of turns = (wanted > turn + 1) & (energy <= before) & (before > nothing);
        const pack beta = turns ? energy / before : nothing, share = turns ? nothing + 1 : nothing;
        for (int constraint = 0; constraint < count; ++constraint) {{
            pack* own_fields = all_fields + constraint * {FIELDS};
            for (int c = 0; c < 3; ++c) {{
                const pack along = beta * own_fields[{DIRECTION} + c];
                own_fields[{SWEPT} + c] += along;
                own_fields[{DIRECTION} + c] = along + share * own_fields[{CHANGE} + c];
            }}
        }}
        for (int k = 0; k < nv; ++k) {{
            const pack change = Z(k) - start[k], along = beta * further[k];
            Z(k) += along;
            further[k] = along + share * change;
        }}
        before = energy;
    }}
"""
_MOTION = """
    lanes_of chosen;
    for (int n = 0; n < {lanes}; ++n) chosen[n] = reinterpret_cast<const int*>(number.data)[n] > 0 ? -1 : 0;
    const pack nothing = 0;
    for (int k = 0; k < nv; ++k) Z(k) = chosen ? nothing : Z(k);
    for (int constraint = 0; constraint < count; ++constraint) {{
        {list}
        const pack* swept = reinterpret_cast<const pack*>(fields.data) + constraint * {FIELDS} + {SWEPT};
        const pack push[3] = {{chosen ? swept[0] : nothing, chosen ? swept[1] : nothing, chosen ? swept[2] : nothing}};
        for (int d = 0; d < size; ++d)
            Z(list[d]) += (entries[3 * d] * push[0] + entries[3 * d + 1] * push[1] + entries[3 * d + 2] * push[2]) * INVERSE_MASS(list[d]);
    }}
"""


@functools.cache
def group_sweep_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """The functions for one precision, friction model and number of lanes."""
    ints, numbers = wp.array(dtype=int), wp.array(dtype=scalar)
    of_worlds = wp.array2d(dtype=scalar)
    parts = {
        "fields": _FIELDS,
        "list": LIST,
        "friction": _CONE if friction == "cone" else _PYRAMID,
        "every": EVERY,
        "singular": repr(100.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps)),
        "PUSHES": PUSHES,
        "UNBOUNDED": UNBOUNDED,
        "FIELDS": FIELDS,
        "SWEPT": SWEPT,
        "DIRECTION": DIRECTION,
        "CHANGE": CHANGE,
    }

    @wp.func_native(native_code(scalar, lanes, _OWN, "inverse_mass"))
    def add_own(
        constraint: int,
        group: int,
        nv: int,
        dofs: ints,
        length: ints,
        rows: numbers,
        inverse_mass: of_worlds,
        fields: numbers,
    ):
        """Add a constraint's own matrix to what stands there."""

    @wp.func_native(native_code(scalar, lanes, _MOTION, "z", "inverse_mass", **parts))
    def find_motions(
        group: int,
        count: int,
        nv: int,
        number: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        fields: numbers,
        inverse_mass: of_worlds,
        z: of_worlds,
    ):
        """Set z to what the swept impulses do, in worlds that are to be swept."""

    @wp.func_native(native_code(scalar, lanes, _SWEEP, "z", "inverse_mass", **parts))
    def sweep_constraints(
        group: int,
        count: int,
        nv: int,
        number: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        fields: numbers,
        inverse_mass: of_worlds,
        z: of_worlds,
        motion: numbers,
    ):
        """Each world's number of sweeps. motion: scratch."""

    return SimpleNamespace(add_own=add_own, find_motions=find_motions, sweep_constraints=sweep_constraints)
