"""Input and output shared by the commands: reading a file, placing a floating base on the ground, output paths."""

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.dynamics.lowest_points import lowest_points
from sim.importers.formats import ModelBuilder, format_of
from sim.importers.load import load
from sim.importers.load import read_file as read_into_builder
from sim.importers.transaction import named_file
from sim.model.checks import free_name
from sim.model.model import Model

# Options of :func:`add_file`
READING = ("floating_base", "base_height", "package_dir", "ground")


class UsageError(Exception):
    """Error for arguments that don't fit together; the message says which ones and what to do."""


def refuse_unused(given: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise UsageError for options that were given but have no effect.

    Args:
        given: arguments of a command.
        names: its options, as attributes of the arguments.
        reason: why they have none, and what to do.
    """
    unused = [f"--{name.replace('_', '-')}" for name in names if name in given.stated]
    if unused:
        raise UsageError(f"{', '.join(unused)}: {reason}")


def add_file(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the arguments that select the file and its reader's options."""
    number = "?" if optional else None
    parser.add_argument(
        "file",
        type=Path,
        nargs=number,
        metavar="FILE",
        help="file to read: .urdf, .xml (MJCF), .sdf, .world, .usd, .usda, .usdc or .usdz",
    )
    parser.add_argument(
        "--floating-base",
        action="store_true",
        help="URDF only: let the base move freely instead of fixing it to the world",
    )
    parser.add_argument(
        "--base-height", type=float, metavar="Z",
        help="height of a floating base's origin [m] (default with --ground: the robot stands on the ground)",
    )  # fmt: skip
    parser.add_argument(
        "--package-dir", type=Path, action="append", metavar="DIR",
        help="URDF and SDF only: folder to search first for package:// and model:// paths; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--ground",
        type=float,
        nargs="?",
        const=0.0,
        metavar="HEIGHT",
        help="add a ground plane, at z = 0 or at this height [m]",
    )


def read_file(
    given: argparse.Namespace, dtype: str, *, pictures: bool = True, collapse_fixed: bool = True
) -> tuple[Model, list[str]]:
    """Read the model of the file; return it with the warnings of its reader.

    Args:
        given: arguments of :func:`add_file`.
        dtype: "float32" or "float64".
        pictures: read visual geometry.
        collapse_fixed: see :meth:`sim.ModelBuilder.finalize`.

    Raises:
        ModelError: see :func:`sim.load`.
        UsageError: for an option that doesn't apply to files of this kind.
    """
    builder, notes = read_builder(given, pictures=pictures)
    with named_file(given.file):
        return builder.finalize(dtype, collapse_fixed=collapse_fixed), notes


def read_untrusted_file(given: argparse.Namespace, dtype: str) -> tuple[Model, list[str]]:
    """Read the file as :func:`read_file` does, in a separate process, see :mod:`sim.importers.untrusted`."""
    if given.ground is not None:
        raise UsageError("--ground can't be combined with --untrusted")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(given.file, dtype=dtype, untrusted=True, **reader_options(given))
    return model, notes_of(caught, given.file)


def reader_options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the file's reader. Raise UsageError for options that don't apply to it."""
    options: dict[str, Any] = {}
    if given.floating_base:
        if not is_urdf(given.file):
            raise UsageError(
                f"--floating-base applies to URDF files only; {given.file} says itself which bodies are free; remove it"
            )
        options["floating_base"] = True
    if given.base_height is not None:
        if not given.floating_base:
            raise UsageError("--base-height requires a floating base; add --floating-base")
        if not np.isfinite(given.base_height):
            raise UsageError(f"--base-height is {given.base_height}; it must be a finite height [m]")
        options["position"] = (0.0, 0.0, given.base_height)
    if given.package_dir:
        if not _is_read_as(given.file, "urdf", "sdf"):
            raise UsageError(
                f"--package-dir applies to URDF and SDF files only; {given.file} names its meshes by path; remove it"
            )
        options["package_dirs"] = given.package_dir
    return options


def read_builder(given: argparse.Namespace, *, pictures: bool = True) -> tuple[ModelBuilder, list[str]]:
    """Return a builder of the file and its reader's warnings; arguments and errors as for read_file."""
    options = reader_options(given) | ({} if pictures else {"visual": False})
    if given.floating_base and given.ground is not None and given.base_height is None:
        options["position"] = (0.0, 0.0, _standing_height(given, options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        builder = read_into_builder(given.file, **options)
    if given.ground is not None:
        builder.add_ground(height=given.ground, name=free_name("ground", builder.geometries))
    return builder, notes_of(caught, given.file)


def _standing_height(given: argparse.Namespace, options: dict[str, Any]) -> float:
    """Return the height of the base's origin at which the robot's lowest collider stands on the ground [m].

    Without colliders, return the height of the ground.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # issued again by the final read
        model = read_into_builder(given.file, **{**options, "visual": False}).finalize("float64")
    return float(given.ground) - min(lowest_points(model).values(), default=0.0)


def is_urdf(file: Path) -> bool:
    """Return whether a file is read as URDF."""
    return _is_read_as(file, "urdf")


def _is_read_as(file: Path, *formats: str) -> bool:
    return format_of(file) in formats


def notes_of(caught: Iterable[warnings.WarningMessage], file: Path) -> list[str]:
    """Return the texts of warnings about a file, without the file's name."""
    return [str(warning.message).removeprefix(f"{file}: ") for warning in caught]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the argument for results that programs read."""
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def say(notes: Iterable[str]) -> None:
    """Print warnings on standard error, so that standard output has results only."""
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)


def check_output(path: Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of an output file, in lower case.

    Raises:
        UsageError: for an unsupported suffix, or a missing folder.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise UsageError(f"{path}: can't write files of type '{suffix}'; choose one of {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} doesn't exist; create it")
    return suffix
