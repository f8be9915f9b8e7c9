"""States as a step returns them: their Warp arrays are made when somebody asks for them."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import sim
from tests.errors import refuses


def pendulum(dtype="float64"):
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.2))
    builder.add_link("arm", mass=0.3, inertia=0.01 * np.eye(3))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0, 1, 0))
    builder.add_actuator("hinge", gear=2.0)
    return builder.finalize(dtype)


@pytest.fixture
def simulator(device):
    return sim.Simulator(pendulum(), 2e-3, num_worlds=3, device=device, threads=1)


def after(simulator, steps=3):
    state = simulator.initial_state()
    for _ in range(steps):
        state = simulator.step(state)
    return state


def test_its_arrays_are_the_same_whenever_they_are_asked_for(simulator):
    state = after(simulator)
    numbers = state.numpy()
    assert isinstance(state.q, wp.array)
    assert state.q is state.q
    assert state.qd is state.qd
    np.testing.assert_array_equal(state.q.numpy(), numbers[0])
    np.testing.assert_array_equal(state.qd.numpy(), numbers[1])


def test_what_is_written_to_it_is_what_the_next_step_begins_with(simulator):
    written, made = after(simulator), after(simulator)
    numbers = made.q.numpy().copy()
    numbers[1, 2] += 0.5
    written.q.assign(numbers)
    expected = simulator.step(simulator.state(numbers, made.qd)).numpy()
    for got, want in zip(simulator.step(written).numpy(), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, replace, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_it_holds_the_same(simulator, again):
    state = after(simulator)
    for got, want in zip(again(state).numpy(), state.numpy(), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_gradient_is_asked_for_in_it(simulator):
    state = after(simulator)
    state.q.requires_grad = True
    with wp.Tape() as tape:
        last = simulator.step(state)
    last.q.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(state.q.grad.numpy()[:, :3], 1.0)  # in free flight


@pytest.mark.parametrize("given", ["list", "one for all worlds", "numpy", "warp"])
def test_inputs_of_a_step_are_taken_in_every_form(simulator, given):
    numbers = np.full((3, 1), 0.4)
    control = {
        "list": numbers.tolist(),
        "one for all worlds": [0.4],
        "numpy": numbers[:, ::-1],
        "warp": wp.array(numbers, dtype=wp.float64, device=simulator.device),
    }[given]
    state = after(simulator)
    got = simulator.step(state, tau=np.ones(simulator.model.nv), control=control)
    tau, control = np.ones((1, 3, simulator.model.nv)), np.full((1, 3, 1), 0.4)
    expected = simulator.rollout(state, tau, control=control).final_state
    np.testing.assert_allclose(got.qd.numpy(), expected.qd.numpy(), rtol=1e-13)


class Unreadable:
    """What PyTorch and Warp have on a GPU: NumPy can't read it."""

    def __init__(self, numbers):
        self._numbers = np.asarray(numbers)
        self.shape, self.ndim = self._numbers.shape, self._numbers.ndim

    def __array__(self, *arguments, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class Tensor(Unreadable):
    def cpu(self):
        return self._numbers


class Array(Unreadable):
    device = SimpleNamespace(is_cuda=True)

    def numpy(self):
        return self._numbers


@pytest.mark.parametrize("given", [Tensor, Array])
def test_arrays_on_a_gpu_are_copied_to_the_host_where_numbers_are_read(simulator, given):
    model = simulator.model
    state = simulator.state(given(model.q0), given(np.full(model.nv, 0.1)))
    expected = simulator.state(model.q0, np.full(model.nv, 0.1))
    tau, control = np.ones((2, 3, model.nv)), np.full((2, 3, 1), 0.4)
    simulator.parameters["damping"] = given(np.full(model.nv, 0.2))
    simulator.parameters.update({"damping": given(np.full(model.nv, 0.3))}, worlds=given([1]))
    got = simulator.rollout(state, given(tau), control=given(control))
    assert simulator.parameters["damping"][:, 0].tolist() == [0.2, 0.3, 0.2]
    again = simulator.rollout(expected, tau, control=control)
    np.testing.assert_array_equal(got.q.numpy(), again.q.numpy())
    np.testing.assert_array_equal(
        got.backward(given(np.ones(got.q.shape))).q.numpy(), again.backward(np.ones(got.q.shape)).q.numpy()
    )
    poses = sim.forward_kinematics(model, given(np.tile(model.q0, (2, 1))))
    np.testing.assert_array_equal(poses.numpy(), sim.forward_kinematics(model, np.tile(model.q0, (2, 1))).numpy())


def test_that_of_another_model_is_refused(simulator, device):
    other = sim.Simulator(pendulum("float32"), 2e-3, num_worlds=3, device=device)
    refuses(lambda: simulator.step(after(other)), "state.q", "dtype", "float32", "float64")
    fewer = sim.Simulator(pendulum(), 2e-3, num_worlds=2, device=device)
    refuses(lambda: simulator.step(after(fewer)), "state.q", "shape", "(2, 8)", "(3, 8)")


def test_an_attribute_that_there_is_not(simulator):
    with pytest.raises(AttributeError, match="'State' object has no attribute 'qdd'"):
        _ = after(simulator).qdd
