"""Gradients in forces on links: a closed form, and central differences through a motion with contact."""

import numpy as np
import pytest

import sim
from sim.viewer import force_gradients
from tests.errors import raises_naming
from tests.viewer.worlds import arm_and_box

DT = 1 / 240


def test_of_a_free_body():
    """A force in step k moves the body by dt^2 / m in each of the steps from then on."""
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=4.0, position=(0, 0, 1))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT)
    trajectory = simulator.rollout(simulator.initial_state(), tau=np.zeros((5, 1, 6)))
    found = force_gradients(trajectory, [[0, 1.0, 0, 0, 0, 0, 0]])
    np.testing.assert_allclose(found[:, 0, 0, 1], DT**2 / 4.0 * np.arange(5, 0, -1), rtol=1e-12)
    np.testing.assert_allclose(found[..., [0, 2]], 0.0, atol=1e-15)


def test_against_central_differences():
    """A box slides over the ground, an arm moves; the loss depends on the positions and velocities of all."""
    model = arm_and_box("float64")
    rng = np.random.default_rng(5)
    steps, step, worlds = 20, 7, 2
    simulator = sim.Simulator(model, DT, worlds)
    qd = np.tile([0.5, 0.3, 0.0, 1.0, 0.4, 0, 0, 0, 0], (worlds, 1))
    qd[1] *= -0.7
    state = simulator.state(model.q0, qd)
    weights = rng.normal(size=(worlds, model.nq)), rng.normal(size=(worlds, model.nv))
    tau = np.zeros((steps, worlds, model.nv))
    trajectory = simulator.rollout(state, tau=tau)
    found = force_gradients(trajectory, *weights)
    rows = sim.jacobian(model, trajectory.q[step], model.link_names).numpy()[:, :, 3:]

    def loss(world, link, force):
        pushed = tau.copy()
        pushed[step, world] = rows[world, link].T @ force
        final = simulator.rollout(state, tau=pushed).final_state
        return sum((w * x).sum() for w, x in zip(weights, final.numpy(), strict=True))

    for world, link in [(0, "slider"), (1, "slider"), (0, "box"), (1, "box")]:
        direction = rng.normal(size=3)
        # 1e-2 N: a shorter difference drowns in the rounding of twenty steps.
        up, down = (loss(world, model.link(link), sign * 1e-2 * direction) for sign in (1, -1))
        expected = found[step, world, model.link(link)] @ direction
        assert (up - down) / 2e-2 == pytest.approx(expected, rel=1e-6)
        assert abs(expected) > 1e-5


def test_needs_joint_forces_and_all_states():
    model = arm_and_box()
    simulator = sim.Simulator(model, DT)
    with raises_naming("tau"):
        force_gradients(simulator.rollout(simulator.initial_state(), steps=2))
    tau = np.zeros((4, 1, model.nv))
    with pytest.raises(sim.ModelError, match="does not store all its states"):
        force_gradients(simulator.rollout(simulator.initial_state(), tau, checkpoint_interval=2))
