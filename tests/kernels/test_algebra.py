"""Arithmetic on blocks of worlds against NumPy, and what becomes of lanes without a world."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sim.located import for_lanes
from warp_kernels.algebra import algebra
from warp_kernels.algebra.trigonometry import FAR
from warp_kernels.types import LANES, kernel_module, lane_types, warp_types

SCALARS = {"float32": wp.float32, "float64": wp.float64}
# Near the least number of a precision, and from small to far beyond FAR.
SIZES = [(p, size) for p, least in (("float32", 1e-35), ("float64", 1e-300))
         for size in (least, 1e-4, 1.0, 10.0, 1e3, 1e5, 1e8, 1e30)]  # fmt: skip
# Sine and cosine are of the order of one, so this many units in the last place of one are what they may be off: the
# argument is reduced by three parts of pi, and two series of up to 12 terms are summed.
ULPS = 2.0


@functools.cache
def trial_kernels(precision: str, lanes: int) -> SimpleNamespace:
    scalar = SCALARS[precision]
    a, one = algebra(scalar, lanes), warp_types(scalar)
    module = kernel_module("test_algebra", scalar, lanes)
    array2d, array3d, array4d = (wp.array(dtype=scalar, ndim=n) for n in (2, 3, 4))

    @wp.kernel(module=module, enable_backward=False)
    def sine_cosine(angle: array2d, result: array3d):
        block = wp.tid()
        for k in range(angle.shape[1]):
            sine, cosine = a.sine_cosine(a.load(angle, block, k))
            a.store3(result, block, k, 0, sine)
            a.store3(result, block, k, 1, cosine)

    @wp.kernel(module=module, enable_backward=False)
    def accumulate(
        bar: array2d,
        numbers: array2d,
        vectors: wp.array2d(dtype=one.vec3),
        matrices: wp.array2d(dtype=one.mat33),
        poses: wp.array2d(dtype=one.transform),
    ):
        block = wp.tid()
        x = a.load_bar(bar, block, 0)
        y = a.load_bar(bar, block, 1)
        z = a.load_bar(bar, block, 2)
        v = a.make_vec3(x, y, z)
        a.add_scalar(numbers, block, 0, x)
        a.add_vec3(vectors, block, 0, v)
        a.add_mat33(matrices, block, 0, a.mat_rows(v, scalar(2.0) * v, scalar(3.0) * v))
        a.add_transform(poses, block, 0, a.make_pose(v, a.make_quat(x, y, z, x)))

    @wp.kernel(module=module, enable_backward=False)
    def copy(bar3: array3d, bar4: array4d, total: array2d, stored3: array3d, stored4: array4d, added3: array3d):
        block = wp.tid()
        for i in range(bar3.shape[1]):
            for j in range(bar3.shape[2]):
                x = a.load_bar3(bar3, block, i, j)
                y = a.load_bar4(bar4, block, 1, i, j)
                a.add_scalar(total, block, 0, x)
                a.add_scalar(total, block, 1, y)
                a.store3(stored3, block, i, j, x)
                a.store4(stored4, block, 1, i, j, y)
                a.add3(added3, block, i, j, x)

    t = lane_types(scalar, lanes)

    @wp.kernel(module=module, enable_backward=False)
    def copy_looked_up(
        columns: int,
        given2: t.states2d,
        given4: t.states4d,
        stored2: t.states2d,
        added2: t.states2d,
        stored3: t.states3d,
        buffer: wp.array(dtype=scalar),
        stored4: t.states4d,
    ):
        """given4 [world, 2, 2, columns], of which the second frame is copied; stored3 [world, 2, columns]."""
        block = wp.tid()
        a.fetch_to_read(given2, block)
        a.fetch_to_write(added2, block)
        a.fetch_frame_to_read(given4, block, 1)
        a.fetch_frame_to_write(stored4, block, 1)
        a.begin_frame(buffer, stored4, block, 1, 2 * columns)
        for k in range(columns):
            a.store(stored2, block, k, a.load(given2, block, k))
            a.add(added2, block, k, a.load_bar(given2, block, k))
            for i in range(2):
                x = a.load_bar4(given4, block, 1, i, k)
                a.store3(stored3, block, i, k, x)
                if i != k:
                    a.put(buffer, stored4, block, 1, i, k, columns, 2 * columns, x)
        a.end_frame(buffer, stored4, block, 1, 2 * columns)

    return SimpleNamespace(sine_cosine=sine_cosine, accumulate=accumulate, copy=copy, copy_looked_up=copy_looked_up)


def sine_and_cosine(precision: str, angles: np.ndarray, lanes: int = LANES) -> tuple[np.ndarray, np.ndarray]:
    """Of angles [worlds, n]."""
    scalar = SCALARS[precision]
    result = wp.zeros((*angles.shape, 2), dtype=scalar, device="cpu")
    given = wp.array(angles, dtype=scalar, device="cpu")
    kernel = trial_kernels(precision, lanes).sine_cosine
    wp.launch(kernel, -(-len(angles) // lanes), [given], [result], device="cpu")
    return result.numpy()[..., 0], result.numpy()[..., 1]


@pytest.mark.parametrize(("precision", "size"), SIZES)
def test_sine_and_cosine(precision, size):
    angles = np.random.default_rng(0).uniform(-size, size, (5 * LANES + 3, 7)).astype(precision)
    assert (angles != 0.0).all()
    sine, cosine = sine_and_cosine(precision, angles)
    exact = angles.astype(np.float64 if precision == "float32" else np.longdouble)
    bound = ULPS * np.finfo(precision).eps
    assert np.abs(sine - np.sin(exact)).max() <= bound
    assert np.abs(cosine - np.cos(exact)).max() <= bound
    if size <= 1e-4:  # of small angles the sine is exact in proportion
        assert np.abs(sine - np.sin(exact)).max() <= bound * size


@pytest.mark.parametrize("precision", SCALARS)
def test_sine_and_cosine_near_multiples_of_a_right_angle(precision):
    turns = np.concatenate([np.arange(-40, 40), np.linspace(40, FAR[precision], 200).astype(int)])
    near = (turns * (np.pi / 2)).astype(precision)
    angles = np.stack([near, np.nextafter(near, near + 1), np.nextafter(near, near - 1)], axis=1)
    sine, cosine = sine_and_cosine(precision, angles)
    exact = angles.astype(np.float64 if precision == "float32" else np.longdouble)
    assert np.abs(sine - np.sin(exact)).max() <= ULPS * np.finfo(precision).eps
    assert np.abs(cosine - np.cos(exact)).max() <= ULPS * np.finfo(precision).eps


@pytest.mark.parametrize("precision", SCALARS)
def test_one_world_without_a_number_leaves_the_others_alone(precision):
    angles = np.linspace(-3.0, 3.0, LANES, dtype=precision)[:, None]
    angles[1], angles[2], angles[4], angles[5] = np.nan, np.inf, 1e9, -2 * FAR[precision]
    sine, cosine = sine_and_cosine(precision, angles)
    assert np.isnan(sine[1:3]).all()
    assert np.isnan(cosine[1:3]).all()
    rest = [0, 3, 4, 5, *range(6, LANES)]
    np.testing.assert_allclose(sine[rest], np.sin(angles[rest]), rtol=0, atol=ULPS * np.finfo(precision).eps)
    np.testing.assert_allclose(cosine[rest], np.cos(angles[rest]), rtol=0, atol=ULPS * np.finfo(precision).eps)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("worlds", [1, 3, LANES, LANES + 1, 3 * LANES - 1])
@pytest.mark.parametrize("shared", [True, False])
def test_lanes_without_a_world_add_nothing(lanes, worlds, shared):
    t = warp_types(wp.float64)
    bar = np.random.default_rng(0).normal(size=(worlds, 3))
    rows = 1 if shared else worlds
    types = {(): wp.float64, (3,): t.vec3, (3, 3): t.mat33, (7,): t.transform}
    outputs = [wp.zeros((rows, 1), dtype=dtype, device="cpu") for dtype in types.values()]
    given = wp.array(bar, dtype=wp.float64, device="cpu")
    kernel = trial_kernels("float64", lanes).accumulate
    wp.launch(kernel, -(-worlds // lanes), [given], outputs, device="cpu")
    each = [bar[:, 0], bar, np.stack([bar, 2.0 * bar, 3.0 * bar], axis=1), np.hstack([bar, bar, bar[:, :1]])]
    for output, expected, shape in zip(outputs, each, types, strict=True):
        expected = expected.sum(axis=0, keepdims=True) if shared else expected
        np.testing.assert_allclose(output.numpy().reshape(rows, *shape), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("worlds", [1, LANES, 2 * LANES + 1])
def test_lanes_without_a_world_are_not_stored(lanes, worlds):
    """Into the front of arrays of which the rest stays as it is."""
    rng = np.random.default_rng(0)
    rows = 4 * LANES
    bar3, bar4 = rng.normal(size=(worlds, 2, 3)), rng.normal(size=(worlds, 2, 2, 3))
    before = [rng.normal(size=(rows, *bar.shape[1:])) for bar in (bar3, bar4, bar3)]
    given = [wp.array(bar, dtype=wp.float64, device="cpu") for bar in (bar3, bar4)]
    total = wp.zeros((1, 2), dtype=wp.float64, device="cpu")
    whole = [wp.array(x, dtype=wp.float64, device="cpu") for x in before]
    outputs = [total, *(array[:worlds] for array in whole)]
    wp.launch(trial_kernels("float64", lanes).copy, -(-worlds // lanes), given, outputs, device="cpu")
    stored3, stored4, added3 = (x.copy() for x in before)
    stored3[:worlds], stored4[:worlds, 1] = bar3, bar4[:, 1]
    added3[:worlds] += bar3
    for array, expected in zip(whole, (stored3, stored4, added3), strict=True):
        np.testing.assert_array_equal(array.numpy(), expected)
    np.testing.assert_allclose(total.numpy()[0], [bar3.sum(), bar4[:, 1].sum()], rtol=0, atol=1e-13)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("worlds", [1, LANES - 1, 3 * LANES + 2])
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_arrays_that_are_looked_up(lanes, worlds, spread, large):
    """Into the front of arrays of which the rest stays as it is; ``spread`` are those of every second world."""
    rng = np.random.default_rng(0)
    rows, every = 8 * LANES, 2 if spread else 1
    shapes = [(3,), (2, 2, 3), (3,), (3,), (2, 3), (2, 2, 3)]
    before = [rng.normal(size=(rows, *shape)) for shape in shapes]
    if lanes == 1:
        before[-1][:] = 0.0  # as results come that a launch is told
    whole = [wp.array(x, dtype=wp.float64, device="cpu") for x in before]
    parts = [for_lanes(array[: every * worlds : every], lanes) for array in whole]
    if lanes > 1:
        parts[-1].numpy()[3] = large  # of the table
    buffer = wp.array(rng.normal(size=6 * lanes), dtype=wp.float64, device="cpu")
    inputs = [3, *parts[:-1], buffer, parts[-1]]
    wp.launch(trial_kernels("float64", lanes).copy_looked_up, -(-worlds // lanes), inputs, device="cpu")
    expected, own = [x.copy() for x in before], slice(0, every * worlds, every)
    given2, given4 = before[0][own], before[1][own]
    expected[2][own] = given2
    expected[3][own] += given2
    expected[4][own] = given4[:, 1]
    expected[5][own, 1] = given4[:, 1] * (1.0 - np.eye(2, 3))
    for array, one in zip(whole, expected, strict=True):
        np.testing.assert_array_equal(array.numpy(), one)
