"""Print a script that lets a shell complete commands, options and file names.

For bash, write it to ~/.local/share/bash-completion/completions/backswing; for zsh, to a file _backswing in a folder of
$fpath.
"""

import argparse
from pathlib import Path

from sim.cli.files import UsageError

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    try:
        import shtab
    except ImportError:
        raise UsageError("completion needs the package shtab: pip install 'backswing[completion]'") from None
    from sim.cli.main import make_parser  # which imports this module by name

    parser = make_parser()
    for action in parser.arguments():
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
    print(shtab.complete(parser, shell=given.shell))
    return 0
