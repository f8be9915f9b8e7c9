"""Draw a file without a GPU or display: .gif and .mp4 show its motion, .png one state.

A USD file plays its stored motion, without simulation: bodies, prims and point instancers follow their time samples,
seen through the file's camera if it has one. The file needs no physics. --start, --end and --fps select from this
motion; for a .png, --start selects the time.

Files of other formats are simulated from their initial state or --keyframe, and so is a USD file if --steps or
--seconds is given. A .png then shows the final state; without --steps and --seconds, the initial state.
"""

import argparse
from pathlib import Path

import numpy as np

from sim.cli.convert import USD
from sim.cli.files import UsageError, add_file, check_output, read_file, refuse_unused, say
from sim.cli.motion import SIMULATION, add_motion, check_seed, check_worlds, number_of_steps, simulate, start, time_step
from sim.cli.pictures import (
    FILM_FPS,
    MOST_FRAMES,
    PICTURES,
    add_view,
    check_camera,
    check_frame_rate,
    check_view,
    draw,
    draw_motion,
    frame_rate,
    frame_times,
    frames_per_second,
    open_motion,
    write_film,
    write_pictures,
)
from sim.render import write_png


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
    add_view(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, PICTURES)
    check_worlds(given)
    check_view(given)
    simulated = (given.steps, given.seconds, given.keyframe) != (None, None, None) or given.worlds != 1
    check_frame_rate(given, suffix)
    if given.file.suffix.lower() in USD and not simulated:
        _play(given, suffix)
    else:
        _simulate(given, suffix)
    print(given.out)
    return 0


def _play(given: argparse.Namespace, suffix: str) -> None:
    """Draw the motion that the file stores."""
    stored = f"{given.file} plays its stored motion; add --seconds to simulate it"
    refuse_unused(given, (*SIMULATION, "worlds"), stored)
    if suffix == ".png":
        refuse_unused(given, ["end"], f"{given.out.name} shows the time --start; remove it")
    motion, notes = open_motion(given, given.camera)
    say(notes)
    if suffix == ".png":
        time = frame_times(motion, FILM_FPS, given.start, given.end)[:1]
        write_png(given.out, next(draw_motion(given, motion, time)))
        return
    if not motion.moves:
        raise UsageError(f"{given.file} stores no motion; give --steps or --seconds to simulate it, or write a .png")
    fps = frame_rate(motion, given.fps, MOST_FRAMES[suffix])
    times = frame_times(motion, fps, given.start, given.end)
    write_film(given, suffix, draw_motion(given, motion, times), len(times), fps)


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
        refuse_unused(given, SIMULATION, f"{given.out.name} shows the initial state; add --steps or --seconds")
        q = np.tile(start(model, given.keyframe)[0], (1, given.worlds, 1))
        write_png(given.out, next(draw(given, model, q)))
        return
    check_seed(given)
    dt = time_step(model, given)
    fps = frames_per_second(given.fps, FILM_FPS, dt)
    q, _ = simulate(model, given, dt, number_of_steps(given, dt))
    write_pictures(given, model, q, dt, fps)
