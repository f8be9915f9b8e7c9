"""load: from a robot file to a model in one call."""

import os
from pathlib import Path
from typing import Any

from sim.errors import ModelError
from sim.importers.mjcf.file import root_tag
from sim.model.builder import ModelBuilder
from sim.model.model import Model
from sim.model.specs import Vector

# Method of ModelBuilder that reads files of each suffix; of an .xml file its first element decides.
READERS = {
    ".urdf": "add_urdf",
    ".xml": "add_mjcf",
    **dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), "add_usd"),
}
XML_READERS = {"mujoco": "add_mjcf", "robot": "add_urdf"}
EARTH = (0.0, 0.0, -9.81)


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    collapse_fixed: bool = True,
    gravity: Vector | None = None,
    **options: Any,
) -> Model:
    """Make a model of a file: of the robot of a URDF, or all that an MJCF or a USD file describes.

    What was read is in ``model.parts``, with the keyframes and the time step of an MJCF file.

    Args:
        path: a ``.urdf``, ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file; or an ``.xml`` file, which is read as MJCF
            where its first element is ``<mujoco>`` and as URDF where it is ``<robot>``.
        dtype: "float32" or "float64".
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.
        gravity: gravity in the world frame [m/s^2]; None for that of the file, or (0, 0, -9.81) where it has none.
        options: those of the reader, such as ``floating_base`` or ``package_dirs``; see
            :func:`sim.importers.urdf.add_urdf`, :func:`sim.importers.mjcf.add_mjcf` and
            :func:`sim.importers.usd.add_usd`.

    Returns:
        the model.

    Raises:
        ImportFileError: if the file can't be read, naming the file and the element.
        ModelError: for an unknown suffix, or a model that can't be built.
    """
    return read_file(path, gravity, **options).finalize(dtype, collapse_fixed=collapse_fixed)


def read_file(path: str | os.PathLike[str], gravity: Vector | None = None, **options: Any) -> ModelBuilder:
    """A builder with what a file describes, to add more to; arguments and errors as for :func:`load`."""
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        hint = "; expand it with xacro first" if suffix == ".xacro" else ""
        raise ModelError(
            f"{path}: files of type '{suffix}' are not supported{hint}; supported are {', '.join(READERS)}"
        )
    reader = READERS[suffix]
    if suffix == ".xml":
        reader = XML_READERS.get(root_tag(Path(path)), reader)
    builder = ModelBuilder(_gravity_of(path, reader) if gravity is None else EARTH)
    wanted = None if gravity is None else ModelBuilder(gravity).gravity
    getattr(builder, reader)(path, **options)
    if wanted is not None:
        builder.gravity = wanted
    return builder


def _gravity_of(path: str | os.PathLike[str], reader: str) -> Vector:
    """Gravity that a file states [m/s^2], where its reader doesn't give it to the builder."""
    if reader != "add_usd":
        return EARTH
    from sim.importers.usd.importer import (
        read_gravity,  # here: the reader of a file that isn't asked for need not be loaded
    )

    return read_gravity(path)
