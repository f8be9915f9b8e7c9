"""Parts of a Newton step on the worlds of a lane group.

Each function is its namesake of :mod:`warp_kernels.solver.newton.residual` or :mod:`warp_kernels.solver.newton.descent`
for all worlds of a group. The constraint laws, which branch, are evaluated world by world, except for MuJoCo's
(:mod:`warp_kernels.solver.mujoco.group_laws`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.group_laws import mujoco_group_law_functions
from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.structs import (
    MOST_CONSTRAINTS,
    SOLVED,
    UNSOLVED,
    group_slot_functions,
    group_structs,
)
from warp_kernels.solver.newton.group.system import group_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import LEAST_INVERSE, warp_types


@functools.cache
def group_step_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Return the Warp functions for one precision, friction model or cone of MuJoCo's, and number of worlds in a lane
    group.
    """
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    f = residual_functions(scalar, friction)
    laws = f.laws
    descent = descent_functions(scalar, friction)
    together, slots = group_functions(scalar, lanes), group_slot_functions(scalar, lanes)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Group, Work = group_structs(scalar).Group, group_structs(scalar).Work
    zero = scalar(0.0)
    by_mujoco = friction in CONES.values()
    side = mujoco_group_law_functions(scalar, friction, lanes)

    @wp.func
    def has(i: int, world: int, constraints: Constraints):
        """Return whether the world exists and has that many constraints."""
        return world < constraints.count.shape[0] and i < constraints.count[world]

    @wp.func
    def gather(group: int, most: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, shared: Group):
        """Interleave the rows of all worlds in their order."""
        for i in range(most):
            together.gather_rows(i, group, nv, paths, constraints.tail, problem.row, shared)

    @wp.func
    def get_three(n: int, shared: Group):
        return vec3(shared.three[n], shared.three[lanes + n], shared.three[2 * lanes + n])

    @wp.func
    def set_three(n: int, x: vec3, shared: Group):
        for r in range(3):
            shared.three[r * lanes + n] = x[r]

    @wp.func
    def find_impulses_one_by_one(recalls: bool, work: Work):
        """Compute row values and impulses at z, and subtract the impulses' momenta from the residual; zero for waiting
        worlds. If it ``recalls``, the values of worlds that are ``recalled`` are those of the previous time step.
        """
        for i in range(work.most):
            together.find_values(i, work.group, work.nv, work.iterate.z, work.shared)
            for n in range(lanes):
                world = work.group * lanes + n
                impulse = vec3()
                if work.shared.waits[n] == 0 and has(i, world, work.constraints):
                    value = work.problem.value_before[i, world] + get_three(n, work.shared)
                    if recalls and work.shared.recalled[n] == 1:
                        value[0] = value[0] - work.problem.bias_change[i, world]
                    work.iterate.value[i, world] = value
                    kind = work.constraints.kind[i, world]
                    item = work.constraints.item[i, world]
                    bounds = f.impulse_bounds(i, kind, item, world, COUPLED, work.problem, work.iterate)
                    impulse = laws.impulse_at(kind, value, work.problem.row_stiffness[i, world], bounds)
                    work.iterate.impulse[i, world] = impulse
                set_three(n, impulse, work.shared)
            together.take_push(i, work.group, work.nv, work.shared, work.iterate.residual)

    @wp.func
    def find_residuals(recalls: bool, work: Work):
        """Compute row values, impulses, the residual and its square at z; the last two are zero for waiting worlds. See
        :func:`find_impulses_one_by_one`.
        """
        together.begin_residual(
            work.group, work.nv, work.iterate.z, work.iterate.z_before, work.problem.inverse_mass, work.iterate.residual
        )
        if wp.static(by_mujoco):
            side.find_impulses(work.group, work.most, work.nv, work.iterate.z, work.shared, work.iterate.residual)
        else:
            find_impulses_one_by_one(recalls, work)
        together.find_square(work.group, work.nv, work.problem.inverse_mass, work.iterate.residual, work.shared)

    @wp.func
    def find_slopes(i: int, group: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group):
        """Compute slopes of the impulses in slot i of each world that doesn't wait, and whether any of them is
        active.
        """
        first = 9 * lanes * i
        shared.active[i] = 0
        for n in range(lanes):
            world = group * lanes + n
            own = mat33()
            constraint = shared.slot_constraint[i * lanes + n]
            if shared.waits[n] == 0 and constraint >= 0:
                kind = constraints.kind[constraint, world]
                item = constraints.item[constraint, world]
                own, follows = f.slopes(constraint, kind, item, world, COUPLED, problem, iterate)
                if wp.ddot(own, own) > zero:
                    shared.active[i] = 1
                if wp.dot(follows, follows) > zero:
                    shared.coupled[n] = 1
            for r in range(3):
                for c in range(3):
                    shared.slope[first + (3 * r + c) * lanes + n] = own[r, c]

    @wp.func
    def factorise_slopes(group: int, most: int, nv: int, problem: Problem, shared: Group):
        """Assemble and factor the systems of the slopes."""
        any_coupled = bool(False)
        for n in range(lanes):
            any_coupled = any_coupled or shared.coupled[n] == 1
        together.begin_system(group, most, nv, problem.inverse_mass, shared)
        for i in range(most):
            if shared.active[i] == 1:
                together.add_constraint(i, nv, any_coupled, shared)
        together.factorise(nv, any_coupled, shared)

    @wp.func
    def factorise_systems(work: Work):
        """Assemble the systems of all worlds and factor them."""
        for n in range(lanes):
            work.shared.coupled[n] = 0
        if wp.static(by_mujoco):
            side.find_slopes(work.most, work.shared)
        else:
            for i in range(work.most):
                find_slopes(i, work.group, work.constraints, work.problem, work.iterate, work.shared)
        factorise_slopes(work.group, work.most, work.nv, work.problem, work.shared)

    @wp.func
    def find_steps(work: Work):
        """Compute the steps of all worlds from their systems and residuals."""
        factorise_systems(work)
        together.solve_systems(work.group, work.nv, work.iterate.residual, work.shared, work.iterate.step)

    @wp.func
    def pushes(n: int, world: int, most: int, constraints: Constraints, iterate: Iterate, shared: Group):
        """Return whether any constraint of a world has an impulse."""
        if wp.static(by_mujoco):
            return side.pushes(most, n, shared)
        else:
            return descent.pushes(world, constraints.count[world], iterate)

    @wp.func
    def start(work: Work):
        """Set z to the initial guess of each world."""
        together.start_at(
            work.group, work.nv, scalar(LEAST_INVERSE), work.shared.moves, work.problem.inverse_mass,
            work.iterate.z_before, work.iterate.z,
        )  # fmt: skip

    @wp.func
    def begin_all(work: Work):
        """Start each world like ``begin`` of :func:`warp_kernels.solver.newton.descent.initial_guesses`."""
        recalls = bool(False)
        if wp.static(f.coupled):
            recalls = work.problem.bias_change.shape[0] > 0
        for n in range(lanes):
            work.shared.moves[n] = 1
            work.shared.waits[n] = 0
            work.shared.recalled[n] = int(recalls)
        start(work)
        find_residuals(recalls, work)
        if recalls:
            undecided = bool(False)
            for n in range(lanes):
                world = work.group * lanes + n
                if world < work.constraints.count.shape[0]:
                    if not pushes(n, world, work.most, work.constraints, work.iterate, work.shared):
                        work.shared.recalled[n] = 0
                        undecided = True
            if undecided:
                find_residuals(recalls, work)
        undecided = bool(False)
        for n in range(lanes):
            world = work.group * lanes + n
            work.shared.left[n] = work.shared.square[n]
            if world < work.constraints.count.shape[0] and work.shared.recalled[n] == 0:
                rests = work.shared.square[n] <= work.shared.scale[n]
                if not rests or not pushes(n, world, work.most, work.constraints, work.iterate, work.shared):
                    work.shared.moves[n] = 0
                    undecided = True
        # Once without impulses, then back if that is worse.
        attempt = int(0)
        while undecided and attempt < 2:
            start(work)
            find_residuals(recalls, work)
            attempt += 1
            undecided = bool(False)
            for n in range(lanes):
                if work.shared.moves[n] == 0 and not work.shared.square[n] <= work.shared.left[n]:
                    work.shared.moves[n] = 1
                    undecided = True

    @wp.func
    def begin(
        work: Work,
        dt: scalar,
        paths: Paths,
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
    ):
        """Gather the worlds of a group and compute the initial guess. Return ``most``, zero if nothing is solved
        together: see ``stage``.
        """
        most = int(0)
        for n in range(work.worlds):
            world = work.group * lanes + n
            most = wp.max(most, work.constraints.count[world])
            work.residual[world] = zero
            work.solver_iterations[world] = 0
        has_any = most > 0
        if most > MOST_CONSTRAINTS:
            most = int(0)
        if wp.static(by_mujoco):
            if most > 0:
                most = slots.align(work.group, work.constraints, work.shared)
        else:
            slots.assign_in_order(work.group, most, work.constraints, work.shared)
        for n in range(work.worlds):
            work.stage[work.group * lanes + n] = wp.where(has_any and most == 0, UNSOLVED, SOLVED)
        if most > 0:
            work.most = most
            gather(work.group, most, work.nv, paths, work.constraints, work.problem, work.shared)
            if wp.static(by_mujoco):
                side.gather_laws(work.group, most, work.constraints, work.problem, work.shared)
            together.initial_guesses(
                work.group, work.nv, dt, scalar(LEAST_INVERSE), paths, qd, qdd, factor_l, work.problem.inverse_mass,
                work.shared, work.iterate.z_before,
            )  # fmt: skip
            begin_all(work)
        return most

    return SimpleNamespace(
        together=together,
        side=side,
        has=has,
        get_three=get_three,
        set_three=set_three,
        gather=gather,
        slots=slots,
        find_residuals=find_residuals,
        find_slopes=find_slopes,
        factorise_slopes=factorise_slopes,
        find_steps=find_steps,
        begin=begin,
        coupled=f.coupled,
    )
