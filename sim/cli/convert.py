"""Write the model of a file, at its initial coordinates, as a USD file with physics and pictures."""

import argparse
from pathlib import Path

from sim.cli.files import add_file, check_output, read_file, say
from sim.kinematics import forward_kinematics

USD = (".usda", ".usdc", ".usd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add_file(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help=f"file to write: {', '.join(USD)}")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    from sim.usd import write_usd  # here, since it takes a while to load

    check_output(given.out, USD)
    model, notes = read_file(given, "float64")
    say(notes)
    write_usd(given.out, model, forward_kinematics(model, model.q0[None]).numpy(), fps=24.0)
    print(given.out)
    return 0
