"""Contacts of ellipsoids with planes and spheres.

An ellipsoid is the set of points with sum (x_i / r_i)^2 <= 1 for the semi-axes r. Against a plane its lowest point is known in
closed form. A sphere touches it at the point closest to the sphere's centre, the root of one equation (Eberly 2013,
*Distance from a Point to an Ellipse, an Ellipsoid, or a Hyperellipsoid*); its gradient is that of the closest point by
the implicit function theorem, not that of the iteration.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# A semi-axis below this counts as this long where a sphere touches [m].
LEAST_SEMI_AXIS = 1.0e-6
# Newton's method from below the root never passes it, so it ends once rounding stops it: five to eight iterations.
MAX_ITERATIONS = 40


@functools.cache
def ellipsoid_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. Contact functions return (distance, point, normal from a to b)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform

    @wp.func
    def lowest_point(pose: transform, radii: vec3, normal: vec3):
        """The point of an ellipsoid farthest against a direction: -r^2 n / |r n| in the ellipsoid's axes."""
        q = wp.transform_get_rotation(pose)
        scaled = wp.cw_mul(radii, wp.quat_rotate_inv(q, normal))
        local = vec3()
        square = wp.dot(scaled, scaled)
        if square > scalar(0.0):
            local = wp.cw_mul(radii, scaled) / wp.sqrt(square)
        return wp.transform_get_translation(pose) - wp.quat_rotate(q, local)

    @wp.func
    def surface_share(y: scalar, excess: scalar, p: scalar):
        """Coordinate of the closest point over its semi-axis, from that of the place over the semi-axis."""
        share = scalar(0.0)
        if y != scalar(0.0):
            share = y * (excess + scalar(1.0)) / (excess + p)
        return share

    @wp.func
    def closest_on_ellipsoid(y: vec3, r: vec3) -> vec3:
        """The point of the ellipsoid's surface closest to a place inside or outside, both in the ellipsoid's axes.

        It is x_i = r_i^2 y_i / (r_i^2 + t) with sum (x_i / r_i)^2 = 1. In units of the least semi-axis, with
        e_i = (r_i / least)^2 - 1 and p = 1 + t / least^2 > 0, no difference of nearly equal numbers is left. The largest p at
        which one term alone is 1 lies below the root, where the sum is convex and falls.
        Of the two closest points to a place on the disc across the least axis, that on the positive side.
        """
        least = wp.min(r[0], wp.min(r[1], r[2]))
        e = vec3()
        z = vec3()
        p = scalar(0.0)
        for i in range(3):
            ratio = r[i] / least
            e[i] = (ratio - scalar(1.0)) * (ratio + scalar(1.0))
            z[i] = y[i] / r[i]
            p = wp.max(p, wp.abs(z[i]) * (e[i] + scalar(1.0)) - e[i])
        share = vec3()
        total = scalar(0.0)
        for _ in range(MAX_ITERATIONS):
            total = scalar(0.0)
            slope = scalar(0.0)
            for i in range(3):
                share[i] = surface_share(z[i], e[i], p)
                total += share[i] * share[i]
                if share[i] != scalar(0.0):
                    slope += share[i] * share[i] / (e[i] + p)
            following = p
            if total > scalar(1.0):
                following = p + scalar(0.5) * (total - scalar(1.0)) / slope
            if following <= p:
                break
            p = following
        # On that disc p = 0, and what the others leave of the sum belongs to the least axis.
        rest = scalar(1.0) - total
        for i in range(3):
            if p == scalar(0.0) and e[i] == scalar(0.0) and rest > scalar(0.0):
                share[i] = wp.sqrt(rest)
                rest = scalar(0.0)
        return wp.cw_mul(r, share)

    @wp.func_grad(closest_on_ellipsoid)
    def adjoint_closest_on_ellipsoid(y: vec3, r: vec3, x_bar: vec3):
        """Adjoint by the implicit function theorem.

        With w = 1 / r^2, u = w x, D = diag(1 + t w) the closest point obeys x + t u = y, x . u = 1, so that

            [D u; u^T 0] [dx; dt] = [dy - t x dw; -x^2 . dw / 2],

        and (z, m) solves the same symmetric system with the right-hand side (x_bar, 0): y_bar = z,
        w_bar = -t x z - x^2 m / 2. Cleared of the divisions by D, which has a zero where p is zero.
        """
        x = closest_on_ellipsoid(y, r)
        w = vec3(scalar(1.0) / (r[0] * r[0]), scalar(1.0) / (r[1] * r[1]), scalar(1.0) / (r[2] * r[2]))
        u = wp.cw_mul(w, x)
        offset = wp.dot(y - x, u) / wp.dot(u, u)
        d = vec3(scalar(1.0), scalar(1.0), scalar(1.0)) + offset * w
        minors = vec3(d[1] * d[2], d[2] * d[0], d[0] * d[1])
        determinant = wp.dot(wp.cw_mul(u, u), minors)
        # At the centre of curvature, such as that of a ball, the closest point has no derivative.
        if determinant > scalar(1.0e-12) * wp.dot(u, u):
            c = wp.cross(u, x_bar)
            m = wp.dot(wp.cw_mul(u, x_bar), minors) / determinant
            z = wp.cross(wp.cw_mul(d, c), u) / determinant
            wp.adjoint[y] += z
            w_bar = -offset * wp.cw_mul(x, z) - scalar(0.5) * m * wp.cw_mul(x, x)
            wp.adjoint[r] += scalar(-2.0) * vec3(w_bar[0] * w[0] / r[0], w_bar[1] * w[1] / r[1], w_bar[2] * w[2] / r[2])

    @wp.func
    def sphere_ellipsoid(pose_a: transform, radius: scalar, pose_b: transform, size_b: vec3):
        """One formula outside and inside: the centre lies on the normal through the closest point."""
        centre = wp.transform_get_translation(pose_a)
        q = wp.transform_get_rotation(pose_b)
        least = vec3(scalar(LEAST_SEMI_AXIS), scalar(LEAST_SEMI_AXIS), scalar(LEAST_SEMI_AXIS))
        radii = wp.max(size_b, least)
        local = wp.quat_rotate_inv(q, centre - wp.transform_get_translation(pose_b))
        closest = closest_on_ellipsoid(local, radii)
        outward = wp.normalize(wp.cw_div(wp.cw_div(closest, radii), radii))
        distance = wp.dot(local - closest, outward) - radius
        normal = -wp.quat_rotate(q, outward)
        point = centre + (radius + scalar(0.5) * distance) * normal
        return distance, point, normal

    return SimpleNamespace(lowest_point=lowest_point, sphere_ellipsoid=sphere_ellipsoid)
