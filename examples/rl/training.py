"""Shared by the trainings: the command line, and the files that they write."""

import argparse
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from examples.options import example_parser, make_folder
from examples.outputs import BLUE, plot
from sim.envs import TASKS, Task, make_task
from sim.learn import Evaluation, Training, train, write_animation


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


def run_training(options: argparse.Namespace, algorithm: str, pendulum: Mapping[str, Any], **chosen: Any) -> None:
    """Train a policy by :func:`sim.learn.train`, and add a curve and an animation.

    Args:
        options: the command line.
        algorithm: name of the algorithm.
        pendulum: options of the task that only pendulums have.
        **chosen: settings of the algorithm.
    """
    make_folder(options.out)
    task: dict[str, Any] = dict(pendulum) if options.task.startswith("Pendulum") else {}
    task |= {name: value for name in ("law", "integrator") if (value := getattr(options, name)) is not None}
    training = train(
        options.task, algorithm, iterations=options.iterations, minutes=options.minutes, seed=options.seed,
        device=options.device, folder=options.out, restart=options.restart, task_options=task, **chosen,
    )  # fmt: skip
    if training.evaluation is not None:  # in the first process
        write_training(options, training, training.evaluation, make_task(options.task, **task))


def write_training(options: argparse.Namespace, training: Training, found: Evaluation, task: Task) -> None:
    """Write the curve and the animation, and print the results."""
    with plot(options.out / "curve.png") as (axes,):
        there = np.isfinite(training.figures["return"])
        axes.plot(training.steps[there], training.figures["return"][there], color=BLUE, marker=".")
        axes.set_xlabel("environment steps")
        axes.set_ylabel("return, mean of the last episodes")
        axes.set_title(f"{options.task}, seed {options.seed}")
    written = ["curve.png", "training.npz", "policy.pt"]
    if not options.no_render:
        size, file = (options.size[0], options.size[1]), options.out / "policy.gif"
        write_animation(file, task.model(), found.q, task.step_dt, size=size, device=options.device)
        written.append("policy.gif")
    print(f"{found}, after {training.steps[-1]} environment steps in {training.seconds[-1]:.0f} s")
    print(f"wrote {', '.join(written)} to {options.out}")
