"""Comparison of a rollout's gradients with finite differences, on a user's own scene."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.diagnostics.finite_differences import (
    INPUTS,
    STEP_INPUTS,
    Differences,
    Problem,
    finite_differences,
    start_state,
)
from sim.diagnostics.gradient_entries import Entry, entries
from sim.diagnostics.gradient_report import CheckedEntry, GradientReport
from sim.diagnostics.jumps import Jump, find_jumps
from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, items_of, names_in, number, require_seed, require_type
from sim.model.parameters import number_of_dims
from sim.simulation.batches import ArrayLike
from sim.simulation.engine.first_state import first_broken, first_impulses
from sim.simulation.gradients import Gradients
from sim.simulation.options import HardContact, PgsContact
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory


@serialized
def check_gradients(
    simulator: Simulator,
    state: State,
    tau: ArrayLike | None = None,
    wrt: Iterable[str] | None = None,
    *,
    control: ArrayLike | None = None,
    steps: int | None = None,
    q_grad: ArrayLike | None = None,
    qd_grad: ArrayLike | None = None,
    worlds: Iterable[int] = (0,),
    most: int = 40,
    bound: float = 1e-6,
    seed: int = 0,
    kinematic_qd: ArrayLike | None = None,
    active: ArrayLike | None = None,
) -> GradientReport:
    """Compare the gradients of a rollout with its finite differences.

    The report names wrong entries, kinks (two one-sided derivatives, see docs/contact/kinks.md) and jumps, where the
    loss changes by more than the integral of its derivatives (:attr:`GradientReport.jumps`). A mismatch does not raise;
    see :meth:`GradientReport.raise_if_wrong`.

    Both are computed in float64, whatever the simulator's dtype, by a separate simulator with the same model, options
    and parameters, but without ``gradient_smoothing``: the exact gradient is checked. All perturbed rollouts are worlds
    of one simulator and run in parallel. One-sided differences with several widths distinguish an error from a kink.

    A change of a quaternion is a rotation about an axis [rad], and a change of an inertia keeps it symmetric.
    Parameters are changed separately in each world, even if all worlds share them. Entries without a derivative on both
    sides are skipped: infinite limits, and sizes and dry friction of zero.

    Args:
        simulator: the simulator.
        state: the state before the first step. A warm start uses its impulses, or zeros if it has none.
        tau: joint forces, as for :meth:`sim.Simulator.rollout`.
        wrt: arguments to differentiate with respect to: "q", "qd", "tau", "control", "kinematic_qd" and names of
            parameters (:data:`sim.model.parameters.PARAMETERS`). Default: the state, and the inputs that are given.
        control: inputs of the actuators, as for :meth:`sim.Simulator.rollout`.
        steps: number of steps; required if no input is given.
        q_grad: derivative of the loss in the final q [num_worlds, nq], or in every q [steps + 1, num_worlds, nq].
        qd_grad: the same for qd. Without both, the loss is a random projection of the final state.
        worlds: indices of the worlds to check, one after the other.
        most: maximum number of entries per argument and world to compare, chosen at random.
        bound: largest error of a correct gradient, relative to the largest derivative of the same argument.
        seed: seed of the random projection and of the choice of entries.
        kinematic_qd: velocities of the kinematic joints, as for :meth:`sim.Simulator.rollout`.
        active: points, welds and couplings that are on in each step, likewise. It has no gradient.

    Raises:
        ModelError: for wrong shapes, names or worlds, and if there is nothing to check.
        FloatingPointError: if the rollout itself is not finite.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> report = sim.check_gradients(simulator, simulator.initial_state(), np.zeros((5, model.nv)), ["q", "mass"])
        >>> len(report.wrong)
        0
    """
    if not is_whole(most, 1):
        raise ModelError(f"most is {most!r}; it must be a positive integer")
    require_type("check_gradients: simulator", simulator, Simulator, "a sim.Simulator")
    require_type("check_gradients: state", state, State, "a sim.State: make one with simulator.state(q, qd)")
    inputs = {"tau": tau, "control": control, "kinematic_qd": kinematic_qd}
    names = _names(simulator, wrt, inputs)
    chosen_worlds = _worlds(simulator, worlds)
    trajectory = _doubled(simulator, state, {**inputs, "active": active}, steps, chosen_worlds)
    shape = (trajectory.steps + 1, simulator.num_worlds)
    require_seed("check_gradients: seed", seed)
    if not 0.0 < number("check_gradients", "bound", bound) < np.inf:
        raise ModelError(f"check_gradients: bound is {bound!r}; it must be positive and finite")
    bound = float(bound)
    weights = _weights(simulator, shape, q_grad, qd_grad, seed)
    weights = weights[0][:, chosen_worlds], weights[1][:, chosen_worlds]
    residual = float(trajectory.simulator.residual.max())
    gradients = trajectory.backward(*weights, [name for name in names if name not in INPUTS])
    rng = np.random.default_rng(seed)
    checked: list[CheckedEntry] = []
    jumps: list[Jump] = []
    totals = dict.fromkeys(names, 0)
    for index, world in enumerate(chosen_worlds):
        problem = _problem(trajectory, weights, index)
        every = {name: entries(problem.model, problem.values[name], name) for name in names}
        totals = {name: totals[name] + len(some) for name, some in every.items()}
        chosen = {name: _draw(some, most, rng) for name, some in every.items()}
        differences = finite_differences(
            problem, {name: [entry.direction for entry in some] for name, some in chosen.items()}
        )
        for name, some in chosen.items():
            gradient = _of_world(gradients, name, index)
            analytic = np.array([entry.direction.along(gradient) for entry in some])
            checked += judge(some, world, analytic, differences[name], bound)
        jumps += find_jumps(problem, chosen, world, np.random.default_rng(seed))
    norms = replace(trajectory.gradient_norms(*weights), worlds=tuple(chosen_worlds))
    about = _about(simulator, trajectory.steps, residual, q_grad is None and qd_grad is None, seed)
    return GradientReport(tuple(checked), totals, norms, about, tuple(jumps))


def _doubled(
    simulator: Simulator,
    state: State,
    inputs: dict[str, ArrayLike | None],
    steps: int | None,
    worlds: list[int],
) -> Trajectory:
    """Roll out some worlds in float64, with all parameters per world."""
    m = simulator.model
    q, qd = (
        simulator.engine.batches.of_worlds(value, size, name).numpy()[worlds]
        for value, size, name in ((state.q, m.nq, "state.q"), (state.qd, m.nv, "state.qd"))
    )
    of_steps = simulator.engine.batches.of_steps
    given = {
        name: of_steps(value, size, name)
        for (name, value), size in zip(inputs.items(), (m.nv, m.nu, m.nk, len(m.switch_names)), strict=True)
    }
    doubled: dict[str, Any] = {
        name: None if array is None else array.numpy()[:, worlds].astype(np.float64) for name, array in given.items()
    }
    parameters = {
        name: value[worlds] if value.ndim > number_of_dims(name) else np.repeat(value[None], len(worlds), axis=0)
        for name, value in simulator.parameters.items()
    }
    exact = simulator.contact
    if isinstance(exact, HardContact):
        exact = replace(exact, gradient_smoothing=0.0)
    double = simulator.replace(
        len(worlds), model=replace(m, dtype="float64"), contact=exact, parameters=parameters, contact_sensors=()
    )
    started = first_impulses(simulator.engine, state.impulses)
    impulses = None if started is None else [array.numpy()[worlds] for array in (started.value, started.key)]
    act = None if state.act is None else state.act.numpy()[worlds]
    begun = first_broken(simulator.engine, state.broken, state.own_broken)
    broken = None if begun is None else begun.numpy()[worlds]
    trajectory = double.rollout(start_state(double, q, qd, impulses, act, broken), steps=steps, **doubled)
    if not (np.isfinite(trajectory.q.numpy()).all() and np.isfinite(trajectory.qd.numpy()).all()):
        raise FloatingPointError(
            "check_gradients: the rollout itself is not finite; set check_finite=True in the simulator to find "
            "the first bad step"
        )
    return trajectory


def _names(simulator: Simulator, wrt: Iterable[str] | None, inputs: dict[str, Any]) -> list[str]:
    if wrt is None:
        states = ["q", "qd", "act"] if simulator.model.na else ["q", "qd"]
        return [*states, *(name for name, given in inputs.items() if given is not None)]
    names = list(dict.fromkeys(names_in("wrt", wrt)))
    if not names:
        raise ModelError("wrt is empty; name at least one argument, or omit wrt to check the state")
    for name in names:
        known = [*INPUTS, *simulator.parameters]
        if name not in known:
            raise ModelError(f"wrt: there is no '{name}'; choose from {', '.join(known)}")
        if name == "act" and not simulator.model.na:
            raise ModelError("wrt names 'act', but no actuator of the model has a state; remove it")
        if name in inputs and inputs[name] is None:
            raise ModelError(f"wrt names '{name}', but no {name} was given; pass it, as zeros if necessary")
    return names


def _worlds(simulator: Simulator, worlds: Iterable[int]) -> list[int]:
    chosen = items_of("worlds", worlds, "a list of world indices, such as [0]", shown=True)
    for world in chosen:
        if not (is_whole(world, 0) and world < simulator.num_worlds):
            raise ModelError(f"worlds: there is no world {world!r}; indices go from 0 to {simulator.num_worlds - 1}")
    if not chosen:
        raise ModelError("worlds is empty; give at least one")
    return [int(world) for world in chosen]


def _weights(
    simulator: Simulator, shape: tuple[int, int], q_grad: ArrayLike | None, qd_grad: ArrayLike | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives of the loss with respect to all states; ``shape`` is (steps + 1, num_worlds).

    Shapes [steps + 1, num_worlds, nq] and [steps + 1, num_worlds, nv].
    """
    shapes = (*shape, simulator.model.nq), (*shape, simulator.model.nv)
    if q_grad is None and qd_grad is None:
        rng = np.random.default_rng(seed)
        q_grad, qd_grad = (rng.normal(size=shape[1:]) for shape in shapes)
    weights = []
    for name, value, full in (("q_grad", q_grad, shapes[0]), ("qd_grad", qd_grad, shapes[1])):
        weight = np.zeros(full)
        if value is not None:
            given = value.numpy() if isinstance(value, wp.array) else as_numbers(name, value)
            if given.shape not in (full, full[1:]):
                raise ModelError(f"{name} has shape {given.shape}; expected {full} or {full[1:]}")
            weight[slice(None) if given.ndim == 3 else -1] = given
        weights.append(weight)
    return weights[0], weights[1]


