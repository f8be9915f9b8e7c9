"""Dynamics without damping, springs and dry friction; test_robot_parity.py compares them with Pinocchio."""

import numpy as np
import pytest
import torch
import warp as wp

import sim
from sim.dynamics.dynamics import PASSIVE_FORCES
from sim.torch.runtime.engine import CAPTURED_AT_CALL
from tests.torch.robots import ALL, state, zoo_robot

AGAIN = CAPTURED_AT_CALL + 2
OTHERS = tuple(name for name in ALL if name not in PASSIVE_FORCES)
DYNAMICS = ("inverse_dynamics", "forward_dynamics")


def test_as_a_robot_without_passive_forces(subtests, device):
    """Bit for bit, in values and all gradients, with calls of both kinds in turn."""
    for dtype in (torch.float32, torch.float64):
        robot = zoo_robot(device, dtype).learn(*ALL)
        bare = zoo_robot(device, dtype).learn(*ALL)
        with torch.no_grad():
            for name in PASSIVE_FORCES:
                getattr(bare, name).zero_()
        for method in DYNAMICS:
            leaves = [x.requires_grad_() for x in state(robot, (3,))]
            found = evaluate(bare, method, leaves)
            with_them = evaluate(robot, method, leaves)
            assert not torch.equal(with_them[0], found[0])
            for _ in range(AGAIN):
                with subtests.test(method=method, dtype=dtype):
                    assert all(map(torch.equal, evaluate(robot, method, leaves, passive=False), found))
                    assert all(map(torch.equal, evaluate(robot, method, leaves), with_them))
            result = getattr(robot, method)(*leaves, passive=False)
            unused = [getattr(robot, name) for name in PASSIVE_FORCES]
            assert torch.autograd.grad(result.sum(), unused, allow_unused=True) == (None,) * len(unused)


def evaluate(robot: sim.torch.Robot, method: str, leaves: list[torch.Tensor], **options: bool) -> list[torch.Tensor]:
    """The value, and gradients in arguments and in the parameters of moving bodies."""
    result = getattr(robot, method)(*leaves, **options)
    seed = torch.arange(1.0, 1.0 + result.numel(), dtype=result.dtype, device=result.device).reshape(result.shape)
    wanted = [*leaves, *(getattr(robot, name) for name in OTHERS)]
    return [result, *torch.autograd.grad(result, wanted, seed.sin())]


def test_torch_func_and_a_value_for_each_row(device):
    robot = zoo_robot(device)
    q, qd, third, _ = state(robot, (3,))
    for method in DYNAMICS:

        def call(q: torch.Tensor, method: str = method) -> torch.Tensor:
            return getattr(robot, method)(q, qd[0], third[0], passive=False)

        whole = getattr(robot, method)(q, qd[0], third[0], passive=False)
        torch.testing.assert_close(torch.func.vmap(call)(q), whole, rtol=1e-12, atol=1e-12)
        leaf = q[0].clone().requires_grad_()
        rows = torch.func.jacrev(call)(q[0])
        torch.testing.assert_close(rows.sum(0), torch.autograd.grad(call(leaf).sum(), leaf)[0], rtol=1e-12, atol=1e-12)
        shared = robot.mass
        robot.mass = shared.expand(3, -1).clone()
        found = getattr(robot, method)(q, qd[0], third[0], passive=False)
        torch.testing.assert_close(found, whole, rtol=1e-13, atol=1e-13)
        robot.mass = shared


@pytest.mark.parametrize("method", DYNAMICS)
def test_free_functions(method, device):
    """The same numbers as the method; the parameters of passive forces have no gradient."""
    robot = zoo_robot(device)
    tensors = state(robot, (3,))[:3]
    model = sim.DeviceModel(robot.model, device, requires_grad=ALL)
    arrays = [wp.array(x.cpu().numpy(), dtype=wp.float64, device=device, requires_grad=True) for x in tensors]
    with wp.Tape() as tape:
        result = getattr(sim, method)(model, *arrays, passive=False)
    leaves = [x.requires_grad_() for x in tensors]
    expected = getattr(robot.learn(*OTHERS), method)(*leaves, passive=False)
    np.testing.assert_array_equal(result.numpy(), expected.detach().cpu().numpy())
    tape.backward(grads={result: wp.ones_like(result)})
    slopes = torch.autograd.grad(expected.sum(), [*leaves, *(getattr(robot, name) for name in OTHERS)])
    for array, slope in zip(arrays, slopes[:3], strict=True):
        np.testing.assert_allclose(array.grad.numpy(), slope.cpu().numpy(), rtol=1e-12, atol=1e-12)
    for name, slope in zip(OTHERS, slopes[3:], strict=True):
        np.testing.assert_allclose(model.gradient(name), slope.cpu().numpy(), rtol=1e-11, atol=1e-11)
    assert not any(model.gradient(name).any() for name in PASSIVE_FORCES)
