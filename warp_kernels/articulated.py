"""Articulated-body inertias: symmetric 6x6 matrices in 21 entries."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def articulated_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of articulated inertias for one precision.

    The matrix is ((A, B), (B', C)), angular part first. ``types.articulated`` holds Axx, Ayy, Azz, Axy, Axz, Ayz, then B
    row by row, then C like A.
    """
    t = warp_types(scalar)
    spatial, inertia10, articulated = t.spatial, t.inertia, t.articulated

    @wp.func
    def from_rigid(i: inertia10):
        """The spatial inertia of a rigid body."""
        z = scalar(0.0)
        return articulated(
            i[4], i[5], i[6], i[7], i[8], i[9],
            z, -i[3], i[2], i[3], z, -i[1], -i[2], i[1], z,
            i[0], i[0], i[0], z, z, z,
        )  # fmt: skip

    @wp.func
    def apply(i: articulated, m: spatial):
        """The force I m."""
        return spatial(
            i[0] * m[0] + i[3] * m[1] + i[4] * m[2] + i[6] * m[3] + i[7] * m[4] + i[8] * m[5],
            i[3] * m[0] + i[1] * m[1] + i[5] * m[2] + i[9] * m[3] + i[10] * m[4] + i[11] * m[5],
            i[4] * m[0] + i[5] * m[1] + i[2] * m[2] + i[12] * m[3] + i[13] * m[4] + i[14] * m[5],
            i[6] * m[0] + i[9] * m[1] + i[12] * m[2] + i[15] * m[3] + i[18] * m[4] + i[19] * m[5],
            i[7] * m[0] + i[10] * m[1] + i[13] * m[2] + i[18] * m[3] + i[16] * m[4] + i[20] * m[5],
            i[8] * m[0] + i[11] * m[1] + i[14] * m[2] + i[19] * m[3] + i[20] * m[4] + i[17] * m[5],
        )

    @wp.func
    def square(u: spatial, factor: scalar):
        """The matrix u u' times a factor."""
        f = u * factor
        return articulated(
            f[0] * u[0], f[1] * u[1], f[2] * u[2], f[0] * u[1], f[0] * u[2], f[1] * u[2],
            f[0] * u[3], f[0] * u[4], f[0] * u[5],
            f[1] * u[3], f[1] * u[4], f[1] * u[5],
            f[2] * u[3], f[2] * u[4], f[2] * u[5],
            f[3] * u[3], f[4] * u[4], f[5] * u[5], f[3] * u[4], f[3] * u[5], f[4] * u[5],
        )  # fmt: skip

    return SimpleNamespace(from_rigid=from_rigid, apply=apply, square=square)
