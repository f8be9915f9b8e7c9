"""Models from text: the contents of a file from a program, a network or an archive."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sim.errors import ModelError
from sim.importers.formats import FORMATS
from sim.importers.load import load
from sim.model.checks import require_type
from sim.model.model import Model

LEVELS = 2  # folders above that relative paths may lead through
STEM = "text"  # name of the temporary file, which messages have
BINARY_USD = {b"PXR-USDC": ".usdc", b"PK": ".usdz"}  # suffixes by the first bytes


def load_text(
    text: str | bytes | IO[str] | IO[bytes],
    format: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Model:
    """Load a model from the text of a file, or from an open file.

    Args:
        text: the contents, or a file object to read them from.
        format: "urdf", "mjcf", "sdf" or "usd".
        folder: folder that relative paths in the text start from, such as those of meshes. Default: none, and the text
            must be complete in itself, or have absolute paths.
        **options: options of :func:`sim.load`.

    Returns:
        The model.

    Raises:
        ImportFileError: if the text can't be read, naming the element and a temporary file ``text``.
        ModelError: for an unknown format, or as :func:`sim.load`.

    Example:
        >>> import sim
        >>> ball = '<body name="ball" pos="0 0 1"><freejoint/><geom size="0.1"/></body>'
        >>> sim.load_text(f"<mujoco><worldbody>{ball}</worldbody></mujoco>", "mjcf").link_names
        ('ball',)
    """
    with text_file(text, format, folder=folder) as path:
        return load(path, **options)


@contextmanager
def text_file(
    text: str | bytes | IO[str] | IO[bytes], format: str, *, folder: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """Hold a text in a temporary file, which the methods of a builder read.

    Args:
        text: as for :func:`load_text`, like the others.
        format: the format.
        folder: the folder, whose entries appear beside the file.

    Raises:
        ModelError: for an unknown format, a wrong type, or a folder that isn't there.

    Example:
        >>> import sim
        >>> from sim.importers.text import text_file
        >>> scene = sim.ModelBuilder()
        >>> with text_file("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>", "mjcf") as path:
        ...     part = scene.add_mjcf(path)
        >>> len(scene.geometries)
        1
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise ModelError(f"load_text: format is {format!r}; it must be one of {', '.join(map(repr, FORMATS))}")
    contents = text.read() if hasattr(text, "read") else text
    require_type("text", contents, (str, bytes), "the contents of a file, or a file object")
    data = _encoded(contents) if isinstance(contents, str) else contents
    with tempfile.TemporaryDirectory() as made:
        home = Path(made) if folder is None else _mirrored(Path(made), folder)
        path = _unused(home, _suffix(format, data))
        path.write_bytes(data)
        yield path


def _encoded(text: str) -> bytes:
    """Return a text as UTF-8; the encoding that an XML declaration states was that of the file."""
    try:
        return re.sub(r"^(\s*<\?xml[^>]*?)\s+encoding\s*=\s*([\"'])[^\"']*\2", r"\1", text, count=1).encode()
    except UnicodeError as error:
        raise ModelError(f"load_text: the text can't be encoded as UTF-8: {error}") from None


def _mirrored(made: Path, folder: str | os.PathLike[str]) -> Path:
    """Return a folder with links to the entries of another one, and above it those of the folders above, for ``..``."""
    require_type("folder", folder, (str, os.PathLike), "the path of a folder")
    try:
        real = Path(folder).resolve()
        exists = real.is_dir()
    except (OSError, ValueError):  # a name that is too long, or with a null character
        exists = False
    if not exists:
        raise ModelError(f"load_text: folder {folder} doesn't exist")
    chain = [real, *real.parents[:LEVELS]][::-1]
    here = made
    for level, below in zip(chain, [*chain[1:], None], strict=True):
        for entry in level.iterdir():
            if entry != below:
                (here / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
        if below is not None:
            here = here / below.name
            here.mkdir()
    return here


def _suffix(format: str, data: bytes) -> str:
    if format == "usd":
        return next((suffix for first, suffix in BINARY_USD.items() if data.startswith(first)), ".usda")
    return FORMATS[format].suffixes[0]


def _unused(folder: Path, suffix: str) -> Path:
    """Return a path in the folder that isn't in use."""
    path = folder / f"{STEM}{suffix}"
    while path.is_symlink():
        path = path.with_name(f"_{path.name}")
    return path
