"""Kernels of :mod:`warp_kernels.solver.impulse` that solve with the factors of the mass matrix, for a lane group at a
time.

They replace the second half of ``apply_impulses``, ``velocity_adjoint``, the second half of ``weight_adjoint``,
``free_step_adjoint`` and the last part of :mod:`warp_kernels.solver.newton.adjoint.regularisation`, for Newton's method
on worlds without bounces, and under MuJoCo's law. The pushes of constraints differ from world to world, and come first.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.cpu.native import Native
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.types import kernel_module, lane_types

# C++ of modules that call these functions, see :mod:`warp_kernels.cpu.native`.
IMPULSE_HEADERS = ("dynamics/impulse_groups.h",)


@functools.cache
def impulse_group_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels and their functions for one precision and a number of worlds in a lane group; empty with one
    lane.
    """
    if lanes == 1:
        return SimpleNamespace()
    a, real = algebra(scalar, lanes), lane_types(scalar, lanes).real
    array2d, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=real)
    JointParameters, Beginning = solver_structs(scalar).JointParameters, solver_structs(scalar).Beginning
    module = kernel_module("impulse_groups", scalar, lanes, headers=IMPULSE_HEADERS)

    native = Native(scalar, lanes, "impulse_groups")

    @native.func_native()
    def factorisation_adjoint(
        group: int,
        nv: int,
        paths: Paths,
        factor_l: array2d,
        factor_d: array2d,
        solver_mass_bar: array2d,
        solver_mass_bar_diagonal: array2d,
    ):
        """Compute the adjoint of the factorisation as for one world."""

    @native.func_native()
    def solve_upper(group: int, nv: int, paths: Paths, factor_l: reals, factor_d: reals, weight: reals):
        """Multiply the weights by D^-1 L'^-1."""

    @native.func_native()
    def find_mass_bars(
        k: int,
        group: int,
        paths: Paths,
        w: real,
        u: real,
        response: reals,
        weight: reals,
        solver_mass_bar: reals,
        mass_bar: reals,
    ):
        """Compute the adjoints of row k of the mass matrix, below its diagonal."""

    @wp.func
    def solve_lower(k: int, value: real, group: int, paths: Paths, factor_l: reals, x: reals):
        """Compute entry k of L^-1 x from the entries above it."""
        found = value
        first = paths.dof_row_start[k]
        for d in range(paths.dof_depth[k]):
            found -= a.mul(factor_l[first + d, group], x[paths.ancestor[first + d], group])
        return found

    @wp.kernel(module=module, enable_backward=False)
    def apply_pushes(
        # Model
        paths: Paths,
        dt: scalar,
        # Data in
        qd: array2d,
        qdd: array2d,
        factor_l: reals,
        factor_d: reals,
        # Data out
        response: reals,
        qd_solved: array2d,
    ):
        """Solve with the mass matrix in place. response: L'^-1 J' lambda becomes M^-1 J' lambda. qd_solved: v+."""
        group = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            push = a.mul(response[k, group], factor_d[k, group])
            found = solve_lower(k, push, group, paths, factor_l, response)
            response[k, group] = found
            a.store(qd_solved, group, k, a.load(qd, group, k) + dt * a.load(qdd, group, k) + found)

    @wp.kernel(module=module, enable_backward=False)
    def begin_weights(
        # Model
        paths: Paths,
        # Data in
        factor_l: reals,
        factor_d: reals,
        # Adjoint in
        qd_solved_bar: array2d,
        # Adjoint out
        weight: reals,
    ):
        """Compute weight = D^-1 L'^-1 v+_bar."""
        group = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            weight[k, group] = a.load_bar(qd_solved_bar, group, k)
        solve_upper(group, nv, paths, factor_l, factor_d, weight)

    @wp.kernel(module=module, enable_backward=False)
    def finish_weights(
        # Model
        paths: Paths,
        # Data in
        factor_l: reals,
        # Adjoint out
        weight: reals,
    ):
        """Multiply weight by L^-1 in place."""
        group = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            weight[k, group] = solve_lower(k, weight[k, group], group, paths, factor_l, weight)

    @wp.kernel(module=module, enable_backward=False)
    def clear_mass_bars(
        # Adjoint out
        solver_mass_bar: reals,
        solver_mass_bar_diagonal: reals,
    ):
        """Set the adjoints of the mass matrix to zero before contributions are added."""
        group = wp.tid()
        for at in range(solver_mass_bar.shape[0]):
            solver_mass_bar[at, group] = real()
        for k in range(solver_mass_bar_diagonal.shape[0]):
            solver_mass_bar_diagonal[k, group] = real()

    @wp.kernel(module=module, enable_backward=False)
    def factorisation_adjoints(
        # Model
        paths: Paths,
        # Data in
        factor_l: array2d,
        factor_d: array2d,
        # Adjoint out
        solver_mass_bar: array2d,
        solver_mass_bar_diagonal: array2d,
    ):
        """Convert the adjoints of L and D, in place, to those of the mass matrix, as for one world."""
        factorisation_adjoint(
            wp.tid(), paths.dof_depth.shape[0], paths, factor_l, factor_d, solver_mass_bar, solver_mass_bar_diagonal
        )  # fmt: skip

    @wp.kernel(module=module, enable_backward=False)
    def free_step_adjoints(
        # Model
        paths: Paths,
        dof_q: wp.array(dtype=int),
        dt: scalar,
        ahead: scalar,
        # Parameters
        joints: JointParameters,
        # Data in
        beginning: Beginning,
        qdd: array2d,
        response: reals,
        qd_solved: array2d,
        damping_loss: array2d,
        damping_weight: array2d,
        # Adjoint in
        weight: reals,
        solver_mass_bar: reals,
        solver_mass_bar_diagonal: reals,
        qd_solved_bar: array2d,
        # Adjoint out
        motion_weight: array2d,
        mass_bar: reals,
        mass_bar_diagonal: reals,
        beginning_bar: Beginning,
        joints_bar: JointParameters,
    ):
        """Compute ``free_step_adjoint``; solver_mass_bar and damping_loss may be empty."""
        group = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            w = weight[k, group]
            u = response[k, group]
            diagonal = -a.mul(w, u)
            first = paths.dof_row_start[k]
            find_mass_bars(k, group, paths, w, u, response, weight, solver_mass_bar, mass_bar)
            if solver_mass_bar_diagonal.shape[0] > 0:
                diagonal += solver_mass_bar_diagonal[k, group]
            change = a.load(qdd, group, k)
            free = a.load(beginning.qd, group, k) + ahead * change
            damping_here = -dt * a.mul(w, free)
            if damping_loss.shape[0] > 0:
                late = a.load_bar(damping_weight, group, k)
                loss = a.load(damping_loss, group, k)
                diagonal += a.mul(late, loss)
                damping_here += dt * a.mul(late, loss - a.load(qd_solved, group, k) + a.load(beginning.qd, group, k))
                for d in range(paths.dof_depth[k]):
                    j = paths.ancestor[first + d]
                    bar = a.mul(late, a.load(damping_loss, group, j)) + a.mul(
                        a.load_bar(damping_weight, group, j), loss
                    )
                    mass_bar[first + d, group] += bar
            mass_bar_diagonal[k, group] = diagonal
            a.store(motion_weight, group, k, -dt * w)
            if beginning_bar.tau.shape[0] > 0:
                a.add(beginning_bar.tau, group, k, dt * w)
            damp = a.load_param_scalar(joints.damping, group, k)
            if joints_bar.armature.shape[0] > 0:
                a.add_scalar(joints_bar.armature, group, k, diagonal - dt * a.mul(w, change))
            if joints_bar.damping.shape[0] > 0:
                a.add_scalar(joints_bar.damping, group, k, ahead * diagonal + damping_here)
            speed_bar = a.load_bar(qd_solved_bar, group, k) - dt * a.mul(damp, w)
            if dof_q[k] >= 0:
                spring = a.load_param_scalar(joints.stiffness, group, k)
                pull = dt * a.mul(spring, w)
                speed_bar -= ahead * pull
                a.add(beginning_bar.q, group, dof_q[k], -pull)
                if joints_bar.stiffness.shape[0] > 0:
                    rest = a.load_param_scalar(joints.rest_position, group, k)
                    stretch = a.load(beginning.q, group, dof_q[k]) - rest + ahead * free
                    a.add_scalar(joints_bar.stiffness, group, k, dt * (ahead * diagonal - a.mul(w, stretch)))
                if joints_bar.rest_position.shape[0] > 0:
                    a.add_scalar(joints_bar.rest_position, group, k, pull)
            a.add(beginning_bar.qd, group, k, speed_bar)

    return SimpleNamespace(
        module=module,
        solve_upper=solve_upper,
        solve_lower=solve_lower,
        apply_pushes=apply_pushes,
        begin_weights=begin_weights,
        finish_weights=finish_weights,
        clear_mass_bars=clear_mass_bars,
        factorisation_adjoints=factorisation_adjoints,
        free_step_adjoints=free_step_adjoints,
    )
