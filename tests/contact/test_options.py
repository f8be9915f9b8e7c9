"""ContactOptions: what is refused, and room for contacts that runs out."""

import warnings

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, loose_box, run
from tests.simulation.differences import blocks


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("iterations", 0), ("friction", "ellipse"), ("solver", "guessed"), ("erp", -0.1), ("erp", 1.1), ("erp", np.nan),
        ("cfm", -1e-9), ("cfm", np.nan), ("margin", -0.1), ("max_correction", -1.0), ("restitution_threshold", -0.1),
        ("max_contacts", -1), ("tolerance", 1.0), ("tolerance", np.inf),
    ],
)  # fmt: skip
def test_refused(option, value):
    with pytest.raises(sim.ModelError, match=option):
        sim.ContactOptions(**{option: value})


def test_infinite_softness_is_refused():
    with pytest.raises(sim.ModelError, match="cfm is inf; it must be finite"):
        sim.ContactOptions(solver="pgs", cfm=np.inf)


def test_options_compare_by_what_they_say():
    """Whether softness was given as an array, a list or a tuple."""
    options = [sim.ContactOptions(law="mujoco", solref=kind([0.02, 1.0])) for kind in (np.array, list, tuple)]
    assert options[0] == options[1] == options[2]
    assert len(set(options)) == 1


def test_defaults_are_those_documented():
    options = sim.Simulator(loose_box(), DT).contact
    assert (options.sweeps, options.friction, options.erp, options.cfm) == (50, "cone", 1.0, 0.0)
    assert (options.law, options.impratio, options.noslip_iterations) == ("hard", 1.0, 0)


def test_overflow_is_counted():
    """A box needs four contacts: with room for two it tilts, and each step counts the two that were dropped.

    The first rollout that drops any warns, also after a look at the start. Later ones raise the largest number so far.
    """
    simulator = sim.Simulator(loose_box(), DT, 3, contact=sim.ContactOptions(max_contacts=2))
    with pytest.warns(sim.ContactOverflowWarning, match=r"10 contacts .* in world 0 .*max_contacts"):
        trajectory = simulator.rollout(simulator.initial_state(), steps=5)
    np.testing.assert_array_equal(simulator.contact_overflow, [10, 10, 10])
    assert np.isfinite(trajectory.q.numpy()).all()
    gradients = trajectory.backward(np.ones((3, 7)))
    assert np.isfinite(gradients.q.numpy()).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.rollout(simulator.initial_state(), steps=1)
        np.testing.assert_array_equal(simulator.contact_overflow, [2, 2, 2])
        np.testing.assert_array_equal(simulator.largest_contact_overflow, [10, 10, 10])
        simulator.rollout(simulator.initial_state(), steps=7)
    np.testing.assert_array_equal(simulator.largest_contact_overflow, [14, 14, 14])


def test_no_overflow_with_room_enough():
    for room in (4, None):
        _, _, simulator = run(loose_box(), 5 * DT, max_contacts=room)
        np.testing.assert_array_equal(simulator.contact_overflow, [0])
        assert len(blocks(simulator)) == 4


def test_no_contacts_at_all():
    """Room for none turns contact off: bodies fall through the ground."""
    q, _, simulator = run(loose_box(), 0.1, max_contacts=0)
    assert q[-1, 2] < 0.01
    assert not blocks(simulator)
    np.testing.assert_array_equal(simulator.contact_overflow, [0])
