"""The basic functions for blocks of several worlds."""

import math
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import lane_types, warp_types

# Angles up to FAR have multiples of pi taken away and their sine and cosine worked out by the Taylor series of TERMS powers.
# The first two parts of pi have so few digits that their products with the multiples are exact (Cody and Waite 1980).
PI_PARTS = {
    "float64": (3.1415926535846666, 5.1266883031679116e-12, 2.1125998133974855e-23),
    "float32": (3.140625, 0.0009675025939941406, 1.5099580252808664e-07),
}
FAR = {"float64": 1.0e5, "float32": 1.0e4}
TERMS = {"float64": 12, "float32": 8}


def several_worlds(scalar: Any, lanes: int) -> SimpleNamespace:
    """See :mod:`warp_kernels.algebra`; :func:`one_world` has the same functions."""
    t, plain = lane_types(scalar, lanes), warp_types(scalar)
    lane, vec3, quat, mat33, transform, spatial, inertia10 = (
        t.real, t.vec3, t.quat, t.mat33, t.transform, t.spatial, t.inertia,
    )  # fmt: skip
    articulated = t.articulated
    one_vec3, one_quat, one_mat33, one_transform = plain.vec3, plain.quat, plain.mat33, plain.transform
    array2d, array3d, array4d = (wp.array(dtype=scalar, ndim=n) for n in (2, 3, 4))
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=x) for x in (one_vec3, one_mat33, one_transform))

    @wp.func
    def real(x: scalar):
        y = lane()
        for i in range(wp.static(lanes)):
            y[i] = x
        return y

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

    @wp.func
    def root(x: lane):
        y = lane()
        for i in range(wp.static(lanes)):
            y[i] = wp.sqrt(x[i])
        return y

    @wp.func
    def sign(x: lane):
        """1, -1, or 0 of zero, of which ``wp.sign`` is 1."""
        y = lane()
        for i in range(wp.static(lanes)):
            y[i] = wp.where(x[i] > scalar(0.0), scalar(1.0), wp.where(x[i] < scalar(0.0), scalar(-1.0), scalar(0.0)))
        return y

    precision = scalar.__name__
    terms = TERMS[precision]
    pi_parts = wp.types.vector(3, scalar)(*PI_PARTS[precision])
    over_pi, far = scalar(1.0 / math.pi), scalar(FAR[precision])
    sine_terms = wp.types.vector(terms, scalar)(*((-1) ** k / math.factorial(2 * k + 1) for k in range(terms)))
    cosine_terms = wp.types.vector(terms, scalar)(*((-1) ** k / math.factorial(2 * k) for k in range(terms)))

    @wp.func
    def brought_near(x: lane):
        """The angles, those beyond ``far`` within a turn."""
        beyond = int(0)
        for i in range(wp.static(lanes)):
            beyond += wp.where(wp.abs(x[i]) > far, 1, 0)
        i = int(0)
        while beyond > 0 and i < lanes:
            x[i] = wp.atan2(wp.sin(x[i]), wp.cos(x[i]))
            i += 1
        return x

    @wp.func
    def sine_cosine(angle: lane):
        x = brought_near(angle)
        turns = lane()
        for i in range(wp.static(lanes)):
            turns[i] = wp.rint(x[i] * over_pi)
        rest = x - turns * pi_parts[0] - turns * pi_parts[1] - turns * pi_parts[2]
        square = wp.cw_mul(rest, rest)
        sine = real(sine_terms[terms - 1])
        cosine = real(cosine_terms[terms - 1])
        for k in range(wp.static(terms - 1)):
            sine = wp.cw_mul(sine, square) + real(sine_terms[terms - 2 - k])
            cosine = wp.cw_mul(cosine, square) + real(cosine_terms[terms - 2 - k])
        # Both change their signs with every turn of pi: 1 - 2 (turns mod 2).
        pairs = lane()
        for i in range(wp.static(lanes)):
            pairs[i] = wp.rint(turns[i] * scalar(0.5))
        odd = turns - scalar(2.0) * pairs
        sign = real(scalar(1.0)) - scalar(2.0) * wp.cw_mul(odd, odd)
        return wp.cw_mul(wp.cw_mul(sine, rest), sign), wp.cw_mul(cosine, sign)

    @wp.func
    def make_vec3(x: lane, y: lane, z: lane):
        return vec3(wp.matrix_from_rows(x, y, z))

    @wp.func
    def make_quat(x: lane, y: lane, z: lane, w: lane):
        return quat(wp.matrix_from_rows(x, y, z, w))

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
    def load(values: array2d, block: int, k: int):
        x = lane()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            x[i] = values[wp.min(block * lanes + i, last), k]
        return x

    @wp.func
    def load_bar(values: array2d, block: int, k: int):
        x = lane()
        for i in range(wp.static(lanes)):
            if block * lanes + i < values.shape[0]:
                x[i] = values[block * lanes + i, k]
        return x

    @wp.func
    def store(values: array2d, block: int, k: int, x: lane):
        for i in range(wp.static(lanes)):
            if block * lanes + i < values.shape[0]:
                values[block * lanes + i, k] = x[i]

    @wp.func
    def add(values: array2d, block: int, k: int, x: lane):
        for i in range(wp.static(lanes)):
            if block * lanes + i < values.shape[0]:
                values[block * lanes + i, k] += x[i]

    @wp.func
    def own_scalar(values: array2d, block: int, item: int):
        if values.shape[0] == 1:
            return real(values[0, item])
        return load(values, block, item)

    @wp.func
    def own_vec3(values: array_vec3, block: int, item: int):
        if values.shape[0] == 1:
            return same_vec3(values[0, item])
        x = vec3()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(block * lanes + i, last), item]
            for c in range(3):
                x[c, i] = one[c]
        return x

    @wp.func
    def own_mat33(values: array_mat33, block: int, item: int):
        if values.shape[0] == 1:
            m = values[0, item]
            return mat_rows(same_vec3(m[0]), same_vec3(m[1]), same_vec3(m[2]))
        x = mat33()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(block * lanes + i, last), item]
            for r in range(3):
                for c in range(3):
                    x[3 * r + c, i] = one[r, c]
        return x

    @wp.func
    def own_transform(values: array_transform, block: int, item: int):
        if values.shape[0] == 1:
            return same_transform(values[0, item])
        x = transform()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(block * lanes + i, last), item]
            p = wp.transform_get_translation(one)
            r = wp.transform_get_rotation(one)
            for c in range(3):
                x[c, i] = p[c]
            for c in range(4):
                x[3 + c, i] = r[c]
        return x

    @wp.func
    def load3(values: array3d, block: int, i: int, j: int):
        x = lane()
        last = values.shape[0] - 1
        for n in range(wp.static(lanes)):
            x[n] = values[wp.min(block * lanes + n, last), i, j]
        return x

    @wp.func
    def add3(values: array3d, block: int, i: int, j: int, x: lane):
        for n in range(wp.static(lanes)):
            if block * lanes + n < values.shape[0]:
                values[block * lanes + n, i, j] += x[n]

    @wp.func
    def load_bar3(values: array3d, block: int, i: int, j: int):
        x = lane()
        for n in range(wp.static(lanes)):
            if block * lanes + n < values.shape[0]:
                x[n] = values[block * lanes + n, i, j]
        return x

    @wp.func
    def store3(values: array3d, block: int, i: int, j: int, x: lane):
        for n in range(wp.static(lanes)):
            if block * lanes + n < values.shape[0]:
                values[block * lanes + n, i, j] = x[n]

    @wp.func
    def load_bar4(values: array4d, block: int, frame: int, i: int, j: int):
        x = lane()
        for n in range(wp.static(lanes)):
            if block * lanes + n < values.shape[0]:
                x[n] = values[block * lanes + n, frame, i, j]
        return x

    @wp.func
    def store4(values: array4d, block: int, frame: int, i: int, j: int, x: lane):
        for n in range(wp.static(lanes)):
            if block * lanes + n < values.shape[0]:
                values[block * lanes + n, frame, i, j] = x[n]

    @wp.func
    def total(x: lane):
        sum = scalar(0.0)
        for i in range(wp.static(lanes)):
            sum += x[i]
        return sum

    @wp.func
    def add_scalar(bars: array2d, block: int, item: int, x: lane):
        if bars.shape[0] == 1:
            wp.atomic_add(bars, 0, item, total(x))
        else:
            add(bars, block, item, x)

    @wp.func
    def add_vec3(bars: array_vec3, block: int, item: int, x: vec3):
        if bars.shape[0] == 1:
            wp.atomic_add(bars, 0, item, one_vec3(total(x[0]), total(x[1]), total(x[2])))
        else:
            for i in range(wp.static(lanes)):
                if block * lanes + i < bars.shape[0]:
                    bars[block * lanes + i, item] += one_vec3(x[0, i], x[1, i], x[2, i])

    @wp.func
    def add_mat33(bars: array_mat33, block: int, item: int, x: mat33):
        if bars.shape[0] == 1:
            whole = one_mat33(
                total(x[0]), total(x[1]), total(x[2]), total(x[3]), total(x[4]), total(x[5]), total(x[6]), total(x[7]),
                total(x[8]),
            )  # fmt: skip
            wp.atomic_add(bars, 0, item, whole)
        else:
            for i in range(wp.static(lanes)):
                if block * lanes + i < bars.shape[0]:
                    bars[block * lanes + i, item] += one_mat33(
                        x[0, i], x[1, i], x[2, i], x[3, i], x[4, i], x[5, i], x[6, i], x[7, i], x[8, i]
                    )  # fmt: skip

    @wp.func
    def add_transform(bars: array_transform, block: int, item: int, x: transform):
        if bars.shape[0] == 1:
            whole = one_transform(
                one_vec3(total(x[0]), total(x[1]), total(x[2])),
                one_quat(total(x[3]), total(x[4]), total(x[5]), total(x[6])),
            )
            wp.atomic_add(bars, 0, item, whole)
        else:
            for i in range(wp.static(lanes)):
                if block * lanes + i < bars.shape[0]:
                    bars[block * lanes + i, item] += one_transform(
                        one_vec3(x[0, i], x[1, i], x[2, i]), one_quat(x[3, i], x[4, i], x[5, i], x[6, i])
                    )

    @wp.func
    def sum_spatial(bars: wp.array2d(dtype=spatial), item: int, block: int, x: spatial):
        bars[item, block] = bars[item, block] + x

    @wp.func
    def sum_transform(bars: wp.array2d(dtype=transform), item: int, block: int, x: transform):
        bars[item, block] = bars[item, block] + x

    @wp.func
    def sum_vec3(bars: wp.array2d(dtype=vec3), item: int, block: int, x: vec3):
        bars[item, block] = bars[item, block] + x

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
