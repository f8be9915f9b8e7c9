"""Rollouts: steps recorded as states, with warnings of problems."""

import sys
import warnings
from types import FrameType

import numpy as np
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.graphs import require_no_capture
from sim.arrays.host_memory import AnyArray, as_warp, new_rows, rows_of, zero_rows
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError
from sim.model.checks import counted, is_whole
from sim.model.parameters import range_in_words
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.keeping import require_keep_bytes
from sim.simulation.engine.memory import require_trajectory_memory
from sim.simulation.engine.recording import Recording, begun_with, rows_like
from sim.simulation.engine.reports import Problems, first_bad_state
from sim.simulation.engine.settings import Settings
from warp_kernels.rollout.records import StateArrays, state_arrays

# Packages whose functions are skipped to find the caller that a warning is for.
NOT_CALLERS = ("sim", "torch")

LONGEST_INTERVAL = 2**31 - 1  # steps; kernels count in 32 bits


@serialized
def run_steps(
    engine: Engine,
    first: StateArrays[AnyArray],
    tau: AnyArray | None,
    control: AnyArray | None,
    steps: int | None,
    checkpoint_interval: int,
    gradients: frozenset[str] | None = None,
    keeps_solved: bool = False,
    kinematic_qd: AnyArray | None = None,
    active: AnyArray | None = None,
    keep_bytes: int = 0,
) -> Recording:
    """Take steps, with arrays of the right shapes that nobody else writes to.

    Args:
        engine: engine of the worlds.
        first: initial state, with impulses if they are needed.
        tau: joint forces [steps, num_worlds, nv], or None.
        control: inputs of the actuators [steps, num_worlds, nu], or None.
        steps: number of steps; must agree with tau and control.
        checkpoint_interval: as for :meth:`sim.Simulator.rollout`.
        gradients: parameters whose gradients will be requested, or None without a backward pass. Kernels of the
            backward pass are compiled together with those of the rollout.
        keeps_solved: whether to store ``solved`` of the trajectory, for models with sensors of accelerations under
            MuJoCo's law.
        kinematic_qd: velocities of the kinematic joints [steps, num_worlds, nk], or None for those of the state.
        active: equality constraints that are on [steps, num_worlds, n], or None for those of the parameters.
        keep_bytes: memory for kept steps, see :meth:`sim.Simulator.rollout`.

    Raises:
        ModelError: for numbers of steps that are not whole.
        FloatingPointError: as :meth:`sim.Simulator.rollout`.
    """
    if steps is None:
        raise ModelError("rollout: give tau, control or steps")
    if not is_whole(steps, 0):
        raise ModelError(f"rollout: steps is {steps!r}; it must be a whole number of at least 0")
    if not is_whole(checkpoint_interval, 1):
        raise ModelError(
            f"rollout: checkpoint_interval is {checkpoint_interval!r}; it must be a whole number of at least 1"
        )
    require_keep_bytes(keep_bytes, int(checkpoint_interval), engine.kept_stages)
    length = int(steps), min(int(checkpoint_interval), LONGEST_INTERVAL)
    return run_rollout(engine, first, tau, control, *length, gradients, keeps_solved, kinematic_qd, active, keep_bytes)


