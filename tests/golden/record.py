"""Run a golden case and return what it computes as named arrays."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import warp as wp

import sim
from sim.arrays.graphs import Replay
from sim.simulation.engine.first_state import first_state
from sim.simulation.engine.rollout import run_steps
from sim.simulation.trajectory import Trajectory
from tests.golden.case import Case

# Arrays of names of launches begin with this.
TABLE = "launches."

Arrays = dict[str, np.ndarray]


def record(case: Case, simulator: sim.Simulator | None = None) -> Arrays:
    """Run a case: states, reports, contacts, gradients, Jacobians of a step, and replay tables.

    Args:
        case: the case.
        simulator: one of the same case that has been used before; None for a new one. It has captured its launches
            already, so that there are no replay tables.
    """
    with warnings.catch_warnings(action="ignore"):  # some worlds are bad, some contacts left out
        return _record(case, case.simulator() if simulator is None else simulator)


def _record(case: Case, simulator: sim.Simulator) -> Arrays:
    tables: dict[str, list[str]] = {}
    given = case.inputs()
    state = simulator.state(given["q"], given["qd"], given["act"] if case.model.na else None)
    inputs = {"tau": given["tau"], "control": given["control"] if case.model.nu else None}
    if case.lead:
        inputs["kinematic_qd"] = given["kinematic_qd"]
    with captured(tables, "forward"):
        trajectory = _rollout(case, simulator, state, inputs)
    found: Arrays = {}
    for name in ("q", "qd", "act", "contact_force", "bad_state", "solved"):
        keep(found, name, getattr(trajectory, name))
    for name in ("residual", "sweeps", "contact_overflow"):
        keep(found, name, getattr(simulator, name))
    if trajectory.impulses is not None:
        keep(found, "impulses", trajectory.impulses.value)
        keep(found, "impulse_keys", trajectory.impulses.key)
    with captured(tables, "backward"):
        _backward(found, case, simulator, trajectory)
    last: dict[str, Any] = {name: None if value is None else value[-1] for name, value in inputs.items()}
    with captured(tables, "contacts"):
        contacts = simulator.contacts(trajectory.final_state, **last)
    for name, value in vars(contacts).items():
        keep(found, f"contacts.{name}", value)
    if simulator.integrator != "rk4" and not simulator.contact.warm_start:
        with captured(tables, "linearise"):
            matrices = simulator.linearise(trajectory.final_state, **last)
        for name in ("A", "B_tau", "B_control", *(["B_kinematic"] if case.lead else [])):
            keep(found, f"linearise.{name}", getattr(matrices, name))
    return found | {f"{TABLE}{name}": np.array(rows) for name, rows in tables.items() if rows}


def _rollout(case: Case, simulator: sim.Simulator, state: sim.State, inputs: dict[str, Any]) -> sim.Trajectory:
    if not case.keeps_solved:
        return simulator.rollout(state, checkpoint_interval=case.interval, **inputs)
    engine = simulator.engine
    forces = engine.batches.of_steps(inputs["tau"], case.model.nv, "tau", case.steps)
    first = first_state(engine, state)
    recording = run_steps(engine, first, forces, None, case.steps, case.interval, keeps_solved=True)
    return Trajectory.of(recording, simulator)


def _backward(found: Arrays, case: Case, simulator: sim.Simulator, trajectory: sim.Trajectory) -> None:
    """Record the gradients of a random linear loss in all stored states and readings."""
    rng = np.random.default_rng(3)

    def weights(array: wp.array | None) -> np.ndarray | None:
        return None if array is None else np.array(rng.normal(size=array.shape))

    last = weights(trajectory.q[0]), weights(trajectory.qd[0])
    gradients = trajectory.gradients(
        weights(trajectory.q),
        weights(trajectory.qd),
        case.parameters(simulator),
        None if trajectory.impulses is None else weights(trajectory.impulses.value),
        contact_force_grad=weights(trajectory.contact_force),
        act_grad=weights(trajectory.act),
        solved_grad=weights(trajectory.solved),
        leave_out_bad_worlds=True,
    )
    for name in ("q", "qd", "tau", "control", "act", "impulses", *(["kinematic_qd"] if case.lead else [])):
        keep(found, f"gradient.{name}", getattr(gradients, name))
    for name, value in gradients.parameters.items():
        keep(found, f"gradient.{name}", value)
    keep(found, "adjoint_residual", simulator.adjoint_residual)
    norms = trajectory.gradient_norms(*last)
    keep(found, "norms.q", norms.q)
    keep(found, "norms.qd", norms.qd)


def keep(found: Arrays, name: str, value: object) -> None:
    """Add a copy of an array, unless there is none."""
    if value is not None:
        assert name not in found, name
        found[name] = np.array(value.numpy() if hasattr(value, "numpy") else value)


@contextlib.contextmanager
def captured(tables: dict[str, list[str]], name: str) -> Iterator[None]:
    """Context in which the launches of every graph that is captured are listed, each as "module/kernel dim".

    Args:
        tables: the list goes there.
        name: its key.
    """
    rows = tables.setdefault(name, [])
    make = Replay.__init__

    def made(replay: Replay, work: Callable[[], None]) -> None:
        make(replay, work)
        rows.append("graph")
        rows.extend(_row(call._launch) for call in replay.calls)

    with mock.patch.object(Replay, "__init__", made):
        yield


def _row(launch: Any) -> str:
    kernel, bounds = launch.kernel, launch.bounds
    module, name = kernel.module.name.removeprefix("backswing."), kernel.key.rpartition("__")[-1]
    adjoint = " adjoint" if launch.adjoint else ""
    return f"{module}/{name}{adjoint} {'x'.join(str(size) for size in bounds.shape)}"
