"""Writes video files with ffmpeg from the package imageio-ffmpeg."""

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_positive, number
from sim.output import write_file
from sim.render.gif import check_pictures


def write_mp4(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: float, *, quality: int = 8) -> Path:
    """Write a video, H.264 in an .mp4 file, which browsers play.

    Args:
        path: the file, ending in .mp4.
        frames: pictures uint8 [height, width, 3], as an array or an iterator such as
            :func:`sim.render.iterate_frames`. H.264 has even sizes: the last row or column of an odd one is repeated.
        fps: frames per second.
        quality: 0 (worst) to 10 (best).

    Returns:
        the path.

    Raises:
        ModelError: without the package, for a wrong suffix, a missing folder, no frames, frames of a wrong shape or
            type, an fps that is not positive, a quality out of range, or if the file cannot be written.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from sim.render import write_mp4
        >>> frames = np.zeros((3, 48, 64, 3), dtype=np.uint8)
        >>> path = write_mp4(tempfile.mkdtemp() + "/motion.mp4", frames, fps=25)  # needs the extra "video"
        >>> path.stat().st_size > 100
        True
    """
    try:
        import imageio_ffmpeg
    except ImportError:
        raise ModelError("write_mp4 needs the package imageio-ffmpeg: pip install 'backswing[video]'") from None
    if not is_positive(fps):
        raise ModelError(f"fps is {fps!r}; it must be positive")
    if not 0 <= number("write_mp4", "quality", quality) <= 10:
        raise ModelError(f"quality is {quality}; it must lie between 0 and 10")
    pictures = iter(frames)
    first = next(pictures, None)
    if first is None:
        raise ModelError("there are no frames to write")
    height, width = check_pictures(first, 3).shape[:2]
    border = (0, height % 2), (0, width % 2), (0, 0)

    def write(name: str) -> None:
        video = imageio_ffmpeg.write_frames(
            name,
            (width + width % 2, height + height % 2),
            fps=fps,
            quality=quality,
            macro_block_size=2,
            output_params=["-movflags", "faststart"],
        )
        video.send(None)
        count = 0
        try:
            for picture in chain([first], pictures):
                checked = check_pictures(picture, 3)
                if checked.shape != first.shape:
                    raise ModelError(f"a picture has {checked.shape[:2]} pixels, but the first has {first.shape[:2]}")
                video.send(np.ascontiguousarray(np.pad(checked, border, mode="edge")))
                count += 1
        finally:
            video.close()
        _check_complete(name, count)

    return write_file(path, (".mp4",), write)


def _check_complete(name: str, count: int) -> None:
    """Raise OSError for a video with fewer pictures than it was given: ffmpeg's own errors get lost on the way."""
    import imageio_ffmpeg

    try:
        found, _ = imageio_ffmpeg.count_frames_and_secs(name)
    except RuntimeError:
        found = 0
    if found < count:
        raise OSError(f"ffmpeg wrote {found} of {count} pictures; is the disk full?")
