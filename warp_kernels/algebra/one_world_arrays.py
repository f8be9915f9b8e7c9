"""Access to arrays for lane groups of one world."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


def one_world_arrays(scalar: Any) -> SimpleNamespace:
    """Return the functions for one world, see :mod:`warp_kernels.algebra`; :func:`several_worlds_arrays` has the same
    functions.
    """
    t = warp_types(scalar)
    vec3, mat33, transform, spatial = t.vec3, t.mat33, t.transform, t.spatial
    numbers, array2d, array3d, array4d = (wp.array(dtype=scalar, ndim=n) for n in (1, 2, 3, 4))
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=dtype) for dtype in (vec3, mat33, transform))

    @wp.func
    def load(values: array2d, group: int, k: int):
        return values[group, k]

    @wp.func
    def load_bar(values: array2d, group: int, k: int):
        return values[group, k]

    @wp.func
    def store(values: array2d, group: int, k: int, x: scalar):
        values[group, k] = x

    @wp.func
    def add(values: array2d, group: int, k: int, x: scalar):
        values[group, k] += x

    @wp.func
    def load3(values: array3d, group: int, i: int, j: int):
        return values[group, i, j]

    @wp.func
    def add3(values: array3d, group: int, i: int, j: int, x: scalar):
        values[group, i, j] += x

    @wp.func
    def load_bar3(values: array3d, group: int, i: int, j: int):
        return values[group, i, j]

    @wp.func
    def store3(values: array3d, group: int, i: int, j: int, x: scalar):
        values[group, i, j] = x

    # Output arrays passed at launch are already zeroed.
    @wp.func
    def begin(buffer: numbers, group: int, count: int):
        pass

    @wp.func
    def put(buffer: numbers, values: array4d, group: int, frame: int, i: int, j: int, columns: int, x: scalar):
        values[group, frame, i, j] = x

    @wp.func
    def end_frame(buffer: numbers, values: array4d, group: int, frame: int, rows: int, columns: int):
        pass

    @wp.func
    def read_frame(buffer: numbers, values: array4d, group: int, frame: int, rows: int, columns: int):
        pass

    @wp.func
    def get(buffer: numbers, values: array4d, group: int, frame: int, i: int, j: int, columns: int):
        return values[group, frame, i, j]

    # Each coordinate has one joint, the only one that writes it.
    @wp.func
    def put_bar(buffer: numbers, values: array2d, group: int, k: int, x: scalar):
        values[group, k] += x

    @wp.func
    def end_bars(buffer: numbers, values: array2d, group: int, tree: int, count: int):
        pass

    # A processor of many threads hides memory latency with other threads.
    @wp.func
    def fetch_to_read(values: array2d, group: int):
        pass

    @wp.func
    def fetch_frame_to_read(values: Any, group: int, frame: int):
        pass

    @wp.func
    def fetch_frame_to_write(values: Any, group: int, frame: int):
        pass

    @wp.func
    def load_param_scalar(values: array2d, group: int, item: int):
        return values[wp.min(group, values.shape[0] - 1), item]

    @wp.func
    def load_param_vec3(values: array_vec3, group: int, item: int):
        return values[wp.min(group, values.shape[0] - 1), item]

    @wp.func
    def load_param_mat33(values: array_mat33, group: int, item: int):
        return values[wp.min(group, values.shape[0] - 1), item]

    @wp.func
    def load_param_transform(values: array_transform, group: int, item: int):
        return values[wp.min(group, values.shape[0] - 1), item]

    @wp.func
    def add_scalar(bars: array2d, group: int, item: int, x: scalar):
        wp.atomic_add(bars, wp.min(group, bars.shape[0] - 1), item, x)

    @wp.func
    def add_vec3(bars: array_vec3, group: int, item: int, x: vec3):
        wp.atomic_add(bars, wp.min(group, bars.shape[0] - 1), item, x)

    @wp.func
    def add_mat33(bars: array_mat33, group: int, item: int, x: mat33):
        wp.atomic_add(bars, wp.min(group, bars.shape[0] - 1), item, x)

    @wp.func
    def add_transform(bars: array_transform, group: int, item: int, x: transform):
        wp.atomic_add(bars, wp.min(group, bars.shape[0] - 1), item, x)

    # Scratch [items, groups] to which several threads of a GPU may add.
    @wp.func
    def sum_spatial(bars: wp.array2d(dtype=spatial), item: int, group: int, x: spatial):
        wp.atomic_add(bars, item, group, x)

    @wp.func
    def sum_transform(bars: wp.array2d(dtype=transform), item: int, group: int, x: transform):
        wp.atomic_add(bars, item, group, x)

    @wp.func
    def sum_vec3(bars: wp.array2d(dtype=vec3), item: int, group: int, x: vec3):
        wp.atomic_add(bars, item, group, x)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
