"""What is captured, and what refuses to be; what needs CUDA is told from how Warp is called."""

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

import sim
from sim.arrays.graphs import WarpGraph
from sim.torch.arrays import on_torch_stream
from tests.simulation.worlds import DT, hopper, rollout

CUDA = torch.device("cuda:0")


@pytest.fixture
def called(monkeypatch) -> list[tuple[str, dict[str, Any]]]:
    """The contexts of Warp that are made, with their named arguments; none of them does anything."""
    made: list[tuple[str, dict[str, Any]]] = []

    def stand_in(name: str) -> Any:
        def make(*_: Any, **options: Any) -> Any:
            made.append((name, options))
            return contextlib.nullcontext(SimpleNamespace(graph=None))

        return make

    for name in ("Stream", "ScopedStream", "ScopedCapture", "stream_from_torch"):
        monkeypatch.setattr(wp, name, stand_in(name))
    return made


def test_a_capture_on_cuda_loads_no_other_modules(called):
    """With drivers before CUDA 12.3 Warp would load those for a CPU's lanes, which can't be compiled for a GPU."""
    done: list[int] = []
    WarpGraph(lambda: done.append(1), SimpleNamespace(is_cpu=False))
    assert done == [1]
    ((_, options),) = [each for each in called if each[0] == "ScopedCapture"]
    assert options["force_module_load"] is False


def test_warps_own_stream_waits_for_work_on_torchs(called, monkeypatch):
    """It doesn't wait for streams of torch.cuda.Stream by itself, and reports are read there."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    on_torch_stream(CUDA)
    assert ("ScopedStream", {"sync_exit": True}) in called


def test_torchs_captures_are_refused(called, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(sim.ModelError, match=r"torch.cuda.graph"):
        on_torch_stream(CUDA)
    assert called == []


def test_warps_captures_are_refused():
    """On a CPU nothing would have been captured, and no error said so."""
    simulator = sim.Simulator(hopper(), DT, 3, "cpu")
    trajectory = rollout(simulator, 2)
    state = simulator.initial_state()
    for work in (
        lambda: simulator.step(state),
        lambda: simulator.rollout(state, steps=2),
        lambda: trajectory.backward(np.ones(trajectory.q.shape)),
        lambda: simulator.linearise(state),
    ):
        with (
            wp.ScopedCapture(device="cpu"),
            pytest.raises(sim.ModelError, match=r"wp.ScopedCapture"),
        ):
            work()
    simulator.step(state)
