"""Launches that are captured once and repeated, on any device."""

from collections.abc import Callable
from typing import Protocol

import warp as wp

from sim.arrays.graphs.replay import Replay
from sim.errors import ModelError

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
