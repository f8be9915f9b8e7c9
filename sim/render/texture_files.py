"""Textures of a written file, as .png images in a folder beside it, and light of skies as .hdr images."""

import re
import struct
import zlib
from pathlib import Path

import numpy as np

from sim.errors import ModelError
from sim.model.looks.looks import Texture

LONGEST = 100  # characters of the name of an image
SIGNATURE = b"\x89PNG\r\n\x1a\n"


class TextureFiles:
    """The textures of a file, each once.

    Args:
        target: the file.
        folder: name of their folder, beside the file. Default: made from the file's name, as ant_usda_textures is.
    """

    def __init__(self, target: Path, folder: str = ""):
        self.folder = folder or f"{target.stem}_{target.suffix[1:].lower()}_textures"
        self._target = target
        self._files: dict[Texture, str] = {}

    def add(self, texture: Texture) -> str:
        """Add a texture; return the path of its image relative to the file."""
        if texture not in self._files:
            base = re.sub(r"[^a-z0-9_-]", "_", Path(texture.name).stem.lower())[:LONGEST] or "texture"
            name, number, taken = base, 1, set(self._files.values())
            suffix = "hdr" if texture.is_light else "png"
            while f"{self.folder}/{name}.{suffix}" in taken:
                number += 1
                name = f"{base}_{number}"
            self._files[texture] = f"{self.folder}/{name}.{suffix}"
        return self._files[texture]

    def write(self, hidden: Path) -> None:
        """Write the images, each first in a hidden folder beside the file.

        Raises:
            ModelError: if a file has the name of the folder.
            OSError: if an image can't be written.
        """
        folder = self._target.parent / self.folder
        if self._files and folder.exists() and not folder.is_dir():
            raise ModelError(
                f"{self._target}: its textures need the folder {folder}, but a file has that name; rename or remove it"
            )
        for texture, path in self._files.items():
            new = hidden / "texture.png"
            new.write_bytes(hdr_of(texture.pixels) if texture.is_light else png_of(texture.pixels))
            folder.mkdir(exist_ok=True)
            new.replace(self._target.parent / path)


def png_of(pixels: np.ndarray) -> bytes:
    """Return the .png file of an image, uint8 [height, width, 3]."""
    height, width = pixels.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def hdr_of(light: np.ndarray) -> bytes:
    """Return the .hdr file of Radiance of linear light, float32 [height, width, 3]; it has eight bits of precision."""
    height, width = light.shape[:2]
    largest = np.maximum(light.max(axis=2), 1e-38)
    _, exponent = np.frexp(largest)
    exponent = np.clip(exponent, -127, 127)
    mantissa = np.clip(np.floor(np.ldexp(light, 8 - exponent[..., None])), 0, 255)
    pixels = np.concatenate([mantissa, np.where(largest > 1e-37, exponent + 128, 0)[..., None]], axis=2)
    header = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode()
    return header + b"".join(_packed(row) for row in pixels.astype(np.uint8))


def _packed(row: np.ndarray) -> bytes:
    """Return a row of pixels [width, 4], channel by channel if it has the width that is read so."""
    width = len(row)
    if not 8 <= width < 2**15:
        return row.tobytes()
    parts = [bytes([2, 2, width >> 8, width & 255])]
    for channel in row.T:
        chunks = (channel[first : first + 128].tobytes() for first in range(0, width, 128))
        parts += [bytes([len(chunk)]) + chunk for chunk in chunks]
    return b"".join(parts)
