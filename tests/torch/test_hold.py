"""Inputs that act for several steps, and gradients that are clipped between them."""

import math

import pytest
import torch

import sim
import sim.torch
from tests.torch.worlds import loss, simulator, tensors

HOLD = 3


def test_held_inputs_are_repeated_inputs(device):
    s = simulator(device)
    x = tensors(s, 4)
    y = tensors(s, 4)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, hold=HOLD)
    every_q, every_qd = sim.torch.rollout(s, y.q, y.qd, y.tau.repeat_interleave(HOLD, dim=0))
    assert torch.equal(q, every_q[::HOLD])
    assert torch.equal(qd, every_qd[::HOLD])
    loss(q, qd).backward()
    loss(every_q[::HOLD], every_qd[::HOLD]).backward()
    for name in ("q", "qd", "tau"):
        torch.testing.assert_close(getattr(x, name).grad, getattr(y, name).grad, rtol=1e-12, atol=1e-12)


def test_a_held_step_is_the_rollout_with_one_input(device):
    s = simulator(device)
    x, y = tensors(s, 1), tensors(s, 1)
    q, qd = sim.torch.step(s, x.q, x.qd, x.tau[0], hold=HOLD, friction=x.friction)
    all_q, all_qd = sim.torch.rollout(s, y.q, y.qd, y.tau, hold=HOLD, friction=y.friction)
    assert torch.equal(q, all_q[1])
    assert torch.equal(qd, all_qd[1])
    loss(q, qd).backward()
    loss(all_q[1], all_qd[1]).backward()
    for name in ("q", "qd", "tau", "friction"):
        assert torch.equal(getattr(x, name).grad, getattr(y, name).grad)


def test_gradient_against_differences(device):
    s = simulator(device)
    x = tensors(s, 2)

    def last(q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = (q, qd)
        for each in tau:
            state = sim.torch.step(s, *state, each, hold=HOLD)
        return state

    torch.autograd.gradcheck(last, (x.q, x.qd, x.tau), eps=1e-6, atol=1e-5, rtol=1e-5, nondet_tol=0.0)


def test_adjoint_clip_bounds_each_world(device):
    s = simulator(device)
    x, y = tensors(s, 1), tensors(s, 1)
    limit = 0.5 * gradient_norms(s, x, math.inf).median().item()
    whole = gradient_norms(s, x, math.inf)
    clipped = gradient_norms(s, y, limit)
    torch.testing.assert_close(clipped, whole.clamp(max=limit), rtol=1e-12, atol=0.0)
    scale = (clipped / whole)[:, None]
    assert (scale < 1.0).any()
    torch.testing.assert_close(y.q.grad, scale * 0.5 * x.q.grad)  # x took two ways back
    torch.testing.assert_close(y.tau.grad, 0.5 * x.tau.grad)  # the step's own inputs aren't clipped


def gradient_norms(s: sim.Simulator, x, limit: float) -> torch.Tensor:
    before = 0.0 if x.q.grad is None else x.q.grad.clone(), 0.0 if x.qd.grad is None else x.qd.grad.clone()
    loss(*sim.torch.step(s, x.q, x.qd, x.tau[0], hold=HOLD, adjoint_clip=limit)).backward()
    return torch.cat([x.q.grad - before[0], x.qd.grad - before[1]], dim=1).norm(dim=1)


def test_changed_states_are_noticed(device):
    s = simulator(device)
    x = tensors(s, 2)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, hold=HOLD)
    total = loss(q, qd)
    with torch.no_grad():
        q[1] += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_refused(device):
    s = simulator(device)
    x = tensors(s, 2)
    for hold in (0, 1.5, "3"):
        with pytest.raises(sim.ModelError, match="hold is"):
            sim.torch.rollout(s, x.q, x.qd, x.tau, hold=hold)
        with pytest.raises(sim.ModelError, match="hold is"):
            sim.torch.step(s, x.q, x.qd, hold=hold)
    with pytest.raises(sim.ModelError, match="steps is 4, but tau has 2 steps, each held for 3"):
        sim.torch.rollout(s, x.q, x.qd, x.tau, steps=4, hold=HOLD)
    with pytest.raises(sim.ModelError, match="steps is 4, which is no multiple of hold, 3"):
        sim.torch.rollout(s, x.q, x.qd, steps=4, hold=HOLD)
    with pytest.raises(sim.ModelError, match="leave checkpoint_interval out"):
        sim.torch.rollout(s, x.q, x.qd, x.tau, hold=HOLD, checkpoint_interval=2)
    for limit in (0.0, -1.0, math.nan):
        with pytest.raises(sim.ModelError, match="adjoint_clip is"):
            sim.torch.step(s, x.q, x.qd, adjoint_clip=limit)
