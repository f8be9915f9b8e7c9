"""Draw a file without a GPU or display: .gif and .mp4 show its motion, .png one state.

A USD file plays its stored motion, without simulation: bodies, prims and point instancers follow their time samples,
seen through the file's camera if it has one. The file needs no physics. --start, --end and --fps select from this
motion; for a .png, --start selects the time.

Files of other formats are simulated from their initial state or --keyframe, and so is a USD file if --steps or
--seconds is given. A .png then shows the final state; without --steps and --seconds, the initial state.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sim.cli.convert import USD
from sim.cli.files import UsageError, add_file, check_output, read_file, say
from sim.cli.motion import add_motion, check_worlds, number_of_steps, simulate, start, time_step
from sim.cli.pictures import (
    check_camera,
    draw_motion,
    every,
    frame_rate,
    frame_times,
    frames_per_second,
    open_motion,
    through_camera,
    world_poses,
)
from sim.model.checks import counted
from sim.model.model import Model
from sim.render import AmbientOcclusion, fit_camera, iterate_frames, write_gif, write_mp4, write_png
from sim.simulation.engine.memory import host_memory, require_memory

FPS = 25.0
MOST_FRAMES = {".gif": 50.0, ".mp4": 60.0}  # frames per second; few players show more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add_motion(parser)
    parser.add_argument("--out", type=Path, required=True, help="file to write: .png, .gif, or .mp4 (extra [video])")
    parser.add_argument(
        "--fps", type=float,
        help="frames per second, at most 50 for a .gif and at most one per simulated step (default: 25; for a stored "
        "motion one per time code)",
    )  # fmt: skip
    parser.add_argument(
        "--start", type=float, help="start of the part of a stored motion to draw [s after its first time code]"
    )
    parser.add_argument(
        "--end", type=float, help="end of the part of a stored motion to draw [s after its first time code]"
    )
    parser.add_argument("--width", type=int, default=640, help="width of the picture [pixels] (default 640)")
    parser.add_argument("--height", type=int, default=480, help="height of the picture [pixels] (default 480)")
    parser.add_argument("--camera", metavar="NAME", help="camera of the file to look through, for one world")
    parser.add_argument("--azimuth", type=float, help="azimuth of the camera about z, for one world [degrees]")
    parser.add_argument(
        "--elevation", type=float, help="elevation of the camera above the horizon, for one world [degrees]"
    )
    parser.add_argument(
        "--occlusion", action="store_const", const=AmbientOcclusion(),
        help="ambient occlusion: darken corners and gaps; takes several times as long",
    )  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, (".png", ".gif", ".mp4"))
    if min(given.width, given.height) < 1:
        raise UsageError(f"--width {given.width}, --height {given.height}: both must be positive")
    check_worlds(given)
    if given.worlds != 1 and (given.azimuth, given.elevation, given.camera) != (None, None, None):
        raise UsageError("--camera, --azimuth and --elevation require a single world; remove --worlds")
    if given.camera is not None and (given.azimuth, given.elevation) != (None, None):
        raise UsageError("--azimuth and --elevation place a camera, but --camera names one; remove either")
    simulated = (given.steps, given.seconds, given.keyframe) != (None, None, None) or given.worlds != 1
    if suffix == ".gif" and given.fps is not None and given.fps > MOST_FRAMES[suffix]:
        raise UsageError(f"--fps {given.fps:g} exceeds the maximum of {MOST_FRAMES[suffix]:g} for a .gif")
    if given.file.suffix.lower() in USD and not simulated:
        _play(given, suffix)
    else:
        _simulate(given, suffix)
    print(given.out)
    return 0


def _play(given: argparse.Namespace, suffix: str) -> None:
    """Draw the motion that the file stores."""
    if (given.dt, given.noise) != (None, 0.0):
        raise UsageError(
            f"--dt and --noise apply to a simulation, but {given.file} plays its stored motion; add --seconds to "
            f"simulate"
        )
    motion, notes = open_motion(given, given.camera)
    say(notes)
    if suffix == ".png":
        time = frame_times(motion, FPS, given.start, given.end)[:1]
        write_png(given.out, next(draw_motion(given, motion, time)))
        return
    if not motion.moves:
        raise UsageError(f"{given.file} stores no motion; give --steps or --seconds to simulate it, or write a .png")
    fps = frame_rate(motion, given.fps, MOST_FRAMES[suffix])
    times = frame_times(motion, fps, given.start, given.end)
    _write(given, suffix, draw_motion(given, motion, times), len(times), fps)


def _simulate(given: argparse.Namespace, suffix: str) -> None:
    """Draw the initial state of the file's model, or its simulated motion; a .png shows the end."""
    if (given.start, given.end) != (None, None):
        raise UsageError(
            "--start and --end select from the stored motion of a USD file, but this motion is simulated; remove them"
        )
    model, notes = read_file(given, "float32")
    say(notes)
    check_camera(given, model)
    if suffix == ".png" and (given.steps, given.seconds) == (None, None):
        q = np.tile(start(model, given.keyframe)[0], (1, given.worlds, 1))
        write_png(given.out, next(_frames(given, model, q)))
        return
    dt = time_step(model, given)
    fps = frames_per_second(given.fps, FPS, dt)
    q, _ = simulate(model, given, dt, number_of_steps(given, dt))
    if suffix == ".png":
        write_png(given.out, next(_frames(given, model, q[-1:])))
        return
    shown = q[every(len(q), dt, fps)]
    _write(given, suffix, _frames(given, model, shown), len(shown), fps)


def _frames(given: argparse.Namespace, model: Model, q: np.ndarray) -> Iterator[np.ndarray]:
    """Draw pictures of coordinates [frames, worlds, nq]."""
    poses, camera = world_poses(model, q), None
    if given.camera is not None:
        return through_camera(given, model, poses[:, 0])
    if given.worlds == 1:
        angles = {key: getattr(given, key) for key in ("azimuth", "elevation") if getattr(given, key) is not None}
        camera = fit_camera(model, poses[:, 0], aspect=given.width / given.height, **angles)
    return iterate_frames(
        model, poses, camera, given.width, given.height, device=given.device, occlusion=given.occlusion
    )


def _write(given: argparse.Namespace, suffix: str, frames: Iterator[np.ndarray], count: int, fps: float) -> None:
    """Write an animation."""
    path = given.out
    shown = tqdm(frames, total=count, unit="frame", disable=not sys.stderr.isatty())
    if suffix == ".mp4":
        write_mp4(path, shown, fps)
        return
    shape = (count, given.height, given.width, 3)
    what = f"a .gif of {counted(count, 'frame')}"
    require_memory(
        what, 2 * math.prod(shape), "this machine", host_memory(), "write an .mp4, or use fewer or smaller frames"
    )
    pictures = np.empty(shape, dtype=np.uint8)
    for number, picture in enumerate(shown):
        pictures[number] = picture
    write_gif(path, pictures, fps)
