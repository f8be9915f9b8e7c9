"""Run many steps: fill a trajectory, warn of what went wrong, and record it on a tape."""

import warnings

import warp as wp

from sim.arrays.launch import active_tape
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError
from sim.model.names import counted
from sim.model.parameters import range_in_words
from sim.simulation.memory import require_trajectory_memory
from sim.simulation.state import Impulses, State
from sim.simulation.stepping.reports import Problems, first_bad_state, problems
from sim.simulation.trajectory import Trajectory
from sim.simulation.trajectory_rows import add_to, begun_with, rows_like
from sim.simulation.worlds import Worlds


def run_rollout(
    simulator: Worlds,
    state: State,
    tau: wp.array | None,
    control: wp.array | None,
    steps: int,
    interval: int,
    gradients: frozenset[str] | None = None,
    keeps_solved: bool = False,
) -> Trajectory:
    """See :meth:`sim.Simulator.run_steps`; shapes have been checked, and there are impulses if they are needed."""
    if simulator.late_report is not None:
        _warn(simulator.late_report.arrived())
    rows = -(-steps // interval) + 1
    kept = [] if state.impulses is None else [state.impulses.value, state.impulses.key]
    kept += [] if state.act is None else [state.act]
    kept += [state.qd] * (simulator.kept_stages if interval == 1 else 0) + [state.qd] * keeps_solved
    require_trajectory_memory(steps, interval, [state.q, state.qd, *kept])
    q, qd = (begun_with(first, rows) for first in (state.q, state.qd))
    simulator.spoil_worlds(q)
    impulses = None
    if state.impulses is not None:
        impulses = Impulses(*(begun_with(first, rows) for first in (state.impulses.value, state.impulses.key)))
    act = None if state.act is None else begun_with(state.act, rows)
    stages = rows_like(qd, steps * simulator.kept_stages) if simulator.kept_stages and interval == 1 else None
    with paused_tape():
        for shard in simulator.shards:
            shard.record_forward(gradients)
    bad_state = wp.empty(simulator.num_worlds, dtype=wp.int32, device=simulator.device)
    if not steps:  # the first step writes it
        bad_state.fill_(-1)
    forces = None
    if simulator.contact_sensors:
        shape = (steps, simulator.num_worlds, simulator.shards[0].step.num_sensors, 3)
        forces = wp.empty(shape, dtype=simulator.model.scalar, device=simulator.device)
    if keeps_solved and not simulator.shards[0].step.accelerating:
        raise ModelError("rollout: what the law finds is kept for sensors of accelerations under MuJoCo's law alone")
    solved = rows_like(qd, steps) if keeps_solved else None
    outputs = (bad_state, forces, act, stages, solved)
    trajectory = Trajectory(simulator, q, qd, tau, control, impulses, steps, interval, *outputs)
    arrays = trajectory.arrays()
    simulator.each_shard(lambda shard: shard.run_forward(arrays, steps, interval))
    simulator.bad_state = bad_state
    if simulator.late_report is None or simulator.check_finite:
        _require_parameters(simulator)
        states = bad_state.numpy()
        if simulator.check_finite and (states >= 0).any():
            raise FloatingPointError(f"rollout: {first_bad_state(states)}")
        _warn(problems(states, simulator.contact_overflow, steps))
    else:
        simulator.late_report.send(bad_state, simulator.shards[0].step.total_overflow, steps)
    _record_on_tape(trajectory, state, tau, control)
    return trajectory


def _require_parameters(simulator: Worlds) -> None:
    outside = simulator.parameters_out_of_range
    if outside:
        name, count = next(iter(outside.items()))
        raise ModelError(
            f"parameter '{name}' has been given {counted(count, 'number')} out of its range on {simulator.device}; "
            f"it must be {range_in_words(name)}"
        )


def _warn(problems: Problems) -> None:
    """Warn, naming the line that called :meth:`sim.Simulator.rollout`."""
    for kind, message in problems:
        warnings.warn(message, kind, stacklevel=6)


def _record_on_tape(trajectory: Trajectory, state: State, tau: wp.array | None, control: wp.array | None) -> None:
    """On an active tape, make the rollout one operation whose way back adds to the gradients of its inputs."""
    tape = active_tape()
    first, every = ([each.q, each.qd] for each in (state, trajectory))
    names = ["q", "qd"]
    if state.impulses is not None and trajectory.impulses is not None:
        names.append("impulses")
        first.append(state.impulses.value)
        every.append(trajectory.impulses.value)
    if state.act is not None and trajectory.act is not None:
        names.append("act")
        first.append(state.act)
        every.append(trajectory.act)
    given = [*first, tau, control]
    inputs = [array for array in given if array is not None and array.requires_grad]
    if tape is None or not inputs:
        return
    trajectory.remember()
    forces = [] if trajectory.contact_force is None else [trajectory.contact_force]
    for array in (*every, *forces):
        array.requires_grad = True

    def backward() -> None:
        grads = {name: array.grad for name, array in zip(names, every, strict=True)}
        force_grad = forces[0].grad if forces else None
        gradients = trajectory.backward(
            grads["q"], grads["qd"], (), grads.get("impulses"), contact_force_grad=force_grad, act_grad=grads.get("act")
        )
        found = [getattr(gradients, name) for name in names]
        for array, gradient in zip(given, [*found, gradients.tau, gradients.control], strict=True):
            if array is not None and gradient is not None and array.requires_grad:
                add_to(array.grad, gradient)

    tape.record_func(backward, [*inputs, *every, *forces])
