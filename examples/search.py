"""Gradient-based search that can be resumed after an interruption."""

from typing import Any

from sim import optimise
from sim.progress import Progress


def resumed_gradient(problem: optimise.Problem, kept: Progress, guess: Any = None, **options: Any) -> optimise.Result:
    """Run :func:`sim.optimise.gradient`, save it after each iteration, and resume from the saved state.

    Args:
        problem: the problem.
        kept: saves the progress; marked as complete unless Ctrl-C ended the search.
        guess: first unknowns.
        **options: other arguments of :func:`sim.optimise.gradient`.
    """
    found = optimise.gradient(problem, guess, save=lambda state: kept.save(**state), resume=kept.load(), **options)
    if found.message != "interrupted":
        kept.done()
    return found
