"""Reading and writing arrays for blocks of one world."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


def one_world_arrays(scalar: Any) -> SimpleNamespace:
    """See :mod:`warp_kernels.algebra`; :func:`several_worlds_arrays` has the same functions."""
    t = warp_types(scalar)
    vec3, mat33, transform, spatial = t.vec3, t.mat33, t.transform, t.spatial
    numbers, array2d, array3d, array4d = (wp.array(dtype=scalar, ndim=n) for n in (1, 2, 3, 4))
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=dtype) for dtype in (vec3, mat33, transform))

    @wp.func
    def load(values: array2d, block: int, k: int):
        return values[block, k]

    @wp.func
    def load_bar(values: array2d, block: int, k: int):
        return values[block, k]

    @wp.func
    def store(values: array2d, block: int, k: int, x: scalar):
        values[block, k] = x

    @wp.func
    def add(values: array2d, block: int, k: int, x: scalar):
        values[block, k] += x

    @wp.func
    def load3(values: array3d, block: int, i: int, j: int):
        return values[block, i, j]

    @wp.func
    def add3(values: array3d, block: int, i: int, j: int, x: scalar):
        values[block, i, j] += x

    @wp.func
    def load_bar3(values: array3d, block: int, i: int, j: int):
        return values[block, i, j]

    @wp.func
    def store3(values: array3d, block: int, i: int, j: int, x: scalar):
        values[block, i, j] = x

    # What a launch is told comes as zeros.
    @wp.func
    def begin(buffer: numbers, block: int, count: int):
        pass

    @wp.func
    def put(buffer: numbers, values: array4d, block: int, frame: int, i: int, j: int, columns: int, x: scalar):
        values[block, frame, i, j] = x

    @wp.func
    def end_frame(buffer: numbers, values: array4d, block: int, frame: int, rows: int, columns: int):
        pass

    @wp.func
    def read_frame(buffer: numbers, values: array4d, block: int, frame: int, rows: int, columns: int):
        pass

    @wp.func
    def get(buffer: numbers, values: array4d, block: int, frame: int, i: int, j: int, columns: int):
        return values[block, frame, i, j]

    # Each coordinate has one joint, which is the only one to put something.
    @wp.func
    def put_bar(buffer: numbers, values: array2d, block: int, k: int, x: scalar):
        values[block, k] += x

    @wp.func
    def end_bars(buffer: numbers, values: array2d, block: int, tree: int, count: int):
        pass

    # A processor of many threads has others to work on while one waits for memory.
    @wp.func
    def fetch_to_read(values: array2d, block: int):
        pass

    @wp.func
    def fetch_frame_to_read(values: Any, block: int, frame: int):
        pass

    @wp.func
    def fetch_frame_to_write(values: Any, block: int, frame: int):
        pass

    @wp.func
    def own_scalar(values: array2d, block: int, item: int):
        return values[wp.min(block, values.shape[0] - 1), item]

    @wp.func
    def own_vec3(values: array_vec3, block: int, item: int):
        return values[wp.min(block, values.shape[0] - 1), item]

    @wp.func
    def own_mat33(values: array_mat33, block: int, item: int):
        return values[wp.min(block, values.shape[0] - 1), item]

    @wp.func
    def own_transform(values: array_transform, block: int, item: int):
        return values[wp.min(block, values.shape[0] - 1), item]

    @wp.func
    def add_scalar(bars: array2d, block: int, item: int, x: scalar):
        wp.atomic_add(bars, wp.min(block, bars.shape[0] - 1), item, x)

    @wp.func
    def add_vec3(bars: array_vec3, block: int, item: int, x: vec3):
        wp.atomic_add(bars, wp.min(block, bars.shape[0] - 1), item, x)

    @wp.func
    def add_mat33(bars: array_mat33, block: int, item: int, x: mat33):
        wp.atomic_add(bars, wp.min(block, bars.shape[0] - 1), item, x)

    @wp.func
    def add_transform(bars: array_transform, block: int, item: int, x: transform):
        wp.atomic_add(bars, wp.min(block, bars.shape[0] - 1), item, x)

    # Scratch [items, blocks] to which several threads of a GPU may add.
    @wp.func
    def sum_spatial(bars: wp.array2d(dtype=spatial), item: int, block: int, x: spatial):
        wp.atomic_add(bars, item, block, x)

    @wp.func
    def sum_transform(bars: wp.array2d(dtype=transform), item: int, block: int, x: transform):
        wp.atomic_add(bars, item, block, x)

    @wp.func
    def sum_vec3(bars: wp.array2d(dtype=vec3), item: int, block: int, x: vec3):
        wp.atomic_add(bars, item, block, x)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
