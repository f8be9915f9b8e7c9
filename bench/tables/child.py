"""Measurement of one method in this process; prints its rows as JSON, one per line. Run by ``bench.tables``."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict

from bench.tables.measure import Method, measure


def checkpointed(robots: int) -> Method:
    from bench.tables.backswing import Checkpointed

    return Checkpointed(robots)


def taped(robots: int) -> Method:
    from bench.tables.backswing import Taped

    return Taped(robots)


def pytorch(robots: int) -> Method:
    from bench.tables.pytorch import PyTorch

    return PyTorch(robots, compiled=False)


def pytorch_compiled(robots: int) -> Method:
    from bench.tables.pytorch import PyTorch

    return PyTorch(robots, compiled=True)


def mujoco(robots: int) -> Method:
    from bench.tables.mujoco_differences import MuJoCo

    return MuJoCo(robots)


def mjx(robots: int) -> Method:
    from bench.tables.mjx import Mjx

    return Mjx(robots, checkpoint=False)


def mjx_checkpoint(robots: int) -> Method:
    from bench.tables.mjx import Mjx

    return Mjx(robots, checkpoint=True)


METHODS: dict[str, Callable[[int], Method]] = {
    "Backswing": checkpointed,
    "Backswing, fully taped": taped,
    "PyTorch": pytorch,
    "PyTorch, compiled": pytorch_compiled,
    "MJX": mjx,
    "MJX, jax.checkpoint": mjx_checkpoint,
    "MuJoCo, finite differences": mujoco,
}
INTERVAL = "interval"  # followed by the number of steps: a case of the ablation, run like a method
INTERVAL_WORLDS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("robots", type=int)
    parser.add_argument("--steps", type=int, nargs="+", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--room", type=float, required=True)
    options = parser.parse_args()
    start = time.perf_counter()
    method = make(options.method, options.robots)
    made = time.perf_counter() - start
    rows = measure(
        options.method, method, options.robots, options.steps, seconds=options.seconds, room=options.room, made_s=made
    )
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)


def make(name: str, robots: int) -> Method:
    """Construct a method from its name."""
    if name.startswith(INTERVAL):
        from bench.tables.backswing import Checkpointed

        return Checkpointed(robots, interval=int(name.split()[1]), worlds=INTERVAL_WORLDS, given=False)
    return METHODS[name](robots)


if __name__ == "__main__":
    main()
