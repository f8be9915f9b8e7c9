"""Reading and writing arrays for lane groups of several worlds.

``values`` and ``bars`` are parameters [P, n], one for all worlds where P = 1; arrays of states [world, ...] are those of
:mod:`warp_kernels.algebra.entries` and :mod:`warp_kernels.algebra.whole_frames`.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.entries import entry_functions
from warp_kernels.algebra.whole_frames import frame_entry_functions
from warp_kernels.types import lane_types, warp_types


def several_worlds_arrays(scalar: Any, lanes: int, a: SimpleNamespace) -> SimpleNamespace:
    """See :mod:`warp_kernels.algebra`; :func:`one_world_arrays` has the same functions. ``a`` has the arithmetic."""
    t, plain = lane_types(scalar, lanes), warp_types(scalar)
    lane, vec3, mat33, transform, spatial = t.real, t.vec3, t.mat33, t.transform, t.spatial
    one_vec3, one_quat, one_mat33, one_transform = plain.vec3, plain.quat, plain.mat33, plain.transform

    entries = entry_functions(scalar, lanes)
    load, add = entries.load, entries.add
    array2d = wp.array2d(dtype=scalar)
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=x) for x in (one_vec3, one_mat33, one_transform))

    @wp.func
    def load_param_scalar(values: array2d, group: int, item: int):
        if values.shape[0] == 1:
            return a.real(values[0, item])
        return load(values, group, item)

    @wp.func
    def load_param_vec3(values: array_vec3, group: int, item: int):
        if values.shape[0] == 1:
            return a.same_vec3(values[0, item])
        x = vec3()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(group * lanes + i, last), item]
            for c in range(3):
                x[c, i] = one[c]
        return x

    @wp.func
    def load_param_mat33(values: array_mat33, group: int, item: int):
        if values.shape[0] == 1:
            m = values[0, item]
            return a.mat_rows(a.same_vec3(m[0]), a.same_vec3(m[1]), a.same_vec3(m[2]))
        x = mat33()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(group * lanes + i, last), item]
            for r in range(3):
                for c in range(3):
                    x[3 * r + c, i] = one[r, c]
        return x

    @wp.func
    def load_param_transform(values: array_transform, group: int, item: int):
        if values.shape[0] == 1:
            return a.same_transform(values[0, item])
        x = transform()
        last = values.shape[0] - 1
        for i in range(wp.static(lanes)):
            one = values[wp.min(group * lanes + i, last), item]
            p = wp.transform_get_translation(one)
            r = wp.transform_get_rotation(one)
            for c in range(3):
                x[c, i] = p[c]
            for c in range(4):
                x[3 + c, i] = r[c]
        return x

    @wp.func
    def add_scalar(bars: array2d, group: int, item: int, x: lane):
        if bars.shape[0] == 1:
            wp.atomic_add(bars, 0, item, a.total(x))
        else:
            add(bars, group, item, x)

    @wp.func
    def add_vec3(bars: array_vec3, group: int, item: int, x: vec3):
        if bars.shape[0] == 1:
            wp.atomic_add(bars, 0, item, one_vec3(a.total(x[0]), a.total(x[1]), a.total(x[2])))
        else:
            for i in range(wp.static(lanes)):
                if group * lanes + i < bars.shape[0]:
                    bars[group * lanes + i, item] += one_vec3(x[0, i], x[1, i], x[2, i])

    @wp.func
    def add_mat33(bars: array_mat33, group: int, item: int, x: mat33):
        if bars.shape[0] == 1:
            whole = one_mat33(
                a.total(x[0]), a.total(x[1]), a.total(x[2]), a.total(x[3]), a.total(x[4]), a.total(x[5]), a.total(x[6]), a.total(x[7]),
                a.total(x[8]),
            )  # fmt: skip
            wp.atomic_add(bars, 0, item, whole)
        else:
            for i in range(wp.static(lanes)):
                if group * lanes + i < bars.shape[0]:
                    bars[group * lanes + i, item] += one_mat33(
                        x[0, i], x[1, i], x[2, i], x[3, i], x[4, i], x[5, i], x[6, i], x[7, i], x[8, i]
                    )  # fmt: skip

    @wp.func
    def add_transform(bars: array_transform, group: int, item: int, x: transform):
        if bars.shape[0] == 1:
            whole = one_transform(
                one_vec3(a.total(x[0]), a.total(x[1]), a.total(x[2])),
                one_quat(a.total(x[3]), a.total(x[4]), a.total(x[5]), a.total(x[6])),
            )
            wp.atomic_add(bars, 0, item, whole)
        else:
            for i in range(wp.static(lanes)):
                if group * lanes + i < bars.shape[0]:
                    bars[group * lanes + i, item] += one_transform(
                        one_vec3(x[0, i], x[1, i], x[2, i]), one_quat(x[3, i], x[4, i], x[5, i], x[6, i])
                    )

    # Scratch [items, groups]. Nothing else adds to it meanwhile: a CPU runs a launch in one thread.
    @wp.func
    def sum_spatial(bars: wp.array2d(dtype=spatial), item: int, group: int, x: spatial):
        bars[item, group] = bars[item, group] + x

    @wp.func
    def sum_transform(bars: wp.array2d(dtype=transform), item: int, group: int, x: transform):
        bars[item, group] = bars[item, group] + x

    @wp.func
    def sum_vec3(bars: wp.array2d(dtype=vec3), item: int, group: int, x: vec3):
        bars[item, group] = bars[item, group] + x

    own = {name: value for name, value in locals().items() if isinstance(value, wp.Function)}
    return SimpleNamespace(**{**vars(entries), **vars(frame_entry_functions(scalar, lanes)), **own})
