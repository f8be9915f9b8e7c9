"""Arithmetic for lane groups of several worlds."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types, warp_types


def several_worlds(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for several worlds, see :mod:`warp_kernels.algebra`; :func:`one_world` has the same
    functions except ``total``, and sine and cosine.
    """
    t, plain = lane_types(scalar, lanes), warp_types(scalar)
    lane, vec3, quat, mat33, transform, spatial, inertia10 = (
        t.real, t.vec3, t.quat, t.mat33, t.transform, t.spatial, t.inertia,
    )  # fmt: skip
    articulated = t.articulated
    one_vec3, one_transform = plain.vec3, plain.transform

    native = Native(scalar, lanes, "algebra")

    @native.func_native()
    def real(x: scalar) -> lane: ...

    @wp.func
    def same_vec3(v: one_vec3):
        return vec3(wp.matrix_from_rows(real(v[0]), real(v[1]), real(v[2])))

    @wp.func
    def same_transform(x: one_transform):
        p = wp.transform_get_translation(x)
        r = wp.transform_get_rotation(x)
        return transform(
            wp.matrix_from_rows(real(p[0]), real(p[1]), real(p[2]), real(r[0]), real(r[1]), real(r[2]), real(r[3]))
        )

    @wp.func
    def mul(x: lane, y: lane):
        return wp.cw_mul(x, y)

    @wp.func
    def div(x: lane, y: lane):
        return wp.cw_div(x, y)

    @native.func_native()
    def sign(x: lane) -> lane:
        """Return 1, -1, or 0 for zero, for which ``wp.sign`` is 1."""

    @wp.func
    def make_vec3(x: lane, y: lane, z: lane):
        return vec3(wp.matrix_from_rows(x, y, z))

    @wp.func
    def make_quat(x: lane, y: lane, z: lane, w: lane):
        return quat(wp.matrix_from_rows(x, y, z, w))

    @native.func_native()
    def over_root(x: lane) -> lane:
        """Return one over the square root; zero for zero."""

    @wp.func
    def over_length(q: quat):
        """Return one over the length of a quaternion; zero for zero."""
        return over_root(wp.cw_mul(q[0], q[0]) + wp.cw_mul(q[1], q[1]) + wp.cw_mul(q[2], q[2]) + wp.cw_mul(q[3], q[3]))

    @wp.func
    def unit(q: quat):
        """Normalise a quaternion; zero becomes the identity."""
        over = over_length(q)
        w = wp.cw_mul(q[3], over)
        for i in range(wp.static(lanes)):
            w[i] = wp.where(over[i] == scalar(0.0), scalar(1.0), w[i])
        return make_quat(wp.cw_mul(q[0], over), wp.cw_mul(q[1], over), wp.cw_mul(q[2], over), w)

    @wp.func
    def make_pose(p: vec3, r: quat):
        return transform(wp.matrix_from_rows(p[0], p[1], p[2], r[0], r[1], r[2], r[3]))

    @wp.func
    def position(pose: transform):
        return vec3(wp.matrix_from_rows(pose[0], pose[1], pose[2]))

    @wp.func
    def rotation(pose: transform):
        return quat(wp.matrix_from_rows(pose[3], pose[4], pose[5], pose[6]))

    @wp.func
    def join(w: vec3, v: vec3):
        return spatial(wp.matrix_from_rows(w[0], w[1], w[2], v[0], v[1], v[2]))

    @wp.func
    def angular(s: spatial):
        return vec3(wp.matrix_from_rows(s[0], s[1], s[2]))

    @wp.func
    def linear(s: spatial):
        return vec3(wp.matrix_from_rows(s[3], s[4], s[5]))

    @wp.func
    def make_inertia(m: lane, h: vec3, d: vec3, o: vec3):
        return inertia10(wp.matrix_from_rows(m, h[0], h[1], h[2], d[0], d[1], d[2], o[0], o[1], o[2]))

    @wp.func
    def make_articulated(da: vec3, ra: vec3, r0: vec3, r1: vec3, r2: vec3, dc: vec3, rc: vec3):
        return articulated(
            wp.matrix_from_rows(
                da[0], da[1], da[2], ra[0], ra[1], ra[2],
                r0[0], r0[1], r0[2], r1[0], r1[1], r1[2], r2[0], r2[1], r2[2],
                dc[0], dc[1], dc[2], rc[0], rc[1], rc[2],
            )
        )  # fmt: skip

    @wp.func
    def scale(x: lane, v: vec3):
        return vec3(wp.matrix_from_rows(wp.cw_mul(x, v[0]), wp.cw_mul(x, v[1]), wp.cw_mul(x, v[2])))

    @wp.func
    def scale_spatial(x: lane, s: spatial):
        return spatial(
            wp.matrix_from_rows(
                wp.cw_mul(x, s[0]), wp.cw_mul(x, s[1]), wp.cw_mul(x, s[2]),
                wp.cw_mul(x, s[3]), wp.cw_mul(x, s[4]), wp.cw_mul(x, s[5]),
            )
        )  # fmt: skip

    @wp.func
    def dot(a: vec3, b: vec3):
        return wp.cw_mul(a[0], b[0]) + wp.cw_mul(a[1], b[1]) + wp.cw_mul(a[2], b[2])

    @wp.func
    def dot_spatial(a: spatial, b: spatial):
        return (
            wp.cw_mul(a[0], b[0]) + wp.cw_mul(a[1], b[1]) + wp.cw_mul(a[2], b[2])
            + wp.cw_mul(a[3], b[3]) + wp.cw_mul(a[4], b[4]) + wp.cw_mul(a[5], b[5])
        )  # fmt: skip

    @wp.func
    def cross(a: vec3, b: vec3):
        return vec3(
            wp.matrix_from_rows(
                wp.cw_mul(a[1], b[2]) - wp.cw_mul(a[2], b[1]),
                wp.cw_mul(a[2], b[0]) - wp.cw_mul(a[0], b[2]),
                wp.cw_mul(a[0], b[1]) - wp.cw_mul(a[1], b[0]),
            )
        )

    @wp.func
    def mat_rows(r0: vec3, r1: vec3, r2: vec3):
        return mat33(wp.matrix_from_rows(r0[0], r0[1], r0[2], r1[0], r1[1], r1[2], r2[0], r2[1], r2[2]))

    @wp.func
    def mat_row(m: mat33, i: int):
        return vec3(wp.matrix_from_rows(m[3 * i], m[3 * i + 1], m[3 * i + 2]))

    @wp.func
    def mat_vec(m: mat33, v: vec3):
        return make_vec3(dot(mat_row(m, 0), v), dot(mat_row(m, 1), v), dot(mat_row(m, 2), v))

    @wp.func
    def vec_mat(v: vec3, m: mat33):
        return scale(v[0], mat_row(m, 0)) + scale(v[1], mat_row(m, 1)) + scale(v[2], mat_row(m, 2))

    @wp.func
    def outer(u: vec3, v: vec3):
        return mat_rows(scale(u[0], v), scale(u[1], v), scale(u[2], v))

    @wp.func
    def total(x: lane):
        sum = scalar(0.0)
        for i in range(wp.static(lanes)):
            sum += x[i]
        return sum

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
