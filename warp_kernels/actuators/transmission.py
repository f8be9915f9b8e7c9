"""Actuators on frames and on contacts: Jacobians of their lengths, and their forces.

As in MuJoCo, the Jacobian of a frame relative to another is that of both origins and of both rotations along the axes
of the other, as if these axes stood still; adhesion at contacts has the mean Jacobian of their distances.

Forces are explicit in position and velocity. Everything is differentiated by Warp's own adjoint, from that of the joint
forces; that of the accelerations is part of the step's (:mod:`warp_kernels.solver.impulse`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.actuators.actuators import actuator_functions
from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def transmission_structs(scalar: Any) -> SimpleNamespace:
    """Return the struct for one precision."""
    transform = warp_types(scalar).transform

    @wp.struct
    class Lines:
        """Actuators on frames or contacts (neither joint nor tendon), by index; see :mod:`sim.model.topology`.

        Attributes:
            actuator: index of each one [num_lines].
            link: of its frame, -1 for the world, -2 if it acts on contacts [num_lines].
            placement: of the frame in that link [num_lines].
            reference_link: of the frame that it is relative to, -1 for the world, -2 for none [num_lines].
            reference_placement: of that frame [num_lines].
            adheres: 1 for a geometry at whose contacts it acts [num_lines, num_geometries].
            adhesion_distance: distance below which contacts of a pair count for that [num_pairs], m.
            moved: 1 if a degree of freedom moves a link [num_links, nv].
        """

        actuator: wp.array(dtype=int)
        link: wp.array(dtype=int)
        placement: wp.array(dtype=transform)
        reference_link: wp.array(dtype=int)
        reference_placement: wp.array(dtype=transform)
        adheres: wp.array2d(dtype=int)
        adhesion_distance: wp.array(dtype=scalar)
        moved: wp.array2d(dtype=int)

    return SimpleNamespace(Lines=Lines)


# No link, see sim.model.topology.NO_LINK.
NONE = -2


@functools.cache
def slope_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision. A line is an actuator on a frame or on contacts."""
    t = warp_types(scalar)
    sp, rotations = spatial_functions(scalar), rotation_vector_functions(scalar)
    vec3, mat33, transform, spatial = t.vec3, t.mat33, t.transform, t.spatial
    Lines = transmission_structs(scalar).Lines
    module = kernel_module("frame_slopes", scalar, inlined=True)
    contact_module = kernel_module("adhesion_slopes", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def axis_of(axis: wp.array2d(dtype=vec3), line: int, world: int, lines: Lines):
        """Return a parameter of the line's actuator."""
        return axis[wp.min(world, axis.shape[0] - 1), lines.actuator[line]]

    @wp.func
    def frame_pose(link: int, placement: transform, world: int, pose: wp.array2d(dtype=transform)):
        """Return the frame's pose about the origin of its link's tree; for the world, in the world."""
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
        """Return whether a degree of freedom moves a link."""
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
        """Compute the lengths of frames, over (line, world): zero without a reference."""
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
        """Compute the Jacobians of frames, over (line, dof, world). Adds to zeroed arrays."""
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
        """Return whether a line acts at a contact."""
        pair = slot_pair[slot, world]
        adheres = lines.adheres[line, pair_a[pair]] + lines.adheres[line, pair_b[pair]]
        return adheres > 0 and contact_distance[slot, world] < lines.adhesion_distance[pair]

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
        """Count the contacts at which each line acts, over (line, world)."""
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
        """Return the velocity of a contact's point, given about the origin of the tree ``reference``, as a point of a
        link.
        """
        rate = vec3()
        if moves(link, dof, lines):
            position = point
            if link_tree[link] != reference:
                position = point + origin[reference, world] - origin[link_tree[link], world]
            rate = sp.point_velocity(subspace[dof, world], position)
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
        """Compute minus the mean change of the distances, over (line, dof, world). Adds to zeroed arrays."""
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


@functools.cache
def transmission_force_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    common, actuators, products = row_functions(scalar), actuator_functions(scalar), product_functions(scalar)
    Gains, Lines = solver_structs(scalar).Gains, transmission_structs(scalar).Lines
    module = kernel_module("transmission_forces", scalar, inlined=True)
    free_module = kernel_module("pushed_acceleration", scalar, headers=ROW_HEADERS)
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def line_rates(
        # Data in
        qd: wp.array2d(dtype=scalar),
        line_slope: wp.array3d(dtype=scalar),
        # Data out
        line_rate: wp.array2d(dtype=scalar),
    ):
        """Compute the velocities of lines, over (line, world). Adds to zeroed arrays."""
        line, world = wp.tid()
        for k in range(qd.shape[1]):
            line_rate[line, world] += line_slope[line, k, world] * qd[world, k]

    @wp.kernel(module=module)
    def line_forces(
        # Model
        lines: Lines,
        actuator_kind: wp.array(dtype=int),
        line_deferred: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        control: wp.array2d(dtype=scalar),
        line_length: wp.array2d(dtype=scalar),
        line_rate: wp.array2d(dtype=scalar),
        # Data out
        line_force: wp.array2d(dtype=scalar),
    ):
        """Compute the actuator's force times the gear, over (line, world).

        line_deferred: 1 for lines whose damping is a constraint (:mod:`warp_kernels.solver.midpoint.rate_damping`).
        """
        line, world = wp.tid()
        i = lines.actuator[line]
        u = actuators.held_input(control, gains, world, i)
        g = common.value_of(gains.gear, world, i)
        centre = common.value_of(gains.force_centre, world, i)
        most = common.value_of(gains.force_limit, world, i)
        law = actuators.force_law(actuator_kind[i], u, g * line_length[line, world], gains, world, i)
        if line_deferred[line] == 1:
            line_force[line, world] = actuators.without_damping(law, line_rate[line, world], g, centre, most)
        else:
            push = actuators.as_force(law, line_rate[line, world], g, centre, most, zero)
            line_force[line, world] = push[0]

    @wp.kernel(module=module)
    def line_pushes(
        # Data in
        line_slope: wp.array3d(dtype=scalar),
        line_force: wp.array2d(dtype=scalar),
        # Data out
        line_push: wp.array2d(dtype=scalar),
    ):
        """Sum the joint forces of all lines, over (dof, world). Adds to zeroed arrays."""
        k, world = wp.tid()
        for line in range(line_force.shape[0]):
            line_push[k, world] += line_slope[line, k, world] * line_force[line, world]

    @wp.kernel(module=module)
    def add_line_pushes(
        # Data in
        line_push: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
    ):
        """Add the joint forces of all lines, over (dof, world)."""
        k, world = wp.tid()
        joint_force[world, k] += line_push[k, world]

    @wp.kernel(module=free_module, enable_backward=False)
    def pushed_acceleration(
        # Model
        paths: Paths,
        # Data in
        line_push: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        # Data out
        push_response: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
    ):
        """Add M^-1 of the lines' joint forces to the accelerations without constraints, over worlds; push_response
        [dof, world].
        """
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            push_response[k, world] = line_push[k, world]
        products.solve_transposed(paths, factor_l, push_response, world)
        for k in range(nv):
            push_response[k, world] = push_response[k, world] * factor_d[k, world]
        products.solve_lower(paths, factor_l, push_response, world)
        for k in range(nv):
            qdd[world, k] += push_response[k, world]

    return SimpleNamespace(
        modules=(module, free_module),
        line_rates=line_rates,
        line_forces=line_forces,
        line_pushes=line_pushes,
        add_line_pushes=add_line_pushes,
        pushed_acceleration=pushed_acceleration,
    )