def _problem(trajectory: Trajectory, weights: tuple[np.ndarray, np.ndarray], world: int) -> Problem:
    """Return the problem of one world of a trajectory."""
    simulator = trajectory.simulator
    values = {name: value[world] for name, value in simulator.parameters.items()}
    values |= {"q": trajectory.q.numpy()[0, world], "qd": trajectory.qd.numpy()[0, world]}
    if trajectory.act is not None:
        values["act"] = trajectory.act.numpy()[0, world]
    for name in STEP_INPUTS:
        given = getattr(trajectory, name)
        if given is not None:
            values[name] = given.numpy()[:, world]
    impulses = None
    if trajectory.impulses is not None:
        impulses = trajectory.impulses.value.numpy()[0, world], trajectory.impulses.key.numpy()[0, world]
    active = None if trajectory.active is None else trajectory.active.numpy()[:, world]
    broken = None if trajectory.broken is None else trajectory.broken.numpy()[0, world]
    return Problem(
        simulator.model, simulator.dt, simulator.contact, simulator.device, values, weights[0][:, world],
        weights[1][:, world], impulses, simulator.integrator, active, broken,
    )  # fmt: skip


def _of_world(gradients: Gradients, name: str, world: int) -> np.ndarray:
    """Return the gradient in one input of one world, shaped like the input."""
    if name in gradients.parameters:
        return gradients.parameters[name][world]
    if name in STEP_INPUTS:
        return getattr(gradients, name).numpy()[:, world]
    return getattr(gradients, name).numpy()[world]


