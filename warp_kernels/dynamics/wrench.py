"""External wrenches given at frames, moved to the links that the frames are fixed to."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.kinematics.frames import LOCAL, WORLD
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def wrench_kernels(scalar: Any) -> SimpleNamespace:
    """The kernel for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    module = kernel_module("wrench", scalar, inlined=True)

    @wp.kernel(module=module)
    def wrench_to_link(
        # Model
        link_tree: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=transform),
        reference: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        wrench: wp.array3d(dtype=scalar),
        # Data out
        link_wrench: wp.array3d(dtype=scalar),
    ):
        """Adds moments about the links' origins, and forces, along world axes to an array of zeros, over worlds."""
        world = wp.tid()
        for frame in range(frame_link.shape[0]):
            link = frame_link[frame]
            if link >= 0:
                moment = vec3(wrench[world, frame, 0], wrench[world, frame, 1], wrench[world, frame, 2])
                force = vec3(wrench[world, frame, 3], wrench[world, frame, 4], wrench[world, frame, 5])
                placed = pose[link, world] * frame_placement[frame]
                centre = wp.transform_get_translation(pose[link, world])
                arm = wp.transform_get_translation(placed) - centre
                if reference == WORLD:
                    arm = -(origin[link_tree[link], world] + centre)
                if reference == LOCAL:
                    moment = wp.transform_vector(placed, moment)
                    force = wp.transform_vector(placed, force)
                about_link = moment + wp.cross(arm, force)
                for i in range(wp.static(3)):
                    link_wrench[world, link, i] += about_link[i]
                    link_wrench[world, link, 3 + i] += force[i]

    return SimpleNamespace(module=module, wrench_to_link=wrench_to_link)
