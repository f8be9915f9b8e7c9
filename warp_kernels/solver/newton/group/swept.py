"""What follows friction that is coupled to normal impulses, on the worlds of a lane group: half steps and sweeps.

Each function does for all worlds of a group what its namesake of :mod:`warp_kernels.solver.newton.residual` or
:mod:`warp_kernels.solver.newton.sweeps` does for one.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_in_interval, is_one_sided
from warp_kernels.solver.newton.constants import GUIDED
from warp_kernels.solver.newton.group import sweeps as kept
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.group.sweeps import group_sweep_functions
from warp_kernels.solver.newton.iteration import SWEPT
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.sweeps import sweep_functions
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import warp_types


@functools.cache
def swept_step_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Warp functions for one precision, friction model and number of worlds in a lane group."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    f = residual_functions(scalar, friction)
    single = sweep_functions(scalar, friction)
    s = group_step_functions(scalar, friction, lanes)
    together, has, get_three, set_three, find_residuals = s.together, s.has, s.get_three, s.set_three, s.find_residuals
    sweeps = group_sweep_functions(scalar, friction, lanes)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Group = group_structs(scalar).Group
    zero = scalar(0.0)

    @wp.func
    def linear_residuals(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """The residual, in swept worlds if the impulses were linear from where the values stand. Slips are kept."""
        together.begin_residual(group, nv, iterate.z, problem.inverse_mass, iterate.residual)
        for i in range(most):
            together.find_values(i, group, nv, iterate.z, shared)
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
            together.take_push(i, group, nv, shared, iterate.residual)

    @wp.func
    def keep_all_impulses(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Set the impulses of swept worlds to those at the end of their step if they were linear."""
        for i in range(most):
            together.find_values(i, group, nv, iterate.step, shared)
            for n in range(lanes):
                world = group * lanes + n
                guided = shared.mode[n] == SWEPT and shared.failures[n] <= GUIDED
                if guided and shared.moves[n] == 1 and has(i, world, constraints):
                    iterate.slip[i, world] += get_three(n, shared)
                    impulse = f.linear_impulse(i, world, constraints, problem, iterate)
                    for r in range(3):
                        shared.fields[(i * kept.FIELDS + kept.SWEPT + r) * lanes + n] = impulse[r]

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
                        if is_one_sided(kind):
                            what = int(kept.PUSHES)
                        elif is_in_interval(kind):
                            what = int(kept.BOUNDED)
                        shared.fields[at + kept.CLASS * lanes + n] = scalar(what)
            sweeps.add_own(i, group, nv, problem.inverse_mass, shared)
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
        sweeps.find_motions(group, most, nv, problem.inverse_mass, shared, iterate.z)
        sweeps.sweep_constraints(group, most, nv, problem.inverse_mass, shared, iterate.z)
        for i in range(most):
            at = (i * kept.FIELDS + kept.SWEPT) * lanes
            together.find_values(i, group, nv, iterate.z, shared)
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
        linear_residuals=linear_residuals,
        keep_all_impulses=keep_all_impulses,
        go_back=go_back,
        prepare_sweeps=prepare_sweeps,
        sweep_all=sweep_all,
    )
