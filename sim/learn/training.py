"""Training loop: time, checkpoints, early stopping and figures for TensorBoard."""

import importlib.util
import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from sim.errors import ModelError
from sim.learn import processes
from sim.learn.evaluation import Evaluation
from sim.learn.learner import Learner, require_limit, stored
from sim.learn.networks import Policy
from sim.model.checks import number, require_callable, require_type
from sim.progress import Progress

SAVE_EVERY = 10.0  # seconds between two saved states of a training


@dataclass(frozen=True)
class Training:
    """Record of a training.

    Attributes:
        policy: the trained policy.
        figures: values by name, one for each iteration; NaN for an iteration without one. They include the
            task's named rewards and ends, see :meth:`Learner.log_figures`.
        steps: environment steps up to each iteration.
        seconds: time up to each iteration.
        evaluation: episodes of the trained policy, if it was evaluated.

    Example:
        >>> import sim.learn
        >>> learner = sim.learn.make_learner(
        ...     sim.envs.make_task("CartpoleSwingup"), "shac", iterations=2, device="cpu", envs=4, horizon=4
        ... )
        >>> training = sim.learn.run(learner)
        >>> training.steps.tolist(), training.figures["gradient_norm"].shape
        ([16, 32], (2,))
    """

    policy: Policy
    figures: dict[str, np.ndarray]
    steps: np.ndarray
    seconds: np.ndarray
    evaluation: Evaluation | None = None


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


def run(
    learner: Learner,
    iterations: float | None = None,
    seconds: float = math.inf,
    kept: Progress | None = None,
    *,
    goal: float = math.inf,
    patience: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Training:
    """Train until the iterations or the time are used up, or an early stop.

    Args:
        learner: the learner.
        iterations: maximum number; infinity if the time ends the training. Default: the learner's.
        seconds: maximum time, including that of an interrupted run.
        kept: saves the progress every ten seconds, and holds that of an interrupted run. Default: saves nothing.
        goal: stop once the mean return of the last episodes is at least this.
        patience: stop after this number of iterations without a better mean return of the last episodes.
        clock: function that returns the time [s].

    Raises:
        ModelError: for negative limits, and the progress of another task, such as one with other observations.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("CartpoleSwingup")
        >>> learner = sim.learn.make_learner(task, "sac", iterations=1, device="cpu", envs=4, steps=3)
        >>> sim.learn.run(learner).steps.tolist()
        [12]
    """
    require_type("run: learner", learner, Learner, "a learner, such as that of sim.learn.make_learner")
    kept = Progress(None, {}) if kept is None else kept
    require_type("run: kept", kept, Progress, "a sim.progress.Progress")
    require_callable("run: clock", clock)
    number("run", "goal", goal)
    limit = learner.iterations if iterations is None else iterations
    for name, value in (("iterations", limit), ("seconds", seconds), ("patience", patience)):
        require_limit("run", name, value)
    limit, seconds, patience = float(limit), float(seconds), float(patience)
    rows, spent = _resumed(learner, kept)
    start = saved = clock()
    folder = None if kept.path is None else kept.path.parent
    bar = tqdm(
        total=None if math.isinf(limit) else limit, initial=len(rows), desc="training", unit="iteration",
        disable=processes.number() > 0,
    )  # fmt: skip
    with Curves(folder, len(rows)) as curves, bar:
        while len(rows) < limit and spent < seconds and not _stops([row["return"] for row in rows], goal, patience):
            figures = learner.iterate()
            now = clock()
            spent, start = processes.mean_over_processes(spent + now - start), now  # all end together
            taken = (rows[-1]["steps"] if rows else 0.0) + learner.horizon * processes.count() * learner.env.num_envs
            rows.append({**figures, **learner.log_figures(), "seconds": spent, "steps": taken})
            curves.add(rows[-1], len(rows))
            known = {name: value for name, value in figures.items() if not math.isnan(value)}
            bar.set_postfix_str(", ".join(f"{name} {value:.3g}" for name, value in known.items()))
            bar.update()
            if now - saved > SAVE_EVERY:
                state = np.frombuffer(stored({"learner": learner.state(), "rows": rows}), dtype=np.uint8)
                kept.save(state=state)
                saved = now
    kept.done()
    names = list(dict.fromkeys([name for row in rows for name in row])) or ["seconds", "steps"]
    columns = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    steps = columns.pop("steps").astype(np.int64)
    return Training(learner.result, columns, steps, columns.pop("seconds"))


def _resumed(learner: Learner, kept: Progress) -> tuple[list[dict[str, float]], float]:
    """Restore an interrupted run, if there is one; return the figures of its iterations, and its time."""
    found = kept.load()
    before = processes.from_first(None if found is None else found["state"].tobytes())
    if before is None:
        return [], 0.0
    whole = torch.load(io.BytesIO(before), weights_only=True)
    try:
        learner.restore(whole["learner"])
    except (KeyError, RuntimeError, ModelError) as error:
        raise ModelError(
            f"{kept.path}: the interrupted training doesn't fit the task, which may have changed since "
            f"({str(error).splitlines()[-1].strip()}); start from the beginning with restart=True, or --restart"
        ) from None
    return whole["rows"], whole["rows"][-1]["seconds"]


def _stops(returns: list[float], goal: float, patience: float) -> bool:
    """Return whether a training ends early after iterations with these mean returns."""
    known = np.nan_to_num(returns, nan=-np.inf)
    if not len(known) or np.isneginf(known).all():
        return False
    return bool(known[-1] >= goal) or len(known) - 1 - int(known.argmax()) >= patience
