"""Kernels and C++ functions with one fault each, for the sanitizers: ``python -m tests.kernels.faults write_past_end``.

A process runs one of them as ``make sanitize`` runs the project's kernels. It should end with a report, and prints
"survived" if it doesn't.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import warp as wp

from sim.arrays.graphs import Replay
from sim.arrays.launch import launch
from sim.simulation.stepping.stages import stages
from tests.sanitizer import compiler, install
from warp_kernels.cpu.native import Native, with_headers
from warp_kernels.types import BUILD_OPTIONS

COUNT = 10
options = with_headers(BUILD_OPTIONS, ("arrays.h",))
module = wp.get_module("tests.faults")
wp.set_module_options(
    {"extra_build_options": with_headers(options, ("faults.h",), Path(__file__).parent)},
    module,
)
native = Native(wp.float32, 1, "faults")


@native.func_native()
def sum_too_many(values: wp.array2d(dtype=wp.float32), count: int) -> wp.float32: ...


@native.func_native()
def leave_the_stack(values: wp.array2d(dtype=wp.float32), count: int) -> wp.float32: ...


@native.func_native()
def read_askew(values: wp.array2d(dtype=wp.float32), count: int) -> wp.float32: ...


@wp.kernel(module=module, enable_backward=False)
def write_at(values: wp.array(dtype=wp.float32), index: int):
    values[index] = 1.0


@wp.kernel(module=module, enable_backward=False)
def double(values: wp.array(dtype=wp.int32)):
    values[0] = values[0] + values[0]


@wp.kernel(module=module, enable_backward=False)
def sum_row(values: wp.array2d(dtype=wp.float32), count: int):
    wp.printf("%f\n", sum_too_many(values, count))


@wp.kernel(module=module, enable_backward=False)
def use_stack(values: wp.array2d(dtype=wp.float32), count: int):
    wp.printf("%f\n", leave_the_stack(values, count))


@wp.kernel(module=module, enable_backward=False)
def read_between(values: wp.array2d(dtype=wp.float32), count: int):
    wp.printf("%f\n", read_askew(values, count))


def numbers() -> wp.array:
    """Return the array that kernels leave."""
    return wp.zeros(COUNT, dtype=wp.float32, device="cpu")


def run(kernel: wp.Kernel, values: wp.array, *further: int) -> None:
    """Launch one thread of a kernel."""
    wp.launch(kernel, 1, inputs=[values, *further], device="cpu")


def write_past_end() -> None:
    """Write past the end of an array."""
    run(write_at, numbers(), COUNT)


def write_past_view() -> None:
    """Write past the end of an array that is part of another."""
    run(write_at, numbers()[1:], COUNT - 1)


def write_past_gradient() -> None:
    """Write past the end of the gradient of a stage's array."""
    arrays = [wp.zeros(16, dtype=wp.float32, device="cpu") for _ in range(3)]
    stages.shared_gradients(arrays, "cpu")
    run(write_at, arrays[0].grad, 16)


def write_in_replay() -> None:
    """Write past the end of an array in a launch that is replayed."""
    values = numbers()
    Replay(lambda: launch(write_at, 1, device=wp.get_device("cpu"), values=values, index=COUNT)).launch(1)


def write_past_numpy() -> None:
    """Write past the end of an array that NumPy has allocated."""
    values = np.zeros(COUNT, dtype=np.float32)
    run(write_at, wp.array(values, dtype=wp.float32, device="cpu", copy=False), COUNT)


def overflow() -> None:
    """Add integers whose sum has more than 32 bits."""
    run(double, wp.array([2**31 - 1], dtype=wp.int32, device="cpu"))


def header_read() -> None:
    """Read past the end of an array in a C++ function."""
    run(sum_row, numbers().reshape((1, COUNT)), COUNT)


def header_stack() -> None:
    """Write past the end of a local array in a C++ function."""
    run(use_stack, numbers().reshape((1, COUNT)), COUNT)


def header_misaligned() -> None:
    """Read a number from an address that isn't a multiple of its size in a C++ function."""
    run(read_between, numbers().reshape((1, COUNT)), COUNT)


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        write_past_end, write_past_view, write_past_gradient, write_in_replay, write_past_numpy, overflow, header_read,
        header_stack, header_misaligned,
    )
}  # fmt: skip

if __name__ == "__main__":
    install(compiler())
    FAULTS[sys.argv[1]]()
    print("survived")
