"""Descent along preconditioned gradients, with Gauss-Newton steps in the space of terms with few residuals.

Let r be the residuals of the least-squares terms with few residuals, J their derivatives, and g the gradient of all
other costs. A step d minimises

    1/2 |r + J d|^2 + g d + 1/2 d' P^-1 d,      P = trust * diag(scale^2),

so that each unknown moves in proportion to its own strength. With y = r + J d that is a system of the size of r
(Woodbury): ``(1 + J P J') y = r - J P g`` and ``d = -P (g + J' y)``. If the only cost is a point to reach, it is the
smallest change of the controls that reaches it to first order. Each residual gets its gradient from a separate world,
all of them in one backward pass.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from sim.errors import ModelError
from sim.model.checks import require_callable, require_type
from sim.optimise.costs import Cost, LeastSquares
from sim.optimise.methods.search import (
    finished,
    first_guesses,
    no_gradient,
    nothing_finite,
    progress_bar,
    require_counts,
    require_numbers,
    warn_of_lost_gradients,
    warn_of_zero_gradients,
)
from sim.optimise.motion import Motion
from sim.optimise.problem import Problem
from sim.optimise.result import Iteration, Result, Watch
from sim.torch.modes import with_gradients

MOST_RESIDUALS = 24  # a term with more of them contributes only its gradient
LARGEST_TRUST = 1e6  # one over the damping of the Gauss-Newton step, see Search.trust
FIRST_STEP = 0.1  # largest change of an unknown in the first step along a gradient, in units of its scale
GROWTH, SHRINK = 4.0, 0.25
MATTERS = 4.0  # a larger trust hardly changes a Gauss-Newton step
SMALLEST_TRUST = 1e-12
EXPLODED = 30.0  # of derivatives, relative to those of the best motion

# From a motion to a number for each world [worlds]; lower is better.
Score = Callable[[Motion], torch.Tensor]


@dataclass
class Search:
    """State of the searches from all starts, as arrays that can be stored.

    Attributes:
        x: unknowns that are tried next [starts, n].
        best: the best so far [starts, n].
        best_score: their scores [starts].
        best_residuals, best_slopes: residuals and derivatives there [starts, k], [starts, rows, n].
        trust: trust of each start, in units of the value that makes the trace of J P J' one if there are residuals;
            zero before the first iteration [starts].
        stale: iterations without a better score, since the last return to the best [starts].
        history: the best score of all starts so far, after each iteration.
        joined: length of the history when more searches joined, otherwise 0.
        seconds: time taken so far.
    """

    x: np.ndarray
    best: np.ndarray
    best_score: np.ndarray
    best_residuals: np.ndarray
    best_slopes: np.ndarray
    trust: np.ndarray
    stale: np.ndarray
    history: np.ndarray
    joined: int
    seconds: float

    def join(self, guesses: np.ndarray) -> None:
        """Start searches from more guesses [more, n], in addition to those that run."""
        new, more = _begun(guesses), len(guesses)
        new.best_residuals = np.zeros((more, *self.best_residuals.shape[1:]))
        new.best_slopes = np.zeros((more, *self.best_slopes.shape[1:]))
        for name in ("x", "best", "best_score", "best_residuals", "best_slopes", "trust", "stale"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(new, name)]))
        self.joined = len(self.history)

    def arrays(self) -> dict[str, Any]:
        """Return copies of all arrays, by name."""
        return {each.name: np.copy(getattr(self, each.name)) for each in fields(self)}


@with_gradients()
def gradient(
    problem: Problem,
    guess: Any = None,
    *,
    iterations: int = 100,
    starts: int = 1,
    spread: float = 0.1,
    seed: int = 0,
    joining: int = 0,
    score: Score | None = None,
    goal: float = -float("inf"),
    patience: int = 0,
    tolerance: float = 1e-6,
    progress: bool = False,
    watch: Watch | None = None,
    save: Callable[[dict[str, Any]], None] | None = None,
    resume: Mapping[str, Any] | None = None,
) -> Result:
    """Descend along preconditioned gradients, Gauss-Newton in a few residuals.

    Ctrl-C ends the search and keeps the best so far.

    Args:
        problem: the problem; its constraints are ignored, see :func:`sim.optimise.solve`.
        guess: first unknowns, such as controls [stages, size], or [starts, ...]. Default: zeros, or the policy's.
        iterations: maximum number of iterations, each with one forward and one backward pass of a rollout.
        starts: number of searches in the batch.
        spread: standard deviation of random guesses about the one given, in units of the unknowns' scale.
        seed: seed of these.
        joining: number of searches from more such guesses that join when every search has exceeded its patience. The
            cost of a motion through contacts has many local minima, and a search rarely leaves one.
        score: criterion for the best motion. Default: its cost.
        goal: a score below this ends the search.
        patience: number of iterations without improvement before a search returns to its best and takes shorter steps.
            A search that leads through worse motions, as throwing does, needs many.
        tolerance: relative improvement below which the search ends, checked over ``patience`` + 10 iterations.
        progress: show a progress bar.
        watch: called with every iteration, such as the method ``watch`` of a :class:`sim.viewer.Viewer`.
        save: called after each iteration with all that is needed to resume.
        resume: the last argument of ``save``.

    Raises:
        ModelError: for arguments out of range, and if no first guess has a finite cost with a gradient.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, gradient
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)], scale=10.0)
        >>> found = gradient(problem, iterations=30)
        >>> bool(abs(found.q[-1, 0] - 1.0) < 0.05)
        True
    """
    require_callable("gradient: watch", watch, optional=True)
    require_callable("gradient: save", save, optional=True)
    require_callable("gradient: score", score, optional=True)
    if resume is not None:
        require_type("gradient: resume", resume, Mapping, "the last argument of save")
    require_counts(iterations=iterations, joining=joining, patience=patience)
    require_numbers(goal=goal, tolerance=tolerance)
    begun = time.perf_counter()
    guesses = first_guesses(problem, guess, starts, spread, seed, more=joining)
    engine = _Engine(problem, score)
    warn_of_lost_gradients(problem, "gradient")
    lost = warn_of_zero_gradients(problem, "gradient", guesses[:starts])
    x, reserve = guesses[:starts], guesses[starts:]
    search = _begun(x) if resume is None else _resumed(resume, engine.rows, problem.size)
    begun -= search.seconds
    message, converged = "iterations used up", False
    with progress_bar("gradient", iterations, len(search.history), progress) as bar:
        try:
            for iteration in range(len(search.history), iterations + 1):
                if not engine.look(search):
                    message = "every start diverges"
                    break
                bar.set_postfix_str(f"{'cost' if score is None else 'score'} {search.history[-1]:.4g}")
                if watch is not None:
                    watch(Iteration("gradient", problem, search.history.tolist(), search.x.copy()))
                if search.history[-1] < goal:
                    message, converged = "goal reached", True
                    break
                if _settled(search, patience, tolerance):
                    message, converged = "no further improvement", True
                    break
                if iteration == iterations:
                    break
                joins = joining > 0 and not search.joined and search.stale.min() > patience
                engine.step(search, patience)
                if joins:
                    search.join(reserve)
                search.seconds = time.perf_counter() - begun
                if save is not None:
                    save(search.arrays())
                bar.update()
        except KeyboardInterrupt:
            if not len(search.history):
                raise
            message = "interrupted"
    if not np.isfinite(search.best_score).any():
        said = "the simulation diverges from every first guess; give another guess"
        raise nothing_finite(problem, "gradient", guesses[0], said)
    best = int(np.argmin(search.best_score))
    alone = search.joined * joining  # iterations before the other searches joined
    rollouts = (len(search.history) * len(search.x) - alone) * engine.worlds_of_a_start
    return finished(
        problem, "gradient", search.best[best], search.best_score, search.history.tolist(), rollouts, message,
        converged, begun, lost=lost,
    )  # fmt: skip


class _Engine:
    """Evaluation of motions, and steps.

    Args:
        problem: the problem.
        score: see :func:`gradient`.
    """

    def __init__(self, problem: Problem, score: Score | None):
        self.problem = problem
        self.score = score or problem.cost
        self.scale = problem.parametrisation.scale(problem.space)
        self.bounds = problem.parametrisation.bounds(problem.space)
        self.few, self.others = self._sorted_costs()
        self.sizes = [size for _, size in self.few]
        self.rows = sum(self.sizes) + (1 if self.others else 0)
        self.worlds_of_a_start = self.rows

    def _sorted_costs(self) -> tuple[list[tuple[LeastSquares, int]], list[Cost]]:
        """Return the terms with few residuals, their number of residuals, and all other terms."""
        problem = self.problem
        few: list[tuple[LeastSquares, int]] = []
        others: list[Cost] = []
        with torch.no_grad():
            motion = problem.still_motion()
            for cost in problem.costs:
                numbers = cost.residuals(motion).numel() if isinstance(cost, LeastSquares) else 0
                if isinstance(cost, LeastSquares) and 0 < numbers <= MOST_RESIDUALS:
                    few.append((cost, numbers))
                else:
                    others.append(cost)
        return few, others

    def look(self, search: Search) -> bool:
        """Simulate the present unknowns, keep improvements, and store the derivatives; False if no start is finite."""
        problem, starts = self.problem, len(search.x)
        x = torch.as_tensor(
            np.repeat(search.x, self.rows, axis=0), dtype=problem.dtype, device=problem.device
        ).requires_grad_()
        motion = problem.motion(x)
        values = self._rows(motion)  # [worlds, rows]: only one row of each world is differentiated
        if not values.requires_grad:
            raise no_gradient(problem.costs, "gradient")
        with torch.no_grad():
            judged, worlds = self.score(motion.detached()), len(x)
            if judged.shape != (worlds,):
                shape = tuple(judged.shape)
                raise ModelError(
                    f"gradient: score returned shape {shape}; expected one number for each world, ({worlds},)"
                )
            score = judged.reshape(starts, self.rows)[:, 0].cpu().numpy().astype(np.float64)
        own = values.reshape(starts, self.rows, self.rows).diagonal(dim1=1, dim2=2)
        slopes = problem.slopes(torch.where(own.isfinite(), own, torch.zeros_like(own)).sum(), motion, x)
        slopes_now = slopes.reshape(starts, self.rows, -1).cpu().numpy().astype(np.float64)
        residuals = own.detach().cpu().numpy().astype(np.float64)
        finite = np.isfinite(score) & np.isfinite(residuals).all(1) & np.isfinite(slopes_now).all((1, 2))
        if not len(search.best_residuals):
            search.best_residuals, search.best_slopes = np.zeros_like(residuals), np.zeros_like(slopes_now)
        better = finite & (score < search.best_score)
        search.best[better], search.best_score[better] = search.x[better], score[better]
        search.best_residuals[better], search.best_slopes[better] = residuals[better], slopes_now[better]
        search.stale = np.where(better, 0, search.stale + 1)
        self._present = residuals, slopes_now, finite
        if not np.isfinite(search.best_score).any():
            return False
        search.history = np.append(search.history, search.best_score.min())
        return True

    def _rows(self, motion: Motion) -> torch.Tensor:
        """Return residuals, then the sum of all other costs [worlds, rows]."""
        parts = [cost.residuals(motion).transpose(0, 1).reshape(motion.q.shape[1], -1) for cost, _ in self.few]
        if self.others:
            parts.append(torch.stack([cost.value(motion) for cost in self.others]).sum(0)[:, None])
        return torch.cat(parts, dim=1)

    def step(self, search: Search, patience: int) -> None:
        """Return the next unknowns to try."""
        residuals, slopes, finite = self._present
        for start in range(len(search.x)):
            back = search.stale[start] > patience or not finite[start] or self._exploded(search, start, slopes)
            if search.trust[start] == 0.0:
                search.trust[start] = self._first_trust(slopes[start])
            elif back:
                least = min(search.trust[start], MATTERS) if self.few else search.trust[start]
                search.trust[start] = max(SHRINK * least, SMALLEST_TRUST)
            elif search.stale[start] == 0:
                search.trust[start] = min(GROWTH * search.trust[start], LARGEST_TRUST if self.few else np.inf)
            origin = search.best[start] if back else search.x[start]
            r, J = (
                (search.best_residuals[start], search.best_slopes[start]) if back else (residuals[start], slopes[start])
            )
            if back:
                search.stale[start] = 0  # the same number of iterations from there
            search.x[start] = np.clip(
                origin + self._direction(origin, r, J, search.trust[start] * self._unit(J)), *self.bounds
            )

    def _direction(self, x: np.ndarray, values: np.ndarray, slopes: np.ndarray, trust: float) -> np.ndarray:
        """Return the step [n] from unknowns [n], for values [rows] and their slopes [rows, n].

        An unknown at a limit that would move beyond it is fixed.
        """
        few = sum(self.sizes)
        r, J = self._shortened(values[:few]), slopes[:few]
        g = slopes[few] if self.others else np.zeros(slopes.shape[1])
        uphill, (low, high) = g + J.T @ r, self.bounds
        held = ((x <= low) & (uphill > 0.0)) | ((x >= high) & (uphill < 0.0))
        strength = np.where(held, 0.0, trust * self.scale**2)
        weighted = J * strength
        y = np.linalg.solve(np.eye(few) + weighted @ J.T, r - weighted @ g) if few else np.zeros(0)
        return -strength * (g + J.T @ y)

    def _shortened(self, residuals: np.ndarray) -> np.ndarray:
        """Return residuals [k] clipped to the maximum reduction per iteration of each term."""
        shortened, first = residuals.copy(), 0
        for cost, size in self.few:
            part = slice(first, first + size)
            length = float(np.linalg.norm(shortened[part] / np.sqrt(np.resize(np.maximum(cost.weight, 1e-300), size))))
            shortened[part] *= cost.longest / max(cost.longest, length) if np.isfinite(cost.longest) else 1.0
            first += size
        return shortened

    def _exploded(self, search: Search, start: int, slopes: np.ndarray) -> bool:
        """Return True if the derivatives of a motion without improvement are too large to be useful."""
        return bool(
            search.stale[start] > 0
            and np.linalg.norm(slopes[start]) > EXPLODED * np.linalg.norm(search.best_slopes[start])
        )

    def _unit(self, slopes: np.ndarray) -> float:
        """Return the trust that makes the trace of J P J' one; one if no term has few residuals."""
        trace = float(((slopes[: sum(self.sizes)] * self.scale) ** 2).sum())
        return 1.0 / trace if trace > 0.0 else 1.0

    def _first_trust(self, slopes: np.ndarray) -> float:
        """Return the largest trust, unless a step along the gradient of the other costs would then be too long."""
        steep = float(np.abs(slopes[sum(self.sizes) :] * self.scale).max(initial=0.0))
        most = LARGEST_TRUST if self.few else np.inf
        trust = min(most, FIRST_STEP / (steep * self._unit(slopes)) if steep > 0.0 else np.inf)
        return trust if np.isfinite(trust) else 1.0


