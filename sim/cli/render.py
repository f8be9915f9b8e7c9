"""Draw the model of a file, without GPU and display: a .png shows where it starts, a .gif or .mp4 how it moves then."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sim.cli.files import UsageError, add_file, check_output, read_file, say
from sim.cli.motion import add_motion, number_of_steps, simulate, start, time_step
from sim.cli.pictures import every, world_poses
from sim.model import Model
from sim.render import fit_camera, iterate_frames, write_gif, write_mp4, write_png


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add_file(parser)
    add_motion(parser)
    parser.add_argument("--out", type=Path, required=True, help="file to write: .png, .gif, or .mp4 (extra [video])")
    parser.add_argument("--fps", type=float, default=25.0, help="frames per second (default 25; of a .gif at most 50)")
    parser.add_argument("--width", type=int, default=640, help="of the picture [pixels]")
    parser.add_argument("--height", type=int, default=480, help="of the picture [pixels]")
    parser.add_argument("--azimuth", type=float, help="of one world: where the camera stands, about z [degrees]")
    parser.add_argument("--elevation", type=float, help="of one world: how high it stands [degrees]")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".png", ".gif", ".mp4"))
    if min(given.width, given.height) < 1:
        raise UsageError(f"a picture of {given.width} x {given.height} pixels; both must be positive")
    if given.worlds != 1 and (given.azimuth, given.elevation) != (None, None):
        raise UsageError("--azimuth and --elevation are for one world; leave out --worlds")
    if suffix == ".png" and (given.steps, given.seconds, given.worlds) != (None, None, 1):
        raise UsageError("a .png shows the start of one world; write a .gif or .mp4 for --steps, --seconds, --worlds")
    model, notes = read_file(given, "float32")
    say(notes)
    if suffix == ".png":
        write_png(given.out, next(_frames(given, model, start(model, given.keyframe)[0][None, None])))
    else:
        dt = time_step(model, given)
        q, _ = simulate(model, given, dt, number_of_steps(given, dt))
        frames = _frames(given, model, q[every(len(q), dt, given.fps)])
        if suffix == ".gif":
            write_gif(given.out, np.array(list(frames)), given.fps)
        else:
            write_mp4(given.out, frames, given.fps)
    print(given.out)
    return 0


def _frames(given: argparse.Namespace, model: Model, q: np.ndarray) -> Iterator[np.ndarray]:
    """The pictures of coordinates [frames, worlds, nq]."""
    poses, camera = world_poses(model, q), None
    if given.worlds == 1:
        angles = {key: getattr(given, key) for key in ("azimuth", "elevation") if getattr(given, key) is not None}
        camera = fit_camera(model, poses[:, 0], aspect=given.width / given.height, **angles)
    frames = iterate_frames(model, poses, camera, given.width, given.height, device=given.device)
    yield from tqdm(frames, total=len(poses), unit="frame", disable=not sys.stderr.isatty())
