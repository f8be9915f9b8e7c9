"""Worlds whose states aren't finite: reported where it begins, and left out of gradients on request."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from sim.simulation.engine.recording import Recording
from sim.simulation.engine.reports import LateReport
from sim.simulation.engine.settings import Settings
from tests.errors import quietly, refuses

DT, WORLDS, STEPS = 1.0 / 240.0, 4, 12


def top(dtype: str = "float64") -> sim.Model:
    """A top on a spherical joint and a ball above the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    link = builder.add_link("top", mass=1.0, inertia=(0.1, 0.1, 0.1), com=(0.0, 0.0, -0.3))
    builder.add_joint("pivot", "spherical", child=link, position=(0.0, 0.0, 2.0))
    builder.add_sphere(radius=0.1, mass=0.5, position=(1.0, 0.0, 0.1))
    return builder.finalize(dtype)


def simulators(device: str, **options) -> sim.Simulator:
    return sim.Simulator(top(), DT, WORLDS, device, **options)


def spoiled(simulator: sim.Simulator, world: int, step: int) -> np.ndarray:
    """Joint forces of which one is NaN."""
    tau = np.random.default_rng(0).normal(size=(STEPS, WORLDS, simulator.model.nv)) * 0.1
    tau[step, world, 1] = np.nan
    return tau


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("interval", [1, 5])
def test_first_bad_state_of_each_world(device, interval, warm_start):
    simulator = simulators(device, contact=sim.PgsContact(warm_start=warm_start))
    tau = spoiled(simulator, 2, 7)
    tau[3, 1] = np.inf
    state = simulator.initial_state()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trajectory = simulator.rollout(state, tau, checkpoint_interval=interval)
    assert simulator.bad_worlds == {1: 4, 2: 8}
    assert np.isnan(trajectory.final_state.q.numpy()[2, :4]).all()  # a quaternion keeps NaN
    with warnings.catch_warnings(record=True) as later:
        warnings.simplefilter("always")
        simulator.rollout(state, steps=3)
    # To see at once what went wrong on CUDA would be to wait for the device.
    first, second = (caught, later) if device == "cpu" else (later, caught)
    (warning,) = (each for each in first if each.category is sim.NotFiniteWarning)
    text = str(warning.message)
    assert text.startswith("rollout of 12 steps" if device == "cpu" else "an earlier rollout of 12 steps")
    assert "the state after step 3 is not finite in world 1; 2 of 4 worlds went bad" in text
    assert warning.filename == __file__
    assert not second
    assert simulator.bad_worlds == {}


def test_numbers_that_follow_a_rollout_are_told_once_they_have_arrived(monkeypatch):
    """As on CUDA, but in the CPU's memory."""
    event = SimpleNamespace(is_complete=False)
    monkeypatch.setattr(wp, "Event", lambda device: event)
    monkeypatch.setattr(wp, "record_event", lambda event: None)
    monkeypatch.setattr(wp, "empty", lambda shape, dtype, device, pinned: wp.zeros(shape, dtype=dtype, device=device))
    device = wp.get_device("cpu")
    report = LateReport(device, 3)
    bad, fine = (wp.array(numbers, dtype=wp.int32, device=device) for numbers in ([-1, 7, 4], [-1, -1, -1]))
    none, many = (wp.array(numbers, dtype=wp.int32, device=device) for numbers in ([0, 0, 0], [0, 9, 2]))
    assert report.arrived() is None
    report.send(bad, many, 20)
    report.send(fine, none, 5)  # not before those before it have been told
    assert report.arrived() is None
    event.is_complete = True
    simulator = sim.Simulator(top(), DT, 3, "cpu")
    (first, state), (second, contacts) = simulator.engine.reports.problems_of(*report.arrived(), "an earlier rollout")
    assert (first, second) == (sim.NotFiniteWarning, sim.ContactOverflowWarning)
    assert state.startswith("an earlier rollout of 20 steps: the state after step 3 is not finite in world 2; 2 of 3")
    assert contacts.startswith("an earlier rollout: 9 contacts exceeded max_contacts in world 1")
    assert report.arrived() is None
    report.send(fine, many, 5)
    assert (
        simulator.engine.reports.problems_of(*report.arrived(), "an earlier rollout") == []
    )  # contacts have been told of
    np.testing.assert_array_equal(simulator.largest_contact_overflow, [0, 9, 2])


