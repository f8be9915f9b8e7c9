"""Initial state of a rollout, checked and completed."""

import numpy as np
import warp as wp

from sim.arrays.host_memory import AnyArray
from sim.errors import ModelError
from sim.model.checks import require_type
from sim.simulation.batches import ArrayLike
from sim.simulation.engine.engine import Engine
from sim.simulation.state import Impulses, State
from warp_kernels.constraints.kinds import NO_KEY
from warp_kernels.rollout.records import StateArrays


def first_state(engine: Engine, state: State) -> StateArrays[AnyArray]:
    """Return the arrays of a state, checked, with defaults for those that it lacks.

    Raises:
        ModelError: for another type, and for arrays of wrong shapes, dtypes and devices.
    """
    require_state(state)
    rows_of, model = engine.batches.rows_of_worlds, engine.settings.model
    q, qd = state.rows()
    first: StateArrays[AnyArray] = StateArrays(
        rows_of(q, model.nq, "state.q"), rows_of(qd, model.nv, "state.qd"), act=first_act(engine, state.act)
    )
    if state.q_low is not None:
        first.q_low = rows_of(state.q_low, engine.num_low, "state.q_low")
    first.broken = first_broken(engine, state.broken, state.own_broken)
    impulses = first_impulses(engine, state.impulses)
    if impulses is not None:
        first.impulse, first.key = impulses.value, impulses.key
    return first


def require_state(state: object) -> None:
    """Raise ModelError unless an argument is a state."""
    require_type("state", state, State, "a sim.State: make one with simulator.state(q, qd)")


def first_act(engine: Engine, given: ArrayLike | None, name: str = "state.act") -> wp.array | None:
    """Return the initial states of actuators; zeros if none were given, None if no actuator has one."""
    s = engine.settings
    if not s.model.na and given is None:
        return None
    if given is None:
        return wp.zeros((s.num_worlds, s.model.na), dtype=s.model.scalar, device=s.device)
    if not s.model.na:
        raise ModelError(f"{name} is given, but no actuator of the model has a state; remove it")
    return engine.batches.of_worlds(given, s.model.na, name)


def first_broken(engine: Engine, given: ArrayLike | None, own: wp.array | None = None) -> wp.array | None:
    """Return which constraints are broken at first; none if it isn't given, None if no constraint breaks.

    Args:
        engine: the engine.
        given: 1 for broken constraints, otherwise 0.
        own: array that a simulator wrote. Its values aren't checked: that would wait for a GPU.
    """
    s = engine.settings
    if not s.model.breaks:
        if given is not None:
            raise ModelError("state.broken is given, but no constraint of the model has a break_force; remove it")
        return None
    size = len(s.model.switch_names)
    if given is None:
        return wp.zeros((s.num_worlds, size), dtype=s.model.scalar, device=s.device)
    broken = engine.batches.of_worlds(given, size, "state.broken")
    if own is None or given is not own:
        require_zero_or_one("state.broken", broken.numpy())
    return broken


def require_zero_or_one(name: str, values: np.ndarray) -> None:
    """Raise ModelError for a mark of broken constraints that is neither 0 nor 1."""
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ModelError(f"{name} has the value {wrong[0]:g}; give 1 for constraints that are broken, 0 for others")


def first_impulses(engine: Engine, given: Impulses | None) -> Impulses | None:
    """Return the impulses of a warm start; zeros if none were given, None without a warm start."""
    s, step = engine.settings, engine.shards[0].step
    if not step.warm:
        return None
    shape = (s.num_worlds, step.max_constraints)
    if given is None:
        value = wp.zeros((*shape, 3), dtype=s.model.scalar, device=s.device)
        return Impulses(value, wp.full((*shape, 4), NO_KEY, dtype=wp.int32, device=s.device))
    for name, array, size in (("value", given.value, 3), ("key", given.key, 4)):
        if tuple(array.shape) != (*shape, size):
            raise ModelError(
                f"state.impulses.{name} has shape {tuple(array.shape)}; expected {(*shape, size)}, since limits or "
                "options differ; remove the impulses to start from zero"
            )
    return given
