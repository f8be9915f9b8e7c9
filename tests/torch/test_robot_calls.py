"""Calls of a kind that came before take a short way: what it must not leave out, one test each."""

import numpy as np
import pytest
import torch

import sim
from sim.torch.runtime.engine import CAPTURED_AT_CALL
from tests.errors import raises_naming, refuses
from tests.torch.robots import ALL, CALLS, state, zoo_robot

every_method = pytest.mark.parametrize("name", CALLS)
# The first calls make the graph, the later ones take the short way.
AGAIN = CAPTURED_AT_CALL + 2


def gradients(result: torch.Tensor, leaves: list[torch.Tensor], **options: bool) -> list[torch.Tensor]:
    seed = torch.arange(1.0, 1.0 + result.numel(), dtype=result.dtype, device=result.device).reshape(result.shape)
    found = torch.autograd.grad(result, leaves, seed.sin(), materialize_grads=True, **options)
    return list(found)


def assert_same(one: torch.Tensor, other: torch.Tensor) -> None:
    """Equal bit for bit; on CUDA but for the order in which threads add to the gradient of a shared parameter."""
    rounding = 1e-13 * float(other.abs().max()) if one.is_cuda else 0.0
    torch.testing.assert_close(one, other.reshape(one.shape), rtol=0.0, atol=rounding)


@every_method
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_gradients_in_any_batch_shape(name, batch, device):
    """Those of the same rows in one dimension; a second backward and one with create_graph find the same."""
    robot = zoo_robot(device).learn(*ALL)
    call, parameters = CALLS[name][0], [getattr(robot, key) for key in CALLS[name][1]]
    leaves = [x.requires_grad_() for x in state(robot, batch, seed=3)]
    flat = [x.detach().reshape(-1, *x.shape[len(batch) :]).requires_grad_() for x in leaves]
    single = call(robot, *flat)
    expected = gradients(single, [*flat, *parameters])
    for options in [{}] * AGAIN + [{"retain_graph": True}, {"create_graph": True}]:
        result = call(robot, *leaves)
        assert torch.equal(result, single.reshape(result.shape))
        for _ in range(1 + bool(options)):
            found = gradients(result, [*leaves, *parameters], **options)
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)


def test_gradients_of_what_is_broadcast(device):
    """They are summed over the dimensions that an argument hasn't got, whatever calls came before."""
    robot = zoo_robot(device)
    q, qd, tau, _ = state(robot, (2, 3))
    leaves = [x.clone().requires_grad_() for x in (q[:, :1], qd[0], tau[0, 0])]
    inner = [(2, 3, x.shape[-1]) for x in leaves]
    whole = [x.detach().expand(shape).clone().requires_grad_() for x, shape in zip(leaves, inner, strict=True)]
    expected = gradients(robot.forward_dynamics(*whole), whole)
    for _ in range(AGAIN):
        for found, one in zip(gradients(robot.forward_dynamics(*leaves), leaves), expected, strict=True):
            torch.testing.assert_close(found, one.sum_to_size(found.shape), rtol=1e-13, atol=1e-13)
        assert all(map(torch.equal, gradients(robot.forward_dynamics(*whole), whole), expected))


def test_tensors_that_lie_otherwise_in_memory(device):
    """Transposed, expanded, of every second row; seeds likewise."""
    robot = zoo_robot(device)
    inputs = [x.requires_grad_() for x in state(robot, (4,))[:3]]
    expected = zoo_robot(device).inverse_dynamics(*inputs)
    slopes = torch.autograd.grad(expected.sum(), inputs)
    for _ in range(AGAIN):  # from the very first call on
        columns = [x.detach().t().contiguous().t().requires_grad_() for x in inputs]
        spread = [x.detach().repeat_interleave(2, dim=0)[::2].requires_grad_() for x in inputs]
        for leaves in (columns, spread):
            assert not leaves[0].is_contiguous()
            result = robot.inverse_dynamics(*leaves)
            assert torch.equal(result, expected)
            assert all(map(torch.equal, torch.autograd.grad(result.sum(), leaves), slopes))


