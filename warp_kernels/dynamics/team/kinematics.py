"""Forward kinematics by a team of threads per world, and its adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.dynamics.team.levels import TREE_WIDTHS, LinkLevels, tree_module
from warp_kernels.kinematics.joints import joint_adjoint_functions, joint_functions
from warp_kernels.kinematics.kinematics import kinematics_kernels
from warp_kernels.kinematics.kinematics_adjoint import kinematics_adjoint_kernels
from warp_kernels.kinematics.propagation import Links
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_kinematics_kernels": TREE_WIDTHS, "team_kinematics_adjoint_kernels": TREE_WIDTHS}


@functools.cache
def team_kinematics_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t, a, joints, of_link = (
        warp_types(scalar),
        algebra(scalar, 1),
        joint_functions(scalar, 1),
        kinematics_kernels(scalar),
    )
    vec3 = t.vec3
    team, module = team_functions(scalar, width), tree_module("team_kinematics", scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_kinematics(
        # Model
        links: Links,
        link_levels: LinkLevels,
        joint_axis: wp.array(dtype=vec3),
        # Parameters
        joint_placement: wp.array2d(dtype=t.transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=vec3),
        inertia: wp.array2d(dtype=t.mat33),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        pose: wp.array2d(dtype=t.transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=t.spatial),
        link_inertia: wp.array2d(dtype=t.inertia),
        # Adjoint out
        pose_bar: wp.array2d(dtype=t.transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=t.spatial),
        link_inertia_bar: wp.array2d(dtype=t.inertia),
    ):
        """Compute the kinematics of the links in ``link_levels``, as the kernel ``kinematics``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = link_levels.link.shape[0]
        for n in range(team.lane(), num_links, team.size()):
            link = link_levels.link[team.item(n, num_links)]
            placement = a.load_param_transform(joint_placement, world, link)
            kind = links.joint_type[link]
            own = joints.joint_transform(placement, kind, joint_axis[link], q, world, links.q_start[link])
            if links.parent[link] < 0:
                tree = link_levels.tree[link]
                r = a.rotation(own)
                ahead = of_link.slides_ahead(
                    link, links.last_slide[tree], links, joint_axis, joint_placement, r, q, world
                )
                origin[tree, world] = a.position(own) + ahead
                if origin_bar.shape[0] > 0:
                    origin_bar[tree, world] = vec3()
                own = a.make_pose(vec3() - ahead, r)
            pose[link, world] = own
        team.sync()
        for level in range(1, link_levels.start.shape[0] - 1):
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                local = pose[link, world]
                carrying = pose[links.parent[link], world]
                carrier = a.rotation(carrying)
                pose[link, world] = a.make_pose(
                    a.position(carrying) + a.rotate(carrier, a.position(local)),
                    a.product(carrier, a.rotation(local)),
                )
            team.sync()
        for n in range(team.lane(), num_links, team.size()):
            link = link_levels.link[team.item(n, num_links)]
            whole = pose[link, world]
            if pose_bar.shape[0] > 0:
                pose_bar[link, world] = a.zero_pose()
            if subspace.shape[0] > 0:
                kind = links.joint_type[link]
                joints.write_subspace(kind, joint_axis[link], whole, links.qd_start[link], world, subspace)
            if subspace_bar.shape[0] > 0:
                for k in range(links.qd_start[link], links.qd_start[link + 1]):
                    subspace_bar[k, world] = t.spatial()
            if link_inertia.shape[0] > 0:
                link_inertia[link, world] = of_link.common_frame_inertia(
                    whole,
                    a.load_param_scalar(mass, world, link),
                    a.load_param_vec3(com, world, link),
                    a.load_param_mat33(inertia, world, link),
                )
            if link_inertia_bar.shape[0] > 0:
                link_inertia_bar[link, world] = t.inertia()

    return SimpleNamespace(module=module, team_kinematics=team_kinematics)


