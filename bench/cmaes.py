"""The examples' problems solved with gradients and with gradient-free CMA-ES: episodes and seconds to the goal.

python -m bench.cmaes --json bench/results/cmaes_cpu.json       # python -m bench.results then makes table and plot

An episode is one motion simulated in one world. An iteration with gradients counts one episode per world, and its time
includes the backward pass; in estimate, a motion with derivatives counts three times, since it and its intervals are
simulated again. CMA-ES is pycma's, with a diagonal covariance for thousands of unknowns. In estimate, which has several
minima, it restarts from a random point when it converges to a wrong one.
"""

import argparse
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import warp as wp
from tqdm import tqdm

import sim
from bench.report import write_json
from bench.timing import machine
from examples import box_motion, estimate, fitting, friction, golf, throw
from scenes import box, racecar
from scenes import golf as golf_scene
from scenes import throw as throw_scene
from sim.progress import Progress

# Standard deviation of the first generation. For torques it is relative to a motor's strength; the other problems scale
# their unknowns to match.
SPREAD = 0.2
# Figures that Qiao et al. (2021) report.
PAPER = {
    "throw": "about 20 iterations",
    "golf": "50 iterations; CMA-ES not within 1,500 episodes",
    "friction": "10 iterations from 0.002 to about 0.2",
}
FEW = 3  # number of searches up to which the table lists each
# Largest excess of chi square within one standard deviation of the best fit, for one unknown.
NEAR_THE_BEST = 1.0


@dataclass(frozen=True)
class Curve:
    """Progress of a search.

    Attributes:
        best: smallest loss so far.
        episodes: episodes simulated up to each entry of ``best``.
        seconds: time taken up to each entry.
    """

    best: list[float]
    episodes: list[int]
    seconds: list[float]


@dataclass(frozen=True)
class Problem:
    """A problem for both methods.

    Attributes:
        name: name of the example.
        loss: "distance" of a body from its target [m], or "chi square" of a fit.
        unknowns: number of unknowns.
        goal: loss below which the goal is reached.
        by_gradients: solves it with gradients, given a seed.
        losses: losses of candidates [n, unknowns]; zeros are the start of the first search.
        candidates: number of candidates per batch.
        episodes: number of episodes that CMA-ES may use.
        bound: largest magnitude of each unknown [unknowns]; None if unbounded.
        repeats: True if searches by gradients depend on a seed.
    """

    name: str
    loss: str
    unknowns: int
    goal: float
    by_gradients: Callable[[int], Curve]
    losses: Callable[[np.ndarray], np.ndarray]
    candidates: int
    episodes: int
    bound: np.ndarray | None = None
    repeats: bool = False


@dataclass(frozen=True)
class Run:
    """One search.

    Attributes:
        problem: name of the problem.
        method: "gradients" or "CMA-ES".
        seed: seed of its random numbers; None if it draws none.
        loss: see :class:`Problem`.
        unknowns: number of unknowns.
        goal: loss below which the goal is reached.
        episodes: episodes simulated up to each entry of ``best``.
        seconds: time taken up to each entry.
        best: least loss so far.
    """

    problem: str
    method: str
    seed: int | None
    loss: str
    unknowns: int
    goal: float
    episodes: list[int]
    seconds: list[float]
    best: list[float]

    @property
    def there(self) -> int | None:
        """Index of the first entry of ``best`` that reaches the goal; None if none does."""
        return next((k for k, best in enumerate(self.best) if best < self.goal), None)


