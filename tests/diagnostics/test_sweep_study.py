"""sim.study_sweeps: its figures are those of rollouts with as many sweeps, of the world asked for."""

import dataclasses

import numpy as np
import pytest

import sim
from tests.actuators.worlds import leg
from tests.simulation.worlds import DT, hopper, inputs


def test_figures_of_a_world():
    """World 1 of a float32 simulator with a friction of its own; what it says of 6 sweeps from zero and warm."""
    model = hopper("float32")
    friction = np.repeat(model.parameters["friction"][None], 3, axis=0) * np.array([[1.0], [0.5], [0.8]])
    options = sim.PgsContact(friction="pyramid", tolerance=1e-2)
    simulator = sim.Simulator(model, DT, 3, "cpu", options, {"friction": friction})
    q, qd, tau = inputs(model, 12)
    study = sim.study_sweeps(simulator, simulator.state(q, qd), tau, sweeps=[6], reference=300, world=1)
    assert [(row.sweeps, row.warm_start) for row in study.results] == [(6, False), (6, True)]
    assert (study.reference.sweeps, study.reference.position, study.reference.gradient) == (300, 0.0, 0.0)

    start = [np.asarray(value, np.float32).astype(float) for value in (q[1], qd[1], tau[:, 1])]
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(1, size)) for size in (model.nq, model.nv)]
    last = {}
    for sweeps, warm_start in ((300, False), (6, False), (6, True)):
        contact = dataclasses.replace(options, sweeps=sweeps, warm_start=warm_start, tolerance=0.0)
        alone = sim.Simulator(
            dataclasses.replace(model, dtype="float64"), DT, device="cpu", contact=contact,
            parameters={"friction": friction[1]},
        )  # fmt: skip
        trajectory = alone.rollout(alone.state(*start[:2]), start[2])
        last[sweeps, warm_start] = trajectory.q.numpy()[:, 0], float(alone.residual[0])
        gradients = trajectory.backward(*weights)
        last[sweeps, warm_start] += (np.append(gradients.q.numpy(), gradients.qd.numpy()),)
        # Of a step the distances at its start are found: the deepest of all states.
        distances = [alone.contacts(trajectory.state(step)).distance for step in range(13)]
        last[sweeps, warm_start] += (max(0.0, -min(distance.min(initial=0.0) for distance in distances)),)
    for row in study.results:
        q_all, residual, gradient, overlap = last[row.sweeps, row.warm_start]
        right = last[300, False][2]
        assert row.residual == residual > 0.0
        assert row.position == np.abs(q_all[-1] - last[300, False][0][-1]).max() > 0.0
        assert row.drift == np.abs(q_all[6:] - q_all[-1]).max()
        assert row.penetration == overlap
        np.testing.assert_allclose(row.gradient, np.linalg.norm(gradient - right) / np.linalg.norm(right), rtol=1e-12)


def test_begins_with_the_states_of_actuators():
    builder = sim.ModelBuilder()
    builder.add_link("cart", mass=1.0, inertia=np.eye(3))
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
    builder.add_actuator("rail", "torque", activation=sim.Activation("filter", time_constant=10.0))
    simulator = sim.Simulator(builder.finalize("float64"), DT, contact=sim.PgsContact(), device="cpu")
    state = simulator.state([0.0], [0.0], act=[50.0])
    study = sim.study_sweeps(simulator, state, steps=2, sweeps=[1])
    alone = simulator.rollout(state, steps=2).q.numpy()[:, 0, 0]
    assert study.reference.drift == pytest.approx(alone[2] - alone[1], rel=1e-12)
    assert study.reference.drift > 1e-3


def test_begins_with_broken_constraints():
    """A load whose hook is broken falls, in the world studied."""
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 1), name="load")
    builder.add_weld_constraint("hook", "world", "load", break_force=100.0)
    simulator = sim.Simulator(builder.finalize("float64"), DT, 2, "cpu", sim.PgsContact())
    state = dataclasses.replace(simulator.initial_state(), broken=np.array([[0.0], [1.0]]))
    held, falls = (sim.study_sweeps(simulator, state, steps=4, sweeps=[5], world=k).reference.drift for k in (0, 1))
    assert held < 1e-6
    assert falls == pytest.approx(9.81 * DT**2 * (3 + 4), rel=1e-9)


def test_more_sweeps_leave_less_and_a_warm_start_too():
    """A leg of servos comes to stand."""
    model = leg().finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu", contact=sim.PgsContact())
    control = np.tile([0.36, -0.36], (60, 1))
    study = sim.study_sweeps(simulator, simulator.initial_state(), control=control, sweeps=[2, 50])
    few, few_warm, many, _ = study.results
    assert many.position < 0.2 * few.position
    assert many.gradient < 0.2 * few.gradient
    assert few_warm.position < few.position
    lines = str(study).splitlines()
    assert len(lines) == 1 + 5 + 1
    assert lines[2].split()[:2] == ["2", "warm"]


def test_a_world_that_is_not_there():
    simulator = sim.Simulator(hopper(), DT, 2, "cpu", sim.PgsContact())
    for world in (2, -1, 0.5):
        with pytest.raises(sim.ModelError, match=f"study_sweeps: .*world {world}"):
            sim.study_sweeps(simulator, simulator.initial_state(), steps=2, world=world)
