"""Arguments of the wrong kind are refused in words; threads and forked processes get what a single one gets."""

import os
import signal
import threading

import numpy as np
import pytest
import torch

import sim
import sim.torch

DT = 1.0 / 240.0


def box(dtype: str = "float64") -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.8)
    builder.add_box(half_extents=(0.1, 0.12, 0.08), mass=1.3, position=(0.0, 0.0, 0.09))
    return builder.finalize(dtype)


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_worlds", 1.5), ("num_worlds", "2"), ("threads", 0), ("dt", "a"), ("dt", None), ("contact", {"sweeps": 3})],
)
def test_simulator_arguments(name, value):
    arguments = {"dt": DT, "device": "cpu", name: value}
    with pytest.raises(sim.ModelError, match=f"Simulator: {name} is"):
        sim.Simulator(box(), **arguments)


def test_a_builder_is_no_model():
    with pytest.raises(sim.ModelError, match="model is a ModelBuilder"):
        sim.Simulator(sim.ModelBuilder(), DT)  # type: ignore[arg-type]


def test_numbers_of_numpy():
    simulator = sim.Simulator(box(), np.float32(DT), np.int64(2), "cpu")
    assert simulator.step(simulator.initial_state()).q.shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "value"), [("sweeps", 2.5), ("sweeps", "3"), ("max_contacts", 1.5), ("max_contacts", -1)]
)
def test_options(name, value):
    with pytest.raises(sim.ModelError, match=f"ContactOptions: {name} is"):
        sim.ContactOptions(**{name: value})


class TestTensors:
    """A PyTorch tensor is an array like any other, but a gradient is never lost in silence."""

    wanting = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True)

    def test_plain(self):
        simulator = sim.Simulator(box(), DT, 2, "cpu")
        state = simulator.state(torch.tensor(simulator.model.q0))
        assert simulator.step(state, torch.zeros(2, 6)).q.shape == (2, 7)

    def test_requiring_a_gradient(self):
        simulator = sim.Simulator(box(), DT, 2, "cpu")
        state = simulator.initial_state()
        with pytest.raises(sim.ModelError, match="tau is a PyTorch tensor that requires a gradient"):
            simulator.step(state, self.wanting)
        with pytest.raises(sim.ModelError, match="qd is a PyTorch tensor"):
            simulator.state(simulator.model.q0, self.wanting)
        with pytest.raises(sim.ModelError, match="parameter 'friction' is a PyTorch tensor"):
            simulator.set_parameter("friction", torch.ones(2, requires_grad=True))

    @pytest.mark.parametrize("value", [np.zeros(7), [0.0] * 7, None])
    def test_other_things_for_tensors(self, value):
        simulator = sim.Simulator(box(), DT, 1, "cpu")
        good = torch.zeros(1, 6, dtype=torch.float64)
        with pytest.raises(sim.ModelError, match="q is a .*expected a torch.Tensor"):
            sim.torch.rollout(simulator, value, good, steps=1)
        with pytest.raises(sim.ModelError, match="tau is a .*expected a torch.Tensor"):
            sim.torch.rollout(simulator, torch.zeros(1, 7, dtype=torch.float64), good, [[0.0] * 6])


@pytest.mark.parametrize("tau", ["a", [[1.0, 2.0], [3.0]], np.zeros((2, 6), complex)])
def test_no_numbers(tau):
    simulator = sim.Simulator(box(), DT, 2, "cpu")
    with pytest.raises(sim.ModelError, match="tau is not an array of numbers"):
        simulator.rollout(simulator.initial_state(), tau)


def test_no_steps():
    """A rollout of no steps is its initial state, and its gradient the loss's own."""
    simulator = sim.Simulator(box(), DT, 2, "cpu")
    trajectory = simulator.rollout(simulator.initial_state(), np.zeros((0, 2, 6)))
    assert trajectory.steps == 0
    gradients = trajectory.backward(np.ones((2, 7)), parameters=["friction"])
    np.testing.assert_array_equal(gradients.q.numpy(), np.ones((2, 7)))
    np.testing.assert_array_equal(gradients.parameters["friction"], np.zeros(2))
    assert gradients.tau is not None
    assert gradients.tau.shape == (0, 2, 6)


def test_one_name_instead_of_a_list():
    simulator = sim.Simulator(box(), DT, 1, "cpu")
    with pytest.raises(sim.ModelError, match="give a list of names"):
        simulator.rollout(simulator.initial_state(), steps=1).backward(parameters="friction")


def gradient(simulator: sim.Simulator, speed: float) -> tuple[float, float]:
    model = simulator.model
    trajectory = simulator.rollout(simulator.state(model.q0, np.full(model.nv, speed)), steps=30)
    gradients = trajectory.backward(np.ones((simulator.num_worlds, model.nq)), parameters=["friction"])
    return float(trajectory.q.numpy()[-1].sum()), float(gradients.q.numpy().sum())


@pytest.mark.parametrize("shared", [False, True])
def test_threads(shared):
    """Simulators may be used from several threads, one simulator too."""
    model = box()
    common = sim.Simulator(model, DT, 4, "cpu", threads=1)
    found: dict[int, set] = {}

    def work(number: int) -> None:
        own = common if shared else sim.Simulator(model, DT, 4, "cpu", threads=1)
        found[number] = {gradient(own, 0.1 * number) for _ in range(10)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {gradient(common, 0.1 * number)} for number in range(4)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process():
    """The threads of a simulator don't exist in a forked process; it makes its own instead of waiting for them."""
    simulator = sim.Simulator(box(), DT, 64, "cpu", threads=2)
    assert len(simulator.shards) > 1
    simulator.rollout(simulator.initial_state(), steps=3)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        simulator.rollout(simulator.initial_state(), steps=3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
