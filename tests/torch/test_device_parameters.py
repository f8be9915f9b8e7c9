"""Parameters that are given on a CUDA device stay there. Where there is none, the CPU's memory is taken for one."""

import contextlib
import functools
import pickle
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from sim.arrays.device_values import DeviceValue, is_on_device
from sim.arrays.host_memory import AnyArray, HostArray
from sim.simulation.engine.parameters import ON_HOST
from sim.simulation.engine.settings import Settings
from tests.errors import raises_naming, refuses
from tests.torch.worlds import loss, simulator, tensors

PER_WORLD = ("joint_placement", "mass", "inertia", "friction", "gravity", "damping")


@pytest.fixture(autouse=True)
def _like_cuda(monkeypatch):
    monkeypatch.setattr(Settings, "keeps_on_device", True)


def given(s: sim.Simulator, name: str, per_world: bool, device: str) -> torch.Tensor:
    """Other values than the present ones, with a gradient; quaternions that aren't of unit length."""
    value = torch.tensor(s.parameters[name], device=device)
    value = 1.1 * value + (0.05 if name in ("damping", "gravity") else 0.0)
    if per_world:
        value = value * torch.linspace(1.0, 1.2, s.num_worlds, dtype=value.dtype, device=device).reshape(
            -1, *[1] * value.dim()
        )
    return value.requires_grad_()


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("name", PER_WORLD)
def test_values_and_gradients_are_those_of_the_host(name, per_world, device, monkeypatch):
    found = []
    for on_device in (True, False):
        monkeypatch.setattr(Settings, "keeps_on_device", on_device)
        s = simulator(device)
        x = tensors(s)
        value = given(s, name, per_world, device)
        q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, **{name: value})
        found.append([q.detach(), qd.detach(), *torch.autograd.grad(loss(q, qd), (value, x.q))])
        np.testing.assert_array_equal(s.parameters[name], simulator(device).parameters[name])
    assert found[0][2].abs().max() > 0.0
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_nothing_is_read_on_the_host(device, monkeypatch):
    """Neither by a call with its gradient nor by the mapping, but for values that decide about constraints; nor by a
    rollout of the simulator itself.
    """
    s = simulator(device)
    x = tensors(s)
    chosen = torch.arange(s.num_worlds, device=device) % 2 == 0
    values = {name: given(s, name, True, device) for name in ("mass", "friction")}
    tau = wp.zeros((3, s.num_worlds, s.model.nv), dtype=wp.float64, device=device)

    def iteration() -> None:
        q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, **values)
        loss(q, qd).backward()
        s.parameters.update({"mass": values["mass"].detach()[chosen]}, worlds=chosen)
        s.rollout(s.initial_state(), tau)

    iteration()
    read = []
    monkeypatch.setattr(DeviceValue, "numbers", property(lambda value: read.append(value.name)))

    def counting(array: AnyArray, numpy: Callable[[AnyArray], np.ndarray]) -> np.ndarray:
        if str(array.device) == device:  # on CUDA, numbers that have come to the host may be looked at
            read.append(array.shape)
        return numpy(array)

    if s.engine.reports.late is None:  # on a CPU what went wrong is looked at when a rollout ends
        s.engine.reports.late = SimpleNamespace(arrived=lambda: None, send=lambda *numbers: None)
    for kind in (wp.array, HostArray):
        monkeypatch.setattr(kind, "numpy", functools.partialmethod(counting, kind.numpy))
    iteration()
    assert read == []


@pytest.mark.parametrize("kind", ["mask", "numbers", "on the host"])
def test_some_worlds_alone(kind, device):
    s = simulator(device)
    mass = s.parameters["mass"]
    rows = [0, s.num_worlds - 1]
    mask = torch.zeros(s.num_worlds, dtype=torch.bool, device=device)
    mask[rows] = True
    worlds = {"mask": mask, "numbers": torch.tensor([0, -1], device=device), "on the host": rows}[kind]
    one = torch.tensor(2.0 * mass, device=device)
    s.parameters.update({"mass": one}, worlds=worlds)
    expected = np.repeat(mass[None], s.num_worlds, axis=0)
    expected[rows] = 2.0 * mass
    np.testing.assert_array_equal(s.parameters["mass"], expected)
    s.parameters.update({"mass": torch.stack([1.5 * one, 2.0 * one])}, worlds=worlds)
    expected[rows] = 3.0 * mass, 4.0 * mass
    np.testing.assert_array_equal(s.parameters["mass"], expected)
    np.testing.assert_array_equal(s.engine.shards[0].step.parameters["mass"].numpy(), expected)
    assert s.parameters.out_of_range == {}
    assert pickle.loads(pickle.dumps(s)).parameters["mass"].tolist() == expected.tolist()


