"""Forces that bear a share of links' weights, as MuJoCo's ``gravcomp``, and their adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def gravity_compensation_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Kernels for one precision and a number of worlds in a lane group, launched over (link, group)."""
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
        """Adds a force of minus the link's weight times its share, at its centre of mass."""
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
        """Adds to the adjoints, those of the parameters where they have rows."""
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
