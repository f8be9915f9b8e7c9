"""Run many steps: record their states, and warn of what went wrong."""

import sys
import warnings
from types import FrameType

import numpy as np
import warp as wp

from sim.arrays.graphs.graph import require_no_capture
from sim.arrays.host_memory import Rows, as_warp, new_rows
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError
from sim.model.names import counted
from sim.model.parameters import range_in_words
from sim.simulation.memory import require_trajectory_memory
from sim.simulation.recording.recording import Recording
from sim.simulation.recording.rows import begun_with, rows_like
from sim.simulation.stepping.reports import Problems, first_bad_state
from sim.simulation.worlds import Worlds
from warp_kernels.records import StateArrays, state_arrays

# Whose functions aren't those that a warning is for.
NOT_CALLERS = ("sim", "torch")


def run_rollout(
    simulator: Worlds,
    first: StateArrays[Rows],
    tau: Rows | None,
    control: Rows | None,
    steps: int,
    interval: int,
    gradients: frozenset[str] | None = None,
    keeps_solved: bool = False,
) -> Recording:
    """See :meth:`sim.Simulator.run_steps`; shapes have been checked, and there are impulses if they are needed."""
    require_no_capture(simulator.device)
    if simulator.late_report is not None:
        arrived = simulator.late_report.arrived()
        if arrived is not None:
            warn_caller(simulator.problems_of(*arrived, "an earlier rollout"))
    rows = -(-steps // interval) + 1
    stages = simulator.kept_stages if interval == 1 else 0
    given = [array for array in state_arrays(first) if array is not None]
    require_trajectory_memory(
        steps, interval, [*given, *[first.qd] * stages], _bytes_of_a_step(simulator, keeps_solved)
    )
    records = begun_with(first, rows)
    records.tau, records.control = tau, control
    simulator.spoil_worlds(records.q)
    with paused_tape():
        for shard in simulator.shards:
            shard.record_forward(gradients)
    bad_state = records.bad_state = _room_for_bad_states(simulator, steps)
    if simulator.contact_sensors:
        shape = (steps, simulator.num_worlds, simulator.shards[0].step.num_sensors, 3)
        records.contact_force = new_rows(shape, simulator.model.scalar, simulator.device)
    if stages:
        records.stages = rows_like(records.qd, steps * stages)
    if keeps_solved:
        if not simulator.shards[0].step.accelerating:
            raise ModelError("rollout: keeps_solved needs sim.MujocoContact and a model with sensors of accelerations")
        records.solved = rows_like(records.qd, steps)
    recording = Recording(simulator, records, steps, interval, simulator.present_values())
    with_room = recording.with_room()
    simulator.run_forward(lambda shard: shard.run_forward(with_room, steps, interval))
    _report(simulator, bad_state, steps)
    return recording


def _bytes_of_a_step(simulator: Worlds, keeps_solved: bool) -> int:
    """What every step keeps beside states: readings of sensors, and the velocities that the law finds."""
    numbers = 3 * simulator.shards[0].step.num_sensors if simulator.contact_sensors else 0
    numbers += simulator.model.nv * keeps_solved
    return simulator.num_worlds * numbers * wp.types.type_size_in_bytes(simulator.model.scalar)


def _room_for_bad_states(simulator: Worlds, steps: int) -> Rows:
    bad_state = new_rows((simulator.num_worlds,), wp.int32, simulator.device)
    if not steps:  # the first step writes it
        as_warp(bad_state).fill_(-1)
    return bad_state


def _report(simulator: Worlds, bad_state: Rows, steps: int) -> None:
    """Say what went wrong, or where that would wait for the device, see to it that a later call does."""
    simulator.bad_state = bad_state
    if simulator.late_report is None or simulator.check_finite:
        if simulator.keeps_on_device:
            _require_parameters(simulator)
        states = bad_state.numpy()
        if simulator.check_finite and (states >= 0).any():
            raise FloatingPointError(f"rollout: {first_bad_state(states)}")
        overflows = [shard.overflow.numpy() for shard in simulator.shards]
        overflow = overflows[0] if len(overflows) == 1 else np.concatenate(overflows)
        warn_caller(simulator.problems_of(states, overflow, steps))
        warn_caller(simulator.open_constraint())
    else:
        simulator.late_report.send(as_warp(bad_state), simulator.shards[0].step.total_overflow, steps)


def _require_parameters(simulator: Worlds) -> None:
    outside = simulator.parameters_out_of_range
    if outside:
        name, count = next(iter(outside.items()))
        raise ModelError(
            f"parameter '{name}' has been given {counted(count, 'number')} out of its range on {simulator.device}; "
            f"it must be {range_in_words(name)}"
        )


def warn_caller(problems: Problems) -> None:
    """Warn, naming the line outside of this package that led here."""
    for kind, message in problems:
        warnings.warn(message, kind, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """How many frames above the function that asks the first one is that isn't this package's or PyTorch's."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_CALLERS:
        frame, level = frame.f_back, level + 1
    return level
