"""The receding horizon: it follows what is wanted, in a plant that isn't its model, and a quadruped keeps standing."""

import functools

import numpy as np
import pytest
import torch

import sim
import sim.optimise as so
from scenes import quadruped
from tests.errors import raises_naming, refuses
from tests.optimise.problems import riccati, sliders, swing


def test_of_a_linear_system_is_the_regulator():
    """With a long horizon its law is that of the infinite one, whose matrix solves Riccati's equation (SciPy)."""
    from scipy.linalg import solve_discrete_are

    simulator = sliders(damping=0.3)
    costs = [so.Posture([0.0, 0.0], 3.0), so.Velocity(weight=0.5), so.Effort(0.1)]
    mpc = so.MPC(so.Problem(simulator, 160, costs))
    eye = np.eye(6)
    many = sim.Simulator(simulator.model, simulator.dt, 6, device="cpu", threads=1)
    after = many.step(many.state(eye[:, :2], eye[:, 2:4]), eye[:, 4:]).numpy()
    A, B = np.split(np.concatenate(after, axis=1).T, [4], axis=1)
    Q, R = np.diag([3.0, 3.0, 0.5, 0.5]), 0.1 * np.eye(2)
    P = solve_discrete_are(A, B, Q, R)
    gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    for x in np.random.default_rng(0).standard_normal((4, 4)):
        np.testing.assert_allclose(mpc(x[:2], x[2:]), -gain @ x, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(mpc.gains[0], -gain, rtol=1e-6, atol=1e-9)
        present = simulator.state(x[:2], x[2:])
        np.testing.assert_allclose(mpc(present.q, present.qd), -gain @ x, rtol=1e-6, atol=1e-9)
    cost, controls, _ = riccati(A, B, Q, R, Q, x, 160)
    assert mpc.cost == pytest.approx(cost, rel=1e-9)
    np.testing.assert_allclose(mpc.plan, controls, rtol=1e-6, atol=1e-9)


def test_swings_a_heavier_pendulum_up_and_holds_it():
    """Its model weighs a tenth less than the plant, and the plant is pushed when it stands."""
    ahead = swing(limit=3.0)
    costs = [so.Posture([np.pi], 1.0), so.Velocity(weight=0.05), so.Effort(1e-2), so.Posture([np.pi], 50.0, at=-1)]
    problem = so.Problem(ahead.simulator, 40, costs, hold=2, q0=[0.0], limits=(-3.0, 3.0))
    mpc = so.MPC(problem, np.full((40, 1), 0.5), iterations=2)
    plant = sim.Simulator(ahead.model, 0.02, device="cpu", threads=1)
    plant.parameters["mass"] = 1.1 * plant.parameters["mass"]
    plant.parameters["inertia"] = 1.1 * plant.parameters["inertia"]
    state, angles = plant.state([0.0]), []
    for moment in range(60):
        q, qd = state.numpy()
        if moment == 40:
            state = plant.state(q, qd + 1.5)
            q, qd = state.numpy()
        control = mpc(q[0], qd[0])
        assert abs(control[0]) <= 3.0
        state = plant.rollout(state, np.repeat(control[None], 2, axis=0)).final_state
        angles.append(float(state.q.numpy()[0, 0]))
    # It may have gone either way round, and the model's mass is wrong.
    upright = np.abs(np.abs(angles) - np.pi)
    assert upright[39] < 0.05
    assert upright[40:].max() > 0.03
    assert upright[-1] < 0.01


def test_gains_are_those_of_the_last_iteration():
    """For another state than was expected: not those that were prepared for that one."""
    costs = [so.Posture([np.pi], 1.0), so.Velocity(weight=0.05), so.Effort(1e-2)]
    problem = so.Problem(swing(limit=3.0).simulator, 30, costs, hold=2)
    mpc = so.MPC(problem, np.full((30, 1), 0.5), iterations=5)
    mpc([0.0], [0.0])
    mpc.prepare()
    prepared = mpc.gains
    mpc([1.2], [-2.0])
    assert np.abs(mpc.gains - prepared).max() > 0.1
    np.testing.assert_array_equal(mpc.gains, mpc._search.law.gains[:, 0])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, functools.partial(torch.device, "meta")])
def test_controls_in_any_mode_of_pytorch(mode):
    """A robot's loop rarely wants gradients of its own, but the controller does."""
    costs = [so.Posture([0.5, 0.2], 50.0), so.Velocity(weight=5.0), so.Effort(0.05)]

    def controls() -> np.ndarray:
        mpc = so.MPC(so.Problem(sliders(), 12, costs))
        return np.array([mpc([0.1 * k, 0.0], [0.0, 0.0]) for k in range(3)])

    expected = controls()
    assert np.abs(expected).min() > 0.1
    with mode():
        np.testing.assert_array_equal(controls(), expected)


def test_quadruped_follows_a_height():
    """Four feet on the ground, servos; the plant has a step of a quarter. The trunk is to move down and up."""
    scene = quadruped.build("float32", servo=True)
    model = scene.model
    simulator = sim.Simulator(model, 0.02, device="cpu", threads=1)
    weight, speed = np.full(model.nv, 0.01), np.full(model.nv, 0.01)
    weight[:6], speed[:6] = 200.0, 0.05
    posture = so.Posture(np.tile(scene.q0, (13, 1)), weight)
    stand = scene.q0[7:]
    mpc = so.MPC(so.Problem(simulator, 12, [posture, so.Velocity(weight=speed), so.Effort(0.001, stand)], q0=scene.q0),
                 np.tile(stand, (12, 1)))  # fmt: skip
    plant = sim.Simulator(model, 0.005, device="cpu", threads=1)
    state, errors = plant.state(scene.q0), []
    for moment in range(50):
        times = 0.02 * (moment + np.arange(13))
        posture.target[:, 2] = scene.q0[2] - 0.02 + 0.02 * np.cos(2.0 * np.pi * times)
        q, qd = state.numpy()
        errors.append(abs(q[0, 2] - posture.target[0, 2]))
        state = plant.rollout(state, control=np.repeat(mpc(q[0], qd[0])[None], 4, axis=0)).final_state
        mpc.prepare()
    assert max(errors[10:]) < 0.008
    assert np.abs(state.q.numpy()[0, :2] - scene.q0[:2]).max() < 0.01


def test_what_is_refused():
    refuses(lambda: so.MPC(swing(controls=so.Knots(5))), "MPC", "Knots")
    refuses(lambda: so.MPC(swing(constraints=[so.Constraint(lambda q, qd, u: q)])), "MPC", "constraints")
    refuses(lambda: so.MPC(swing(), iterations=0), "iterations", 0)
    mpc = so.MPC(swing())
    with raises_naming("gains"):
        _ = mpc.gains
    for state, message in (
        (([0.0, 1.0], [0.0]), r"MPC: q has shape \(2,\); expected \(1,\)"),
        (([0.0], [[0.0], [0.0]]), r"MPC: qd has shape \(2, 1\); expected \(1,\), or \(1, 1\)"),
        (([0.0], torch.zeros(1, requires_grad=True)), "MPC: qd is a PyTorch tensor that requires a gradient"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            mpc(*state)
