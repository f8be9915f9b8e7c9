"""How the two sides of a contact move within a step, for contacts that are where a pair touches."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types


@functools.cache
def slot_motion_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``slot_motions`` of one precision, launched over (slot, world); differentiated by Warp's own adjoint."""
    t = warp_types(scalar)
    spatial = t.spatial
    module = kernel_module("collision.touch", scalar)

    @wp.func
    def link_velocity(
        link: int,
        world: int,
        link_tail_dof: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
    ):
        """Velocity of a link about the origin of its tree; zero for the world."""
        velocity = spatial()
        if link >= 0:
            tail = link_tail_dof[link]
            if tail >= 0:
                velocity += qd[world, tail] * subspace[tail, world]
                for i in range(dof_depth[tail]):
                    k = ancestor[dof_row_start[tail] + i]
                    velocity += qd[world, k] * subspace[k, world]
        return velocity

    @wp.kernel(module=module)
    def slot_motions(
        # Model
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometry_link: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        slot_pair: wp.array2d(dtype=int),
        slot_time: wp.array2d(dtype=scalar),
        contact_count: wp.array(dtype=int),
        dt: scalar,
        # Data out
        slot_motion_a: wp.array2d(dtype=spatial),
        slot_motion_b: wp.array2d(dtype=spatial),
    ):
        """How the links of each contact move in a step at their present velocities: rotation vector and way of the point
        at the origin of their tree. Slots without a time are left alone.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        if slot_time[slot, world] == scalar(0.0):
            return
        pair = slot_pair[slot, world]
        slot_motion_a[slot, world] = dt * link_velocity(
            geometry_link[pair_a[pair]], world, link_tail_dof, dof_depth, dof_row_start, ancestor, subspace, qd
        )
        slot_motion_b[slot, world] = dt * link_velocity(
            geometry_link[pair_b[pair]], world, link_tail_dof, dof_depth, dof_row_start, ancestor, subspace, qd
        )

    return SimpleNamespace(module=module, slot_motions=slot_motions)
