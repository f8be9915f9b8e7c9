"""Where a search is, for those who watch it while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from sim.optimise.problem import Problem


@dataclass(frozen=True)
class Iteration:
    """An iteration of a search, given to ``watch``.

    Attributes:
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        problem: the problem.
        history: the least cost, or score, of all starts so far, after each iteration.
        unknowns: what is tried now [starts, n]: by every start, by the present one of ``lbfgs``, or by every candidate
            of ``cmaes``.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)])
        >>> seen = []
        >>> found = ilqr(problem, iterations=5, watch=seen.append)
        >>> seen[-1].method, seen[-1].unknowns.shape, len(seen) == len(found.history)
        ('ilqr', (1, 20), True)
    """

    method: str
    problem: Problem
    history: list[float]
    unknowns: np.ndarray

    @property
    def dt(self) -> float:
        """Time between the states in ``q`` [s]."""
        return float(self.problem.simulator.dt) * self.problem.hold

    @cached_property
    def q(self) -> np.ndarray:
        """Coordinates before each stage and after the last [stages + 1, starts, nq]; simulated when first asked for."""
        problem = self.problem
        with torch.no_grad():
            motion = problem.motion(torch.as_tensor(self.unknowns, dtype=problem.dtype, device=problem.device))
        return motion.q.cpu().numpy().astype(np.float64)


Watch = Callable[[Iteration], None]
