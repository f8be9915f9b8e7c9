"""Articulated-body inertias: symmetric 6x6 matrices in 21 entries."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import lane_types


@functools.cache
def articulated_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Warp functions of articulated inertias for one precision and a number of worlds in a lane group.

    The matrix is ((A, B), (B', C)), angular part first. ``types.articulated`` holds Axx, Ayy, Azz, Axy, Axz, Ayz, then B
    row by row, then C like A.
    """
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real, vec3, spatial, inertia10, articulated = t.real, t.vec3, t.spatial, t.inertia, t.articulated

    @wp.func
    def from_rigid(i: inertia10):
        """The spatial inertia of a rigid body."""
        z = a.real(scalar(0.0))
        return a.make_articulated(
            a.make_vec3(i[4], i[5], i[6]),
            a.make_vec3(i[7], i[8], i[9]),
            a.make_vec3(z, -i[3], i[2]),
            a.make_vec3(i[3], z, -i[1]),
            a.make_vec3(-i[2], i[1], z),
            a.make_vec3(i[0], i[0], i[0]),
            vec3(),
        )

    @wp.func
    def symmetric_product(d: vec3, r: vec3, v: vec3):
        """The product of a symmetric matrix, given by its diagonal and xy, xz, yz, with a vector."""
        return a.make_vec3(
            a.mul(d[0], v[0]) + a.mul(r[0], v[1]) + a.mul(r[1], v[2]),
            a.mul(r[0], v[0]) + a.mul(d[1], v[1]) + a.mul(r[2], v[2]),
            a.mul(r[1], v[0]) + a.mul(r[2], v[1]) + a.mul(d[2], v[2]),
        )

    @wp.func
    def apply(i: articulated, m: spatial):
        """The force I m."""
        w = a.angular(m)
        v = a.linear(m)
        b = a.mat_rows(a.make_vec3(i[6], i[7], i[8]), a.make_vec3(i[9], i[10], i[11]), a.make_vec3(i[12], i[13], i[14]))
        return a.join(
            symmetric_product(a.make_vec3(i[0], i[1], i[2]), a.make_vec3(i[3], i[4], i[5]), w) + a.mat_vec(b, v),
            a.vec_mat(w, b) + symmetric_product(a.make_vec3(i[15], i[16], i[17]), a.make_vec3(i[18], i[19], i[20]), v),
        )

    @wp.func
    def square(u: spatial, factor: real):
        """The matrix u u' times a factor."""
        f = a.scale_spatial(factor, u)
        v = a.linear(u)
        return a.make_articulated(
            a.make_vec3(a.mul(f[0], u[0]), a.mul(f[1], u[1]), a.mul(f[2], u[2])),
            a.make_vec3(a.mul(f[0], u[1]), a.mul(f[0], u[2]), a.mul(f[1], u[2])),
            a.scale(f[0], v),
            a.scale(f[1], v),
            a.scale(f[2], v),
            a.make_vec3(a.mul(f[3], u[3]), a.mul(f[4], u[4]), a.mul(f[5], u[5])),
            a.make_vec3(a.mul(f[3], u[4]), a.mul(f[3], u[5]), a.mul(f[4], u[5])),
        )

    return SimpleNamespace(from_rigid=from_rigid, apply=apply, square=square)
