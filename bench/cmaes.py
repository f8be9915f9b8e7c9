"""The examples' problems by gradients and by CMA-ES, which uses none: episodes and seconds to the goal.

python -m bench.cmaes --json bench/results/cmaes_cpu.json       # python -m bench.results then makes table and plot

An episode is one motion simulated in one world; an iteration by gradients counts as many as it has worlds, and its time
holds the backward pass. CMA-ES is pycma's with a diagonal covariance where there are thousands of unknowns.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import warp as wp
from tqdm import tqdm

import sim
from bench.timing import machine
from examples import friction, golf, throw
from scenes import golf as golf_scene
from scenes import racecar
from scenes import throw as throw_scene

# Standard deviation of the first generation: of torques, relative to a motor's strength; of the friction, relative.
SPREAD = 0.2
# What Qiao et al. (2021) say of theirs.
PAPER = {
    "throw": "about 20 iterations",
    "golf": "50 iterations; CMA-ES not within 1,500 episodes",
    "friction": "10 iterations from 0.002 to about 0.2",
}


@dataclass(frozen=True)
class Problem:
    """A problem for both.

    Attributes:
        name: of the example.
        unknowns: how many there are.
        goal: distance that counts as a hit [m].
        by_gradients: solves it; returns the distance after each iteration [m] and the seconds taken.
        episodes_per_iteration: worlds that an iteration simulates.
        distances: of candidates [n, unknowns], zero for the start of the search by gradients [m].
        candidates: how many of them are simulated at once.
        episodes: how many CMA-ES may use.
    """

    name: str
    unknowns: int
    goal: float
    by_gradients: Callable[[], tuple[list[float], float]]
    episodes_per_iteration: int
    distances: Callable[[np.ndarray], np.ndarray]
    candidates: int
    episodes: int


@dataclass(frozen=True)
class Run:
    """One search.

    Attributes:
        problem: its name.
        method: "gradients" or "CMA-ES".
        seed: of CMA-ES.
        unknowns: how many there are.
        goal: distance that counts as a hit [m].
        episodes: simulated until each entry of ``best``.
        seconds: taken until then.
        best: least distance so far [m].
    """

    problem: str
    method: str
    seed: int | None
    unknowns: int
    goal: float
    episodes: list[int]
    seconds: list[float]
    best: list[float]

    @property
    def to_goal(self) -> int | None:
        """Episodes until the goal was reached; None if it wasn't."""
        return next((n for n, best in zip(self.episodes, self.best, strict=True) if best < self.goal), None)


def torque_problem(name: str, scene: throw_scene.ThrowScene | golf_scene.GolfScene) -> Problem:
    """Throw or golf: a torque for every motor at every step."""
    candidates = 4 + int(3 * np.log(scene.steps * 9))
    if isinstance(scene, throw_scene.ThrowScene):
        part, begin, goal = scene.arm, scene.hold, throw.GOAL
        solve = lambda: throw.optimise(scene, 50, "cpu", bar=False)  # noqa: E731
    else:
        part, begin, goal = scene.golfer, np.zeros(scene.model.nv), golf.GOAL
        solve = lambda: golf.optimise(scene, 50, "cpu", bar=False)  # noqa: E731
    motors = scene.model.qd_slice(part)
    strength = scene.model.effort_limit[motors]
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=candidates, device="cpu")
    state = simulator.state(scene.q0, scene.qd0)

    def distances(x: np.ndarray) -> np.ndarray:
        tau = np.tile(begin, (scene.steps, candidates, 1)).astype(np.float32)
        tau[:, : len(x), motors] += x.reshape(len(x), scene.steps, -1).swapaxes(0, 1) * strength
        q = simulator.rollout(state, tau).q.numpy()[-1, : len(x), scene.ball_position]
        return np.linalg.norm(q - scene.target, axis=1)

    def by_gradients() -> tuple[list[float], float]:
        result = solve()
        return result.distances, result.seconds

    unknowns = scene.steps * len(strength)
    return Problem(name, unknowns, goal, by_gradients, 3, distances, candidates, 1500)


def friction_problem(distance: float = 0.8) -> Problem:
    """The racecar: the logarithm of the ground's friction."""
    scene = racecar.build()
    candidates = 4
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=candidates, device="cpu")
    state = simulator.state(scene.q0, scene.qd0)
    base = np.tile(scene.model.parameters["friction"], (candidates, 1))
    forward = scene.model.q_slice(scene.car).start

    def distances(x: np.ndarray) -> np.ndarray:
        values = base.copy()
        values[: len(x), scene.ground] = friction.START * np.exp(x[:, 0] / SPREAD)
        simulator.set_parameter("friction", values)
        q = simulator.rollout(state, steps=scene.steps).q.numpy()
        return np.abs(q[-1, : len(x), forward] - distance)

    def by_gradients() -> tuple[list[float], float]:
        result = friction.estimate(scene, distance, 20, "cpu")
        return result.distances, result.seconds

    return Problem("friction", 1, friction.GOAL, by_gradients, 1, distances, candidates, 400)