def test_what_needs_a_gradient_may_change_from_call_to_call(device):
    """Grad mode, the arguments that are leaves, the parameters that are learnt, and those that are asked for."""
    robot = zoo_robot(device)
    inputs = state(robot, (2,))
    others = zoo_robot(device).learn("mass", "com")
    leaves = [x.clone().requires_grad_() for x in inputs]
    parameters = [others.mass, others.com]
    value = others.forward_dynamics(*leaves)
    everything = gradients(value, [*leaves, *parameters])
    for _ in range(AGAIN):
        plain = robot.forward_dynamics(*inputs)
        assert not plain.requires_grad
        assert torch.equal(plain, value)
        with torch.no_grad():
            assert not robot.forward_dynamics(*leaves).requires_grad
        for chosen in ([1], [0, 2], [4], [0, 1, 2, 3]):
            mixed = [leaves[k] if k in chosen else x for k, x in enumerate(inputs)]
            result = others.forward_dynamics(*mixed)
            assert torch.equal(result, value)
            wanted = [*(leaves[k] for k in chosen if k < 4), *parameters]
            expected = [*(everything[k] for k in chosen if k < 4), *everything[4:]]
            assert all(map(torch.equal, gradients(result, wanted), expected))
        result = others.forward_dynamics(*leaves)
        for k in (0, 3, 5):
            (found,) = gradients(result, [[*leaves, *parameters][k]], retain_graph=True)
            assert torch.equal(found, everything[k])


def test_parameters_for_each_row_and_shared_ones_in_turn(device):
    robot = zoo_robot(device)
    inputs = state(robot, (3,))
    value = robot.forward_dynamics(*inputs)
    for _ in range(AGAIN):
        assert torch.equal(robot.forward_dynamics(*inputs), value)
        shared = robot.mass
        robot.mass = shared.expand(3, -1) * torch.tensor([[1.0], [2.0], [3.0]], dtype=shared.dtype, device=device)
        together = robot.forward_dynamics(*inputs)
        torch.testing.assert_close(together[0], value[0], rtol=1e-13, atol=1e-13)
        assert (together[1] - value[1]).abs().max() > 1e-3
        robot.mass = shared


