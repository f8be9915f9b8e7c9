"""Forward dynamics and factors of the mass matrix by a team of threads per world: the articulated-body algorithm, see
:mod:`warp_kernels.dynamics.aba`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.aba import articulated_functions
from warp_kernels.dynamics.rnea import friction_functions
from warp_kernels.dynamics.team.levels import TREE_WIDTHS, LinkLevels, tree_module
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_articulated_kernels": TREE_WIDTHS}


@functools.cache
def team_articulated_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t, a, sp = warp_types(scalar), algebra(scalar, 1), spatial_functions(scalar, 1)
    joints, art = joint_functions(scalar, 1), articulated_functions(scalar, 1)
    dry = friction_functions(scalar, 1)
    vec3, spatial, one = t.vec3, t.spatial, scalar(1.0)
    team, module = team_functions(scalar, width), tree_module("team_aba", scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_aba(
        # Model
        links: Links,
        link_levels: LinkLevels,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dt: scalar,
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
        tau: wp.array2d(dtype=scalar),
        implicit: wp.array2d(dtype=scalar),
        common_wrench: wp.array2d(dtype=spatial),
        lift: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=t.inertia),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        bias_force: wp.array2d(dtype=spatial),
        articulated: wp.array2d(dtype=t.articulated),
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        innovation: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
    ):
        """Compute accelerations and factors of a world; arguments as of the kernels ``aba`` and
        ``factor_mass_matrix``.
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = links.parent.shape[0]
        num_levels = link_levels.start.shape[0] - 1
        # Velocities of joints, then of links.
        for n in range(team.lane(), num_links, team.size()):
            link = team.item(n, num_links)
            v_joint = spatial()
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                v_joint += qd[world, k] * subspace[k, world]
            velocity[link, world] = v_joint
            acceleration[link, world] = v_joint
        team.sync()
        for level in range(1, num_levels):
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                velocity[link, world] = velocity[links.parent[link], world] + velocity[link, world]
            team.sync()
        # Velocity products and bias forces.
        for n in range(team.lane(), num_links, team.size()):
            link = team.item(n, num_links)
            v = velocity[link, world]
            v_parent = spatial()
            if links.parent[link] >= 0:
                v_parent = velocity[links.parent[link], world]
            acceleration[link, world] = joints.velocity_product(
                links.joint_type[link], v_parent, acceleration[link, world]
            )
            force = sp.cross_force(v, sp.apply_inertia(link_inertia[link, world], v))
            if common_wrench.shape[0] > 0:
                force -= common_wrench[link, world]
            bias_force[link, world] = force
        # Articulated inertias and bias forces, leaves to root.
        for back in range(num_levels):
            level = num_levels - 1 - back
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            team.sync()
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                whole = art.from_rigid(link_inertia[link, world])
                total = bias_force[link, world]
                for at in range(link_levels.child_start[link], link_levels.child_start[link + 1]):
                    child = link_levels.child[at]
                    whole += articulated[child, world]
                    total += bias_force[child, world]
                start = links.qd_start[link]
                past = links.qd_start[link + 1]
                for reverse in range(past - start):
                    k = past - 1 - reverse
                    s = subspace[k, world]
                    torque = tau[world, k]
                    u = art.apply(whole, s)
                    damp = a.load_param_scalar(damping, world, k)
                    d = a.dot_spatial(s, u) + a.load_param_scalar(armature, world, k) + dt * damp
                    if implicit.shape[0] > 0:
                        d += implicit[k, world]
                    speed = qd[world, k]
                    if friction_loss.shape[0] > 0:
                        torque -= dry.force_against(a.load_param_scalar(friction_loss, world, k), speed)
                    torque -= damp * speed
                    if links.dof_q[k] >= 0:
                        spring = a.load_param_scalar(stiffness, world, k)
                        rest = a.load_param_scalar(rest_position, world, k)
                        d += dt * dt * spring
                        torque -= spring * (q[world, links.dof_q[k]] + dt * speed - rest)
                    inverse = one / d
                    factor_u[k, world] = u
                    factor_d[k, world] = inverse
                    whole -= art.square(u, inverse)
                    left = torque - a.dot_spatial(s, total)
                    innovation[k, world] = left
                    total += inverse * left * u
                if links.parent[link] >= 0:
                    articulated[link, world] = whole
                    bias_force[link, world] = total + art.apply(whole, acceleration[link, world])
        team.sync()
        # Rows of L, and accelerations, root to leaves.
        nv = dof_depth.shape[0]
        for n in range(team.lane(), nv, team.size()):
            i = team.item(n, nv)
            row = factor_d[i, world] * factor_u[i, world]
            for at in range(dof_row_start[i], dof_row_start[i] + dof_depth[i]):
                factor_l[at, world] = a.dot_spatial(row, subspace[ancestor[at], world])
        for level in range(num_levels):
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                if links.parent[link] >= 0:
                    acc = acceleration[links.parent[link], world]
                else:
                    g = a.load_param_vec3(gravity, world, 0)
                    if lift.shape[0] > 0:
                        g += lift[link_levels.tree[link], world]
                    acc = a.join(vec3(), -g)
                acc += acceleration[link, world]
                for k in range(links.qd_start[link], links.qd_start[link + 1]):
                    value = (innovation[k, world] - a.dot_spatial(factor_u[k, world], acc)) * factor_d[k, world]
                    qdd[world, k] = value
                    acc += value * subspace[k, world]
                acceleration[link, world] = acc
            team.sync()

    return SimpleNamespace(module=module, team_aba=team_aba)