def test_worlds_that_do_not_fit(device):
    s = simulator(device)
    mass = torch.tensor(s.parameters["mass"], device=device)
    mask = torch.ones(s.num_worlds, dtype=torch.bool, device=device)
    for worlds in (torch.tensor([0, 1], device=device), mask[:-1], mask.float(), [0, 1]):
        with raises_naming("parameter 'mass'", "worlds"):
            s.parameters.update({"mass": torch.stack([mass, mass, mass])}, worlds=worlds)
    # How many a mask chooses isn't known on the host: what is missing is out of range.
    s.parameters.update({"mass": torch.stack([mass] * (s.num_worlds - 1))}, worlds=mask)
    assert s.parameters.out_of_range == {"mass": len(mass)}


BAD = {
    "mass": -1.0, "friction": float("nan"), "damping": float("inf"), "com": float("nan"), "stiffness": 1.0,
    "joint_placement": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_numbers_out_of_their_range_are_counted_and_spoil_their_world_alone(name, device, monkeypatch):
    s = simulator(device)
    before = s.parameters[name]
    value = torch.tensor(np.repeat(before[None], s.num_worlds, axis=0), device=device)
    value[1].reshape(-1)[0 if name == "stiffness" else slice(None)] = BAD[name]
    s.parameters[name] = value
    counts = s.parameters.out_of_range
    assert list(counts) == [name]
    assert counts[name] == {"stiffness": 1, "joint_placement": before.shape[0]}.get(name, before.size)
    kept = s.parameters[name]
    np.testing.assert_array_equal(kept[[0, 2]], value[[0, 2]].cpu().numpy())
    if name != "joint_placement":
        np.testing.assert_array_equal(kept[1], before)
    x = tensors(s)
    s.check_finite = True
    with pytest.raises(sim.ModelError, match=rf"parameter '{name}' has \d+ number"):
        sim.torch.rollout(s, x.q, x.qd, x.tau)
    s.check_finite = False
    monkeypatch.setattr("sim.simulation.engine.rollout._require_parameters", lambda engine: None)
    # On CUDA, to see at once that a world went bad would be to wait for the device.
    with pytest.warns(sim.NotFiniteWarning) if device == "cpu" else contextlib.nullcontext():
        q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, leave_out_bad_worlds=True)
    assert s.bad_worlds == {1: 0}
    assert q[:, 1].isnan().all()
    assert q[:, [0, 2]].isfinite().all()
    (found,) = torch.autograd.grad(loss(q[:, [0, 2]], qd[:, [0, 2]]), x.tau)
    assert (found[:, 1] == 0.0).all()
    assert (found[:, [0, 2]] != 0.0).any()


def test_what_decides_about_constraints_is_read_on_the_host(device):
    s = simulator(device)
    assert "friction_loss" in ON_HOST
    with raises_naming("parameter 'friction_loss'", -1.0):
        s.parameters["friction_loss"] = torch.full((s.model.nv,), -1.0, dtype=torch.float64, device=device)
    s.parameters["friction_loss"] = torch.full((s.model.nv,), 0.2, dtype=torch.float64, device=device)
    assert isinstance(s.engine.parameters.values["friction_loss"], np.ndarray)


def test_pinned_memory_is_on_the_host():
    """DLPack has a kind of its own for it."""
    gpu = SimpleNamespace(is_cpu=False, ordinal=0)
    kinds = {"cuda": (2, 0), "managed": (13, 0), "pinned": (3, 0), "cpu": (1, 0), "another": (2, 1)}
    found = {
        name: is_on_device(SimpleNamespace(__dlpack_device__=lambda kind=kind: kind), gpu)
        for name, kind in kinds.items()
    }
    assert found == {"cuda": True, "managed": True, "pinned": False, "cpu": False, "another": False}


def test_shapes_and_gradients_are_refused(device):
    s = simulator(device)
    mass = torch.tensor(s.parameters["mass"], device=device)
    refuses(lambda: s.parameters.update({"mass": mass[:-1]}), "parameter 'mass'", "shape")
    refuses(lambda: s.parameters.update({"mass": mass.requires_grad_()}), "gradient")
    refuses(lambda: s.parameters.update({"mas": mass.detach()}), "unknown", "parameter 'mas'")
