"""What a step of Newton's method on the worlds of a lane group is made of.

Each function does for all worlds of a group what its namesake of :mod:`warp_kernels.solver.newton.residual` or
:mod:`warp_kernels.solver.newton.descent` does for one. The laws of the constraints, which branch, are looked at world by world, but for
MuJoCo's (:mod:`warp_kernels.solver.mujoco.group_laws`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.group_laws import mujoco_group_law_functions
from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.order import group_order_functions
from warp_kernels.solver.newton.group.structs import DONE, LEFT, MOST_CONSTRAINTS, MOVING, group_structs
from warp_kernels.solver.newton.group.system import group_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import LEAST_INVERSE, warp_types


@functools.cache
def group_step_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Warp functions for one precision, friction model or cone of MuJoCo's, and number of worlds in a lane group."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    f = residual_functions(scalar, friction)
    laws = f.laws
    descent = descent_functions(scalar, friction)
    together, order = group_functions(scalar, lanes), group_order_functions(scalar, lanes)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Group = group_structs(scalar).Group
    zero = scalar(0.0)
    by_mujoco = friction in CONES.values()
    side = mujoco_group_law_functions(scalar, friction, lanes)

    @wp.func
    def has(i: int, world: int, constraints: Constraints):
        """Whether there is such a world, with as many constraints."""
        return world < constraints.count.shape[0] and i < constraints.count[world]

    @wp.func
    def gather(group: int, most: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, shared: Group):
        """Put the rows of all worlds side by side, as their order says."""
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
    def answer_one_by_one(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Row values and impulses at z, whose push is taken away from the residual; nothing for worlds that wait."""
        for i in range(most):
            together.find_values(i, group, nv, iterate.z, shared)
            for n in range(lanes):
                world = group * lanes + n
                impulse = vec3()
                if shared.waits[n] == 0 and has(i, world, constraints):
                    value = problem.rhs[i, world] + get_three(n, shared)
                    iterate.value[i, world] = value
                    kind = constraints.kind[i, world]
                    item = constraints.item[i, world]
                    bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
                    impulse = laws.answer(kind, value, problem.grip[i, world], bounds)
                    iterate.impulse[i, world] = impulse
                set_three(n, impulse, shared)
            together.take_push(i, group, nv, shared, iterate.residual)

    @wp.func
    def find_residuals(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Row values, impulses, the residual and its square, at z; the last two are nothing for worlds that wait."""
        together.begin_residual(group, nv, iterate.z, problem.inverse_mass, iterate.residual)
        if wp.static(by_mujoco):
            side.find_answers(group, most, nv, iterate.z, shared, iterate.residual)
        else:
            answer_one_by_one(group, most, nv, constraints, problem, iterate, shared)
        together.find_square(group, nv, problem.inverse_mass, iterate.residual, shared)

    @wp.func
    def find_slopes(i: int, group: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group):
        """Slopes of the impulses in place i in each world that doesn't wait, and whether any of them answers to its values."""
        first = 9 * lanes * i
        shared.answers[i] = 0
        for n in range(lanes):
            world = group * lanes + n
            own = mat33()
            constraint = shared.order[i * lanes + n]
            if shared.waits[n] == 0 and constraint >= 0:
                kind = constraints.kind[constraint, world]
                item = constraints.item[constraint, world]
                own, follows = f.slopes(constraint, kind, item, world, COUPLED, problem, iterate)
                if wp.ddot(own, own) > zero:
                    shared.answers[i] = 1
                if wp.dot(follows, follows) > zero:
                    shared.coupled[n] = 1
            for r in range(3):
                for c in range(3):
                    shared.slope[first + (3 * r + c) * lanes + n] = own[r, c]

    @wp.func
    def factorise_slopes(group: int, most: int, nv: int, problem: Problem, shared: Group):
        """The systems that the slopes make, with their factors."""
        any_coupled = bool(False)
        for n in range(lanes):
            any_coupled = any_coupled or shared.coupled[n] == 1
        together.begin_system(group, most, nv, problem.inverse_mass, shared)
        for i in range(most):
            if shared.answers[i] == 1:
                together.add_constraint(i, nv, any_coupled, shared)
        together.factorise(nv, any_coupled, shared)

    @wp.func
    def factorise_systems(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Assemble the systems of all worlds and factor them."""
        for n in range(lanes):
            shared.coupled[n] = 0
        if wp.static(by_mujoco):
            side.find_slopes(most, shared)
        else:
            for i in range(most):
                find_slopes(i, group, constraints, problem, iterate, shared)
        factorise_slopes(group, most, nv, problem, shared)

    @wp.func
    def find_steps(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """The steps that the systems of all worlds make of their residuals."""
        factorise_systems(group, most, nv, constraints, problem, iterate, shared)
        together.solve_systems(group, nv, iterate.residual, shared, iterate.step)

    @wp.func
    def pushes(n: int, world: int, most: int, constraints: Constraints, iterate: Iterate, shared: Group):
        """Whether any constraint of a world answers with an impulse."""
        if wp.static(by_mujoco):
            return side.pushes(most, n, shared)
        else:
            return descent.pushes(world, constraints.count[world], iterate)

    @wp.func
    def begin_all(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Start with the velocity before, or without impulses, whichever is nearer."""
        for n in range(lanes):
            shared.moves[n] = 1
            shared.waits[n] = 0
        together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
        find_residuals(group, most, nv, constraints, problem, iterate, shared)
        undecided = bool(False)
        for n in range(lanes):
            world = group * lanes + n
            shared.left[n] = shared.square[n]
            if world < constraints.count.shape[0]:
                rests = shared.square[n] <= shared.scale[n]
                if not rests or not pushes(n, world, most, constraints, iterate, shared):
                    shared.moves[n] = 0
                    undecided = True
        # Once without impulses, then back where that is farther.
        attempt = int(0)
        while undecided and attempt < 2:
            together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
            find_residuals(group, most, nv, constraints, problem, iterate, shared)
            attempt += 1
            undecided = bool(False)
            for n in range(lanes):
                if shared.moves[n] == 0 and not shared.square[n] <= shared.left[n]:
                    shared.moves[n] = 1
                    undecided = True

    @wp.func
    def leave_all(group: int, worlds: int, stage: wp.array(dtype=int)):
        """Leave all worlds to the solver for one."""
        for n in range(worlds):
            stage[group * lanes + n] = LEFT

    @wp.func
    def begin_group(
        group: int,
        worlds: int,
        nv: int,
        dt: scalar,
        paths: Paths,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        # Data out
        shared: Group,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
        stage: wp.array(dtype=int),
    ):
        """Bring the worlds of a group together and begin. Returns how many constraints they have together, zero where there is nothing to solve."""
        most = int(0)
        for n in range(worlds):
            world = group * lanes + n
            most = wp.max(most, constraints.count[world])
            residual[world] = zero
            sweep_count[world] = 0
            stage[world] = DONE
        if most > MOST_CONSTRAINTS:
            leave_all(group, worlds, stage)
            most = int(0)
        if wp.static(by_mujoco):
            if most > 0:
                most = order.align(group, constraints, shared)
                if most == 0:
                    leave_all(group, worlds, stage)
        else:
            order.take_in_order(group, most, constraints, shared)
        if most > 0:
            gather(group, most, nv, paths, constraints, problem, shared)
            if wp.static(by_mujoco):
                side.gather_laws(group, most, constraints, problem, shared)
            together.look_back_all(
                group, nv, dt, scalar(LEAST_INVERSE), paths, qd, qdd, factor_l, problem.inverse_mass, shared, iterate.step
            )  # fmt: skip
            begin_all(group, most, nv, constraints, problem, iterate, shared)
        return most

    @wp.func
    def leave_rest(group: int, worlds: int, stage: wp.array(dtype=int)):
        """Leave the worlds that are still on their way to the solver for one."""
        for n in range(worlds):
            if stage[group * lanes + n] == MOVING:
                stage[group * lanes + n] = LEFT

    return SimpleNamespace(
        together=together,
        side=side,
        has=has,
        get_three=get_three,
        set_three=set_three,
        gather=gather,
        order=order,
        find_residuals=find_residuals,
        find_slopes=find_slopes,
        factorise_slopes=factorise_slopes,
        find_steps=find_steps,
        begin_group=begin_group,
        leave_rest=leave_rest,
    )
