"""Frames of a motion, simulated or stored in a USD file, for the commands that draw it."""

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sim.arrays.device_model import DeviceModel
from sim.cli.files import UsageError, reader_options, say
from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model
from sim.render import Outermost, Renderer, fit_camera, view_of


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
            f"no camera '{given.camera}'; {'choose from: ' + ', '.join(known) if known else 'the file has none'}"
        )


def through_camera(given: argparse.Namespace, model: Model, poses: np.ndarray) -> Iterator[np.ndarray]:
    """Draw pictures of link poses [frames, num_links, 7], seen by the camera --camera of the model.

    Raises:
        UsageError: for an unknown camera.
    """
    check_camera(given, model)
    renderer = Renderer(
        model, width=given.width, height=given.height, camera=view_of(model, given.camera, poses[0]),
        device=given.device, offsets=np.zeros((1, 3)), occlusion=given.occlusion,
    )  # fmt: skip
    for frame in poses:
        renderer.camera = view_of(model, given.camera, frame)
        yield renderer.draw(frame[None])


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
    angles = {key: getattr(given, key) for key in ("azimuth", "elevation") if getattr(given, key) is not None}
    camera = None if angles else motion.camera(times[0], aspect)
    fitted = camera is None
    if camera is None:
        outermost = Outermost(motion.model.num_links)
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
