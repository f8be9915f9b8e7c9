"""First half of a step from the middle: positions move with the velocities before the step.

A floating base moves as in :mod:`warp_kernels.kinematics.recentre`: its centre of mass along a straight line. Its arm
follows from its orientation, since there are no kinematics before the drift.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.kinematics.low_words import low_word_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.kinematics.recentre import recentre_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def half_drift_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision: ``begin_middle`` and its adjoint over worlds, after and before those of
    :mod:`warp_kernels.kinematics.integrate`, and ``reflect_velocity`` over (dof, world), with Warp's adjoint.
    """
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    ints, array2d, vectors = wp.array(dtype=int), wp.array2d(dtype=scalar), wp.array2d(dtype=t.vec3)
    functions = recentre_functions(scalar)
    three, arm_change, shift_power = functions.three, functions.arm_change, functions.shift_power
    move_origin, origin_low_words = functions.move_origin, low_word_functions(scalar).origin_low_words
    module, adjoint_module = (kernel_module(name, scalar) for name in ("half_drift", "half_drift_adjoint"))
    reflection_module = kernel_module("reflect_velocity", scalar, inlined=True)

    @wp.func
    def turn_at(q: array2d, world: int, i: int):
        return quat(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3])

    @wp.func
    def centre_of(mass: array2d, com: vectors, world: int, link: int):
        """Return the centre of mass of a link in its frame; zero without a mass."""
        centre = vec3()
        if mass[wp.min(world, mass.shape[0] - 1), link] > scalar(0.0):
            centre = com[wp.min(world, com.shape[0] - 1), link]
        return centre

    @wp.func
    def arm_power(turn: quat, centre: vec3, arm_bar: vec3):
        """Return the arm times its adjoint."""
        return wp.dot(wp.quat_rotate(turn * (scalar(1.0) / wp.length(turn)), centre), arm_bar)

    @wp.kernel(module=module, enable_backward=False)
    def begin_middle(
        # Model
        floating_link: ints,
        joint_q_start: ints,
        joint_qd_start: ints,
        links: Links,
        low_start: ints,
        joint_axis: wp.array(dtype=vec3),
        drift_time: scalar,
        # Parameters
        joint_placement: wp.array2d(dtype=t.transform),
        mass: array2d,
        com: vectors,
        # Data in
        first_q: array2d,
        first_qd: array2d,
        # Data out
        q: array2d,
        q_low: array2d,
        qd: array2d,
        origin_low: vectors,
    ):
        """Compute the velocities in the middle, and move the origins of floating bases."""
        world = wp.tid()
        for k in range(qd.shape[1]):
            qd[world, k] = first_qd[world, k]
        for item in range(floating_link.shape[0]):
            link = floating_link[item]
            i = joint_q_start[link]
            k = joint_qd_start[link]
            arm = wp.quat_rotate(wp.normalize(turn_at(first_q, world, i + 3)), centre_of(mass, com, world, link))
            spin = three(first_qd, world, k + 3)
            change = arm_change(arm, spin, drift_time)
            shift = change + drift_time * wp.cross(spin, arm)
            gain = wp.cross(spin, change)
            move_origin(q, q_low, world, i, low_start[link], shift)
            for n in range(wp.static(3)):
                qd[world, k + n] += gain[n]
        origin_low_words(links, low_start, joint_axis, joint_placement, q_low, world, origin_low)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def begin_middle_adjoint(
        # Model
        floating_link: ints,
        joint_q_start: ints,
        joint_qd_start: ints,
        drift_time: scalar,
        # Parameters
        mass: array2d,
        com: vectors,
        # Data in
        first_q: array2d,
        first_qd: array2d,
        # Adjoint in
        q_bar: array2d,
        qd_bar: array2d,
        # Adjoint out
        first_q_bar: array2d,
        first_qd_bar: array2d,
        com_bar: vectors,
    ):
        """Compute the adjoints of the state, before the adjoint of the integration adds to them."""
        world = wp.tid()
        for i in range(first_q_bar.shape[1]):
            first_q_bar[world, i] = scalar(0.0)
        for k in range(first_qd_bar.shape[1]):
            first_qd_bar[world, k] = qd_bar[world, k]
        for item in range(floating_link.shape[0]):
            link = floating_link[item]
            i = joint_q_start[link]
            k = joint_qd_start[link]
            turn = turn_at(first_q, world, i + 3)
            centre = centre_of(mass, com, world, link)
            spin = three(first_qd, world, k + 3)
            arm_bar, path_bar, spin_bar, _dt, _p_bar, _v_bar = wp.grad(shift_power)(
                wp.quat_rotate(wp.normalize(turn), centre),
                spin,
                spin,
                drift_time,
                three(q_bar, world, i),
                three(qd_bar, world, k),
            )
            turn_bar, centre_bar, _arm_bar = wp.grad(arm_power)(turn, centre, arm_bar)
            for n in range(wp.static(3)):
                first_qd_bar[world, k + 3 + n] += path_bar[n] + spin_bar[n]
            for part in range(wp.static(4)):
                first_q_bar[world, i + 3 + part] += turn_bar[part]
            if com_bar.shape[0] > 0 and mass[wp.min(world, mass.shape[0] - 1), link] > scalar(0.0):
                wp.atomic_add(com_bar, wp.min(world, com_bar.shape[0] - 1), link, centre_bar)

    @wp.kernel(module=reflection_module)
    def reflect_velocity(
        # Data in
        qd_path: array2d,
        qd_next: array2d,
        # Data out
        qd_drift: array2d,
    ):
        """Compute the velocity of the second half of a step in which contacts bounce: positions move by h times the
        velocity of the path from one middle to the next, of which the next step moves the last half.
        """
        k, world = wp.tid()
        qd_drift[world, k] = scalar(2.0) * qd_path[world, k] - qd_next[world, k]

    return SimpleNamespace(
        module=module,
        begin_middle=begin_middle,
        begin_middle_adjoint=begin_middle_adjoint,
        reflect_velocity=reflect_velocity,
    )
