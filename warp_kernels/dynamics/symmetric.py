"""Symmetric 6x6 matrices in arrays [item, group], with entries as of :mod:`warp_kernels.dynamics.aba`, in place."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types


def symmetric_headers(lanes: int) -> tuple[str, ...]:
    """Return the C++ headers of :func:`symmetric_functions`."""
    return ("dynamics/symmetric_groups.h",) if lanes > 1 else ("dynamics/symmetric.h",)


@functools.cache
def symmetric_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the functions for one precision and a number of worlds in a lane group."""
    t = lane_types(scalar, lanes)
    vec3, mat33, spatial, matrices = t.vec3, t.mat33, t.spatial, wp.array2d(dtype=t.articulated)
    native = Native(scalar, lanes, "symmetric")

    @native.func_native()
    def add_matrix(sources: matrices, source: int, targets: matrices, target: int, group: int):
        """Add a matrix to one of another array, or the same."""

    @native.func_native()
    def add_damping(values: matrices, item: int, group: int, about: mat33, along: mat33, point: vec3):
        """Add the damping of turns, and of a point, along world axes."""

    @native.func_native()
    def matrix_times(values: matrices, item: int, group: int, motion: spatial) -> spatial:
        """Multiply by a motion."""

    @native.func_native()
    def add_product(values: matrices, item: int, group: int, x: spatial, y: spatial):
        """Add (x y' + y x') / 2."""

    return SimpleNamespace(
        add_matrix=add_matrix, add_damping=add_damping, matrix_times=matrix_times, add_product=add_product
    )
