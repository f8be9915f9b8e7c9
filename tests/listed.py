"""Launches on a CPU are listed one by one, to be repeated. Warp, which sees all that is done, has to count as many."""

from collections.abc import Callable

import pytest
import warp as wp
from warp._src import context  # Warp has no public name for what it records

from sim.arrays.graphs import Graph, Replay
from sim.simulation.engine import shard


def require_all_listed(patch: pytest.MonkeyPatch) -> None:
    """Let simulators fail that do something on a CPU that isn't listed: it wouldn't be repeated."""
    capture = shard.capture

    def checked(work: Callable[[], None], device: wp.Device) -> Graph:
        graph = capture(work, device)
        if isinstance(graph, Replay):
            with wp.ScopedCapture(device=device):
                work()
                done = context.runtime.core.wp_apic_get_operation_count(context.runtime._apic_capture.apic_state)
            assert len(graph.calls) == done, (
                "something is neither launched, nor cleared or walked back, by sim.arrays.launch"
            )
        return graph

    patch.setattr(shard, "capture", checked)
