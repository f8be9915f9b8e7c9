"""The cores of the machine that this process may use."""

import os


def usable_cores() -> list[int]:
    """Return the numbers of the logical cores that the process may run on.

    taskset, Slurm or a container can restrict them. On systems without such limits (macOS) these are all cores.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
