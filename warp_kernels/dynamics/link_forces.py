"""Forces on links: gravity compensation, which removes a share of a link's weight, like MuJoCo's ``gravcomp``, and
external wrenches at frames.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.frames import LOCAL, WORLD
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def gravity_compensation_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, launched over (link, group)."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    sp = spatial_functions(scalar, lanes)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    one_vec3 = warp_types(scalar).vec3
    module = kernel_module("gravity_compensation", scalar, lanes)

    @wp.kernel(module=module, enable_backward=False)
    def compensate_gravity(
        # Parameters
        gravity: wp.array2d(dtype=one_vec3),
        gravity_compensation: wp.array2d(dtype=scalar),
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        common_wrench: wp.array2d(dtype=spatial),
    ):
        """Add a force of minus the link's weight times its share, at its centre of mass."""
        link, group = wp.tid()
        share = a.load_param_scalar(gravity_compensation, group, link)
        lift = a.join(vec3(), -a.scale(share, a.load_param_vec3(gravity, group, 0)))
        common_wrench[link, group] += sp.apply_inertia(link_inertia[link, group], lift)

    @wp.kernel(module=module, enable_backward=False)
    def compensate_gravity_adjoint(
        # Parameters
        gravity: wp.array2d(dtype=one_vec3),
        gravity_compensation: wp.array2d(dtype=scalar),
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        common_wrench_bar: wp.array2d(dtype=spatial),
        # Adjoint out
        gravity_bar: wp.array2d(dtype=one_vec3),
        gravity_compensation_bar: wp.array2d(dtype=scalar),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Add to the adjoints, those of the parameters if they have rows."""
        link, group = wp.tid()
        bar = common_wrench_bar[link, group]
        share = a.load_param_scalar(gravity_compensation, group, link)
        g = a.load_param_vec3(gravity, group, 0)
        link_inertia_bar[link, group] += sp.inertia_quadratic(bar, a.join(vec3(), -a.scale(share, g)))
        lift_bar = a.linear(sp.apply_inertia(link_inertia[link, group], bar))
        if gravity_bar.shape[0] > 0:
            a.add_vec3(gravity_bar, group, 0, -a.scale(share, lift_bar))
        if gravity_compensation_bar.shape[0] > 0:
            a.add_scalar(gravity_compensation_bar, group, link, -a.dot(g, lift_bar))

    return SimpleNamespace(
        module=module, compensate_gravity=compensate_gravity, compensate_gravity_adjoint=compensate_gravity_adjoint
    )


@functools.cache
def wrench_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision, with Warp's own adjoint."""
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
        """Add moments about the links' origins, and forces, along world axes to an array of zeros, over worlds."""
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
