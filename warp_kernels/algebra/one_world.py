"""The basic functions for blocks of one world."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


def one_world(scalar: Any) -> SimpleNamespace:
    """See :mod:`warp_kernels.algebra`; :func:`several_worlds` has the same functions."""
    t = warp_types(scalar)
    vec3, quat, mat33, transform, spatial, inertia10 = t.vec3, t.quat, t.mat33, t.transform, t.spatial, t.inertia
    articulated = t.articulated
    array2d, array3d, array4d = (wp.array(dtype=scalar, ndim=n) for n in (2, 3, 4))
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=dtype) for dtype in (vec3, mat33, transform))

    @wp.func
    def real(x: scalar):
        return x

    @wp.func
    def same_vec3(v: vec3):
        return v

    @wp.func
    def same_transform(x: transform):
        return x

    @wp.func
    def mul(x: scalar, y: scalar):
        return x * y

    @wp.func
    def div(x: scalar, y: scalar):
        return x / y

    @wp.func
    def root(x: scalar):
        return wp.sqrt(x)

    @wp.func
    def sign(x: scalar):
        return wp.where(x > scalar(0.0), scalar(1.0), wp.where(x < scalar(0.0), scalar(-1.0), scalar(0.0)))

    @wp.func
    def sine_cosine(x: scalar):
        return wp.sin(x), wp.cos(x)

    @wp.func
    def make_vec3(x: scalar, y: scalar, z: scalar):
        return vec3(x, y, z)

    @wp.func
    def make_quat(x: scalar, y: scalar, z: scalar, w: scalar):
        return quat(x, y, z, w)

    @wp.func
    def make_pose(position: vec3, rotation: quat):
        return transform(position, rotation)

    @wp.func
    def position(pose: transform):
        return wp.transform_get_translation(pose)

    @wp.func
    def rotation(pose: transform):
        return wp.transform_get_rotation(pose)

    @wp.func
    def join(angular: vec3, linear: vec3):
        return spatial(angular[0], angular[1], angular[2], linear[0], linear[1], linear[2])

    @wp.func
    def angular(s: spatial):
        return vec3(s[0], s[1], s[2])

    @wp.func
    def linear(s: spatial):
        return vec3(s[3], s[4], s[5])

    @wp.func
    def make_inertia(mass: scalar, moment: vec3, diagonal: vec3, off_diagonal: vec3):
        return inertia10(
            mass, moment[0], moment[1], moment[2], diagonal[0], diagonal[1], diagonal[2],
            off_diagonal[0], off_diagonal[1], off_diagonal[2],
        )  # fmt: skip

    @wp.func
    def make_articulated(
        diagonal_a: vec3, rest_a: vec3, row_0: vec3, row_1: vec3, row_2: vec3, diagonal_c: vec3, rest_c: vec3
    ):
        return articulated(
            diagonal_a[0], diagonal_a[1], diagonal_a[2], rest_a[0], rest_a[1], rest_a[2],
            row_0[0], row_0[1], row_0[2], row_1[0], row_1[1], row_1[2], row_2[0], row_2[1], row_2[2],
            diagonal_c[0], diagonal_c[1], diagonal_c[2], rest_c[0], rest_c[1], rest_c[2],
        )  # fmt: skip

    @wp.func
    def scale(x: scalar, v: vec3):
        return x * v

    @wp.func
    def scale_spatial(x: scalar, s: spatial):
        return x * s

    @wp.func
    def dot(a: vec3, b: vec3):
        return wp.dot(a, b)

    @wp.func
    def dot_spatial(a: spatial, b: spatial):
        return wp.dot(a, b)

    @wp.func
    def cross(a: vec3, b: vec3):
        return wp.cross(a, b)

    @wp.func
    def mat_rows(a: vec3, b: vec3, c: vec3):
        return mat33(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])

    @wp.func
    def mat_row(m: mat33, i: int):
        return m[i]

    @wp.func
    def mat_vec(m: mat33, v: vec3):
        return m * v

    @wp.func
    def vec_mat(v: vec3, m: mat33):
        return v * m

    @wp.func
    def outer(a: vec3, b: vec3):
        return wp.outer(a, b)

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

    @wp.func
    def load_bar4(values: array4d, block: int, frame: int, i: int, j: int):
        return values[block, frame, i, j]

    @wp.func
    def store4(values: array4d, block: int, frame: int, i: int, j: int, x: scalar):
        values[block, frame, i, j] = x

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
