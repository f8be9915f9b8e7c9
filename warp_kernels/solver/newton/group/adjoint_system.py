"""Linear algebra of the way back for the worlds of a lane group: the transposed system, and what reaches factors and rows through R.

What :mod:`warp_kernels.solver.newton.adjoint` and :mod:`warp_kernels.solver.newton.own_adjoint` do for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code
from warp_kernels.solver.newton.group.structs import LIST
from warp_kernels.solver.newton.group.sweeps import FIELDS

# Fields of :class:`Group` that the backward pass keeps of a constraint: s, the adjoints of row values, what reaches the impulses other
# than by the next velocity, and the adjoint of the inverse masses of its rows (xx, yy, zz, xy, xz, yz).
S, RHS_BAR, FURTHER, OWN_BAR = 0, 3, 6, 9

_CHOSEN = """
    lanes_of chosen;
    for (int n = 0; n < {lanes}; ++n) chosen[n] = reinterpret_cast<const int*>(moves.data)[n] ? -1 : 0;
    const pack nothing = 0;
"""
# Adds the solution to the step of the worlds that move.
_SOLVE_TRANSPOSED = (
    _CHOSEN
    + """
    const int* begin = reinterpret_cast<const int*>(first.data);
    const pack* below = reinterpret_cast<const pack*>(lower.data);
    const pack* above = reinterpret_cast<const pack*>(upper.data);
    pack* x = reinterpret_cast<pack*>(velocity.data);
    for (int p = 0; p < nv; ++p) {{
        pack value = RESIDUAL(nv - 1 - p);
        for (int q = begin[p]; q < p; ++q) value -= above[p * (p + 1) / 2 + q] * x[q];
        x[p] = value * below[p * (p + 1) / 2 + p];
    }}
    for (int p = nv - 1; p >= 0; --p) {{
        const pack value = x[p];
        STEP(nv - 1 - p) += chosen ? value : nothing;
        for (int q = begin[p]; q < p; ++q) x[q] -= below[p * (p + 1) / 2 + q] * value;
    }}
"""
)
# The same with the factors that the worlds kept, each with an outline of its own: what is outside of it may be of another step.
_SOLVE_KEPT = (
    _CHOSEN
    + """
    typedef int integers __attribute__((ext_vector_type({lanes}), aligned(4)));
    lanes_of outline[64];
    int begin[64];
    pack* x = reinterpret_cast<pack*>(velocity.data);
    for (int p = 0; p < nv; ++p) {{
        const integers start = *reinterpret_cast<const integers*>(reinterpret_cast<const char*>(system_first.data) + p * wp::int64(system_first.strides[0]) + group * wp::int64(sizeof(integers)));
        const lanes_of last = p;
        outline[p] = chosen ? __builtin_convertvector(start, lanes_of) : last;
        begin[p] = __builtin_reduce_min(outline[p]);
        pack value = RESIDUAL(nv - 1 - p);
        for (int q = begin[p]; q < p; ++q) value -= outline[p] <= q ? {first}(p * (p + 1) / 2 + q) * x[q] : nothing;
        x[p] = {symmetric} ? value : value * SYSTEM_LOWER(p * (p + 1) / 2 + p);
    }}
    if ({symmetric})
        for (int p = 0; p < nv; ++p) x[p] *= SYSTEM_LOWER(p * (p + 1) / 2 + p);
    for (int p = nv - 1; p >= 0; --p) {{
        const pack value = x[p];
        STEP(nv - 1 - p) += chosen ? value : nothing;
        for (int q = begin[p]; q < p; ++q) x[q] -= outline[p] <= q ? SYSTEM_LOWER(p * (p + 1) / 2 + q) * value : nothing;
    }}
"""
)
_BEGIN_STEP = (
    _CHOSEN
    + """
    for (int k = 0; k < nv; ++k) STEP(k) = chosen ? nothing : STEP(k);
