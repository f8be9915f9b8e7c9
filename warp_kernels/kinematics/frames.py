"""Poses of frames that move with links, and velocities in a reference; with hand-written adjoints."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import kernel_module, lane_types, warp_types

# Reference point and axes of a spatial velocity.
LOCAL_WORLD_ALIGNED = 0  # at the frame's origin, along world axes
WORLD = 1  # at the world's origin, along world axes
LOCAL = 2  # at the frame's origin, along the frame's axes


@functools.cache
def frame_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions of frames and of velocities in a reference, for one precision and a number of worlds in
    a lane group.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    poses, origins = wp.array2d(dtype=transform), wp.array2d(dtype=vec3)

    @wp.func
    def frame_pose(link_pose: transform, placement: transform):
        """Return the pose of a frame about its tree's origin."""
        rotation = a.rotation(link_pose)
        return a.make_pose(
            a.position(link_pose) + a.rotate(rotation, a.position(placement)),
            a.product(rotation, a.rotation(placement)),
        )

    @wp.func
    def add_frame_bar(link: int, group: int, frame: transform, turn: vec3, shift: vec3, pose: poses, pose_bar: poses):
        """Propagate the adjoint of a frame to its link: the derivatives in a turn of the frame about its origin and in
        a displacement.
        """
        own = pose[link, group]
        arm = a.position(frame) - a.position(own)
        turn_bar = a.quaternion_of_turn(a.rotation(own), turn + a.cross(arm, shift))
        a.sum_transform(pose_bar, link, group, a.make_pose(shift, turn_bar))

    @wp.func
    def reference_point(reference: int, frame: transform, tree: int, group: int, origin: origins):
        """Return the reference point of a velocity, about the tree's origin."""
        if reference == WORLD:
            return -origin[tree, group]
        return a.position(frame)

    @wp.func
    def in_reference(reference: int, v: spatial, frame: transform, point: vec3):
        """Return a velocity about the tree's origin in one of the references."""
        linear = sp.point_velocity(v, point)
        if reference == LOCAL:
            rotation = a.rotation(frame)
            return a.join(a.rotate_back(rotation, a.angular(v)), a.rotate_back(rotation, linear))
        return a.join(a.angular(v), linear)

    @wp.func
    def along_world(reference: int, bar: spatial, frame: transform):
        """Return the adjoint of a velocity in one of the references along world axes."""
        if reference == LOCAL:
            rotation = a.rotation(frame)
            return a.join(a.rotate(rotation, a.angular(bar)), a.rotate(rotation, a.linear(bar)))
        return bar

    @wp.func
    def about_origin(bar: spatial, point: vec3):
        """Return the adjoint of a velocity about the tree's origin, from that of the velocity at a point."""
        return a.join(a.angular(bar) + a.cross(point, a.linear(bar)), a.linear(bar))

    @wp.func
    def frame_turn(v: spatial, bar: spatial, point: vec3):
        """Return the derivative in a turn of the frame whose axes a velocity is expressed in; ``bar`` along world
        axes.
        """
        return a.cross(a.angular(bar), a.angular(v)) + a.cross(a.linear(bar), sp.point_velocity(v, point))

    @wp.func
    def add_reference_bar(
        reference: int,
        link: int,
        tree: int,
        group: int,
        frame: transform,
        turn: vec3,
        point_bar: vec3,
        pose: poses,
        pose_bar: poses,
        origin_bar: origins,
    ):
        """Add the adjoint of the reference point and axes."""
        if reference == WORLD:
            a.sum_vec3(origin_bar, tree, group, -point_bar)
        if reference == LOCAL_WORLD_ALIGNED:
            add_frame_bar(link, group, frame, vec3(), point_bar, pose, pose_bar)
        if reference == LOCAL:
            add_frame_bar(link, group, frame, turn, point_bar, pose, pose_bar)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})


