"""Joint types in kinematics and dynamics.

A new joint type needs a branch in each of these functions, unless the no-op for a FIXED joint is right. Coordinates and
velocities of the types:

- FIXED: no coordinates, no velocities.
- REVOLUTE: angle; its rate, about the joint's axis, which moves with the link.
- PRISMATIC: displacement; its rate, along the joint's axis.
- SPHERICAL: quaternion; angular velocity along the link's axes.
- FREE: position, quaternion; linear velocity of the link's origin and angular velocity, both along world axes.

Only roots are FREE. Quaternions are normalised when they are read; a zero quaternion means no rotation. Properties of
joint types for models, importers and exporters are in :mod:`sim.model.joint_types`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL, lane_types, warp_types


@functools.cache
def joint_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the functions of joint transforms and motions, for one precision and a number of worlds in a lane
    group.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    real, vec3, transform, spatial, axis3 = t.real, t.vec3, t.transform, t.spatial, warp_types(scalar).vec3
    states2d, motions = t.states2d, wp.array2d(dtype=spatial)

    @wp.func
    def turn_about(axis: axis3, angle: real):
        s, c = a.sine_cosine(scalar(0.5) * angle)
        return a.make_quat(s * axis[0], s * axis[1], s * axis[2], c)

    @wp.func
    def load_turn(q: states2d, group: int, start: int):
        return a.unit(a.load_quat(q, group, start))

    @wp.func
    def joint_transform(placement: transform, kind: int, axis: axis3, q: states2d, group: int, start: int):
        """Return the pose of the child link in the parent link."""
        p = a.position(placement)
        r = a.rotation(placement)
        if kind == REVOLUTE:
            r = a.product(r, turn_about(axis, a.load(q, group, start)))
        if kind == PRISMATIC:
            x = a.load(q, group, start)
            p += a.rotate(r, a.make_vec3(x * axis[0], x * axis[1], x * axis[2]))
        if kind == SPHERICAL:
            r = a.product(r, load_turn(q, group, start))
        if kind == FREE:
            p += a.rotate(r, a.load_vec3(q, group, start))
            r = a.product(r, load_turn(q, group, start + 3))
        return a.make_pose(p, r)

    @wp.func
    def basis(k: int):
        """Return the k-th axis."""
        e = axis3(scalar(0.0), scalar(0.0), scalar(0.0))
        if k == 0:
            e = axis3(scalar(1.0), scalar(0.0), scalar(0.0))
        if k == 1:
            e = axis3(scalar(0.0), scalar(1.0), scalar(0.0))
        if k == 2:
            e = axis3(scalar(0.0), scalar(0.0), scalar(1.0))
        return a.same_vec3(e)

    @wp.func
    def rotation_about(axis: vec3, point: vec3):
        return a.join(axis, a.cross(point, axis))

    @wp.func
    def write_subspace(kind: int, axis: axis3, pose: transform, dof: int, group: int, subspace: motions):
        """Write the motion subspace of a joint (Featherstone's S): its degrees of freedom, from ``dof`` on."""
        p = a.position(pose)
        r = a.rotation(pose)
        if kind == REVOLUTE:
            subspace[dof, group] = rotation_about(a.rotate(r, a.same_vec3(axis)), p)
        if kind == PRISMATIC:
            subspace[dof, group] = a.join(vec3(), a.rotate(r, a.same_vec3(axis)))
        if kind == SPHERICAL:
            for k in range(3):
                subspace[dof + k, group] = rotation_about(a.rotate(r, basis(k)), p)
        if kind == FREE:
            # The tree's origin is this link's, about which it turns.
            for k in range(3):
                subspace[dof + k, group] = a.join(vec3(), basis(k))
                subspace[dof + 3 + k, group] = a.join(basis(k), vec3())

    @wp.func
    def velocity_product(kind: int, parent_velocity: spatial, joint_velocity: spatial):
        """Return the acceleration of the link for zero qdd and a parent without acceleration.

        The linear velocity of a free joint is that of the link's origin, a moving point: this adds v x w.
        """
        c = sp.cross_motion(parent_velocity, joint_velocity)
        if kind == FREE:
            c = a.join(vec3(), a.cross(a.linear(joint_velocity), a.angular(joint_velocity)))
        return c

    @wp.func
    def keeps_axes(kind: int):
        """Return whether the columns of the motion subspace keep their axes and only move along with the link's origin.

        The columns of other joints turn with the link: their time derivative is v x s.
        """
        return kind == FREE

    @wp.func
    def kept_axes_rate(v: spatial, s: spatial):
        """Return the time derivative of a column that keeps its axis, of a link with velocity v."""
        return a.join(vec3(), a.cross(a.linear(v), a.angular(s)))

    return SimpleNamespace(
        load_turn=load_turn,
        joint_transform=joint_transform,
        basis=basis,
        write_subspace=write_subspace,
        velocity_product=velocity_product,
        keeps_axes=keeps_axes,
        kept_axes_rate=kept_axes_rate,
    )


@functools.cache
def joint_adjoint_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the adjoints of :func:`joint_functions`.

    The adjoint of a link's pose is stored as two vectors, see :mod:`warp_kernels.kinematics.kinematics_adjoint`.
    """
    t, a, joints = lane_types(scalar, lanes), algebra(scalar, lanes), joint_functions(scalar, lanes)
    vec3, quat, transform, spatial, axis3 = t.vec3, t.quat, t.transform, t.spatial, warp_types(scalar).vec3
    numbers, states2d = wp.array(dtype=scalar), t.states2d
    vectors, motions = wp.array2d(dtype=vec3), wp.array2d(dtype=spatial)

    @wp.func
    def put_quaternion_bar(q: states2d, buffer: numbers, q_bar: states2d, group: int, start: int, turn: vec3):
        """Write the derivative in a quaternion, which is normalised when it is read; zero for a zero quaternion."""
        given = a.load_quat(q, group, start)
        over = a.over_length(given)
        unit_bar = a.quaternion_of_turn(a.unit(given), turn)
        for i in range(4):
            a.put_bar(buffer, q_bar, group, start + i, a.mul(unit_bar[i], over))

    @wp.func
    def put_q_bars(
        kind: int,
        axis: axis3,
        own: quat,
        q: states2d,
        start: int,
        turn: vec3,
        shift: vec3,
        group: int,
        buffer: numbers,
        q_bar: states2d,
    ):
        """Write the derivatives in the coordinates of a joint, whose own rotation maps the link's axes to the
        joint's.
        """
        if kind == REVOLUTE:
            a.put_bar(buffer, q_bar, group, start, a.dot(a.rotate(own, a.same_vec3(axis)), turn))
        if kind == PRISMATIC:
            a.put_bar(buffer, q_bar, group, start, a.dot(a.rotate(own, a.same_vec3(axis)), shift))
        if kind == SPHERICAL:
            joint_turn = joints.load_turn(q, group, start)
            put_quaternion_bar(q, buffer, q_bar, group, start, a.rotate(joint_turn, a.rotate_back(own, turn)))
        if kind == FREE:
            joint_turn = joints.load_turn(q, group, start + 3)
            position_bar = a.rotate(joint_turn, a.rotate_back(own, shift))
            for i in range(3):
                a.put_bar(buffer, q_bar, group, start + i, position_bar[i])
            put_quaternion_bar(q, buffer, q_bar, group, start + 3, a.rotate(joint_turn, a.rotate_back(own, turn)))

    @wp.func
    def add_column_bars(
        axis: vec3, r: vec3, column_bar: spatial, link: int, group: int, turn_bar: vectors, shift_bar: vectors
    ):
        """Add the share of the column of a rotational degree of freedom."""
        linear = a.linear(column_bar)
        turn_bar[link, group] = turn_bar[link, group] + a.cross(axis, a.angular(column_bar) + a.cross(linear, r))
        shift_bar[link, group] = shift_bar[link, group] + a.cross(axis, linear)

    @wp.func
    def add_subspace_bars(
        kind: int,
        axis: axis3,
        own: transform,
        dof: int,
        subspace_bar: motions,
        link: int,
        group: int,
        turn_bar: vectors,
        shift_bar: vectors,
    ):
        """Add the share of the motion subspace; that of a free joint is constant."""
        p = a.position(own)
        r = a.rotation(own)
        if kind == REVOLUTE:
            column_bar = subspace_bar[dof, group]
            add_column_bars(a.rotate(r, a.same_vec3(axis)), p, column_bar, link, group, turn_bar, shift_bar)
        if kind == PRISMATIC:
            turn_bar[link, group] = turn_bar[link, group] + a.cross(
                a.rotate(r, a.same_vec3(axis)), a.linear(subspace_bar[dof, group])
            )
        if kind == SPHERICAL:
            for k in range(3):
                column = a.rotate(r, joints.basis(k))
                add_column_bars(column, p, subspace_bar[dof + k, group], link, group, turn_bar, shift_bar)

    @wp.func
    def add_moved_turn(
        kind: int,
        axis: axis3,
        own: quat,
        q: states2d,
        start: int,
        shift: vec3,
        link: int,
        group: int,
        turn_bar: vectors,
    ):
        """Add the adjoint of the joint frame's rotation due to a link displaced by the joint."""
        if kind == PRISMATIC:
            along = a.rotate(own, a.same_vec3(axis))
            turn_bar[link, group] = turn_bar[link, group] + a.cross(a.scale(a.load(q, group, start), along), shift)
        if kind == FREE:
            joint_turn = joints.load_turn(q, group, start + 3)
            moved = a.rotate(own, a.rotate_back(joint_turn, a.load_vec3(q, group, start)))
            turn_bar[link, group] = turn_bar[link, group] + a.cross(moved, shift)

    @wp.func
    def kept_axes_bar(v: spatial, a_bar: spatial):
        """Return the share of the velocity product in the adjoint of the joint's velocity v, if columns keep their
        axes.
        """
        linear_bar = a.linear(a_bar)
        return a.join(a.cross(linear_bar, a.linear(v)), a.cross(a.angular(v), linear_bar))

    return SimpleNamespace(
        put_q_bars=put_q_bars,
        add_subspace_bars=add_subspace_bars,
        add_moved_turn=add_moved_turn,
        kept_axes_bar=kept_axes_bar,
    )


@functools.cache
def joint_motion_functions(scalar: Any) -> SimpleNamespace:
    """Return the functions that integrate the coordinates of a joint, for one precision, with Warp's own adjoint.

    First come coordinates whose rates are the first velocities, then for some types a quaternion, which turns with the
    three velocities after them.
    """
    quat = warp_types(scalar).quat

    @wp.func
    def linear_coordinates(kind: int):
        """Return the number of coordinates before the quaternion."""
        count = int(0)
        if kind == REVOLUTE or kind == PRISMATIC:
            count = 1
        if kind == FREE:
            count = 3
        return count

    @wp.func
    def has_quaternion(kind: int):
        return kind == SPHERICAL or kind == FREE

    @wp.func
    def turned(kind: int, before: quat, turn: quat):
        """Return the quaternion of a joint after a rotation along the axes of its angular velocity."""
        after = before * turn
        if kind == FREE:
            after = turn * before
        return after

    @wp.func
    def turn_between(kind: int, before: quat, after: quat):
        """Return the rotation from one quaternion of a joint to another; the inverse of ``turned``."""
        turn = wp.quat_inverse(before) * after
        if kind == FREE:
            turn = after * wp.quat_inverse(before)
        return turn

    return SimpleNamespace(
        linear_coordinates=linear_coordinates,
        has_quaternion=has_quaternion,
        turned=turned,
        turn_between=turn_between,
    )
