"""Kernels for what cameras and lights move with: their poses in the world. Nothing here has an adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types

# What a camera or light follows.
LINK, POINT, CENTRE_OF_MASS = 0, 1, 2


@functools.cache
def mount_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    t = warp_types(scalar)

    @wp.struct
    class Mounts:
        """Cameras or lights of a world: what each of them moves with.

        Attributes:
            link: link of each, -1 for the world [n].
            point: point of the link that it follows [n].
            follows: LINK, POINT or CENTRE_OF_MASS [n].
            share: share of each link in the mass that it follows [n, num_links].
        """

        link: wp.array(dtype=wp.int32)
        point: wp.array(dtype=t.vec3)
        follows: wp.array(dtype=wp.int32)
        share: wp.array2d(dtype=scalar)

    return SimpleNamespace(Mounts=Mounts)


@functools.cache
def mount_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    mod = kernel_module("mounts", scalar)
    Mounts = mount_structs(scalar).Mounts

    @wp.func
    def link_transform(link_pose: wp.array3d(dtype=scalar), world: int, link: int):
        return transform(
            vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2]),
            t.quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            ),
        )

    @wp.func
    def carrier_of(
        mounts: Mounts, k: int, com: wp.array2d(dtype=vec3), link_pose: wp.array3d(dtype=scalar), world: int
    ):
        """Return the pose of what a camera or light moves with, not turned unless that is a link."""
        pose = wp.transform_identity(scalar)
        if mounts.link[k] >= 0:
            pose = link_transform(link_pose, world, mounts.link[k])
        if mounts.follows[k] != LINK:
            followed = wp.transform_point(pose, mounts.point[k])
            if mounts.follows[k] == CENTRE_OF_MASS:
                followed = vec3()
                for link in range(mounts.share.shape[1]):
                    if mounts.share[k, link] > scalar(0.0):
                        centre = com[wp.min(world, com.shape[0] - 1), link]
                        centre = wp.transform_point(link_transform(link_pose, world, link), centre)
                        followed += centre * mounts.share[k, link]
            pose = transform(followed, wp.quat_identity(scalar))
        return pose

    @wp.kernel(module=mod, enable_backward=False)
    def pose_cameras(
        # Model
        mounts: Mounts,
        camera_placement: wp.array(dtype=transform),
        # Parameters
        com: wp.array2d(dtype=vec3),
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        # Data out
        eye: wp.array2d(dtype=transform),
    ):
        """Compute the pose of each camera in the world."""
        world, camera = wp.tid()
        carrier = carrier_of(mounts, camera, com, link_pose, world)
        eye[world, camera] = wp.transform_multiply(carrier, camera_placement[camera])

    @wp.kernel(module=mod, enable_backward=False)
    def pose_lights(
        # Model
        light_mounts: Mounts,
        across: wp.array(dtype=wp.vec3),
        # Parameters
        com: wp.array2d(dtype=vec3),
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        placed: wp.array2d(dtype=wp.vec3),
        along: wp.array2d(dtype=wp.vec3),
        # Data out
        light_position: wp.array2d(dtype=wp.vec3),
        light_axis: wp.array2d(dtype=wp.vec3),
        light_across: wp.array2d(dtype=wp.vec3),
    ):
        """Compute position and axes of each light in the world, from those on what it moves with.

        The axis across is perpendicular to the axis that it shines along, and as near as possible to ``across``.
        """
        world, light = wp.tid()
        carrier = carrier_of(light_mounts, light, com, link_pose, world)
        position = placed[wp.min(world, placed.shape[0] - 1), light]
        axis = wp.normalize(along[wp.min(world, along.shape[0] - 1), light])
        light_position[world, light] = wp.vec3(wp.transform_point(carrier, vec3(position)))
        light_axis[world, light] = wp.vec3(wp.quat_rotate(wp.transform_get_rotation(carrier), vec3(axis)))
        side = across[light] - axis * wp.dot(axis, across[light])
        if wp.length(side) < 1.0e-3:
            side = wp.cross(axis, wp.vec3(axis[1], axis[2], axis[0]))
        light_across[world, light] = wp.vec3(
            wp.quat_rotate(wp.transform_get_rotation(carrier), vec3(wp.normalize(side)))
        )

    return SimpleNamespace(module=mod, pose_cameras=pose_cameras, pose_lights=pose_lights)
