"""Friction's threshold over many slopes at once, impacts of bodies that touch, and a scene's energy balance."""

import numpy as np
import pytest

import sim
from scenes.physics.scene import G
from scenes.physics.sliding import FRICTION

DT = 1e-3


def test_static_threshold_of_a_block():
    """Forty slopes beside each other: below the friction angle the block stays, above it slides; within 0.5 %."""
    ratios = np.concatenate([np.linspace(0.5, 0.995, 20), np.linspace(1.005, 2.0, 20)])
    angles = np.arctan(ratios * FRICTION)
    gravity = G * np.stack([np.sin(angles), np.zeros(40), -np.cos(angles)], axis=1)
    builder = sim.ModelBuilder()
    builder.add_ground(friction=FRICTION)
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=2.0, position=(0.0, 0.0, 0.05))
    contact = sim.ContactOptions(solver="pgs", sweeps=600)
    simulator = sim.Simulator(builder.finalize("float64"), DT, 40, "cpu", contact, {"gravity": gravity})
    steps = 300
    speed = simulator.rollout(simulator.initial_state(), steps=steps).final_state.qd.numpy()[:, 0]
    expected = np.maximum(G * (np.sin(angles) - FRICTION * np.cos(angles)), 0.0) * steps * DT
    np.testing.assert_allclose(speed, expected, atol=1e-7)
    assert expected[20] > 1e-3


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_impact_on_a_row_of_touching_balls(restitution):
    """All contacts of a step are one problem: each leaves at -e times its approach (Newton's law), momentum stays.

    Newton's cradle needs balls that meet one after the other: it has gaps.
    """
    count, speed = 5, 1.0
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for k in range(count):
        builder.add_sphere(
            radius=0.1, mass=0.3, position=(0.2 * k, 0.0, 0.0), friction=0.0, restitution=np.sqrt(restitution)
        )
    contact = sim.ContactOptions(solver="pgs", sweeps=2000, restitution_threshold=0.0)
    simulator = sim.Simulator(builder.finalize("float64"), DT, device="cpu", contact=contact)
    qd = np.zeros((count, 6))
    qd[0, 0] = speed
    after = simulator.step(simulator.state(simulator.model.q0, qd.reshape(-1))).qd.numpy().reshape(count, 6)
    # Rows of the approach of neighbours; their velocity after the impact is -e times that before.
    rows = np.diff(np.eye(count), axis=0)
    before = rows @ qd[:, 0]
    impulse = np.linalg.solve(rows @ rows.T, -(1 + restitution) * before)
    assert (impulse > 0.0).all()
    np.testing.assert_allclose(after[:, 0], qd[:, 0] + rows.T @ impulse, atol=1e-9)
    np.testing.assert_allclose(after[:, 0].sum(), speed, atol=1e-12)
    np.testing.assert_allclose(after[:, 1:], 0.0, atol=1e-12)