def run_gradients(problem: Problem) -> Run:
    problem.by_gradients()  # compiles and loads the kernels
    found, seconds = problem.by_gradients()
    best = [float(x) for x in np.minimum.accumulate(found)]
    episodes = [problem.episodes_per_iteration * (k + 1) for k in range(len(best))]
    times = [seconds * (k + 1) / len(best) for k in range(len(best))]
    return Run(problem.name, "gradients", None, problem.unknowns, problem.goal, episodes, times, best)


def run_cmaes(problem: Problem, seed: int) -> Run:
    import cma

    options = {"seed": seed + 1, "verbose": -9, "popsize": problem.candidates, "CMA_diagonal": problem.unknowns > 1}
    search = cma.CMAEvolutionStrategy(np.zeros(problem.unknowns), SPREAD, options)
    episodes: list[int] = []
    seconds: list[float] = []
    best: list[float] = []
    start = time.perf_counter()
    with tqdm(total=problem.episodes, desc=f"{problem.name}, seed {seed}", unit="episode") as bar:
        while not best or (best[-1] >= problem.goal and episodes[-1] < problem.episodes):
            x = search.ask()
            found = problem.distances(np.array(x))
            search.tell(x, list(np.where(np.isfinite(found), found, 1e6)))
            best.append(min([float(np.nanmin(found)), *best[-1:]]))
            episodes.append(len(x) + (episodes[-1] if episodes else 0))
            seconds.append(time.perf_counter() - start)
            bar.update(len(x))
    return Run(problem.name, "CMA-ES", seed, problem.unknowns, problem.goal, episodes, seconds, best)


def table(runs: list[Run]) -> str:
    """A line per problem: what the paper says, what both needed."""
    lines = [
        "| problem | unknowns | paper: gradients | gradients: episodes (iterations) | seconds "
        "| CMA-ES: episodes | seconds | its best distance |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(run.problem for run in runs):
        own = [run for run in runs if run.problem == name]
        gradients = next(run for run in own if run.method == "gradients")
        others = [run for run in own if run.method == "CMA-ES"]
        reached = [run.to_goal for run in others]
        needed = ", ".join(
            str(n) if n else f"not in {run.episodes[-1]}" for n, run in zip(reached, others, strict=True)
        )
        lines.append(
            f"| {name} | {gradients.unknowns} | {PAPER[name]} | {gradients.to_goal or 'not reached'} "
            f"({len(gradients.best) - 1}) | {gradients.seconds[-1]:.1f} | {needed} "
            f"| {', '.join(f'{run.seconds[-1]:.1f}' for run in others)} "
            f"| {', '.join(f'{100 * run.best[-1]:.2g} cm' for run in others)} |"
        )
    return "\n".join(lines)


def plot(path: Path, runs: list[Run]) -> None:
    """Best distance over episodes (above) and over seconds (below), a column per problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    problems = {run.problem: run for run in runs}
    figure, axes = pyplot.subplots(2, len(problems), figsize=(4.0 * len(problems), 6.4), constrained_layout=True)
    colors = {"gradients": "#26639e", "CMA-ES": "#c0392b"}
    for column, (problem, one) in enumerate(problems.items()):
        for row, (x_name, label) in enumerate((("episodes", "episodes"), ("seconds", "seconds"))):
            ax = axes[row, column]
            for run in (run for run in runs if run.problem == problem):
                name = run.method if run.seed in (None, 0) else None
                ax.loglog(getattr(run, x_name), run.best, color=colors[run.method], label=name, linewidth=1.4)
            ax.axhline(one.goal, color="0.4", linewidth=0.8, linestyle="--")
            ax.set_xlabel(label)
            ax.grid(True, which="major", linewidth=0.3)
            if row == 0:
                ax.set_title(f"{problem}, {one.unknowns} unknown{'s' if one.unknowns > 1 else ''}")
            if column == 0:
                ax.set_ylabel("best distance [m]")
    axes[0, 0].legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    options = parse()
    wp.config.log_level = wp.LOG_WARNING
    problems = [
        torque_problem("throw", throw_scene.build()),
        torque_problem("golf", golf_scene.build()),
        friction_problem(),
    ]
    runs = []
    for problem in problems:
        runs.append(run_gradients(problem))
        runs += [run_cmaes(problem, seed) for seed in range(options.seeds)]
    print(table(runs))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        record = {"machine": machine(), "runs": [asdict(run) for run in runs]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the runs to this file")
    parser.add_argument("--seeds", type=int, default=3, help="repeats of CMA-ES (3)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
