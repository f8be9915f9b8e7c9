"""Shared by the trainings: the command line, and the files that they write."""

import argparse
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from examples.options import example_parser, make_folder
from examples.outputs import BLUE, plot, write_arrays
from sim.envs import TASKS, make_task
from sim.learn import Learner, Training, evaluate, make_learner, processes, run, save_policy, write_animation
from sim.progress import Progress


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
    """Train a policy, in one or several processes, and write the results.

    Args:
        options: the command line.
        algorithm: name of the algorithm.
        pendulum: options of the task that only pendulums have.
        **chosen: settings of :func:`sim.learn.make_learner`.
    """
    make_folder(options.out)
    options.device = processes.join(options.device)
    first = processes.number() == 0
    task: dict[str, Any] = dict(pendulum) if options.task.startswith("Pendulum") else {}
    task |= {name: value for name in ("law", "integrator") if (value := getattr(options, name)) is not None}
    problem = {name: getattr(options, name) for name in ("task", "seed", "iterations")}
    problem |= {**task, **{name: str(value) for name, value in chosen.items()}}
    with Progress(options.out / "interrupted.npz" if first else None, problem, options.restart) as kept:
        learner = make_learner(
            make_task(options.task, **task), algorithm, iterations=options.iterations, seed=options.seed,
            device=options.device, **chosen,
        )  # fmt: skip
        training = run(learner, seconds=60.0 * options.minutes, kept=kept)
        if first:
            write_training(options, algorithm, learner, training, task)


def write_training(
    options: argparse.Namespace, name: str, learner: Learner, training: Training, task_options: Mapping[str, Any]
) -> None:
    """Evaluate the policy, write all files, and print the results."""
    found = evaluate(learner.result, make_task(options.task, **task_options), device=options.device)
    write_arrays(
        options.out / f"{name}.npz", steps=training.steps, seconds=training.seconds, evaluated=found.returns,
        lengths=found.lengths, **training.figures,
    )  # fmt: skip
    save_policy(options.out / "policy.pt", learner.result, options.task, task_options)
    with plot(options.out / "curve.png") as (axes,):
        there = np.isfinite(training.figures["return"])
        axes.plot(training.steps[there], training.figures["return"][there], color=BLUE, marker=".")
        axes.set_xlabel("environment steps")
        axes.set_ylabel("return, mean of the last episodes")
        axes.set_title(f"{options.task}, seed {options.seed}")
    written = ["curve.png", f"{name}.npz", "policy.pt"]
    if not options.no_render:
        model, step_dt = learner.env.simulator.model, learner.env.step_dt
        size = (options.size[0], options.size[1])
        write_animation(options.out / "policy.gif", model, found.q, step_dt, size=size, device=options.device)
        written.append("policy.gif")
    returns = found.returns
    spread = f"{returns.mean():.4g} ± {returns.std():.2g} over {len(returns)} episodes without randomness"
    spent = training.seconds[-1] if len(training.seconds) else 0.0
    taken = training.steps[-1] if len(training.steps) else 0
    print(f"return {spread}, after {taken} environment steps in {spent:.0f} s")
    print(f"wrote {', '.join(written)} to {options.out}")
