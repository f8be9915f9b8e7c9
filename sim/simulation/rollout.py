"""Rollouts as trajectories, also on an active :class:`wp.Tape`."""

import reprlib

import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.host_memory import AnyArray, as_warp
from sim.arrays.launch import active_tape
from sim.errors import ModelError
from sim.model.checks import is_whole
from sim.simulation.batches import ArrayLike
from sim.simulation.engine.first_state import first_state
from sim.simulation.engine.recording import add_to
from sim.simulation.engine.rollout import run_steps
from sim.simulation.state import State
from sim.simulation.trajectory import SimulatorLike, Trajectory
from warp_kernels.rollout.records import StateArrays


@serialized
def unguarded_rollout(
    simulator: SimulatorLike,
    state: State,
    tau: ArrayLike | None,
    steps: int | None,
    control: ArrayLike | None,
    checkpoint_interval: int = 1,
    kinematic_qd: ArrayLike | None = None,
    active: ArrayLike | None = None,
    keep_bytes: int = 0,
) -> Trajectory:
    """Return a trajectory as :meth:`sim.Simulator.rollout`, for callers that don't change its arrays."""
    engine = simulator.engine
    first, model = first_state(engine, state), engine.settings.model
    tau = engine.batches.of_steps(tau, model.nv, "tau", steps)
    control = engine.batches.of_steps(control, model.nu, "control", steps)
    kinematic_qd = engine.batches.of_steps(kinematic_qd, model.nk, "kinematic_qd", steps)
    active = engine.batches.of_steps(active, len(model.switch_names), "active", steps)
    inputs = {"tau": tau, "control": control, "kinematic_qd": kinematic_qd, "active": active}
    for name, given in inputs.items():
        if given is not None:
            if steps is not None and not (is_whole(steps, 0) and steps == given.shape[0]):
                raise ModelError(f"rollout: steps is {reprlib.repr(steps)}, but {name} has {given.shape[0]} steps")
            steps = given.shape[0]
    recording = run_steps(
        engine,
        first,
        tau,
        control,
        steps,
        checkpoint_interval,
        kinematic_qd=kinematic_qd,
        active=active,
        keep_bytes=keep_bytes,
    )
    trajectory = Trajectory.of(recording, simulator)
    _record_on_tape(trajectory, first, (tau, control, kinematic_qd))
    return trajectory


def _record_on_tape(
    trajectory: Trajectory, state: StateArrays[AnyArray], given_inputs: tuple[wp.array | None, ...]
) -> None:
    """Record the rollout on an active tape as one operation whose adjoint adds to the gradients of its inputs.

    Args:
        trajectory: the rollout.
        state: its initial state.
        given_inputs: joint forces, inputs of the actuators and velocities of kinematic joints, as recorded.
    """
    tape = active_tape()
    if tape is None:
        return
    names, first, every = ["q", "qd"], [as_warp(state.q), as_warp(state.qd)], [trajectory.q, trajectory.qd]
    if trajectory.impulses is not None and state.impulse is not None:
        names.append("impulses")
        first.append(as_warp(state.impulse))
        every.append(trajectory.impulses.value)
    if trajectory.act is not None and state.act is not None:
        names.append("act")
        first.append(as_warp(state.act))
        every.append(trajectory.act)
    given = [*first, *given_inputs]
    inputs = [array for array in given if array is not None and array.requires_grad]
    if not inputs:
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
        found = [getattr(gradients, name) for name in (*names, "tau", "control", "kinematic_qd")]
        for array, gradient in zip(given, found, strict=True):
            if array is not None and gradient is not None and array.requires_grad:
                add_to(array.grad, gradient)

    tape.record_func(backward, [*inputs, *every, *forces])
