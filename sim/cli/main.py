"""The command line ``backswing``, also ``python -m sim``."""

import argparse
import importlib
import sys
import traceback
from collections.abc import Container, Iterator, Sequence
from typing import NoReturn

import warp as wp

from sim.cli.files import UsageError
from sim.errors import ModelError
from sim.version import __version__

PROBLEM, USAGE, STOPPED = 1, 2, 130
COMMANDS = {
    "info": "print links, joints, masses, geometry and warnings of a file",
    "check": "check that a file can be read and simulated; report problems",
    "convert": "convert a file to URDF, MJCF or USD",
    "render": "draw a picture or an animation of a file",
    "view": "show a file and its motion in the browser",
    "simulate": "simulate a file and write the states",
    "train": "train a policy on a task, by its name or from a Python file",
    "warmup": "compile kernels ahead of time, so that the first run starts faster",
    "completion": "print a script that lets a shell complete commands and options",
}
EXAMPLES = """examples:
  backswing info robot.urdf
  backswing check scene.usda
  backswing convert ant.xml ant.usda
  backswing convert robot.urdf robot.xml
  backswing simulate ant.xml --seconds 2 --ground --out states.npz
  backswing simulate --policy out/train/policy.pt --seconds 10 --out clip.mp4
  backswing simulate robot.xml --seconds 2 --camera head --out clip.mp4
  backswing render ant.xml --seconds 2 --out clip.gif
  backswing render scene.usdc --out clip.mp4
  backswing view robot.urdf --ground
  backswing train my_task.py:MyTask --algorithm ppo
  backswing warmup robot.urdf --gradients
  backswing completion bash > ~/.local/share/bash-completion/completions/backswing

Supported files: URDF (.urdf), MJCF (.xml, extra [mjcf]), SDF (.sdf, .world), USD (.usd, .usda, .usdc, .usdz).
'backswing COMMAND --help' explains a command.
Exit status: 0 for success, 1 for a problem with a file, 2 for wrong arguments.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the command line. Default: that of the process.

    Returns:
        The exit status: 0, 1 for a problem with a file or the system, 2 for wrong arguments, 130 for Ctrl-C.
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # also while libraries are imported, which takes a second
        print("stopped", file=sys.stderr)
        return STOPPED


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage of a dozen."""

    def arguments(self) -> Iterator[argparse.Action]:
        """Return the arguments of all commands."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command._actions

    def line_of(self, message: str) -> str:
        """Return the line for wrong arguments."""
        return f"{self.prog}: error: {message} (see {self.prog} --help)"

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        self.exit(USAGE, f"{self.line_of(message)}\n")


def stated(parser: argparse.ArgumentParser, words: Sequence[str]) -> frozenset[str]:
    """Return the names of a command's arguments that are given, be it with their defaults."""
    without = argparse.Namespace(**dict.fromkeys(action.dest for action in parser._actions))
    parser.parse_known_args(words, without)
    return frozenset(name for name, value in vars(without).items() if value is not None)


def make_parser(chosen: Container[str] = COMMANDS) -> Parser:
    """Return the parser, with the arguments of the chosen commands; the modules of others aren't imported."""
    parser = Parser(
        prog="backswing",
        description="Inspect, check, convert, draw and simulate robots and scenes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line)
        if name in chosen:
            command = importlib.import_module(f"sim.cli.{name}")
            sub.description = command.__doc__
            command.add_arguments(sub)
            sub.add_argument(
                "-v", "--verbose", action="store_true", help="print what is compiled, and where errors come from"
            )
            sub.set_defaults(run=command.run, parser=sub)
    return parser


def _run(words: list[str]) -> int:
    """Run the command of these arguments; see :func:`main`."""
    try:
        given = make_parser(words[:1]).parse_args(words)
    except SystemExit as end:  # argparse has printed an error or the help
        return int(end.code or 0)
    given.stated = stated(given.parser, words[1:])
    if not given.verbose:
        wp.config.log_level = wp.LOG_WARNING  # keep Warp's messages about its modules out of the results
    try:
        return int(given.run(given))
    except UsageError as error:
        print(given.parser.line_of(str(error)), file=sys.stderr)
        return USAGE
    except (ModelError, OSError, MemoryError) as error:  # the last two are system errors, such as a full disk
        if given.verbose:
            traceback.print_exc()
        print(f"error: {str(error) or 'out of memory'}", file=sys.stderr)
        return PROBLEM
