"""Output of pictures as PNG and GIF, and of videos with ffmpeg from the package imageio-ffmpeg."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np

from sim.cores import usable_cores
from sim.errors import ModelError
from sim.model.checks import UNREADABLE, is_positive, items_of, number, require_type
from sim.output import write_file

# A fixed 4x4 threshold pattern. Unlike error diffusion, its noise does not change from frame to frame.
BAYER = (np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) + 0.5) / 16.0 - 0.5
KEPT = 255  # palette index of unchanged pixels
DITHER = 6.0  # peak to peak, in steps of 1/255: about the distance between neighbouring palette colours in a smooth sky


def _pillow() -> ModuleType:
    """Return Pillow's module Image; only writing files needs the package."""
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("writing pictures needs the package Pillow: pip install 'backswing[plot]'") from None
    return Image


def write_gif(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: float) -> Path:
    """Write an animation that loops endlessly.

    All frames share one palette, which prevents flicker, and store only the pixels that change.

    Args:
        path: the file, ending in .gif.
        frames: uint8 [frames, height, width, 3], or any iterable over pictures, such as
            :func:`sim.render.iterate_frames`.
        fps: frames per second, at most 50 (GIF delays are in hundredths of a second, and viewers don't support fewer
            than two).

    Returns:
        The path.

    Raises:
        ModelError: for a wrong suffix, a missing folder, frames of a wrong shape or type, an fps out of range, or
            without the package Pillow.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from sim.render import write_gif
        >>> frames = np.zeros((3, 48, 64, 3), dtype=np.uint8)
        >>> frames[1:, 10:20, 10:20] = 255
        >>> write_gif(tempfile.mkdtemp() + "/motion.gif", frames, fps=25).name
        'motion.gif'
    """
    if not (is_positive(fps) and 0.1 <= fps <= 50.0):
        raise ModelError(
            f"fps is {fps!r}; a GIF supports 0.1 to 50 frames per second, for a faster motion write every second frame"
        )
    pictures = check_pictures(list(frames) if isinstance(frames, Iterator) else frames, 4)
    images = _pillow()
    palette = _shared_palette(pictures)
    nearest = images.new("P", (1, 1))
    nearest.putpalette(palette)
    height, width = pictures.shape[1:3]
    # Exact in single precision, and faster.
    pattern = (np.tile(BAYER, (height // 4 + 1, width // 4 + 1))[:height, :width, None] * DITHER).astype(np.float32)

    def nearest_colors(picture: np.ndarray) -> np.ndarray:
        dithered = np.clip(np.round(picture + pattern), 0, 255).astype(np.uint8)
        return np.asarray(images.fromarray(dithered).quantize(palette=nearest, dither=images.Dither.NONE))

    changed = [k == 0 or not np.array_equal(pictures[k], pictures[k - 1]) for k in range(len(pictures))]
    indexed, before = [], np.full((height, width), KEPT)
    with ThreadPoolExecutor(len(usable_cores())) as pool:  # most of this releases Python's lock
        found = pool.map(nearest_colors, pictures[changed])
        for is_new in changed:
            colors = next(found) if is_new else before
            changes = images.fromarray(np.where(colors == before, KEPT, colors).astype(np.uint8))
            changes.putpalette(palette)
            indexed.append(changes)
            before = colors
    # Round the times, not the delays, which preserves the duration of the animation.
    ticks = np.round(np.arange(len(indexed) + 1) * 100.0 / fps)
    durations = [int(d) * 10 for d in np.diff(ticks)]
    return write_file(
        path,
        (".gif",),
        lambda name: indexed[0].save(
            name,
            format="GIF",
            save_all=True,
            append_images=indexed[1:],
            duration=durations,
            loop=0,
            optimize=False,
            disposal=1,
            transparency=KEPT,
        ),
    )


def write_png(path: str | os.PathLike[str], picture: np.ndarray) -> Path:
    """Write one picture, uint8 [height, width, 3], to a .png file. Raises as :func:`write_gif` does.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from sim.render import write_png
        >>> write_png(tempfile.mkdtemp() + "/picture.png", np.zeros((48, 64, 3), dtype=np.uint8)).name
        'picture.png'
    """
    checked, images = check_pictures(picture, 3), _pillow()
    return write_file(path, (".png",), lambda name: images.fromarray(checked).save(name, format="PNG"))


def check_pictures(frames: Iterable[np.ndarray], dimensions: int) -> np.ndarray:
    """Check that pictures are uint8 [frames, height, width, 3], or one [height, width, 3]. Raises ModelError."""
    try:
        array = np.asarray(frames)
    except ValueError:  # a list of arrays of different shapes
        raise ModelError("pictures differ in size; all must have the same size") from None
    except UNREADABLE as error:
        raise ModelError(f"pictures are not an array of numbers: {error}; expected uint8") from None
    if dimensions == 4 and array.shape[:1] == (0,):
        raise ModelError("there are no frames to write; give at least one")
    if array.ndim != dimensions or array.shape[-1] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        form = "[frames, height, width, 3]" if dimensions == 4 else "[height, width, 3]"
        raise ModelError(f"pictures are {array.dtype} of shape {array.shape}; expected uint8 {form}")
    return array


def _shared_palette(pictures: np.ndarray) -> list[int]:
    """Return red, green and blue [768] of 255 colours from up to twelve frames spread over the animation.

    A colour is weighted by the square root of its number of pixels, so that small objects keep their colours next to a
    large sky.
    """
    chosen = pictures[np.unique(np.linspace(0, len(pictures) - 1, 12).astype(int))]
    red, green, blue = np.moveaxis((chosen >> 2).astype(np.int32), -1, 0)
    counts = np.bincount(((red * 64 + green) * 64 + blue).ravel())
    keys = counts.nonzero()[0]
    counts = counts[keys]
    colors = np.stack([keys // 4096, keys // 64 % 64, keys % 64], axis=1).astype(np.uint8) * 4 + 2
    images = _pillow()
    pixels = np.repeat(colors, np.ceil(np.sqrt(counts)).astype(int), axis=0)
    palette = images.fromarray(pixels[None]).quantize(colors=KEPT, method=images.Quantize.MEDIANCUT).getpalette()
    assert palette is not None, "quantized pictures have a palette"
    # The remaining entries, including KEPT, repeat the first colour, so that the search for the nearest colour never
    # returns them.
    palette = palette[: 3 * KEPT]
    return palette + palette[:3] * (256 - len(palette) // 3)


def write_mp4(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: float, *, quality: float = 8.0) -> Path:
    """Write an H.264 video as an .mp4 file, which browsers can play.

    Args:
        path: the file, ending in .mp4.
        frames: pictures uint8 [height, width, 3], as an array or an iterator such as
            :func:`sim.render.iterate_frames`. H.264 requires even sizes: an odd size is extended by repeating the last
            row or column.
        fps: frames per second.
        quality: 0 (worst) to 10 (best).

    Returns:
        The path.

    Raises:
        ModelError: without the package, for a wrong suffix, a missing folder, no frames, frames of a wrong shape or
            type, an fps that is not positive, a quality out of range, or if the file can't be written.

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
    quality = number("write_mp4", "quality", quality)
    if not 0.0 <= quality <= 10.0:
        raise ModelError(f"write_mp4: quality is {quality:g}; it must lie between 0 and 10")
    require_type("frames", frames, Iterable, "pictures, as an array, a list or an iterator")
    pictures = iter(frames if isinstance(frames, Iterator) else items_of("frames", frames, "pictures"))
    first = next(pictures, None)
    if first is None:
        raise ModelError("there are no frames to write; give at least one")
    height, width = check_pictures(first, 3).shape[:2]
    border = (0, height % 2), (0, width % 2), (0, 0)

    def write(name: str) -> None:
        video = imageio_ffmpeg.write_frames(
            name,
            (width + width % 2, height + height % 2),
            fps=float(fps),
            quality=max(quality, 1.0),  # the least that imageio-ffmpeg takes
            macro_block_size=2,
            output_params=["-movflags", "faststart"],
        )
        video.send(None)
        count = 0
        try:
            for picture in chain([first], pictures):
                checked = check_pictures(picture, 3)
                if checked.shape != first.shape:
                    raise ModelError(
                        f"a picture has {checked.shape[:2]} pixels, but the first has "
                        f"{first.shape[:2]}; all must have the same size"
                    )
                video.send(np.ascontiguousarray(np.pad(checked, border, mode="edge")))
                count += 1
        finally:
            video.close()
        _check_complete(name, count)

    return write_file(path, (".mp4",), write)


def _check_complete(name: str, count: int) -> None:
    """Raise OSError if a video has fewer pictures than it was given, since ffmpeg's own errors get lost."""
    import imageio_ffmpeg

    try:
        found, _ = imageio_ffmpeg.count_frames_and_secs(name)
    except RuntimeError:
        found = 0
    if found < count:
        raise OSError(f"ffmpeg wrote {found} of {count} pictures; is the disk full?")
