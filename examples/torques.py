"""Optimisation of the torques of every step so that a body ends at a point. Shared by throw and golf."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sim
from examples.search import resumed_gradient
from sim import optimise
from sim.model.model import Part
from sim.progress import Progress

PATIENCE = 8  # iterations without improvement, common during throws, before a search returns to its best
JOINING = 5  # searches that start when the first has exceeded its patience
SPREAD = 0.01  # of their first torques

# From q [steps + 1, worlds, nq] and qd [steps + 1, worlds, nv] to the body's final position [worlds, k].
End = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Task:
    """Target, initial state and first guess of a search.

    Attributes:
        model: the model.
        dt: time step [s].
        q0: initial coordinates [nq].
        qd0: initial velocities [nv].
        tau: initial guess of the torques [steps, nv].
        motors: the part whose torques are optimised.
        body: slice of q with the position of the body.
        target: target of the body after the last step [3].
        goal: distance from the target that counts as a hit [m].
        longest_step: maximum intended motion of the body's final position per iteration [m].
    """

    model: sim.Model
    dt: float
    q0: np.ndarray
    qd0: np.ndarray
    tau: np.ndarray
    motors: Part
    body: slice
    target: np.ndarray
    goal: float
    longest_step: float


@dataclass(frozen=True)
class Result:
    """A finished optimisation.

    Attributes:
        tau: the best torques [steps, nv]; zero where there is no motor.
        q: coordinates of that motion [steps + 1, nq].
        qd: velocities of that motion [steps + 1, nv].
        distances: smallest final distance of the body from the target so far, at every iteration [m].
        goal: distance that counts as a hit [m].
        seconds: time taken.
    """

    tau: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    distances: list[float]
    goal: float
    seconds: float

    @property
    def hit(self) -> bool:
        """True if the target was reached."""
        return self.distances[-1] < self.goal

    def numbers(self, target: np.ndarray, dt: float) -> dict[str, Any]:
        """Return the content of the result file, including the target [3] and the time step [s]."""
        return dict(tau=self.tau, q=self.q, qd=self.qd, distances=self.distances, target=target, dt=dt)

    def __str__(self) -> str:
        verdict = "hit" if self.hit else "missed"
        iterations = len(self.distances) - 1
        return (
            f"{verdict}: {100.0 * self.distances[-1]:.2f} cm from the target after {iterations} iterations, "
            f"{self.seconds:.1f} s"
        )


def reach(
    task: Task, end: End, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the body to the target, by :func:`sim.optimise.gradient`.

    Ctrl-C ends the search and keeps the best result so far.

    Args:
        task: the task.
        end: computes the final position that an iteration improves: its first coordinates, all 3 or 2 on the ground.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress; None saves nothing.
        bar: show a progress bar.
    """
    kept = Progress(None, {}) if kept is None else kept
    motors, target = task.model.qd_slice(task.motors), torch.as_tensor(task.target, dtype=torch.float32)

    def miss(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        position = end(q, qd)
        return (position - target.to(position)[: position.shape[1]])[None]

    def distance(motion: optimise.Motion) -> torch.Tensor:
        return torch.linalg.norm(motion.q[-1, :, task.body] - target.to(motion.q), dim=1)

    begun = time.perf_counter()
    simulator = sim.Simulator(task.model, task.dt, device=device)
    problem = optimise.Problem(
        simulator, len(task.tau), [optimise.LeastSquares(miss, longest=task.longest_step)], q0=task.q0, qd0=task.qd0,
        joints=task.motors, limits=(-np.inf, np.inf),
    )  # fmt: skip
    found = resumed_gradient(
        problem, kept, task.tau[:, motors], iterations=iterations, score=distance, goal=task.goal, patience=PATIENCE,
        joining=JOINING, spread=SPREAD, progress=bar,
    )  # fmt: skip
    tau = task.tau.copy()
    tau[:, motors] = found.controls
    return Result(tau, found.q, found.qd, found.history, task.goal, max(found.seconds, time.perf_counter() - begun))


def try_each(targets: np.ndarray, solve: Callable[[np.ndarray], Result]) -> None:
    """Solve for each target [n, 2 or 3], and print the number of hits."""
    hits = 0
    for number, target in enumerate(targets):
        result = solve(target)
        hits += result.hit
        print(f"{number + 1:3d}  target {np.round(target, 2)}  {result}", flush=True)
    print(f"{hits} of {len(targets)} targets hit")
