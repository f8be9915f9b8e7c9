"""load: from a robot file to a model in one call."""

import os
from pathlib import Path
from typing import Any

from sim.builder import ModelBuilder, Vector
from sim.errors import ModelError
from sim.model import Model

# Method of ModelBuilder that reads files of each suffix.
READERS = {".urdf": "add_urdf"}


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    collapse_fixed: bool = True,
    gravity: Vector = (0.0, 0.0, -9.81),
    **options: Any,
) -> Model:
    """Make a model with one articulation of a file.

    Args:
        path: a ``.urdf`` file.
        dtype: "float32" or "float64".
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.
        gravity: gravity in the world frame [m/s^2].
        options: those of the reader, such as ``floating_base`` or ``package_dirs``; see
            :func:`sim.importers.urdf.add_urdf`.

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
    builder = ModelBuilder(gravity=gravity)
    getattr(builder, READERS[suffix])(path, **options)
    return builder.finalize(dtype, collapse_fixed=collapse_fixed)
