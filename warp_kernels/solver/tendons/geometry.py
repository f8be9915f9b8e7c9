"""Lengths of tendons and their Jacobians; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import TendonWraps
from warp_kernels.solver.tendons.wrapping import STRAIGHT
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def tendon_geometry_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    t = warp_types(scalar)
    sp, common = spatial_functions(scalar), row_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("tendon_geometry", scalar, inlined=True)
    zero = scalar(0.0)

    @wp.func
    def point_rate(
        point: int,
        dof: int,
        world: int,
        point_moves: wp.array2d(dtype=int),
        point_position: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
    ):
        """Return the velocity of a point per rate of a degree of freedom."""
        rate = vec3()
        if point_moves[point, dof] == 1:
            rate = sp.point_velocity(subspace[dof, world], point_position[point, world])
        return rate

    @wp.func
    def held_point(point: int, num_points: int, wraps: TendonWraps, wrap_winding: wp.array2d(dtype=int), world: int):
        """Return a point, or the point after the wrap on which it would be, if the tendon passes the wrap without
        touching.
        """
        if point >= num_points:
            wrap = (point - num_points) // 2
            if wrap_winding[wrap, world] == STRAIGHT:
                return wraps.ends[2 * wrap + 1]
        return point

    @wp.kernel(module=module)
    def tendon_points(
        # Model
        point_link: wp.array(dtype=int),
        # Parameters
        tendon_point: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        # Data out
        point_position: wp.array2d(dtype=vec3),
    ):
        """Compute points of tendons, over (point, world): relative to the origin of its link's tree; for the world, in
        the world.

        Wrap points come after these, found by :mod:`warp_kernels.solver.tendons.wrapping`.
        """
        point, world = wp.tid()
        link = point_link[point]
        position = tendon_point[wp.min(world, tendon_point.shape[0] - 1), point]
        if link >= 0:
            position = wp.transform_point(pose[link, world], position)
        point_position[point, world] = position

    @wp.kernel(module=module)
    def tendon_segments(
        # Model
        path_link: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        segment_ends: wp.array(dtype=int),
        segment_wrap: wp.array(dtype=int),
        segment_share: wp.array(dtype=scalar),
        # Data in
        origin: wp.array2d(dtype=vec3),
        point_position: wp.array2d(dtype=vec3),
        wrap_arc: wp.array2d(dtype=scalar),
        # Data out
        segment_length: wp.array2d(dtype=scalar),
        segment_pull: wp.array2d(dtype=vec3),
    ):
        """Compute each segment's length, and its derivative in its second point, over (segment, world).

        Coincident points have no direction between them, and no gradient. A segment on a wrap has only a length: as the
        shortest path, its ends change the total length only along their tangents.
        """
        segment, world = wp.tid()
        first = segment_ends[2 * segment]
        last = segment_ends[2 * segment + 1]
        wrap = segment_wrap[segment]
        tree_a = int(-1)
        tree_b = int(-1)
        if path_link[first] >= 0:
            tree_a = link_tree[path_link[first]]
        if path_link[last] >= 0:
            tree_b = link_tree[path_link[last]]
        apart = point_position[last, world] - point_position[first, world]
        if tree_a != tree_b:
            if tree_a >= 0:
                apart -= origin[tree_a, world]
            if tree_b >= 0:
                apart += origin[tree_b, world]
        square = wp.dot(apart, apart)
        length = zero
        pull = vec3()
        if wrap >= 0:
            length = wrap_arc[wrap, world]
        elif square > zero:
            length = wp.sqrt(square)
            pull = (segment_share[segment] / length) * apart
        segment_length[segment, world] = segment_share[segment] * length
        segment_pull[segment, world] = pull

    @wp.kernel(module=module)
    def tendon_lengths(
        # Model
        dof_q: wp.array(dtype=int),
        term_start: wp.array(dtype=int),
        term_dof: wp.array(dtype=int),
        segment_start: wp.array(dtype=int),
        # Parameters
        tendon_coefficient: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        segment_length: wp.array2d(dtype=scalar),
        # Data out
        tendon_length: wp.array2d(dtype=scalar),
    ):
        """Sum the lengths of tendons, over (tendon, world). Adds to zeroed arrays."""
        tendon, world = wp.tid()
        for term in range(term_start[tendon], term_start[tendon + 1]):
            coefficient = common.value_of(tendon_coefficient, world, term)
            tendon_length[tendon, world] += coefficient * q[world, dof_q[term_dof[term]]]
        for segment in range(segment_start[tendon], segment_start[tendon + 1]):
            tendon_length[tendon, world] += segment_length[segment, world]

    @wp.kernel(module=module)
    def term_slopes(
        # Model
        term_start: wp.array(dtype=int),
        term_dof: wp.array(dtype=int),
        # Parameters
        tendon_coefficient: wp.array2d(dtype=scalar),
        # Data out
        tendon_slope: wp.array3d(dtype=scalar),
    ):
        """Compute the Jacobian of joint terms, over (tendon, world). Adds to zeroed arrays."""
        tendon, world = wp.tid()
        for term in range(term_start[tendon], term_start[tendon + 1]):
            tendon_slope[tendon, term_dof[term], world] += common.value_of(tendon_coefficient, world, term)

    @wp.kernel(module=module)
    def segment_slopes(
        # Model
        num_points: int,
        wraps: TendonWraps,
        segment_start: wp.array(dtype=int),
        segment_ends: wp.array(dtype=int),
        point_moves: wp.array2d(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        point_position: wp.array2d(dtype=vec3),
        segment_pull: wp.array2d(dtype=vec3),
        wrap_winding: wp.array2d(dtype=int),
        # Data out
        tendon_slope: wp.array3d(dtype=scalar),
    ):
        """Add the Jacobian of segments, over (tendon, dof, world).

        A degree of freedom that moves both ends of a segment leaves its length unchanged: the entry is exactly zero
        then, without rounding. The same holds if it moves a wrap that the tendon passes, and neither of the points
        before and after.
        """
        tendon, dof, world = wp.tid()
        for segment in range(segment_start[tendon], segment_start[tendon + 1]):
            first = held_point(segment_ends[2 * segment], num_points, wraps, wrap_winding, world)
            last = held_point(segment_ends[2 * segment + 1], num_points, wraps, wrap_winding, world)
            if point_moves[first, dof] != point_moves[last, dof]:
                rate = point_rate(last, dof, world, point_moves, point_position, subspace)
                rate -= point_rate(first, dof, world, point_moves, point_position, subspace)
                tendon_slope[tendon, dof, world] += wp.dot(segment_pull[segment, world], rate)

    return SimpleNamespace(
        module=module,
        tendon_points=tendon_points,
        tendon_segments=tendon_segments,
        tendon_lengths=tendon_lengths,
        term_slopes=term_slopes,
        segment_slopes=segment_slopes,
    )
