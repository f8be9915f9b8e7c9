"""Joint damping as in MuJoCo's Euler integrator: after the constraints, implicit in the velocity.

MuJoCo solves for the acceleration a with the damping of the present velocity, and then moves with ``(M + h D)^-1 M a``. With the velocity v
that a leads to, the velocity after the step is ``v+ = v - c`` with ``(M + h D) c = h D (v - qd)``. Its adjoint solves the same system for ``w =
(M + h D)^-1 v+_bar``: that of v is ``v+_bar - h D w``, that of M is ``w c'``, and that of D ``h w (c - v + qd)``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.types import kernel_module


@functools.cache
def damping_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision over (thread, world), before and after a solve with M + h D."""
    common = row_functions(scalar)
    module = kernel_module("mujoco_damping", scalar)

    @wp.func
    def implicit_damping(
        damping: wp.array2d(dtype=scalar), servo_damping: wp.array2d(dtype=scalar), world: int, k: int
    ):
        """That of the joint and, where there are any (no rows without), of its actuators."""
        total = common.value_of(damping, world, k)
        if servo_damping.shape[0] > 0:
            total += servo_damping[k, world]
        return total

    @wp.kernel(module=module, enable_backward=False)
    def damping_momentum(
        # Model
        threads: int,
        dt: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        servo_damping: wp.array2d(dtype=scalar),
        # Data out
        damped_armature: wp.array2d(dtype=scalar),
        damping_push: wp.array2d(dtype=scalar),
    ):
        """damped_armature: what stands on the diagonal, h D included; damping_push: h D (v - qd)."""
        thread, world = wp.tid()
        for k in range(thread, qd.shape[1], threads):
            own = dt * implicit_damping(damping, servo_damping, world, k)
            damped_armature[world, k] = common.value_of(armature, world, k) + own
            damping_push[world, k] = own * (qd_solved[world, k] - qd[world, k])

    @wp.kernel(module=module, enable_backward=False)
    def damp_velocity(
        # Model
        threads: int,
        # Data in
        qd_solved: wp.array2d(dtype=scalar),
        damping_loss: wp.array2d(dtype=scalar),
        # Data out
        qd_next: wp.array2d(dtype=scalar),
    ):
        """v+ = v - c."""
        thread, world = wp.tid()
        for k in range(thread, qd_solved.shape[1], threads):
            qd_next[world, k] = qd_solved[world, k] - damping_loss[world, k]

    @wp.kernel(module=module, enable_backward=False)
    def damping_adjoint(
        # Model
        threads: int,
        dt: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        # Data in
        servo_damping: wp.array2d(dtype=scalar),
        # Adjoint in
        qd_next_bar: wp.array2d(dtype=scalar),
        damping_weight: wp.array2d(dtype=scalar),
        # Adjoint out
        qd_solved_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
    ):
        """From w, the damping_weight [world, dof]. What reaches M and D is added in :mod:`warp_kernels.solver.impulse`."""
        thread, world = wp.tid()
        for k in range(thread, damping_weight.shape[1], threads):
            back = dt * implicit_damping(damping, servo_damping, world, k) * damping_weight[world, k]
            qd_solved_bar[world, k] = qd_next_bar[world, k] - back
            qd_bar[world, k] += back

    return SimpleNamespace(
        module=module, damping_momentum=damping_momentum, damp_velocity=damp_velocity, damping_adjoint=damping_adjoint
    )
