"""Branch-free sine and cosine for lane groups of several worlds."""

import math
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types

# Angles up to FAR are reduced by multiples of pi; a Taylor series of TERMS powers evaluates sine and cosine. The first
# two parts of pi have so few digits that their products with the multiples are exact (Cody and Waite 1980).
PI_PARTS = {
    "float64": (3.1415926535846666, 5.1266883031679116e-12, 2.1125998133974855e-23),
    "float32": (3.140625, 0.0009675025939941406, 1.5099580252808664e-07),
}
FAR = {"float64": 1.0e5, "float32": 1.0e4}
TERMS = {"float64": 12, "float32": 8}


def trigonometry_functions(scalar: Any, lanes: int, real: wp.Function) -> SimpleNamespace:
    """Return the functions for a precision and a number of lanes; ``real`` broadcasts a number to all lanes."""
    lane = lane_types(scalar, lanes).real
    precision = scalar.__name__
    terms = TERMS[precision]
    pi_parts = wp.types.vector(3, scalar)(*PI_PARTS[precision])
    far = scalar(FAR[precision])
    over_pi = scalar(1.0 / math.pi)
    sine_terms = wp.types.vector(terms, scalar)(*((-1) ** k / math.factorial(2 * k + 1) for k in range(terms)))
    cosine_terms = wp.types.vector(terms, scalar)(*((-1) ** k / math.factorial(2 * k) for k in range(terms)))

    @Native(scalar, lanes, "algebra").func_native()
    def reduced(x: lane, far: scalar) -> lane:
        """Return the angles, those beyond ``far`` reduced to one turn."""

    @wp.func
    def sine_cosine(angle: lane):
        x = reduced(angle, far)
        turns = lane()
        for i in range(wp.static(lanes)):
            turns[i] = wp.rint(x[i] * over_pi)
        rest = x - turns * pi_parts[0] - turns * pi_parts[1] - turns * pi_parts[2]
        square = wp.cw_mul(rest, rest)
        # Even and odd terms apart: the processor works on both at the same time.
        fourth = wp.cw_mul(square, square)
        sine, sine_odd = real(sine_terms[terms - 2]), real(sine_terms[terms - 1])
        cosine, cosine_odd = real(cosine_terms[terms - 2]), real(cosine_terms[terms - 1])
        for k in range(wp.static(terms // 2 - 1)):
            sine = wp.cw_mul(sine, fourth) + real(sine_terms[terms - 4 - 2 * k])
            sine_odd = wp.cw_mul(sine_odd, fourth) + real(sine_terms[terms - 3 - 2 * k])
            cosine = wp.cw_mul(cosine, fourth) + real(cosine_terms[terms - 4 - 2 * k])
            cosine_odd = wp.cw_mul(cosine_odd, fourth) + real(cosine_terms[terms - 3 - 2 * k])
        sine += wp.cw_mul(sine_odd, square)
        cosine += wp.cw_mul(cosine_odd, square)
        # Both change sign with every half turn: 1 - 2 (turns mod 2).
        pairs = lane()
        for i in range(wp.static(lanes)):
            pairs[i] = wp.rint(turns[i] * scalar(0.5))
        odd = turns - scalar(2.0) * pairs
        sign = real(scalar(1.0)) - scalar(2.0) * wp.cw_mul(odd, odd)
        return wp.cw_mul(wp.cw_mul(sine, rest), sign), wp.cw_mul(cosine, sign)

    return SimpleNamespace(sine_cosine=sine_cosine)