"""
)
_ADJOINT_RESIDUAL = """
    for (int k = 0; k < nv; ++k) RESIDUAL(k) = (WEIGHT(k) - STEP(k)) / INVERSE_MASS(k);
    for (int constraint = 0; constraint < count; ++constraint) {{
        {list}
        pack* own_fields = reinterpret_cast<pack*>(fields.data) + constraint * {FIELDS};
        const pack nothing = 0;
        pack s[3] = {{nothing, nothing, nothing}};
        for (int d = 0; d < size; ++d) {{
            const pack x = STEP(list[d]);
            for (int r = 0; r < 3; ++r) s[r] += entries[3 * d + r] * x;
        }}
        if (has_further)
            for (int r = 0; r < 3; ++r) s[r] += own_fields[{FURTHER} + r];
        const pack* slopes = reinterpret_cast<const pack*>(slope.data) + 9 * constraint;
        pack bar[3];
        for (int r = 0; r < 3; ++r) bar[r] = s[0] * slopes[r] + s[1] * slopes[3 + r] + s[2] * slopes[6 + r];
        for (int r = 0; r < 3; ++r) {{
            own_fields[{S} + r] = s[r];
            own_fields[{RHS_BAR} + r] = bar[r];
        }}
        if (!reinterpret_cast<const int*>(answers.data)[constraint]) continue;
        for (int d = 0; d < size; ++d)
            RESIDUAL(list[d]) += entries[3 * d] * bar[0] + entries[3 * d + 1] * bar[1] + entries[3 * d + 2] * bar[2];
    }}
"""
# With x the step and x' the weight before, the residual is (x' - x) D + row' rhs_bar: what comes out is x' + D^-1 row' rhs_bar.
_PUSH_WEIGHTS = (
    _CHOSEN
    + """
    for (int k = 0; k < nv; ++k) {{
        const pack pushed = STEP(k) + INVERSE_MASS(k) * RESIDUAL(k);
        WEIGHT(k) = chosen ? pushed : WEIGHT(k);
    }}
"""
)
_FINISH_WEIGHTS = """
    const int* depths = reinterpret_cast<const int*>(dof_depth.data);
    const int* starts = reinterpret_cast<const int*>(dof_row_start.data);
    const int* ancestors = reinterpret_cast<const int*>(ancestor.data);
    for (int k = 0; k < nv; ++k) {{
        pack found = WEIGHT(k);
        for (int d = 0; d < depths[k]; ++d) found -= FACTOR_L(starts[k] + d) * WEIGHT(ancestors[starts[k] + d]);
        WEIGHT(k) = found;
    }}
"""
_CLEAR = """
    const pack nothing = 0;
    for (int at = 0; at < own_mass_bar.shape[0]; ++at) OWN_MASS_BAR(at) = nothing;
    for (int k = 0; k < own_mass_bar_diagonal.shape[0]; ++k) OWN_MASS_BAR_DIAGONAL(k) = nothing;
"""
# All ancestors of a degree of freedom in the list are in it, before it. G is zero or of no use where a world's constraint doesn't act.
_OWN_RESPONSE = (
    LIST
    + """
    const int* depths = reinterpret_cast<const int*>(dof_depth.data);
    const int* starts = reinterpret_cast<const int*>(dof_row_start.data);
    const int* ancestors = reinterpret_cast<const int*>(ancestor.data);
    const pack* own = reinterpret_cast<const pack*>(fields.data) + constraint * {FIELDS} + {OWN_BAR};
    const pack nothing = 0;
    pack* g = reinterpret_cast<pack*>(response.data);
    bool has_own = false;
    for (int c = 0; c < 6; ++c) has_own |= __builtin_reduce_or(own[c] != nothing);
    if (!has_own) {{
        for (int d = 0; d < size; ++d)
            for (int r = 0; r < 3; ++r) g[3 * list[d] + r] = nothing;
        return;
    }}
    for (int d = 0; d < size; ++d) {{
        const int k = list[d], start = starts[k];
        const pack x = entries[3 * d], y = entries[3 * d + 1], z = entries[3 * d + 2];
        const pack mass = INVERSE_MASS(k), twice = 2 * mass;
        pack a = twice * (own[0] * x + own[3] * y + own[4] * z);
        pack b = twice * (own[3] * x + own[1] * y + own[5] * z);
        pack c = twice * (own[4] * x + own[5] * y + own[2] * z);
        OWN_MASS_BAR_DIAGONAL(k) -= number_type(0.5) * mass * (a * x + b * y + c * z);
        for (int e = 0; e < depths[k]; ++e) {{
            const pack* other = g + 3 * ancestors[start + e];
            const pack l = FACTOR_L(start + e);
            a -= l * other[0];
            b -= l * other[1];
            c -= l * other[2];
            OWN_MASS_BAR(start + e) -= x * other[0] + y * other[1] + z * other[2];
        }}
        g[3 * k] = a;
        g[3 * k + 1] = b;
        g[3 * k + 2] = c;
    }}
