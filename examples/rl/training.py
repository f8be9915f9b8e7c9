"""Shared parts of the trainings: command line, progress that survives a kill, evaluation, and output files."""

import argparse
import importlib.util
import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from tqdm import tqdm

import sim
from examples import processes
from examples.learning import stored, write_stored
from examples.options import example_parser
from examples.outputs import BLUE, FPS, plot, write_arrays
from examples.resume import Progress
from examples.rl.networks import Policy
from sim.envs import TASKS, VectorEnv, make_task
from sim.errors import ModelError
from sim.render import Renderer, fit_camera, write_gif

SAVE_EVERY = 10.0  # seconds between two saved states of a training
EVALUATED = 64  # episodes of an evaluation
FILM_SECONDS = 10.0  # maximum length of an animation
FOLLOW_SECONDS = 0.5  # half-width of the smoothing of a camera's path
STAYS_ABOUT = 2.0  # motion that a camera doesn't follow [m]


class Actor(Protocol):
    """Deterministic policy."""

    @property
    def num_observations(self) -> int:
        """Number of observations."""

    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the actions [..., actions] for observations [..., num_observations]."""


class Learner(Protocol):
    """A policy in training."""

    env: VectorEnv
    policy: Policy
    iteration: int

    def iterate(self) -> dict[str, float]:
        """Run one iteration; returns figures, always the same ones."""

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training, for ``torch.save``."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore that state."""


@dataclass(frozen=True)
class Training:
    """Record of a training.

    Attributes:
        figures: values by name, one for each iteration.
        steps: environment steps up to each iteration.
        seconds: time up to each iteration.
    """

    figures: dict[str, np.ndarray]
    steps: np.ndarray
    seconds: np.ndarray


class Curves:
    """Figures of a training for TensorBoard, if it is installed.

    Args:
        folder: parent folder of its files in ``tensorboard``; None writes none.
        done: number of iterations of an interrupted run; its entries of later ones are dropped.
    """

    def __init__(self, folder: Path | None, done: int):
        self._writer: Any = None
        if folder is not None and importlib.util.find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)

    def __enter__(self) -> "Curves":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, figures: Mapping[str, float], iteration: int) -> None:
        """Add the figures of one iteration, the first being 1."""
        if self._writer is not None:
            for name, value in figures.items():
                if math.isfinite(value):
                    self._writer.add_scalar(name, value, iteration)


def training_parser(description: str | None, *, task: str, out: str, iterations: int) -> argparse.ArgumentParser:
    """Make a parser with the options that every training has, see :func:`examples.options.example_parser`."""
    parser = example_parser(description, out=out, iterations=iterations)
    names = ", ".join(["Pendulum-1 ...", *(name for name in TASKS if name != "Pendulum")])
    parser.add_argument("task", nargs="?", default=task, help=f"{names} ({task})")
    parser.add_argument("--minutes", type=float, default=math.inf, help="maximum time, in addition to --iterations")
    about = {"law": "contact law, hard (default) or mujoco", "integrator": "integrator of --law mujoco, euler or rk4"}
    for name, text in about.items():
        parser.add_argument(f"--{name}", help=f"{text}; of the robots of gymnasium")
    return parser


def physics(options: argparse.Namespace) -> dict[str, str]:
    """Return the given options of a task that concern contact and time."""
    given = {"law": options.law, "integrator": options.integrator}
    return {name: value for name, value in given.items() if value is not None}


def train(
    learner: Learner,
    iterations: float,
    seconds: float,
    horizon: int,
    kept: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> Training:
    """Train until the number of iterations or the time is used up; the time includes that of an interrupted run.

    Args:
        learner: the learner.
        iterations: maximum number; infinity if the time ends the training.
        seconds: maximum time.
        horizon: environment steps of an iteration, in each environment.
        kept: saves the progress.
        clock: function that returns the time [s].
    """
    rows: list[dict[str, float]] = []
    found, spent, taken = kept.load(), 0.0, 0.0
    before = processes.from_first(None if found is None else found["state"].tobytes())
    if before is not None:
        whole = torch.load(io.BytesIO(before), weights_only=True)
        learner.restore(whole["learner"])
        rows = whole["rows"]
        spent, taken = rows[-1]["seconds"], rows[-1]["steps"]
    start = saved = clock()
    silent = processes.number() > 0
    folder = None if kept.path is None else kept.path.parent
    total = None if math.isinf(iterations) else iterations
    with (
        Curves(folder, len(rows)) as curves,
        tqdm(total=total, initial=len(rows), desc="training", unit="iteration", disable=silent) as bar,
    ):
        while len(rows) < iterations and spent < seconds:
            figures = learner.iterate()
            now = clock()
            spent = processes.mean_over_processes(spent + now - start)  # all end together
            start = now
            taken += horizon * processes.count() * learner.env.num_envs
            rows.append({**figures, "seconds": spent, "steps": taken})
            curves.add(rows[-1], len(rows))
            known = {
                name: value for name, value in figures.items() if not math.isnan(value)
            }  # no episode has ended yet
            bar.set_postfix_str(", ".join(f"{name} {value:.3g}" for name, value in known.items()))
            bar.update()
            if now - saved > SAVE_EVERY:
                state = np.frombuffer(stored({"learner": learner.state(), "rows": rows}), dtype=np.uint8)
                kept.save(state=state)
                saved = now
    kept.done()
    columns = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ("seconds", "steps"))}
    steps = columns.pop("steps").astype(np.int64)
    return Training(columns, steps, columns.pop("seconds"))


