"""Gauss-Seidel passes for laws whose friction follows the normal impulses, on the worlds of a lane group.

Each function is its namesake of :mod:`warp_kernels.solver.newton.residual` or
:mod:`warp_kernels.solver.newton.gauss_seidel` for all worlds of a group.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_in_interval, is_one_sided
from warp_kernels.solver.newton.constants import GUIDED
from warp_kernels.solver.newton.gauss_seidel import sweep_functions
from warp_kernels.solver.newton.group import sweeps as kept
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.group.sweeps import group_sweep_functions
from warp_kernels.solver.newton.iteration import AFTER_SWEEPS
from warp_kernels.solver.newton.residual import residual_functions
from warp_kernels.types import warp_types


@functools.cache
def step_after_sweeps_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Return the Warp functions for one precision, friction model and number of worlds in a lane group."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    f = residual_functions(scalar, friction)
    single = sweep_functions(scalar, friction)
    s = group_step_functions(scalar, friction, lanes)
    together, has, get_three, set_three = s.together, s.has, s.get_three, s.set_three
    sweeps = group_sweep_functions(scalar, friction, lanes)
    Work = group_structs(scalar).Work
    zero = scalar(0.0)

    @wp.func
    def linear_residuals(work: Work):
        """Compute the residual, in worlds after sweeps with impulses linearised at the current values. Slips are kept."""
        together.begin_residual(
            work.group, work.nv, work.iterate.z, work.iterate.z_before, work.problem.inverse_mass, work.iterate.residual
        )
        for i in range(work.most):
            together.find_values(i, work.group, work.nv, work.iterate.z, work.shared)
            for n in range(lanes):
                world = work.group * lanes + n
                impulse = vec3()
                if has(i, world, work.constraints):
                    impulse = work.iterate.impulse[i, world]
                    if work.shared.state[n].mode == AFTER_SWEEPS:
                        value = work.problem.value_before[i, world] + get_three(n, work.shared)
                        work.iterate.slip[i, world] = value - work.iterate.value[i, world]
                        impulse = f.linear_impulse(i, world, work.constraints, work.problem, work.iterate)
                set_three(n, impulse, work.shared)
            together.take_push(i, work.group, work.nv, work.shared, work.iterate.residual)

    @wp.func
    def keep_impulses(work: Work):
        """After sweeps, set the impulses of worlds to the linearised ones at the end of their step."""
        for i in range(work.most):
            together.find_values(i, work.group, work.nv, work.iterate.step, work.shared)
            for n in range(lanes):
                world = work.group * lanes + n
                passes = work.shared.state[n].passes
                guided = work.shared.state[n].mode == AFTER_SWEEPS and passes > 0 and passes <= GUIDED
                if guided and work.shared.moves[n] == 1 and has(i, world, work.constraints):
                    work.iterate.slip[i, world] += get_three(n, work.shared)
                    impulse = f.linear_impulse(i, world, work.constraints, work.problem, work.iterate)
                    for r in range(3):
                        work.shared.fields[(i * kept.FIELDS + kept.IMPULSE + r) * lanes + n] = impulse[r]

    @wp.func
    def prepare_sweeps(work: Work):
        """Initialise what all sweeps need of the constraints, with zero impulses or those of the previous time step."""
        for i in range(work.most):
            at = i * kept.FIELDS * lanes
            for n in range(kept.FIELDS * lanes):
                work.shared.fields[at + n] = zero
            first_block = at + kept.BLOCK * lanes
            for n in range(lanes):
                world = work.group * lanes + n
                if has(i, world, work.constraints):
                    compliance = single.compliance_of(work.problem.row_stiffness[i, world])
                    work.iterate.row_compliance[i, world] = compliance
                    before = work.problem.value_before[i, world]
                    if work.shared.recalled[n] == 1:
                        recalled = work.iterate.sweep_impulse[i, world]
                        for r in range(3):
                            work.shared.fields[at + (kept.IMPULSE + r) * lanes + n] = recalled[r]
                    for r in range(3):
                        work.shared.fields[at + (kept.BEFORE + r) * lanes + n] = before[r]
                    work.shared.fields[at + kept.COMPLIANCE * lanes + n] = compliance[0]
                    work.shared.fields[at + (kept.COMPLIANCE + 1) * lanes + n] = compliance[1]
                    work.shared.fields[first_block + n] = compliance[0]
                    work.shared.fields[first_block + 4 * lanes + n] = compliance[1]
                    work.shared.fields[first_block + 8 * lanes + n] = compliance[1]
                    work.shared.fields[at + kept.BOUND * lanes + n] = work.problem.bound[i, world]
                    if work.problem.row_stiffness[i, world][0] != zero:
                        kind = work.constraints.kind[i, world]
                        what = int(kept.UNBOUNDED)
                        if is_one_sided(kind):
                            what = int(kept.PUSHES)
                        elif is_in_interval(kind):
                            what = int(kept.BOUNDED)
                        work.shared.fields[at + kept.CLASS * lanes + n] = scalar(what)
            sweeps.add_block(i, work.group, work.nv, work.problem.inverse_mass, work.shared)
            for n in range(lanes):
                own = mat33()
                for r in range(3):
                    for c in range(3):
                        own[r, c] = work.shared.fields[first_block + (3 * r + c) * lanes + n]
                lengths = single.step_lengths(own)
                for r in range(3):
                    work.shared.fields[at + (kept.LENGTHS + r) * lanes + n] = lengths[r]

    @wp.func
    def sweep_all(work: Work):
        """Sweep worlds ``number`` times; set their values to those that the impulses imply."""
        sweeps.find_motions(
            work.group, work.most, work.nv, work.problem.inverse_mass, work.iterate.z_before, work.shared,
            work.iterate.z,
        )  # fmt: skip
        sweeps.sweep_constraints(work.group, work.most, work.nv, work.problem.inverse_mass, work.shared, work.iterate.z)
        for i in range(work.most):
            at = (i * kept.FIELDS + kept.IMPULSE) * lanes
            together.find_values(i, work.group, work.nv, work.iterate.z, work.shared)
            for n in range(lanes):
                world = work.group * lanes + n
                if work.shared.number[n] > 0 and has(i, world, work.constraints):
                    work.iterate.sweep_impulse[i, world] = vec3(
                        work.shared.fields[at + n],
                        work.shared.fields[at + lanes + n],
                        work.shared.fields[at + 2 * lanes + n],
                    )
                    value = work.problem.value_before[i, world] + get_three(n, work.shared)
                    kind = work.constraints.kind[i, world]
                    item = work.constraints.item[i, world]
                    compliance = work.iterate.row_compliance[i, world]
                    work.iterate.value[i, world] = single.implied_value(
                        i, kind, item, world, compliance, value, work.problem, work.iterate
                    )

    @wp.func
    def sweep(work: Work):
        """Sweep the worlds that ask for it, after the first pass from the present impulses."""
        prepared = bool(False)
        for n in range(lanes):
            state = work.shared.state[n]
            work.shared.number[n] = wp.where(state.mode == AFTER_SWEEPS, state.sweeps, 0)
            prepared = prepared or state.passes > int(state.mode == AFTER_SWEEPS)
        if not prepared:
            prepare_sweeps(work)
        sweep_all(work)

    @wp.func
    def recall(n: int, work: Work):
        """Set the impulses of a world's sweeps to those of its iterate."""
        world = work.group * lanes + n
        single.recall(world, work.constraints.count[world], work.problem, work.iterate)

    return SimpleNamespace(recall=recall, linear_residuals=linear_residuals, keep_impulses=keep_impulses, sweep=sweep)