def _begun(x: np.ndarray) -> Search:
    starts = len(x)
    worst = np.full(starts, np.inf)
    return Search(
        x.copy(), x.copy(), worst, np.zeros((0, 0)), np.zeros((0, 0, 0)), np.zeros(starts),
        np.zeros(starts, dtype=int), np.zeros(0), 0, 0.0,
    )  # fmt: skip


def _resumed(stored: Mapping[str, Any], rows: int, size: int) -> Search:
    names = [each.name for each in fields(Search)]
    if missing := [name for name in names if name not in stored]:
        raise ModelError(
            f"gradient: resume lacks {missing[0]!r}; it must be the last argument of save, from this version"
        )
    arrays: dict[str, Any] = {name: np.array(stored[name]) for name in names}
    if arrays["best_slopes"].shape[1:] != (rows, size):
        raise ModelError(
            "gradient: resume belongs to another problem: its derivatives have shape "
            f"{arrays['best_slopes'].shape[1:]} for each start, not {(rows, size)}"
        )
    arrays["joined"], arrays["seconds"] = int(arrays["joined"]), float(arrays["seconds"])
    return Search(**arrays)


def _settled(search: Search, patience: int, tolerance: float) -> bool:
    """Return True if the last iterations brought almost no improvement, also in searches that joined."""
    window = patience + 10
    if len(search.history) - search.joined <= window:
        return False
    before, now = search.history[-window - 1], search.history[-1]
    return bool(before - now <= tolerance * max(abs(before), 1e-300))
