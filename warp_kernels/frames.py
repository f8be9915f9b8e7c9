"""Poses and velocities of frames that move with links."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types

# Where a spatial velocity is taken and along which axes.
LOCAL_WORLD_ALIGNED = 0  # at the frame's origin, along world axes
WORLD = 1  # at the world's origin, along world axes
LOCAL = 2  # at the frame's origin, along the frame's axes


@functools.cache
def frame_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions that place a frame and move a spatial velocity to its reference, for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial

    @wp.func
    def in_reference(reference: int, v: spatial, frame: transform, origin: vec3):
        """A velocity about the tree's origin in one of the references; ``frame`` is relative to that origin."""
        w = sp.angular(v)
        linear = sp.linear(v)
        if reference == WORLD:
            linear = sp.linear(v) + wp.cross(origin, w)
        else:
            linear = sp.point_velocity(v, wp.transform_get_translation(frame))
        if reference == LOCAL:
            inverse = wp.quat_inverse(wp.transform_get_rotation(frame))
            w = wp.quat_rotate(inverse, w)
            linear = wp.quat_rotate(inverse, linear)
        return sp.join(w, linear)

    return SimpleNamespace(in_reference=in_reference)


@functools.cache
def frame_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of frames for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    frames = frame_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("frames", scalar)

    @wp.kernel(module=module)
    def frame_pose(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        # Data out
        frame_pose: wp.array3d(dtype=scalar),
    ):
        """World pose of each frame: position, quaternion xyzw; over (frame, world). A link of -1 is the world."""
        frame, world = wp.tid()
        link = frame_link[frame]
        placed = frame_placement[frame]
        start = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        if link >= 0:
            placed = pose[link, world] * placed
            start = origin[link_tree[link], world]
        position = start + wp.transform_get_translation(placed)
        rotation = wp.transform_get_rotation(placed)
        for i in range(wp.static(3)):
            frame_pose[world, frame, i] = position[i]
        for i in range(wp.static(4)):
            frame_pose[world, frame, 3 + i] = rotation[i]

    @wp.kernel(module=module)
    def frame_matrix(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        # Data out
        frame_matrix: wp.array4d(dtype=scalar),
    ):
        """World pose of each frame as a homogeneous matrix, over (frame, world). A link of -1 is the world."""
        frame, world = wp.tid()
        link = frame_link[frame]
        placed = frame_placement[frame]
        start = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        if link >= 0:
            placed = pose[link, world] * placed
            start = origin[link_tree[link], world]
        position = start + wp.transform_get_translation(placed)
        rotation = wp.quat_to_matrix(wp.transform_get_rotation(placed))
        for i in range(wp.static(3)):
            for j in range(wp.static(3)):
                frame_matrix[world, frame, i, j] = rotation[i, j]
            frame_matrix[world, frame, i, 3] = position[i]
        frame_matrix[world, frame, 3, 3] = scalar(1.0)

    @wp.kernel(module=module)
    def link_velocity(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Data in
        qd: wp.array2d(dtype=scalar),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        velocity: wp.array2d(dtype=spatial),
    ):
        """Velocity of each link about its tree's origin, over (tree, world)."""
        tree, world = wp.tid()
        for link in range(tree_link_start[tree], tree_link_start[tree + 1]):
            if link_parent[link] >= 0:
                velocity[link, world] = velocity[link_parent[link], world]
            else:
                velocity[link, world] = spatial()
            # The sum lives in the array: a local carried through a run-time loop has no right adjoint.
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                velocity[link, world] += subspace[k, world] * qd[world, k]

    @wp.kernel(module=module)
    def frame_velocity(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=transform),
        reference: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        # Data out
        frame_velocity: wp.array3d(dtype=scalar),
    ):
        """Velocity of each frame, angular first, over (frame, world)."""
        frame, world = wp.tid()
        link = frame_link[frame]
        if link >= 0:
            v = frames.in_reference(
                reference,
                velocity[link, world],
                pose[link, world] * frame_placement[frame],
                origin[link_tree[link], world],
            )
            for i in range(wp.static(6)):
                frame_velocity[world, frame, i] = v[i]

    return SimpleNamespace(
        module=module,
        frame_pose=frame_pose,
        frame_matrix=frame_matrix,
        link_velocity=link_velocity,
        frame_velocity=frame_velocity,
    )
