"""Does the loss of a rollout jump near the motion that is checked? Between jumps every gradient is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.diagnostics.finite_differences import INPUTS, Problem
from sim.diagnostics.gradient_entries import Entry

# How far to look, relative to the scale of an entry: 5 cm, 0.05 rad.
REACH = 0.05
# Intervals of the midpoint rule that integrates the derivative. Few come first; if they do not add up, many resolve the
# steep parts, such as a landing, which is as wide as the speed times h.
INTERVALS = (16, 512)
STEP = 1e-6
# What the derivatives may leave unexplained, as a share of their integral or of the change, whichever is larger.
UNEXPLAINED = 0.1


@dataclass(frozen=True)
class Jump:
    """A change of the loss that its derivatives do not account for.

    Attributes:
        argument: "q", "qd", "tau" or "control".
        world: the world.
        change: change of the loss along a random direction in the argument, from -REACH to REACH.
        integral: integral of its derivative over the same way.
    """

    argument: str
    world: int
    change: float
    integral: float

    def __str__(self) -> str:
        return (
            f"jump: {self.argument} of world {self.world}: from {-REACH:g} to {REACH:g} along a random direction the "
            f"loss changes by {self.change:.3g}, but its derivatives add up to {self.integral:.3g}; "
            "see docs/gradients.md"
        )


def find_jumps(
    problem: Problem, chosen: Mapping[str, Sequence[Entry]], world: int, rng: np.random.Generator
) -> list[Jump]:
    """Compare changes of the loss with integrals of its derivatives, for each input among the chosen entries."""
    directions = {name: _direction(problem.values[name], some, rng) for name, some in chosen.items() if name in INPUTS}
    found: dict[str, Jump] = {}
    for intervals in INTERVALS:
        found = {}
        for name, loss in zip(directions, _sample(problem, directions, intervals), strict=True):
            slopes = (loss[2 + intervals :] - loss[2 : 2 + intervals]) / (2.0 * STEP)
            change, integral = float(loss[1] - loss[0]), float(slopes.mean() * 2.0 * REACH)
            largest = max(abs(change), abs(integral), float(np.abs(slopes).mean()) * 2.0 * REACH)
            if abs(change - integral) > UNEXPLAINED * largest:
                found[name] = Jump(name, world, change, integral)
        directions = {name: directions[name] for name in found}
    return list(found.values())


def _sample(problem: Problem, directions: Mapping[str, np.ndarray], intervals: int) -> np.ndarray:
    """Losses [directions, 2 + 2 intervals]: at both ends, then just before and after the middle of each interval."""
    middles = REACH * ((2.0 * np.arange(intervals) + 1.0) / intervals - 1.0)
    places = np.concatenate([[-REACH, REACH], middles - STEP, middles + STEP])
    count = len(places)
    inputs = {name: np.repeat(problem.values[name][None], len(directions) * count, axis=0) for name in directions}
    for number, (name, direction) in enumerate(directions.items()):
        rows = inputs[name][number * count : (number + 1) * count]
        rows += places.reshape(-1, *[1] * direction.ndim) * direction
    return problem.losses(inputs).reshape(len(directions), count) if directions else np.zeros((0, count))


def _direction(value: np.ndarray, some: Sequence[Entry], rng: np.random.Generator) -> np.ndarray:
    """All entries at once, each up or down by its scale."""
    total = np.zeros(value.size)
    for entry in some:
        direction = entry.direction
        size = rng.choice((-1.0, 1.0)) * direction.scale
        np.add.at(total, list(direction.places), size * np.array(direction.coefficients))
    return total.reshape(value.shape)
