"""The formats of files that can be read, registered with :mod:`sim.model.builder.readers`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sim.importers.mjcf.importer import add_mjcf
from sim.importers.mjcf.markup import root_tag
from sim.importers.sdf.importer import add_sdf, read_gravity
from sim.importers.urdf.importer import add_urdf
from sim.model.builder.readers import FileReader, reader, reader_by_suffix, register_reader
from sim.model.checks import require_path

# By the first element of an .xml file.
XML_FORMATS = {"mujoco": "mjcf", "robot": "urdf", "sdf": "sdf"}


def _add_usd() -> Callable[..., Any]:
    from sim.importers.usd.importer import add_usd  # here: USD's libraries take long to load

    return add_usd


def _usd_gravity(path: str | os.PathLike[str]) -> np.ndarray:
    from sim.importers.usd.importer import read_gravity  # here: USD's libraries take long to load

    return read_gravity(path)


register_reader("urdf", (".urdf",), lambda: add_urdf)
register_reader("mjcf", (".xml",), lambda: add_mjcf)
register_reader("sdf", (".sdf", ".world"), lambda: add_sdf, read_gravity)
register_reader("usd", (".usd", ".usda", ".usdc", ".usdz"), _add_usd, _usd_gravity)


def reader_of(path: str | os.PathLike[str]) -> FileReader | None:
    """The reader of a file by its suffix, for ``.xml`` by its first element; None for a suffix that no format has.

    Raises:
        ImportFileError: for an ``.xml`` file that can't be read or is empty.
        ModelError: for what isn't the path of a file.
    """
    require_path(path)
    suffix = Path(path).suffix.lower()
    found = reader_by_suffix().get(suffix)
    if found is not None and suffix == ".xml":
        return reader(XML_FORMATS.get(root_tag(Path(path)), found.name))
    return found
