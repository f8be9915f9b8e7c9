"""How positions of actuators on frames and on contacts go with the degrees of freedom; differentiated by Warp's own adjoint.

As in MuJoCo, the slope of a frame that counts from another is that of both origins and of both rotations along the axes of the other, as if these
axes stood still; and what pulls at contacts has the mean slope of their distances.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotation_vectors import rotation_vector_functions
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.solver.transmission.structs import transmission_structs
from warp_kernels.types import kernel_module, warp_types

# No link, see sim.model.topology.NO_LINK.
NONE = -2


@functools.cache
def slope_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision. A line is an actuator that acts so."""
    t = warp_types(scalar)
    sp, rotations = spatial_functions(scalar), rotation_vector_functions(scalar)
    vec3, mat33, transform, spatial = t.vec3, t.mat33, t.transform, t.spatial
    Lines = transmission_structs(scalar).Lines
    module = kernel_module("frame_slopes", scalar, inlined=True)
    contact_module = kernel_module("adhesion_slopes", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def axis_of(axis: wp.array2d(dtype=vec3), line: int, world: int, lines: Lines):
        """A parameter of the line's actuator."""
        return axis[wp.min(world, axis.shape[0] - 1), lines.actuator[line]]

    @wp.func
    def frame_pose(link: int, placement: transform, world: int, pose: wp.array2d(dtype=transform)):
        """About the origin of its link's tree; of the world, in the world."""
        found = placement
        if link >= 0:
            found = pose[link, world] * placement
        return found

    @wp.func
    def tree_origin(link: int, world: int, link_tree: wp.array(dtype=int), origin: wp.array2d(dtype=vec3)):
        found = vec3()
        if link >= 0:
            found = origin[link_tree[link], world]
        return found

    @wp.func
    def moves(link: int, dof: int, lines: Lines):
        """Whether a degree of freedom moves a link."""
        return link >= 0 and lines.moved[wp.max(link, 0), dof] == 1

    @wp.kernel(module=module)
    def frame_lengths(
        # Model
        lines: Lines,
        link_tree: wp.array(dtype=int),
        # Parameters
        actuator_force_axis: wp.array2d(dtype=vec3),
        actuator_torque_axis: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        # Data out
        line_length: wp.array2d(dtype=scalar),
    ):
        """Over (line, world): zero without a reference."""
        line, world = wp.tid()
        length = zero
        link = lines.link[line]
        reference = lines.reference_link[line]
        if link != NONE and reference != NONE:
            here = frame_pose(link, lines.placement[line], world, pose)
            there = frame_pose(reference, lines.reference_placement[line], world, pose)
            apart = wp.transform_get_translation(here) - wp.transform_get_translation(there)
            if link < 0 or reference < 0 or link_tree[wp.max(link, 0)] != link_tree[wp.max(reference, 0)]:
                apart += tree_origin(link, world, link_tree, origin) - tree_origin(reference, world, link_tree, origin)
            turned = wp.quat_inverse(wp.transform_get_rotation(there))
            force_axis = axis_of(actuator_force_axis, line, world, lines)
            torque_axis = axis_of(actuator_torque_axis, line, world, lines)
            length = wp.dot(force_axis, wp.quat_rotate(turned, apart))
            length += wp.dot(torque_axis, rotations.rotation_log(turned * wp.transform_get_rotation(here)))
        line_length[line, world] = length

    @wp.kernel(module=module)
    def frame_slopes(
        # Model
        lines: Lines,
        # Parameters
        actuator_force_axis: wp.array2d(dtype=vec3),
        actuator_torque_axis: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        line_slope: wp.array3d(dtype=scalar),
    ):
        """Over (line, dof, world). Adds to what must be zero before."""
        line, dof, world = wp.tid()
        link = lines.link[line]
        reference = lines.reference_link[line]
        if link == NONE:
            return
        here = frame_pose(link, lines.placement[line], world, pose)
        there = here
        if reference != NONE:
            there = frame_pose(reference, lines.reference_placement[line], world, pose)
        axes = wp.transform_get_rotation(there)
        force_axis = wp.quat_rotate(axes, axis_of(actuator_force_axis, line, world, lines))
        torque_axis = wp.quat_rotate(axes, axis_of(actuator_torque_axis, line, world, lines))
        motion = subspace[dof, world]
        moves_here = moves(link, dof, lines)
        moves_there = moves(reference, dof, lines)
        if moves_here and not moves_there:
            rate = sp.point_velocity(motion, wp.transform_get_translation(here))
            line_slope[line, dof, world] += wp.dot(force_axis, rate) + wp.dot(torque_axis, sp.angular(motion))
        if moves_there and not moves_here:
            rate = sp.point_velocity(motion, wp.transform_get_translation(there))
            line_slope[line, dof, world] += -wp.dot(force_axis, rate) - wp.dot(torque_axis, sp.angular(motion))

    @wp.func
    def touches(
        line: int, slot: int, world: int, lines: Lines, pair_a: wp.array(dtype=int), pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int), contact_distance: wp.array2d(dtype=scalar),
    ):  # fmt: skip
        """Whether a contact is one at which a line pulls."""
        pair = slot_pair[slot, world]
        adheres = lines.adheres[line, pair_a[pair]] + lines.adheres[line, pair_b[pair]]
        return adheres > 0 and contact_distance[slot, world] < lines.pair_reach[pair]

    @wp.kernel(module=contact_module, enable_backward=False)
    def count_touching(
        # Model
        lines: Lines,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        # Data in
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contact_distance: wp.array2d(dtype=scalar),
        # Data out
        touching: wp.array2d(dtype=int),
    ):
        """Over (line, world): the contacts at which it pulls."""
        line, world = wp.tid()
        count = int(0)
        for slot in range(contact_count[world]):
            if touches(line, slot, world, lines, pair_a, pair_b, slot_pair, contact_distance):
                count += 1
        touching[line, world] = count

    @wp.func
    def rate_of_contact(
        link: int, dof: int, point: vec3, reference: int, world: int, lines: Lines, link_tree: wp.array(dtype=int),
        origin: wp.array2d(dtype=vec3), subspace: wp.array2d(dtype=spatial),
    ):  # fmt: skip
        """Velocity of a contact's point, which is about the origin of the tree ``reference``, as a point of a link."""
        rate = vec3()
        if moves(link, dof, lines):
            place = point
            if link_tree[link] != reference:
                place = point + origin[reference, world] - origin[link_tree[link], world]
            rate = sp.point_velocity(subspace[dof, world], place)
        return rate

    @wp.kernel(module=contact_module)
    def adhesion_slopes(
        # Model
        lines: Lines,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometry_link: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        # Data in
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contact_distance: wp.array2d(dtype=scalar),
        touching: wp.array2d(dtype=int),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        # Data out
        line_slope: wp.array3d(dtype=scalar),
    ):
        """Over (line, dof, world): less the mean change of the distances. Adds to what must be zero before."""
        line, dof, world = wp.tid()
        count = touching[line, world]
        if count == 0:
            return
        for slot in range(contact_count[world]):
            if touches(line, slot, world, lines, pair_a, pair_b, slot_pair, contact_distance):
                link_a = geometry_link[pair_a[slot_pair[slot, world]]]
                link_b = geometry_link[pair_b[slot_pair[slot, world]]]
                reference = link_tree[wp.max(link_a, 0)]
                if link_b >= 0:
                    reference = link_tree[link_b]
                point = contact_point[slot, world]
                rate = rate_of_contact(link_b, dof, point, reference, world, lines, link_tree, origin, subspace)
                rate -= rate_of_contact(link_a, dof, point, reference, world, lines, link_tree, origin, subspace)
                frame = contact_frame[slot, world]
                normal = vec3(frame[0, 0], frame[0, 1], frame[0, 2])
                line_slope[line, dof, world] += -wp.dot(normal, rate) * (one / scalar(count))

    return SimpleNamespace(
        modules=(module, contact_module),
        frame_lengths=frame_lengths,
        frame_slopes=frame_slopes,
        count_touching=count_touching,
        adhesion_slopes=adhesion_slopes,
    )
