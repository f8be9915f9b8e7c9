"""Tensors in and out: memory that is shared, layouts, and what is refused."""

import gc
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.recording import Adjoints, Recording
from sim.simulation.engine.rollout import run_steps
from tests.errors import raises_naming, refuses
from tests.torch.worlds import STEPS, loss, simulator, tensors
from warp_kernels.rollout.records import StateArrays


class Spy:
    """Notes the arrays that a simulator's rollouts get and give."""

    def __init__(self, simulator: sim.Simulator, monkeypatch: pytest.MonkeyPatch):
        self.given: list[int] = []
        self.made: list[int] = []

        def noted(engine: Engine, first: StateArrays, *inputs: Any) -> Recording:
            recording = run_steps(engine, first, *inputs)
            self.given = [first.q.ptr, first.qd.ptr, recording.records.tau.ptr]
            self.made = [recording.records.q.ptr, recording.records.qd.ptr]
            return recording

        monkeypatch.setattr("sim.torch.recorded_rollout.run_steps", noted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_copies(dtype, device, monkeypatch):
    s = simulator(device, dtype)
    x = tensors(s)
    spy = Spy(s, monkeypatch)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    assert spy.given == [x.q.data_ptr(), x.qd.data_ptr(), x.tau.data_ptr()]
    assert spy.made == [q.data_ptr(), qd.data_ptr()]
    sim.torch.step(s, x.q, x.qd, x.tau[2])
    assert spy.given[2] == x.tau[2].data_ptr()


def test_backward_reads_what_was_saved(device, monkeypatch):
    """The way back makes no copy of states and controls either."""
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    used = []
    gradients = Recording.gradients

    def noted(recording: Recording, *arguments: Any) -> Adjoints:
        used.extend(rows.ptr for rows in (recording.records.q, recording.records.qd, recording.records.tau))
        return gradients(recording, *arguments)

    monkeypatch.setattr(Recording, "gradients", noted)
    loss(q, qd).backward()
    assert used == [q.data_ptr(), qd.data_ptr(), x.tau.data_ptr()]


def test_results_outlive_everything_else(device):
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    expected = q.detach().clone(), qd.detach().clone()
    gradient = torch.autograd.grad(loss(q, qd), x.tau)[0]
    kept = gradient.clone()
    del s, x
    gc.collect()
    for _ in range(3):
        other = simulator(device)
        y = tensors(other)
        loss(*sim.torch.rollout(other, y.q, y.qd, 2.0 * y.tau)).backward()
    assert torch.equal(q, expected[0])
    assert torch.equal(qd, expected[1])
    assert torch.equal(gradient, kept)


@pytest.mark.parametrize("which", ["q", "qd", "tau", "mass"])
def test_layouts(which, device):
    """Transposed, expanded and strided inputs give what contiguous ones give, gradients too."""
    s = simulator(device)
    results = []
    for strided in (False, True):
        x = tensors(s, requires_grad=False)
        value = getattr(x, which)
        leaf = (value.transpose(0, -1).contiguous() if strided else value).requires_grad_()
        given = leaf.transpose(0, -1) if strided else leaf
        assert given.is_contiguous() != strided
        setattr(x, which, given)
        q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, mass=x.mass)
        (gradient,) = torch.autograd.grad(loss(q, qd), leaf)
        results.append((q, gradient.transpose(0, -1) if strided else gradient))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("which", ["q", "qd", "tau", "mass"])
def test_views_whose_memory_holds_the_negative(which, device):
    """As of the imaginary parts of conjugates."""
    s = simulator(device)
    x = tensors(s, requires_grad=False)
    given = dict(vars(x))
    expected = [*sim.torch.rollout(s, x.q, x.qd, x.tau, mass=x.mass), *sim.torch.step(s, x.q, x.qd, x.tau[0])]
    given[which] = torch._neg_view(-given[which])
    assert given[which].is_neg()
    q, qd, tau = (given[name] for name in ("q", "qd", "tau"))
    found = [*sim.torch.rollout(s, q, qd, tau, mass=given["mass"]), *sim.torch.step(s, q, qd, tau[0])]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_strided_gradients(device):
    """A loss may hand back gradients in any layout."""
    s = simulator(device)
    x = tensors(s)
    seed = torch.randn(s.model.nq, s.num_worlds, STEPS + 1, dtype=torch.float64, device=device).permute(2, 1, 0)
    q, _ = sim.torch.rollout(s, x.q, x.qd, x.tau)
    (found,) = torch.autograd.grad(q, x.tau, seed, retain_graph=True)
    (expected,) = torch.autograd.grad(q, x.tau, seed.contiguous(), retain_graph=True)
    assert torch.equal(found, expected)
    (found,) = torch.autograd.grad(q.sum(), x.tau, retain_graph=True)  # an expanded one
    (expected,) = torch.autograd.grad(q, x.tau, torch.ones_like(q))
    assert torch.equal(found, expected)


