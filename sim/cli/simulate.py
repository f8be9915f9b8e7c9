"""Simulate a file's model from its initial state or a keyframe. Write states (.npz) or motion (USD)."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.convert import USD
from sim.cli.files import add_file, check_output, read_file, say
from sim.cli.motion import add_motion, number_of_steps, simulate, start, time_step
from sim.cli.pictures import every, frames_per_second, world_poses
from sim.output import write_file

FPS = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add_motion(parser)
    parser.add_argument(
        "--fps", type=float, help="frames per second of a USD file, at most one per simulated step (default 30)"
    )
    parser.add_argument(
        "--out", type=Path, required=True,
        help="file to write: .npz with q [steps + 1, worlds, nq], qd, dt, control [nu] and joint_names; or "
        f"{', '.join(USD)}",
    )  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".npz", *USD))
    model, notes = read_file(given, "float32", pictures=suffix != ".npz")
    say(notes)
    dt = time_step(model, given)
    fps = frames_per_second(given.fps, FPS, dt)
    q, qd = simulate(model, given, dt, number_of_steps(given, dt))
    if suffix == ".npz":
        control = start(model, given.keyframe)[2]
        held = np.zeros(model.nu) if control is None else control
        arrays: dict[str, Any] = dict(q=q, qd=qd, dt=dt, control=held, joint_names=np.array(model.joint_names))
        write_file(given.out, (".npz",), lambda name: np.savez_compressed(name, **arrays))
    else:
        from sim.usd import write_usd  # imported here, since USD's libraries take long to load

        poses = world_poses(model, q[every(len(q), dt, fps)])
        write_usd(given.out, model, poses[:, 0] if given.worlds == 1 else poses, fps=fps)
    print(given.out)
    return 0