def test_bad_beginnings(device):
    """Of Warp arrays, which nobody looks at before; a quaternion of zeros is no orientation."""
    simulator = simulators(device)
    q = np.tile(simulator.model.q0, (WORLDS, 1))
    q[1, 5], q[3, :4] = np.nan, 0.0
    given = wp.array(q, dtype=wp.float64, device=device)
    quietly(simulator.rollout, simulator.state(given), steps=2)
    assert simulator.bad_worlds == {1: 0, 3: 1}


def test_numpy_states_are_refused():
    simulator = simulators("cpu")
    q, qd = np.tile(simulator.model.q0, (WORLDS, 1)), np.zeros((WORLDS, simulator.model.nv))
    wrong, zero = q.copy(), q.copy()
    wrong[1, 5], zero[3, :4], qd[2, 1] = np.nan, 0.0, np.inf
    refuses(lambda: simulator.state(wrong), "q", "finite", "world 1", "joint 'sphere_0_free'")
    refuses(lambda: simulator.state(zero), "q", "zero", "quaternion", "world 3", "joint 'pivot'")
    refuses(lambda: simulator.state(q, qd), "qd", "finite", "(2, 1)")


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("interval", [1, 5])
def test_bad_worlds_left_out(device, interval, warm_start):
    """Of the others the gradients are those of a simulator without the bad world, up to the order of sums."""
    contact = sim.PgsContact(warm_start=warm_start)
    simulator = simulators(device, contact=contact)
    others = sim.Simulator(simulator.model, DT, WORLDS - 1, device, contact)
    tau, kept = spoiled(simulator, 2, 7), [0, 1, 3]
    weights = np.random.default_rng(1).normal(size=(WORLDS, simulator.model.nq))
    names = ["mass", "friction", "gravity"]
    trajectory = simulator.rollout(simulator.initial_state(), tau, checkpoint_interval=interval)
    plain = trajectory.backward(weights, parameters=names)
    assert np.isnan(plain.parameters["mass"]).any()
    found = trajectory.backward(weights, parameters=names, leave_out_bad_worlds=True)
    expected = others.rollout(others.initial_state(), tau[:, kept]).backward(weights[kept], parameters=names)
    for name in names:
        np.testing.assert_allclose(found.parameters[name], expected.parameters[name], rtol=1e-12, atol=1e-14)
    for name in ("q", "qd"):
        values = getattr(found, name).numpy()
        assert (values[2] == 0.0).all()
        np.testing.assert_array_equal(values[kept], getattr(expected, name).numpy())
    assert (found.tau.numpy()[:, 2] == 0.0).all()
    np.testing.assert_array_equal(found.tau.numpy()[:, kept], expected.tau.numpy())


