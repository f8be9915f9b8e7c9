"""Finite differences of a rollout. All perturbed rollouts run in parallel, each in a world of one simulator."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import warp as wp

from sim.errors import ContactOverflowWarning, OpenConstraintWarning
from sim.model.model import Model
from sim.simulation.engine.first_state import first_broken
from sim.simulation.options import ContactMethod
from sim.simulation.simulator import Simulator
from sim.simulation.state import Impulses, State

# Inputs of every step, and all arguments of a rollout other than parameters.
STEP_INPUTS = ("tau", "control", "kinematic_qd")
INPUTS = ("q", "qd", "act", *STEP_INPUTS)
# Widths relative to the scale of an entry. No single width suits all entries: a distance changes velocities by its
# value divided by the time step, a force by its value times the time step, and a kink may be near. The finer widths are
# used if these disagree.
WIDTHS = (1e-3, 2e-5, 3e-7)
FINER_WIDTHS = (1e-8, 5e-10)
# One-sided second-order and central fourth-order differences use the values at these multiples of the width.
OFFSETS = (-2.0, -1.0, 1.0, 2.0)
CENTRAL = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
LEFT = np.array([0.5, -2.0, 0.0, 0.0])
RIGHT = np.array([0.0, 0.0, 2.0, -0.5])
# Rounding error is measured: at this width one-sided second differences contain nothing else, even at a kink.
NOISE_WIDTH = FINER_WIDTHS[-1]
NOISE_SAMPLES = 16
NOISE_MARGIN = 5.0  # allowance for rounding, in standard deviations
# A loss is erratic, as after a chaotic motion, if this exceeds a larger share of its changes over all widths: then no
# width is small enough for differences to be derivatives. Changes below DISCERNIBLE of the loss may be rounding errors.
ERRATIC, DISCERNIBLE = 1e-3, 1e-8
GROSS = 0.1  # relative change of a difference from one width to the next that exceeds its order of convergence
# Batch size. On a CPU larger batches need more shards, each of which takes longer to build than its rollouts to run.
WORLDS_AT_ONCE = 128


@dataclass(frozen=True)
class Problem:
    """A rollout of one world with a linear loss of its states, in float64.

    Attributes:
        model: the model, in float64.
        dt: time step [s].
        contact: options of the contact solver.
        device: Warp device or its name.
        values: arguments of the rollout by name: q [nq], qd [nv], act [na], tau [steps, nv], control [steps, nu] and
            kinematic_qd [steps, nk] if given, and parameters [n, ...]. Other parameters have the model's values.
        q_weight: derivative of the loss in every q [steps + 1, nq].
        qd_weight: the same for qd [steps + 1, nv].
        impulses: impulses of a warm start for the first step: values [max_constraints, 3] and keys
            [max_constraints, 2].
        integrator: of the simulator.
        active: points, welds and couplings that are on [steps, n], if given; not perturbed.
        broken: those that are broken at first [n], of models in which one may break; likewise.
    """

    model: Model
    dt: float
    contact: ContactMethod
    device: wp.DeviceLike
    values: dict[str, np.ndarray]
    q_weight: np.ndarray
    qd_weight: np.ndarray
    impulses: tuple[np.ndarray, np.ndarray] | None = None
    integrator: str = "euler"
    active: np.ndarray | None = None
    broken: np.ndarray | None = None


class Rollouts:
    """Rollouts of a problem with perturbed inputs, each in one world of a simulator.

    Args:
        problem: the problem.
        names: inputs to perturb.
        most: maximum number of rollouts requested at a time.
    """

    def __init__(self, problem: Problem, names: Iterable[str], most: int):
        self.problem, self.names = problem, tuple(names)
        self._worlds = min(most, WORLDS_AT_ONCE)
        parameters = {name: value for name, value in problem.values.items() if name not in INPUTS}
        parameters |= {name: self._in_every_world(name) for name in self.names if name not in INPUTS}
        self._simulator = Simulator(
            problem.model, problem.dt, self._worlds, problem.device, problem.contact, parameters,
            integrator=problem.integrator,
            state_limit=(math.inf, math.inf),  # the differences show where a motion diverges
        )  # fmt: skip

    def losses(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return losses [count] of rollouts with these values [count, ...] of all perturbed inputs."""
        count = len(next(iter(values.values())))
        found = []
        for first in range(0, count, self._worlds):
            # Repeat the last row to fill the last batch.
            rows = np.minimum(np.arange(first, first + self._worlds), count - 1)
            found.append(self._run({name: value[rows] for name, value in values.items()}))
        return np.concatenate(found)[:count]

    def _run(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        problem, simulator = self.problem, self._simulator
        for name, value in batch.items():
            if name not in INPUTS:
                simulator.parameters[name] = value
        given = {name: self._in_every_world(name) for name in INPUTS if name in problem.values} | batch
        inputs: dict[str, Any] = {name: np.swapaxes(given[name], 0, 1) for name in STEP_INPUTS if name in given}
        impulses = None
        if problem.impulses is not None:
            impulses = [np.repeat(array[None], self._worlds, axis=0) for array in problem.impulses]
        with warnings.catch_warnings():
            # The unperturbed world has issued this warning already, and changed coordinates may open a constraint.
            warnings.simplefilter("ignore", ContactOverflowWarning)
            warnings.simplefilter("ignore", OpenConstraintWarning)
            state = start_state(simulator, given["q"], given["qd"], impulses, given.get("act"), problem.broken)
            steps = len(problem.q_weight) - 1
            trajectory = simulator.rollout(state, steps=steps, **inputs, active=problem.active)
        loss: np.ndarray = np.einsum("tn,twn->w", problem.q_weight, trajectory.q.numpy())
        return loss + np.einsum("tn,twn->w", problem.qd_weight, trajectory.qd.numpy())

    def _in_every_world(self, name: str) -> np.ndarray:
        return np.repeat(self.problem.values[name][None], self._worlds, axis=0)


def start_state(
    simulator: Simulator,
    q: np.ndarray,
    qd: np.ndarray,
    impulses: Sequence[np.ndarray] | None,
    act: np.ndarray | None = None,
    broken: np.ndarray | None = None,
) -> State:
    """Return a float64 state; impulses: values [num_worlds, max_constraints, 3] and keys [..., 2], or None. broken: [n]
    or [num_worlds, n], or None.
    """
    state = replace(simulator.state(q, qd, act), broken=first_broken(simulator.engine, broken))
    if impulses is None:
        return state
    value: wp.array = wp.array(impulses[0], dtype=wp.float64, ndim=3, device=simulator.device)
    key: wp.array = wp.array(impulses[1], dtype=wp.int32, ndim=3, device=simulator.device)
    return replace(state, impulses=Impulses(value, key))


@dataclass(frozen=True)
class Direction:
    """A direction in which to change an input.

    Attributes:
        entries: flat indices into the input of one world.
        coefficients: change at these indices per unit along the direction.
        scale: magnitude of a significant change; widths are relative to it.
    """

    entries: tuple[int, ...]
    coefficients: tuple[float, ...]
    scale: float

    def along(self, gradient: np.ndarray) -> float:
        """Return the derivative along the direction, from a gradient shaped like the input."""
        return float(np.dot(gradient.reshape(-1)[list(self.entries)], self.coefficients))


@dataclass(frozen=True)
class Differences:
    """Finite differences along the directions of one input [directions].

    Attributes:
        left: one-sided differences from below, second order.
        right: one-sided differences from above, second order.
        central: central differences, fourth order, at the width at which the two sides agree best.
        left_doubt: uncertainty of ``left``: its change to the next width and at finer ones, plus rounding, at the width
            that minimises this sum; infinite where the loss is erratic and differences are meaningless.
        right_doubt: the same for ``right``.
        width: width of the central differences.
        rounding: rounding error of the central differences.
    """

    left: np.ndarray
    right: np.ndarray
    central: np.ndarray
    left_doubt: np.ndarray
    right_doubt: np.ndarray
    width: np.ndarray
    rounding: np.ndarray


def finite_differences(problem: Problem, directions: dict[str, Sequence[Direction]]) -> dict[str, Differences]:
    """Compute differences of the loss along directions of some inputs, by name.

    The choice of width depends on the differences only, not on the gradient that is checked.
    """
    wanted = [(name, direction) for name, some in directions.items() for direction in some]
    if not wanted:
        return {name: Differences(*np.zeros((len(fields(Differences)), 0))) for name in directions}
    names = [name for name, some in directions.items() if some]
    rollouts = Rollouts(problem, names, len(wanted) * len(WIDTHS) * len(OFFSETS) + 1)
    noise = _noise(rollouts, wanted)
    values = _sample(rollouts, wanted, WIDTHS)
    widths = np.array([[width * direction.scale for width in WIDTHS] for _, direction in wanted])
    settled = _best(values, widths, noise)
    open_ones = np.flatnonzero(np.abs(settled.left - settled.right) > 1e-7 * np.abs(settled.central) + settled.rounding)
    if len(open_ones):
        finer = np.full((len(wanted), len(FINER_WIDTHS), len(OFFSETS) + 1), np.nan)
        finer[open_ones] = _sample(rollouts, [wanted[i] for i in open_ones], FINER_WIDTHS)
        widths = np.concatenate(
            [widths, [[width * direction.scale for width in FINER_WIDTHS] for _, direction in wanted]], axis=1
        )
        settled = _best(np.concatenate([values, finer], axis=1), widths, noise)
    result = {}
    start = 0
    for name, some in directions.items():
        part = slice(start, start + len(some))
        result[name] = Differences(**{key: value[part] for key, value in vars(settled).items()})
        start += len(some)
    return result


def _sample(rollouts: Rollouts, wanted: Sequence[tuple[str, Direction]], widths: Sequence[float]) -> np.ndarray:
    """Return losses [directions, widths, offsets + 1], the unperturbed one last."""
    count = len(wanted) * len(widths) * len(OFFSETS)
    inputs = {name: np.repeat(rollouts.problem.values[name][None], count + 1, axis=0) for name in rollouts.names}
    flat = {name: value.reshape(count + 1, -1) for name, value in inputs.items()}
    row = 0
    for name, direction in wanted:
        for width in widths:
            for offset in OFFSETS:
                change = offset * width * direction.scale
                flat[name][row, list(direction.entries)] += change * np.array(direction.coefficients)
                row += 1
    losses = rollouts.losses(inputs)
    values = losses[:count].reshape(len(wanted), len(widths), len(OFFSETS))
    return np.concatenate([values, np.full((len(wanted), len(widths), 1), losses[count])], axis=2)


def _noise(rollouts: Rollouts, wanted: Sequence[tuple[str, Direction]]) -> float:
    """Estimate the rounding error of a loss, which a long or stiff motion amplifies; the same in all directions.

    It uses second differences as in Moré and Wild, *Estimating Computational Noise* (2011), separately on both sides.
    """
    some = [wanted[i] for i in np.unique(np.linspace(0, len(wanted) - 1, NOISE_SAMPLES).astype(int))]
    values = _sample(rollouts, some, [NOISE_WIDTH])[:, 0]
    base = values[:, -1]
    second = np.abs(
        np.concatenate([values[:, 0] - 2.0 * values[:, 1] + base, values[:, 3] - 2.0 * values[:, 2] + base])
    )
    # Directions without effect have no rounding error either.
    second = second[np.isfinite(second) & (second > 0.0)]
    deviation = np.median(second) / np.sqrt(6.0) if len(second) else 0.0
    return float(max(NOISE_MARGIN * deviation, np.finfo(np.float64).eps * np.abs(base[0])))


def _best(values: np.ndarray, widths: np.ndarray, noise: float) -> Differences:
    """Return the differences of each direction at its best width.

    ``values`` are losses from :func:`_sample`, NaN if missing; ``widths`` [directions, widths] are descending.
    """
    changes = (values[..., :-1] - values[..., -1:]) / widths[..., None]
    rounding = noise / widths
    left, right, central = (changes @ weights for weights in (LEFT, RIGHT, CENTRAL))
    rows = np.arange(len(values))
    best = _least(np.abs(left - right) + rounding, central)
    losses = values[np.isfinite(values)]
    erratic = noise > ERRATIC * max(np.ptp(losses), DISCERNIBLE * np.abs(losses).max())
    sides = []
    for side in (left, right):
        doubt = np.abs(np.diff(side, axis=1)) + rounding[:, 1:]
        at = _least(doubt, side[:, 1:])
        whole = doubt[rows, at] + _later(side, rounding)[rows, at + 1]
        sides += [side[rows, at + 1], np.where(erratic, np.inf, whole)]
    return Differences(sides[0], sides[2], central[rows, best], sides[1], sides[3], widths[rows, best],
                       rounding[rows, best])  # fmt: skip


def _later(side: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Return the largest gross change of differences [directions, widths] beyond rounding at finer widths."""
    change = np.nan_to_num(np.abs(np.diff(side, axis=1)) - rounding[:, 1:])
    change[change < GROSS * np.nan_to_num(np.abs(side[:, 1:]))] = 0.0
    return np.maximum.accumulate(np.pad(change, ((0, 0), (0, 1)))[:, ::-1], axis=1)[:, ::-1]


def _least(doubt: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the index of the width with the least doubt, from doubts [directions, widths].

    A finer width is returned if only finer ones have a significant digit. Wide differences of a bounded, fast-changing
    loss are small, and their doubt is small for that reason alone.
    """
    doubt = np.where(np.isfinite(doubt), doubt, np.inf)
    first = doubt.argmin(axis=1)
    telling = (doubt <= 0.5 * np.abs(found)) & (np.arange(doubt.shape[1]) >= first[:, None])
    return np.where(telling.any(axis=1), np.where(telling, doubt, np.inf).argmin(axis=1), first)
