"""Factors of the system of a Newton step on a CPU, compared with dense solutions: rows that begin together or don't."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sim.arrays.allocation import fill
from warp_kernels.solver.newton.structs import WORLD_HEADERS, newton_structs
from warp_kernels.solver.newton.system import system_functions
from warp_kernels.types import kernel_module

System = newton_structs(wp.float64).System
functions: SimpleNamespace = system_functions(wp.float64)
module = kernel_module("tests.factors", wp.float64, headers=WORLD_HEADERS)


@wp.kernel(module=module, enable_backward=False)
def solve_system(
    begin: int,
    nv: int,
    symmetric: int,
    system: System,
    least: wp.array(dtype=wp.float64),
    x: wp.array2d(dtype=wp.float64),
):
    world = wp.tid()
    least[world] = functions.factorise(world, begin, nv, symmetric == 1, system)
    functions.solve(begin, nv, system, x, world)


# First indices of rows: a tree of 20 rows is two packs and a half; more than 512 columns are eliminated row by row.
FIRSTS = {
    "one row": [0],
    "each its own": list(range(9)),
    "a tree": [0] * 20,
    "trees": [0] * 6 + [6] * 9 + [3] * 7 + [15] * 3 + [0] * 8,
    "widest together": [0] * 512,
    "wider": [0] * 530,
    "a late block": [*range(508), *[4] * 12],
}


def smallest_share(matrix: np.ndarray) -> float:
    """Return the smallest pivot of an elimination without pivoting, as a share of its diagonal entry."""
    left, shares = matrix.copy(), []
    for n in range(len(matrix)):
        shares.append(left[n, n] / matrix[n, n])
        left[n + 1 :, n + 1 :] -= np.outer(left[n + 1 :, n], left[n, n + 1 :] / left[n, n])
    return min(shares)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", FIRSTS)
@pytest.mark.parametrize("worlds", [1, 3])
def test_solutions_are_those_of_dense_matrices(name, symmetric, worlds):
    """With indices before and after the block, which stay as they are."""
    rng, begin = np.random.default_rng(1), 2
    firsts = np.array([0, 1, *(np.array(FIRSTS[name]) + begin), begin + len(FIRSTS[name])])
    nv, count = len(FIRSTS[name]), len(firsts)
    starts = np.concatenate([[0], np.cumsum(np.arange(count) + 1 - firsts)])
    size = starts[-1]
    lower, upper = (np.full((size, worlds), np.nan) for _ in range(2))
    right, expected = rng.normal(size=(2, count, worlds))
    expected[:] = right
    shares = []
    for world in range(worlds):
        dense = np.zeros((count, count))
        for p, first in enumerate(firsts):
            dense[p, first:p] = rng.normal(size=p - first) / np.sqrt(nv)
            dense[first:p, p] = dense[p, first:p] if symmetric else rng.normal(size=p - first) / np.sqrt(nv)
            dense[p, p] = 4.0 + rng.uniform()
            lower[starts[p] : starts[p + 1], world] = dense[p, first : p + 1]
            if not symmetric:
                upper[starts[p] : starts[p + 1] - 1, world] = dense[first:p, p]
        block = dense[begin : begin + nv, begin : begin + nv]
        expected[begin : begin + nv, world] = np.linalg.solve(block, right[begin : begin + nv, world])
        shares.append(smallest_share(block))

    def array(values: np.ndarray, dtype: type = wp.float64) -> wp.array:
        return wp.array(values, dtype=dtype, device="cpu")

    indices = np.repeat(firsts[:, None], worlds, 1), np.repeat((starts[:-1] - firsts)[:, None], worlds, 1)
    system = fill(
        System,
        first=array(indices[0], wp.int32),
        row_start=array(indices[1], wp.int32),
        is_packed=array(np.ones(worlds), wp.int32),
        lower=array(lower),
        upper=array(upper),
    )
    least, x = array(np.zeros(worlds)), array(right)
    wp.launch(solve_system, worlds, [begin, nv, int(symmetric), system, least, x], device="cpu")
    np.testing.assert_allclose(x.numpy(), expected, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(least.numpy(), shares, rtol=1e-12)
    outside = np.r_[0 : starts[begin], starts[begin + nv] : size]
    np.testing.assert_array_equal(system.lower.numpy()[outside], lower[outside])
