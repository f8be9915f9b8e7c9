"""Forward kinematics: link poses, the motion subspace of every degree of freedom, spatial inertias in the common frame.

Its adjoint is written by hand, see :mod:`warp_kernels.kinematics_adjoint`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.spatial import spatial_functions
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL, kernel_module, warp_types


@functools.cache
def joint_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions that know what a joint type is: its transform and its velocity-product acceleration."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, quat, transform, spatial = t.vec3, t.quat, t.transform, t.spatial
    array2d = wp.array2d(dtype=scalar)

    @wp.func
    def joint_transform(kind: int, axis: vec3, q: array2d, world: int, start: int):
        """Pose of the child link in the joint frame; quaternions are normalised here."""
        position = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        rotation = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
        if kind == REVOLUTE:
            rotation = wp.quat_from_axis_angle(axis, q[world, start])
        if kind == PRISMATIC:
            position = axis * q[world, start]
        if kind == SPHERICAL:
            rotation = wp.normalize(
                quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3])
            )
        if kind == FREE:
            position = vec3(q[world, start], q[world, start + 1], q[world, start + 2])
            rotation = wp.normalize(
                quat(q[world, start + 3], q[world, start + 4], q[world, start + 5], q[world, start + 6])
            )
        return transform(position, rotation)

    @wp.func
    def velocity_product(kind: int, parent_velocity: spatial, joint_velocity: spatial):
        """Acceleration of the link when qdd and the parent's acceleration are zero.

        A free joint has the linear velocity of a point that moves along as coordinate, which adds v x w.
        """
        c = sp.cross_motion(parent_velocity, joint_velocity)
        if kind == FREE:
            c = sp.join(
                vec3(scalar(0.0), scalar(0.0), scalar(0.0)),
                wp.cross(sp.linear(joint_velocity), sp.angular(joint_velocity)),
            )
        return c

    return SimpleNamespace(joint_transform=joint_transform, velocity_product=velocity_product)


@functools.cache
def kinematics_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of forward kinematics for one precision, launched over (tree, world)."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    joints = joint_functions(scalar)
    vec3, mat33, transform, spatial, inertia10 = t.vec3, t.mat33, t.transform, t.spatial, t.inertia
    module = kernel_module("kinematics", scalar)

    @wp.func
    def basis(k: int):
        e = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        if k == 0:
            e = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        if k == 1:
            e = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
        if k == 2:
            e = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        return e

    @wp.func
    def subspace_column(kind: int, axis: vec3, pose: transform, k: int):
        """Motion that the k-th degree of freedom of a joint gives its link (Featherstone's S)."""
        r = wp.transform_get_translation(pose)
        angular = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        linear = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        if kind == REVOLUTE:
            angular = wp.transform_vector(pose, axis)
            linear = wp.cross(r, angular)
        if kind == PRISMATIC:
            linear = wp.transform_vector(pose, axis)
        if kind == SPHERICAL:
            angular = wp.transform_vector(pose, basis(k))
            linear = wp.cross(r, angular)
        if kind == FREE:
            # The tree's origin is this link's, so that r = 0.
            linear = basis(k)
            angular = basis(k - 3)
        return sp.join(angular, linear)

    @wp.func
    def common_frame_inertia(pose: transform, mass: scalar, com: vec3, inertia: mat33):
        """Spatial inertia of a link about the tree's origin in world axes (Featherstone 2014, equation 2.63)."""
        rotation = wp.quat_to_matrix(wp.transform_get_rotation(pose))
        c = wp.transform_point(pose, com)
        h = mass * c
        m = rotation * inertia * wp.transpose(rotation)
        hc = wp.dot(h, c)
        return inertia10(
            mass, h[0], h[1], h[2],
            m[0, 0] + hc - h[0] * c[0], m[1, 1] + hc - h[1] * c[1], m[2, 2] + hc - h[2] * c[2],
            m[0, 1] - h[0] * c[1], m[0, 2] - h[0] * c[2], m[1, 2] - h[1] * c[2],
        )  # fmt: skip

    @wp.kernel(module=module, enable_backward=False)
    def kinematics(
        # Model
        visit_start: wp.array(dtype=int),
        visit: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_axis: wp.array(dtype=vec3),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        joint_placement: wp.array2d(dtype=transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=vec3),
        inertia: wp.array2d(dtype=mat33),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
    ):
        """For the links in ``visit``, parents first, those of a tree together. Outputs of no rows are left out."""
        tree, world = wp.tid()
        for place in range(visit_start[tree], visit_start[tree + 1]):
            link = visit[place]
            parent = link_parent[link]
            kind = joint_type[link]
            axis = joint_axis[link]
            placement = joint_placement[wp.min(world, joint_placement.shape[0] - 1), link]
            local = placement * joints.joint_transform(kind, axis, q, world, joint_q_start[link])
            if parent < 0:
                origin[tree, world] = wp.transform_get_translation(local)
                pose[link, world] = transform(
                    vec3(scalar(0.0), scalar(0.0), scalar(0.0)), wp.transform_get_rotation(local)
                )
            else:
                pose[link, world] = pose[parent, world] * local
            if subspace.shape[0] > 0:
                for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                    subspace[k, world] = subspace_column(kind, axis, pose[link, world], k - joint_qd_start[link])
            if link_inertia.shape[0] > 0:
                link_inertia[link, world] = common_frame_inertia(
                    pose[link, world],
                    mass[wp.min(world, mass.shape[0] - 1), link],
                    com[wp.min(world, com.shape[0] - 1), link],
                    inertia[wp.min(world, inertia.shape[0] - 1), link],
                )

    return SimpleNamespace(module=module, kinematics=kinematics)