"""
)


@functools.cache
def adjoint_system_functions(scalar: Any, lanes: int, symmetric: bool) -> SimpleNamespace:
    """The functions for one precision, number of lanes and kind of systems. Arguments are as those of :func:`group_functions`.

    Of systems that are always ``symmetric`` U is not kept, D^-1 and L tell it.
    """
    ints, numbers = wp.array(dtype=int), wp.array(dtype=scalar)
    of_worlds = wp.array2d(dtype=scalar)
    code = functools.partial(native_code, scalar, lanes)
    places = {"FIELDS": FIELDS, "S": S, "RHS_BAR": RHS_BAR, "OWN_BAR": OWN_BAR, "FURTHER": FURTHER}

    @wp.func_native(code(_BEGIN_STEP, "step"))
    def begin_step(group: int, nv: int, moves: ints, step: of_worlds):
        """Zero in worlds that move."""

    @wp.func_native(code(_SOLVE_TRANSPOSED, "residual", "step"))
    def solve_transposed(
        group: int,
        nv: int,
        moves: ints,
        first: ints,
        lower: numbers,
        upper: numbers,
        velocity: numbers,
        residual: of_worlds,
        step: of_worlds,
    ):
        """Add to the step of worlds that move what the transposed factors make of the residual."""

    halves = {"first": "SYSTEM_LOWER" if symmetric else "SYSTEM_UPPER", "symmetric": str(symmetric).lower()}

    @wp.func_native(code(_SOLVE_KEPT, "system_lower", "system_upper", "residual", "step", **halves))
    def solve_kept(
        group: int,
        nv: int,
        moves: ints,
        system_first: wp.array2d(dtype=int),
        system_lower: of_worlds,
        system_upper: of_worlds,
        velocity: numbers,
        residual: of_worlds,
        step: of_worlds,
    ):
        """The same by the factors of the last Newton step."""

    @wp.func_native(code(_ADJOINT_RESIDUAL, "weight", "inverse_mass", "step", "residual", list=LIST, **places))
    def find_adjoint_residual(
        group: int,
        count: int,
        nv: int,
        has_further: bool,
        answers: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        slope: numbers,
        fields: numbers,
        weight: of_worlds,
        inverse_mass: of_worlds,
        step: of_worlds,
        residual: of_worlds,
    ):
        """For x, the step: s, the adjoints of the row values, and what x leaves of the right-hand side."""

    @wp.func_native(code(_PUSH_WEIGHTS, "weight", "inverse_mass", "step", "residual"))
    def push_weights(
        group: int,
        nv: int,
        moves: ints,
        inverse_mass: of_worlds,
        step: of_worlds,
        residual: of_worlds,
        weight: of_worlds,
    ):
        """Add D^-1 row' rhs_bar in worlds that move."""

    @wp.func_native(code(_FINISH_WEIGHTS, "factor_l", "weight"))
    def finish_weights(
        group: int,
        nv: int,
        dof_depth: ints,
        dof_row_start: ints,
        ancestor: ints,
        factor_l: of_worlds,
        weight: of_worlds,
    ):
        """L^-1 times the weights."""

    @wp.func_native(code(_CLEAR, "own_mass_bar", "own_mass_bar_diagonal"))
    def clear_mass_bars(group: int, own_mass_bar: of_worlds, own_mass_bar_diagonal: of_worlds):
        """Zeros, for what is added to them."""

    @wp.func_native(code(_OWN_RESPONSE, "factor_l", "inverse_mass", "own_mass_bar", "own_mass_bar_diagonal", **places))
    def find_own_response(
        constraint: int,
        group: int,
        nv: int,
        dof_depth: ints,
        dof_row_start: ints,
        ancestor: ints,
        dofs: ints,
        length: ints,
        rows: numbers,
        fields: numbers,
        factor_l: of_worlds,
        inverse_mass: of_worlds,
        response: numbers,
        own_mass_bar: of_worlds,
        own_mass_bar_diagonal: of_worlds,
    ):
        """G of a constraint, and what it adds to the adjoints of L and D."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
