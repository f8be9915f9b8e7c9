"""Methods of a robot by teams of threads, compared with one thread: a team of one on a CPU."""

import copy
import pickle
from typing import Any

import pytest
import torch
import warp as wp

import sim
from tests.dynamics.trees import build, zoo
from tests.torch.robots import CALLS, state

BY_TEAMS = ("jacobian", "inverse_dynamics", "forward_dynamics", "mass_matrix", "mass_matrix_inverse")


def robot(threads: int, dtype: torch.dtype = torch.float64) -> sim.torch.Robot:
    """All joint types, two trees, a link fixed to a moving one."""
    model = build(zoo(), "float64", collapse_fixed=False)
    return sim.torch.Robot(model, dtype=dtype, device="cpu", threads_per_world=threads)


def value_and_gradients(name: str, threads: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """The result of a method, and gradients in its arguments and parameters."""
    call, parameters = CALLS[name]
    made = robot(threads, dtype).learn(*parameters)
    given = [each.to(dtype).requires_grad_() for each in state(robot(1), (2,), seed=5)]
    result = call(made, *given)
    weights = torch.linspace(-1.0, 1.0, result.numel(), dtype=dtype).reshape(result.shape)
    leaves = [*given, *(getattr(made, key) for key in parameters)]
    found = torch.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
    return [result.detach(), *(torch.zeros(1, dtype=dtype) if each is None else each for each in found)]


# Gradients of the inverse of the mass matrix in float32 lose as many digits as its condition number has.
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 5e-5)], ids=["64", "32"])
@pytest.mark.parametrize("name", CALLS)
def test_as_one_thread(name, dtype, bound):
    one, team = (value_and_gradients(name, threads, dtype) for threads in (1, 16))
    for expected, found in zip(one, team, strict=True):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=bound * max(expected.abs().max().item(), 1.0))


@pytest.mark.parametrize("name", BY_TEAMS)
def test_gradients_by_differences(name):
    made = robot(8)
    leaves = [each.requires_grad_() for each in state(made, (2,), seed=5)]
    assert torch.autograd.gradcheck(lambda *x: CALLS[name][0](made, *x), leaves, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["forward_kinematics", *BY_TEAMS])
def test_links_are_processed_by_teams(name, monkeypatch):
    """Also by copies; no kernel of a thread per tree is launched."""
    made = robot(32)
    copies = [made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))]
    launched: set[str] = set()
    launch = wp.launch

    def noted(kernel: wp.Kernel, *arguments: Any, **options: Any) -> Any:
        launched.add(kernel.key.rpartition("__")[-1])
        return launch(kernel, *arguments, **options)

    monkeypatch.setattr(wp, "launch", noted)
    for each in copies:
        launched.clear()
        leaves = [x.requires_grad_() for x in state(each, (2,))]
        CALLS[name][0](each, *leaves).sum().backward()
        assert {"team_kinematics", "team_kinematics_adjoint"} <= launched
        assert not launched & {
            "kinematics",
            "kinematics_adjoint",
            "rnea",
            "rnea_adjoint",
            "aba",
            "crba",
            "crba_adjoint",
        }


def test_many_calls_of_many_rows():
    """Calls that one thread per world would run from a graph."""
    made, one = robot(32), robot(1)
    for _ in range(4):
        q, *_ = state(made, (700,))
        for call in (lambda r, q: r.jacobian(q, "link5"), lambda r, q: r.mass_matrix(q)):
            torch.testing.assert_close(call(made, q), call(one, q), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("threads", [0, 3, 64, 8.5, "8", None])
def test_other_widths_raise(threads):
    with pytest.raises(sim.ModelError, match=r"Robot: threads_per_world is .* it must be 1, 8, 16 or 32"):
        robot(threads)
    with pytest.raises(sim.ModelError, match=r"DeviceModel: threads_per_world is .* it must be 1, 8, 16 or 32"):
        sim.DeviceModel(build(zoo(), "float64"), "cpu", threads_per_world=threads)
