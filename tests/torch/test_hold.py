"""Inputs that act for several steps, and gradients that are clipped between them."""

import math

import pytest
import torch

import sim
import sim.torch
from tests.errors import raises_naming, refuses
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


def test_clipped_adjoints_keep_their_direction(device):
    s = simulator(device)
    x, y = tensors(s, 1), tensors(s, 1)
    loss(x.q, x.qd).backward()
    whole = torch.cat([x.q.grad, x.qd.grad], dim=1)
    limit = whole.norm(dim=1).median().item()
    q, qd = sim.torch.clip_adjoint(y.q, y.qd, limit)
    assert torch.equal(q, y.q)
    assert torch.equal(qd, y.qd)
    loss(q, qd).backward()
    clipped = torch.cat([y.q.grad, y.qd.grad], dim=1)
    norm = whole.norm(dim=1, keepdim=True)
    assert (norm > limit).any()
    assert (norm < limit).any()
    torch.testing.assert_close(clipped, whole / norm * norm.clamp(max=limit))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of PyTorch itself
def test_clipped_adjoints_by_torch_func(device):
    """As by backward, between steps too; a second derivative raises as it does without a clip."""
    s = simulator(device)
    x = tensors(s, 1)

    def clipped(qd: torch.Tensor) -> torch.Tensor:
        q, qd = sim.torch.clip_adjoint(*sim.torch.step(s, x.q.detach(), qd, hold=HOLD), 0.01)
        return loss(*sim.torch.step(s, q, qd))

    clipped(x.qd).backward()
    assert torch.equal(torch.func.grad(clipped)(x.qd.detach()), x.qd.grad)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.func.jacrev(torch.func.grad(clipped))(x.qd.detach())


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
        with raises_naming("hold is"):
            sim.torch.rollout(s, x.q, x.qd, x.tau, hold=hold)
        with raises_naming("hold is"):
            sim.torch.step(s, x.q, x.qd, hold=hold)
    refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau, steps=4, hold=HOLD), "steps is 4", "tau", "2 steps", 3)
    refuses(lambda: sim.torch.rollout(s, x.q, x.qd, steps=4, hold=HOLD), "steps is 4", "hold", 3)
    refuses(lambda: sim.torch.rollout(s, x.q, x.qd, x.tau, hold=HOLD, checkpoint_interval=2), "checkpoint_interval")
    for limit in (0.0, -1.0, math.nan):
        with raises_naming("limit is"):
            sim.torch.clip_adjoint(x.q, x.qd, limit)


def test_second_derivatives_through_a_clip():
    """Of a gradient that is zero, one shorter than the limit, and a longer one, which is cut."""
    q = torch.tensor([[0.0, 0.0], [0.1, 0.2], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    clipped, _ = sim.torch.clip_adjoint(q, torch.zeros_like(q), 1.0)
    (gradient,) = torch.autograd.grad((0.5 * clipped.square()).sum(), q, create_graph=True)
    (second,) = torch.autograd.grad(gradient[:, 0].sum(), q)
    # The gradient is q, or q / |q|, whose derivative is (1 - n n^T) / |q|.
    expected = [[1.0, 0.0], [1.0, 0.0], [(1.0 - 0.36) / 5.0, -0.48 / 5.0]]
    torch.testing.assert_close(second, torch.tensor(expected, dtype=torch.float64))


def test_an_infinite_limit_clips_nothing_and_large_gradients_are_no_zeros():
    q = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    same, _ = sim.torch.clip_adjoint(q, torch.zeros(2, 1), math.inf)
    (1e30 * same).sum().backward()
    torch.testing.assert_close(q.grad, torch.full((2, 2), 1e30))
    q.grad = None
    clipped, _ = sim.torch.clip_adjoint(q, torch.zeros(2, 1), 1.0)
    (1e30 * clipped).sum().backward()
    torch.testing.assert_close(q.grad, torch.full((2, 2), math.sqrt(0.5)))


def test_clipped_states_have_a_dimension_of_worlds():
    for shape in ((3,), (4, 2, 3)):
        with raises_naming("clip_adjoint", "q", "shape", str(shape)):
            sim.torch.clip_adjoint(torch.zeros(shape), torch.zeros(2, 3), 1.0)
