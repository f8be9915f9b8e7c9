"""Narrow phase of two boxes under MuJoCo's law, without gradient; their contacts are evaluated with other convex ones."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.broad_phase import bounding_functions, next_candidate
from warp_kernels.collision.convex.contact import OF_B
from warp_kernels.collision.convex.mujoco_boxes import MOST, mujoco_box_functions
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.collision.convex.tie import tie_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import Pairs, collision_structs
from warp_kernels.collision.touch.search import slot_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def detect_box_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel ``detect_boxes`` for one precision, launched over (world,) before the other convex pairs."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    frame = geometry_frame_functions(scalar)
    bounds = bounding_functions(scalar)
    boxes = mujoco_box_functions(scalar)
    shapes = shape_functions(scalar)
    ties = tie_functions(scalar)
    kept = slot_functions(scalar)
    structs = collision_structs(scalar)
    Slots, Geometries, PackedShapes = structs.Slots, structs.Geometries, structs.PackedShapes
    module = kernel_module("collision.detect_boxes", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def detect_boxes(
        # Model
        pairs: Pairs,
        geometries: Geometries,
        packed: PackedShapes,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        candidate_bits: wp.array2d(dtype=wp.uint32),
        margin: scalar,
        # Data out
        slots: Slots,
        contact_count: wp.array(dtype=wp.int32),
        contact_overflow: wp.array(dtype=wp.int32),
    ):
        """Write a slot for each contact within the margin of the candidate pairs, as
        :func:`warp_kernels.collision.detect.detect_kernels` does.
        """
        world = wp.tid()
        row = wp.min(world, geometry_size.shape[0] - 1)
        room = slots.pair.shape[0]
        total = contact_count[world] + contact_overflow[world]
        modes = wp.zeros(shape=(MOST,), dtype=wp.int32)
        codes_a = wp.zeros(shape=(MOST,), dtype=wp.vec3i)
        codes_b = wp.zeros(shape=(MOST,), dtype=wp.vec3i)
        points = wp.zeros(shape=(MOST,), dtype=vec3)
        following = next_candidate(pairs.first_bit, pairs.end_bit, candidate_bits, world)
        while following < pairs.end_bit:
            pair = pairs.first + world * pairs.room + following - pairs.first_bit
            following = next_candidate(following + 1, pairs.end_bit, candidate_bits, world)
            a = pairs.a[pair]
            b = pairs.b[pair]
            link_a = geometries.link[a]
            link_b = geometries.link[b]
            reference = frame.reference_tree(link_a, link_b, geometries.link_tree)
            pose_a = frame.geometry_pose(
                a, link_a, reference, geometries.link_tree, geometry_placement, pose, origin, world
            )
            pose_b = frame.geometry_pose(
                b, link_b, reference, geometries.link_tree, geometry_placement, pose, origin, world
            )
            delta = wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a)
            if wp.static(scalar == wp.float32):
                delta += frame.low_offset(link_b, reference, geometries.link_tree, origin_low, world)
                delta -= frame.low_offset(link_a, reference, geometries.link_tree, origin_low, world)
            size_a = geometry_size[row, a]
            size_b = geometry_size[row, b]
            if bounds.far_apart(wp.length(size_a), wp.length(size_b), delta, margin):
                continue
            turn_a = wp.transform_get_rotation(pose_a)
            rotation = wp.mul(wp.quat_inverse(turn_a), wp.transform_get_rotation(pose_b))
            offset = wp.quat_rotate_inv(turn_a, delta)
            count = boxes.touching_features(size_a, size_b, rotation, offset, margin, modes, codes_a, codes_b, points)
            if count > 1:
                shape_a = shapes.make_shape(geometries.type[a], size_a, packed.extent[a])
                shape_b = shapes.make_shape(geometries.type[b], size_b, packed.extent[b])
                normal = wp.normalize(ties.face_direction(shape_a, packed.vertices, codes_a[0]))
                if modes[0] >= OF_B:
                    normal = -wp.normalize(ties.face_direction(shape_b, packed.vertices, codes_b[0]))
                    normal = wp.quat_rotate(rotation, normal)
                ties.settle_tie(shape_a, shape_b, rotation, packed.vertices, normal, 0, count, modes, codes_a, codes_b)
            gap = scalar(margin)
            for k in range(count):
                gap = wp.min(gap, points[k][2])
            for k in range(count):
                slot = total
                if total >= room:
                    slot = kept.farthest(slots.gap, slots.lead, gap, world)
                if slot >= 0:
                    slots.pair[slot, world] = pair
                    slots.gap[slot, world] = gap
                    slots.feature[slot, world] = modes[k]
                    slots.codes_a[slot, world] = codes_a[k]
                    slots.codes_b[slot, world] = codes_b[k]
                    slots.witness[slot, world] = vec3()
                total += 1
        contact_count[world] = wp.min(total, room)
        contact_overflow[world] = wp.max(total - room, 0)

    return SimpleNamespace(detect_boxes=detect_boxes)
