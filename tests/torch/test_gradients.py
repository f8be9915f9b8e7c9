"""Gradients through the torch operations: gradcheck, graphs in all arrangements, parameters, second derivatives."""

import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.arrays import launch
from sim.model.parameters import PARAMETERS
from tests.simulation.worlds import hopper
from tests.torch.worlds import STEPS, loss, simulator, tensors

OF_HOPPER = [
    name for name in hopper("float64").parameters if PARAMETERS[name].per in ("link", "dof", "geometry", "world")
]


def gradients(of: torch.Tensor, *inputs: torch.Tensor, **options: bool) -> list[torch.Tensor]:
    return list(torch.autograd.grad(of, inputs, **options))


def assert_equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> None:
    for a, b in zip(first, second, strict=True):
        assert a.abs().max() > 0.0
        assert torch.equal(a, b)


def test_gradcheck_of_a_rollout(device):
    s = simulator(device)
    x = tensors(s, 4)
    torch.autograd.gradcheck(
        lambda q, qd, tau, friction, mass: sim.torch.rollout(s, q, qd, tau, friction=friction, mass=mass),
        (x.q, x.qd, x.tau, x.friction, x.mass),
        fast_mode=True,  # along random directions; every entry is compared for a step
    )


@pytest.mark.parametrize("requires_grad", [True, False])
def test_kernels_of_the_way_back_are_loaded_with_those_of_the_rollout(requires_grad, monkeypatch, device):
    loaded: list[set[str]] = []

    def load(kernels, device):
        loaded.append({kernel.key for kernel in kernels})
        load_kernels(kernels, device)

    load_kernels = launch.load_kernels
    monkeypatch.setattr(launch, "load_kernels", load)
    s = simulator(device)
    x = tensors(s, 1, requires_grad=requires_grad)
    sim.torch.rollout(s, x.q, x.qd, x.tau)
    assert ("rnea_adjoint" in next(keys for keys in loaded if "aba" in keys)) == requires_grad


def test_gradcheck_of_a_step(device):
    s = simulator(device)
    x = tensors(s, 1)
    torch.autograd.gradcheck(
        lambda q, qd, tau, friction, mass: sim.torch.step(s, q, qd, tau, friction=friction, mass=mass),
        (x.q, x.qd, x.tau[0].detach().requires_grad_(), x.friction, x.mass),
    )


@pytest.mark.parametrize("name", OF_HOPPER)
def test_every_parameter(name, device):
    """The gradient that torch gives is that of the trajectory, in the shape of what was given, shared and per world."""
    s = simulator(device)
    x = tensors(s, 10, requires_grad=False)
    shared = s.parameters[name]
    for value in (shared, np.repeat(shared[None], s.num_worlds, axis=0)):
        tensor = torch.tensor(value, requires_grad=True)
        q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, **{name: tensor})
        (found,) = gradients(loss(q, qd), tensor)
        weight = np.arange(1, s.model.nq + 1)
        with s.parameters.using({name: value}):
            trajectory = s.rollout(s.state(x.q.cpu().numpy(), x.qd.cpu().numpy()), x.tau.cpu().numpy())
            expected = trajectory.backward(
                2.0 * weight * trajectory.q.numpy(), 2.0 * trajectory.qd.numpy(), [name]
            ).parameters[name]
        assert tuple(found.shape) == value.shape
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_a_loop_of_steps_is_a_rollout(device):
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction)
    whole = gradients(loss(q[-1], qd[-1]), x.q, x.qd, x.tau, x.friction)
    state = x.q, x.qd
    for tau in x.tau:
        state = sim.torch.step(s, *state, tau, friction=x.friction)
    assert torch.equal(state[0], q[-1])
    assert torch.equal(state[1], qd[-1])
    steps = gradients(loss(*state), x.q, x.qd, x.tau, x.friction)
    assert_equal(whole[:3], steps[:3])
    torch.testing.assert_close(whole[3], steps[3], rtol=1e-12, atol=1e-12)


def test_without_control(device):
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, steps=STEPS)
    zero = torch.zeros_like(x.tau)
    same_q, same_qd = sim.torch.rollout(s, x.q, x.qd, zero)
    assert_equal([q, qd], [same_q, same_qd])
    assert_equal(gradients(loss(q, qd), x.q, x.qd), gradients(loss(same_q, same_qd), x.q, x.qd))
    q1, qd1 = sim.torch.step(s, x.q, x.qd)
    assert_equal([q1, qd1], [q[1], qd[1]])


