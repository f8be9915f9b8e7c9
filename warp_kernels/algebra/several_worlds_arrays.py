"""Access to arrays for lane groups of several worlds.

``values`` and ``bars`` are parameters [P, n], one for all worlds if P = 1; arrays of states [world, ...] are those of
:mod:`warp_kernels.algebra.entries`.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.entries import entry_functions, frame_entry_functions
from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types, warp_types


def several_worlds_arrays(scalar: Any, lanes: int, a: SimpleNamespace) -> SimpleNamespace:
    """Return the functions for several worlds, see :mod:`warp_kernels.algebra`; :func:`one_world_arrays` has the same
    functions. ``a`` has the arithmetic.
    """
    t, plain = lane_types(scalar, lanes), warp_types(scalar)
    lane, vec3, mat33, transform, spatial = t.real, t.vec3, t.mat33, t.transform, t.spatial
    one_vec3, one_quat, one_mat33, one_transform = plain.vec3, plain.quat, plain.mat33, plain.transform

    entries = entry_functions(scalar, lanes)
    load, add = entries.load, entries.add
    array2d = wp.array2d(dtype=scalar)
    array_vec3, array_mat33, array_transform = (wp.array2d(dtype=x) for x in (one_vec3, one_mat33, one_transform))

    native = Native(scalar, lanes, "algebra")

    @native.func_native(3, template="own")
    def own_vec3(values: array_vec3, group: int, item: int) -> vec3: ...

    @native.func_native(9, template="own")
    def own_mat33(values: array_mat33, group: int, item: int) -> mat33: ...

    @native.func_native(7, template="own")
    def own_transform(values: array_transform, group: int, item: int) -> transform: ...

    @native.func_native(3, template="add_own")
    def add_own_vec3(values: array_vec3, group: int, item: int, x: vec3): ...

    @native.func_native(9, template="add_own")
    def add_own_mat33(values: array_mat33, group: int, item: int, x: mat33): ...

    @native.func_native(7, template="add_own")
    def add_own_transform(values: array_transform, group: int, item: int, x: transform): ...

    @wp.func
    def load_param_scalar(values: array2d, group: int, item: int):
        if values.shape[0] == 1:
            return a.real(values[0, item])
        return load(values, group, item)

    @wp.func
    def load_param_vec3(values: array_vec3, group: int, item: int):
        if values.shape[0] == 1:
            return a.same_vec3(values[0, item])
        return own_vec3(values, group, item)

    @wp.func
    def load_param_mat33(values: array_mat33, group: int, item: int):
        if values.shape[0] == 1:
            m = values[0, item]
            return a.mat_rows(a.same_vec3(m[0]), a.same_vec3(m[1]), a.same_vec3(m[2]))
        return own_mat33(values, group, item)

    @wp.func
    def load_param_transform(values: array_transform, group: int, item: int):
        if values.shape[0] == 1:
            return a.same_transform(values[0, item])
        return own_transform(values, group, item)

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
            add_own_vec3(bars, group, item, x)

    @wp.func
    def add_mat33(bars: array_mat33, group: int, item: int, x: mat33):
        if bars.shape[0] == 1:
            whole = one_mat33(
                a.total(x[0]), a.total(x[1]), a.total(x[2]), a.total(x[3]), a.total(x[4]), a.total(x[5]), a.total(x[6]), a.total(x[7]),
                a.total(x[8]),
            )  # fmt: skip
            wp.atomic_add(bars, 0, item, whole)
        else:
            add_own_mat33(bars, group, item, x)

    @wp.func
    def add_transform(bars: array_transform, group: int, item: int, x: transform):
        if bars.shape[0] == 1:
            whole = one_transform(
                one_vec3(a.total(x[0]), a.total(x[1]), a.total(x[2])),
                one_quat(a.total(x[3]), a.total(x[4]), a.total(x[5]), a.total(x[6])),
            )
            wp.atomic_add(bars, 0, item, whole)
        else:
            add_own_transform(bars, group, item, x)

    # Scratch [items, groups]. No other thread adds to it: a CPU runs a launch in one thread.
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
