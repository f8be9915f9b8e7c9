"""The readers of robot files, one for each format. They register themselves, so that the builder need not know them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import ModelError

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class FileReader:
    """How files of one format are read.

    Attributes:
        name: of the format: ``ModelBuilder.add_<name>`` reads it.
        suffixes: of its files, in lower case with the dot.
        function: returns what that method calls, with the builder in front. It is called when a file is read, so that
            a library that takes long to load is loaded for the first file that needs it.
        gravity: gravity that a file states [m/s^2], [3], where ``function`` leaves the builder's as it is.
    """

    name: str
    suffixes: tuple[str, ...]
    function: Callable[[], Callable[..., Any]]
    gravity: Callable[[Path], np.ndarray] | None = None


_readers: dict[str, FileReader] = {}


def register_reader(
    name: str,
    suffixes: tuple[str, ...],
    function: Callable[[], Callable[..., Any]],
    gravity: Callable[[Path], np.ndarray] | None = None,
) -> None:
    """Add the reader of a format; the arguments are those of :class:`FileReader`."""
    _readers[name] = FileReader(name, suffixes, function, gravity)


def reader(name: str) -> FileReader:
    """The reader of a format. Raises ModelError where none is registered."""
    if name not in _readers:
        raise ModelError(f"no reader of {name} files is registered; import sim.importers")
    return _readers[name]


def reader_by_suffix() -> dict[str, FileReader]:
    """The reader for each suffix of a file."""
    return {suffix: found for found in _readers.values() for suffix in found.suffixes}
