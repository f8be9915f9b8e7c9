"""Result that every method returns, and the state of a search for ``watch``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from sim.optimise.problem import Problem


@dataclass(frozen=True)
class Iteration:
    """Iteration of a search, given to ``watch``.

    Attributes:
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        problem: the problem.
        history: the least cost, or score, of all starts so far, after each iteration.
        unknowns: the present unknowns [starts, n] of every start, of the present start of ``lbfgs``, or of every
            candidate of ``cmaes``.

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


@dataclass(frozen=True)
class Result:
    """Best motion that was found.

    Attributes:
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        cost: its cost, without constraints.
        controls: joint forces of the chosen joints or inputs of the actuators [stages, size].
        q: coordinates before each step of the simulator and after the last [steps + 1, nq].
        qd: velocities likewise [steps + 1, nv].
        unknowns: the parametrisation's unknowns [n]; for ``ilqr`` the controls.
        history: the least cost, or score, of all starts so far, after each iteration; entry 0 is that of the first
            guesses.
        rollouts: number of motions of one world that were simulated, forward passes only.
        message: reason for the end.
        converged: True if the search converged or the goal was reached.
        starts: the final cost, or score, of each start [starts].
        violation: largest violation of any constraint.
        gains: for ``ilqr``, feedback gains of the controls on a change of the state in tangent coordinates [stages,
            size, 2 nv + na].
        seconds: time taken.
        act: states of actuators that have one, likewise [steps + 1, na]; None if there are none.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)])
        >>> found = ilqr(problem, iterations=5)
        >>> found.method, found.controls.shape, found.q.shape, bool(found.cost < found.history[0])
        ('ilqr', (20, 1), (21, 1), True)
    """

    method: str
    cost: float
    controls: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    unknowns: np.ndarray
    history: list[float]
    rollouts: int
    message: str
    converged: bool
    starts: np.ndarray
    violation: float = 0.0
    gains: np.ndarray | None = field(default=None, repr=False)
    seconds: float = 0.0
    act: np.ndarray | None = None

    def __str__(self) -> str:
        iterations = max(len(self.history) - 1, 0)
        text = f"{self.method}: cost {self.cost:.6g} after {iterations} iterations, {self.rollouts} rollouts and "
        text += f"{self.seconds:.1f} s; {self.message}"
        return text if self.violation == 0.0 else f"{text}; constraints violated by {self.violation:.2g}"
