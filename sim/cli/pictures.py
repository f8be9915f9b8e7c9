"""Frames of a motion, simulated or stored in a USD file, for the commands that draw it."""

import argparse
import math
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from sim.arrays.device_model import DeviceModel
from sim.cli.files import UsageError, reader_options, refuse_unused, say
from sim.dynamics.kinematics import forward_kinematics
from sim.model.checks import counted
from sim.model.model import Model
from sim.render import (
    AmbientOcclusion,
    Outermost,
    Renderer,
    fit_camera,
    iterate_frames,
    link_boxes,
    view_of,
    write_gif,
    write_mp4,
    write_png,
)
from sim.simulation.engine.memory import host_memory, require_memory

PICTURES = (".png", ".gif", ".mp4")
FILM_FPS = 25.0
MOST_FRAMES = {".gif": 50.0, ".mp4": 60.0}  # frames per second; few players show more


VIEW = ("width", "height", "camera", "azimuth", "elevation", "occlusion")


def add_view(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the size of a picture and its camera."""
    parser.add_argument("--width", type=int, default=640, help="width of a picture [pixels] (default 640)")
    parser.add_argument("--height", type=int, default=480, help="height of a picture [pixels] (default 480)")
    parser.add_argument("--camera", metavar="NAME", help="camera of the model to look through, for one world")
    parser.add_argument("--azimuth", type=float, help="azimuth of the camera about z, for one world [degrees]")
    parser.add_argument(
        "--elevation", type=float, help="elevation of the camera above the horizon, for one world [degrees]"
    )
    parser.add_argument(
        "--occlusion", action="store_const", const=AmbientOcclusion(),
        help="ambient occlusion: darken corners and gaps; takes several times as long",
    )  # fmt: skip


def check_view(given: argparse.Namespace) -> None:
    """Raise UsageError for a size or camera that can't be drawn."""
    if min(given.width, given.height) < 1:
        raise UsageError(f"--width {given.width}, --height {given.height}: both must be positive")
    angles = given_angles(given)
    for name, value in angles.items():
        if not math.isfinite(value):
            raise UsageError(f"--{name} {value} must be finite")
    if given.worlds != 1 and (angles or given.camera is not None):
        raise UsageError("--camera, --azimuth and --elevation require a single world; remove --worlds")
    if given.camera is not None and angles:
        raise UsageError("--azimuth and --elevation place a camera, but --camera names one; remove either")


def given_angles(given: argparse.Namespace) -> dict[str, Any]:
    """Return those of --azimuth and --elevation that are given, by name."""
    return {name: value for name in ("azimuth", "elevation") if (value := getattr(given, name)) is not None}


def check_frame_rate(given: argparse.Namespace, suffix: str) -> None:
    """Raise UsageError for a frame rate of a single picture, and for one that a .gif can't have."""
    fps = given.fps
    if suffix == ".png":
        refuse_unused(given, ["fps"], f"{given.out.name} is a single picture; remove it")
    if suffix == ".gif" and fps is not None and fps > MOST_FRAMES[suffix]:
        raise UsageError(f"--fps {fps:g} exceeds the maximum of {MOST_FRAMES[suffix]:g} for a .gif")


def frames_per_second(given: float | None, usual: float, dt: float) -> float:
    """Return the frame rate: --fps or its default, at most one frame per step; print it if it is reduced.

    Raises:
        UsageError: for a number that is not positive.
    """
    if given is not None and not (np.isfinite(given) and given > 0.0):
        raise UsageError(f"--fps {given} must be positive")
    fps = usual if given is None else given
    if fps * dt <= 1.0 + 1e-9:
        return fps
    if given is not None:
        say([f"--fps {given:g} exceeds the {1.0 / dt:g} steps per second; writing one frame per step"])
    return 1.0 / dt


def every(states: int, dt: float, fps: float) -> np.ndarray:
    """Return indices of the states nearest to the times of the frames."""
    frames = int((states - 1) * dt * fps + 1e-9) + 1
    return np.minimum(np.round(np.arange(frames) / (fps * dt)).astype(int), states - 1)


def world_poses(model: Model, q: np.ndarray) -> np.ndarray:
    """Return link poses [frames, worlds, num_links, 7] of coordinates [frames, worlds, nq]."""
    frames, worlds = q.shape[:2]
    poses = forward_kinematics(DeviceModel(model, "cpu"), q.reshape(frames * worlds, model.nq)).numpy()
    return poses.reshape(frames, worlds, model.num_links, 7)


def check_camera(given: argparse.Namespace, model: Model) -> None:
    """Raise UsageError if the model doesn't have the camera --camera."""
    known = [camera.name for camera in model.cameras]
    if given.camera is not None and given.camera not in known:
        raise UsageError(
            f"no camera '{given.camera}'; {'choose from: ' + ', '.join(known) if known else 'the model has none'}"
        )


def through_camera(given: argparse.Namespace, model: Model, poses: np.ndarray) -> Iterator[np.ndarray]:
    """Draw pictures of link poses [frames, num_links, 7], seen by the camera --camera of the model."""
    renderer = Renderer(
        model, width=given.width, height=given.height, camera=view_of(model, given.camera, poses[0]),
        device=given.device, offsets=np.zeros((1, 3)), occlusion=given.occlusion,
    )  # fmt: skip
    for frame in poses:
        renderer.camera = view_of(model, given.camera, frame)
        yield renderer.draw(frame[None])


def draw(given: argparse.Namespace, model: Model, q: np.ndarray) -> Iterator[np.ndarray]:
    """Draw pictures of coordinates [frames, worlds, nq]; :func:`check_camera` has checked the camera."""
    poses, camera = world_poses(model, q), None
    if given.camera is not None:
        return through_camera(given, model, poses[:, 0])
    if given.worlds == 1:
        camera = fit_camera(model, poses[:, 0], aspect=given.width / given.height, **given_angles(given))
    return iterate_frames(
        model, poses, camera, given.width, given.height, device=given.device, occlusion=given.occlusion
    )


def write_pictures(given: argparse.Namespace, model: Model, q: np.ndarray, dt: float, fps: float) -> None:
    """Write the motion [steps + 1, worlds, nq] to --out as an animation, or its end as a .png."""
    suffix = given.out.suffix.lower()
    if suffix == ".png":
        write_png(given.out, next(draw(given, model, q[-1:])))
        return
    shown = q[every(len(q), dt, fps)]
    write_film(given, suffix, draw(given, model, shown), len(shown), fps)


def write_film(given: argparse.Namespace, suffix: str, frames: Iterator[np.ndarray], count: int, fps: float) -> None:
    """Write an animation of ``count`` frames to --out."""
    if suffix == ".mp4":
        write_mp4(given.out, show_progress(frames, count), fps)
    else:
        write_gif(given.out, stacked(given, frames, count, "write an .mp4, or use fewer or smaller frames"), fps)


def stacked(given: argparse.Namespace, frames: Iterator[np.ndarray], count: int, remedy: str) -> np.ndarray:
    """Return all frames [frames, height, width, 3]. Raise ModelError if memory doesn't suffice."""
    shape = (count, given.height, given.width, 3)
    require_memory(
        f"{counted(count, 'picture')} in {given.out.name}", 2 * math.prod(shape), "this machine", host_memory(), remedy
    )
    pictures = np.empty(shape, dtype=np.uint8)
    for number, picture in enumerate(show_progress(frames, count)):
        pictures[number] = picture
    return pictures


def show_progress(frames: Iterator[np.ndarray], count: int) -> Iterator[np.ndarray]:
    """Yield the frames with a progress bar, which is shown only on a terminal."""
    yield from tqdm(frames, total=count, unit="frame", disable=not sys.stderr.isatty())


if TYPE_CHECKING:  # USD's libraries take long to load
    from sim.importers.usd.motion import StoredMotion


def open_motion(given: argparse.Namespace, camera: str | None = None) -> "tuple[StoredMotion, list[str]]":
    """Read the stored motion of the file; return it with the warnings of its reader.

    Args:
        given: arguments of :func:`sim.cli.files.add_file`.
        camera: camera of the file to look through. Default: the first.

    Raises:
        ModelError: see :func:`sim.importers.usd.motion.read_motion`.
        UsageError: for an option that doesn't apply to USD files.
    """
    from sim.importers.usd.motion import read_motion  # imported here, since USD's libraries take long to load

    reader_options(given)  # USD files have none of these options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        motion = read_motion(given.file, ground=given.ground, camera=camera)
    return motion, [str(warning.message).removeprefix(f"{given.file}: ") for warning in caught]


def frame_rate(motion: "StoredMotion", fps: float | None, most: float) -> float:
    """Return frames per second: as given, or one per time code, or fewer if that exceeds ``most``.

    Raises:
        UsageError: for a number that is not positive.
    """
    if fps is None:
        return motion.codes_per_second / math.ceil(motion.codes_per_second / most)
    if not (np.isfinite(fps) and fps > 0.0):
        raise UsageError(f"--fps {fps} must be positive")
    return fps


def frame_times(motion: "StoredMotion", fps: float, start: float | None = None, end: float | None = None) -> np.ndarray:
    """Return times of the frames, in seconds after the start of the stored motion; by default all of it.

    Raises:
        UsageError: for a time outside the motion.
    """
    start = 0.0 if start is None else start
    end = motion.seconds if end is None else end
    if not 0.0 <= start <= end <= motion.seconds + 1e-9:
        raise UsageError(
            f"--start {start:g} and --end {end:g} must be in this order and within the file's motion, which lasts "
            f"{motion.seconds:g} s"
        )
    return start + np.arange(int((end - start) * fps + 1e-6) + 1) / fps


def draw_motion(given: argparse.Namespace, motion: "StoredMotion", times: np.ndarray) -> Iterator[np.ndarray]:
    """Draw pictures of a stored motion, seen by the file's camera unless the arguments place one."""
    aspect = given.width / given.height
    angles = given_angles(given)
    camera = None if angles else motion.camera(times[0], aspect)
    fitted = camera is None
    if camera is None:
        outermost = Outermost(motion.model.num_links, link_boxes(motion.model))
        for time in times:
            outermost.add(motion.poses(time))
        camera = fit_camera(motion.model, outermost.poses, aspect=aspect, **angles)
    renderer = Renderer(
        motion.model, width=given.width, height=given.height, camera=camera, device=given.device,
        offsets=np.zeros((motion.num_worlds, 3)), occlusion=given.occlusion,
    )  # fmt: skip
    for time in times:
        seen = None if fitted else motion.camera(time, aspect)
        if seen is not None and seen != renderer.camera:
            renderer.camera = seen
        yield renderer.draw(motion.poses(time))
