"""Write a file's model, at its initial coordinates, as a URDF, MJCF or USD file.

Meshes of URDF and MJCF files are written into a folder next to OUT. Features that the format of OUT can't represent are
reported on standard error. If dropping them would change the motion, nothing is written unless --lossy is given.
docs/exporting.md lists these features.
"""

import argparse
import warnings
from pathlib import Path

from sim.arrays.device_model import DeviceModel
from sim.cli.files import UsageError, add_file, check_output, notes_of, read_file, refuse_unused, say
from sim.dynamics.kinematics import forward_kinematics
from sim.exporters import write_mjcf, write_urdf
from sim.model.model import Model

USD = (".usda", ".usdc", ".usd", ".usdz")
SUFFIXES = (".urdf", ".xml", *USD)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="file to write, replaced if it exists: .urdf, .xml (MJCF), .usda, .usdc, .usd or .usdz",
    )
    parser.add_argument(
        "--lossy",
        action="store_true",
        help="write OUT even if dropped features change the motion; only warn",
    )


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    suffix = check_output(given.out, SUFFIXES)
    if suffix in USD:
        refuse_unused(given, ["lossy"], f"nothing that {given.out.name} lacks changes the motion; remove it")
    if suffix == ".urdf":
        refuse_unused(given, ["base_height"], f"{given.out.name} doesn't say where the base is; remove it")
    if given.out.exists() and given.file.exists() and given.out.samefile(given.file):
        raise UsageError(f"OUT is the input file {given.out}; choose another name")
    # A URDF file keeps links behind fixed joints; MuJoCo merges those of a URDF file too.
    model, notes = read_file(given, "float64", collapse_fixed=suffix != ".urdf")
    say(notes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _write(given.out, suffix, model, given.lossy)
    say(notes_of(caught, given.out))
    print(given.out)
    return 0


def _write(out: Path, suffix: str, model: Model, lossy: bool) -> None:
    if suffix in USD:
        from sim.usd import write_usd  # imported here, since USD's libraries take long to load

        write_usd(out, model, forward_kinematics(DeviceModel(model, "cpu"), model.q0[None]).numpy(), fps=24.0)
        return
    write = write_urdf if suffix == ".urdf" else write_mjcf
    write(out, model, lossy=lossy)
