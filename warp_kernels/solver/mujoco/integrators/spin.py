"""Free bodies under MuJoCo's integrator "implicitfast": implicit gyroscopic forces of bodies without child joints.

With the mass matrix M, the forces b of the body's motion, joint damping D, and the change d of the velocity without
their derivatives, a step changes the velocity by ``x = (M + h D + h db/dv)^-1 M d``. Of a body with the mass m, the
offset c of its centre of mass, the inertia I about the reference point and the angular velocity w, all along world
axes, and with the armature A on the diagonal,

    M = (m, -m [c]; m [c], I) + A,    db/dv = (0, -m ([w x c] + [w] [c]); 0, [w] I - [I w]).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def spin_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (body, world)."""
    t = warp_types(scalar)
    common = row_functions(scalar)
    vec3, mat33, inertia10 = t.vec3, t.mat33, t.inertia
    mat23 = wp.types.matrix((2, 3), scalar)
    module = kernel_module("mujoco_spin", scalar)

    @wp.func
    def arm(body: inertia10):
        """Return m c."""
        return vec3(body[1], body[2], body[3])

    @wp.func
    def about(body: inertia10):
        """Return I."""
        return mat33(body[4], body[7], body[8], body[7], body[5], body[9], body[8], body[9], body[6])

    @wp.func
    def upper(body: inertia10, spin: vec3, dt: scalar):
        """Return the block of the system that maps angular changes to forces."""
        across = wp.skew(wp.cross(spin, arm(body))) + wp.skew(spin) * wp.skew(arm(body))
        return -wp.skew(arm(body)) - dt * across

    @wp.func
    def momentum(body: inertia10, shift: vec3, turn: vec3, armature: mat23):
        """Return the linear part of M times a change of velocity."""
        return wp.cw_mul(vec3(body[0]) + armature[0], shift) - wp.cross(arm(body), turn)

    @wp.func
    def angular_change(
        body: inertia10, spin: vec3, shift: vec3, turn: vec3, armature: mat23, damping: mat23, dt: scalar
    ):
        """Return the angular part of x, for the linear and the angular part of d. Rows of armature and damping are of
        either.
        """
        inverse = wp.diag(wp.cw_div(vec3(scalar(1.0)), vec3(body[0]) + armature[0] + dt * damping[0]))
        moved = wp.skew(arm(body)) * inverse
        inertia = about(body)
        grown = inertia + wp.diag(armature[1])
        lower = grown + dt * (wp.diag(damping[1]) + wp.skew(spin) * inertia - wp.skew(inertia * spin))
        asked = wp.cross(arm(body), shift) + grown * turn - moved * momentum(body, shift, turn, armature)
        return wp.inverse(lower - moved * upper(body, spin, dt)) * asked

    @wp.func
    def linear_change(
        body: inertia10, spin: vec3, shift: vec3, turn: vec3, armature: mat23, damping: mat23, change: vec3, dt: scalar
    ):
        """Return the linear part of x, whose angular part is ``change``."""
        left = momentum(body, shift, turn, armature) - upper(body, spin, dt) * change
        return wp.cw_div(left, vec3(body[0]) + armature[0] + dt * damping[0])

    @wp.func
    def power(
        body: inertia10,
        spin: vec3,
        shift: vec3,
        turn: vec3,
        armature: mat23,
        damping: mat23,
        dt: scalar,
        shift_bar: vec3,
        turn_bar: vec3,
    ):
        change = angular_change(body, spin, shift, turn, armature, damping, dt)
        moved = linear_change(body, spin, shift, turn, armature, damping, change, dt)
        return wp.dot(turn_bar, change) + wp.dot(shift_bar, moved)

    @wp.func
    def three(values: wp.array2d(dtype=scalar), world: int, k: int):
        return vec3(values[world, k], values[world, k + 1], values[world, k + 2])

    @wp.func
    def six_of(parameter: wp.array2d(dtype=scalar), world: int, k: int):
        """Return the six values of a parameter, shared or per world: those of translation, then of rotation."""
        row = wp.min(world, parameter.shape[0] - 1)
        return mat23(
            parameter[row, k], parameter[row, k + 1], parameter[row, k + 2],
            parameter[row, k + 3], parameter[row, k + 4], parameter[row, k + 5],
        )  # fmt: skip

    @wp.func
    def whole(first: int, last: int, world: int, link_inertia: wp.array2d(dtype=inertia10)):
        """Return the inertia of all links of a body."""
        total = inertia10()
        for link in range(first, last):
            total += link_inertia[link, world]
        return total

    @wp.kernel(module=module, enable_backward=False)
    def spin(
        # Model
        spinning_tree: wp.array(dtype=int),
        tree_link_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        armature: wp.array2d(dtype=scalar),
        damping: wp.array2d(dtype=scalar),
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        # Data out
        qd_next: wp.array2d(dtype=scalar),
    ):
        """Overwrite qd_next of these bodies [world, dof], which joint damping alone has computed."""
        number, world = wp.tid()
        tree = spinning_tree[number]
        first = tree_link_start[tree]
        k = joint_qd_start[first]
        body = whole(first, tree_link_start[tree + 1], world, link_inertia)
        before = three(qd, world, k + 3)
        shift = three(qd_solved, world, k) - three(qd, world, k)
        turn = three(qd_solved, world, k + 3) - before
        own_armature, own_damping = six_of(armature, world, k), six_of(damping, world, k)
        change = angular_change(body, before, shift, turn, own_armature, own_damping, dt)
        moved = linear_change(body, before, shift, turn, own_armature, own_damping, change, dt)
        for axis in range(3):
            qd_next[world, k + axis] = qd[world, k + axis] + moved[axis]
            qd_next[world, k + 3 + axis] = before[axis] + change[axis]

    # A separate module, for wp.grad (see warp_kernels.solver.pgs).
    adjoint_module = kernel_module("mujoco_spin_adjoint", scalar)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def spin_adjoint(
        # Model
        spinning_tree: wp.array(dtype=int),
        tree_link_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        armature: wp.array2d(dtype=scalar),
        damping: wp.array2d(dtype=scalar),
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        # Adjoint in
        qd_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        qd_solved_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        armature_bar: wp.array2d(dtype=scalar),
        damping_bar: wp.array2d(dtype=scalar),
        damping_weight: wp.array2d(dtype=scalar),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Overwrite qd_solved_bar, qd_bar and damping_weight of these bodies, which the adjoint of joint damping alone
        has computed.
        """
        number, world = wp.tid()
        tree = spinning_tree[number]
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        k = joint_qd_start[first]
        body = whole(first, last, world, link_inertia)
        before = three(qd, world, k + 3)
        shift = three(qd_solved, world, k) - three(qd, world, k)
        turn = three(qd_solved, world, k + 3) - before
        own_armature, own_damping = six_of(armature, world, k), six_of(damping, world, k)
        shift_bar = three(qd_next_bar, world, k)
        turn_bar = three(qd_next_bar, world, k + 3)
        body_bar, spin_bar, push_bar, gain_bar, own_armature_bar, own_damping_bar, _dt, _shift, _turn = wp.grad(power)(
            body, before, shift, turn, own_armature, own_damping, dt, shift_bar, turn_bar
        )
        for axis in range(3):
            qd_solved_bar[world, k + axis] = push_bar[axis]
            qd_solved_bar[world, k + 3 + axis] = gain_bar[axis]
            qd_bar[world, k + axis] += shift_bar[axis] - push_bar[axis]
            qd_bar[world, k + 3 + axis] += turn_bar[axis] + spin_bar[axis] - gain_bar[axis]
        for part in range(2):
            for axis in range(3):
                at = k + 3 * part + axis
                qd_bar[world, at] -= dt * own_damping[part, axis] * damping_weight[world, at]
                damping_weight[world, at] = scalar(0.0)
                common.add_at(armature_bar, world, at, own_armature_bar[part, axis])
                common.add_at(damping_bar, world, at, own_damping_bar[part, axis])
        for link in range(first, last):
            link_inertia_bar[link, world] += body_bar

    return SimpleNamespace(modules=(module, adjoint_module), spin=spin, spin_adjoint=spin_adjoint)
