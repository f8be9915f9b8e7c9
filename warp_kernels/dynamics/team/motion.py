"""Inverse dynamics by a team of threads per world, and its adjoint, see :mod:`warp_kernels.dynamics.newton_euler`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.rnea import friction_functions
from warp_kernels.dynamics.team.levels import TREE_WIDTHS, LinkLevels, tree_module
from warp_kernels.kinematics.joints import joint_adjoint_functions, joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_motion_kernels": TREE_WIDTHS, "team_motion_adjoint_kernels": TREE_WIDTHS}


@functools.cache
def team_motion_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel of joint forces for one precision and number of threads of a team."""
    module = tree_module("team_rnea", scalar, width)
    return SimpleNamespace(module=module, team_rnea=_newton_euler(module, scalar, width, adjoint=False))


@functools.cache
def team_motion_adjoint_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel of their adjoint for one precision and number of threads of a team."""
    module = tree_module("team_rnea_adjoint", scalar, width)
    return SimpleNamespace(module=module, team_rnea_adjoint=_newton_euler(module, scalar, width, adjoint=True))


def _newton_euler(module: wp.Module, scalar: Any, width: int, adjoint: bool) -> wp.Kernel:
    """Return one of the kernels.

    Args:
        module: its Warp module.
        scalar: precision.
        width: threads of a team.
        adjoint: whether to compute derivatives of the joint forces, weighted by ``motion_weight``, instead of them.
    """
    t, a, sp = warp_types(scalar), algebra(scalar, 1), spatial_functions(scalar, 1)
    joints, joint_adjoints = joint_functions(scalar, 1), joint_adjoint_functions(scalar, 1)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    dry, team = friction_functions(scalar, 1), team_functions(scalar, width)

    @wp.kernel(name="team_rnea_adjoint" if adjoint else "team_rnea", module=module, enable_backward=False)
    @used_arguments_only
    def recursion(
        # Model
        links: Links,
        link_levels: LinkLevels,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        gravity: wp.array2d(dtype=vec3),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        common_wrench: wp.array2d(dtype=spatial),
        lift: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        motion_weight: wp.array2d(dtype=scalar),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        force: wp.array2d(dtype=spatial),
        tau: wp.array2d(dtype=scalar),
        # Adjoint out
        direction: wp.array2d(dtype=spatial),
        velocity_bar: wp.array2d(dtype=spatial),
        acceleration_bar: wp.array2d(dtype=spatial),
        gravity_bar: wp.array2d(dtype=vec3),
        qd_bar: wp.array2d(dtype=scalar),
        qdd_bar: wp.array2d(dtype=scalar),
        common_wrench_bar: wp.array2d(dtype=spatial),
        lift_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Compute tau, passive forces of joints included, or add to the outputs of the adjoint; as the kernels
        ``passive_force`` and ``rnea``, or ``rnea_adjoint``.
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = links.parent.shape[0]
        num_levels = link_levels.start.shape[0] - 1
        nv = qd.shape[1]
        # Of joints, then of links: velocities, accelerations, and velocities for joint velocities motion_weight.
        for n in range(team.lane(), num_links, team.size()):
            link = team.item(n, num_links)
            v_joint = spatial()
            a_joint = spatial()
            y_joint = spatial()
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                s = subspace[k, world]
                v_joint += qd[world, k] * s
                a_joint += qdd[world, k] * s
                if wp.static(adjoint):
                    y_joint += motion_weight[world, k] * s
            if links.parent[link] < 0:
                g = a.load_param_vec3(gravity, world, 0)
                if lift.shape[0] > 0:
                    g += lift[link_levels.tree[link], world]
                a_joint += a.join(vec3(), -g)
                a_joint += joints.velocity_product(links.joint_type[link], spatial(), v_joint)
            velocity[link, world] = v_joint
            acceleration[link, world] = a_joint
            if wp.static(adjoint):
                direction[link, world] = y_joint
        team.sync()
        for level in range(1, num_levels):
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                parent = links.parent[link]
                v_parent = velocity[parent, world]
                own = velocity[link, world]
                product = joints.velocity_product(links.joint_type[link], v_parent, own)
                acceleration[link, world] = acceleration[parent, world] + acceleration[link, world] + product
                if wp.static(adjoint):
                    direction[link, world] = direction[parent, world] + direction[link, world]
                velocity[link, world] = v_parent + own
            team.sync()
        for n in range(team.lane(), num_links, team.size()):
            link = team.item(n, num_links)
            v = velocity[link, world]
            acc = acceleration[link, world]
            rigid = link_inertia[link, world]
            momentum = sp.apply_inertia(rigid, v)
            f = sp.apply_inertia(rigid, acc) + sp.cross_force(v, momentum)
            if common_wrench.shape[0] > 0:
                f -= common_wrench[link, world]
            force[link, world] = f
            if wp.static(adjoint):
                y = direction[link, world]
                if common_wrench_bar.shape[0] > 0:
                    common_wrench_bar[link, world] = common_wrench_bar[link, world] - y
                turning = sp.cross_motion(y, v)
                acceleration_bar[link, world] = sp.apply_inertia(rigid, y)
                velocity_bar[link, world] = sp.apply_inertia(rigid, turning) - sp.cross_force(y, momentum)
                link_inertia_bar[link, world] = (
                    link_inertia_bar[link, world] + sp.inertia_quadratic(y, acc) + sp.inertia_quadratic(turning, v)
                )
        team.sync()
        # Sums over subtrees.
        for back in range(1, num_levels):
            level = num_levels - 1 - back
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                f = force[link, world]
                if wp.static(adjoint):
                    v = velocity[link, world]
                    v_bar = velocity_bar[link, world]
                    a_bar = acceleration_bar[link, world]
                for at in range(link_levels.child_start[link], link_levels.child_start[link + 1]):
                    child = link_levels.child[at]
                    f += force[child, world]
                    if wp.static(adjoint):
                        passed = acceleration_bar[child, world]
                        a_bar += passed
                        v_bar += velocity_bar[child, world] + sp.cross_force(velocity[child, world] - v, passed)
                force[link, world] = f
                if wp.static(adjoint):
                    velocity_bar[link, world] = v_bar
                    acceleration_bar[link, world] = a_bar
            team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            link = link_levels.dof_link[k]
            s = subspace[k, world]
            if wp.static(adjoint):
                a_bar = acceleration_bar[link, world]
                joint_bar = velocity_bar[link, world]
                if links.parent[link] >= 0:
                    joint_bar -= sp.cross_force(velocity[links.parent[link], world], a_bar)
                if joints.keeps_axes(links.joint_type[link]):
                    joint_bar += joint_adjoints.kept_axes_bar(velocity[link, world], a_bar)
                if qd_bar.shape[0] > 0:
                    qd_bar[world, k] = qd_bar[world, k] + a.dot_spatial(s, joint_bar)
                if qdd_bar.shape[0] > 0:
                    qdd_bar[world, k] = qdd_bar[world, k] + a.dot_spatial(s, a_bar)
                subspace_bar[k, world] = (
                    subspace_bar[k, world]
                    + qd[world, k] * joint_bar
                    + qdd[world, k] * a_bar
                    + motion_weight[world, k] * force[link, world]
                )
            else:
                speed = qd[world, k]
                torque = a.load_param_scalar(armature, world, k) * qdd[world, k]
                torque += a.load_param_scalar(damping, world, k) * speed
                torque += dry.force_against(a.load_param_scalar(friction_loss, world, k), speed)
                if links.dof_q[k] >= 0:
                    stretch = q[world, links.dof_q[k]] - a.load_param_scalar(rest_position, world, k)
                    torque += a.load_param_scalar(stiffness, world, k) * stretch
                tau[world, k] = torque + a.dot_spatial(s, force[link, world])
        if wp.static(adjoint):
            num_roots = link_levels.start[1]
            for n in range(team.lane(), num_roots, team.size()):
                root = link_levels.link[team.item(n, num_roots)]
                pull = a.linear(acceleration_bar[root, world])
                if gravity_bar.shape[0] > 0:
                    a.add_vec3(gravity_bar, world, 0, -pull)
                if lift_bar.shape[0] > 0:
                    tree = link_levels.tree[root]
                    lift_bar[tree, world] = lift_bar[tree, world] - pull

    return recursion