def torque_problem(name: str, scene: throw_scene.ThrowScene | golf_scene.GolfScene, coordinates: int) -> Problem:
    """Make the problem of throw or golf: a torque for every motor at every step.

    Args:
        name: name of the problem.
        scene: the scene.
        coordinates: number of the ball's coordinates that the gradient search controls, each in a separate world.
    """
    candidates = 4 + int(3 * np.log(scene.steps * 9))
    if isinstance(scene, throw_scene.ThrowScene):
        part, begin, goal = scene.arm, scene.drop, throw.GOAL
        search = throw.optimise if coordinates == 3 else throw.settle
        solve = lambda: search(scene, 50, "cpu", bar=False)  # noqa: E731
    else:
        part, begin, goal = scene.golfer, np.zeros((scene.steps, scene.model.nv)), golf.GOAL
        solve = lambda: golf.optimise(scene, 50, "cpu", bar=False)  # noqa: E731
    motors = scene.model.qd_slice(part)
    strength = scene.model.effort_limit[motors]
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=candidates, device="cpu")
    state = simulator.state(scene.q0, scene.qd0)

    def losses(x: np.ndarray) -> np.ndarray:
        tau = np.repeat(begin[:, None], candidates, axis=1).astype(np.float32)
        tau[:, : len(x), motors] += x.reshape(len(x), scene.steps, -1).swapaxes(0, 1) * strength
        q = simulator.rollout(state, tau).q.numpy()[-1, : len(x), scene.ball_position]
        return np.linalg.norm(q - scene.target, axis=1)

    def by_gradients(seed: int) -> Curve:
        result = solve()
        return even_curve(result.distances, coordinates, result.seconds)

    unknowns = scene.steps * len(strength)
    return Problem(name, "distance", unknowns, goal, by_gradients, losses, candidates, 1500)


def friction_problem(distance: float = 0.8) -> Problem:
    """Make the problem of the racecar: the logarithm of the ground's friction."""
    scene = racecar.build()
    candidates = 4
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=candidates, device="cpu")
    state = simulator.state(scene.q0, scene.qd0)
    base = np.tile(scene.model.parameters["friction"], (candidates, 1))
    forward = scene.model.q_slice(scene.car).start

    def losses(x: np.ndarray) -> np.ndarray:
        values = base.copy()
        values[: len(x), scene.ground] = friction.START * np.exp(x[:, 0] / SPREAD)
        simulator.parameters["friction"] = values
        q = simulator.rollout(state, steps=scene.steps).q.numpy()
        return np.abs(q[-1, : len(x), forward] - distance)

    def by_gradients(seed: int) -> Curve:
        result = friction.estimate(scene, distance, 20, "cpu")
        return even_curve(result.distances, 1, result.seconds)

    return Problem("friction", "distance", 1, friction.GOAL, by_gradients, losses, candidates, 400)


def estimate_problem() -> Problem:
    """Make the problem of the box: the logarithms of friction, restitution and two masses, from one noisy motion.

    CMA-ES starts in the middle of the range from which boxes and guesses are drawn, with a standard deviation of 0.3 of
    the range. It has the same margin around the range as the gradient search.
    """
    scene, truth = box.build(), np.array([box.TYPICAL])
    seen = box_motion.observe(scene, truth, 0, "cpu")
    numbers, unknowns = 6 * len(seen.position), len(box.UNKNOWNS)
    candidates = 4 + int(3 * np.log(unknowns))
    motion = box_motion.Motion(scene, candidates, "cpu")
    lower, upper = np.log(box.LEAST), np.log(box.MOST)
    scale = 0.3 * (upper - lower) / SPREAD

    def losses(x: np.ndarray) -> np.ndarray:
        return motion.chi_squares(0.5 * (lower + upper) + scale * x, seen.of(np.zeros(candidates, dtype=int)))

    def by_gradients(seed: int) -> Curve:
        found = estimate.fit(scene, seen, seed, estimate.ITERATIONS, "cpu", Progress(None, {}), bar=False)
        return Curve([numbers * square for square in found.curve], found.motions, found.seconds)

    goal = fit_from(scene, seen, np.log(truth)) + NEAR_THE_BEST
    bound = (0.5 * (upper - lower) + estimate.MARGIN) / scale
    return Problem(
        "estimate", "chi square", unknowns, goal, by_gradients, losses, candidates, 4000, bound, repeats=True
    )


