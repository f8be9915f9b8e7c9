"""The lever of a hit on the ground is that of the touch, at any phase of it within the step."""

import numpy as np
import pytest

import sim


def add_flat_ground(builder: sim.ModelBuilder, kind: str) -> None:
    if kind == "plane":
        builder.add_ground(surface=sim.Surface(friction=1.0, restitution=1.0))
    elif kind == "box":
        builder.add_geometry(
            "world",
            "box",
            size=(40, 40, 0.5),
            position=(0, 0, -0.5),
            surface=sim.Surface(friction=1.0, restitution=1.0),
            name="ground",
        )
    else:
        builder.add_heightfield(
            np.zeros((5, 5)), half_extents=(8.0, 8.0), surface=sim.Surface(friction=1.0, restitution=1.0), name="ground"
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ground", ["plane", "box", "heightfield"])
def test_ball_that_sticks_keeps_five_sevenths_of_its_speed(ground, seed):
    """A sphere that sticks in its hit rolls on with v = 5/7 v0 and w r = v at any phase, radius and bounce."""
    rng = np.random.default_rng(seed)
    radius, down, bounce = rng.uniform(0.02, 0.1), rng.uniform(2.0, 12.0), (0.0, 0.7, 0.0)[seed]
    b = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    add_flat_ground(b, ground)
    b.add_sphere(radius=radius, mass=0.05, surface=sim.Surface(friction=1.0, restitution=bounce), name="ball")
    model, phases, dt = b.finalize("float64"), 8, 1.0 / 240.0
    simulator = sim.Simulator(model, dt=dt, num_worlds=phases, device="cpu")
    q, qd = np.tile(model.q0, (phases, 1)), np.tile([1.4, 0.0, -down, 0.0, 0.0, 0.0], (phases, 1))
    q[:, 2] = radius + 0.1 + down * dt * np.arange(phases) / phases
    steps = int(0.1 / (down * dt)) + 6
    last = simulator.rollout(simulator.state(q, qd), steps=steps).qd.numpy()[-1]
    np.testing.assert_allclose(last[:, 0], 1.0, rtol=1e-3)
    np.testing.assert_allclose(last[:, 4] * radius, 1.0, rtol=1e-3)


@pytest.mark.parametrize("height", [0.073, 0.07012, 0.07, 0.0695])
def test_gradients_through_a_hit(height):
    """The adjoint agrees with central differences for a ball ahead of its touch, close to it, at it and behind it."""
    b = sim.ModelBuilder()
    b.add_ground(surface=sim.Surface(friction=0.3))
    b.add_sphere(radius=0.07, mass=0.4, surface=sim.Surface(friction=0.9), name="ball")
    simulator = sim.Simulator(b.finalize("float64"), dt=1.0 / 240.0, device="cpu")
    state = simulator.state([0.1, 0.2, height, 0.1, 0.2, 0.3, 0.9], [2.0, 0.5, -3.0, 1.0, -2.0, 0.5])
    report = sim.check_gradients(simulator, state, steps=2)
    assert report.entries
    assert not report.wrong, str(report)
