"""What a simulator shows, and the engine behind it."""

import copy
import pickle

import numpy as np
import pytest

import sim
from sim.simulation.deprecated import RENAMED
from tests.simulation.worlds import DT, hopper

# A new name is part of the interface for good: add it here on purpose.
METHODS = {
    "contacts", "initial_state", "linearise", "parameters", "replace", "rollout", "state", "step",
}  # fmt: skip
REPORTS = {
    "adjoint_residual", "bad_worlds", "constraint_error", "constraint_force", "contact_overflow",
    "largest_contact_overflow", "residual", "solver_iterations",
}  # fmt: skip
ARGUMENTS = {
    "check_finite", "contact", "contact_sensors", "device", "dt", "integrator", "model", "num_worlds", "state_limit",
    "threads", "threads_per_world",
}  # fmt: skip


def test_public_names():
    shown = {name for name in dir(sim.Simulator(hopper(), DT, device="cpu")) if not name.startswith("_")}
    assert shown == METHODS | REPORTS | ARGUMENTS | {"engine"}


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_earlier_names_warn(name):
    simulator = sim.Simulator(hopper(), DT, device="cpu")
    with pytest.warns(DeprecationWarning, match=name) as caught:
        getattr(simulator, name)
    assert caught[0].filename == __file__


def test_other_names_are_errors():
    with pytest.raises(AttributeError, match="qs"):
        _ = sim.Simulator(hopper(), DT, device="cpu").qs  # type: ignore[attr-defined]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_have_an_engine_of_their_own(again):
    simulator = sim.Simulator(hopper(), DT, 2, "cpu", check_finite=True, state_limit=(1e3, 1e4))
    friction = np.random.default_rng(0).uniform(0.3, 0.6, (2, *simulator.parameters["friction"].shape))
    simulator.parameters["friction"] = friction
    other = again(simulator)
    assert other.engine is not simulator.engine
    assert all(getattr(other, name) == getattr(simulator, name) for name in ARGUMENTS - {"model"})
    np.testing.assert_array_equal(other.parameters["friction"], friction)
    other.parameters["friction"] = 0.1
    np.testing.assert_array_equal(simulator.parameters["friction"], friction)
