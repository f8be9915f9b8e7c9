"""A search by gradients that an interruption doesn't lose."""

from typing import Any

from examples.resume import Progress
from sim import optimise


def resumed_gradient(problem: optimise.Problem, kept: Progress, guess: Any = None, **options: Any) -> optimise.Result:
    """:func:`sim.optimise.gradient`, saved after each iteration, and going on from what was saved.

    Args:
        problem: the problem.
        kept: saves the progress; is done unless Ctrl-C ended the search.
        guess: first unknowns.
        **options: the others of :func:`sim.optimise.gradient`.
    """
    found = optimise.gradient(problem, guess, save=lambda state: kept.save(**state), resume=kept.load(), **options)
    if found.message != "interrupted":
        kept.done()
    return found
