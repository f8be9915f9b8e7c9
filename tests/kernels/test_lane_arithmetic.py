"""The functions for vectors of lanes: bit for bit NumPy's, and preferred to Warp's own."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from warp_kernels.cpu.native import header_source
from warp_kernels.types import LANE_BUILD_OPTIONS, LANES

ROWS = 3
NUMPY = {"add": np.add, "sub": np.subtract, "cw_mul": np.multiply, "cw_div": np.divide}


def kernels(name: str, scalar: type, options: wp.ModuleBuildOptions) -> SimpleNamespace:
    """Kernels over one group, in a module with these options."""
    module = wp.get_module(f"test.lane_arithmetic.{name}.{scalar.__name__}")
    wp.set_module_options({"extra_build_options": options}, module)
    vector, matrix = wp.types.vector(LANES, scalar), wp.types.matrix((ROWS, LANES), scalar)

    matrices = wp.array(dtype=matrix)

    @wp.kernel(module=module, enable_backward=False)
    def of_two(a: matrices, b: matrices, whole: matrices, rows: matrices):
        x = a[0]
        y = b[0]
        whole[0] = x + y
        whole[1] = x - y
        whole[2] = wp.cw_mul(x, y)
        whole[3] = wp.cw_div(x, y)
        rows[0] = wp.matrix_from_rows(x[0] + y[0], x[1] + y[1], x[2] + y[2])
        rows[1] = wp.matrix_from_rows(x[0] - y[0], x[1] - y[1], x[2] - y[2])
        rows[2] = wp.matrix_from_rows(wp.cw_mul(x[0], y[0]), wp.cw_mul(x[1], y[1]), wp.cw_mul(x[2], y[2]))
        rows[3] = wp.matrix_from_rows(wp.cw_div(x[0], y[0]), wp.cw_div(x[1], y[1]), wp.cw_div(x[2], y[2]))

    @wp.kernel(module=module, enable_backward=False)
    def of_one(a: matrices, s: scalar, whole: matrices, rows: wp.array(dtype=vector)):
        x = a[0]
        whole[0] = -x
        whole[1] = x * s
        whole[2] = s * x
        rows[0] = -x[1]
        rows[1] = x[1] * s
        rows[2] = s * x[1]

    return SimpleNamespace(of_two=of_two, of_one=of_one, vector=vector, matrix=matrix)


def two(name: str, precision: str, options: wp.ModuleBuildOptions) -> tuple[np.ndarray, ...]:
    """Two matrices, and what comes of them as a whole and row by row, in the order of NUMPY."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((1, ROWS, LANES)).astype(precision) for _ in range(2))
    k = kernels(name, getattr(wp, precision), options)
    whole, rows = (wp.zeros(len(NUMPY), dtype=k.matrix, device="cpu") for _ in range(2))
    given = [wp.array(x, dtype=k.matrix, device="cpu") for x in (a, b)]
    wp.launch(k.of_two, 1, given, [whole, rows], device="cpu")
    return a[0], b[0], whole.numpy(), rows.numpy()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_of_two_vectors(precision):
    a, b, whole, rows = two("two", precision, LANE_BUILD_OPTIONS)
    for operation, *found in zip(NUMPY.values(), whole, rows, strict=True):
        for each in found:
            np.testing.assert_array_equal(each, operation(a, b))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_of_one_vector(precision):
    x = np.random.default_rng(1).standard_normal((1, ROWS, LANES)).astype(precision)
    k = kernels("one", getattr(wp, precision), LANE_BUILD_OPTIONS)
    whole = wp.zeros(3, dtype=k.matrix, device="cpu")
    rows = wp.zeros(3, dtype=k.vector, device="cpu")
    given = wp.array(x, dtype=k.matrix, device="cpu")
    wp.launch(k.of_one, 1, [given, 0.3], [whole, rows], device="cpu")
    s = np.dtype(precision).type(0.3)
    for each, expected in zip(whole.numpy(), (-x[0], x[0] * s, x[0] * s), strict=True):
        np.testing.assert_array_equal(each, expected)
    for each, expected in zip(rows.numpy(), (-x[0, 1], x[0, 1] * s, x[0, 1] * s), strict=True):
        np.testing.assert_array_equal(each, expected)


def test_they_are_preferred():
    """With other operators they give other results."""
    source = header_source(("algebra/lane_arithmetic.h",))
    others = dict(zip("+-*/", "-*/+", strict=True))
    for name, operator in zip(NUMPY, others, strict=True):
        own = f"BACKSWING_OF_TWO({name}, {operator})"
        assert own in source
        source = source.replace(own, own.replace(operator, others[operator]))
    a, b, whole, rows = two("others", "float64", wp.ModuleBuildOptions(extra_cpu_preamble=source))
    for operation, *found in zip((np.subtract, np.multiply, np.divide, np.add), whole, rows, strict=True):
        for each in found:
            np.testing.assert_array_equal(each, operation(a, b))
