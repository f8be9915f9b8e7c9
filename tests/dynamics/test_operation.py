"""What all functions share: arguments are checked and never written, results are fresh, gradients add up."""

import numpy as np
import pytest
import torch
import warp as wp
from numpy.testing import assert_allclose, assert_array_equal

import sim
from sim.dynamics.differentiable_op import WORLDS_AT_A_TIME
from tests.dynamics.states import random_state
from tests.dynamics.trees import build, zoo
from tests.errors import raises_naming, refuses

WORLDS = 2


@pytest.fixture(scope="module")
def model() -> sim.Model:
    return build(zoo(), "float64")


# Every function as an operation on a model and (q, qd, qdd, wrench).
OPERATIONS = {
    "forward_kinematics": lambda m, q, qd, qdd, wrench: sim.forward_kinematics(m, q),
    "link_velocities": lambda m, q, qd, qdd, wrench: sim.link_velocities(m, q, qd),
    "jacobian": lambda m, q, qd, qdd, wrench: sim.jacobian(m, q, "link5"),
    "inverse_dynamics": sim.inverse_dynamics,
    "forward_dynamics": sim.forward_dynamics,
    "mass_matrix": lambda m, q, qd, qdd, wrench: sim.mass_matrix(m, q),
    "integrate": lambda m, q, qd, qdd, wrench: sim.integrate(m, q, qd, 0.1),
    "difference": lambda m, q, qd, qdd, wrench: sim.difference(
        m, q, sim.integrate(m, q.numpy(), qd.numpy(), 0.3).numpy()
    ),
}
every_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())


def arrays(model: sim.Model, device: str, requires_grad: bool = True, seed: int = 0) -> list[wp.array]:
    state = random_state(model, seed, WORLDS)
    return [wp.array(a, dtype=model.scalar, device=device, requires_grad=requires_grad) for a in state]


def gradients(inputs: list[wp.array]) -> list[np.ndarray]:
    return [array.grad.numpy().copy() for array in inputs]


@every_operation
def test_arguments_are_not_written_and_results_are_fresh(operation, model, device):
    m = sim.DeviceModel(model, device)
    inputs = arrays(model, device)
    before = [array.numpy().copy() for array in inputs]
    parameters = {name: array.numpy().copy() for name, array in m.parameters.items()}
    with wp.Tape() as tape:
        first = operation(m, *inputs)
        kept = first.numpy().copy()
        second = operation(m, *inputs)
        other = operation(m, *arrays(model, device, seed=1))
    assert len({first.ptr, second.ptr, other.ptr} | {array.ptr for array in inputs}) == 3 + len(inputs)
    first.grad.fill_(1.0)
    tape.backward()
    assert_array_equal(first.numpy(), kept)
    assert_array_equal(second.numpy(), kept)
    assert not np.array_equal(other.numpy(), kept)
    for array, value in zip(inputs, before, strict=True):
        assert_array_equal(array.numpy(), value)
    for name, value in parameters.items():
        assert_array_equal(m.parameters[name].numpy(), value)


@every_operation
def test_gradients_add_up_over_uses_and_backward_passes(operation, model, device):
    m = sim.DeviceModel(model, device, requires_grad=["joint_placement"])
    inputs = arrays(model, device)

    def backward(uses: int) -> None:
        with wp.Tape() as tape:
            results = [operation(m, *inputs) for _ in range(uses)]
        for result in results:
            result.grad.fill_(1.0)
        tape.backward()

    backward(1)
    once = [*gradients(inputs), m.gradient("joint_placement")]
    assert max(np.abs(g).max() for g in once) > 1e-3
    backward(1)
    twice = [*gradients(inputs), m.gradient("joint_placement")]
    backward(2)
    four_times = [*gradients(inputs), m.gradient("joint_placement")]
    for one, two, four in zip(once, twice, four_times, strict=True):
        assert_allclose(two, 2.0 * one, rtol=1e-12, atol=1e-12)
        assert_allclose(four, 4.0 * one, rtol=1e-12, atol=1e-12)


def test_a_chain_of_operations_differentiates(model, device):
    """Two explicit Euler steps; the derivative along a random direction against central differences."""
    rng = np.random.default_rng(1)
    q, qd, tau, wrench = random_state(model, 0, WORLDS)
    directions = [rng.normal(size=a.shape) for a in (q, qd, tau, wrench)]
    m = sim.DeviceModel(model, device)

    def steps(q, qd, tau, wrench):
        for _ in range(2):
            acceleration = sim.forward_dynamics(m, q, qd, tau, wrench)
            q = sim.integrate(m, q, qd, 0.05)
            # The acceleration becomes the next velocity, to keep the chain to functions of this package.
            qd = acceleration
        return sim.forward_kinematics(m, q)

    inputs = [wp.array(a, dtype=wp.float64, device=device, requires_grad=True) for a in (q, qd, tau, wrench)]
    with wp.Tape() as tape:
        result = steps(*inputs)
    weight = rng.normal(size=result.shape)
    tape.backward(grads={result: wp.array(weight, dtype=wp.float64, device=device)})
    found = sum((array.grad.numpy() * d).sum() for array, d in zip(inputs, directions, strict=True))
    h = 1e-6

    def moved(by: float) -> float:
        shifted = [a + by * d for a, d in zip((q, qd, tau, wrench), directions, strict=True)]
        return float((steps(*shifted).numpy() * weight).sum())

    expected = (moved(h) - moved(-h)) / (2.0 * h)
    assert abs(expected) > 1e-3
    assert abs(found - expected) < 1e-6 * abs(expected)


