"""The command line shared by all examples."""

import argparse
import functools
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import warp as wp

from examples.ahead import compile_pictures
from examples.garbage import begin_script
from sim.arrays.kernels import start_warp
from sim.errors import ModelError

SIZE = (640, 360)  # of animations [pixels]


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Wrap an example's main function: user errors end it with one sentence and exit status 1.

    Ctrl-C ends it with status 130, as in a shell; an example that can be resumed says so itself
    (:mod:`sim.progress`).
    """

    @functools.wraps(main)
    def run() -> None:
        gc.freeze()  # imported objects stay alive; scanning them repeatedly takes half a second
        if main.__module__ == "__main__":
            begin_script()
        try:
            main()
        except (ModelError, OSError) as error:
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            sys.exit(130)

    return run


def program() -> str | None:
    """Return how a module was started with ``python -m``, like Python 3.14; None for the name in ``sys.argv``."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return None if spec is None or spec.name.endswith(".__main__") else f"python -m {spec.name}"


def example_parser(description: str | None, *, out: str, iterations: int) -> argparse.ArgumentParser:
    """Make a parser with the options of all examples that search.

    Args:
        description: the example's docstring.
        out: default folder for the results.
        iterations: default number of iterations.
    """
    parser = film_parser(description, out=out)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (0)")
    parser.add_argument("--iterations", type=int, default=iterations, help=f"most iterations ({iterations})")
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start from the beginning, even if --out holds an interrupted optimisation",
    )
    return parser


def film_parser(description: str | None, *, out: str) -> argparse.ArgumentParser:
    """Make a parser with the options that every example has, see :func:`example_parser`."""
    parser = argparse.ArgumentParser(
        prog=program(), description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=None, help='"cpu" or "cuda:0" (default: chosen by Warp)')
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder for the results ({out})")
    parser.add_argument("--no-render", action="store_true", help="skip the animation")
    size = f"size of the animation in pixels ({SIZE[0]} {SIZE[1]})"
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), default=SIZE, help=size)
    return parser


def parse_example(
    parser: argparse.ArgumentParser,
    *,
    counts: Sequence[str] = (),
    finite: Sequence[str] = (),
    positive: Sequence[str] = (),
) -> argparse.Namespace:
    """Read and check the command line, before any work is done.

    Args:
        parser: see :func:`example_parser` and :func:`film_parser`.
        counts: additional options that must not be negative.
        finite: additional options that must be finite numbers.
        positive: options that must be positive.
    """
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    for name in finite:
        value = getattr(options, name)
        if value is not None and not np.isfinite(value).all():
            parser.error(f"--{name.replace('_', '-')} {value}: the numbers must be finite")
    for name in positive:
        value = getattr(options, name)
        if value is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} {value}: the number must be positive")
    for name in ("seed", "iterations", *counts):
        if getattr(options, name, 0) < 0:
            parser.error(f"--{name.replace('_', '-')} must not be negative")
    if min(options.size) < 1:
        parser.error("--size: both numbers must be positive")
    start_warp()
    try:
        wp.get_device(options.device)
    except (ValueError, RuntimeError):
        devices = ", ".join(device.alias for device in wp.get_devices())
        parser.error(f"--device {options.device}: unknown device; this machine has {devices}")
    if not options.no_render:
        compile_pictures(options.device)
    return options


def make_folder(out: Path) -> None:
    """Create the folder for the results.

    Raises:
        ModelError: if the system cannot.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"--out {out}: can't create the folder: {error.strerror}; give another one") from None