def fit_from(scene: box.BoxScene, seen: box_motion.Observation, x: np.ndarray) -> float:
    """Find the smallest chi square near the truth [1, 4], which neither method knows."""
    motion, sensitivity = box_motion.Motion(scene, 1, "cpu"), box_motion.Sensitivity(scene, seen.every, "cpu")

    def residuals(x: np.ndarray, which: np.ndarray) -> np.ndarray:
        return motion.residuals(x, seen)[which]

    def jacobian(x: np.ndarray, which: np.ndarray) -> np.ndarray:
        return sensitivity.jacobian(x[which], seen.of(which))

    search = fitting.begin(motion.residuals(x, seen), jacobian, x)
    lower, upper = x[0] - estimate.MARGIN, x[0] + estimate.MARGIN
    for _ in range(2 * estimate.ITERATIONS):
        fitting.iterate(search, residuals, jacobian, lower, upper, estimate.LONGEST_STEP, settled=0.0)
    return 2.0 * float(search.loss[0])


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "throw": lambda: torque_problem("throw", throw_scene.build(), 3),
    "throw --settle": lambda: torque_problem("throw --settle", throw_scene.build_settling((1.5, 0.2)), 2),
    "golf": lambda: torque_problem("golf", golf_scene.build(), 2),
    "friction": friction_problem,
    "estimate": estimate_problem,
}


def even_curve(losses: list[float], episodes: int, seconds: float) -> Curve:
    """Return the progress of iterations of equal cost: their losses, the episodes of one and the seconds of all."""
    count = len(losses)
    best = [float(x) for x in np.minimum.accumulate(losses)]
    return Curve(best, [episodes * (k + 1) for k in range(count)], [seconds * (k + 1) / count for k in range(count)])


def recorded(problem: Problem, method: str, seed: int | None, curve: Curve) -> Run:
    """Return a search as a record."""
    return Run(problem.name, method, seed, problem.loss, problem.unknowns, problem.goal, **asdict(curve))


def run_gradients(problem: Problem, seeds: int) -> list[Run]:
    """Run one search, or one per seed if it depends on the seed."""
    problem.by_gradients(0)  # compiles and loads the kernels
    if problem.repeats:
        return [recorded(problem, "gradients", seed, problem.by_gradients(seed)) for seed in range(seeds)]
    return [recorded(problem, "gradients", None, problem.by_gradients(0))]


def run_cmaes(problem: Problem, seed: int) -> Run:
    """Run one search, up to the goal."""
    import cma

    rng, bound = np.random.default_rng(seed), problem.bound
    options = {
        "verbose": -9, "popsize": problem.candidates, "CMA_diagonal": problem.unknowns > 1000,
        "bounds": [None, None] if bound is None else [list(-bound), list(bound)],
    }  # fmt: skip
    episodes: list[int] = []
    seconds: list[float] = []
    best: list[float] = []
    search, start = None, time.perf_counter()
    with tqdm(total=problem.episodes, desc=f"{problem.name}, seed {seed}", unit="episode") as bar:
        while not best or (best[-1] >= problem.goal and episodes[-1] < problem.episodes):
            if search is None or (bound is not None and search.stop()):
                begin = np.zeros(problem.unknowns) if search is None or bound is None else rng.uniform(-bound, bound)
                search = cma.CMAEvolutionStrategy(begin, SPREAD, {**options, "seed": int(rng.integers(1, 2**31))})
            x = search.ask()
            found = problem.losses(np.array(x))
            search.tell(x, list(np.where(np.isfinite(found), found, 1e6)))
            best.append(min([float(np.nanmin(found)), *best[-1:]]))
            episodes.append(len(x) + (episodes[-1] if episodes else 0))
            seconds.append(time.perf_counter() - start)
            bar.update(len(x))
    return recorded(problem, "CMA-ES", seed, Curve(best, episodes, seconds))


