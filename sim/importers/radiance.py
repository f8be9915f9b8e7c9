"""Images of Radiance (.hdr): light of any brightness, with a common exponent of red, green and blue."""

import re

import numpy as np

from sim.importers.pictures import Budget, NoPictureError, read_texture, sized
from sim.model.looks.looks import Texture

SIGNATURE = b"#?"
LONGEST = 2**16  # bytes of a header
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
    pixels = _pixels(np.frombuffer(data, np.uint8, offset=end + 2 + size.end()), height, width)
    exponent = pixels[..., 3:].astype(np.int32)
    return Texture(np.where(exponent > 0, np.ldexp(pixels[..., :3].astype(np.float32), exponent - 136), 0.0), name)


def _pixels(data: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return mantissas and exponents [height, width, 4], from rows that are compressed by channel or plain."""
    pixels, at = np.empty((height, width, 4), dtype=np.uint8), 0
    for row in pixels:
        begin = data[at : at + 4].tolist()
        if not NARROWEST <= width <= WIDEST or begin != [2, 2, width >> 8, width & 255]:
            plain = data[at : at + 4 * width].reshape(-1, 4) if len(data) >= at + 4 * width else None
            if plain is None or (plain[:, :3] == 1).all(axis=1).any():  # marks repeats of the oldest files
                raise NoPictureError("is a file of Radiance that is broken, or compressed in an old way")
            row[:] = plain
            at += 4 * width
            continue
        at += 4
        for channel in range(4):
            at = _unpack(data, at, row[:, channel])
    return pixels


def _unpack(data: np.ndarray, at: int, values: np.ndarray) -> int:
    """Unpack one channel of a row; return the index of the byte after it."""
    column = 0
    while column < len(values):
        count = int(data[at]) if at + 1 < len(data) else 0
        length, repeats = (count - 128, True) if count > 128 else (count, False)
        found = data[at + 1 : at + (2 if repeats else 1 + length)]
        if not length or len(found) < (1 if repeats else length) or column + length > len(values):
            raise NoPictureError("is a broken file of Radiance")
        values[column : column + length] = found
        column, at = column + length, at + 1 + len(found)
    return at
