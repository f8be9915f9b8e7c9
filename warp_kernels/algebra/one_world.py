"""Arithmetic for lane groups of one world."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


def one_world(scalar: Any) -> SimpleNamespace:
    """Return the functions for one world, see :mod:`warp_kernels.algebra`; :func:`several_worlds` has the same
    functions.
    """
    t = warp_types(scalar)
    vec3, quat, mat33, transform, spatial, inertia10 = t.vec3, t.quat, t.mat33, t.transform, t.spatial, t.inertia
    articulated = t.articulated

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
    def unit(q: quat):
        """Normalise a quaternion; zero becomes the identity, a non-finite one stays non-finite."""
        length = wp.length(q)
        if length == scalar(0.0):
            return quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
        return q * (scalar(1.0) / length)

    @wp.func
    def over_length(q: quat):
        """Return one over the length of a quaternion; zero for zero."""
        length = wp.length(q)
        return wp.where(length == scalar(0.0), scalar(0.0), scalar(1.0) / length)

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

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
