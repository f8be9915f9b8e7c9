"""Draw the model of a file, without GPU and display: a .png shows where it starts, a .gif how it moves from there."""

import argparse
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sim.cli.files import UsageError, add_file, check_output, read_file, say
from sim.cli.motion import add_motion, number_of_steps, simulate, start, time_step
from sim.cli.pictures import every, world_poses
from sim.render import fit_camera, iterate_frames, write_gif, write_png


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add_file(parser)
    add_motion(parser)
    parser.add_argument("--out", type=Path, required=True, help="file to write: .png or .gif")
    parser.add_argument("--fps", type=float, default=25.0, help="frames per second (default 25, at most 50)")
    parser.add_argument("--width", type=int, default=640, help="of the picture [pixels]")
    parser.add_argument("--height", type=int, default=480, help="of the picture [pixels]")
    parser.add_argument("--azimuth", type=float, default=-60.0, help="where the camera stands, about z [degrees]")
    parser.add_argument("--elevation", type=float, default=15.0, help="how high it stands [degrees]")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".png", ".gif"))
    if given.worlds != 1:
        raise UsageError("a picture shows one world; leave --worlds out")
    if min(given.width, given.height) < 1:
        raise UsageError(f"a picture of {given.width} x {given.height} pixels; both must be positive")
    model, notes = read_file(given, "float32")
    say(notes)
    if suffix == ".png":
        if given.steps is not None or given.seconds is not None:
            raise UsageError("a .png shows the start; write a .gif for --steps or --seconds")
        q = start(model, given.keyframe)[0][None, None]
    else:
        dt = time_step(model, given)
        q, _ = simulate(model, given, dt, number_of_steps(given, dt))
        q = q[every(len(q), dt, given.fps)]
    poses = world_poses(model, q)[:, 0]
    camera = fit_camera(
        model, poses, azimuth=given.azimuth, elevation=given.elevation, aspect=given.width / given.height
    )
    frames = iterate_frames(model, poses, camera, given.width, given.height, device=given.device)
    quiet = not sys.stderr.isatty()
    pictures = np.array(list(tqdm(frames, total=len(poses), unit="frame", disable=quiet)))
    if suffix == ".png":
        write_png(given.out, pictures[0])
    else:
        write_gif(given.out, pictures, given.fps)
    print(given.out)
    return 0
