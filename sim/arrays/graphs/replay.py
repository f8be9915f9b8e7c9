"""Launches on a CPU that were listed once and are called again from native code."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.launch import listed_launches, record
from warp_kernels.replay import ADJOINTS, ARGUMENTS, BOUNDS, FUNCTION, replay_kernels


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
