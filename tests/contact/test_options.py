"""Contact methods: what is refused, and capacity for contacts that is exceeded."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, loose_box, run
from tests.errors import raises_naming
from tests.simulation.differences import blocks

HARD, MUJOCO, PGS, MODEL = sim.HardContact, sim.MujocoContact, sim.PgsContact, sim.ModelContact
# What each class has.
OPTIONS = {
    HARD: {
        "friction", "tolerance", "max_contacts", "iterations", "regularisation", "noslip", "recovery_time", "erp",
        "margin", "max_correction", "restitution_threshold", "gradient_smoothing", "warm_start",
    },
    MUJOCO: {
        "friction", "tolerance", "max_contacts", "iterations", "solref", "solimp", "impratio", "noslip_iterations",
        "noslip_tolerance",
    },
    PGS: {
        "friction", "tolerance", "max_contacts", "sweeps", "cfm", "adjoint", "erp", "margin", "max_correction",
        "restitution_threshold", "warm_start",
    },
}  # fmt: skip
OPTIONS[MODEL] = OPTIONS[MUJOCO]
# Values beyond the range of an option, in every class that has it.
REFUSED = [
    ("friction", "ellipse"), ("max_contacts", -1), ("max_contacts", 1.5), ("iterations", 0), ("sweeps", 0),
    ("erp", -0.1), ("erp", 1.1), ("erp", np.nan), ("erp", None), ("cfm", -1e-9), ("cfm", np.nan), ("cfm", np.inf),
    ("margin", -0.1), ("margin", None), ("max_correction", -1.0), ("restitution_threshold", -0.1),
    ("recovery_time", -1.0), ("recovery_time", "a"), ("regularisation", 0.0), ("regularisation", 1.1),
    ("tolerance", -1.0), ("warm_start", "off"), ("gradient_smoothing", -0.1), ("adjoint", "exact"),
    ("solref", (0.01, -1.0)), ("solref", (np.inf, 1.0)), ("solimp", (0.9, 0.95)),
    ("solimp", (0.9, 1.0, 0.1, 0.5, 2.0)), ("impratio", 0.0), ("impratio", np.inf), ("noslip_iterations", -1),
    ("noslip_tolerance", -1.0),
]  # fmt: skip


@pytest.mark.parametrize(("option", "value"), REFUSED)
@pytest.mark.parametrize("method", OPTIONS)
def test_refused(method, option, value):
    """An option that a class doesn't have can't be written; a value beyond its range is named."""
    wrong = sim.ModelError if option in OPTIONS[method] else TypeError
    with pytest.raises(wrong, match=f"{method.__name__}.*{option}"):
        method(**{option: value})


@pytest.mark.parametrize("method", OPTIONS)
def test_options_of_a_class(method):
    assert {field.name for field in dataclasses.fields(method)} == OPTIONS[method]


@pytest.mark.parametrize("method", [HARD, MUJOCO, MODEL])
@pytest.mark.parametrize("tolerance", [1.0, np.inf])
def test_a_tolerance_of_newtons_method_is_a_share(method, tolerance):
    with raises_naming(method.__name__, "tolerance", tolerance, "[0, 1)"):
        method(tolerance=tolerance)
    assert sim.PgsContact(tolerance=tolerance).tolerance == tolerance


def test_the_base_has_no_law():
    with pytest.raises(TypeError, match=r"sim\.HardContact"):
        sim.ContactMethod()
    with raises_naming("contact", "str", "sim.HardContact"):
        sim.Simulator(loose_box(), DT, contact="hard")


@pytest.mark.parametrize("method", OPTIONS)
def test_copies(method):
    one = method(friction="pyramid", tolerance=0.5)
    assert dataclasses.replace(one, tolerance=0.25) == method(friction="pyramid", tolerance=0.25)
    again = pickle.loads(pickle.dumps(one))
    assert (type(again), again) == (method, one)


def test_options_compare_by_what_they_say():
    """Whether softness was given as an array, a list or a tuple."""
    options = [sim.MujocoContact(solref=kind([0.02, 1.0])) for kind in (np.array, list, tuple)]
    assert options[0] == options[1] == options[2]
    assert len(set(options)) == 1


def test_defaults_are_those_documented():
    hard, pgs, mujoco = sim.Simulator(loose_box(), DT).contact, sim.PgsContact(), sim.MujocoContact()
    assert hard == sim.HardContact()
    assert (hard.friction, hard.tolerance, hard.erp, hard.corrections) == ("cone", 0.0, 1.0, (0.2, 0.01))
    assert (pgs.sweeps, pgs.cfm, pgs.adjoint, pgs.corrections) == (50, 0.0, "unrolled", (1.0, 1.0))
    assert (mujoco.friction, mujoco.impratio, mujoco.noslip_iterations) == ("cone", 1.0, 0)
    assert sim.HardContact(max_correction=0.5).corrections == (0.5, 0.5)


def test_overflow_is_counted():
    """A box needs four contacts: with room for two it tilts, and each step counts the two that were dropped.

    The first rollout that drops any warns, also after a look at the start. Later ones raise the largest number so far.
    """
    simulator = sim.Simulator(loose_box(), DT, 3, contact=sim.HardContact(max_contacts=2))
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
