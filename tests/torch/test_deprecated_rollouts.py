"""Deprecated names of the rollout: they warn, and return what the new call does."""

import pytest
import torch

import sim
from tests.torch.test_rollout_result import scene


@pytest.mark.parametrize("activations", [False, True])
def test_they_warn_and_return_the_same(activations):
    simulator, given = scene(activations)
    sensors = sim.torch.Sensors(simulator)
    q, qd = given.pop("q"), given.pop("qd")
    with pytest.warns(DeprecationWarning, match="contact_forces=True") as warned:
        forces = sim.torch.rollout_with_contact_forces(simulator, q, qd, **given)
    assert [each.filename for each in warned] == [__file__]
    with pytest.warns(DeprecationWarning, match="sensors=sensors") as warned:
        readings = sim.torch.rollout_with_sensors(sensors, q, qd, **given)
    assert [each.filename for each in warned] == [__file__]
    expected = sim.torch.rollout(simulator, q, qd, **given, contact_forces=True, sensors=sensors)
    states = expected[: 3 if activations else 2]
    for found, last in ((forces, expected.contact_force), (readings, expected.readings)):
        assert len(found) == len(states) + 1
        for ours, theirs in zip(found, (*states, last), strict=True):
            assert torch.equal(ours, theirs)


def test_they_refuse_what_the_new_call_refuses():
    simulator, given = scene()
    without = sim.Simulator(simulator.model, dt=0.005, device="cpu")
    with pytest.warns(DeprecationWarning, match="contact_forces=True"), pytest.raises(sim.ModelError):
        sim.torch.rollout_with_contact_forces(without, **given)
