"""Simulate a file's model from its initial state or a keyframe. Write states (.npz), motion (USD) or pictures.

A .gif or .mp4 shows the motion, a .png its end, through --camera or a camera that shows everything. With --camera, an
.npz also has pictures of the motion.

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
from sim.cli.files import READING, UsageError, add_file, add_json, check_output, read_file, refuse_unused, say
from sim.cli.motion import add_motion, check_seed, check_worlds, number_of_steps, progress, simulate, start, time_step
from sim.cli.pictures import (
    FILM_FPS,
    PICTURES,
    VIEW,
    add_view,
    check_camera,
    check_frame_rate,
    check_view,
    draw,
    every,
    frames_per_second,
    stacked,
    world_poses,
    write_pictures,
)
from sim.model.model import Model
from sim.output import write_file

FPS = 30.0  # of a USD file


@dataclass
class Motion:
    """States of a simulation.

    Attributes:
        model: the model.
        dt: time between states [s].
        fps: frames per second of a USD file, pictures or an animation.
        arrays: q [steps + 1, worlds, nq] and qd, and the inputs.
    """

    model: Model
    dt: float
    fps: float
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
        "--fps", type=float,
        help="frames per second of a USD file (default 30), an animation or pictures (default 25), at most one per "
        "simulated step",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True,
        help="file to write: .npz with q [steps + 1, worlds, nq], qd, dt, joint_names and control [nu], or with "
        "--policy actions [steps, worlds, n], and with --camera pictures [frames, height, width, 3] and picture_times; "
        f"{', '.join(USD)}; or .png, .gif, or .mp4 (extra [video])",
    )  # fmt: skip
    add_view(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".npz", *USD, *PICTURES))
    if (given.file is None) == (given.policy is None):
        raise UsageError("give either FILE or --policy")
    check_worlds(given)
    check_view(given)
    check_frame_rate(given, suffix)
    if suffix not in PICTURES:
        _check_use_of_view(given, suffix)
    began = time.perf_counter()
    motion = _of_file(given, suffix) if given.policy is None else _of_policy(given, suffix)
    seconds = time.perf_counter() - began
    if suffix in PICTURES:
        write_pictures(given, motion.model, motion.arrays["q"], motion.dt, motion.fps)
    else:
        (_write_states if suffix == ".npz" else _write_usd)(given, motion)
    steps = len(motion.arrays["q"]) - 1
    numbers = {"steps": steps, "dt": motion.dt, "worlds": given.worlds, "seconds": round(seconds, 3)}
    print(json.dumps({"out": str(given.out), **numbers}, indent=2) if given.json else given.out)
    return 0


def _check_use_of_view(given: argparse.Namespace, suffix: str) -> None:
    """Raise UsageError for options of pictures where none are drawn."""
    if suffix == ".npz" and given.camera is not None:
        return
    kinds = f"{', '.join(PICTURES)}, or an .npz with --camera"
    unused = (*VIEW, "fps") if suffix == ".npz" else VIEW
    refuse_unused(given, unused, f"{given.out.name} would have no pictures; write {kinds}")


def _write_states(given: argparse.Namespace, motion: Motion) -> None:
    """Write states as .npz, with --camera also pictures of the motion."""
    arrays: dict[str, Any] = {**motion.arrays, "dt": motion.dt, "joint_names": np.array(motion.model.joint_names)}
    if given.camera is not None:
        shown = every(len(motion.arrays["q"]), motion.dt, motion.fps)
        frames = draw(given, motion.model, motion.arrays["q"][shown])
        arrays["pictures"] = stacked(given, frames, len(shown), "use fewer or smaller frames, or write an .mp4")
        arrays["picture_times"] = shown * motion.dt
    write_file(given.out, (".npz",), lambda name: np.savez_compressed(name, **arrays))


def _write_usd(given: argparse.Namespace, motion: Motion) -> None:
    """Write the motion as USD."""
    from sim.usd import write_usd  # imported here, since USD's libraries take long to load

    q = motion.arrays["q"]
    poses = world_poses(motion.model, q[every(len(q), motion.dt, motion.fps)])
    write_usd(given.out, motion.model, poses[:, 0] if given.worlds == 1 else poses, fps=motion.fps)


def _frame_rate(given: argparse.Namespace, model: Model, suffix: str, dt: float) -> float:
    """Return frames per second. Raise UsageError for a frame rate or camera that can't be used."""
    check_camera(given, model)
    return frames_per_second(given.fps, FPS if suffix in USD else FILM_FPS, dt)


def _of_file(given: argparse.Namespace, suffix: str) -> Motion:
    """Return the motion of the file's model."""
    check_seed(given)
    model, notes = read_file(given, "float32", pictures=suffix != ".npz" or given.camera is not None)
    say(notes)
    dt = time_step(model, given)
    fps = _frame_rate(given, model, suffix, dt)
    q, qd = simulate(model, given, dt, number_of_steps(given, dt))
    control = start(model, given.keyframe)[2]
    return Motion(model, dt, fps, {"q": q, "qd": qd, "control": np.zeros(model.nu) if control is None else control})


def _of_policy(given: argparse.Namespace, suffix: str) -> Motion:
    """Return the motion of environments in which the policy acts."""
    import torch

    from sim.envs import VectorEnv  # imported here, since PyTorch takes long to load
    from sim.learn import load_policy, load_task
    from sim.learn.learner import group

    refuse_unused(given, (*READING, "dt", "law", "keyframe", "noise"), "the task of --policy has its own; remove them")
    policy, name, options = load_policy(given.policy)
    task = load_task(name, **options)
    if given.threads_per_world > 1:
        task.threads_per_world = given.threads_per_world
    env = VectorEnv(task, given.worlds, device=given.device, seed=given.seed)
    steps, model = number_of_steps(given, env.step_dt), env.simulator.model
    fps = _frame_rate(given, model, suffix, env.step_dt)
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
    return Motion(model, env.step_dt, fps, {name: torch.stack(each).cpu().numpy() for name, each in arrays.items()})
