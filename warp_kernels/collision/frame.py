"""Frames of contacts: reference origin of a pair, poses of its geometries, frame of a normal.

All lengths of a pair are relative to one reference near it, the origin of a tree, so that single precision keeps its
digits far from the world's origin.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import warp_types


def pole_basis() -> np.ndarray:
    """Return a right-handed basis, rows d, e1, e2, of which :func:`contact_frame` is the smallest rotation.

    Any field of tangents over the whole sphere of normals has a singularity. Duff et al. (2017, *Building an
    orthonormal basis, revisited*) have theirs on the whole equator, which contains the normals of walls and of adjacent
    balls; Frisvad (2012) has it at -z. Here it is the single normal -d, with d the direction farthest from all axes,
    face diagonals and body diagonals of the world frame (27.6 degrees from the nearest of them): it solves d . (0, 0,
    1) = d . (0, 1, 1) / sqrt(2) = d . (1, 1, 1) / sqrt(3). The tangents of the normal +z are x and y.
    """
    d = np.array([np.sqrt(3.0) - np.sqrt(2.0), np.sqrt(2.0) - 1.0, 1.0])
    d /= np.linalg.norm(d)
    z = np.array([0.0, 0.0, 1.0])
    tangents = [axis - (axis @ d) / (1.0 + z @ d) * (z + d) for axis in np.eye(3)[:2]]
    return np.stack([d, *tangents])


@functools.cache
def geometry_frame_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of references, poses and contact frames for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    pole, pole_t1, pole_t2 = (vec3(*row) for row in pole_basis())

    @wp.func
    def reference_tree(link_a: int, link_b: int, link_tree: wp.array(dtype=wp.int32)):
        """Return the tree whose origin a pair is relative to: that of b, or of a if b belongs to the world."""
        if link_b >= 0:
            return link_tree[link_b]
        return link_tree[link_a]

    @wp.func
    def origin_offset(
        link: int, reference: int, link_tree: wp.array(dtype=wp.int32), origin: wp.array2d(dtype=vec3), world: int
    ):
        """Return the origin of a link's poses, relative to the origin of the tree ``reference``.

        The lever arm of a contact about a link's own tree is its point minus this.
        """
        if link < 0:
            return -origin[reference, world]
        tree = link_tree[link]
        if tree == reference:
            return vec3()
        return origin[tree, world] - origin[reference, world]

    @wp.func
    def low_offset(
        link: int, reference: int, link_tree: wp.array(dtype=wp.int32), origin_low: wp.array2d(dtype=vec3), world: int
    ):
        """Return what rounding cuts off :func:`origin_offset`, if origins have low words. Add it to what is near the
        reference, never to a position far from it.
        """
        low = vec3()
        if origin_low.shape[0] > 0:
            if link < 0:
                low = -origin_low[reference, world]
            elif link_tree[link] != reference:
                low = origin_low[link_tree[link], world] - origin_low[reference, world]
        return low

    @wp.func
    def geometry_centre(
        geometry: int,
        link: int,
        geometry_placement: wp.array2d(dtype=transform),
        pose: wp.array2d(dtype=transform),
        world: int,
    ):
        """Return the origin of a geometry's frame, relative to the origin of its own tree."""
        placement = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), geometry]
        if link < 0:
            return wp.transform_get_translation(placement)
        return wp.transform_point(pose[link, world], wp.transform_get_translation(placement))

    @wp.func
    def geometry_orientation(
        geometry: int,
        link: int,
        geometry_placement: wp.array2d(dtype=transform),
        pose: wp.array2d(dtype=transform),
        world: int,
    ):
        """Return the orientation of a geometry's frame; the quaternion of its placement need not be of unit length."""
        placement = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), geometry]
        q = wp.normalize(wp.transform_get_rotation(placement))
        if link < 0:
            return q
        return wp.transform_get_rotation(pose[link, world]) * q

    @wp.func
    def geometry_pose(
        geometry: int,
        link: int,
        reference: int,
        link_tree: wp.array(dtype=wp.int32),
        geometry_placement: wp.array2d(dtype=transform),
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        world: int,
    ):
        """Return the pose of a geometry's frame, relative to the origin of the tree ``reference``."""
        return transform(
            geometry_centre(geometry, link, geometry_placement, pose, world)
            + origin_offset(link, reference, link_tree, origin, world),
            geometry_orientation(geometry, link, geometry_placement, pose, world),
        )

    @wp.func
    def closing_speed(
        link_a: int,
        link_b: int,
        from_a: vec3,
        from_b: vec3,
        radius: scalar,
        velocity: wp.array2d(dtype=spatial),
        world: int,
    ):
        """Return an upper bound on the rate at which a pair's distance shrinks [m/s].

        ``from_a`` and ``from_b`` are the centre of b relative to the origins of both trees, ``radius`` that of a ball
        around b; velocity: of the links, about the origins of their trees.
        """
        # Motion of b relative to a, at the centre of b.
        motion = sp.join(vec3(), vec3())
        if link_a >= 0:
            v = velocity[link_a, world]
            motion -= sp.join(sp.angular(v), sp.point_velocity(v, from_a))
        if link_b >= 0:
            v = velocity[link_b, world]
            motion += sp.join(sp.angular(v), sp.point_velocity(v, from_b))
        return wp.length(sp.linear(motion)) + wp.length(sp.angular(motion)) * radius

    @wp.func
    def cutoff(
        link_a: int,
        link_b: int,
        offset_a: vec3,
        offset_b: vec3,
        centre: vec3,
        radius: scalar,
        velocity: wp.array2d(dtype=spatial),
        margin: scalar,
        dt: scalar,
        world: int,
    ):
        """Return the distance below which a pair is in contact: the margin, and the distance by which it may close
        within dt.

        ``offset_a`` and ``offset_b`` are the origins of both links, ``centre`` is that of a ball of the radius around
        b.
        """
        return margin + dt * closing_speed(
            link_a, link_b, centre - offset_a, centre - offset_b, radius, velocity, world
        )

    @wp.func
    def step_motion(link: int, velocity: wp.array2d(dtype=spatial), dt: scalar, world: int):
        """Return the motion of a link within dt: rotation vector and displacement of the point at the origin of its
        tree.
        """
        if link < 0:
            return sp.join(vec3(), vec3())
        return dt * velocity[link, world]

    @wp.func
    def contact_frame(normal: vec3):
        """Return rows: the unit normal and two tangents, right-handed; see :func:`pole_basis`.

        The smallest rotation that maps d to the normal, which for vectors across d is the reflection in the plane
        across d + normal. Within 1e-3 rad of -d the basis (-d, e1, -e2) is turned instead.
        """
        side = scalar(1.0)
        if wp.length_sq(normal + pole) < scalar(1.0e-6):
            side = scalar(-1.0)
        h = normal + side * pole
        factor = scalar(2.0) / wp.dot(h, h)
        t1 = pole_t1 - (factor * wp.dot(pole_t1, h)) * h
        t2 = side * (pole_t2 - (factor * wp.dot(pole_t2, h)) * h)
        return wp.matrix_from_rows(normal, t1, t2)

    @wp.func
    def pyramid_frame(normal: vec3, along: vec3):
        """Return rows: the unit normal and two tangents as in MuJoCo, which its pyramids of friction follow.

        The first tangent is nearest to ``along``, if that has a direction, or to the y or z axis.
        """
        guide = along - wp.dot(normal, along) * normal
        if wp.length_sq(guide) < scalar(1.0e-12):
            axis = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
            if wp.abs(normal[1]) >= scalar(0.5):
                axis = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
            guide = axis - wp.dot(normal, axis) * normal
        first = wp.normalize(guide)
        return wp.matrix_from_rows(normal, first, wp.cross(normal, first))

    return SimpleNamespace(
        reference_tree=reference_tree,
        origin_offset=origin_offset,
        low_offset=low_offset,
        geometry_centre=geometry_centre,
        geometry_orientation=geometry_orientation,
        geometry_pose=geometry_pose,
        cutoff=cutoff,
        step_motion=step_motion,
        contact_frame=contact_frame,
        pyramid_frame=pyramid_frame,
    )