@pytest.mark.parametrize("which", ["q", "qd", "tau", "friction", "mass"])
def test_one_input_alone(which, device):
    """Gradients of one input alone are those of it among all."""
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction, mass=x.mass)
    (expected,) = gradients(loss(q, qd), getattr(x, which))
    y = tensors(s, requires_grad=False)
    alone = getattr(y, which).requires_grad_()
    q, qd = sim.torch.rollout(s, y.q, y.qd, y.tau, friction=y.friction, mass=y.mass)
    assert_equal([expected], gradients(loss(q, qd), alone))


def test_no_input_wants_a_gradient(device):
    s = simulator(device)
    x = tensors(s, requires_grad=False)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    assert not q.requires_grad
    assert not qd.requires_grad


def test_loss_of_velocities_or_coordinates_alone(device):
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    both = gradients(q.sum() + qd.sum(), x.tau, retain_graph=True)[0]
    parts = [gradients(part.sum(), x.tau, retain_graph=True)[0] for part in (q, qd)]
    torch.testing.assert_close(both, parts[0] + parts[1], rtol=1e-10, atol=1e-12)


def test_retained_graph_twice(device):
    s = simulator(device)
    x = tensors(s)
    inputs = (x.q, x.qd, x.tau, x.friction)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction)
    first = gradients(loss(q, qd), *inputs, retain_graph=True)
    assert_equal(first, gradients(loss(q, qd), *inputs))


def test_independent_graphs(device):
    """Two rollouts are alive at once, and go backwards in either order."""
    s = simulator(device)
    x = tensors(s)

    def rollout(friction: float) -> torch.Tensor:
        return loss(*sim.torch.rollout(s, x.q, x.qd, x.tau, friction=friction * x.friction))

    inputs = (x.q, x.tau, x.friction)
    expected = [gradients(rollout(friction), *inputs) for friction in (1.0, 0.3)]
    for order in ((0, 1), (1, 0)):
        losses = [rollout(friction) for friction in (1.0, 0.3)]
        for which in order:
            assert_equal(expected[which], gradients(losses[which], *inputs))
    both = gradients(rollout(1.0) + rollout(0.3), *inputs)
    for total, a, b in zip(both, *expected, strict=True):
        torch.testing.assert_close(total, a + b, rtol=1e-12, atol=1e-12)


def test_parameters_set_between_forward_and_backward(device):
    """Whether given to the call or set on the simulator, those of the forward pass count."""
    s = simulator(device)
    x = tensors(s)
    inputs = (x.q, x.tau, x.friction)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction)
    expected = gradients(loss(q, qd), *inputs)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction)
    s.parameters["mass"] = 3.0 * s.parameters["mass"]
    s.parameters["friction"] = np.zeros_like(s.parameters["friction"])
    s.parameters["gravity"] = np.repeat(s.parameters["gravity"][None], s.num_worlds, axis=0)
    s.parameters["friction_loss"] = 0.2
    present = s.parameters
    assert_equal(expected, gradients(loss(q, qd), *inputs))
    for name, value in s.parameters.items():
        np.testing.assert_array_equal(value, present[name])


def test_parameters_of_a_call_do_not_stay(device):
    s = simulator(device)
    x = tensors(s)
    before = s.parameters["friction"]
    sim.torch.rollout(s, x.q, x.qd, x.tau, friction=0.1 * x.friction)
    np.testing.assert_array_equal(s.parameters["friction"], before)


def test_a_number_stands_for_all(device):
    s = simulator(device)
    x = tensors(s)
    mu = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=mu)
    (single,) = gradients(loss(q, qd), mu)
    every = torch.full((4,), 0.4, dtype=torch.float64, requires_grad=True)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=every)
    (each,) = gradients(loss(q, qd), every)
    assert single.shape == ()
    torch.testing.assert_close(single, each.sum(), rtol=1e-12, atol=0.0)


