"""Derivatives of a rollout that PyTorch can ask for beyond one gradient: right, or an error that says what to do."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import sim
import sim.torch
from tests.simulation.worlds import hopper

DT, STEPS = 1.0 / 240.0, 6


@pytest.fixture(scope="module")
def simulator() -> sim.Simulator:
    return sim.Simulator(hopper(), DT, 2, "cpu")


def end(simulator: sim.Simulator, tau: torch.Tensor, **parameters: torch.Tensor) -> torch.Tensor:
    """The last velocities, squared, of a motion with the same forces in every step [2, nv]."""
    q = torch.tensor(np.tile(simulator.model.q0, (2, 1)))
    qd = torch.zeros(2, simulator.model.nv, dtype=torch.float64)
    _, speeds = sim.torch.rollout(simulator, q, qd, tau.expand(STEPS, 2, -1), **parameters)
    return speeds[-1].square()


@pytest.fixture
def tau(simulator) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 2 * simulator.model.nv, dtype=torch.float64).reshape(2, -1)


@pytest.mark.parametrize("name", ["jvp", "hvp", "vhp"])
def test_functional_products_raise(simulator, tau, name):
    function = getattr(torch.autograd.functional, name)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        function(lambda x: end(simulator, x).sum(), tau, torch.ones_like(tau))


def test_hessians_raise(simulator, tau):
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.functional.hessian(lambda x: end(simulator, x).sum(), tau)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.func.jacrev(torch.func.grad(lambda x: end(simulator, x).sum()))(tau)


@pytest.mark.parametrize("name", ["tau", "friction"])
def test_a_penalty_on_a_gradient_raises(simulator, tau, name):
    friction = torch.tensor(simulator.model.parameters["friction"], requires_grad=name == "friction")
    tau.requires_grad_(name == "tau")
    leaf = tau if name == "tau" else friction
    loss = end(simulator, tau, friction=friction).sum()
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        gradient.square().sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of PyTorch itself
def test_forward_mode_and_vmap_raise(simulator, tau):
    with pytest.raises(RuntimeError, match="no forward-mode"):
        torch.func.jvp(lambda x: end(simulator, x), (tau,), (tau,))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="no forward-mode"):
        end(simulator, forward_ad.make_dual(tau, tau))
    with pytest.raises(RuntimeError, match="num_worlds as the batch"):
        torch.func.vmap(lambda x: end(simulator, x))(torch.stack([tau, tau]))


def test_gradients_of_torch_func(simulator, tau):
    """Against those of backward and, for the Jacobian, one backward pass per row."""
    leaf = tau.clone().requires_grad_()
    (expected,) = torch.autograd.grad(end(simulator, leaf).sum(), leaf)
    assert expected.abs().max() > 1e-3
    assert torch.equal(torch.func.grad(lambda x: end(simulator, x).sum())(tau), expected)
    found = torch.func.jacrev(lambda x: end(simulator, x)[1, :2])(tau)
    rows = [torch.autograd.grad(end(simulator, leaf)[1, k], leaf)[0] for k in range(2)]
    assert torch.equal(found, torch.stack(rows))


def test_batches_of_gradients(simulator, tau):
    leaf = tau.clone().requires_grad_()
    value = end(simulator, leaf)
    seeds = torch.ones(2, *value.shape, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"torch\.func\.jacrev"):
        torch.autograd.grad(value, leaf, seeds, is_grads_batched=True)


def test_parameters_through_torch_func(simulator, tau):
    friction = torch.tensor(simulator.model.parameters["friction"])
    leaf = friction.clone().requires_grad_()
    (expected,) = torch.autograd.grad(end(simulator, tau, friction=leaf).sum(), leaf)
    assert torch.equal(torch.func.grad(lambda x: end(simulator, tau, friction=x).sum())(friction), expected)


# From above, down onto the ground.
RAY = torch.tensor([[0.5, 0.2, 5.0], [0.01, 0.02, -1.0]], dtype=torch.float64)
ALONG_A_MOTION = {
    "imu": lambda robot, _, q, qd: sim.torch.imu(robot, q, qd, DT, robot.link_names[0])[0],
    "joint forces": lambda _, simulator, q, qd: sim.torch.JointForces(simulator)(q, qd).constraints,
    "height scan": lambda robot, _, q, qd: sim.torch.height_scan(robot, q, robot.link_names[0], [[0.1, 0.2]]),
    "lidar": lambda robot, _, q, qd: sim.torch.lidar(robot, q, robot.link_names[0], [[0.1, 0.2, -1.0]])[0],
    "rays": lambda robot, _, q, qd: robot.cast_rays(q, *(x.expand(2, 2, 1, 3) for x in RAY))[0],
    "distances": lambda robot, _, q, qd: robot.geometry_distances(q, [(0, 1)]).distance,
}


@pytest.mark.parametrize("name", ALONG_A_MOTION)
def test_second_derivatives_of_what_is_read_from_a_motion_raise(simulator, name):
    q = torch.tensor(np.tile(simulator.model.q0, (2, 2, 1)), requires_grad=True)
    qd = torch.full((2, 2, simulator.model.nv), 0.3, dtype=torch.float64, requires_grad=True)
    robot = sim.torch.Robot(simulator.model)
    value = ALONG_A_MOTION[name](robot, simulator, q, qd)
    gradients = torch.autograd.grad(value.square().sum(), (q, qd), create_graph=True, allow_unused=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        sum(gradient.sum() for gradient in gradients if gradient is not None).backward()


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit.*deprecated")
def test_a_recorded_program_would_hold_the_motion_of_now(simulator, tau):
    """It would return that for any other input."""

    class End(torch.nn.Module):
        def forward(self, tau: torch.Tensor) -> torch.Tensor:
            return end(simulator, tau)

    End()(tau)
    for record in (torch.jit.trace, torch.export.export, lambda module, given: make_fx(module)(*given)):
        with pytest.raises(RuntimeError, match=r"a rollout can't be recorded by torch\.jit\.trace, torch\.export or m"):
            record(End(), (tau,))