def test_results_and_gradients_may_be_edited(device):
    """In place, before the backward pass and after it: no other result or gradient changes."""
    robot = zoo_robot(device).learn("mass")
    leaves = [x.requires_grad_() for x in state(robot, (2,))]
    value = robot.forward_dynamics(*leaves).detach()
    expected = gradients(robot.forward_dynamics(*leaves), [*leaves, robot.mass])
    for _ in range(AGAIN):
        result = robot.forward_dynamics(*leaves)
        assert torch.equal(result, value)
        with torch.no_grad():
            result.zero_()
        found = gradients(result, [*leaves, robot.mass])
        for number, gradient in enumerate(found):
            assert torch.equal(gradient, expected[number])
            gradient.fill_(torch.nan)
        scaled = robot.forward_dynamics(*leaves).mul_(2.0)
        for one, other in zip(gradients(scaled, [*leaves, robot.mass]), expected, strict=True):
            assert torch.equal(one, 2.0 * other)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_position_and_quaternion_are_tensors_of_their_own(batch, device):
    """In memory, in what is edited, in what gets a gradient; they are those of the matrix."""
    robot = zoo_robot(device).learn("joint_placement")
    q = state(robot, batch)[0].requires_grad_()
    leaves = [q, robot.joint_placement]
    matrix = robot.forward_kinematics_matrix(q, "link5")
    expected = gradients(matrix[..., :3, 3], leaves)
    for _ in range(AGAIN):
        position, quaternion = robot.forward_kinematics(q, "link5")
        both = torch.cat([position, quaternion], dim=-1).detach()
        assert torch.equal(position, matrix[..., :3, 3])
        assert position.shape == (*batch, 3)
        assert quaternion.shape == (*batch, 4)
        assert position.is_contiguous()
        assert quaternion.is_contiguous()
        assert position.untyped_storage().data_ptr() != quaternion.untyped_storage().data_ptr()
        for options in ({"retain_graph": True}, {"create_graph": True}):
            for one, other in zip(gradients(position, leaves, **options), expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        seeds = [torch.ones_like(position), torch.ones_like(quaternion)]
        together = torch.autograd.grad([position, quaternion], leaves, seeds, retain_graph=True)
        apart = [torch.autograd.grad(part.sum(), leaves, retain_graph=True) for part in (position, quaternion)]
        for found, one, other in zip(together, *apart, strict=True):
            torch.testing.assert_close(found, one + other, rtol=1e-12, atol=1e-12)
        with torch.no_grad():
            position.zero_()
            assert torch.equal(quaternion, both[..., 3:])
            assert torch.equal(torch.cat(robot.forward_kinematics(q, "link5"), dim=-1), both)


MISUSES = [
    (lambda r, q, v: r.inverse_dynamics(q.tolist(), v, v), "q is a list"),
    (lambda r, q, v: r.inverse_dynamics(q.numpy(), v, v), "q is a ndarray"),
    (lambda r, q, v: r.inverse_dynamics(q, v, v[:, 1:]), "qdd has shape"),
    (lambda r, q, v: r.inverse_dynamics(q, v.float(), v), "qd is torch.float32 on cpu"),
    (lambda r, q, v: r.inverse_dynamics(q, v.to("meta"), v), "qd is on the device meta"),
    (lambda r, q, v: r.inverse_dynamics(q, v, v[:1].expand(3, -1)), "batch shapes don't fit"),
    (lambda r, q, v: r.integrate(q, v.tolist(), 0.1), "qd is a list"),
    (lambda r, q, v: r.integrate(q, v.numpy(), 0.1), "qd is a ndarray"),
    (lambda r, q, v: r.integrate(q, v.int(), 0.1), "qd is torch.int32 on cpu"),
    (lambda r, q, v: r.integrate(q, v.float(), 0.1), "qd is torch.float32 on cpu"),
    (lambda r, q, v: r.integrate(q, v, 0.1) if r.float() else None, "q is torch.float64 on cpu, but the robot"),
    (lambda r, q, v: r.forward_kinematics(q) if r.float() else None, "q is torch.float64 on cpu, but the robot"),
]


@pytest.mark.parametrize(("call", "message"), MISUSES)
def test_misuse_after_good_calls(call, message):
    robot = zoo_robot("cpu")
    q, v, _, _ = state(robot, (2,))
    with torch.no_grad():
        for _ in range(AGAIN):
            robot.inverse_dynamics(q, v, v)
            robot.integrate(q, v, 0.1)
            robot.forward_kinematics(q)
        with pytest.raises(sim.ModelError, match=message):
            call(robot, q, v)


@pytest.mark.parametrize("learnt", [False, True])
def test_parameters_changed_in_place_into_others(learnt):
    """The same tensor object with another shape, then another precision."""
    robot = zoo_robot("cpu")
    if learnt:
        robot.learn("com")
    inputs = state(robot, (2,))
    for _ in range(AGAIN):
        good = robot.forward_dynamics(*inputs).detach()
    kept = robot.com.data
    robot.com.data = kept[:-1]
    refuses(lambda: robot.forward_dynamics(*inputs), "parameter 'com'", "shape")
    robot.com.data = kept.float()
    refuses(lambda: robot.forward_dynamics(*inputs), "parameter 'com'", "torch.float32")
    robot.com.data = kept.clone()
    assert torch.equal(robot.forward_dynamics(*inputs).detach(), good)
    robot.com.data = 2.0 * kept
    assert not torch.equal(robot.forward_dynamics(*inputs).detach(), good)


def test_defaults_of_torch_change_nothing(device):
    """Default dtype and default device, set when the graph is made."""
    q, qd, qdd, _ = (x.requires_grad_() for x in state(zoo_robot(device), (2,)))
    result = zoo_robot(device).inverse_dynamics(q, qd, qdd)
    slopes = gradients(result, [q, qd, qdd])
    robot = zoo_robot(device)
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float16)
        for _ in range(AGAIN):
            with torch.device("meta"):
                found = robot.inverse_dynamics(q, qd, qdd)
            assert torch.equal(found, result)
            seed = torch.arange(1.0, 1.0 + found.numel(), dtype=found.dtype, device=device).reshape(found.shape).sin()
            with torch.device("meta"):
                each = torch.autograd.grad(found, [q, qd, qdd], seed)
            assert all(map(torch.equal, each, slopes))
    finally:
        torch.set_default_dtype(default)


def test_calls_of_one_robot_leave_nothing_in_another(device):
    """Two robots, and copies of one, with values of their own."""
    first = zoo_robot(device)
    inputs = state(first, (2,))
    second = zoo_robot(device)
    second.mass.mul_(2.0)
    expected = [robot.inverse_dynamics(*inputs) for robot in (first, second)]
    for _ in range(AGAIN):
        for robot, value in zip((first, second), expected, strict=True):
            assert torch.equal(robot.inverse_dynamics(*inputs), value)
    assert (expected[0] - expected[1]).abs().max() > 1.0


