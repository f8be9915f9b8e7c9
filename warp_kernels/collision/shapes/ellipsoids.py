"""Contacts of ellipsoids with planes, spheres and lines.

An ellipsoid is the set of points with sum (x_i / r_i)^2 <= 1 for the semi-axes r. Against a plane its lowest point is
known in closed form. A sphere touches it at the point closest to the sphere's centre, the root of one equation (Eberly
2013, *Distance from a Point to an Ellipse, an Ellipsoid, or a Hyperellipsoid*); its gradient is that of the closest
point by the implicit function theorem, not that of the iteration. A line is as far as its point from the ellipse that
the ellipsoid shows along it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# A smaller semi-axis counts as this long in contacts with spheres [m].
LEAST_SEMI_AXIS = 1.0e-6
# Newton's method from below the root never overshoots it, so it ends once rounding stops it: five to eight iterations.
MAX_ITERATIONS = 40


@functools.cache
def ellipsoid_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Contact functions return (distance, point, normal from a to b)."""
    t = warp_types(scalar)
    vec2, vec3, transform = t.vec2, t.vec3, t.transform

    @wp.func
    def lowest_point(pose: transform, radii: vec3, normal: vec3):
        """Return the point of an ellipsoid farthest against a direction: -r^2 n / |r n| in the ellipsoid's axes."""
        q = wp.transform_get_rotation(pose)
        scaled = wp.cw_mul(radii, wp.quat_rotate_inv(q, normal))
        local = vec3()
        square = wp.dot(scaled, scaled)
        if square > scalar(0.0):
            local = wp.cw_mul(radii, scaled) / wp.sqrt(square)
        return wp.transform_get_translation(pose) - wp.quat_rotate(q, local)

    @wp.func
    def surface_share(y: scalar, excess: scalar, p: scalar):
        """Return the coordinate of the closest point over its semi-axis, from that of the query point over the
        semi-axis.
        """
        share = scalar(0.0)
        if y != scalar(0.0):
            share = y * (excess + scalar(1.0)) / (excess + p)
        return share

    @wp.func
    def closest_on_ellipsoid(y: vec3, r: vec3) -> vec3:
        """Return the point of the ellipsoid's surface closest to a point inside or outside, both in the ellipsoid's
        axes.

        It is x_i = r_i^2 y_i / (r_i^2 + t) with sum (x_i / r_i)^2 = 1. In units of the smallest semi-axis, with e_i =
        (r_i / least)^2 - 1 and p = 1 + t / least^2 > 0, no difference of nearly equal numbers is left. The largest p at
        which one term alone is 1 lies below the root, where the sum is convex and falls. Of the two closest points to a
        point on the disc across the smallest axis, that on the positive side.
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
        # On that disc p = 0, and the remainder of the sum belongs to the smallest axis.
        rest = scalar(1.0) - total
        for i in range(3):
            if p == scalar(0.0) and e[i] == scalar(0.0) and rest > scalar(0.0):
                share[i] = wp.sqrt(rest)
                rest = scalar(0.0)
        return wp.cw_mul(r, share)

    @wp.func_grad(closest_on_ellipsoid)
    def adjoint_closest_on_ellipsoid(y: vec3, r: vec3, x_bar: vec3):
        """Compute the adjoint by the implicit function theorem.

        With w = 1 / r^2, u = w x, D = diag(1 + t w) the closest point obeys x + t u = y, x . u = 1, so that

            [D u; u^T 0] [dx; dt] = [dy - t x dw; -x^2 . dw / 2],

        and (z, m) solves the same symmetric system with the right-hand side (x_bar, 0): y_bar = z, w_bar = -t x z - x^2
        m / 2. Cleared of the divisions by D, which has a zero where p is zero.
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
    def principal_axis(p: vec3):
        """Return the unit vector along the longer axis of the ellipse x^T P^-1 x = 1 with P = [p0 p1; p1 p2]."""
        half = scalar(0.5) * (p[0] - p[2])
        angle = scalar(0.5) * wp.atan2(p[1], half)
        return vec2(wp.cos(angle), wp.sin(angle))

    @wp.func
    def closest_on_ellipse(y: vec2, p: vec3) -> vec2:
        """Return the point of the ellipse x^T P^-1 x = 1, with P = [p0 p1; p1 p2], closest to a point inside or
        outside.
        """
        axis = principal_axis(p)
        beside = vec2(-axis[1], axis[0])
        long = wp.sqrt(p[0] * axis[0] * axis[0] + scalar(2.0) * p[1] * axis[0] * axis[1] + p[2] * axis[1] * axis[1])
        short = wp.sqrt(wp.abs(p[0] * p[2] - p[1] * p[1])) / long
        # As an ellipsoid's closest point in a plane of symmetry.
        x = closest_on_ellipsoid(vec3(wp.dot(y, axis), wp.dot(y, beside), scalar(0.0)), vec3(long, short, long))
        return x[0] * axis + x[1] * beside

    @wp.func_grad(closest_on_ellipse)
    def adjoint_closest_on_ellipse(y: vec2, p: vec3, x_bar: vec2):
        """Compute the adjoint by the implicit function theorem, without the axes, which a circle doesn't have.

        As for the ellipsoid with u = P^-1 x and D = 1 + t P^-1. Here z lies across u, and P^-1 has the adjoint -t x z^T
        - m x x^T / 2, so P that of t (P^-1 z) u^T + m u u^T / 2.
        """
        x = closest_on_ellipse(y, p)
        determinant = p[0] * p[2] - p[1] * p[1]
        u = vec2(p[2] * x[0] - p[1] * x[1], p[0] * x[1] - p[1] * x[0]) / determinant
        offset = wp.dot(y - x, u) / wp.dot(u, u)
        across = vec2(-u[1], u[0])
        bent = vec2(p[2] * across[0] - p[1] * across[1], p[0] * across[1] - p[1] * across[0]) / determinant
        stiffness = wp.dot(across, across) + offset * wp.dot(across, bent)
        if stiffness > scalar(1.0e-12) * wp.dot(across, across):
            k = wp.dot(across, x_bar) / stiffness
            m = (wp.dot(u, x_bar) - offset * k * wp.dot(u, bent)) / wp.dot(u, u)
            q = offset * k * bent
            wp.adjoint[y] += k * across
            wp.adjoint[p] += vec3(
                q[0] * u[0] + scalar(0.5) * m * u[0] * u[0],
                q[0] * u[1] + q[1] * u[0] + m * u[0] * u[1],
                q[1] * u[1] + scalar(0.5) * m * u[1] * u[1],
            )

    @wp.func
    def least_radii(size: vec3):
        least = vec3(scalar(LEAST_SEMI_AXIS), scalar(LEAST_SEMI_AXIS), scalar(LEAST_SEMI_AXIS))
        return wp.max(size, least)

    @wp.func
    def point_ellipsoid(point: vec3, pose: transform, size: vec3):
        """Return the signed distance of a point and the unit normal from the ellipsoid to it.

        One formula outside and inside: the point lies on the normal through the closest point.
        """
        q = wp.transform_get_rotation(pose)
        radii = least_radii(size)
        local = wp.quat_rotate_inv(q, point - wp.transform_get_translation(pose))
        closest = closest_on_ellipsoid(local, radii)
        outward = wp.normalize(wp.cw_div(wp.cw_div(closest, radii), radii))
        return wp.dot(local - closest, outward), wp.quat_rotate(q, outward)

    @wp.func
    def line_ellipsoid(start: vec3, direction: vec3, side: vec3, pose: transform, size: vec3):
        """Return the signed distance of a line and the unit normal from the ellipsoid to it; both unit vectors, side
        across it.
        """
        q = wp.transform_get_rotation(pose)
        radii = least_radii(size)
        above = wp.cross(direction, side)
        u = wp.cw_mul(radii, wp.quat_rotate_inv(q, side))
        v = wp.cw_mul(radii, wp.quat_rotate_inv(q, above))
        p = vec3(wp.dot(u, u), wp.dot(u, v), wp.dot(v, v))
        delta = start - wp.transform_get_translation(pose)
        y = vec2(wp.dot(delta, side), wp.dot(delta, above))
        x = closest_on_ellipse(y, p)
        outward = wp.normalize(vec2(p[2] * x[0] - p[1] * x[1], p[0] * x[1] - p[1] * x[0]))
        return wp.dot(y - x, outward), outward[0] * side + outward[1] * above

    @wp.func
    def sphere_ellipsoid(pose_a: transform, radius: scalar, pose_b: transform, size_b: vec3):
        centre = wp.transform_get_translation(pose_a)
        gap, outward = point_ellipsoid(centre, pose_b, size_b)
        distance = gap - radius
        return distance, centre - (radius + scalar(0.5) * distance) * outward, -outward

    return SimpleNamespace(
        lowest_point=lowest_point,
        point_ellipsoid=point_ellipsoid,
        line_ellipsoid=line_ellipsoid,
        sphere_ellipsoid=sphere_ellipsoid,
    )