@functools.cache
def frame_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels of frames for one precision, launched over (frame, lane group). A link of -1 is the world.

    A call needs one of the two results, and its adjoint only for gradients: separate modules are compiled when needed.
    """
    t, one, a = lane_types(scalar, lanes), warp_types(scalar), algebra(scalar, lanes)
    frames = frame_functions(scalar, lanes)
    vec3, transform = t.vec3, t.transform
    module, adjoint_module, matrix_module = (
        kernel_module(name, scalar, lanes) for name in ("frames", "frames_adjoint", "frame_matrices")
    )
    states3d, states4d, numbers = t.states3d, t.states4d, wp.array(dtype=scalar)
    ints, placements, poses = wp.array(dtype=int), wp.array(dtype=one.transform), wp.array2d(dtype=transform)

    @wp.func
    def in_world(
        frame: int,
        group: int,
        link_tree: ints,
        frame_link: ints,
        frame_placement: placements,
        pose: poses,
        origin: wp.array2d(dtype=vec3),
    ):
        """Return the pose of a frame in the world; its placement if it is fixed to the world."""
        placement = a.same_transform(frame_placement[frame])
        link = frame_link[frame]
        if link < 0:
            return placement
        placed = frames.frame_pose(pose[link, group], placement)
        return a.make_pose(origin[link_tree[link], group] + a.position(placed), a.rotation(placed))

    @wp.func
    def store_pose(result: states3d, group: int, frame: int, pose: transform):
        position = a.position(pose)
        rotation = a.rotation(pose)
        for i in range(3):
            a.store3(result, group, frame, i, position[i])
        for i in range(4):
            a.store3(result, group, frame, 3 + i, rotation[i])

    @wp.func
    def put_matrix(buffer: numbers, result: states4d, group: int, frame: int, pose: transform):
        position = a.position(pose)
        rows = a.matrix(a.rotation(pose))
        for i in range(3):
            row = a.mat_row(rows, i)
            for j in range(3):
                a.put(buffer, result, group, frame, i, j, 4, row[j])
            a.put(buffer, result, group, frame, i, 3, 4, position[i])
        a.put(buffer, result, group, frame, 3, 3, 4, a.real(scalar(1.0)))

    @wp.kernel(module=module, enable_backward=False)
    def frame_pose(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        # Data out
        frame_pose: t.states3d,
    ):
        """Compute the world pose of each frame: position, quaternion xyzw."""
        frame, group = wp.tid()
        a.fetch_frame_to_write(frame_pose, group, frame)
        placed = in_world(frame, group, link_tree, frame_link, frame_placement, pose, origin)
        store_pose(frame_pose, group, frame, placed)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def frame_pose_adjoint(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        # Adjoint in
        frame_pose_bar: t.states3d,
        # Adjoint out
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
    ):
        """Add to the adjoints of links and origins."""
        frame, group = wp.tid()
        a.fetch_frame_to_read(frame_pose_bar, group, frame)
        link = frame_link[frame]
        if link >= 0:
            placed = frames.frame_pose(pose[link, group], a.same_transform(frame_placement[frame]))
            shift = a.load_bar3_vec3(frame_pose_bar, group, frame, 0)
            turn = a.turn_of_quaternion(a.rotation(placed), a.load_bar3_quat(frame_pose_bar, group, frame, 3))
            frames.add_frame_bar(link, group, placed, turn, shift, pose, pose_bar)
            a.sum_vec3(origin_bar, link_tree[link], group, shift)

    @wp.kernel(module=matrix_module, enable_backward=False)
    def frame_matrix(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        # Data out
        buffer: numbers,
        frame_matrix: states4d,
    ):
        """Compute the world pose of each frame as a homogeneous matrix. ``buffer`` is scratch."""
        frame, group = wp.tid()
        a.begin(buffer, group, 16)
        put_matrix(
            buffer, frame_matrix, group, frame,
            in_world(frame, group, link_tree, frame_link, frame_placement, pose, origin),
        )  # fmt: skip
        a.end_frame(buffer, frame_matrix, group, frame, 4, 4)

    @wp.kernel(module=matrix_module, enable_backward=False)
    def frame_matrix_adjoint(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        # Adjoint in
        frame_matrix_bar: states4d,
        # Adjoint out
        buffer: numbers,
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
    ):
        """Add to the adjoints of links and origins. ``buffer`` is scratch."""
        frame, group = wp.tid()
        link = frame_link[frame]
        if link >= 0:
            a.read_frame(buffer, frame_matrix_bar, group, frame, 4, 4)
            placed = frames.frame_pose(pose[link, group], a.same_transform(frame_placement[frame]))
            shift = a.get_column(buffer, frame_matrix_bar, group, frame, 0, 3, 4)
            matrix_bar = a.mat_rows(
                a.get_row(buffer, frame_matrix_bar, group, frame, 0, 4),
                a.get_row(buffer, frame_matrix_bar, group, frame, 1, 4),
                a.get_row(buffer, frame_matrix_bar, group, frame, 2, 4),
            )
            turn = a.axial(a.matrix(a.rotation(placed)), matrix_bar)
            frames.add_frame_bar(link, group, placed, turn, shift, pose, pose_bar)
            a.sum_vec3(origin_bar, link_tree[link], group, shift)

    return SimpleNamespace(
        module=module,
        frame_pose=frame_pose,
        frame_pose_adjoint=frame_pose_adjoint,
        frame_matrix=frame_matrix,
        frame_matrix_adjoint=frame_matrix_adjoint,
    )
