"""Velocities of surfaces relative to their geometries, as friction sees them: conveyor belts and turntables.

A contact's tangential rows, and its spinning friction, act on the velocity between the surfaces instead of that between
the geometries. The velocity between surfaces adds to the right-hand sides of these rows. As in MuJoCo, the part along
the normal is left out, and rolling friction acts on the geometries.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.constraints.kinds import (
    follows_contact,
    is_contact,
    is_of_contact_frame,
    spins,
)
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots


@functools.cache
def surface_velocity_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernel ``contact_surface_velocities`` for one precision, over (slot, world), or worlds if ``looping``;
    differentiated by Warp's own adjoint.
    """
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    frame, common = geometry_frame_functions(scalar), row_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    module = kernel_module("constraints.surface_motion", scalar, looping=looping, inlined=True)

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def contact_surface_velocities(
        # Model
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometries: Geometries,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        surface_velocity: wp.array2d(dtype=vec3),
        surface_spin: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        slot_pair: wp.array2d(dtype=int),
        contact_count: wp.array(dtype=int),
        contact_point: wp.array2d(dtype=vec3),
        contact_apart: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        # Data out
        contact_surface_velocity: wp.array2d(dtype=vec3),
    ):
        """Compute the velocity of b's surface relative to that of a, for each contact: spin about the normal, and
        velocities along both tangents. Slots past ``contact_count`` are unchanged.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        link_a = geometries.link[pair_a[pair]]
        link_b = geometries.link[pair_b[pair]]
        reference = frame.reference_tree(link_a, link_b, geometries.link_tree)
        along = vec3()
        turning = vec3()
        for side in range(2):
            geometry = pair_a[pair]
            link = link_a
            if side == 1:
                geometry = pair_b[pair]
                link = link_b
            sign = common.side_sign(side)
            placed = frame.geometry_pose(
                geometry, link, reference, geometries.link_tree, geometry_placement, pose, origin, world
            )
            point = contact_point[slot, world]
            if contact_apart.shape[0] > 0:
                point = point + (scalar(0.5) * sign) * contact_apart[slot, world]
            orientation = wp.transform_get_rotation(placed)
            row = wp.min(world, surface_velocity.shape[0] - 1)
            velocity = wp.quat_rotate(orientation, surface_velocity[row, geometry])
            row = wp.min(world, surface_spin.shape[0] - 1)
            spin = wp.quat_rotate(orientation, surface_spin[row, geometry])
            along += sign * (velocity + wp.cross(spin, point - wp.transform_get_translation(placed)))
            turning += sign * spin
        axes = contact_frame[slot, world]
        contact_surface_velocity[slot, world] = vec3(
            wp.dot(axes[0], turning), wp.dot(axes[1], along), wp.dot(axes[2], along)
        )

    return SimpleNamespace(module=module, contact_surface_velocities=contact_surface_velocities)


@functools.cache
def surface_row_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels ``surface_rows`` and ``surface_row_adjoint`` for one precision."""
    vec3 = warp_types(scalar).vec3
    common, reference_rows = row_functions(scalar), reference_row_functions(scalar)
    structs = solver_structs(scalar)
    References, Rows = structs.References, structs.Rows
    module = kernel_module("surface_rows", scalar)
    zero = scalar(0.0)

    @wp.func
    def rates(kind: int, velocity: vec3):
        """Return what a surface velocity, see above, adds to the velocity of a constraint's rows."""
        if is_contact(kind):
            return vec3(zero, velocity[1], velocity[2])
        if follows_contact(kind):
            return vec3(velocity[0], zero, zero)
        if spins(kind):  # both of its last two rows are the spin
            return vec3(zero, velocity[0], velocity[0])
        return vec3()

    @wp.func
    def rates_adjoint(kind: int, bar: vec3):
        if is_contact(kind):
            return vec3(zero, bar[1], bar[2])
        if follows_contact(kind):
            return vec3(bar[0], zero, zero)
        if spins(kind):
            return vec3(bar[1] + bar[2], zero, zero)
        return vec3()

    @wp.func
    def share_of(
        kind: int, item: int, world: int, references: References, resistance_reference: wp.array2d(dtype=vec3)
    ):
        """Return the share of the velocity before the step in the rows, see
        :mod:`warp_kernels.constraints.references`.
        """
        if spins(kind):
            return resistance_reference[2 * item, world][2]
        return reference_rows.reference(references, kind, item, world)[2]

    @wp.kernel(module=module, enable_backward=False)
    def surface_rows(
        # Model
        threads: int,
        # Data in
        contact_surface_velocity: wp.array2d(dtype=vec3),
        references: References,
        resistance_reference: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        rows: Rows,
    ):
        """Add velocities of surfaces to the right-hand sides of contacts, and to the sizes of their terms."""
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            kind = constraints.kind[constraint, world]
            if not (is_of_contact_frame(kind) or spins(kind)):
                continue
            item = constraints.item[constraint, world]
            added = rates(kind, contact_surface_velocity[item, world])
            added = share_of(kind, item, world, references, resistance_reference) * added
            rows.rhs[constraint, world] += added
            if rows.size.shape[0] > 0:
                rows.size[constraint, world] += common.sizes(added)
                rows.value_before[constraint, world] += added
                rows.size_before[constraint, world] += common.sizes(added)

    @wp.kernel(module=module, enable_backward=False)
    def surface_row_adjoint(
        # Data in
        contact_surface_velocity: wp.array2d(dtype=vec3),
        references: References,
        resistance_reference: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        rows_bar: Rows,
        # Adjoint out
        contact_surface_velocity_bar: wp.array2d(dtype=vec3),
        references_bar: References,
        resistance_reference_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the adjoint of :func:`surface_rows`, except that of the sizes."""
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if not (is_of_contact_frame(kind) or spins(kind)):
                continue
            item = constraints.item[constraint, world]
            velocity = contact_surface_velocity[item, world]
            bar = rows_bar.rhs[constraint, world]
            share = share_of(kind, item, world, references, resistance_reference)
            contact_surface_velocity_bar[item, world] += rates_adjoint(kind, share * bar)
            share_bar = vec3(zero, zero, wp.dot(rates(kind, velocity), bar))
            if spins(kind):
                resistance_reference_bar[2 * item, world] += share_bar
            else:
                reference_rows.add_reference_bar(references_bar, kind, item, world, share_bar)

    return SimpleNamespace(module=module, surface_rows=surface_rows, surface_row_adjoint=surface_row_adjoint)
