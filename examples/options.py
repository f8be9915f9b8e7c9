"""The command line that all examples share."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import warp as wp

SIZE = (640, 360)  # of animations [pixels]


def example_parser(description: str | None, *, out: str, iterations: int) -> argparse.ArgumentParser:
    """A parser with the options of every example.

    Args:
        description: the example's docstring.
        out: default folder for the results.
        iterations: default number of iterations.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn at random (0)")
    parser.add_argument("--iterations", type=int, default=iterations, help=f"at most so many ({iterations})")
    parser.add_argument("--device", default=None, help='"cpu" or "cuda:0"; Warp\'s default if left out')
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder for the results ({out})")
    parser.add_argument("--no-render", action="store_true", help="skip the animation")
    told = f"of the animation in pixels ({SIZE[0]} {SIZE[1]})"
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), default=SIZE, help=told)
    parser.add_argument(
        "--restart", action="store_true", help="start anew, even if --out holds an interrupted optimisation"
    )
    return parser


def parse_example(
    parser: argparse.ArgumentParser, *, counts: Sequence[str] = (), finite: Sequence[str] = ()
) -> argparse.Namespace:
    """Read the command line; what can't work ends here, before any work is done.

    Args:
        parser: see :func:`example_parser`.
        counts: further options that must not be negative.
        finite: further options that must be finite numbers.
    """
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    for name in finite:
        value = getattr(options, name)
        if value is not None and not np.isfinite(value).all():
            parser.error(f"--{name.replace('_', '-')} {value}: the numbers must be finite")
    for name in ("seed", "iterations", *counts):
        if getattr(options, name) < 0:
            parser.error(f"--{name.replace('_', '-')} must not be negative")
    if min(options.size) < 1:
        parser.error("--size: both numbers must be positive")
    try:
        wp.get_device(options.device)
    except (ValueError, RuntimeError):
        devices = ", ".join(device.alias for device in wp.get_devices())
        parser.error(f"--device {options.device}: there is no such device; this machine has {devices}")
    return options


def make_folder(parser: argparse.ArgumentParser, out: Path) -> None:
    """Make the folder for the results; an error of the command line if that can't be done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {out}: the folder can't be made ({error.strerror})")
