"""Launches that are captured once and repeated: on a CPU by native code of our own, elsewhere by Warp."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp

from sim.arrays.launch import listed_launches, record
from sim.errors import ModelError
from warp_kernels.replay import ADJOINTS, ARGUMENTS, BOUNDS, FUNCTION, replay_kernels

# Versions of Warp whose kernels are called as :mod:`warp_kernels.replay` does; with others Warp repeats the launches.
CALLED_ALIKE = ("1.19",)
CAPTURED = (
    "what a simulator or robot does can't become part of a graph that is being captured (wp.ScopedCapture, "
    "torch.cuda.graph): it writes addresses from the host and allocates memory; call it outside of the capture. A "
    "rollout repeats a graph of its own already"
)


class Graph(Protocol):
    """Launches that can be repeated."""

    def launch(self, times: int) -> None:
        """Repeat them."""


class WarpGraph:
    """Launches that Warp has captured.

    Args:
        work: launches them. Its kernels must have been loaded.
        device: where.
    """

    def __init__(self, work: Callable[[], None], device: wp.Device):
        if device.is_cpu:
            with wp.ScopedCapture(device=device) as capture:
                work()
        else:
            # On a stream of its own: CUDA can't capture the default stream, on which PyTorch runs. With drivers before
            # CUDA 12.3 Warp would first load every module that the process has, those for a CPU's lanes too.
            stream = wp.Stream(device)
            with wp.ScopedStream(stream), wp.ScopedCapture(stream=stream, force_module_load=False) as capture:
                work()
        self._graph = capture.graph

    def launch(self, times: int) -> None:
        """Repeat them."""
        for _ in range(times):
            wp.capture_launch(self._graph)


def require_no_capture(device: wp.Device) -> None:
    """Raise ModelError while a graph is being captured on a device."""
    if device.is_capturing:
        raise ModelError(CAPTURED)


def is_listed(device: wp.Device) -> bool:
    """Whether launches are listed to be repeated, and not captured by Warp."""
    return bool(device.is_cpu) and wp.config.version.rpartition(".")[0] in CALLED_ALIKE


def capture(work: Callable[[], None], device: wp.Device) -> Graph:
    """Record launches to be repeated; they aren't carried out.

    Args:
        work: launches them by :func:`sim.arrays.launch.launch`, sets arrays to zero by :func:`sim.arrays.launch.clear`
            and walks back by :func:`sim.arrays.launch.run_back`, and does nothing else on the device. Its kernels must
            have been loaded.
        device: where.
    """
    return Replay(work) if is_listed(device) else WarpGraph(work, device)


class Call:
    """What a recorded launch calls a kernel with.

    Args:
        launch: recorded on a CPU. It is kept, since it keeps the kernel's code and arrays.

    Attributes:
        arguments: a structure with the fields a0, a1, ... in the order of the kernel's arguments.
        adjoints: the same for their adjoints; None on the way forward.
    """

    def __init__(self, launch: wp.Launch):
        self._launch = launch
        self.bounds, *packed = launch.params
        count = len(launch.kernel.adj.args)
        self.arguments = _structure(packed[:count])
        self.adjoints = _structure(packed[count:]) if launch.adjoint else None
        self.function = launch.hooks.backward if launch.adjoint else launch.hooks.forward

    @property
    def row(self) -> list[int]:
        """Its row in the table of :func:`warp_kernels.replay.replay_kernels`."""
        row = [0] * 4
        row[FUNCTION] = ctypes.cast(self.function, ctypes.c_void_p).value or 0
        row[BOUNDS], row[ARGUMENTS] = ctypes.addressof(self.bounds), ctypes.addressof(self.arguments)
        row[ADJOINTS] = 0 if self.adjoints is None else ctypes.addressof(self.adjoints)
        return row


class Replay:
    """Launches on a CPU that are repeated, on the arrays that they were listed with.

    Args:
        work: launches them by :func:`sim.arrays.launch.launch`; whatever else it does isn't repeated. Its kernels must
            have been loaded.

    Attributes:
        calls: in order.
    """

    def __init__(self, work: Callable[[], None]):
        with listed_launches() as launches:
            work()
        self.calls = [Call(launch) for launch in launches]
        rows = np.array([call.row for call in self.calls], dtype=np.uint64).reshape(-1, 4)
        self._table: wp.array = wp.array(rows, dtype=wp.uint64, device="cpu")
        self._all = Call(record(replay_kernels().replay, 1, device="cpu", calls=self._table, times=1))

    def launch(self, times: int) -> None:
        """Repeat them, without Python's lock."""
        call = self._all
        call.arguments.a1 = times
        call.function(ctypes.byref(call.bounds), ctypes.byref(call.arguments))


def _structure(values: Sequence[Any]) -> ctypes.Structure:
    """The values one after the other, as the compiler lays out the arguments of a kernel."""
    return _layout(*map(type, values))(*values)


@functools.cache  # to make one takes longer than to record a launch
def _layout(*types: type) -> type[ctypes.Structure]:
    return type(
        "Arguments", (ctypes.Structure,), {"_fields_": [(f"a{place}", each) for place, each in enumerate(types)]}
    )
