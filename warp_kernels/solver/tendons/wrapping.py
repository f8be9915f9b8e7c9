"""Tangent points of tendons on the spheres and cylinders that they wrap around, by the method of MuJoCo's ``mju_wrap``.

The choice of path, and the root of the equation for a tendon kept inside, are found without gradients
(``choose_windings``). Warp's own adjoint differentiates a closed form for that path (``touch_wraps``); a step of Newton's
method from the root has the root's own derivative.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import TendonWraps
from warp_kernels.types import kernel_module, warp_types

# Paths of a tendon: straight, around the circle in either sense, or to one point of it from within.
STRAIGHT, CLOCKWISE, COUNTER_CLOCKWISE, INSIDE = range(4)
# A tendon without a side site, see wrap_side_link.
ANY_SIDE = -2
# Steps of the root search: Newton's method, or bisection if that leaves the interval.
SEARCH_STEPS = 60


@functools.cache
def wrapping_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, over (wrap, world)."""
    t = warp_types(scalar)
    common = row_functions(scalar)
    vec2, vec3, transform = t.vec2, t.vec3, t.transform
    module = kernel_module("tendon_wrapping", scalar, inlined=True)
    zero, half, one, two = scalar(0.0), scalar(0.5), scalar(1.0), scalar(2.0)
    tiny = scalar(1e-15)
    # Two directions this close to collinear define no plane.
    aligned = scalar(1e-12 if scalar is wp.float64 else 1e-6)

    @wp.func
    def from_tree(link: int, other: int, link_tree: wp.array(dtype=int), origin: wp.array2d(dtype=vec3), world: int):
        """Return the offset from positions relative to the tree of one link to those relative to another's; -1 is the
        world.
        """
        shift = vec3()
        tree = int(-1)
        other_tree = int(-1)
        if link >= 0:
            tree = link_tree[link]
        if other >= 0:
            other_tree = link_tree[other]
        if tree != other_tree:
            if tree >= 0:
                shift += origin[tree, world]
            if other_tree >= 0:
                shift -= origin[other_tree, world]
        return shift

    @wp.func
    def across(a: vec3):
        """Return a unit direction perpendicular to another."""
        axis = vec3(one, zero, zero)
        if wp.abs(a[0]) > wp.abs(a[1]):
            axis = vec3(zero, one, zero)
        return wp.normalize(wp.cross(a, axis))

    @wp.func
    def in_plane(point: vec3, normal: vec3, is_cylinder: int):
        """Return a point in the plane of the circle; for a sphere that plane contains both ends anyway."""
        flat = point
        if is_cylinder == 1:
            flat = point - wp.dot(normal, point) * normal
        return flat

    @wp.kernel(module=module)
    def locate_wraps(
        # Model
        wraps: TendonWraps,
        link_tree: wp.array(dtype=int),
        point_link: wp.array(dtype=int),
        # Parameters
        tendon_wrap_centre: wp.array2d(dtype=vec3),
        tendon_wrap_axis: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        point_position: wp.array2d(dtype=vec3),
        # Data out
        wrap_centre: wp.array2d(dtype=vec3),
        wrap_first: wp.array2d(dtype=vec3),
        wrap_last: wp.array2d(dtype=vec3),
        wrap_normal: wp.array2d(dtype=vec3),
    ):
        """Return the centre, relative to the origin of its link's tree; both ends relative to it; the normal of the
        circle's plane.
        """
        wrap, world = wp.tid()
        link = wraps.link[wrap]
        centre = tendon_wrap_centre[wp.min(world, tendon_wrap_centre.shape[0] - 1), wrap]
        axis = tendon_wrap_axis[wp.min(world, tendon_wrap_axis.shape[0] - 1), wrap]
        if link >= 0:
            centre = wp.transform_point(pose[link, world], centre)
            axis = wp.transform_vector(pose[link, world], axis)
        begin = wraps.ends[2 * wrap]
        end = wraps.ends[2 * wrap + 1]
        first = point_position[begin, world] + from_tree(point_link[begin], link, link_tree, origin, world) - centre
        last = point_position[end, world] + from_tree(point_link[end], link, link_tree, origin, world) - centre
        if wraps.is_cylinder[wrap] == 1:
            normal = wp.normalize(axis)
        else:
            turned = wp.cross(first, last)
            square = wp.dot(turned, turned)
            if square > aligned * aligned * wp.dot(first, first) * wp.dot(last, last):
                normal = turned / wp.sqrt(square)
            else:
                normal = across(first)
        wrap_centre[wrap, world] = centre
        wrap_first[wrap, world] = first
        wrap_last[wrap, world] = last
        wrap_normal[wrap, world] = normal

    @wp.func
    def cross2(a: vec2, b: vec2):
        return a[0] * b[1] - a[1] * b[0]

    @wp.func
    def meet(a: vec2, b: vec2, c: vec2, d: vec2):
        """Return whether the segments from a to b and from c to d intersect."""
        divisor = cross2(b - a, d - c)
        if wp.abs(divisor) < tiny:
            return False
        one_share = cross2(d - c, a - c) / divisor
        other_share = cross2(b - a, a - c) / divisor
        return one_share >= zero and one_share <= one and other_share >= zero and other_share <= one

    @wp.func
    def tangent_point(point: vec2, sense: scalar, radius: scalar):
        """Return the tangent point on the circle of the line from a point, in one sense or the other."""
        square = wp.dot(point, point)
        tangent = sense * radius * wp.sqrt(wp.max(square - radius * radius, zero))
        return (radius * radius * point + tangent * vec2(-point[1], point[0])) / square

    @wp.func
    def passes_beyond(first: vec2, last: vec2, side: vec2):
        """Return whether the segment between two points intersects the ray from the centre away from a side."""
        turn = cross2(first, last)
        return cross2(side, first) * turn > zero and cross2(last, side) * turn > zero

    @wp.func
    def winding_around(first: vec2, last: vec2, side: vec2, has_side: bool, radius: scalar):
        """Choose straight, or a sense around the circle: the longer one for a side beyond it, the shorter one
        otherwise.
        """
        apart = last - first
        square = wp.dot(apart, apart)
        if wp.min(wp.length(first), wp.length(last)) < radius or square < tiny:
            return STRAIGHT
        nearest = first + wp.clamp(-wp.dot(apart, first) / square, zero, one) * apart
        beyond = has_side and passes_beyond(first, last, side)
        if wp.length(nearest) > radius and not beyond:
            return STRAIGHT
        best = scalar(-wp.inf)
        winding = STRAIGHT
        for k in range(2):
            sense = scalar(1 - 2 * k)
            on = tangent_point(first, -sense, radius)
            off = tangent_point(last, sense, radius)
            good = -wp.dot(on - off, on - off)
            if beyond:
                good = sense * cross2(first, last)
            if good >= best and not meet(first, on, last, off):
                best = good
                winding = CLOCKWISE + k
        return winding

    @wp.func
    def gap(z: scalar, one_ratio: scalar, other_ratio: scalar, between: scalar):
        """Return zero if incoming and outgoing angles at a point of the circle are equal; z is the sine of the angle to
        the normal there.
        """
        return wp.asin(one_ratio * z) + wp.asin(other_ratio * z) - two * wp.asin(z) + between

    @wp.func
    def gap_slope(z: scalar, one_ratio: scalar, other_ratio: scalar):
        """Return the derivative of :func:`gap` in z."""
        a = one_ratio * z
        b = other_ratio * z
        first = one_ratio / wp.sqrt(wp.max(one - a * a, tiny))
        last = other_ratio / wp.sqrt(wp.max(one - b * b, tiny))
        return first + last - two / wp.sqrt(wp.max(one - z * z, tiny))

    @wp.func
    def root_inside(one_ratio: scalar, other_ratio: scalar, between: scalar):
        """Find the root with Newton's method from the right for a non-negative angle, kept in the interval that
        contains the root.
        """
        low = scalar(0.0)
        high = scalar(1.0)
        z = scalar(1.0 - 1e-7)
        for _ in range(SEARCH_STEPS):
            value = gap(z, one_ratio, other_ratio, between)
            if value > zero:
                low = z
            else:
                high = z
            step = value / gap_slope(z, one_ratio, other_ratio)
            next = z - step
            if not (next > low and next < high):
                next = half * (low + high)
            if next == z:
                break
            z = next
        return z

    @wp.func
    def passes_inside(first: vec2, last: vec2, radius: scalar):
        """Return whether the circle constrains a tendon that must stay inside."""
        if wp.min(wp.length(first), wp.length(last)) <= radius:
            return False
        apart = last - first
        square = wp.dot(apart, apart)
        if square > tiny:
            share = -wp.dot(apart, first) / square
            if share > zero and share < one and wp.length(first + share * apart) <= radius:
                return False
        return True

    @wp.kernel(module=module, enable_backward=False)
    def choose_windings(
        # Model
        wraps: TendonWraps,
        wrap_side: wp.array(dtype=vec3),
        link_tree: wp.array(dtype=int),
        # Parameters
        tendon_wrap_radius: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        wrap_centre: wp.array2d(dtype=vec3),
        wrap_first: wp.array2d(dtype=vec3),
        wrap_last: wp.array2d(dtype=vec3),
        wrap_normal: wp.array2d(dtype=vec3),
        # Data out
        wrap_winding: wp.array2d(dtype=int),
        wrap_root: wp.array2d(dtype=scalar),
    ):
        """Choose the tendon's path, and for one inside the sine of its angle to the circle's normal."""
        wrap, world = wp.tid()
        radius = common.value_of(tendon_wrap_radius, world, wrap)
        normal = wrap_normal[wrap, world]
        start = wrap_first[wrap, world]
        x = wp.normalize(in_plane(start, normal, wraps.is_cylinder[wrap]))
        y = wp.cross(normal, x)
        end = wrap_last[wrap, world]
        first = vec2(wp.dot(x, start), zero)
        last = vec2(wp.dot(x, end), wp.dot(y, end))
        link = wraps.side_link[wrap]
        has_side = link != ANY_SIDE
        beside = vec3()
        if has_side:
            beside = wrap_side[wrap]
            if link >= 0:
                beside = wp.transform_point(pose[link, world], beside)
            beside += from_tree(link, wraps.link[wrap], link_tree, origin, world) - wrap_centre[wrap, world]
        winding = STRAIGHT
        root = zero
        if wp.min(wp.length(start), wp.length(end)) >= tiny and wp.length(first) >= tiny:
            if has_side and wp.length(beside) < radius:
                if passes_inside(first, last, radius):
                    between = wp.atan2(last[1], last[0])
                    root = root_inside(radius / wp.length(first), radius / wp.length(last), wp.abs(between))
                    if between < zero:
                        root = -root
                    winding = INSIDE
            else:
                winding = winding_around(
                    first, last, wp.normalize(vec2(wp.dot(x, beside), wp.dot(y, beside))), has_side, radius
                )
        wrap_winding[wrap, world] = winding
        wrap_root[wrap, world] = root

    @wp.func
    def touch(point: vec3, normal: vec3, sense: scalar, radius: scalar):
        """Return the tangent point in 3-D, see tangent_point."""
        square = wp.dot(point, point)
        beyond = square - radius * radius
        tangent = zero
        if beyond > zero:
            tangent = sense * radius * wp.sqrt(beyond)
        return (radius * radius * point + tangent * wp.cross(normal, point)) / square

    @wp.func
    def touch_inside(first: vec3, last: vec3, normal: vec3, root: scalar, radius: scalar):
        """Return the one point that a tendon inside touches."""
        one_ratio = radius / wp.length(first)
        other_ratio = radius / wp.length(last)
        between = wp.atan2(wp.dot(normal, wp.cross(first, last)), wp.dot(first, last))
        step = gap(root, one_ratio, other_ratio, between) / gap_slope(root, one_ratio, other_ratio)
        z = root - step
        angle = wp.asin(z) - wp.asin(one_ratio * z)
        return one_ratio * (wp.cos(angle) * first + wp.sin(angle) * wp.cross(normal, first))

    @wp.func
    def turned_angle(on: vec3, off: vec3, normal: vec3, sense: scalar):
        """Return the angle between two points of the circle in one sense, from 0 to 2 pi."""
        angle = wp.atan2(-sense * wp.dot(normal, wp.cross(on, off)), wp.dot(on, off))
        if angle < zero:
            angle += scalar(2.0 * wp.pi)
        return angle

    @wp.kernel(module=module)
    def touch_wraps(
        # Model
        wraps: TendonWraps,
        num_points: int,
        # Parameters
        tendon_wrap_radius: wp.array2d(dtype=scalar),
        # Data in
        wrap_centre: wp.array2d(dtype=vec3),
        wrap_first: wp.array2d(dtype=vec3),
        wrap_last: wp.array2d(dtype=vec3),
        wrap_normal: wp.array2d(dtype=vec3),
        wrap_winding: wp.array2d(dtype=int),
        wrap_root: wp.array2d(dtype=scalar),
        # Data out
        point_position: wp.array2d(dtype=vec3),
        wrap_arc: wp.array2d(dtype=scalar),
    ):
        """Compute both tangent points, and the length between them. A straight tendon has both midway between its
        ends.
        """
        wrap, world = wp.tid()
        radius = common.value_of(tendon_wrap_radius, world, wrap)
        centre = wrap_centre[wrap, world]
        normal = wrap_normal[wrap, world]
        first = wrap_first[wrap, world]
        last = wrap_last[wrap, world]
        winding = wrap_winding[wrap, world]
        is_cylinder = wraps.is_cylinder[wrap]
        if winding == STRAIGHT:
            middle = centre + half * (first + last)
            point_position[num_points + 2 * wrap, world] = middle
            point_position[num_points + 2 * wrap + 1, world] = middle
            wrap_arc[wrap, world] = zero
        else:
            flat_first = in_plane(first, normal, is_cylinder)
            flat_last = in_plane(last, normal, is_cylinder)
            on = vec3()
            off = vec3()
            arc = zero
            if winding == INSIDE:
                on = touch_inside(flat_first, flat_last, normal, wrap_root[wrap, world], radius)
                off = on
            else:
                sense = one
                if winding == COUNTER_CLOCKWISE:
                    sense = -one
                on = touch(flat_first, normal, -sense, radius)
                off = touch(flat_last, normal, sense, radius)
                arc = radius * turned_angle(on, off, normal, sense)
            if is_cylinder == 1:
                # A straight line on the unrolled surface: height is proportional to arc length.
                before = wp.length(flat_first - on)
                behind = wp.length(flat_last - off)
                low = wp.dot(normal, first)
                rise = (wp.dot(normal, last) - low) / wp.max(before + arc + behind, tiny)
                on_high = low + rise * before
                off_high = low + rise * (before + arc)
                on += on_high * normal
                off += off_high * normal
                arc *= wp.sqrt(one + rise * rise)
            point_position[num_points + 2 * wrap, world] = centre + on
            point_position[num_points + 2 * wrap + 1, world] = centre + off
            wrap_arc[wrap, world] = arc

    return SimpleNamespace(
        module=module, locate_wraps=locate_wraps, choose_windings=choose_windings, touch_wraps=touch_wraps
    )