@torch.no_grad()
def evaluate(
    policy: Actor, task: str, options: Mapping[str, Any], device: str | None, seed: int = 1000
) -> dict[str, Any]:
    """Evaluate whole episodes of the deterministic policy.

    Returns:
        ``returns`` and ``lengths`` of the episodes [EVALUATED], the last ``observation`` of each, and the coordinates
        ``q`` [steps + 1, nq] of the one with the median return, up to the length of the animation.
    """
    env = VectorEnv(make_task(task, **options), EVALUATED, device=device, seed=seed, autoreset_mode="same_step")
    observation, _ = env.reset()
    returns = torch.zeros(EVALUATED, device=env.device, dtype=env.dtype)
    lengths = torch.zeros_like(returns)
    last = torch.zeros_like(observation)
    running = torch.ones(EVALUATED, dtype=torch.bool, device=env.device)
    seen = [env.state.q]
    while bool(running.any()):
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        returns += reward.masked_fill(~running, 0.0)
        lengths += running
        ended = running & (terminated | truncated)
        last = torch.where(ended[:, None], info["final_obs"], last)
        running &= ~ended
        seen.append(env.state.q)
    shown = int(returns.argsort()[EVALUATED // 2])
    count = min(int(lengths[shown]), int(FILM_SECONDS / env.step_dt))  # the next state belongs to another episode
    q = torch.stack([state[shown] for state in seen[:count]])
    return {"returns": returns, "lengths": lengths, "observation": last, "q": q.cpu().numpy()}


def write_training(
    options: argparse.Namespace, name: str, learner: Learner, training: Training, task_options: Mapping[str, Any]
) -> None:
    """Evaluate the policy, write all files, and print the results."""
    found = evaluate(learner.policy, options.task, task_options, options.device)
    returns = found["returns"].cpu().numpy()
    write_arrays(
        options.out / f"{name}.npz", steps=training.steps, seconds=training.seconds, evaluated=returns,
        lengths=found["lengths"].cpu().numpy(), **training.figures,
    )  # fmt: skip
    policy = {"task": options.task, "options": dict(task_options), "state": learner.policy.state_dict()}
    write_stored(options.out / "policy.pt", policy)
    with plot(options.out / "curve.png") as (axes,):
        there = np.isfinite(training.figures["return"])
        axes.plot(training.steps[there], training.figures["return"][there], color=BLUE, marker=".")
        axes.set_xlabel("environment steps")
        axes.set_ylabel("return, mean of the last episodes")
        axes.set_title(f"{options.task}, seed {options.seed}")
    written = ["curve.png", f"{name}.npz", "policy.pt"]
    if not options.no_render:
        write_film(options, learner.env.simulator.model, found["q"], learner.env.step_dt)
        written.append("policy.gif")
    spread = f"{returns.mean():.4g} ± {returns.std():.2g} over {len(returns)} episodes without randomness"
    spent = training.seconds[-1] if len(training.seconds) else 0.0
    taken = training.steps[-1] if len(training.steps) else 0
    print(f"return {spread}, after {taken} environment steps in {spent:.0f} s")
    print(f"wrote {', '.join(written)} to {options.out}")


def write_film(options: argparse.Namespace, model: sim.Model, q: np.ndarray, step_dt: float) -> None:
    """Write the motion of one world as ``policy.gif``; the camera follows a model that travels."""
    width, height = options.size
    stride = max(1, round(1.0 / (FPS * step_dt)))
    poses = sim.forward_kinematics(model, q[::stride]).numpy()
    travel = travelled(poses, round(FOLLOW_SECONDS / (stride * step_dt)))
    beside = poses.copy()
    beside[:, :, :3] -= travel[:, None]
    camera = fit_camera(model, beside, aspect=width / height)
    renderer = Renderer(model, width=width, height=height, camera=camera, device=options.device)
    pictures = []
    for frame in tqdm(range(len(poses)), desc="rendering", unit="frame"):
        position, target = (tuple(np.add(point, travel[frame])) for point in (camera.position, camera.target))
        renderer.camera = replace(camera, position=position, target=target)
        pictures.append(renderer.draw(poses[frame], frame))
    write_gif(options.out / "policy.gif", np.stack(pictures), fps=1.0 / (stride * step_dt))


def travelled(poses: np.ndarray, frames: int) -> np.ndarray:
    """Return the smoothed displacement of the links' centre [frames, 3]; zero if it stays nearby.

    Args:
        poses: poses of the links [frames, links, 7].
        frames: width of the mean.
    """
    middle = poses[:, :, :2].mean(axis=1)
    if np.ptp(middle, axis=0).max() < STAYS_ABOUT:
        return np.zeros((len(poses), 3))
    edges = np.concatenate([middle[:1]] * frames + [middle] + [middle[-1:]] * frames)
    kernel = np.full(2 * frames + 1, 1.0 / (2 * frames + 1))
    smooth = np.stack([np.convolve(column, kernel, mode="valid") for column in edges.T], axis=1)
    return np.concatenate([smooth - smooth[0], np.zeros((len(poses), 1))], axis=1)


def load_policy(path: Path) -> tuple[Policy, str, dict[str, Any]]:
    """Load a policy that a training has written, its task and the task's options.

    Raises:
        ModelError: for any other file.
    """
    try:
        kept = torch.load(path, weights_only=True)
        state, task, task_options = kept["state"], kept["task"], kept["options"]
        weights = [value for name, value in state.items() if name.startswith("mean.") and value.dim() == 2]
        sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        policy = Policy(sizes[0], state["low"], state["high"], sizes[1:-1])
        policy.load_state_dict(state)
    except OSError:
        raise
    except Exception as error:  # PyTorch's reader raises errors of many types for other files
        raise ModelError(f"{path}: not a policy.pt written by a training ({type(error).__name__})") from None
    return policy, task, task_options
