"""Teams of threads: the pattern, and the checks that find a phase whose items depend on each other."""

import functools

import numpy as np
import pytest
import warp as wp

from tests.team_checks import ORDERS, checked_order, team_faults
from warp_kernels.cpu.native import with_headers
from warp_kernels.team import TEAM_HEADERS, WIDTHS, fits_shared_memory, lanes_of_team, team_functions

SIZE = 24
SYNCS = ("after load", "after column", "after back substitution")


@functools.cache
def solver(scalar: type, order: str, missing: str = "", inside: bool = False) -> wp.Kernel:
    """A kernel that solves a system per world by elimination, a row per item; maybe without one sync, or with one in a
    loop over items.
    """
    team = team_functions(scalar, 32)
    module = wp.get_module(f"tests.teams.{scalar.__name__}.{order}.{missing}.{inside}".replace(" ", "_"))
    options = with_headers(checked_order(order), TEAM_HEADERS)
    wp.set_module_options({"extra_build_options": options, "enable_backward": False, "max_unroll": 1}, module)
    load, column, back = (missing != name for name in SYNCS)

    @wp.kernel(module=module)
    def solve(
        n: int,
        matrix: wp.array3d(dtype=scalar),
        rhs: wp.array2d(dtype=scalar),
        scratch: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
        square: wp.array(dtype=scalar),
    ):
        world, _lane = wp.tid()
        team.begin(scratch, world)
        a = wp.array(ptr=team.memory(scratch, world), shape=(n, n + 1), dtype=scalar)
        for k in range(team.lane(), n, team.size()):
            r = team.item(k, n)
            if wp.static(inside):
                team.sync()
            for c in range(n):
                a[r, c] = matrix[world, r, c]
            a[r, n] = rhs[world, r]
        if wp.static(load):
            team.sync()
        for j in range(n):
            for k in range(team.lane(), n - 1 - j, team.size()):
                r = j + 1 + team.item(k, n - 1 - j)
                factor = a[r, j] / a[j, j]
                for c in range(j + 1, n + 1):
                    a[r, c] = a[r, c] - factor * a[j, c]
            if wp.static(column):
                team.sync()
        for back_step in range(n):
            j = n - 1 - back_step
            value = a[j, n] / a[j, j]
            for k in range(team.lane(), j, team.size()):
                r = team.item(k, j)
                a[r, n] = a[r, n] - a[r, j] * value
            if wp.static(back):
                team.sync()
        total = scalar(0.0)
        for k in range(team.lane(), n, team.size()):
            r = team.item(k, n)
            value = a[r, n] / a[r, r]
            x[world, r] = value
            total += value * value
        total = team.total(total)
        if team.is_first():
            square[world] = total

    return solve


def run(kernel: wp.Kernel, scalar: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve three systems; return the solutions, those of NumPy, and the sums of squares."""
    rng = np.random.default_rng(0)
    dtype = wp.dtype_to_numpy(scalar)
    a = rng.normal(size=(3, SIZE, SIZE)) + 2.0 * SIZE * np.eye(SIZE)
    b = rng.normal(size=(3, SIZE))
    x = wp.zeros((3, SIZE), dtype=scalar, device="cpu")
    square = wp.zeros(3, dtype=scalar, device="cpu")
    scratch = wp.zeros((3, SIZE * (SIZE + 1)), dtype=scalar, device="cpu")
    matrix, rhs = (wp.array(values.astype(dtype), dtype=scalar, device="cpu") for values in (a, b))
    lanes = lanes_of_team(wp.get_device("cpu"), 32)
    wp.launch(kernel, (3, lanes), [SIZE, matrix, rhs, scratch, x, square], device="cpu")
    return x.numpy(), np.linalg.solve(a, b[..., None])[..., 0], square.numpy()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("scalar", "relative"), [(wp.float32, 2e-6), (wp.float64, 1e-14)], ids=["32", "64"])
def test_a_team_of_one_solves_in_any_order(scalar, relative, order):
    x, expected, square = run(solver(scalar, order), scalar)
    np.testing.assert_allclose(x, expected, rtol=0, atol=relative * np.abs(expected).max())
    np.testing.assert_allclose(square, (x**2).sum(axis=1), rtol=10 * relative)
    assert team_faults() == []


@pytest.mark.parametrize("order", ["reversed", "shuffled"])
@pytest.mark.parametrize("missing", SYNCS)
def test_a_missing_sync_is_found(missing, order):
    run(solver(wp.float64, order, missing), wp.float64)
    (found,) = team_faults()
    assert "a sync is missing" in found
    assert team_faults() == []


def test_a_sync_within_a_loop_is_found():
    run(solver(wp.float64, "reversed", inside=True), wp.float64)
    (found,) = team_faults()
    assert "a sync within a loop over items" in found


def test_memory_holds_nan_at_the_beginning():
    """A kernel that reads what it hasn't written ends in NaN, though the array held zeros."""
    team = team_functions(wp.float64, 32)
    module = wp.get_module("tests.teams.unwritten")
    options = with_headers(checked_order("reversed"), TEAM_HEADERS)
    wp.set_module_options({"extra_build_options": options, "enable_backward": False}, module)

    @wp.kernel(module=module)
    def read(scratch: wp.array2d(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
        world, _lane = wp.tid()
        team.begin(scratch, world)
        memory = wp.array(ptr=team.memory(scratch, world), shape=(2,), dtype=wp.float64)
        if team.is_first():
            memory[0] = wp.float64(1.0)
        team.sync()
        y[world] = memory[0] + memory[1]

    y = wp.zeros(1, dtype=wp.float64, device="cpu")
    wp.launch(read, (1, 1), [wp.zeros((1, 2), dtype=wp.float64, device="cpu"), y], device="cpu")
    assert np.isnan(y.numpy()).all()
    assert team_faults() == []


def test_a_block_has_shared_memory_for_its_teams():
    assert fits_shared_memory(wp.float32, 32, 6000)
    assert not fits_shared_memory(wp.float64, 32, 6000)
    assert not fits_shared_memory(wp.float32, 8, 6000)
    assert all(64 % width == 0 for width in WIDTHS)
