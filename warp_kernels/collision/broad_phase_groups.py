"""Broad phase for the worlds of a lane group, like :mod:`warp_kernels.collision.broad_phase` for one."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.broad_phase import WORD, bounding_functions, position_rounding
from warp_kernels.collision.structs import collision_structs
from warp_kernels.cpu.native import Native
from warp_kernels.types import CAPSULE, PLANE, kernel_module, lane_types, warp_types


@functools.cache
def broad_phase_group_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and number of worlds in a lane group; empty with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    t, one = lane_types(scalar, lanes), warp_types(scalar)
    real, vec3, transform, spatial = t.real, t.vec3, t.transform, t.spatial
    a, sp = algebra(scalar, lanes), spatial_functions(scalar, lanes)
    bounds = bounding_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    ints, vectors = wp.array(dtype=int), wp.array2d(dtype=vec3)
    module = kernel_module("collision.broad_phase_groups", scalar, lanes, headers=("collision/broad_phase_groups.h",))
    rounding = position_rounding(scalar)
    native = Native(scalar, lanes, "broad_phase_groups")

    @wp.func
    def length(v: vec3):
        square = a.dot(v, v)
        result = real()
        for n in range(wp.static(lanes)):
            result[n] = wp.sqrt(square[n])
        return result

    @native.func_native()
    def set_candidates(
        word: int,
        begin: int,
        end: int,
        group: int,
        pair_a: ints,
        pair_b: ints,
        type: ints,
        centre: vectors,
        ball: vectors,
        axis: vectors,
        candidate_bits: wp.array2d(dtype=wp.uint32),
    ):
        """Apply ``may_touch`` to the pairs of a word."""

    @wp.kernel(module=module, enable_backward=False)
    def bound_geometries(
        # Model
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        # Parameters
        geometry_placement: wp.array2d(dtype=one.transform),
        geometry_size: wp.array2d(dtype=one.vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        margin: scalar,
        dt: scalar,
        # Data out
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
    ):
        """Bound the geometries as for one world."""
        item, group = wp.tid()
        g = colliding[item]
        link = geometries.link[g]
        radius = real()
        axis_length = real()
        last = geometry_size.shape[0] - 1
        if last == 0:
            radius = a.real(bounds.ball_radius(geometries, g, geometry_size[0, g]))
            axis_length = a.real(bounds.axis_length(geometries.type[g], geometry_size[0, g]))
        else:
            for n in range(wp.static(lanes)):
                size = geometry_size[wp.min(group * lanes + n, last), g]
                radius[n] = bounds.ball_radius(geometries, g, size)
                axis_length[n] = bounds.axis_length(geometries.type[g], size)
        placement = a.load_param_transform(geometry_placement, group, g)
        centre = a.position(placement)
        axes = a.rotation(placement)
        moved = a.real(scalar(0.0))
        turn = a.real(scalar(0.0))
        if link >= 0:
            own = pose[link, group]
            centre = a.position(own) + a.rotate(a.rotation(own), centre)
            if dt > scalar(0.0):
                v = velocity[link, group]
                moved = dt * length(sp.point_velocity(v, centre))
                turn = dt * length(sp.angular(v))
            centre += origin[geometries.link_tree[link], group]
        known = real()
        for n in range(wp.static(lanes)):
            known[n] = wp.max(radius[n], scalar(0.0))
        expanded = known + a.mul(known, turn) + moved + a.real(scalar(0.5) * margin) + rounding * length(centre)
        geometry_centre[g, group] = centre
        geometry_ball[g, group] = a.make_vec3(expanded, radius, turn)
        axis = vec3()
        if geometries.type[g] == CAPSULE or geometries.type[g] == PLANE:
            axes = a.unit(axes)
            if link >= 0:
                axes = a.product(a.rotation(pose[link, group]), axes)
            none = a.real(scalar(0.0))
            axis = a.rotate(axes, a.make_vec3(none, none, axis_length))
        geometry_axis[g, group] = axis

    @wp.kernel(module=module, enable_backward=False)
    def find_candidates(
        # Model
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometries: Geometries,
        # Data in
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
        # Data out
        candidate_bits: wp.array2d(dtype=wp.uint32),
    ):
        """Set the bits of the pairs of one word in each world."""
        word, group = wp.tid()
        first = word * WORD
        set_candidates(
            word, first, wp.min(first + WORD, pair_a.shape[0]), group, pair_a, pair_b, geometries.type, geometry_centre,
            geometry_ball, geometry_axis, candidate_bits,
        )  # fmt: skip

    return SimpleNamespace(module=module, bound_geometries=bound_geometries, find_candidates=find_candidates)
