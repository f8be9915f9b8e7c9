"""Images of textures, decoded only if they are of a sensible size."""

import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.model.looks.looks import MOST_TEXELS, Texture

FORMATS = ("PNG", "JPEG", "BMP", "TGA", "TIFF", "WEBP", "GIF")
MOST_BYTES = 2**28  # of a file


MOST_OF_A_FILE = 2 * MOST_TEXELS  # texels of all images of a file


class NoPictureError(Exception):
    """An image that can't be used as a texture; the message says why, to follow the name of the texture."""


@dataclass
class Budget:
    """Texels that the images of a file may still have in all: a small file can name many huge ones."""

    left: int = MOST_OF_A_FILE

    def take(self, width: int, height: int) -> None:
        """Count the texels of an image. Raise NoPictureError if there are too many."""
        if width * height > self.left:
            raise NoPictureError(f"is too much: at most {MOST_OF_A_FILE} pixels of a file are read")
        self.left -= width * height


def read_texture(source: Path | bytes, name: str, budget: Budget | None = None) -> Texture:
    """Return the texture in an image file or its contents.

    Raises:
        NoPictureError: for a file that is missing, not a plain file, in another format, broken or too large; without
            Pillow.
    """
    with _opened(contents_of(source)) as image:
        return texture_of(image, name, budget)


def contents_of(source: Path | bytes) -> bytes:
    """Return the contents of an image file. Raises NoPictureError for one that is missing or too large."""
    if isinstance(source, Path):
        if not os.path.isfile(source):  # unlike Path.is_file, also False for invalid file names
            raise NoPictureError("doesn't exist")
        if source.stat().st_size > MOST_BYTES:
            raise NoPictureError(f"is larger than {MOST_BYTES // 2**20} MB")
        return source.read_bytes()
    return source


def check_picture(data: bytes) -> None:
    """Check the header of an image. Raises as :func:`read_texture` does."""
    with _opened(data) as image:
        sized(image.width, image.height)


def _opened(data: bytes) -> Any:
    """Return an image of Pillow whose pixels aren't decoded yet."""
    try:
        from PIL import Image
    except ImportError:
        raise NoPictureError("needs the package Pillow: pip install 'backswing[plot]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, whose sizes are checked afterwards
            return Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:  # Pillow raises many types of errors for broken files
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise NoPictureError(f"can't be read as an image: {reason}") from None


def sized(width: int, height: int, budget: Budget | None = None) -> None:
    """Check the size of an image, and count it. Raises NoPictureError if it is too large."""
    if not 0 < width * height <= MOST_TEXELS:
        raise NoPictureError(f"has {width} x {height} pixels; at most {MOST_TEXELS} are supported")
    if budget is not None:
        budget.take(width, height)


def has_alpha(image: Any) -> bool:
    """Return whether an image of Pillow has opacity."""
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def texture_of(image: Any, name: str, budget: Budget | None = None) -> Texture:
    """Return the texture of an image of Pillow, decoded here.

    Raises:
        NoPictureError: for one that is broken, too large or in another format.
    """
    if image.format is not None and image.format not in FORMATS:
        raise NoPictureError(f"has the format {image.format}; supported are {', '.join(FORMATS)}")
    sized(image.width, image.height, budget)
    try:
        if image.mode.startswith("I;16"):
            return Texture(np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=2), name)
        return Texture(np.array(image.convert("RGB")), name)
    except Exception as error:
        raise NoPictureError(f"can't be decoded: {str(error).strip() or type(error).__name__}") from None
