"""Launches over the rows of a picture: all rows at once on a GPU, in bands on every core of a CPU."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import warp as wp

from sim.arrays.critical_sections import interruptible
from sim.arrays.launch import record
from sim.cores import usable_cores

# Small bands balance the load between cores.
ROWS_OF_BAND = 16


def record_rows(
    kernel: wp.Kernel, size: tuple[int, int], *sources: object, device: wp.Device, in_bands: bool = True, **named: Any
) -> list[wp.Launch]:
    """Record launches that together cover a picture, for :func:`run_rows`. They keep the addresses of all arrays.

    Args:
        kernel: a kernel over (row, column), with rows counted from its argument ``first_row``.
        size: rows and columns of the picture.
        sources: objects that its other arguments are looked up in, see :func:`sim.arrays.launch.bind`.
        device: Warp device.
        in_bands: whether a CPU draws in bands instead of the whole picture at once.
        named: arguments given by name.
    """
    height, width = size
    rows = ROWS_OF_BAND if device.is_cpu and in_bands else height
    return [
        record(kernel, (min(rows, height - first), width), *sources, device=device, first_row=first, **named)
        for first in range(0, height, rows)
    ]


def run_rows(launches: Sequence[wp.Launch]) -> None:
    """Run independent launches. On a CPU each runs in one thread, without Python's lock."""
    if len(launches) == 1:
        launches[0].launch()
        return
    with ThreadPoolExecutor(len(usable_cores())) as pool:
        bands = pool.map(wp.Launch.launch, launches)
        with interruptible():  # the pool waits for the bands being drawn, also after an error
            for _ in bands:
                pass
