"""Solve: one method by its name, with constraints in an augmented Lagrangian around it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole, require_type
from sim.optimise.constraints import Multiplied
from sim.optimise.methods.cmaes import cmaes
from sim.optimise.methods.gradient import gradient
from sim.optimise.methods.ilqr import ilqr
from sim.optimise.methods.lbfgs import lbfgs
from sim.optimise.parametrisations import OpenLoop
from sim.optimise.problem import Problem
from sim.optimise.result import Result

METHODS: dict[str, Callable[..., Result]] = {"gradient": gradient, "ilqr": ilqr, "lbfgs": lbfgs, "cmaes": cmaes}
STIFFER = 10.0  # factor of the stiffness after a round that hasn't reduced the violation to a quarter
ENOUGH = 0.25


def solve(
    problem: Problem,
    method: str = "ilqr",
    guess: Any = None,
    *,
    rounds: int = 10,
    stiffness: float = 10.0,
    feasible: float = 1e-3,
    **options: Any,
) -> Result:
    """Find the controls of least cost that satisfy the constraints.

    Without constraints it is the method alone. With them the method runs in rounds: each constraint is a cost with
    multipliers, which grow by its violation, and its stiffness grows if that isn't enough (augmented Lagrangian,
    Nocedal and Wright 2006, section 17.4). Each round starts from the result of the last.

    Args:
        problem: the problem.
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        guess: first unknowns, see the method.
        rounds: maximum number of rounds with constraints.
        stiffness: stiffness of the first round, cost per square of a constraint's value.
        feasible: tolerance of the violation.
        **options: options of the method; ``starts`` applies to the first round. ``save`` and ``resume`` don't work with
            constraints.

    Raises:
        ModelError: for an unknown method, and as the method.

    Example:
        >>> import sim
        >>> from sim.optimise import Effort, Position, Problem, Velocity, solve
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> there = Position("link7", (0.3, 0.4, 0.9), weight=100.0, at=-1)
        >>> problem = Problem(simulator, 15, [there, Velocity(weight=0.1, at=-1), Effort(1e-4)], hold=8)
        >>> found = solve(problem, "ilqr", iterations=20)
        >>> found.cost < 0.1 * found.history[0]
        True
    """
    require_type("solve: problem", problem, Problem, "a sim.optimise.Problem")
    if not (isinstance(method, str) and method in METHODS):
        raise ModelError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    run = METHODS[method]
    if not problem.constraints:
        return run(problem, guess, **options)
    if not (is_whole(rounds, 1) and is_positive(stiffness) and is_positive(feasible)):
        raise ModelError("solve: rounds, stiffness and feasible must be positive, rounds a whole number")
    for name in ("save", "resume"):
        if name in options:
            raise ModelError(f"solve: '{name}' applies to a single search, but constraints take several; remove it")
    terms = [Multiplied(constraint, stiffness) for constraint in problem.constraints]
    history: list[float] = []
    rollouts, seconds, before = 0, 0.0, float("inf")
    for number in range(rounds):
        found = run(problem.with_costs([*problem.costs, *terms]), guess, **options)
        options.pop("starts", None)
        rollouts, seconds = rollouts + found.rollouts, seconds + found.seconds
        history += found.history
        with torch.no_grad():
            motion = problem.motion(torch.as_tensor(found.unknowns[None], dtype=problem.dtype, device=problem.device))
            violation = float(problem.violation(motion)[0])
            cost = float(problem.cost(motion)[0])
            if violation > ENOUGH * before:
                stiffness *= STIFFER
            terms = [term.updated(motion, stiffness) for term in terms]
        before = violation
        guess = _as_guess(problem, found)
        if violation < feasible and (number or found.converged):
            break
    met = violation < feasible
    message = found.message if met else "constraints not met"
    return replace(
        found, cost=cost, history=history, rollouts=rollouts, seconds=seconds, violation=violation, message=message,
        converged=met and found.converged, terms=found.terms[: len(problem.costs)],
    )  # fmt: skip


def _as_guess(problem: Problem, found: Result) -> Any:
    """Return a guess from which a method continues another one's result."""
    if isinstance(problem.parametrisation, OpenLoop):
        return found.unknowns.reshape(-1, problem.space.size)
    return found.unknowns
