"""Optimises the torques of every step so that a body ends at a point. Shared by throw and golf."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

import sim
from examples.resume import Progress

DAMPING = 1e-6  # damping of the Gauss-Newton step relative to the trace of its matrix

# From q [steps + 1, nq] and qd [steps + 1, nv], returns k coordinates of the body's final position [k], and their
# derivatives in all states [steps + 1, k, nq] and [steps + 1, k, nv].
Aim = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Problem:
    """The optimisation problem.

    Attributes:
        model: the model.
        dt: time step [s].
        q0: initial coordinates [nq].
        qd0: initial velocities [nv].
        tau: initial guess of the torques [steps, nv].
        motors: degrees of freedom whose torques are optimised.
        body: slice of q with the position of the body.
        coordinates: number of controlled coordinates: all 3, or 2 if the body ends on the ground.
        target: where the body should be after the last step [3].
        goal: distance from the target that counts as a hit [m].
        longest_step: most that one iteration tries to move the body's final position [m].
    """

    model: sim.Model
    dt: float
    q0: np.ndarray
    qd0: np.ndarray
    tau: np.ndarray
    motors: slice
    body: slice
    coordinates: int
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
        distances: final distance of the body from the target at every iteration [m].
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
        """Whether the target was reached."""
        return min(self.distances) < self.goal

    def numbers(self, target: np.ndarray, dt: float) -> dict[str, Any]:
        """The content of the result file, including the target [3] and the time step [s]."""
        return dict(tau=self.tau, q=self.q, qd=self.qd, distances=self.distances, target=target, dt=dt)

    def __str__(self) -> str:
        verdict = "hit" if self.hit else "missed"
        iterations = len(self.distances) - 1
        return (
            f"{verdict}: {100.0 * min(self.distances):.2f} cm from the target after {iterations} iterations, "
            f"{self.seconds:.1f} s"
        )


def optimise(
    problem: Problem, aim: Aim, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the body to the target.

    One world per controlled coordinate makes the same motion, so that one backward pass gives the derivatives of all
    coordinates. Ctrl-C ends the search and keeps the best result so far.

    Args:
        problem: the optimisation problem.
        aim: computes the final position that an iteration improves.
        iterations: most iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress; None saves nothing.
        bar: whether to show a progress bar.
    """
    kept = Progress(None, {}) if kept is None else kept
    motors = problem.motors
    simulator = sim.Simulator(problem.model, problem.dt, num_worlds=problem.coordinates, device=device)
    state = simulator.state(problem.q0, problem.qd0)
    # Weight each motor by its strength.
    strength = problem.model.effort_limit[motors] ** 2

    tau = problem.tau.copy()
    distances: list[float] = []
    start = time.perf_counter()
    before = kept.load()
    if before is not None:
        tau, distances, best = before["tau"], list(before["distances"]), (before["best"], before["q"], before["qd"])
        start -= float(before["seconds"])
    with tqdm(
        total=iterations, initial=len(distances), desc="optimising", unit="iteration", disable=not bar
    ) as progress:
        progress.set_postfix_str("compiling kernels, unless they are cached")
        try:
            for iteration in range(len(distances), iterations + 1):
                trajectory = simulator.rollout(state, tau)
                q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
                distance = float(np.linalg.norm(problem.target - q[-1, problem.body]))
                if not np.isfinite(distance):
                    break  # the torques made the simulation diverge; keep the best so far
                distances.append(distance)
                if distance == min(distances):
                    best = (tau.copy(), q, qd)
                progress.set_postfix_str(f"distance {100.0 * distance:.1f} cm")
                if distance < problem.goal or iteration == iterations:
                    kept.done()
                    break
                end, *seeds = aim(q, qd)
                tau_gradient = trajectory.backward(*seeds).tau
                assert tau_gradient is not None, "the rollout has torques"
                jacobian = tau_gradient.numpy()[:, :, motors].astype(np.float64)
                way = shortened(problem.target[: problem.coordinates] - end, problem.longest_step)
                tau[:, motors] += gauss_newton_step(jacobian, strength, way)
                kept.save(
                    tau=tau, distances=distances, best=best[0], q=best[1], qd=best[2],
                    seconds=time.perf_counter() - start,
                )  # fmt: skip
                progress.update()
        except KeyboardInterrupt:
            if not distances:
                raise
        progress.total = progress.n  # complete the bar on a hit
    return Result(*best, distances, problem.goal, time.perf_counter() - start)


def resting_place(q: np.ndarray, body: slice, nv: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The simplest aim: the body's position on the ground after the last step.

    Args:
        q: coordinates of a motion [steps + 1, nq].
        body: slice of q with the position of the body.
        nv: number of velocities.
    """
    q_seed, qd_seed = np.zeros((len(q), 2, q.shape[1])), np.zeros((len(q), 2, nv))
    q_seed[-1, range(2), range(body.start, body.start + 2)] = 1.0
    return q[-1, body][:2].astype(np.float64), q_seed, qd_seed


def try_each(targets: np.ndarray, solve: Callable[[np.ndarray], Result]) -> None:
    """Solve for each target [n, 2 or 3], and print how many were hit."""
    hits = 0
    for number, target in enumerate(targets):
        result = solve(target)
        hits += result.hit
        print(f"{number + 1:3d}  target {np.round(target, 2)}  {result}", flush=True)
    print(f"{hits} of {len(targets)} targets hit")


def shortened(miss: np.ndarray, longest: float) -> np.ndarray:
    """Shorten a displacement [k] to at most ``longest``, within which a linear model is accurate."""
    return miss * (longest / max(longest, float(np.linalg.norm(miss))))


def gauss_newton_step(jacobian: np.ndarray, strength: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Smallest weighted change of torques [steps, motors] that moves the body by ``way`` to first order.

    Args:
        jacobian: derivative of the body's final position in the torques [steps, k, motors].
        strength: weight of each motor.
        way: displacement of the body [k].
    """
    matrix = np.einsum("tim,tjm,m->ij", jacobian, jacobian, strength)
    multipliers = np.linalg.solve(matrix + DAMPING * np.trace(matrix) * np.eye(len(way)), way)
    return np.einsum("i,tim,m->tm", multipliers, jacobian, strength)
