"""Spatial (6-D) algebra in the common frame of a tree.

All spatial vectors are angular part first, in world-aligned axes, with the origin of the tree's root link as the
reference point (Featherstone 2014, chapter 2; MuJoCo uses the same idea with the subtree's centre of mass). No
transform is needed between links.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def spatial_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of spatial algebra for one precision."""
    t = warp_types(scalar)
    vec3, spatial, inertia10, mat33 = t.vec3, t.spatial, t.inertia, t.mat33

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
    def cross_motion(v: spatial, m: spatial):
        """v x m for motion vectors."""
        w = angular(v)
        return join(wp.cross(w, angular(m)), wp.cross(w, linear(m)) + wp.cross(linear(v), angular(m)))

    @wp.func
    def cross_force(v: spatial, f: spatial):
        """v x* f for a motion and a force vector."""
        w = angular(v)
        return join(wp.cross(w, angular(f)) + wp.cross(linear(v), linear(f)), wp.cross(w, linear(f)))

    @wp.func
    def first_moment(i: inertia10):
        return vec3(i[1], i[2], i[3])

    @wp.func
    def rotational(i: inertia10):
        return mat33(i[4], i[7], i[8], i[7], i[5], i[9], i[8], i[9], i[6])

    @wp.func
    def apply_inertia(i: inertia10, m: spatial):
        """Spatial momentum I m."""
        w = angular(m)
        v = linear(m)
        h = first_moment(i)
        return join(rotational(i) * w + wp.cross(h, v), i[0] * v - wp.cross(h, w))

    @wp.func
    def inertia_quadratic(x: spatial, y: spatial):
        """Derivative of x . (I y) in the ten entries of I."""
        xw = angular(x)
        xv = linear(x)
        yw = angular(y)
        yv = linear(y)
        h = wp.cross(yv, xw) + wp.cross(xv, yw)
        return inertia10(
            wp.dot(xv, yv), h[0], h[1], h[2],
            xw[0] * yw[0], xw[1] * yw[1], xw[2] * yw[2],
            xw[0] * yw[1] + xw[1] * yw[0], xw[0] * yw[2] + xw[2] * yw[0], xw[1] * yw[2] + xw[2] * yw[1],
        )  # fmt: skip

    @wp.func
    def point_velocity(m: spatial, point: vec3):
        """Velocity of the material point now at ``point`` of a body that moves with m."""
        return linear(m) + wp.cross(angular(m), point)

    return SimpleNamespace(
        join=join,
        angular=angular,
        linear=linear,
        cross_motion=cross_motion,
        cross_force=cross_force,
        first_moment=first_moment,
        rotational=rotational,
        apply_inertia=apply_inertia,
        inertia_quadratic=inertia_quadratic,
        point_velocity=point_velocity,
    )
