"""Captured launches that are replayed: on a CPU by native code of this package, elsewhere by Warp."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp

from sim.arrays.launch import listed_launches, record
from sim.arrays.moved_arrays import MovedArrays
from sim.errors import ModelError
from warp_kernels.rollout.replay import ADJOINTS, ARGUMENTS, BOUNDS, FUNCTION, replay_kernels

# Versions of Warp whose kernels are called as in :mod:`warp_kernels.rollout.replay`; with others Warp repeats launches.
SAME_SIGNATURE = ("1.19",)
CAPTURED = (
    "simulators and robots can't run inside a graph capture (wp.ScopedCapture, torch.cuda.graph), because they "
    "write addresses from the host and allocate memory; call them outside of the capture. A rollout already replays "
    "a graph of its own"
)


class Graph(Protocol):
    """Launches that can be replayed."""

    def launch(self, times: int) -> None:
        """Replay the launches."""


class WarpGraph:
    """Launches that Warp has captured.

    Args:
        work: launches the kernels, whose modules must have been loaded.
        device: device of the launches.
    """

    def __init__(self, work: Callable[[], None], device: wp.Device):
        if device.is_cpu:
            with wp.ScopedCapture(device=device) as capture:
                work()
        else:
            # On a separate stream: CUDA can't capture the default stream, which PyTorch uses. With drivers before CUDA
            # 12.3 Warp would first load all modules of the process, including those for a CPU's lanes.
            stream = wp.Stream(device)
            with wp.ScopedStream(stream), wp.ScopedCapture(stream=stream, force_module_load=False) as capture:
                work()
        self._graph = capture.graph

    def launch(self, times: int) -> None:
        """Replay the launches."""
        for _ in range(times):
            wp.capture_launch(self._graph)


def require_no_capture(device: wp.Device) -> None:
    """Raise ModelError while a graph is being captured on a device."""
    if device.is_capturing:
        raise ModelError(CAPTURED)


def is_listed(device: wp.Device) -> bool:
    """Return whether launches are listed to be replayed, rather than captured by Warp."""
    return bool(device.is_cpu) and wp.config.version.rpartition(".")[0] in SAME_SIGNATURE


def capture(work: Callable[[], None], device: wp.Device) -> Graph:
    """Record launches for replay; they aren't carried out.

    Args:
        work: launches by :func:`sim.arrays.launch.launch`, clears arrays by :func:`sim.arrays.launch.clear` and runs
            backward passes by :func:`sim.arrays.launch.run_backward`, and does nothing else on the device. Its kernels
            must have been loaded.
        device: device of the launches.
    """
    return Replay(work) if is_listed(device) else WarpGraph(work, device)


class Call:
    """Arguments of the kernel call of a recorded launch.

    Args:
        launch: launch recorded on a CPU. It is kept, because it keeps the kernel's code and arrays alive.

    Attributes:
        arguments: a structure with the fields a0, a1, ... in the order of the kernel's arguments.
        adjoints: the same for their adjoints; None in the forward pass.
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
        """Return the call as a row in the table of :func:`warp_kernels.rollout.replay.replay_kernels`."""
        row = [0] * 4
        row[FUNCTION] = ctypes.cast(self.function, ctypes.c_void_p).value or 0
        row[BOUNDS], row[ARGUMENTS] = ctypes.addressof(self.bounds), ctypes.addressof(self.arguments)
        row[ADJOINTS] = 0 if self.adjoints is None else ctypes.addressof(self.adjoints)
        return row


class Replay:
    """Launches on a CPU that are replayed, on the arrays with which they were listed.

    Args:
        work: launches by :func:`sim.arrays.launch.launch`; anything else that it does isn't replayed. Its kernels must
            must have been loaded.

    Attributes:
        calls: calls, in order.
    """

    def __init__(self, work: Callable[[], None]):
        with listed_launches() as launches:
            work()
        self._set_calls([Call(launch) for launch in launches])

    def _set_calls(self, calls: list[Call]) -> None:
        self.calls = calls
        rows = np.array([call.row for call in self.calls], dtype=np.uint64).reshape(-1, 4)
        self._table: wp.array = wp.array(rows, dtype=wp.uint64, device="cpu")
        self._all = Call(record(replay_kernels().replay, 1, device="cpu", calls=self._table, times=1))

    def launch(self, times: int) -> None:
        """Replay the launches, without Python's lock."""
        call = self._all
        call.arguments.a1 = times
        call.function(ctypes.byref(call.bounds), ctypes.byref(call.arguments))


def _structure(values: Sequence[Any]) -> ctypes.Structure:
    """Return the values as a structure with the memory layout of a kernel's arguments."""
    return _layout(*map(type, values))(*values)


@functools.cache  # slower to make than recording a launch
def _layout(*types: type) -> type[ctypes.Structure]:
    return type(
        "Arguments", (ctypes.Structure,), {"_fields_": [(f"a{number}", each) for number, each in enumerate(types)]}
    )


class MovingReplay(Replay):
    """Launches on a CPU whose arrays in one piece of memory move on before each repetition.

    Args:
        work: as for :class:`Replay`.
        arrays: arrays with which the work launches.
        stride: by how many bytes they move.
    """

    def __init__(self, work: Callable[[], None], arrays: MovedArrays, stride: int):
        super().__init__(work)
        pointers = [address for call in self.calls for address in _pointers(call, arrays.memory)]
        pointers += [reference.ptr for reference in arrays.references]
        self._pointers: wp.array = wp.array(np.array(pointers, dtype=np.uint64), dtype=wp.uint64, device="cpu")
        self._stride, self._next = stride, arrays.memory[0] + stride
        self._move = self._moving(0)
        self._set_calls([self._moving(stride), *self.calls])

    def _moving(self, by: int) -> Call:
        return Call(record(replay_kernels().move_pointers, 1, device="cpu", pointers=self._pointers, by=by))

    def begin_at(self, address: int) -> None:
        """Make the next repetition use the memory at an address."""
        self._move.arguments.a1 = address - self._next
        self._move.function(ctypes.byref(self._move.bounds), ctypes.byref(self._move.arguments))
        self._next = address

    def launch(self, times: int) -> None:
        """Replay the launches, each time on the next piece of memory."""
        super().launch(times)
        self._next += times * self._stride


class GraphsInTurn:
    """Graphs of the same launches on one piece of memory after the other.

    Args:
        stride: bytes from each piece to the next.

    Attributes:
        graphs: graph for each address.
    """

    def __init__(self, stride: int):
        self.graphs: dict[int, Graph] = {}
        self._stride, self._next = stride, 0

    def begin_at(self, address: int) -> None:
        """Make the next launch use the memory at an address."""
        self._next = address

    def launch(self, times: int) -> None:
        """Replay the launches, each time on the next piece of memory."""
        for _ in range(times):
            self.graphs[self._next].launch(1)
            self._next += self._stride


def _pointers(call: Call, memory: tuple[int, int]) -> list[int]:
    """Return the addresses of a call's pointers to a piece of memory."""
    found = []
    for structure in (call.arguments, call.adjoints):
        if structure is not None:
            words = np.frombuffer(memoryview(structure), dtype=np.uint8)
            words = words[: len(words) // 8 * 8].view(np.uint64)
            inside = (words >= memory[0]) & (words < memory[1])
            found += [ctypes.addressof(structure) + 8 * int(index) for index in np.flatnonzero(inside)]
    return found
