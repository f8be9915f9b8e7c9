"""Timing: pinned to given cores, warmed up, median of repeats."""

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import warp as wp

PACKAGES = (
    "warp-lang", "numpy", "torch", "mujoco", "pin", "adam-robotics", "differentiable-robot-model", "pytorch-kinematics",
)  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """Time of one call [s].

    Attributes:
        median: median over the repeats.
        best: fastest repeat.
        worst: slowest repeat. If far above the median, the machine was busy with other work.
        repeats: number of repeats.
    """

    median: float
    best: float
    worst: float
    repeats: int


def time_call(
    call: Callable[[], object],
    *,
    seconds: float = 1.0,
    repeats: int = 7,
    prepare: Callable[[], object] | None = None,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time a call.

    Args:
        call: the call to time. It must be synchronous.
        seconds: repeat until the timed calls have taken this long.
        repeats: minimum number of repeats.
        prepare: run before each call, not timed.
        warm_up: discard the first call.
        clock: function that returns the time [s]; ``time.process_time`` excludes other work on the machine.

    Returns:
        the timing.
    """
    times: list[float] = []
    for number in range(10_000):
        if prepare is not None:
            prepare()
        start = clock()
        call()
        elapsed = clock() - start
        if number > 0 or not warm_up:
            times.append(elapsed)
        if len(times) >= repeats and sum(times) >= seconds:
            break
    return Timing(statistics.median(times), min(times), max(times), len(times))


@contextmanager
def pinned(cores: int) -> Iterator[None]:
    """Pin this process, and threads started meanwhile, to this many cores.

    Raises:
        ValueError: if the machine has fewer cores.
    """
    available = sorted(os.sched_getaffinity(0))
    if not 1 <= cores <= len(available):
        raise ValueError(f"{cores} cores requested, but {len(available)} are available")
    os.sched_setaffinity(0, available[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, available)


def machine() -> dict[str, str]:
    """Describe the machine: date, processor, cores, load, system, versions, GPUs."""
    info = {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            info[name] = version(name)
        except PackageNotFoundError:
            info[name] = "not installed"
    if wp.is_cuda_available():
        info["gpu"] = ", ".join(device.name for device in wp.get_cuda_devices())
    return info


def _processor() -> str:
    """Return the name of the processor, with its family and model."""
    try:
        text = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
