"""Gradients of every method of a robot, in its arguments and parameters, in both ways that torch has of asking."""

import copy

import pytest
import torch

import sim
from tests.torch.robots import CALLS, state, zoo_robot

every_method = pytest.mark.parametrize("name", CALLS)


def dependent(name: str, inputs: list[torch.Tensor], robot: sim.torch.Robot) -> list[torch.Tensor]:
    """The inputs of a method, as leaves, that its result depends on."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    result = CALLS[name][0](robot, *leaves)
    gradients = torch.autograd.grad(result.square().sum(), leaves, allow_unused=True)
    return [leaf for leaf, gradient in zip(leaves, gradients, strict=True) if gradient is not None]


@every_method
def test_gradcheck_in_arguments_and_parameters(name, device):
    robot = zoo_robot(device)
    call, parameters = CALLS[name]
    inputs = state(robot, (2,), seed=5)
    with torch.no_grad():
        inputs[0] *= 1.1  # quaternions that are not of unit length
        robot.joint_placement[:, 3:] *= 1.2
    robot.learn(*parameters)
    values = [getattr(robot, key).detach().clone().requires_grad_() for key in parameters]
    leaves = [x.requires_grad_() for x in inputs]

    def function(*tensors):
        changed = dict(zip(parameters, tensors[len(leaves) :], strict=True))
        with torch.nn.utils.stateless._reparametrize_module(robot, changed):
            return call(robot, *tensors[: len(leaves)])

    assert torch.autograd.gradcheck(function, (*leaves, *values), rtol=1e-5, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("name", ["forward_kinematics", "inverse_dynamics", "forward_dynamics", "mass_matrix_inverse"])
def test_gradcheck_of_every_entry(name, device):
    robot = zoo_robot(device)
    leaves = [x.requires_grad_() for x in state(robot, (2,), seed=5)]
    assert torch.autograd.gradcheck(lambda *x: CALLS[name][0](robot, *x), leaves, rtol=1e-6, atol=1e-7)


@every_method
def test_second_derivatives_raise(name, device):
    robot = zoo_robot(device)
    leaves = [x.requires_grad_() for x in state(robot, (2,))]
    result = CALLS[name][0](robot, *leaves)
    gradients = torch.autograd.grad(result.square().sum(), leaves, create_graph=True, allow_unused=True)
    loss = sum(g.square().sum() for g in gradients if g is not None)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        loss.backward()
    # Of a linear loss, where the gradient depends on the arguments alone.
    linear = torch.autograd.grad(CALLS[name][0](robot, *leaves).sum(), leaves, create_graph=True, allow_unused=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(sum(g.sum() for g in linear if g is not None), leaves[0])
    # In what the arguments come from, which nobody holds themselves.
    result = CALLS[name][0](robot, *(1.0 * x for x in leaves))
    gradients = torch.autograd.grad(result.square().sum(), leaves[0], create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(gradients[0].sum(), leaves[0], allow_unused=True)


@every_method
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of PyTorch itself
def test_forward_mode_raises(name, device):
    robot = zoo_robot(device)
    inputs = state(robot, (2,))
    tangents = tuple(torch.ones_like(x) for x in inputs)
    with pytest.raises(RuntimeError, match="forward-mode"):
        torch.func.jvp(lambda *x: CALLS[name][0](robot, *x), tuple(inputs), tangents)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode"):
        CALLS[name][0](
            robot, *(torch.autograd.forward_ad.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True))
        )


def test_gradients_in_a_batch_are_refused_with_a_way_out(device):
    """The older vmap of torch.autograd reaches no rule of ours; that of torch.func does."""
    robot = zoo_robot(device)
    q = state(robot, (1,))[0][0].requires_grad_()
    result = robot.gravity_forces(q)
    every = torch.eye(len(result), dtype=q.dtype, device=q.device)
    with pytest.raises(RuntimeError, match=r"use torch\.func\.jacrev"):
        torch.autograd.grad(result, q, every, is_grads_batched=True)
    for part in robot.forward_kinematics(q, "link5"):
        with pytest.raises(RuntimeError, match=r"use torch\.func\.jacrev"):
            torch.autograd.grad(part, q, torch.eye(len(part), dtype=q.dtype, device=device), is_grads_batched=True)
    assert torch.func.jacrev(robot.gravity_forces)(q.detach()).shape == (len(result), len(q))


@every_method
def test_vmap_is_a_loop(name, device):
    """Over each argument in turn, along a dimension that isn't the first."""
    robot = zoo_robot(device)
    inputs = state(robot, (2, 3))
    call = CALLS[name][0]
    for number, value in enumerate(inputs):
        others = [x[:, 0] for x in inputs]

        def of_one(x, number=number, others=others):
            return call(robot, *others[:number], x, *others[number + 1 :])

        found = torch.func.vmap(of_one, in_dims=1)(value)
        torch.testing.assert_close(found, torch.stack([of_one(value[:, k]) for k in range(3)]), rtol=0, atol=1e-13)


