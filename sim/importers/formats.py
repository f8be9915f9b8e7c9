"""Supported file formats, and the model builder with their importers as methods."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.importers import mjcf, sdf, urdf, usd
from sim.importers.mjcf.source.markup import root_tag
from sim.model.builder import WorldBuilder
from sim.model.checks import require_path
from sim.model.model import Part


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    Attributes:
        add: the importer, which is also the method ``ModelBuilder.add_<name>``.
        suffixes: suffixes of its files, in lower case with the dot.
        gravity: function that returns a file's gravity [m/s^2], [3], for formats whose ``add`` keeps the builder's
            gravity.
    """

    add: Callable[..., Part | list[Part]]
    suffixes: tuple[str, ...]
    gravity: Callable[[str | os.PathLike[str]], np.ndarray] | None = None


FORMATS = {
    "urdf": FileFormat(urdf.add_urdf, (".urdf",)),
    "mjcf": FileFormat(mjcf.add_mjcf, (".xml",)),
    "sdf": FileFormat(sdf.add_sdf, (".sdf", ".world"), sdf.read_gravity),
    "usd": FileFormat(usd.add_usd, (".usd", ".usda", ".usdc", ".usdz"), usd.read_gravity),
}
FORMAT_OF_SUFFIX = {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}
# Formats of an .xml file, by its root element.
XML_FORMATS = {"mujoco": "mjcf", "robot": "urdf", "sdf": "sdf"}


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a file, by its suffix, for ``.xml`` by its root element; None for an unknown suffix.

    Returns:
        A key of ``FORMATS``.

    Raises:
        ImportFileError: for an ``.xml`` file that can't be read or is empty.
        ModelError: for an argument that isn't a file path.
    """
    require_path(path)
    suffix = Path(path).suffix.lower()
    found = FORMAT_OF_SUFFIX.get(suffix)
    return XML_FORMATS.get(root_tag(Path(path)), found) if suffix == ".xml" else found


class ModelBuilder(WorldBuilder):
    """Builder of a model: collects links, joints, geometries and actuators; :meth:`finalize` checks them.

    Args:
        gravity: gravity in the world frame [m/s^2].

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground(surface=sim.Surface(friction=0.8))
        >>> arm = scene.add_urdf("scenes/robots/manipulator.urdf")
        >>> ball = scene.add_sphere(radius=0.05, mass=0.2, position=(0.6, 0, 0.05), name="ball")
        >>> model = scene.finalize()
        >>> model.nq, model.nv, model.q_slice(ball)
        (14, 13, slice(7, 14, None))
    """

    add_urdf = urdf.add_urdf
    add_usd = usd.add_usd
    add_sdf = sdf.add_sdf
    add_mjcf = mjcf.add_mjcf
