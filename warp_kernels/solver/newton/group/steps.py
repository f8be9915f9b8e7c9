"""What a step of Newton's method on the worlds of a lane group is made of.

Each function does for all worlds of a group what its namesake of :mod:`warp_kernels.solver.newton.residual`,
:mod:`warp_kernels.solver.newton.descent` or :mod:`warp_kernels.solver.newton.sweeps` does for one. The laws of the constraints, which
branch, are looked at world by world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group import sweeps as kept
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.group.sweeps import group_sweep_functions
from warp_kernels.solver.newton.group.system import group_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.solve import GUIDED, SWEPT
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.sweeps import sweep_functions
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import COUPLING, FRICTION_LOSS, warp_types


@functools.cache
def group_step_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Warp functions for one precision, friction model and number of worlds in a lane group."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    f = residual_functions(scalar, friction)
    laws = f.laws
    descent = descent_functions(scalar, friction)
    single = sweep_functions(scalar, friction)
    together = group_functions(scalar, lanes)
    sweeps = group_sweep_functions(scalar, friction, lanes)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Group = group_structs(scalar).Group
    zero = scalar(0.0)

    @wp.func
    def has(i: int, world: int, constraints: Constraints):
        """Whether there is such a world, with as many constraints."""
        return world < constraints.count.shape[0] and i < constraints.count[world]

    @wp.func
    def gather(group: int, most: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, shared: Group):
        """Put the rows of all worlds side by side."""
        for i in range(most):
            together.gather_rows(
                i, group, nv, paths.max_depth, paths.dof_depth, paths.dof_row_start, paths.ancestor, shared.path,
                constraints.count, constraints.tail, problem.row, shared.dofs, shared.length, shared.rows,
            )  # fmt: skip

    @wp.func
    def get_three(n: int, shared: Group):
        return vec3(shared.three[n], shared.three[lanes + n], shared.three[2 * lanes + n])

    @wp.func
    def set_three(n: int, x: vec3, shared: Group):
        for r in range(3):
            shared.three[r * lanes + n] = x[r]

    @wp.func
    def find_residuals(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Row values, impulses, the residual and its square, at z."""
        together.begin_residual(group, nv, iterate.z, problem.inverse_mass, iterate.residual)
        for i in range(most):
            together.find_values(i, group, nv, shared.dofs, shared.length, shared.rows, iterate.z, shared.three)
            for n in range(lanes):
                world = group * lanes + n
                impulse = vec3()
                if has(i, world, constraints):
                    value = problem.rhs[i, world] + get_three(n, shared)
                    iterate.value[i, world] = value
                    kind = constraints.kind[i, world]
                    item = constraints.item[i, world]
                    bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
                    impulse = laws.answer(kind, value, problem.grip[i, world], bounds)
                    iterate.impulse[i, world] = impulse
                set_three(n, impulse, shared)
            together.take_push(i, group, nv, shared.dofs, shared.length, shared.rows, shared.three, iterate.residual)
        together.find_square(group, nv, problem.inverse_mass, iterate.residual, shared.square)

    @wp.func
    def linear_residuals(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """The residual, in swept worlds if the impulses were linear from where the values stand. Slips are kept."""
        together.begin_residual(group, nv, iterate.z, problem.inverse_mass, iterate.residual)
        for i in range(most):
            together.find_values(i, group, nv, shared.dofs, shared.length, shared.rows, iterate.z, shared.three)
            for n in range(lanes):
                world = group * lanes + n
                impulse = vec3()
                if has(i, world, constraints):
                    impulse = iterate.impulse[i, world]
                    if shared.mode[n] == SWEPT:
                        value = problem.rhs[i, world] + get_three(n, shared)
                        iterate.slip[i, world] = value - iterate.value[i, world]
                        impulse = f.linear_impulse(i, world, constraints, problem, iterate)
                set_three(n, impulse, shared)
            together.take_push(i, group, nv, shared.dofs, shared.length, shared.rows, shared.three, iterate.residual)

    @wp.func
    def keep_all_impulses(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Set the impulses of swept worlds to those at the end of their step if they were linear."""
        for i in range(most):
            together.find_values(i, group, nv, shared.dofs, shared.length, shared.rows, iterate.step, shared.three)
            for n in range(lanes):
                world = group * lanes + n
                guided = shared.mode[n] == SWEPT and shared.failures[n] <= GUIDED
                if guided and shared.moves[n] == 1 and has(i, world, constraints):
                    iterate.slip[i, world] += get_three(n, shared)
                    impulse = f.linear_impulse(i, world, constraints, problem, iterate)
                    for r in range(3):
                        shared.fields[(i * kept.FIELDS + kept.SWEPT + r) * lanes + n] = impulse[r]

    @wp.func
    def find_slopes(i: int, group: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group):
        """Slopes of a constraint's impulses in each world, and whether any of them answers to its values."""
        first = 9 * lanes * i
        shared.answers[i] = 0
        for n in range(lanes):
            world = group * lanes + n
            own = mat33()
            if has(i, world, constraints):
                kind = constraints.kind[i, world]
                item = constraints.item[i, world]
                own, follows = f.slopes(i, kind, item, world, COUPLED, problem, iterate)
                if wp.ddot(own, own) > zero:
                    shared.answers[i] = 1
                if wp.dot(follows, follows) > zero:
                    shared.coupled[n] = 1
            for r in range(3):
                for c in range(3):
                    shared.slope[first + (3 * r + c) * lanes + n] = own[r, c]

    @wp.func
    def factorise_systems(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Assemble the systems of all worlds and factor them."""
        for n in range(lanes):
            shared.coupled[n] = 0
        for i in range(most):
            find_slopes(i, group, constraints, problem, iterate, shared)
        any_coupled = bool(False)
        for n in range(lanes):
            any_coupled = any_coupled or shared.coupled[n] == 1
        together.begin_system(
            group, most, nv, shared.answers, shared.dofs, shared.length, shared.first, problem.inverse_mass,
            shared.lower, shared.upper,
        )  # fmt: skip
        for i in range(most):
            if shared.answers[i] == 1:
                together.add_constraint(
                    i, nv, any_coupled, shared.dofs, shared.length, shared.rows, shared.slope, shared.lower,
                    shared.upper,
                )  # fmt: skip
        together.factorise(nv, any_coupled, shared.coupled, shared.first, shared.lower, shared.upper, shared.least)

    @wp.func
    def find_steps(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """The steps that the systems of all worlds make of their residuals."""
        factorise_systems(group, most, nv, constraints, problem, iterate, shared)
        together.solve_systems(
            group, nv, shared.first, shared.lower, shared.upper, shared.velocity, iterate.residual, iterate.step
        )

    @wp.func
    def begin_all(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Start with the velocity before, or without impulses, whichever is nearer."""
        for n in range(lanes):
            shared.moves[n] = 1
        together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
        find_residuals(group, most, nv, constraints, problem, iterate, shared)
        undecided = bool(False)
        for n in range(lanes):
            world = group * lanes + n
            shared.left[n] = shared.square[n]
            if world < constraints.count.shape[0]:
                rests = shared.square[n] <= shared.scale[n]
                if not rests or not descent.pushes(world, constraints.count[world], iterate):
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
    def go_back(
        group: int, most: int, nv: int, enough: scalar, constraints: Constraints, problem: Problem, iterate: Iterate,
        shared: Group,
    ):  # fmt: skip
        """Take half of a step where the whole leaves more of its square before, ``left``, than is enough; where half does too, none."""
        attempt = int(0)
        far = bool(True)
        while far and attempt < 2:
            far = bool(False)
            for n in range(lanes):
                shared.number[n] = 0
                if shared.mode[n] == COUPLED and shared.moves[n] == 1:
                    if not shared.square[n] < enough * shared.left[n]:
                        shared.number[n] = 1
                        far = True
            if far:
                together.move_along(group, nv, scalar(-0.5), shared.number, iterate.step, iterate.z)
                find_residuals(group, most, nv, constraints, problem, iterate, shared)
            attempt += 1

    @wp.func
    def prepare_sweeps(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """What all sweeps need of the constraints, and no impulses."""
        for i in range(most):
            at = i * kept.FIELDS * lanes
            for n in range(kept.FIELDS * lanes):
                shared.fields[at + n] = zero
            together_own = at + kept.OWN * lanes
            for n in range(lanes):
                world = group * lanes + n
                if has(i, world, constraints):
                    soft = single.softness(problem.grip[i, world])
                    iterate.softness[i, world] = soft
                    rhs = problem.rhs[i, world]
                    for r in range(3):
                        shared.fields[at + (kept.RHS + r) * lanes + n] = rhs[r]
                    shared.fields[at + kept.SOFTNESS * lanes + n] = soft[0]
                    shared.fields[at + (kept.SOFTNESS + 1) * lanes + n] = soft[1]
                    shared.fields[together_own + n] = soft[0]
                    shared.fields[together_own + 4 * lanes + n] = soft[1]
                    shared.fields[together_own + 8 * lanes + n] = soft[1]
                    shared.fields[at + kept.BOUND * lanes + n] = problem.bound[i, world]
                    if problem.grip[i, world][0] != zero:
                        kind = constraints.kind[i, world]
                        what = int(kept.UNBOUNDED)
                        if kind < FRICTION_LOSS:
                            what = int(kept.PUSHES)
                        elif kind <= COUPLING:
                            what = int(kept.BOUNDED)
                        shared.fields[at + kept.CLASS * lanes + n] = scalar(what)
            sweeps.add_own(i, group, nv, shared.dofs, shared.length, shared.rows, problem.inverse_mass, shared.fields)
            for n in range(lanes):
                own = mat33()
                for r in range(3):
                    for c in range(3):
                        own[r, c] = shared.fields[together_own + (3 * r + c) * lanes + n]
                lengths = single.step_lengths(own)
                for r in range(3):
                    shared.fields[at + (kept.LENGTHS + r) * lanes + n] = lengths[r]

    @wp.func
    def sweep_all(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Sweep worlds as often as their ``number`` says; set their values to those that the impulses imply."""
        sweeps.find_motions(
            group, most, nv, shared.number, shared.dofs, shared.length, shared.rows, shared.fields,
            problem.inverse_mass, iterate.z,
        )  # fmt: skip
        sweeps.sweep_constraints(
            group, most, nv, shared.number, shared.dofs, shared.length, shared.rows, shared.fields,
            problem.inverse_mass, iterate.z, shared.velocity,
        )  # fmt: skip
        for i in range(most):
            at = (i * kept.FIELDS + kept.SWEPT) * lanes
            together.find_values(i, group, nv, shared.dofs, shared.length, shared.rows, iterate.z, shared.three)
            for n in range(lanes):
                world = group * lanes + n
                if shared.number[n] > 0 and has(i, world, constraints):
                    iterate.swept[i, world] = vec3(
                        shared.fields[at + n], shared.fields[at + lanes + n], shared.fields[at + 2 * lanes + n]
                    )
                    value = problem.rhs[i, world] + get_three(n, shared)
                    kind = constraints.kind[i, world]
                    item = constraints.item[i, world]
                    soft = iterate.softness[i, world]
                    iterate.value[i, world] = single.implied_value(i, kind, item, world, soft, value, problem, iterate)

    return SimpleNamespace(
        together=together,
        has=has,
        gather=gather,
        find_residuals=find_residuals,
        linear_residuals=linear_residuals,
        find_slopes=find_slopes,
        factorise_systems=factorise_systems,
        keep_all_impulses=keep_all_impulses,
        find_steps=find_steps,
        begin_all=begin_all,
        go_back=go_back,
        prepare_sweeps=prepare_sweeps,
        sweep_all=sweep_all,
    )