@every_operation
def test_only_what_asks_for_a_gradient_gets_one(operation, model, device):
    inputs = arrays(model, device, requires_grad=False)
    with wp.Tape() as tape:
        result = operation(model, *inputs)
    assert not result.requires_grad
    assert not tape.launches
    q = wp.array(inputs[0].numpy(), dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        result = operation(model, q, *inputs[1:])
    result.grad.fill_(1.0)
    tape.backward()
    assert np.abs(q.grad.numpy()).max() > 1e-3
    assert all(array.grad is None for array in inputs)


def test_zero_on_the_tape_clears_the_gradients(model, device):
    inputs = arrays(model, device)
    m = sim.DeviceModel(model, device, requires_grad=["mass"])
    with wp.Tape() as tape:
        result = sim.inverse_dynamics(m, *inputs)
    result.grad.fill_(1.0)
    tape.backward()
    tape.zero()
    assert not any(gradient.any() for gradient in [*gradients(inputs), m.gradient("mass"), result.grad.numpy()])


def test_wrong_arguments_are_named(model, device):
    q, qd, qdd, wrench = random_state(model, 0, WORLDS)
    m = sim.DeviceModel(model, device)
    refuses(lambda: sim.forward_kinematics(m, q[:, 1:]), "q", "shape")
    refuses(lambda: sim.integrate(m, q, qd[:1]), "qd", "shape")
    refuses(lambda: sim.forward_dynamics(m, q, qd, qdd[:, 1:]), "tau", "shape")
    refuses(lambda: sim.inverse_dynamics(m, q, qd, qdd, wrench[..., :3]), "wrench", "shape")
    refuses(lambda: sim.mass_matrix(m, wp.array(q, dtype=wp.float32, device=device)), "float32")
    refuses(lambda: sim.jacobian(m, q, "nowhere"), "nowhere")
    refuses(lambda: sim.forward_kinematics(m, q, "link1"), "['link1']")
    refuses(lambda: sim.jacobian(m, q, "link1", "sideways"), "sideways")
    refuses(lambda: sim.jacobian(m, q, "link1", ["local"]), "reference", "['local']")
    refuses(lambda: sim.mass_matrix(m, "abc"), "q", "'abc'")
    refuses(lambda: sim.coriolis_forces(m, q, qd + 0j), "qd", "complex")
    refuses(lambda: sim.mass_matrix(m, torch.as_tensor(q).requires_grad_()), "q", "PyTorch", "gradient", "sim.torch")
    own = sim.DeviceModel(model, device, 3, {"mass": np.ones((3, model.num_links))})
    refuses(lambda: sim.mass_matrix(own, q), "'mass'", 3)


def test_dynamics_refuse_links_without_inertial_data(device):
    """Unless parameters give them a mass, as a simulator's may, too."""
    builder = sim.ModelBuilder()
    builder.add_link("hollow")
    builder.add_joint("hinge", "revolute", child="hollow")
    model = builder.finalize("float64")
    zero = np.zeros((1, 1))
    assert sim.forward_kinematics(model, zero).shape == (1, 1, 7)
    for call in (
        lambda: sim.forward_dynamics(model, zero, zero, zero),
        lambda: sim.inverse_dynamics(model, zero, zero, zero),
        lambda: sim.mass_matrix(model, zero),
    ):
        with raises_naming("'hollow'"):
            call()
    heavy = {"mass": np.ones(1), "inertia": 0.1 * np.eye(3)[None]}
    m = sim.DeviceModel(model, device, parameters=heavy)
    assert_allclose(sim.forward_dynamics(m, zero, zero, zero + 2.0).numpy(), 20.0)
    with raises_naming("'hollow'"):
        sim.Simulator(model, 0.01, device=device)
    assert sim.Simulator(model, 0.01, device=device, parameters=heavy).num_worlds == 1


def test_frames_of_the_world_and_of_merged_links(device):
    builder = sim.ModelBuilder()
    builder.add_frame("station", "world", position=(1.0, 2.0, 3.0))
    builder.add_link("arm", mass=1.0)
    builder.add_joint("hinge", "revolute", child="arm", axis=(0.0, 0.0, 1.0))
    builder.add_link("hand", mass=1.0)
    builder.add_joint("weld", "fixed", parent="arm", child="hand", position=(1.0, 0.0, 0.0))
    model = builder.finalize("float64")
    q, qd = np.array([[np.pi / 2]]), np.array([[2.0]])
    m = sim.DeviceModel(model, device)
    poses = sim.forward_kinematics(m, q, ["station", "hand"]).numpy()[0]
    assert_allclose(poses[:, :3], [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], atol=1e-15)
    velocities = sim.link_velocities(m, q, qd, ["station", "hand"]).numpy()[0]
    assert_allclose(velocities, [[0.0] * 6, [0.0, 0.0, 2.0, -2.0, 0.0, 0.0]], atol=1e-15)
    assert_array_equal(sim.jacobian(m, q, "station").numpy(), np.zeros((1, 6, 1)))


def test_a_world_without_links(device):
    builder = sim.ModelBuilder()
    builder.add_frame("station", "world", position=(1.0, 2.0, 3.0))
    model = builder.finalize("float64")
    m = sim.DeviceModel(model, device)
    nothing = np.zeros((2, 0))
    assert_allclose(sim.forward_kinematics(m, nothing, ["station"]).numpy()[:, 0, :3], [[1.0, 2.0, 3.0]] * 2)
    assert sim.forward_dynamics(m, nothing, nothing, nothing).shape == (2, 0)
    assert sim.mass_matrix(m, nothing).shape == (2, 0, 0)
    assert sim.integrate(m, nothing, nothing).shape == (2, 0)


@every_operation
@pytest.mark.parametrize("per_world", [False, True], ids=["shared", "per_world"])
def test_many_worlds_are_worked_on_in_parts(operation, per_world, model, device):
    """More worlds than are worked on at a time give what each of them gives alone, gradients included."""
    worlds = 2 * WORLDS_AT_A_TIME + 3
    state = random_state(model, 3, worlds)
    mass = np.tile(model.parameters["mass"], (worlds, 1)) * np.linspace(0.5, 2.0, worlds)[:, None]
    weight = np.random.default_rng(0).normal(size=10_000)

    def results(chosen: np.ndarray) -> list[np.ndarray]:
        own = {"mass": mass[chosen]} if per_world else {}
        m = sim.DeviceModel(model, device, len(chosen), own, requires_grad=["mass", "joint_placement"])
        inputs = [wp.array(a[chosen], dtype=model.scalar, device=device, requires_grad=True) for a in state]
        with wp.Tape() as tape:
            result = operation(m, *inputs)
        seed = np.tile(
            weight[: result.numpy()[0].size].reshape(1, *result.shape[1:]), (len(chosen), *[1] * (result.ndim - 1))
        )
        tape.backward(grads={result: wp.array(seed, dtype=model.scalar, device=device)})
        masses = m.gradient("mass")
        return [result.numpy().copy(), *gradients(inputs), *([masses] if per_world else [])]

    whole = results(np.arange(worlds))
    for chosen in (np.arange(5), np.arange(WORLDS_AT_A_TIME - 2, WORLDS_AT_A_TIME + 2), np.arange(worlds - 3, worlds)):
        for all_worlds, few in zip(whole, results(chosen), strict=True):
            assert_allclose(all_worlds[chosen], few, rtol=1e-12, atol=1e-12)


@every_operation
def test_any_leading_shape(operation, model, device):
    """A trajectory gives what its states give one by one, and a single state what a batch of one gives."""
    m = sim.DeviceModel(model, device)
    state = random_state(model, 3, 6)
    inputs = [wp.array(a.reshape(2, 3, *a.shape[1:]), dtype=model.scalar, device=device) for a in state]
    for array in inputs:
        array.requires_grad = True
    with wp.Tape() as tape:
        result = operation(m, *inputs)
    flat = [wp.array(a, dtype=model.scalar, device=device, requires_grad=True) for a in state]
    with wp.Tape() as flat_tape:
        expected = operation(m, *flat)
    assert_array_equal(result.numpy(), expected.numpy().reshape(2, 3, *expected.shape[1:]))
    for recorded, value in ((tape, result), (flat_tape, expected)):
        recorded.backward(grads={value: wp.ones_like(value)})
    for array, one in zip(inputs, flat, strict=True):
        assert_array_equal(array.grad.numpy().reshape(one.shape), one.grad.numpy())
    single = [wp.array(a[0], dtype=model.scalar, device=device) for a in state]
    assert_array_equal(operation(m, *single).numpy(), expected.numpy()[0])


def test_a_number_of_a_single_state_is_an_array_of_one(model):
    q, qd = model.q0, np.ones(model.nv)
    assert sim.kinetic_energy(model, q, qd).shape == (1,)
    assert sim.kinetic_energy(model, q, qd).numpy() == sim.kinetic_energy(model, [q], [qd]).numpy()
    with raises_naming("qd", "shape", "(2, 3)"):
        sim.kinetic_energy(model, np.tile(q, (2, 3, 1)), qd)
