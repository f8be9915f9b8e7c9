"""load: from a robot file to a model in one call."""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from sim.errors import ModelError
from sim.importers.formats import reader_of
from sim.importers.transaction import named_file
from sim.importers.untrusted import Limits, load_untrusted
from sim.model.builder import ModelBuilder
from sim.model.builder.readers import reader_by_suffix
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
    name: str | None = None,
    position: Vector | None = None,
    orientation: Vector | None = None,
    floating_base: bool | None = None,
    visual: bool | None = None,
    collision: bool | None = None,
    self_collision: bool | None = None,
    world_geometry: bool | None = None,
    friction: float | None = None,
    restitution: float | None = None,
    decompose: bool | float | None = None,
    static_meshes: Literal["hulls", "triangles"] | None = None,
    mimic: Literal["couple", "free"] | None = None,
    drives: Literal["actuators", "springs"] | None = None,
    package_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    untrusted: bool | Limits = False,
) -> Model:
    """Make a model of a file: of the robot of a URDF, or all that an MJCF, an SDF or a USD file describes.

    What was read is in ``model.parts``, with the keyframes and the time step of an MJCF file. Everything from ``name``
    on is an option of the file's format: see :meth:`sim.ModelBuilder.add_urdf`, :meth:`sim.ModelBuilder.add_mjcf`,
    :meth:`sim.ModelBuilder.add_sdf` and :meth:`sim.ModelBuilder.add_usd`. None stands for the default of that method.

    Args:
        path: a ``.urdf``, ``.sdf``, ``.world``, ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file; or an ``.xml`` file,
            which is read as MJCF where its first element is ``<mujoco>``, as URDF where it is ``<robot>``, and as SDF
            where it is ``<sdf>``.
        dtype: "float32" or "float64", or a type of that name such as ``torch.float64``.
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.
        gravity: gravity in the world frame [m/s^2]; None for that of the file, or (0, 0, -9.81) where it has none.
        name: prefix of all names, as "name/".
        position: of the robot or scene in the world [m].
        orientation: its orientation, quaternion xyzw.
        floating_base: URDF: leave the base free instead of fixing it to the world.
        visual: read geometry that is only drawn.
        collision: read geometry that collides.
        self_collision: URDF, MJCF: let links of the robot collide with each other.
        world_geometry: MJCF: read the geometry of bodies that don't move, such as a floor.
        friction: Coulomb friction; in USD of what has no physics material.
        restitution: restitution, likewise.
        decompose: let meshes that aren't convex collide as convex pieces.
        static_meshes: URDF, SDF, MJCF: "triangles" lets meshes that aren't convex and don't move collide as they are.
        mimic: URDF: "couple" or "free" joints that mimic another.
        drives: USD: what drives of joints become, "actuators" or "springs".
        package_dirs: URDF, SDF: a folder, or several, to search for ``package://`` and ``model://``.
        untrusted: read the file in a process of its own, with limits of time and memory (see
            :class:`sim.importers.untrusted.Limits`; True for its defaults), so that a file that makes a library crash,
            hang or take all memory is an error. Takes some seconds more.

    Returns:
        the model.

    Raises:
        ImportFileError: if the file can't be read, naming the file and the element.
        ModelError: for an unknown suffix, an option that the format doesn't have, or a model that can't be built.

    Example:
        >>> import sim
        >>> sim.load("scenes/robots/manipulator.urdf")
        Model(manipulator: 7 links in 1 tree, nq 7, nv 7, nu 0, 22 geometries, float32)
    """
    dtype = dtype_name(dtype)
    options = {
        "name": name, "position": position, "orientation": orientation, "floating_base": floating_base,
        "visual": visual, "collision": collision, "self_collision": self_collision, "world_geometry": world_geometry,
        "friction": friction, "restitution": restitution, "decompose": decompose, "static_meshes": static_meshes,
        "mimic": mimic, "drives": drives, "package_dirs": package_dirs,
    }  # fmt: skip
    if untrusted:
        limits = Limits() if untrusted is True else untrusted
        require_type("untrusted", limits, Limits, "True, False, or Limits")
        own = {"dtype": dtype, "collapse_fixed": collapse_fixed, "gravity": gravity}
        return load_untrusted(path, limits, own | options)
    builder = read_file(path, gravity, **options)
    with named_file(path):
        return builder.finalize(dtype, collapse_fixed=collapse_fixed)


def read_file(path: str | os.PathLike[str], gravity: Vector | None = None, **options: Any) -> ModelBuilder:
    """A builder with what a file describes, to add more to.

    Args:
        path: as for :func:`load`.
        gravity: as for :func:`load`.
        options: those of :func:`load` that belong to a format; None for the format's default.

    Raises:
        ImportFileError: see :func:`load`.
        ModelError: see :func:`load`.
    """
    found = reader_of(path)
    if found is None:
        suffix = Path(path).suffix.lower()
        hint = "; expand it with xacro first" if suffix == ".xacro" else ""
        supported = ", ".join(reader_by_suffix())
        if Path(path).is_dir():
            raise ModelError(f"{path}: is a folder; give a file in it, of type {supported}")
        raise ModelError(f"{path}: files of type '{suffix}' are not supported{hint}; supported are {supported}")
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(path, found.name, given)
    wanted = None if gravity is None else ModelBuilder(gravity).gravity
    with named_file(path):
        builder = ModelBuilder(found.gravity(path) if gravity is None and found.gravity is not None else EARTH)
    getattr(builder, f"add_{found.name}")(path, **given)
    if wanted is not None:
        builder.gravity = wanted
    return builder


def _check_options(path: str | os.PathLike[str], format: str, given: dict[str, Any]) -> None:
    """Raise ModelError for options that the format doesn't have."""
    method = f"add_{format}"
    taken = [
        name for name in inspect.signature(getattr(ModelBuilder, method)).parameters if name not in ("self", "path")
    ]
    foreign = [name for name in given if name not in taken]
    if foreign:
        raise ModelError(
            f"{path}: {', '.join(foreign)} {'is no option' if len(foreign) == 1 else 'are no options'} of "
            f"{format.upper()} files; ModelBuilder.{method} takes {', '.join(taken)}"
        )
