"""Search for jumps of a rollout's loss near the checked motion. Between jumps every gradient can be right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.diagnostics.finite_differences import Problem, Rollouts
from sim.diagnostics.gradient_entries import Entry
from sim.model.parameters import NOT_NEGATIVE, PARAMETERS, POSITIVE

# Range of the search, relative to the scale of an entry: 5 cm, 0.05 rad, 5 % of a mass.
RANGE = 0.05
# Parameters perturbed by a share of their value, so that no mass becomes negative and an inertia stays positive
# definite.
BY_SHARES = (*NOT_NEGATIVE, *POSITIVE, "inertia")
# Numbers of intervals of the midpoint rule that integrates the derivative. Few are tried first; if they do not add up,
# many resolve the steep parts, such as a landing, which is as wide as the speed times h.
INTERVALS = (16, 512)
STEP = 1e-6
# Tolerance for the change that the derivatives leave unexplained, relative to their integral or the change, whichever
# is larger.
UNEXPLAINED = 0.1
# Rounding of that change, relative to the loss: differences over STEP enlarge the loss's own by 1 / STEP.
ROUNDING = 1e-8


@dataclass(frozen=True)
class Jump:
    """A change of the loss that its derivatives do not account for.

    Attributes:
        argument: "q", "qd", "tau", "control", "kinematic_qd" or the name of a parameter.
        world: the world.
        change: change of the loss along a random direction in the argument, from -RANGE to RANGE; for non-negative
            values and inertias, relative to the value.
        integral: integral of its derivative over the same range.
    """

    argument: str
    world: int
    change: float
    integral: float

    def __str__(self) -> str:
        span = f"{-RANGE:.0%} to {RANGE:.0%}" if self.argument in BY_SHARES else f"{-RANGE:g} to {RANGE:g}"
        return (
            f"jump: {self.argument} of world {self.world}: from {span} along a random direction the loss changes by "
            f"{self.change:.3g}, but its derivatives add up to {self.integral:.3g}; see docs/gradients.md"
        )


def find_jumps(
    problem: Problem, chosen: Mapping[str, Sequence[Entry]], world: int, rng: np.random.Generator
) -> list[Jump]:
    """Compare changes of the loss with integrals of its derivatives, for each argument of the chosen entries."""
    directions = {name: _direction(name, problem.values[name], some, rng) for name, some in chosen.items() if some}
    found: dict[str, Jump] = {}
    for intervals in INTERVALS:
        found = {}
        for name, loss in zip(directions, _sample(problem, directions, intervals), strict=True):
            slopes = (loss[2 + intervals :] - loss[2 : 2 + intervals]) / (2.0 * STEP)
            change, integral = float(loss[1] - loss[0]), float(slopes.mean() * 2.0 * RANGE)
            largest = max(abs(change), abs(integral), float(np.abs(slopes).mean()) * 2.0 * RANGE)
            if abs(change - integral) > UNEXPLAINED * largest + ROUNDING * float(np.abs(loss).max()):
                found[name] = Jump(name, world, change, integral)
        directions = {name: directions[name] for name in found}
    return list(found.values())


def _sample(problem: Problem, directions: Mapping[str, np.ndarray], intervals: int) -> np.ndarray:
    """Return losses [directions, 2 + 2 intervals]: at both ends, then on both sides of each interval's middle."""
    if not directions:
        return np.zeros((0, 2 + 2 * intervals))
    middles = RANGE * ((2.0 * np.arange(intervals) + 1.0) / intervals - 1.0)
    entries = np.concatenate([[-RANGE, RANGE], middles - STEP, middles + STEP])
    count = len(entries)
    total = len(directions) * count
    inputs = {name: np.repeat(problem.values[name][None], total, axis=0) for name in directions}
    for number, (name, direction) in enumerate(directions.items()):
        rows = inputs[name][number * count : (number + 1) * count]
        rows += entries.reshape(-1, *[1] * direction.ndim) * direction
    return Rollouts(problem, directions, total).losses(inputs).reshape(len(directions), count)


def _direction(name: str, value: np.ndarray, some: Sequence[Entry], rng: np.random.Generator) -> np.ndarray:
    """Return a direction that changes all entries by plus or minus their scale or value; an inertia as a whole."""
    if name in BY_SHARES:
        items = value.reshape(-1, int(np.prod(PARAMETERS[name].shape, dtype=int)))
        signs = rng.choice((-1.0, 1.0), size=(len(items), 1))
        return (signs * np.where(np.isfinite(items), items, 0.0)).reshape(value.shape)
    total = np.zeros(value.size)
    for entry in some:
        direction = entry.direction
        size = rng.choice((-1.0, 1.0)) * direction.scale
        np.add.at(total, list(direction.entries), size * np.array(direction.coefficients))
    return total.reshape(value.shape)