@every_method
def test_jacrev_is_the_jacobian(name, device):
    robot = zoo_robot(device)
    q, qd, qdd, wrench = state(robot, ())
    call = CALLS[name][0]

    def function(q, qd):
        return call(robot, q, qd, qdd, wrench)

    found = torch.func.jacrev(function, argnums=(0, 1))(q, qd)
    expected = torch.autograd.functional.jacobian(function, (q, qd))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["forward_kinematics", "inverse_dynamics", "forward_dynamics", "mass_matrix"])
def test_per_sample_gradients_of_parameters(name, device):
    """vmap over grad: what a shared parameter means to each sample, and samples with parameters of their own."""
    robot = zoo_robot(device)
    inputs = state(robot, (4,))
    call, parameters = CALLS[name]
    values = {key: getattr(robot, key) for key in parameters}
    share = torch.linspace(0.9, 1.1, 4, device=device)
    many = {key: value * share.reshape(4, *[1] * value.dim()) for key, value in values.items()}

    def loss(changed, *x):
        with torch.nn.utils.stateless._reparametrize_module(robot, changed):
            return call(robot, *x).square().sum()

    for given, dims in ((values, None), (many, 0)):
        found = torch.func.vmap(torch.func.grad(loss), in_dims=(dims, 0, 0, 0, 0))(given, *inputs)
        for k in range(4):
            mine = given if dims is None else {key: value[k] for key, value in given.items()}
            expected = torch.func.grad(loss)(mine, *(x[k] for x in inputs))
            for key in parameters:
                torch.testing.assert_close(found[key][k], expected[key], rtol=1e-11, atol=1e-11)


def test_parameters_for_each_row(device):
    """A parameter with a value in each row is that many robots."""
    robot = zoo_robot(device)
    q, qd, qdd, wrench = state(robot, (3,))
    masses = robot.mass * torch.linspace(0.9, 1.1, 3, device=device)[:, None]
    with torch.nn.utils.stateless._reparametrize_module(robot, {"mass": masses.requires_grad_()}):
        together = robot.forward_dynamics(q, qd, qdd, wrench)
    (gradient,) = torch.autograd.grad(together.square().sum(), masses)
    for k in range(3):
        other = copy.deepcopy(robot).learn("mass")
        with torch.no_grad():
            other.mass.copy_(masses[k])
        alone = other.forward_dynamics(q[k], qd[k], qdd[k], wrench[k])
        torch.testing.assert_close(together[k], alone, rtol=1e-13, atol=1e-13)
        alone.square().sum().backward()
        torch.testing.assert_close(gradient[k], other.mass.grad, rtol=1e-11, atol=1e-11)


# The warning is of PyTorch itself, about tensors that it looks at between two of its graphs.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("name", ["forward_kinematics", "forward_dynamics"])
def test_compile_leaves_calls_out_of_its_graphs(name, device):
    robot = zoo_robot(device)
    leaves = [x.requires_grad_() for x in state(robot, (3,))]

    def function(*x):
        return torch.sin(CALLS[name][0](robot, *[2.0 * each for each in x])).sum()

    expected = torch.autograd.grad(function(*leaves), leaves, materialize_grads=True)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves, materialize_grads=True)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="outside of what torch.compile can see"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(*leaves)
