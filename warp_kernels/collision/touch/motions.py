"""Motions of the two sides of a contact within a step, for contacts at the time of touch."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots


@functools.cache
def slot_motion_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernel ``slot_motions`` for one precision, over (slot, world), or worlds if ``looping``;
    differentiated by Warp's own adjoint.
    """
    t = warp_types(scalar)
    spatial = t.spatial
    module = kernel_module("collision.touch", scalar, looping=looping, inlined=True)

    @wp.func
    def add_motion(
        link: int,
        slot: int,
        world: int,
        link_tail_dof: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        dt: scalar,
        slot_motion: wp.array2d(dtype=spatial),
    ):
        """Sum over the degrees of freedom that move a link; none move the world."""
        slot_motion[slot, world] = spatial()
        if link < 0:
            return
        tail = link_tail_dof[link]
        if tail < 0:
            return
        slot_motion[slot, world] += (dt * qd[world, tail]) * subspace[tail, world]
        for i in range(dof_depth[tail]):
            k = ancestor[dof_row_start[tail] + i]
            slot_motion[slot, world] += (dt * qd[world, k]) * subspace[k, world]

    @wp.kernel(module=module)
    @looped_over_slots(looping)
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
        """Compute the motion of each contact's links in a step at their present velocities: rotation vector and
        displacement of the point at the origin of their tree. Slots without a time are unchanged.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        if slot_time[slot, world] == scalar(0.0):
            return
        pair = slot_pair[slot, world]
        add_motion(
            geometry_link[pair_a[pair]], slot, world, link_tail_dof, dof_depth, dof_row_start, ancestor, subspace, qd,
            dt, slot_motion_a,
        )  # fmt: skip
        add_motion(
            geometry_link[pair_b[pair]], slot, world, link_tail_dof, dof_depth, dof_row_start, ancestor, subspace, qd,
            dt, slot_motion_b,
        )  # fmt: skip

    return SimpleNamespace(module=module, slot_motions=slot_motions)
