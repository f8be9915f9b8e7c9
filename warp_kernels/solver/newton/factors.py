"""The system of a Newton step as L U within its envelope: factored, and solved.

Everything is C++ of its own. Warp's access to an array looks at the sign of every index, and a call for each product passes the descriptions
of all arrays on; both take longer than the products of a small system.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

# Rows are ``lower`` and ``upper`` of a world from place 0 on, as bytes; ``sum_of`` adds products of two of them, or of one and x. On a CPU
# eight sums don't wait for each other; where it works on one world alone, it adds eight products at a time, to the same result. A GPU
# has other threads to turn to, and needs its registers.
_ROWS = """
    using number = wp::{scalar};
    using bytes = wp::int64;
    const bytes step = lower.strides[0];
    char* below = reinterpret_cast<char*>(lower.data) + world * bytes(lower.strides[1]);
    char* above = reinterpret_cast<char*>(upper.data) + world * bytes(upper.strides[1]);
    const char* starts = reinterpret_cast<const char*>(row_start.data) + world * bytes(row_start.strides[1]);
    const char* firsts = reinterpret_cast<const char*>(first_place.data) + world * bytes(first_place.strides[1]);
    const auto row_of = [&](int p) {{ return step * *reinterpret_cast<const int*>(starts + p * bytes(row_start.strides[0])); }};
    const auto first_of = [&](int p) {{ return *reinterpret_cast<const int*>(firsts + p * bytes(first_place.strides[0])); }};
    const auto at = [](char* row, bytes offset) -> number& {{ return *reinterpret_cast<number*>(row + offset); }};
    const auto sum_of = [&](char* a, char* b, bytes step_b, int start, int end) {{
        a += start * step;
        b += start * step_b;
        int left = end - start;
        number few = 0;
#ifndef __CUDA_ARCH__
        if (left >= 4) {{
            number sum[8] = {{0, 0, 0, 0, 0, 0, 0, 0}};
            if (step == sizeof(number) && step_b == sizeof(number)) {{
                typedef number pack __attribute__((ext_vector_type(8), aligned(sizeof(number))));
                pack packed = 0;
                for (; left >= 8; left -= 8, a += sizeof(pack), b += sizeof(pack))
                    packed += *reinterpret_cast<const pack*>(a) * *reinterpret_cast<const pack*>(b);
                *reinterpret_cast<pack*>(sum) = packed;
            }}
            for (; left >= 8; left -= 8, a += 8 * step, b += 8 * step_b)
                for (int k = 0; k < 8; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            for (; left >= 4; left -= 4, a += 4 * step, b += 4 * step_b)
                for (int k = 0; k < 4; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            few = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        }}
#endif
        for (; left > 0; --left, a += step, b += step_b) few += at(a, 0) * at(b, 0);
        return few;
    }};
"""

_FACTORISE = (
    _ROWS
    + """
    number least = 1;
    for (int p = begin; p < begin + nv; ++p) {{
        const int first = first_of(p);
        char* lower_p = below + row_of(p);
        char* upper_p = above + row_of(p);
        const number diagonal = at(lower_p, p * step);
        number pivot = diagonal;
        for (int q = first; q < p; ++q) {{
            const bytes row_q = row_of(q);
            const int first_q = first_of(q), start = first_q > first ? first_q : first;
            number& entry = at(lower_p, q * step);
            const number value = entry - sum_of(lower_p, above + row_q, step, start, q);
            number over = value;
            if (!symmetric) over = at(upper_p, q * step) - sum_of(below + row_q, upper_p, step, start, q);
            entry = value * at(below + row_q, q * step);
            at(upper_p, q * step) = over;
            pivot -= entry * over;
        }}
        least = wp::min(least, wp::abs(pivot / diagonal));
        at(lower_p, p * step) = number(1) / pivot;
    }}
    return least;
"""
)

_SOLVE = (
    _ROWS
    + """
    const bytes step_x = x.strides[0];
    char* values = reinterpret_cast<char*>(x.data) + world * bytes(x.strides[1]);
    for (int p = begin; p < begin + nv; ++p)
        at(values, p * step_x) -= sum_of(below + row_of(p), values, step_x, first_of(p), p);
    for (int p = begin + nv - 1; p >= begin; --p) {{
        const bytes row = row_of(p);
        const number value = at(values, p * step_x) * at(below + row, p * step);
        at(values, p * step_x) = value;
        for (int q = first_of(p); q < p; ++q) at(values, q * step_x) -= at(above + row, q * step) * value;
    }}
"""
)


@functools.cache
def factor_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision. What they take of a system is in :func:`warp_kernels.solver.newton.structs.newton_structs`."""

    @wp.func_native(_FACTORISE.format(scalar=scalar.__name__))
    def factorise(
        begin: int,
        nv: int,
        symmetric: bool,
        first_place: wp.array2d(dtype=int),
        row_start: wp.array2d(dtype=int),
        lower: wp.array2d(dtype=scalar),
        upper: wp.array2d(dtype=scalar),
        world: int,
    ) -> scalar:
        """L U without pivoting of nv places from ``begin`` on, L with a unit diagonal.

        With ``symmetric`` the entries above the diagonal aren't read. Returns the least size of a pivot, as a share of its diagonal entry.
        """

    @wp.func_native(_SOLVE.format(scalar=scalar.__name__))
    def solve(
        begin: int,
        nv: int,
        first_place: wp.array2d(dtype=int),
        row_start: wp.array2d(dtype=int),
        lower: wp.array2d(dtype=scalar),
        upper: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
        world: int,
    ):
        """x := (L U)^-1 x, x by places, of which nv from ``begin`` on count."""

    return SimpleNamespace(factorise=factorise, solve=solve)
