"""Rows that come from the motion of links: of a contact, of its spinning and rolling, of two anchors that coincide."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import CONTACT, ORIENTATION, POINT, SPIN, warp_types


@functools.cache
def geometric_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of geometric rows for one precision: three rows are a frame times a velocity, linear or angular."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, spatial = t.vec3, t.spatial

    @wp.func
    def is_geometric(kind: int):
        return kind == CONTACT or (kind >= POINT and kind < SPIN)

    @wp.func
    def motion(kind: int, column: spatial, lever: vec3):
        """Velocity that a unit rate of one degree of freedom gives: of the point, or of the orientation."""
        if kind >= ORIENTATION:
            return sp.angular(column)
        return sp.point_velocity(column, lever)

    @wp.func
    def column_adjoint(kind: int, push: vec3, lever: vec3):
        """Adjoint of the column in ``push . motion(kind, column, lever)``."""
        if kind >= ORIENTATION:
            return sp.join(push, vec3())
        return sp.join(wp.cross(lever, push), push)

    @wp.func
    def lever_adjoint(kind: int, push: vec3, column: spatial):
        """Adjoint of the lever in the same."""
        if kind >= ORIENTATION:
            return vec3()
        return wp.cross(push, sp.angular(column))

    return SimpleNamespace(
        is_geometric=is_geometric, motion=motion, column_adjoint=column_adjoint, lever_adjoint=lever_adjoint
    )
