"""Final stage of a step for floating bases: the centre of mass moves along a straight line, not the origin of the link.

With the arm a from the origin to the centre before a step, the arm b = exp(h w) a after it, and the solver's velocity v
of the origin and spin w at the arm a, the centre moves by h (v + w x a). So the origin moves by

    h v + (a - b + h w x a),   and its velocity after the step is   v + w x (a - b).

For the position, v and w are those of the position velocity, which differs from the next velocity if contacts bounce.
The solver's v must not contain the centripetal acceleration of the origin about the centre: ``lift`` of
:mod:`warp_kernels.dynamics.gyroscopic` removes it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.kinematics.low_words import low_word_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def recentre_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of the arm and of its change in a step, for one precision."""
    t = warp_types(scalar)
    vec3, inertia10 = t.vec3, t.inertia
    rotation_exp, words = rotation_vector_functions(scalar).rotation_exp, low_word_functions(scalar)

    @wp.func
    def three(x: wp.array2d(dtype=scalar), world: int, k: int):
        """Return three numbers of a world, from the k-th on."""
        return vec3(x[world, k], x[world, k + 1], x[world, k + 2])

    @wp.func
    def arm_of(rigid: inertia10):
        """Return the vector from the origin of a tree's root to the root's centre of mass, in world axes; zero without
        a mass.
        """
        arm = vec3()
        if rigid[0] > scalar(0.0):
            arm = vec3(rigid[1], rigid[2], rigid[3]) / rigid[0]
        return arm

    @wp.func
    def arm_change(arm: vec3, path: vec3, dt: scalar):
        """Return the arm before a step minus that after it, a - b."""
        return arm - wp.quat_rotate(rotation_exp(dt * path), arm)

    @wp.func
    def shift_power(arm: vec3, path: vec3, spin: vec3, dt: scalar, p_bar: vec3, v_bar: vec3):
        """Return the changes of the origin's position and velocity, multiplied by their adjoints.

        path, spin: angular velocity of the path, and that after the step.
        """
        change = arm_change(arm, path, dt)
        return wp.dot(p_bar, change + dt * wp.cross(path, arm)) + wp.dot(v_bar, wp.cross(spin, change))

    @wp.func
    def move_origin(
        q: wp.array2d(dtype=scalar), q_low: wp.array2d(dtype=scalar), world: int, start: int, low: int, shift: vec3
    ):
        """Move an origin, whose low words begin at ``low`` if they have columns."""
        for n in range(wp.static(3)):
            if q_low.shape[1] > 0 and words.is_far(q[world, start + n]):
                moved = words.add_far(q[world, start + n], q_low[world, low + n], shift[n])
                q[world, start + n] = moved[0]
                q_low[world, low + n] = moved[1]
            else:
                q[world, start + n] += shift[n]

    return SimpleNamespace(
        three=three, arm_of=arm_of, arm_change=arm_change, shift_power=shift_power, move_origin=move_origin
    )


@functools.cache
def recentre_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (floating base, world): ``recentre`` and its adjoint, and
    ``path_acceleration`` with Warp's adjoint.
    """
    t = warp_types(scalar)
    vec3, inertia10 = t.vec3, t.inertia
    functions = recentre_functions(scalar)
    three, arm_of = functions.three, functions.arm_of
    arm_change, shift_power = functions.arm_change, functions.shift_power
    move_origin = functions.move_origin
    module = kernel_module("recentre", scalar)

    @wp.func
    def arm_power(rigid: inertia10, arm_bar: vec3):
        return wp.dot(arm_of(rigid), arm_bar)

    @wp.kernel(module=module, enable_backward=False)
    def recentre(
        # Model
        floating_link: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        low_start: wp.array(dtype=int),
        dt: scalar,
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        qd_path: wp.array2d(dtype=scalar),
        # Data out
        q_next: wp.array2d(dtype=scalar),
        q_low_next: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
    ):
        """Move origins after the integration of q_next along qd_path, which may be qd_next itself."""
        item, world = wp.tid()
        link = floating_link[item]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        arm = arm_of(link_inertia[link, world])
        path = three(qd_path, world, k + 3)
        change = arm_change(arm, path, dt)
        shift = change + dt * wp.cross(path, arm)
        gain = wp.cross(three(qd_next, world, k + 3), change)
        move_origin(q_next, q_low_next, world, i, low_start[link], shift)
        for n in range(wp.static(3)):
            qd_next[world, k + n] += gain[n]

    @wp.kernel(module=module, enable_backward=False)
    def recentre_adjoint(
        # Model
        floating_link: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        qd_path: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
        # Adjoint in
        q_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        qd_path_bar: wp.array2d(dtype=scalar),
        qd_next_bar: wp.array2d(dtype=scalar),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Add to the adjoints, before the adjoint of the integration does. qd_next: the velocity before
        ``recentre``.
        """
        item, world = wp.tid()
        link = floating_link[item]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        rigid = link_inertia[link, world]
        arm_bar, path_bar, spin_bar, _dt, _p_bar, _v_bar = wp.grad(shift_power)(
            arm_of(rigid),
            three(qd_path, world, k + 3),
            three(qd_next, world, k + 3),
            dt,
            three(q_next_bar, world, i),
            three(qd_next_bar, world, k),
        )
        rigid_bar, _arm_bar = wp.grad(arm_power)(rigid, arm_bar)
        link_inertia_bar[link, world] += rigid_bar
        for n in range(wp.static(3)):
            qd_path_bar[world, k + 3 + n] += path_bar[n]
            qd_next_bar[world, k + 3 + n] += spin_bar[n]

    drift_module = kernel_module("recentre_drift", scalar, inlined=True)

    @wp.kernel(module=drift_module)
    def path_acceleration(
        # Model
        floating_link: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        # Data in
        lift: wp.array2d(dtype=vec3),
        # Data out
        qdd: wp.array2d(dtype=scalar),
    ):
        """Compute the acceleration of the origin while the centre of mass and the spin keep their velocities."""
        item, world = wp.tid()
        link = floating_link[item]
        k = joint_qd_start[link]
        away = lift[link_tree[link], world]
        for n in range(wp.static(3)):
            qdd[world, k + n] = -away[n]

    return SimpleNamespace(
        module=module, recentre=recentre, recentre_adjoint=recentre_adjoint, path_acceleration=path_acceleration
    )