def _draw(some: Sequence[Entry], most: int, rng: np.random.Generator) -> list[Entry]:
    if len(some) <= most:
        return list(some)
    return [some[i] for i in np.sort(rng.permutation(len(some))[:most])]


def judge(
    some: Sequence[Entry], world: int, analytic: np.ndarray, found: Differences, bound: float
) -> list[CheckedEntry]:
    """Classify the entries of one argument, from their derivatives [entries] and the differences."""
    largest = np.nanmax(np.abs(found.central), initial=0.0)
    tolerance = bound * largest + found.rounding
    low, high = np.minimum(found.left, found.right), np.maximum(found.left, found.right)
    doubt = found.left_doubt + found.right_doubt
    miss = np.abs(analytic - found.central)
    beyond = np.maximum(low - analytic, analytic - high)
    wrong = ~np.isfinite(analytic) | (beyond > doubt + tolerance)
    verdicts = np.where(wrong, "wrong", np.where(high - low > doubt, "kink", "unclear"))
    verdicts[np.isfinite(doubt) & (miss <= tolerance)] = "right"
    # Scaled so that entries with an error within the bound are right.
    outside = np.nan_to_num(np.maximum(beyond, 0.0))  # NaN where one side has no difference
    error = np.where(np.isin(verdicts, ("kink", "unclear")), outside, miss) / (tolerance / bound)
    return [
        CheckedEntry(
            entry, world, float(analytic[i]), float(found.left[i]), float(found.right[i]), float(found.central[i]),
            float(found.width[i]), float(error[i]), str(verdicts[i]),
        )
        for i, entry in enumerate(some)
    ]  # fmt: skip


def _about(simulator: Simulator, steps: int, residual: float, projected: bool, seed: int) -> tuple[str, ...]:
    loss = f"a random projection of the final state (seed {seed})" if projected else "the given loss"
    own = simulator.model.dtype
    note = "" if own == "float64" else f";\nthe simulator itself computes in {own}, which adds rounding"
    lines = [
        f"Gradients of {loss} over {steps} steps of {simulator.dt:g} s,",
        f"compared with finite differences. Both are computed in float64{note}.",
    ]
    if isinstance(simulator.contact, PgsContact) and simulator.contact.adjoint == "implicit":
        lines.append(
            f"The adjoint is implicit, which assumes converged sweeps; the residual was {residual:.1e} m/s.\n"
            'If that is large, compare with adjoint="unrolled".'
        )
    if simulator.contact.gradient_smoothing > 0.0:
        lines.append("gradient_smoothing is ignored: the exact gradient is checked.")
    return tuple(lines)