def test_worlds_whose_gradient_alone_is_bad_are_left_out(device):
    simulator = simulators(device)
    trajectory = simulator.rollout(simulator.initial_state(), spoiled(simulator, 0, 0)[1:])
    weights = np.ones((WORLDS, simulator.model.nq))
    weights[3] = np.inf
    assert not np.isfinite(trajectory.backward(weights, parameters=["mass"]).parameters["mass"]).all()
    found = trajectory.backward(weights, parameters=["mass"], leave_out_bad_worlds=True)
    assert np.isfinite(found.parameters["mass"]).all()
    assert (found.q.numpy()[3] == 0.0).all()
    assert (found.q.numpy()[:3] != 0.0).any(axis=1).all()


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
@pytest.mark.parametrize("warm_start", [False, True])
def test_worlds_are_left_out_on_the_device_where_they_share_nothing(warm_start, monkeypatch):
    """As on CUDA: nobody waits to know which they are, and their gradients are as if they had been left out before."""
    simulator = simulators("cpu", contact=sim.PgsContact(warm_start=warm_start))
    tau = spoiled(simulator, 2, 7)
    trajectory = simulator.rollout(simulator.initial_state(), tau)
    weights = np.random.default_rng(1).normal(size=(WORLDS, simulator.model.nq))
    weights[3] = np.inf
    expected = trajectory.backward(weights, leave_out_bad_worlds=True)
    monkeypatch.setattr(Settings, "keeps_on_device", True)
    monkeypatch.setattr(Recording, "_last_bad_steps", lambda recording: pytest.fail("read on the host"))
    found = trajectory.backward(weights, leave_out_bad_worlds=True)
    assert (found.tau.numpy()[:, [2, 3]] == 0.0).all()
    for name in ("q", "qd", "tau"):
        np.testing.assert_array_equal(getattr(found, name).numpy(), getattr(expected, name).numpy())
    if warm_start:
        np.testing.assert_array_equal(found.impulses.numpy(), expected.impulses.numpy())


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
def test_shared_parameters_in_torch(device):
    simulator = simulators(device)
    m = simulator.model
    target = torch.device(wp.device_to_torch(simulator.device))
    q = torch.tensor(np.tile(m.q0, (WORLDS, 1)), device=target)
    qd = torch.zeros(WORLDS, m.nv, dtype=torch.float64, device=target)
    tau = torch.tensor(spoiled(simulator, 2, 7), device=target)

    def gradient(leave_out: bool) -> torch.Tensor:
        mass = torch.tensor(m.parameters["mass"], device=target, requires_grad=True)
        end, _ = sim.torch.rollout(simulator, q, qd, tau, leave_out_bad_worlds=leave_out, mass=mass)
        assert list(simulator.bad_worlds) == [2]
        end[-1, [0, 1, 3]].sum().backward()
        assert mass.grad is not None
        return mass.grad

    assert not gradient(False).isfinite().all()
    assert gradient(True).isfinite().all()
    assert (gradient(True) != 0.0).any()


def test_reports_are_those_of_the_layout_that_a_call_had():
    """Frictions of each world in one call, of a simulator whose worlds share theirs: another set of arrays."""
    simulator = simulators("cpu", check_finite=False)
    q, qd = (torch.as_tensor(x) for x in simulator.initial_state().numpy())
    friction = torch.full((WORLDS, simulator.model.num_geometries), 0.5, dtype=torch.float64)
    found = []
    for leave_out, worst in ((False, None), (True, None), (True, 2)):
        tau = torch.as_tensor(np.nan_to_num(spoiled(simulator, 2, 7)))
        if worst is not None:
            tau[7, worst, 1] = torch.nan
        tau.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last = sim.torch.rollout(
                simulator, q, qd, tau, friction=friction, leave_out_bad_worlds=leave_out
            )[0][-1]  # fmt: skip
            last.sum().backward()
        found.append(tau.grad)
        assert (simulator.solver_iterations > 0).any()
    torch.testing.assert_close(found[1], found[0], rtol=0.0, atol=0.0)
    assert found[0].abs().amax(dim=(0, 2)).min() > 0.0
    others = [0, 1, 3]
    torch.testing.assert_close(found[2][:, others], found[0][:, others], rtol=0.0, atol=0.0)
    assert not found[2][:, 2].any()


def test_a_gradient_that_is_finite_raises_nothing_whatever_the_layout():
    simulator = simulators("cpu", check_finite=True)
    q, qd = (torch.as_tensor(x) for x in simulator.initial_state().numpy())
    friction = torch.full((WORLDS, simulator.model.num_geometries), 0.5, dtype=torch.float64, requires_grad=True)
    sim.torch.rollout(simulator, q, qd, steps=3, friction=friction)[0][-1].sum().backward()
    assert torch.isfinite(friction.grad).all()
