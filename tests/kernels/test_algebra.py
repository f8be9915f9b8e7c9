"""Arithmetic on lane groups against NumPy, and what becomes of lanes without a world."""

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sim.arrays.array_refs import for_lanes
from warp_kernels.algebra import algebra
from warp_kernels.algebra.trigonometry import FAR
from warp_kernels.types import LANES, kernel_module, lane_types, warp_types

SCALARS = {"float32": wp.float32, "float64": wp.float64}
# Near the least number of a precision, and from small to far beyond FAR.
SIZES = [(p, size) for p, least in (("float32", 1e-35), ("float64", 1e-300))
         for size in (least, 1e-4, 1.0, 10.0, 1e3, 1e5, 1e8, 1e30)]  # fmt: skip
# Sine and cosine are of the order of one, so this many units in the last place of one are what they may be off: the
# argument is reduced by three parts of pi, and two series of up to 12 terms are summed. Of 28,000 angles between -10
# and 10 the worst cosine is off by less than 2.0 where a product and its sum are one instruction, and by 2.2 where
# products are rounded first (float32 on a processor without AVX-512); of angles to 1e5 by 2.4.
ULPS = 2.5


@functools.cache
def trial_kernels(precision: str, lanes: int) -> SimpleNamespace:
    scalar = SCALARS[precision]
    a, one = algebra(scalar, lanes), warp_types(scalar)
    module = kernel_module("test_algebra", scalar, lanes)
    numbers, array2d, array3d = (wp.array(dtype=scalar, ndim=n) for n in (1, 2, 3))

    @wp.kernel(module=module, enable_backward=False)
    def sine_cosine(angle: array2d, result: array3d):
        group = wp.tid()
        for k in range(angle.shape[1]):
            sine, cosine = a.sine_cosine(a.load(angle, group, k))
            a.store3(result, group, k, 0, sine)
            a.store3(result, group, k, 1, cosine)

    @wp.kernel(module=module, enable_backward=False)
    def accumulate(
        bar: array2d,
        numbers: array2d,
        vectors: wp.array2d(dtype=one.vec3),
        matrices: wp.array2d(dtype=one.mat33),
        poses: wp.array2d(dtype=one.transform),
    ):
        group = wp.tid()
        x = a.load_bar(bar, group, 0)
        y = a.load_bar(bar, group, 1)
        z = a.load_bar(bar, group, 2)
        v = a.make_vec3(x, y, z)
        a.add_scalar(numbers, group, 0, x)
        a.add_vec3(vectors, group, 0, v)
        a.add_mat33(matrices, group, 0, a.mat_rows(v, scalar(2.0) * v, scalar(3.0) * v))
        a.add_transform(poses, group, 0, a.make_pose(v, a.make_quat(x, y, z, x)))

    @wp.kernel(module=module, enable_backward=False)
    def copy(bar3: array3d, total: array2d, stored3: array3d, added3: array3d):
        group = wp.tid()
        for i in range(bar3.shape[1]):
            for j in range(bar3.shape[2]):
                x = a.load_bar3(bar3, group, i, j)
                a.add_scalar(total, group, 0, x)
                a.store3(stored3, group, i, j, x)
                a.add3(added3, group, i, j, x)

    t = lane_types(scalar, lanes)

    @wp.kernel(module=module, enable_backward=False)
    def copy_looked_up(
        columns: int,
        given2: t.states2d,
        stored2: t.states2d,
        added2: t.states2d,
        stored3: t.states3d,
    ):
        """given2 [world, columns], the first frame of stored3 [world, 2, columns]."""
        group = wp.tid()
        a.fetch_to_read(given2, group)
        a.fetch_frame_to_read(stored3, group, 0)
        a.fetch_frame_to_write(stored3, group, 0)
        for k in range(columns):
            a.store(stored2, group, k, a.load(given2, group, k))
            a.add(added2, group, k, a.load_bar(given2, group, k))
            a.store3(stored3, group, 0, k, a.load_bar3(stored3, group, 1, k))

    @wp.kernel(module=module, enable_backward=False)
    def copy_whole(
        columns: int,
        given: t.states4d,
        buffers: wp.array2d(dtype=scalar),
        stored: t.states4d,
        bars: t.states2d,
    ):
        """The second frame of given and stored [world, 2, 2, columns] but for its diagonal, and the sums of its columns
        but for the first two; of two trees the first one has the even columns."""
        tree, group = wp.tid()
        a.read_frame(buffers[0], given, group, 1, 2, columns)
        a.begin(buffers[1], group, 2 * columns)
        a.begin(buffers[2], group, columns)
        for k in range(columns):
            if k > 1 and k % 2 == tree:
                x = a.get(buffers[0], given, group, 1, 0, k, columns)
                y = a.get(buffers[0], given, group, 1, 1, k, columns)
                a.put_bar(buffers[2], bars, group, k, x + y)
            for i in range(2):
                if i != k:
                    entry = a.get(buffers[0], given, group, 1, i, k, columns)
                    a.put(buffers[1], stored, group, 1, i, k, columns, entry)
        a.end_frame(buffers[1], stored, group, 1, 2, columns)
        a.end_bars(buffers[2], bars, group, tree, columns)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


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
    bar3 = rng.normal(size=(worlds, 2, 3))
    before = [rng.normal(size=(4 * LANES, 2, 3)) for _ in range(2)]
    given = wp.array(bar3, dtype=wp.float64, device="cpu")
    total = wp.zeros((1, 1), dtype=wp.float64, device="cpu")
    whole = [wp.array(x, dtype=wp.float64, device="cpu") for x in before]
    outputs = [total, *(array[:worlds] for array in whole)]
    wp.launch(trial_kernels("float64", lanes).copy, -(-worlds // lanes), [given], outputs, device="cpu")
    stored3, added3 = before
    stored3[:worlds] = bar3
    added3[:worlds] += bar3
    for array, expected in zip(whole, (stored3, added3), strict=True):
        np.testing.assert_array_equal(array.numpy(), expected)
    np.testing.assert_allclose(total.numpy()[0], [bar3.sum()], rtol=0, atol=1e-13)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("worlds", [1, LANES - 1, 3 * LANES + 2])
@pytest.mark.parametrize("every", [1, 2])
def test_arrays_that_are_looked_up(lanes, worlds, every):
    """Into the front of arrays of which the rest stays as it is, or into every second world."""
    rng = np.random.default_rng(0)
    before = [rng.normal(size=(8 * LANES, *shape)) for shape in [(3,), (3,), (3,), (2, 3)]]
    whole = [wp.array(x, dtype=wp.float64, device="cpu") for x in before]
    own = slice(0, every * worlds, every)
    parts = [for_lanes(array[own], lanes) for array in whole]
    wp.launch(trial_kernels("float64", lanes).copy_looked_up, -(-worlds // lanes), [3, *parts], device="cpu")
    expected = [x.copy() for x in before]
    expected[1][own] = before[0][own]
    expected[2][own] += before[0][own]
    expected[3][own, 0] = before[3][own, 1]
    for array, one in zip(whole, expected, strict=True):
        np.testing.assert_array_equal(array.numpy(), one)


@pytest.mark.parametrize("precision", SCALARS)
@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("columns", [3, 4, 9])  # fewer entries than lanes, groups of as many, and some left over
def test_what_is_read_and_written_whole(precision, lanes, columns, subtests):
    """As before; frames are read that lie in memory row by row or not, and arrays are large or new or not."""
    either = [False, True]
    for worlds, every, turned, marked in itertools.product(
        [1, LANES - 1, LANES, 3 * LANES + 2], [1, 2], either, either
    ):
        with subtests.test(worlds=worlds, every=every, turned=turned, marked=marked):
            check_whole(precision, lanes, worlds, every, columns, turned, marked)


def check_whole(precision: str, lanes: int, worlds: int, every: int, columns: int, turned: bool, marked: bool) -> None:
    rng, scalar = np.random.default_rng(0), SCALARS[precision]
    rows, own = 8 * LANES, slice(0, every * worlds, every)
    given = rng.normal(size=(rows, 2, columns, 2) if turned else (rows, 2, 2, columns)).astype(precision)
    stored, bars = (rng.normal(size=(rows, *shape)).astype(precision) for shape in [(2, 2, columns), (columns,)])
    if lanes == 1:
        stored[:] = 0.0  # as results come that a launch is told
    arrays = [wp.array(x, dtype=scalar, device="cpu") for x in (given, stored, bars)]
    seen = [arrays[0].transpose((0, 1, 3, 2)) if turned else arrays[0], *arrays[1:]]
    parts = [for_lanes(array[own], lanes) for array in seen]
    if lanes > 1:
        for part in parts[1:]:
            part.numpy()[3] = marked  # of the table
    buffers = wp.array(rng.normal(size=(3, 4 * columns * lanes)), dtype=scalar, device="cpu")
    inputs = [columns, parts[0], buffers, *parts[1:]]
    wp.launch(trial_kernels(precision, lanes).copy_whole, (2, -(-worlds // lanes)), inputs, device="cpu")
    frames = (given.swapaxes(2, 3) if turned else given)[own, 1]
    sums = frames[:, 0] + frames[:, 1]
    sums[:, :2] = 0.0
    stored[own, 1] = frames * (1.0 - np.eye(2, columns))
    bars[own] = sums if marked and lanes > 1 else bars[own] + sums
    np.testing.assert_array_equal(arrays[0].numpy(), given)
    np.testing.assert_array_equal(arrays[1].numpy(), stored)
    np.testing.assert_array_equal(arrays[2].numpy(), bars)