def run_rollout(
    engine: Engine,
    first: StateArrays[AnyArray],
    tau: AnyArray | None,
    control: AnyArray | None,
    steps: int,
    interval: int,
    gradients: frozenset[str] | None = None,
    keeps_solved: bool = False,
    kinematic_qd: AnyArray | None = None,
    active: AnyArray | None = None,
    keep_bytes: int = 0,
) -> Recording:
    """Run steps as :func:`run_steps`, with checked numbers of steps; one step's inputs may have no dimension of
    steps.
    """
    settings, reports = engine.settings, engine.reports
    require_no_capture(settings.device)
    if reports.late is not None:
        arrived = reports.late.arrived()
        if arrived is not None:
            warn_caller(reports.problems_of(*arrived, "an earlier rollout"))
    rows = -(-steps // interval) + 1
    stages = engine.kept_stages if interval == 1 else 0
    given = [array for array in state_arrays(first) if array is not None]
    # Most single steps need no low words: on a CPU they get them after the first that does.
    begins_without = engine.num_low and first.q_low is None and (steps > 1 or not settings.device.is_cpu)
    if begins_without:
        given += [shard.step.kinematics.q_low for shard in engine.shards]
    require_trajectory_memory(steps, interval, [*given, *[first.qd] * stages], _bytes_of_a_step(engine, keeps_solved))
    records = begun_with(first, rows)
    if begins_without:
        records.q_low = zero_rows((rows, settings.num_worlds, engine.num_low), settings.model.scalar, settings.device)
    records.tau, records.control, records.kinematic_qd, records.active = tau, control, kinematic_qd, active
    engine.parameters.spoil_worlds(records.q)
    if keep_bytes and gradients is None:
        gradients = frozenset()
    kept = None
    with paused_tape():
        for shard in engine.shards:
            shard.record_forward(gradients)
        if keep_bytes and steps and gradients is not None:
            kept = engine.kept_rollouts.begin(engine.shards, steps, keep_bytes, gradients)
    bad_state = records.bad_state = _room_for_bad_states(settings, steps)
    if settings.contact_sensors:
        shape = (steps, settings.num_worlds, engine.shards[0].step.num_sensors, 3)
        records.contact_force = new_rows(shape, settings.model.scalar, settings.device)
    if stages:
        records.stages = rows_like(records.qd, steps * stages)
    if keeps_solved:
        if not engine.shards[0].step.accelerating:
            raise ModelError(
                "rollout: keeps_solved requires sim.MujocoContact and a model with sensors of accelerations"
            )
        records.solved = rows_like(records.qd, steps)
    recording = Recording(engine, records, steps, interval, engine.parameters.values, kept)
    with_room = recording.with_room()
    blocks, names = kept.blocks if kept else {}, gradients or frozenset()
    engine.run_forward(lambda shard: shard.run_forward(with_room, steps, interval, blocks.get(shard), names))
    if engine.num_low and steps == 1 and records.q_low is None:
        records.q_low = _low_words_of_a_step(engine)
    _report(engine, bad_state, steps)
    return recording


def _low_words_of_a_step(engine: Engine) -> AnyArray | None:
    """Return the low words before and after a step that began without any; None if there are none after it."""
    for shard in engine.reports.forward:
        if shard.low.has_bits():
            after = np.concatenate([each.low.numpy() for each in engine.reports.forward])
            both = np.stack([np.zeros_like(after), after])
            return rows_of(both, engine.settings.model.scalar, engine.settings.device)
    return None


def _bytes_of_a_step(engine: Engine, keeps_solved: bool) -> int:
    """Return the bytes that every step stores besides its state: sensor readings and solved velocities."""
    settings = engine.settings
    numbers = 3 * engine.shards[0].step.num_sensors if settings.contact_sensors else 0
    numbers += settings.model.nv * keeps_solved
    return settings.num_worlds * numbers * wp.types.type_size_in_bytes(settings.model.scalar)


def _room_for_bad_states(settings: Settings, steps: int) -> AnyArray:
    bad_state = new_rows((settings.num_worlds,), wp.int32, settings.device)
    if not steps:  # otherwise written by the first step
        as_warp(bad_state).fill_(-1)
    return bad_state


def _report(engine: Engine, bad_state: AnyArray, steps: int) -> None:
    """Report problems of a rollout, or on CUDA arrange for a later call to do so, without waiting."""
    reports = engine.reports
    reports.bad_state = bad_state
    if reports.late is None or engine.check_finite:
        if engine.settings.keeps_on_device:
            _require_parameters(engine)
        states = bad_state.numpy()
        if engine.check_finite and (states >= 0).any():
            raise FloatingPointError(f"rollout: {first_bad_state(states)}")
        overflows = [shard.overflow.numpy() for shard in engine.shards]
        overflow = overflows[0] if len(overflows) == 1 else np.concatenate(overflows)
        warn_caller(reports.problems_of(states, overflow, steps))
        warn_caller(reports.open_constraint())
    else:
        reports.late.send(as_warp(bad_state), engine.shards[0].step.total_overflow, steps)


def _require_parameters(engine: Engine) -> None:
    outside = engine.parameters.out_of_range()
    if outside:
        name, count = next(iter(outside.items()))
        raise ModelError(
            f"parameter '{name}' has {counted(count, 'number')} out of range on "
            f"{engine.settings.device}; it must be {range_in_words(name)}"
        )


def warn_caller(problems: Problems) -> None:
    """Issue warnings at the line outside of this package that led here."""
    for kind, message in problems:
        warnings.warn(message, kind, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the number of frames up to the first function that isn't this package's or PyTorch's."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_CALLERS:
        frame, level = frame.f_back, level + 1
    return level