def test_one_state_for_all_worlds(device):
    s = simulator(device)
    x = tensors(s)
    q0 = x.q[0].detach().requires_grad_()
    q, qd = sim.torch.rollout(s, q0, x.qd, x.tau)
    (found,) = gradients(loss(q, qd), q0)
    tiled = x.q[:1].detach().repeat(s.num_worlds, 1).requires_grad_()
    q, qd = sim.torch.rollout(s, tiled, x.qd, x.tau)
    torch.testing.assert_close(found, gradients(loss(q, qd), tiled)[0].sum(0), rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_refused(device):
    s = simulator(device)
    x = tensors(s)
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=x.friction)
    (first,) = gradients(loss(q, qd), x.tau, create_graph=True)
    with pytest.raises(RuntimeError):
        first.square().sum().backward()
    q1, qd1 = sim.torch.step(s, x.q, x.qd, x.tau[0])
    (first,) = gradients(loss(q1, qd1), x.q, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.sum(), x.q)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own
def test_forward_mode_is_refused(device):
    s = simulator(device)
    x = tensors(s, requires_grad=False)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.func.jvp(lambda q: sim.torch.rollout(s, q, x.qd, x.tau), (x.q,), (torch.ones_like(x.q),))


def test_vmap_is_refused_with_advice(device):
    s = simulator(device)
    x = tensors(s, requires_grad=False)
    with pytest.raises(RuntimeError, match="num_worlds"):
        torch.func.vmap(lambda tau: sim.torch.rollout(s, x.q, x.qd, tau)[0])(torch.stack([x.tau, x.tau]))


def test_saved_tensors_changed_in_place_are_noticed(device):
    s = simulator(device)
    x = tensors(s)
    tau = x.tau.clone()
    q, qd = sim.torch.rollout(s, x.q, x.qd, tau)
    tau.mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace"):
        loss(q, qd).backward()
    q, qd = sim.torch.rollout(s, x.q, x.qd, x.tau)
    value = q.sum() + qd.sum()
    with torch.no_grad():
        q.zero_()
    with pytest.raises(RuntimeError, match="inplace"):
        value.backward()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("name", ["rollout", "step"])
def test_compile_leaves_steps_out_of_its_graphs(name, device):
    s = simulator(device)
    x = tensors(s)

    def function(q, qd, tau):
        given = (tau,) if name == "rollout" else (tau[0],)
        return loss(*getattr(sim.torch, name)(s, 1.0 * q, qd, *given))

    inputs = (x.q, x.qd, x.tau)
    expected = torch.autograd.grad(function(*inputs), inputs)
    torch._dynamo.reset()
    found = torch.autograd.grad(torch.compile(function, backend="aot_eager")(*inputs), inputs)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"torch\.compile"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(*inputs)


def test_states_are_freed_after_the_way_back(device):
    """As PyTorch does with the tensors that it has saved, unless the graph is kept."""
    s = simulator(device)
    x = tensors(s)
    total = loss(*sim.torch.rollout(s, x.q, x.qd, x.tau))
    node = next(each for each in nodes(total.grad_fn) if hasattr(each, "settings"))
    total.backward(retain_graph=True)
    once = x.q.grad.clone()
    total.backward()
    torch.testing.assert_close(x.q.grad, 2.0 * once)
    assert not hasattr(node.settings, "recording")
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


def nodes(last):
    """All nodes of a graph of autograd."""
    waiting, seen = [last], []
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.append(node)
            waiting += [before for before, _ in node.next_functions]
    return seen


def test_what_is_no_tensor_of_a_parameter_is_named(device):
    s = simulator(device)
    x = tensors(s)
    friction = torch.tensor(0.5, requires_grad=True)
    for given, message in (
        ([friction] * s.model.num_geometries, "'friction' .*torch.stack"),
        ("rough", "parameter 'friction': 'rough' is not an array of numbers"),
        (None, "parameter 'friction' has a value that is not finite"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            sim.torch.rollout(s, x.q, x.qd, x.tau, friction=given)
    control = torch.zeros(len(x.tau) + 1, *x.tau.shape[1:-1], s.model.nu)
    with pytest.raises(sim.ModelError, match=rf"rollout: tau has {len(x.tau)} steps, but control {len(control)}"):
        sim.torch.rollout(s, x.q, x.qd, x.tau, control)
    half = torch.full((s.model.num_geometries,), 0.5, dtype=torch.bfloat16, device=device)
    found = sim.torch.rollout(s, x.q, x.qd, x.tau, friction=half)[0]
    torch.testing.assert_close(found, sim.torch.rollout(s, x.q, x.qd, x.tau, friction=0.5)[0])
