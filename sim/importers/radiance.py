"""Images of Radiance (.hdr): light of any brightness, with a common exponent of red, green and blue."""

import math
import re

import numpy as np

from sim.importers.pictures import Budget, NoPictureError, read_texture, sized
from sim.model.looks.looks import Texture

SIGNATURE = b"#?"
LONGEST = 2**16  # bytes of a header
EXPOSURES = (1e-10, 1e10)  # least and largest factor
NARROWEST, WIDEST = 8, 2**15 - 1  # columns of images whose rows are compressed


def read_sky(data: bytes, name: str, budget: Budget | None = None) -> Texture:
    """Return the image of a sky in the contents of a file of Radiance, or of any format of :func:`read_texture`.

    Raises:
        NoPictureError: for one that is broken, too large or in another format.
    """
    if not data.startswith(SIGNATURE):
        return read_texture(data, name, budget)
    header = data[:LONGEST]
    end = header.find(b"\n\n")
    size = re.match(rb"-Y (\d{1,9}) \+X (\d{1,9})\n", header[end + 2 :])
    if end < 0 or size is None or b"FORMAT=32-bit_rle_rgbe" not in header[:end]:
        raise NoPictureError("is a file of Radiance whose rows don't go down and to the right, or that isn't of RGBE")
    height, width = int(size[1]), int(size[2])
    sized(width, height, budget)
    pixels = _pixels(data[end + 2 + size.end() :], height, width)
    exponent = pixels[..., 3:].astype(np.int32)
    light = np.where(exponent > 0, np.ldexp(pixels[..., :3].astype(np.float32), exponent - 136), np.float32(0.0))
    return Texture(light / np.float32(_exposure(header[:end])), name)


def _exposure(header: bytes) -> float:
    """Return the factor by which the light of all pixels was multiplied, the product of those in the header."""
    found = 1.0
    for stated in re.findall(rb"^EXPOSURE=[ \t]*(.*?)[ \t]*$", header, re.MULTILINE):
        try:
            found *= float(stated)
        except ValueError:
            found = math.nan
    if not EXPOSURES[0] <= found <= EXPOSURES[1]:
        raise NoPictureError(
            f"is a file of Radiance whose exposure isn't between {EXPOSURES[0]:g} and {EXPOSURES[1]:g}"
        )
    return found


def _pixels(data: bytes, height: int, width: int) -> np.ndarray:
    """Return mantissas and exponents [height, width, 4], from rows that are compressed by channel or plain."""
    pixels, at = np.empty((height, width, 4), dtype=np.uint8), 0
    for row in pixels:
        if not NARROWEST <= width <= WIDEST or data[at : at + 4] != bytes([2, 2, width >> 8, width & 255]):
            plain = np.frombuffer(data[at : at + 4 * width], np.uint8)
            if len(plain) < 4 * width or (plain.reshape(-1, 4)[:, :3] == 1).all(axis=1).any():
                # Ones mark repeats in the oldest files.
                raise NoPictureError("is a file of Radiance that is broken, or compressed in an old way")
            row[:] = plain.reshape(-1, 4)
            at += 4 * width
            continue
        at += 4
        for channel in range(4):
            values, at = _unpack(data, at, width)
            row[:, channel] = np.frombuffer(values, np.uint8)
    return pixels


def _unpack(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """Return one channel of a row, and the index of the byte after it."""
    parts, left = [], width
    while left > 0:
        count = data[at] if at < len(data) else 0
        if count > 128:
            part = data[at + 1 : at + 2] * (count - 128)
            at += 2
        else:
            part = data[at + 1 : at + 1 + count]
            at += 1 + count
        left -= len(part)
        if not part or left < 0 or at > len(data):
            raise NoPictureError("is a broken file of Radiance")
        parts.append(part)
    return b"".join(parts), at
