"""Zeroing of the adjoints of existing contacts only: most slots are empty, and nothing reads theirs."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots


@functools.cache
def contact_adjoint_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernel ``clear_contacts`` for one precision, over (slot, world), or worlds if ``looping``."""
    t = warp_types(scalar)
    vec2, vec3, mat33, spatial = t.vec2, t.vec3, t.mat33, t.spatial
    Contacts = solver_structs(scalar).Contacts
    module = kernel_module("contact_adjoints", scalar, looping=looping)

    @wp.kernel(module=module, enable_backward=False)
    @looped_over_slots(looping)
    def clear_contacts(
        # Data in
        contact_count: wp.array(dtype=int),
        # Adjoint out
        contacts_bar: Contacts,
        contact_resistance_bar: wp.array2d(dtype=vec2),
        contact_reference_bar: wp.array2d(dtype=vec3),
        resistance_reference_bar: wp.array2d(dtype=vec3),
        slot_motion_a_bar: wp.array2d(dtype=spatial),
        slot_motion_b_bar: wp.array2d(dtype=spatial),
    ):
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        contacts_bar.point[slot, world] = vec3()
        contacts_bar.frame[slot, world] = mat33()
        # Frames of rolling friction follow those of all slots in models whose friction has a direction.
        turning = slot + contacts_bar.friction.shape[0]
        if turning < contacts_bar.frame.shape[0]:
            contacts_bar.frame[turning, world] = mat33()
        contacts_bar.distance[slot, world] = scalar(0.0)
        contacts_bar.friction[slot, world] = scalar(0.0)
        contacts_bar.restitution[slot, world] = scalar(0.0)
        if contacts_bar.apart.shape[0] > 0:
            contacts_bar.apart[slot, world] = vec3()
        if contacts_bar.spring.shape[0] > 0:
            contacts_bar.spring[slot, world] = vec2()
        if contact_resistance_bar.shape[0] > 0:
            contact_resistance_bar[slot, world] = vec2()
        if contact_reference_bar.shape[0] > 0:
            contact_reference_bar[slot, world] = vec3()
        if resistance_reference_bar.shape[0] > 0:
            resistance_reference_bar[2 * slot, world] = vec3()
            resistance_reference_bar[2 * slot + 1, world] = vec3()
        if slot_motion_a_bar.shape[0] > 0:
            slot_motion_a_bar[slot, world] = spatial()
            slot_motion_b_bar[slot, world] = spatial()

    return SimpleNamespace(module=module, clear_contacts=clear_contacts)