def test_inputs_are_not_written(device):
    s = simulator(device)
    x = tensors(s)
    before = {name: value.detach().clone() for name, value in vars(x).items()}
    loss(*sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction, mass=x.mass)).backward()
    for name, value in vars(x).items():
        assert torch.equal(value, before[name]), name


class TestRefused:
    def test_dtype(self, device):
        s = simulator(device)
        x = tensors(s)
        for name in ("q", "qd", "tau"):
            arguments = {"q": x.q, "qd": x.qd, "tau": x.tau}
            arguments[name] = arguments[name].float()
            with pytest.raises(
                sim.ModelError, match=rf"^{name} has dtype torch.float32, but the model has torch.float64"
            ):
                sim.torch.rollout(s, *arguments.values())

    def test_shape(self, device):
        s = simulator(device)
        x = tensors(s)
        for name, value in {"q": x.qd, "qd": x.q, "tau": x.tau[:, :2]}.items():
            arguments = {"q": x.q, "qd": x.qd, "tau": x.tau}
            arguments[name] = value
            with pytest.raises(sim.ModelError, match=f"^{name} has shape"):
                sim.torch.rollout(s, *arguments.values())
        refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau[0]), "tau", "shape", "(3, 13)")
        refuses(lambda: sim.torch.step(s, x.q, x.qd, x.tau), "tau", "shape")
        refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau[:0, :2]), "tau", "shape")

    @pytest.mark.skipif(not wp.is_cuda_available(), reason="needs a second device")
    def test_device(self):
        s = simulator("cpu")
        x = tensors(s)
        with raises_naming("q", "device cuda:0"):
            sim.torch.rollout(s, x.q.cuda(), x.qd, x.tau)

    def test_steps(self, device):
        s = simulator(device)
        x = tensors(s)
        refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau, steps=3), "steps", 3)
        refuses(lambda: sim.torch.rollout(s, x.q, x.qd), "rollout", "tau", "control")

    def test_parameters(self, device):
        s = simulator(device)
        x = tensors(s)
        before = s.parameters
        refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau, frction=x.friction), "unknown", "parameter 'frction'")
        with raises_naming("parameter 'friction'", "shape"):
            sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction[:2])
        s.check_finite = True  # what is given on CUDA is looked at on request
        problem = "not finite" if device == "cpu" else r"has \d+ number"
        with pytest.raises(sim.ModelError, match=f"parameter 'mass' .*{problem}"):
            sim.torch.rollout(s, x.q, x.qd, x.tau, friction=0.5 * x.friction, mass=float("nan") * x.mass)
        for name, value in s.parameters.items():
            np.testing.assert_array_equal(value, before[name])


def test_threads(device):
    """Threads that use one simulator take turns, forward and back."""
    s = simulator(device)
    given = [tensors(s) for _ in range(4)]
    for number, x in enumerate(given):
        x.tau = (x.tau.detach() * (1.0 + number)).requires_grad_()

    def gradient(x: SimpleNamespace) -> tuple[torch.Tensor, ...]:
        q, qd = sim.torch.step(s, x.q, x.qd, x.tau[0], hold=3)
        return q.detach(), *torch.autograd.grad(loss(q, qd), (x.q, x.tau))

    expected = [gradient(x) for x in given]
    wrong = []

    def work(number: int) -> None:
        for _ in range(60):
            found = gradient(given[number])
            if not all(torch.equal(one, other) for one, other in zip(found, expected[number], strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(given))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


@pytest.mark.parametrize("steps", [1, 4])
def test_warnings_name_the_line_that_called(steps):
    s = simulator("cpu")
    x = tensors(s, steps)
    tau = x.tau.detach().clone()
    tau[0, 1] = torch.nan
    call = sim.torch.step if steps == 1 else sim.torch.rollout
    with pytest.warns(sim.NotFiniteWarning, match="world 1") as caught:
        call(s, x.q, x.qd, tau[0] if steps == 1 else tau)
    assert caught[0].filename == __file__
