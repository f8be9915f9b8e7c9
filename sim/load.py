"""load: from a robot file to a model in one call."""

import os
from pathlib import Path
from typing import Any

from sim.builder import ModelBuilder, Vector
from sim.errors import ModelError
from sim.model import Model

# Method of ModelBuilder that reads files of each suffix.
READERS = {".urdf": "add_urdf", **dict.fromkeys((".usd", ".usda", ".usdc", ".usdz"), "add_usd")}
EARTH = (0.0, 0.0, -9.81)


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    collapse_fixed: bool = True,
    gravity: Vector | None = None,
    **options: Any,
) -> Model:
    """Make a model of a file: of the robot of a ``.urdf``, or all that a ``.usd`` describes.

    Args:
        path: a ``.urdf``, ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.
        dtype: "float32" or "float64".
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.
        gravity: gravity in the world frame [m/s^2]; None for that of the file, or (0, 0, -9.81) where it has none.
        options: those of the reader, such as ``floating_base`` or ``package_dirs``; see
            :func:`sim.importers.urdf.add_urdf` and :func:`sim.importers.usd.add_usd`.

    Returns:
        the model.

    Raises:
        ImportFileError: if the file can't be read, naming the file and the element.
        ModelError: for an unknown suffix, or a model that can't be built.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        hint = "; expand it with xacro first" if suffix == ".xacro" else ""
        raise ModelError(
            f"{path}: files of type '{suffix}' are not supported{hint}; supported are {', '.join(READERS)}"
        )
    if gravity is None:
        gravity = _gravity_of(path, suffix)
    builder = ModelBuilder(gravity=gravity)
    getattr(builder, READERS[suffix])(path, **options)
    return builder.finalize(dtype, collapse_fixed=collapse_fixed)


def _gravity_of(path: str | os.PathLike[str], suffix: str) -> Vector:
    """Gravity that a file states [m/s^2]."""
    if READERS[suffix] != "add_usd":
        return EARTH
    from sim.importers.usd import read_gravity  # here: the reader of a file that isn't asked for need not be loaded

    return read_gravity(path)