def test_a_model_without_links_is_refused():
    builder = sim.ModelBuilder()
    builder.add_ground()
    with raises_naming("the model has no link"):
        sim.torch.Robot(builder.finalize())


def test_a_robot_whose_joints_are_all_fixed(device):
    """A sensor head, say: poses, energies and results without columns, from the first call to those by graphs."""
    builder = sim.ModelBuilder()
    for name, parent in (("mast", "world"), ("camera", "mast")):
        builder.add_link(name, mass=2.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(f"{name}_bolts", "fixed", child=name, parent=parent, position=(0.0, 0.0, 0.5))
    robot = sim.torch.Robot(builder.finalize("float64", collapse_fixed=False), device=device)
    none = torch.zeros(3, 0, dtype=torch.float64, device=device, requires_grad=True)
    for _ in range(AGAIN):
        position, _ = robot.forward_kinematics(none, "camera")
        assert position.tolist() == [[0.0, 0.0, 1.0]] * 3
        assert robot.jacobian(none, "camera").shape == (3, 6, 0)
        assert robot.mass_matrix(none).shape == robot.mass_matrix_inverse(none).shape == (3, 0, 0)
        for result in (robot.inverse_dynamics(none, none, none), robot.forward_dynamics(none, none, none)):
            assert result.shape == (3, 0)
            assert torch.autograd.grad(result.sum(), none)[0].shape == (3, 0)
        assert robot.integrate(none, none).shape == robot.difference(none, none).shape == (3, 0)


def test_a_default_device_that_warp_lacks_is_refused():
    with torch.device("meta"), pytest.raises(sim.ModelError, match="there is no 'meta' on this machine"):
        sim.torch.Robot("scenes/robots/arm.urdf")


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_a_constant_in_a_tensor_or_array_is_read_at_each_call(kind, device):
    robot = zoo_robot(device)
    q, qd, _, _ = state(robot, (2,))
    dt = kind([0.1])
    for value in (0.1, 0.1, 0.1, 0.1, 0.5):
        dt[0] = value
        # Of float32 for torch, whose nearest number is another.
        assert torch.equal(robot.integrate(q, qd, dt), robot.integrate(q, qd, float(dt[0])))
        assert torch.equal(robot.integrate(q, qd, dt.reshape(())), robot.integrate(q, qd, float(dt[0])))


def test_each_time_is_the_same_call(device):
    """Calls with a time of their own were prepared anew each, which took ten times as long."""
    robot = zoo_robot(device)
    q, qd, _, _ = state(robot, (2,))
    for dt in np.linspace(-1.0, 2.0, 7):
        expected = sim.integrate(robot.model, q.cpu().numpy(), qd.cpu().numpy(), dt).numpy()
        np.testing.assert_allclose(robot.integrate(q, qd, dt).cpu(), expected, atol=1e-14)
    assert len(robot._calls.signatures) == len(robot._calls.methods) == 1


@pytest.mark.parametrize(
    ("dt", "message"),
    [
        (torch.tensor(0.1, requires_grad=True), "dt requires a gradient, but a call takes it as a constant"),
        (torch.tensor([0.1, 0.2]), r"dt has shape \(2,\); expected one number"),
        (np.zeros((0, 1)), r"dt has shape \(0, 1\); expected one number"),
        ("0.1", "dt is '0.1'; expected one number"),
        (None, "dt is None; expected one number"),
        (float("nan"), "dt is nan; expected one number"),
    ],
)
def test_a_constant_is_one_number(dt, message):
    robot = zoo_robot("cpu")
    q, qd, _, _ = state(robot, (2,))
    with pytest.raises(sim.ModelError, match=message):
        robot.integrate(q, qd, dt)
    if isinstance(dt, torch.Tensor) and dt.requires_grad:
        with torch.no_grad():
            assert robot.integrate(q, qd, dt).isfinite().all()


def test_a_constant_can_not_be_batched_by_vmap():
    robot = zoo_robot("cpu")
    q, qd, _, _ = state(robot, (2,))
    with raises_naming("dt", "torch.func.vmap"):
        torch.func.vmap(lambda dt: robot.integrate(q, qd, dt))(torch.tensor([0.1, 0.2]))
