"""A whole training: from a task to a policy and its record in a folder, in one or several processes."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sim.envs import TASKS, Task
from sim.errors import ModelError
from sim.learn import processes
from sim.learn.algorithms import load_task, make_learner
from sim.learn.evaluation import evaluate
from sim.learn.learner import require_limit
from sim.learn.policy_files import save_policy
from sim.learn.training import Training, run
from sim.model.checks import names_in, require_type
from sim.output import write_file
from sim.progress import Progress


def train(
    task: Task | str,
    algorithm: str = "ppo",
    *,
    iterations: float = 300,
    minutes: float = math.inf,
    goal: float = math.inf,
    patience: float = math.inf,
    seed: int = 0,
    device: str | None = None,
    folder: str | Path | None = None,
    restart: bool = False,
    task_options: Mapping[str, Any] = MappingProxyType({}),
    **chosen: Any,
) -> Training:
    """Train a policy, and evaluate it without randomness in its actions.

    Under torchrun, all processes train the policy together, each with environments of its own, and the first one writes
    the files (:mod:`sim.learn.processes`).

    Args:
        task: the task, or its name, see :func:`load_task`.
        algorithm: "ppo", "sac", or with gradients through the simulator "shac" or "apg".
        iterations: maximum number of iterations; infinity if the time ends the training.
        minutes: maximum time, including that of an interrupted training.
        goal: stop once the mean return of the last episodes is at least this.
        patience: stop after this number of iterations without a better mean return of the last episodes.
        seed: seed of all random numbers.
        device: "cpu" or "cuda:0". Default: Warp's current one.
        folder: folder of ``policy.pt`` (:func:`load_policy`), ``training.npz`` (figures of each iteration), files for
            TensorBoard in ``tensorboard`` if it is installed, and the progress of an interrupted training, which the
            same call resumes. Default: writes nothing.
        restart: start from the beginning, even if the folder has an interrupted training.
        task_options: options of the task, if it is given by name.
        **chosen: settings of the algorithm, ``envs`` and ``adjoint_clip``, see :func:`make_learner`.

    Raises:
        ModelError: for an unknown task, algorithm or setting, limits or a seed out of range, and a folder that can't be
            written.

    Example:
        >>> import sim.learn
        >>> training = sim.learn.train("CartpoleSwingup", "ppo", iterations=2, device="cpu", envs=4, horizon=8)
        >>> training.steps.tolist(), training.evaluation.lengths.shape
        ([32, 64], (64,))
    """
    seconds = 60.0 * require_limit("train", "minutes", minutes)
    require_type("train: task_options", task_options, Mapping, "a dictionary, from names to values")
    names_in("train: names of task_options", task_options)
    device = processes.join(device)
    made = load_task(task, **task_options) if isinstance(task, str) else task
    name = task if isinstance(task, str) else name_of(task)
    out = None if folder is None else _made(Path(folder))
    first = processes.number() == 0
    settings = {"task": name, "algorithm": algorithm, "iterations": iterations, "seed": seed}
    settings |= {key: str(value) for key, value in {**task_options, **chosen}.items()}
    kept = Progress(out / "interrupted.npz" if out and first else None, settings, restart)
    with kept:
        learner = make_learner(made, algorithm, iterations=iterations, seed=seed, device=device, **chosen)
        training = run(learner, seconds=seconds, kept=kept, goal=goal, patience=patience)
        if not first:
            return training
        training = replace(training, evaluation=evaluate(training.policy, made, device=device))
        if out:
            _write(out, training, name, task_options)
    return training


def name_of(task: Task) -> str:
    """Return a name of a task's class for :func:`load_task`."""
    kind = type(task)
    if TASKS.get(kind.__name__) is kind:
        return kind.__name__
    try:
        return f"{inspect.getsourcefile(kind)}:{kind.__qualname__}"
    except (OSError, TypeError):  # typed into a console
        return kind.__qualname__


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{folder}: can't create the folder: {error.strerror}; give another one") from None
    return folder


def _write(folder: Path, training: Training, task: str, task_options: Mapping[str, Any]) -> None:
    """Write policy and record of a training."""
    found = training.evaluation
    assert found is not None
    arrays: dict[str, Any] = {**training.figures, "steps": training.steps, "seconds": training.seconds}
    arrays |= {"evaluated": found.returns, "lengths": found.lengths}
    write_file(folder / "training.npz", (".npz",), lambda name: np.savez(name, **arrays))
    save_policy(folder / "policy.pt", training.policy, task, task_options)
