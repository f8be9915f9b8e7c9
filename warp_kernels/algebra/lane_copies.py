"""Copies between arrays of lane groups [item, group] and arrays of single worlds [item, world], of the same numbers.

Kinematics and dynamics work on lane groups of several worlds, see :mod:`warp_kernels.algebra`; contacts, and everything
else that differs from world to world, on one. A scalar of each world has the same memory layout in both; vectors, poses
and inertias are copied.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module, lane_types, warp_types

KINDS = {"vec3": 3, "transform": 7, "spatial": 6, "inertia": 10}


@functools.cache
def lane_copy_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels ``<kind>_to_worlds``, ``<kind>_to_groups`` and ``add_<kind>_to_groups`` for one precision,
    over (index, group), for the ``items`` at these indices.

    Lanes without a world are unchanged. With one lane, nothing has to be copied.
    """
    if lanes == 1:
        return SimpleNamespace()
    module = kernel_module("lane_copies", scalar, lanes, headers=("algebra/lane_copies.h",))
    kernels: dict[str, wp.Kernel] = {}
    for kind in KINDS:
        kernels |= _copies(scalar, lanes, kind, module)
    return SimpleNamespace(module=module, **kernels)


def _copies(scalar: Any, lanes: int, kind: str, module: wp.Module) -> dict[str, wp.Kernel]:
    of_groups = wp.array2d(dtype=getattr(lane_types(scalar, lanes), kind))
    of_worlds = wp.array2d(dtype=getattr(warp_types(scalar), kind))
    native = Native(scalar, lanes, "lane_copies")

    @native.func_native(KINDS[kind])
    def write_worlds(groups: of_groups, worlds: of_worlds, item: int, group: int): ...

    @native.func_native(KINDS[kind])
    def write_group(worlds: of_worlds, groups: of_groups, item: int, group: int): ...

    @native.func_native(KINDS[kind])
    def add_to_group(worlds: of_worlds, groups: of_groups, item: int, group: int): ...

    @wp.kernel(name=f"{kind}_to_worlds", module=module, enable_backward=False)
    def to_worlds(
        # Model
        items: wp.array(dtype=int),
        # Data in
        groups: of_groups,
        # Data out
        worlds: of_worlds,
    ):
        index, group = wp.tid()
        write_worlds(groups, worlds, items[index], group)

    @wp.kernel(name=f"{kind}_to_groups", module=module, enable_backward=False)
    def to_groups(
        # Model
        items: wp.array(dtype=int),
        # Data in
        worlds: of_worlds,
        # Data out
        groups: of_groups,
    ):
        index, group = wp.tid()
        write_group(worlds, groups, items[index], group)

    @wp.kernel(name=f"add_{kind}_to_groups", module=module, enable_backward=False)
    def add_to_groups(
        # Model
        items: wp.array(dtype=int),
        # Data in
        worlds: of_worlds,
        # Data out
        groups: of_groups,
    ):
        index, group = wp.tid()
        add_to_group(worlds, groups, items[index], group)

    return {
        f"{kind}_to_worlds": to_worlds,
        f"{kind}_to_groups": to_groups,
        f"add_{kind}_to_groups": add_to_groups,
    }
