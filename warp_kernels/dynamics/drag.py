"""Forces of a medium on boxes that move through it, as MuJoCo's inertia-box model; see :meth:`sim.ModelBuilder.set_medium`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def drag_kernels(scalar: Any) -> SimpleNamespace:
    """The kernel of one precision, over (box, world), with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    sp = spatial_functions(scalar)
    module = kernel_module("drag", scalar, inlined=True)
    pi = scalar(wp.pi)

    @wp.func
    def along(v: scalar):
        return wp.abs(v) * v

    @wp.func
    def fourth(x: scalar):
        return x * x * x * x

    @wp.kernel(module=module)
    def drag_wrench(
        # Model
        drag_link: wp.array(dtype=int),
        drag_size: wp.array(dtype=vec3),
        drag_placement: wp.array(dtype=transform),
        link_tail_dof: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Parameters
        medium_density: wp.array2d(dtype=scalar),
        medium_viscosity: wp.array2d(dtype=scalar),
        wind: wp.array2d(dtype=vec3),
        # Data in
        qd: wp.array2d(dtype=scalar),
        pose: wp.array2d(dtype=transform),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        drag_velocity: wp.array2d(dtype=spatial),
        common_wrench: wp.array2d(dtype=spatial),
    ):
        """drag_velocity: of each box's link. common_wrench: added to."""
        box, world = wp.tid()
        link = drag_link[box]
        tail = link_tail_dof[link]
        # Summed up in memory: of a variable that a loop adds to, Warp's adjoint doesn't know the value.
        drag_velocity[box, world] = subspace[tail, world] * qd[world, tail]
        for d in range(dof_depth[tail]):
            k = ancestor[dof_row_start[tail] + d]
            drag_velocity[box, world] += subspace[k, world] * qd[world, k]
        motion = drag_velocity[box, world]
        place = pose[link, world] * drag_placement[box]
        centre = wp.transform_get_translation(place)
        axes = wp.transform_get_rotation(place)
        density = medium_density[wp.min(world, medium_density.shape[0] - 1), 0]
        viscosity = medium_viscosity[wp.min(world, medium_viscosity.shape[0] - 1), 0]
        through = sp.point_velocity(motion, centre) - wind[wp.min(world, wind.shape[0] - 1), 0]
        v = wp.quat_rotate_inv(axes, through)
        w = wp.quat_rotate_inv(axes, sp.angular(motion))
        b = drag_size[box]
        mean = (b[0] + b[1] + b[2]) / scalar(3.0)
        half = scalar(0.5) * density
        push = -vec3(
            half * b[1] * b[2] * along(v[0]), half * b[0] * b[2] * along(v[1]), half * b[0] * b[1] * along(v[2])
        )
        push -= scalar(3.0) * pi * mean * viscosity * v
        share = density / scalar(64.0)
        turn = -vec3(
            share * b[0] * (fourth(b[1]) + fourth(b[2])) * along(w[0]),
            share * b[1] * (fourth(b[0]) + fourth(b[2])) * along(w[1]),
            share * b[2] * (fourth(b[0]) + fourth(b[1])) * along(w[2]),
        )
        turn -= pi * mean * mean * mean * viscosity * w
        force = wp.quat_rotate(axes, push)
        moment = wp.quat_rotate(axes, turn) + wp.cross(centre, force)
        common_wrench[link, world] += spatial(moment[0], moment[1], moment[2], force[0], force[1], force[2])

    return SimpleNamespace(module=module, drag_wrench=drag_wrench)