def table(runs: list[Run]) -> str:
    """Return a row per problem: the paper's figure, and the cost of both methods."""
    lines = [
        "| problem | unknowns | paper: gradients | gradients: episodes (iterations) | seconds "
        "| CMA-ES: episodes | seconds | best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(run.problem for run in runs):
        own = [run for run in runs if run.problem == name]
        ours = [run for run in own if run.method == "gradients"]
        others = [run for run in own if run.method == "CMA-ES"]
        cells = (
            name, str(own[0].unknowns), PAPER.get(name, ""), *counted(ours), *counted(others),
            ", ".join(map(reached, others)) if len(others) <= FEW else worst(others),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def counted(runs: list[Run]) -> tuple[str, str]:
    """Format episodes and seconds to the goal: of each search with its iterations if there are few, else medians."""
    if len(runs) <= FEW:
        iterations = [f" ({run.there})" if run.method == "gradients" and run.there is not None else "" for run in runs]
        each = ", ".join(f"{needed(run)}{more}" for run, more in zip(runs, iterations, strict=True))
        if all(run.there is None for run in runs):
            each = needed(max(runs, key=lambda run: run.episodes[-1]))
        return each, ", ".join(map(taken, runs))
    there = [run for run in runs if run.there is not None]
    counts = [run.episodes[run.there] for run in there if run.there is not None]
    some = len(there) < len(runs)
    median = f"median of these {np.median(counts):g}" if some else f"median {np.median(counts):g}"
    share = f"{len(there)} of {len(runs)} searches: {min(counts)} to {max(counts)}, {median}"
    if some:
        share += f"; the others not in {max(run.episodes[-1] for run in runs)}"
    return share, f"median {np.median([float(taken(run)) for run in runs]):.1f}"


def worst(runs: list[Run]) -> str:
    """Format the range of the smallest losses."""
    least = [run.best[-1] for run in runs]
    return f"{min(least):.1f} to {max(least):.1f}"


def in_short(runs: list[Run]) -> str:
    """Format episodes to the goal with gradients and with CMA-ES, each for the median seed."""
    parts = []
    for name in dict.fromkeys(run.problem for run in runs):
        both = [
            sorted(
                (run for run in runs if (run.problem, run.method) == (name, method)),
                key=lambda run: (run.there is None, run.episodes[-1 if run.there is None else run.there]),
            )
            for method in ("gradients", "CMA-ES")
        ]
        ours, others = (needed(found[len(found) // 2]) for found in both)
        parts.append(f"{name} {ours} (CMA-ES: {others})")
    return "; ".join(parts)


def needed(run: Run) -> str:
    """Format episodes to the goal."""
    return f"not reached in {run.episodes[-1]}" if run.there is None else str(run.episodes[run.there])


def taken(run: Run) -> str:
    """Format seconds to the goal, or for the whole search if it was not reached."""
    return f"{run.seconds[-1 if run.there is None else run.there]:.1f}"


def reached(run: Run) -> str:
    """Format the smallest loss, in words."""
    return f"{100 * run.best[-1]:.2g} cm" if run.loss == "distance" else f"{run.best[-1]:.1f}"


def plot(path: Path, runs: list[Run]) -> None:
    """Plot best loss over episodes (above) and over seconds (below), a column per problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    problems = {run.problem: run for run in runs}
    figure, axes = pyplot.subplots(2, len(problems), figsize=(3.6 * len(problems), 6.4), constrained_layout=True)
    colors = {"gradients": "#26639e", "CMA-ES": "#c0392b"}
    for column, (problem, one) in enumerate(problems.items()):
        for row, x_name in enumerate(("episodes", "seconds")):
            ax = axes[row, column]
            for run in (run for run in runs if run.problem == problem):
                name = run.method if run.seed in (None, 0) else None
                ax.loglog(
                    getattr(run, x_name), run.best, color=colors[run.method], label=name, linewidth=1.4, marker=".",
                    markersize=3,
                )  # fmt: skip
            ax.axhline(one.goal, color="0.4", linewidth=0.8, linestyle="--", label="goal")
            ax.set_xlabel(x_name)
            ax.xaxis.set_minor_formatter(ticker.NullFormatter())
            ax.set_ylabel("best distance [m]" if one.loss == "distance" else "least χ²")
            ax.grid(True, which="major", linewidth=0.3)
            if row == 0:
                ax.set_title(f"{problem}, {one.unknowns} unknown{'s' if one.unknowns > 1 else ''}")
    axes[0, 0].legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    options = parse()
    wp.config.log_level = wp.LOG_WARNING
    info, runs = machine(), []
    for name in options.problems or PROBLEMS:
        problem = PROBLEMS[name]()
        runs += run_gradients(problem, options.seeds)
        runs += [run_cmaes(problem, seed) for seed in range(options.seeds)]
    print(table(runs))
    if options.json is not None:
        part = ["--problems", *options.problems] if options.problems else []
        command = shlex.join(["python", "-m", "bench.cmaes", *part])
        record = {"machine": info, "command": command, "runs": [asdict(run) for run in runs]}
        write_json(options.json, record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the runs to this file")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds for searches that use random numbers (3)")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), help="only these")
    return parser.parse_args()


if __name__ == "__main__":
    main()
