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
    builder.add_ground(surface=sim.Surface(friction=FRICTION))
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=2.0, position=(0.0, 0.0, 0.05))
    contact = sim.PgsContact(sweeps=600)
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
            radius=0.1,
            mass=0.3,
            position=(0.2 * k, 0.0, 0.0),
            surface=sim.Surface(friction=0.0, restitution=np.sqrt(restitution)),
        )
    contact = sim.PgsContact(sweeps=2000, restitution_threshold=0.0)
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


@pytest.mark.parametrize(
    ("kind", "friction", "restitution", "most"),
    [("sphere", 0.5, 1.0, 1e-3), ("box", 0.5, 0.7, 1e-3), ("capsule", 1.0, 0.5, 1e-3), ("box", 1.0, 1.0, 0.36)],
)
def test_how_much_energy_a_hit_may_add(kind, friction, restitution, most):
    """Bodies thrown at the ground; docs/contact/surfaces.md says what Newton's restitution adds to oblique hits.

    A velocity belongs to the middle of its step, half a step before the position that it leads to.
    """
    count, dt, rng = 40, 1 / 240, np.random.default_rng(2)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground(surface=sim.Surface(friction=friction))
    size = {
        "sphere": {"radius": 0.1},
        "box": {"half_extents": (0.1, 0.15, 0.2)},
        "capsule": {"radius": 0.05, "half_length": 0.2},
    }[kind]
    add = getattr(builder, f"add_{kind}")
    add(**size, mass=1.0, surface=sim.Surface(friction=1.0, restitution=restitution), position=(0.0, 0.0, 0.6))
    model = builder.finalize("float64")
    q = np.repeat(model.q0[None], count, axis=0)
    turns = rng.normal(size=(count, 4))
    q[:, 3:] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
    qd = rng.normal(size=(count, 6)) * [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    simulator = sim.Simulator(model, dt, count, "cpu")
    states = simulator.rollout(simulator.state(q, qd), steps=240)
    q, qd = states.q.numpy().reshape(-1, 7), states.qd.numpy().reshape(-1, 6)
    qd[:, 2] -= G * dt / 2
    total = (sim.kinetic_energy(model, q, qd).numpy() + sim.potential_energy(model, q).numpy()).reshape(-1, count)
    gain = (np.diff(total, axis=0) / total[0]).max()
    assert gain < most
    assert most < 0.1 or gain > 0.1
    assert (total[-1] < total[0]).any()
