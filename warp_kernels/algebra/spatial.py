"""Spatial (6-D) algebra in the common frame of a tree.

All spatial vectors are angular part first, in world-aligned axes, with the origin of the tree's root link as the
reference point (Featherstone 2014, chapter 2; MuJoCo uses the same idea with the subtree's centre of mass). No
transform is needed between links.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import lane_types


@functools.cache
def spatial_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions of spatial algebra for one precision and a number of worlds in a lane group."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia

    @wp.func
    def cross_motion(v: spatial, m: spatial):
        """Return v x m for motion vectors."""
        w = a.angular(v)
        return a.join(a.cross(w, a.angular(m)), a.cross(w, a.linear(m)) + a.cross(a.linear(v), a.angular(m)))

    @wp.func
    def cross_force(v: spatial, f: spatial):
        """Return v x* f for a motion and a force vector."""
        w = a.angular(v)
        return a.join(a.cross(w, a.angular(f)) + a.cross(a.linear(v), a.linear(f)), a.cross(w, a.linear(f)))

    @wp.func
    def first_moment(i: inertia10):
        return a.make_vec3(i[1], i[2], i[3])

    @wp.func
    def rotational(i: inertia10):
        return a.mat_rows(
            a.make_vec3(i[4], i[7], i[8]), a.make_vec3(i[7], i[5], i[9]), a.make_vec3(i[8], i[9], i[6])
        )  # fmt: skip

    @wp.func
    def apply_inertia(i: inertia10, m: spatial):
        """Return the spatial momentum I m."""
        w = a.angular(m)
        v = a.linear(m)
        h = first_moment(i)
        return a.join(a.mat_vec(rotational(i), w) + a.cross(h, v), a.scale(i[0], v) - a.cross(h, w))

    @wp.func
    def inertia_quadratic(x: spatial, y: spatial):
        """Return the derivative of x . (I y) in the ten entries of I."""
        xw = a.angular(x)
        xv = a.linear(x)
        yw = a.angular(y)
        yv = a.linear(y)
        return a.make_inertia(
            a.dot(xv, yv),
            a.cross(yv, xw) + a.cross(xv, yw),
            a.make_vec3(a.mul(xw[0], yw[0]), a.mul(xw[1], yw[1]), a.mul(xw[2], yw[2])),
            a.make_vec3(
                a.mul(xw[0], yw[1]) + a.mul(xw[1], yw[0]),
                a.mul(xw[0], yw[2]) + a.mul(xw[2], yw[0]),
                a.mul(xw[1], yw[2]) + a.mul(xw[2], yw[1]),
            ),
        )

    @wp.func
    def point_velocity(m: spatial, point: vec3):
        """Return the velocity of the material point now at ``point`` of a body with the spatial velocity m."""
        return a.linear(m) + a.cross(a.angular(m), point)

    return SimpleNamespace(
        join=a.join,
        angular=a.angular,
        linear=a.linear,
        cross_motion=cross_motion,
        cross_force=cross_force,
        first_moment=first_moment,
        rotational=rotational,
        apply_inertia=apply_inertia,
        inertia_quadratic=inertia_quadratic,
        point_velocity=point_velocity,
    )
