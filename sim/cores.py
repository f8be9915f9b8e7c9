"""The cores of the machine that this process may use."""

import os


def usable_cores() -> list[int]:
    """Numbers of the logical cores that the process may run on, which taskset, Slurm or a container can restrict.

    Where the system doesn't restrict processes (macOS), all cores of the machine.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
