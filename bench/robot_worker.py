"""One library of :mod:`bench.robot`, in a process of its own: python -m bench.robot_worker LIBRARY FOLDER.

The folder holds what is asked for (plan.json) and states with the values that must come out (one .npz for each robot);
the times are written beside them.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import torch
import warp as wp
from tqdm import tqdm

from bench.robot_libraries import library
from bench.robot_libraries.base import CASES, Call, Library, Robot, State, Unsupported
from bench.timing import pinned, time_call

# Of values, relative to the largest, and of gradients: what float32 leaves of accelerations of a light limb. Those of
# float64 are wide because pytorch_kinematics keeps the numbers of the file in float32.
BOUNDS = {"float32": (1e-3, 1e-2), "float64": (1e-6, 1e-4)}
ALWAYS = 64  # a batch up to this is timed however long it takes
CHECKED = 16  # states whose values are compared before any time is taken
LONG = 0.5  # a call that takes longer is timed once after the first one; others warm up for so long at most [s]
WARM_UP = 8  # or for so many calls


@dataclass
class Times:
    """Times of one case, per state [microseconds]; None with the reason in the note."""

    case: str
    robot: str
    batch: int
    dtype: str
    forward_us: float | None = None
    backward_us: float | None = None
    note: str = ""


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    plan: dict[str, Any] = json.loads((options.folder / "plan.json").read_text())
    if plan["device"] == "cpu":
        # What doesn't fit is an error of this process, and not the end of another.
        most = plan["gigabytes"] * 2**30
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    torch.set_num_threads(1)
    wp.config.log_level = wp.LOG_WARNING
    name = options.library
    todo = [(robot, dtype) for robot in plan["robots"] for dtype in plan["dtypes"][name]]
    times: list[Times] = []
    bar = tqdm(total=len(todo) * len(CASES) * len(plan["batches"]), desc=name.ljust(18), file=sys.stderr)
    with pinned(1):
        for robot, dtype in todo:
            robot = Robot(**{**robot, "urdf": Path(robot["urdf"]), "joints": tuple(robot["joints"])})
            times += measure(name, robot, dtype, plan, options.folder, bar)
    (options.folder / f"{name}.json").write_text(json.dumps([asdict(each) for each in times]))
    bar.close()


def measure(name: str, robot: Robot, dtype: str, plan: dict[str, Any], folder: Path, bar: Any) -> list[Times]:
    """Times of all cases and batches of a robot."""
    batches: list[int] = plan["batches"]
    known = np.load(folder / f"{robot.name}.npz")
    try:
        calls = library(name)(robot, dtype, plan["device"])
    except Unsupported as error:
        bar.update(len(CASES) * len(batches))
        return [Times(case, robot.name, batch, dtype, note=str(error)) for case in CASES for batch in batches]
    found = []
    for case in CASES:
        wrong, wrong_gradient = difference(calls, case, known, dtype)
        last: Times | None = None
        for batch in batches:
            each = Times(case, robot.name, batch, dtype, note=wrong or wrong_gradient or "")
            if wrong is None:
                take_times(each, calls, State.load(known, batch), plan, last, wrong_gradient is None)
            last = each
            found.append(each)
            bar.update()
    return found


def difference(calls: Library, case: str, known: Any, dtype: str) -> tuple[str | None, str | None]:
    """What is wrong with the values of a case, None if they are those of Pinocchio; the same for the gradient."""
    try:
        call = calls.call(case, State.load(known, CHECKED))
        if call is None:
            return "the library has no such function", None
        value = call.value()
    except Exception as error:  # whatever another library says of a robot
        return f"{type(error).__name__}: {error}".splitlines()[0], None
    expected = known[calls.expects.get(case, case)][:CHECKED]
    if value.shape != expected.shape:
        return f"values have shape {value.shape} and not {expected.shape}", None
    off = float(np.abs(value - expected).max() / np.abs(expected).max())
    if not off <= BOUNDS[dtype][0]:
        return f"values differ from Pinocchio's by {off:.1e} of the largest", None
    return None, gradient_difference(call, dtype)


def gradient_difference(call: Call, dtype: str) -> str | None:
    """What is wrong with the gradient of a case, None if nothing is or it isn't checked."""
    if call.gradient_error is None:
        return None
    try:
        slope = call.gradient_error()
    except Exception as error:  # as above; PyTorch's go on with shapes and versions of tensors
        return shorten(f"no gradient: {type(error).__name__}: {error}", 124, placeholder=" ...")
    return None if slope <= BOUNDS[dtype][1] else f"the gradient differs from central differences by {slope:.1e}"


def take_times(
    times: Times, calls: Library, state: State, plan: dict[str, Any], last: Times | None, gradient: bool
) -> None:
    """Fill in the times of one batch; ``last`` are those of the batch before, which tell how long this one takes."""
    if last is not None and last.forward_us is None:
        times.note = last.note
        return
    if _too_long(times, last.forward_us if last else None, plan):
        times.note = f"a call would take longer than {plan['longest']} s"
        return
    try:
        call = calls.call(times.case, state)
        assert call is not None
        times.forward_us = _microseconds(call, "forward", plan)
        if gradient and call.backward is not None and (last is None or last.backward_us is not None):
            if _too_long(times, last.backward_us if last else None, plan):
                times.note = f"a gradient would take longer than {plan['longest']} s"
            else:
                times.backward_us = _microseconds(call, "backward", plan)
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error):
            raise
        times.note = f"more than {plan['gigabytes']} GiB of memory"


def _too_long(times: Times, last_us: float | None, plan: dict[str, Any]) -> bool:
    """Whether a call will take too long, going by that of the batch before; small batches always take place."""
    return last_us is not None and times.batch > ALWAYS and last_us * 1e-6 * times.batch > plan["longest"]


def _warm_up(run: Callable[[], object]) -> float:
    """Call until the process has what memory it needs, which large results take some calls to settle.

    Returns:
        how long the first call took [s].
    """
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        if time.perf_counter() - start > LONG:
            break
        run()
    return first


def _microseconds(call: Call, name: str, plan: dict[str, Any]) -> float:
    run = getattr(call, name)
    once = _warm_up(run) > LONG
    taken = time_call(run, seconds=plan["seconds"], repeats=1 if once else 5, warm_up=not once).median
    states, overhead = getattr(call, f"{name}_states"), getattr(call, f"{name}_overhead")
    return (taken / states - overhead) * 1e6


if __name__ == "__main__":
    main()
