"""The command line ``backswing``, also ``python -m sim``."""

import argparse
import importlib
import sys
from collections.abc import Sequence

import warp as wp

from sim.cli.files import UsageError
from sim.errors import ModelError
from sim.version import __version__

PROBLEM, USAGE, STOPPED = 1, 2, 130
COMMANDS = {
    "info": "links, joints, masses, geometry and warnings of a file",
    "check": "check whether a file can be simulated, and what is wrong with it",
    "convert": "write a file's model as a URDF, MJCF or USD file",
    "render": "draw a file as a picture or an animation: a USD file's own motion, others simulated",
    "view": "show a file's model and its motion in the browser",
    "simulate": "roll out a file's model and write the states",
    "warmup": "compile kernels ahead of time, so that the first run needn't wait for them",
}
EXAMPLES = """examples:
  backswing info robot.urdf
  backswing check scene.usda
  backswing convert ant.xml ant.usda
  backswing convert robot.urdf robot.xml
  backswing simulate ant.xml --seconds 2 --ground --out states.npz
  backswing render ant.xml --seconds 2 --out clip.gif
  backswing render scene.usdc --out clip.mp4
  backswing view robot.urdf --ground
  backswing warmup robot.urdf --gradients

Files are .urdf, MJCF (.xml, with the extra [mjcf]), SDF (.sdf, .world) and USD (.usd, .usda, .usdc, .usdz).
Every command has a --help of its own.
Exit status: 0 if all is well, 1 if a file has a problem, 2 for wrong arguments.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the command line; None for the process's own.

    Returns:
        the exit status: 0, 1 for a problem with a file or the system, 2 for wrong arguments, 130 for Ctrl-C.
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # also while libraries are loaded, which takes a second
        print("stopped", file=sys.stderr)
        return STOPPED


def _run(words: list[str]) -> int:
    """Run the command of these words; see :func:`main`."""
    parser = argparse.ArgumentParser(
        prog="backswing",
        description="Look at, check, convert, draw and simulate robots and scenes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line)
        if name in words[:1]:  # load only the command that is run
            command = importlib.import_module(f"sim.cli.{name}")
            sub.description = command.__doc__
            command.add_arguments(sub)
            sub.set_defaults(run=command.run, parser=sub)
    try:
        given = parser.parse_args(words)
    except SystemExit as end:  # argparse has printed an error or its help
        return int(end.code or 0)
    wp.config.log_level = wp.LOG_WARNING  # keeps Warp's messages about its modules out of the results
    try:
        return int(given.run(given))
    except UsageError as error:
        print(f"{given.parser.format_usage()}{given.parser.prog}: error: {error}", file=sys.stderr)
        return USAGE
    except (ModelError, OSError, MemoryError) as error:  # the last two of the system, such as a full disk
        print(f"error: {str(error) or 'out of memory'}", file=sys.stderr)
        return PROBLEM
