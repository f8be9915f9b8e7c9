"""Joint damping as in MuJoCo's Euler integrator: after the constraints, implicit in the velocity.

MuJoCo solves for the acceleration a with the damping of the present velocity, and then moves with ``(M + h D)^-1 M a``. With the velocity v
that a leads to, the velocity after the step is ``v+ = v - c`` with ``(M + h D) c = h D (v - qd)``. Its adjoint solves the same system for ``w =
(M + h D)^-1 v+_bar``: that of v is ``v+_bar - h D w``, that of M is ``w c'``, and that of D ``h w (c - v + qd)``.

The factors of M + h D come from those of M (:mod:`warp_kernels.dynamics.factor`): going from the leaves to the root, what the
damping of a degree of freedom changes in the rows of its ancestors is handed on.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.solver.impulse_groups import IMPULSE_HEADERS, impulse_group_kernels
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def damping_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Kernels over groups for one precision and a number of worlds in a lane group."""
    a, real = algebra(scalar, lanes), lane_types(scalar, lanes).real
    module = kernel_module("mujoco_damping", scalar, lanes, headers=IMPULSE_HEADERS if lanes > 1 else ROW_HEADERS)
    array2d, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=real)
    one = scalar(1.0)

    @wp.func
    def implicit_damping(dt: scalar, damping: array2d, servo_damping: reals, group: int, k: int):
        """h D: of the joint and, where there are any (no rows without), of its actuators."""
        total = a.load_param_scalar(damping, group, k)
        if servo_damping.shape[0] > 0:
            total += servo_damping[k, group]
        return dt * total

    @wp.func
    def factor_damped(
        dt: scalar, damping: array2d, servo_damping: reals, factor_l: reals, factor_d: reals, group: int, paths: Paths,
        damped_l: reals, damped_d: reals,
    ):  # fmt: skip
        """The factors of M + h D. A row holds what it is changed by until its own turn comes."""
        nv = paths.dof_depth.shape[0]
        for at in range(damped_l.shape[0]):
            damped_l[at, group] = a.real(scalar(0.0))
        for k in range(nv):
            damped_d[k, group] = implicit_damping(dt, damping, servo_damping, group, k)
        for back in range(nv):
            k = nv - 1 - back
            first = paths.dof_row_start[k]
            before = a.div(a.real(one), factor_d[k, group])
            after = before + damped_d[k, group]
            inverse = a.div(a.real(one), after)
            damped_d[k, group] = inverse
            for d in range(paths.dof_depth[k]):
                j = paths.ancestor[first + d]
                above = paths.dof_row_start[j]
                own = factor_l[first + d, group]
                left = a.mul(before, own)
                found = a.mul(left + damped_l[first + d, group], inverse)
                damped_l[first + d, group] = found
                taken = a.mul(after, found)
                damped_d[j, group] += a.mul(left, own) - a.mul(taken, found)
                for e in range(d):
                    change = a.mul(left, factor_l[first + e, group]) - a.mul(taken, damped_l[first + e, group])
                    damped_l[above + e, group] += change

    if lanes == 1:
        solve = product_functions(scalar).solve
    else:
        along = impulse_group_kernels(scalar, lanes)

        @wp.func
        def solve(group: int, paths: Paths, damped_l: reals, damped_d: reals, x: reals):
            """x := (M + h D)^-1 x [dof, group]."""
            nv = paths.dof_depth.shape[0]
            along.solve_upper(group, nv, paths, damped_l, damped_d, x)
            for k in range(nv):
                x[k, group] = along.solve_lower(k, x[k, group], group, paths, damped_l, x)

    @wp.kernel(module=module, enable_backward=False)
    def damp(
        # Model
        paths: Paths,
        dt: scalar,
        # Parameters
        damping: array2d,
        # Data in
        qd: array2d,
        qd_solved: array2d,
        servo_damping: reals,
        factor_l: reals,
        factor_d: reals,
        # Data out
        damped_l: reals,
        damped_d: reals,
        damping_scratch: reals,
        damping_loss: array2d,
        qd_next: array2d,
    ):
        """v+ and c; damped_l and damped_d are kept for the way back."""
        group = wp.tid()
        factor_damped(dt, damping, servo_damping, factor_l, factor_d, group, paths, damped_l, damped_d)
        for k in range(paths.dof_depth.shape[0]):
            change = a.load(qd_solved, group, k) - a.load(qd, group, k)
            damping_scratch[k, group] = a.mul(implicit_damping(dt, damping, servo_damping, group, k), change)
        solve(group, paths, damped_l, damped_d, damping_scratch)
        for k in range(paths.dof_depth.shape[0]):
            loss = damping_scratch[k, group]
            a.store(damping_loss, group, k, loss)
            a.store(qd_next, group, k, a.load(qd_solved, group, k) - loss)

    @wp.kernel(module=module, enable_backward=False)
    def damping_adjoint(
        # Model
        paths: Paths,
        dt: scalar,
        # Parameters
        damping: array2d,
        # Data in
        servo_damping: reals,
        damped_l: reals,
        damped_d: reals,
        # Adjoint in
        qd_next_bar: array2d,
        # Adjoint out
        damping_scratch: reals,
        damping_weight: array2d,
        qd_solved_bar: array2d,
        qd_bar: array2d,
    ):
        """damping_weight: w. What reaches M and D is added in :mod:`warp_kernels.solver.impulse`."""
        group = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            damping_scratch[k, group] = a.load_bar(qd_next_bar, group, k)
        solve(group, paths, damped_l, damped_d, damping_scratch)
        for k in range(paths.dof_depth.shape[0]):
            weight = damping_scratch[k, group]
            back = a.mul(implicit_damping(dt, damping, servo_damping, group, k), weight)
            a.store(damping_weight, group, k, weight)
            a.store(qd_solved_bar, group, k, a.load_bar(qd_next_bar, group, k) - back)
            a.add(qd_bar, group, k, back)

    return SimpleNamespace(module=module, damp=damp, damping_adjoint=damping_adjoint)
