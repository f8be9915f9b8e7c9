"""Worlds that diverge are bad from the first state beyond a limit on, as those whose state isn't finite are."""

import numpy as np
import pytest

import sim
from tests.errors import raises_naming
from tests.simulation.differences import METHODS

DT, STEPS, WORLDS = 0.01, 60, 5


def flyer(dtype: str) -> sim.Model:
    """A box without weight and a wheel."""
    scene = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 1.0))
    scene.add_link("wheel", mass=1.0, inertia=(0.5, 0.5, 0.5))
    scene.add_joint("axle", "revolute", child="wheel", axis=(0.0, 0.0, 1.0), position=(3.0, 0.0, 0.0))
    return scene.finalize(dtype)


def first_beyond(values: np.ndarray, limit: float) -> int | None:
    """The number of the first state beyond a limit."""
    found = np.flatnonzero(np.abs(values) > limit)
    return int(found[0]) if len(found) else None


@pytest.mark.parametrize("interval", [1, 7])
@pytest.mark.parametrize("integrator", ["euler", "rk4"])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_state_beyond_a_limit(seed, integrator, interval, device):
    """Straight flight, q = v t, and a wheel under a torque, qd = tau t / I."""
    rng = np.random.default_rng(seed)
    dtype = "float32" if seed % 2 else "float64"
    law = "mujoco" if integrator == "rk4" else "hard"
    model, limits = flyer(dtype), (rng.uniform(1.5, 3.0), rng.uniform(20.0, 40.0))
    simulator = sim.Simulator(model, DT, WORLDS, device, METHODS[law](), integrator=integrator, state_limit=limits)
    axis, sign = rng.integers(3, size=WORLDS), rng.choice([-1.0, 1.0], WORLDS)
    speed, torque = rng.uniform(0.0, 10.0, WORLDS), rng.uniform(-100.0, 100.0, WORLDS)
    qd, tau = np.zeros((WORLDS, model.nv)), np.zeros((STEPS, WORLDS, model.nv))
    qd[np.arange(WORLDS), axis] = sign * speed
    tau[:, :, 6] = torque
    expected, t = {}, DT * np.arange(STEPS + 1)
    for world in range(WORLDS):
        spin = torque[world] / 0.5 * t
        angle = np.cumsum(spin) * DT if integrator == "euler" else 0.5 * torque[world] / 0.5 * t**2
        start = 1.0 if axis[world] == 2 else 0.0
        beyond = [
            first_beyond(start + sign[world] * speed[world] * t, limits[0]),
            first_beyond(angle, limits[0]),
            first_beyond(spin, limits[1]),
        ]
        if any(state is not None for state in beyond):
            expected[world] = min(state for state in beyond if state is not None)
    state = simulator.state(model.q0, qd)
    if expected and not simulator.device.is_cuda:
        with pytest.warns(sim.NotFiniteWarning, match="beyond state_limit"):
            trajectory = simulator.rollout(state, tau, checkpoint_interval=interval)
    else:
        trajectory = simulator.rollout(state, tau, checkpoint_interval=interval)
    assert simulator.bad_worlds == expected
    assert len(expected) > 0
    seed_gradient = np.ones((WORLDS, model.nq))
    gradient = trajectory.backward(seed_gradient, leave_out_bad_worlds=True).tau.numpy()
    for world in range(WORLDS):
        assert (gradient[:, world] == 0.0).all() == (world in expected)


def test_defaults_leave_orbits_wheels_and_bullets_alone(device):
    """A satellite 42,000 km away at 3 km/s, a wheel after a year of driving, a turbine at 3,000 turns a second."""
    model = flyer("float64")
    simulator = sim.Simulator(model, DT, 3, device)
    q, qd = np.tile(model.q0, (3, 1)), np.zeros((3, model.nv))
    q[0, 0], qd[0, 0] = 4.2e7, 1.1e4
    q[1, 7], qd[1, 6] = 9e7, 100.0
    qd[2, 6] = 2.0 * np.pi * 3000.0
    simulator.rollout(simulator.state(q, qd), steps=10)
    assert simulator.bad_worlds == {}
    with np.errstate(over="ignore"):
        for entry, value in ((0, 1e9), (1, -2e8)):
            far = q.copy()
            far[entry, 0] = value
            if simulator.device.is_cuda:
                simulator.rollout(simulator.state(far, qd), steps=2)
            else:
                with pytest.warns(sim.NotFiniteWarning, match="the initial state"):
                    simulator.rollout(simulator.state(far, qd), steps=2)
            assert simulator.bad_worlds == {entry: 0}
    free = sim.Simulator(model, DT, 3, device, state_limit=(np.inf, np.inf))
    free.rollout(free.state(1e12 * (q > 1e7) + q, qd), steps=2)
    assert free.bad_worlds == {}
    assert free.replace(2).state_limit == (np.inf, np.inf)


@pytest.mark.parametrize(
    "wrong", [1e8, (1.0,), (1.0, -1.0), (np.nan, 1.0), ("a", 1.0), (1.0, 2.0, 3.0), None, (0.0, 1.0)]
)
def test_limits_are_two_positive_numbers(wrong):
    with raises_naming("state_limit is", "positive"):
        sim.Simulator(flyer("float64"), DT, device="cpu", state_limit=wrong)
