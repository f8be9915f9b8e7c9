"""Simulate a file's model from its initial state or a keyframe. Write states (.npz) or motion (USD).

With --policy instead of a file, simulate the task of a trained policy: each world is an environment, which begins its
next episode when one ends.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.convert import USD
from sim.cli.files import UsageError, add_file, add_json, check_output, read_file, say
from sim.cli.motion import add_motion, check_worlds, number_of_steps, progress, simulate, start, time_step
from sim.cli.pictures import every, frames_per_second, world_poses
from sim.model.model import Model
from sim.output import write_file

FPS = 30.0


@dataclass
class Motion:
    """States of a simulation.

    Attributes:
        model: the model.
        dt: time between states [s].
        arrays: q [steps + 1, worlds, nq] and qd, and the inputs.
    """

    model: Model
    dt: float
    arrays: dict[str, np.ndarray]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser, optional=True)
    parser.add_argument(
        "--policy", type=Path, metavar="POLICY", help="policy.pt of a training, whose task is simulated instead of FILE"
    )
    add_motion(parser)
    add_json(parser)
    parser.add_argument(
        "--fps", type=float, help="frames per second of a USD file, at most one per simulated step (default 30)"
    )
    parser.add_argument(
        "--out", type=Path, required=True,
        help="file to write: .npz with q [steps + 1, worlds, nq], qd, dt, joint_names and control [nu], or with "
        f"--policy actions [steps, worlds, n]; or {', '.join(USD)}",
    )  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".npz", *USD))
    if (given.file is None) == (given.policy is None):
        raise UsageError("give either FILE or --policy")
    began = time.perf_counter()
    motion = _of_file(given, pictures=suffix != ".npz") if given.policy is None else _of_policy(given)
    q, fps = motion.arrays["q"], frames_per_second(given.fps, FPS, motion.dt)
    seconds = time.perf_counter() - began
    if suffix == ".npz":
        arrays: dict[str, Any] = {**motion.arrays, "dt": motion.dt, "joint_names": np.array(motion.model.joint_names)}
        write_file(given.out, (".npz",), lambda name: np.savez_compressed(name, **arrays))
    else:
        from sim.usd import write_usd  # imported here, since USD's libraries take long to load

        poses = world_poses(motion.model, q[every(len(q), motion.dt, fps)])
        write_usd(given.out, motion.model, poses[:, 0] if given.worlds == 1 else poses, fps=fps)
    numbers = {"steps": len(q) - 1, "dt": motion.dt, "worlds": given.worlds, "seconds": round(seconds, 3)}
    print(json.dumps({"out": str(given.out), **numbers}, indent=2) if given.json else given.out)
    return 0


def _of_file(given: argparse.Namespace, pictures: bool) -> Motion:
    """Return the motion of the file's model."""
    model, notes = read_file(given, "float32", pictures=pictures)
    say(notes)
    dt = time_step(model, given)
    frames_per_second(given.fps, FPS, dt)  # complains before the simulation
    q, qd = simulate(model, given, dt, number_of_steps(given, dt))
    control = start(model, given.keyframe)[2]
    return Motion(model, dt, {"q": q, "qd": qd, "control": np.zeros(model.nu) if control is None else control})


def _of_policy(given: argparse.Namespace) -> Motion:
    """Return the motion of environments in which the policy acts."""
    import torch

    from sim.envs import VectorEnv  # imported here, since PyTorch takes long to load
    from sim.learn import load_policy, load_task
    from sim.learn.learner import group

    check_worlds(given)
    of_files = {
        "--dt": given.dt is not None, "--law": given.law is not None, "--keyframe": given.keyframe is not None,
        "--noise": given.noise != 0.0, "--ground": given.ground is not None, "--floating-base": given.floating_base,
        "--base-height": given.base_height is not None, "--package-dir": bool(given.package_dir),
    }  # fmt: skip
    wrong = [option for option, stated in of_files.items() if stated]
    if wrong:
        raise UsageError(f"{', '.join(wrong)} can't be combined with --policy, whose task has its own model")
    policy, name, options = load_policy(given.policy)
    task = load_task(name, **options)
    if given.threads_per_world > 1:
        task.threads_per_world = given.threads_per_world
    env = VectorEnv(task, given.worlds, device=given.device, seed=given.seed)
    steps, model = number_of_steps(given, env.step_dt), env.simulator.model
    frames_per_second(given.fps, FPS, env.step_dt)  # complains before the simulation
    observation, _ = env.reset()
    policy = policy.to(env.device)
    q, qd, actions = [env.state.q], [env.state.qd], []
    with torch.no_grad(), progress(steps) as bar:
        for _ in range(steps):
            actions.append(policy(group(observation, "policy")))
            observation = env.step(actions[-1])[0]
            q.append(env.state.q)
            qd.append(env.state.qd)
            bar.update()
    arrays = {"q": q, "qd": qd, "actions": actions}
    return Motion(model, env.step_dt, {name: torch.stack(each).cpu().numpy() for name, each in arrays.items()})
