"""Explicit damping of tendons: the warning comes where a wheel on it gets faster, and nowhere else."""

import warnings

import numpy as np
import pytest

import sim
from tests.simulation.differences import METHODS

DT, INERTIA, COEFFICIENT = 0.01, 0.02, 0.5


def wheel(kd: float, damping: float = 0.0) -> sim.Model:
    """A wheel that a velocity drive turns by a tendon."""
    builder = sim.ModelBuilder()
    builder.add_link("wheel", mass=1.0, inertia=(INERTIA, INERTIA, INERTIA))
    builder.add_joint("axle", "revolute", parent="world", child="wheel", axis=(0, 0, 1))
    builder.add_fixed_tendon("belt", {"axle": COEFFICIENT}, spring=sim.Spring(damping=damping))
    builder.add_actuator(None, "velocity", tendon="belt", name="drive", gains=sim.Gains(kd=kd), gear=2.0)
    return builder.finalize("float64")


def speed_after(simulator: sim.Simulator, steps: int) -> float:
    state = simulator.state(simulator.model.q0, np.ones(1))
    return float(simulator.rollout(state, steps=steps).final_state.qd.numpy()[0, 0])


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("share", [1.98, 2.02])
def test_the_bound_is_where_it_becomes_unstable(law, share):
    damping = share * INERTIA / (DT * COEFFICIENT**2)
    model = wheel(kd=0.75 * damping / 2.0**2, damping=0.25 * damping)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        simulator = sim.Simulator(model, DT, contact=METHODS[law]())
    assert speed_after(simulator, 10) == pytest.approx((1.0 - share) ** 10, rel=1e-9)
    texts = [str(each.message) for each in said if each.category is sim.StabilityWarning]
    assert len(texts) == (share > 2.0)
    for text in texts:
        assert "tendon 'belt'" in text
        assert " 2.02 times " in text
        assert "a time step below 0.005 s" in text
    if share > 2.0:
        halved = sim.Simulator(model, 0.0049, contact=METHODS[law]())
        assert 0.0 < speed_after(halved, 10) < 1.0