@functools.cache
def team_kinematics_adjoint_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the adjoint for one precision and number of threads of a team."""
    t, a, joints = warp_types(scalar), algebra(scalar, 1), joint_adjoint_functions(scalar, 1)
    of_link = kinematics_adjoint_kernels(scalar)
    vec3 = t.vec3
    team, module = team_functions(scalar, width), tree_module("team_kinematics_adjoint", scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_kinematics_adjoint(
        # Model
        links: Links,
        link_levels: LinkLevels,
        joint_axis: wp.array(dtype=vec3),
        # Parameters
        joint_placement: wp.array2d(dtype=t.transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=vec3),
        # Data in
        q: wp.array2d(dtype=scalar),
        pose: wp.array2d(dtype=t.transform),
        link_inertia: wp.array2d(dtype=t.inertia),
        # Adjoint in
        pose_bar: wp.array2d(dtype=t.transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=t.spatial),
        link_inertia_bar: wp.array2d(dtype=t.inertia),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        # Adjoint out
        turn_bar: wp.array2d(dtype=vec3),
        shift_bar: wp.array2d(dtype=vec3),
        q_bar_buffer: wp.array(dtype=scalar),
        joint_placement_bar: wp.array2d(dtype=t.transform),
        mass_bar: wp.array2d(dtype=scalar),
        com_bar: wp.array2d(dtype=vec3),
        inertia_bar: wp.array2d(dtype=t.mat33),
        q_bar: wp.array2d(dtype=scalar),
    ):
        """Propagate adjoints from the leaves to the roots, as the kernel ``kinematics_adjoint``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = link_levels.link.shape[0]
        for n in range(team.lane(), num_links, team.size()):
            link = link_levels.link[team.item(n, num_links)]
            own = pose[link, world]
            bar = pose_bar[link, world]
            turn_bar[link, world] = a.turn_of_quaternion(a.rotation(own), a.rotation(bar))
            shift_bar[link, world] = a.position(bar)
            if subspace_bar.shape[0] > 0:
                joints.add_subspace_bars(
                    links.joint_type[link], joint_axis[link], own, links.qd_start[link], subspace_bar, link, world,
                    turn_bar, shift_bar,
                )  # fmt: skip
            if link_inertia_bar.shape[0] > 0:
                of_link.add_inertia_bars(
                    own, mass, com, link_inertia_bar[link, world], link_inertia[link, world], link, world,
                    turn_bar, shift_bar, mass_bar, com_bar, inertia_bar,
                )  # fmt: skip
        team.sync()
        num_levels = link_levels.start.shape[0] - 1
        for back in range(1, num_levels):
            level = num_levels - 1 - back
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                position = a.position(pose[link, world])
                turn = turn_bar[link, world]
                shift = shift_bar[link, world]
                for at in range(link_levels.child_start[link], link_levels.child_start[link + 1]):
                    child = link_levels.child[at]
                    push = shift_bar[child, world]
                    arm = a.position(pose[child, world]) - position
                    turn += turn_bar[child, world] + a.cross(arm, push)
                    shift += push
                turn_bar[link, world] = turn
                shift_bar[link, world] = shift
            team.sync()
        for n in range(team.lane(), num_links, team.size()):
            link = link_levels.link[team.item(n, num_links)]
            kind = links.joint_type[link]
            axis = joint_axis[link]
            start = links.q_start[link]
            parent = links.parent[link]
            rotation = a.rotation(pose[link, world])
            if parent < 0:
                shift_bar[link, world] = origin_bar[link_levels.tree[link], world]
            whole_turn = turn_bar[link, world]
            whole_shift = shift_bar[link, world]
            if q_bar.shape[0] > 0:
                joints.put_q_bars(kind, axis, rotation, q, start, whole_turn, whole_shift, world, q_bar_buffer, q_bar)
            if joint_placement_bar.shape[0] > 0:
                joints.add_moved_turn(kind, axis, rotation, q, start, whole_shift, link, world, turn_bar)
                placement = a.load_param_transform(joint_placement, world, link)
                carrier = a.no_turn()
                if parent >= 0:
                    carrier = a.rotation(pose[parent, world])
                change = of_link.placement_change(carrier, placement, turn_bar[link, world], whole_shift)
                a.add_transform(joint_placement_bar, world, link, change)

    return SimpleNamespace(module=module, team_kinematics_adjoint=team_kinematics_adjoint)
