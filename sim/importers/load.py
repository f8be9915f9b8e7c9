"""The function ``load``: from a robot file to a model in one call."""

import inspect
import os
from pathlib import Path
from typing import Any

from sim.errors import ModelError
from sim.importers.formats import FORMAT_OF_SUFFIX, FORMATS, ModelBuilder, format_of
from sim.importers.transaction import named_file
from sim.importers.untrusted import Limits, load_untrusted
from sim.model.checks import require_type
from sim.model.compile.compiler import dtype_name
from sim.model.model import Model
from sim.model.specs import Vector

EARTH = (0.0, 0.0, -9.81)


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    collapse_fixed: bool = True,
    gravity: Vector | None = None,
    untrusted: bool | Limits = False,
    **options: Any,
) -> Model:
    """Load a model from a file: the robot of a URDF, or everything in an MJCF, SDF or USD file.

    ``model.parts`` lists the contents, with the keyframes and the time step of an MJCF file.

    Args:
        path: a ``.urdf``, ``.sdf``, ``.world``, ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file; or an ``.xml`` file,
            which is read as MJCF if its root element is ``<mujoco>``, as URDF if it is ``<robot>``, and as SDF if it is
            ``<sdf>``.
        dtype: "float32" or "float64", or a type of that name such as ``torch.float64``.
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.
        gravity: gravity in the world frame [m/s^2]. Default: that of the file, or (0, 0, -9.81) if it has none.
        untrusted: read the file in a separate process with limits of time and memory (see
            :class:`sim.importers.untrusted.Limits`; True for its defaults), so that a malicious file that makes a
            library crash, hang or run out of memory raises an error. Takes a few seconds more.
        **options: arguments of the method that adds files of this format: :meth:`sim.ModelBuilder.add_urdf`,
            :meth:`sim.ModelBuilder.add_mjcf`, :meth:`sim.ModelBuilder.add_sdf` or :meth:`sim.ModelBuilder.add_usd`.
            All formats support ``name``, ``position``, ``orientation``, ``visual``, ``collision``, ``friction``,
            ``restitution`` and ``decompose``; URDF supports ``floating_base``, for example. None selects the default.

    Returns:
        The model.

    Raises:
        ImportFileError: if the file can't be read, naming the file and the element.
        ModelError: for an unknown suffix, an option that the format doesn't support, or a model that can't be built.

    Example:
        >>> import sim
        >>> sim.load("scenes/robots/manipulator.urdf")
        Model(manipulator: 7 links in 1 tree, nq 7, nv 7, nu 0, 22 geometries, float32)
    """
    dtype = dtype_name(dtype)
    require_type("untrusted", untrusted, (bool, Limits), "True, False, or Limits")
    if untrusted:
        limits = Limits() if untrusted is True else untrusted
        assert isinstance(limits, Limits)
        own = {"dtype": dtype, "collapse_fixed": collapse_fixed, "gravity": gravity}
        return load_untrusted(path, limits, own | options)
    builder = read_file(path, gravity, **options)
    with named_file(path):
        return builder.finalize(dtype, collapse_fixed=collapse_fixed)


def read_file(path: str | os.PathLike[str], gravity: Vector | None = None, **options: Any) -> ModelBuilder:
    """Read a file into a builder, to which more can be added.

    Args:
        path: as for :func:`load`.
        gravity: as for :func:`load`.
        options: format-specific options of :func:`load`; None for the format's default.

    Raises:
        ImportFileError: see :func:`load`.
        ModelError: see :func:`load`.
    """
    format = format_of(path)
    if format is None:
        suffix = Path(path).suffix.lower()
        hint = "; expand it with xacro first" if suffix == ".xacro" else ""
        supported = ", ".join(FORMAT_OF_SUFFIX)
        if os.path.isdir(path):  # Path.is_dir raises OSError for a name that is too long
            raise ModelError(f"{path}: is a folder; give a file in it, of type {supported}")
        raise ModelError(f"{path}: files of type '{suffix}' are not supported{hint}; supported are {supported}")
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(path, format, given)
    wanted = None if gravity is None else ModelBuilder(gravity).gravity
    found = FORMATS[format]
    with named_file(path):
        builder = ModelBuilder(found.gravity(path) if gravity is None and found.gravity is not None else EARTH)
    found.add(builder, path, **given)
    if wanted is not None:
        builder.gravity = wanted
    return builder


def _check_options(path: str | os.PathLike[str], format: str, given: dict[str, Any]) -> None:
    """Raise ModelError for options that the format doesn't support."""
    arguments = inspect.signature(FORMATS[format].add).parameters.values()
    taken = [each.name for each in arguments if each.kind is each.KEYWORD_ONLY]
    foreign = [name for name in given if name not in taken]
    if foreign:
        raise ModelError(
            f"{path}: {', '.join(foreign)} {'is not an option' if len(foreign) == 1 else 'are not options'} of "
            f"{format.upper()} files; ModelBuilder.add_{format} takes {', '.join(taken)}"
        )
