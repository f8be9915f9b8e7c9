"""Gradients through MuJoCo's law against central differences, in what contacts, limits and dry friction depend on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.contact.mujoco.scenes import CONTROL, SOLIMP, SOLREF, Pair
from tests.simulation.differences import case, check

NAMES = (
    "mass", "com", "inertia", "friction", "solref", "solimp", "upper_limit", "limit_margin", "friction_loss",
    "actuator_kp", "actuator_kd", "actuator_gear", "armature", "damping", "stiffness", "rest_position",
    "geometry_size", "gravity", "joint_placement",
)  # fmt: skip
WIDE = (0.7, 0.95, 0.02, 0.4, 3.0)


@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize(("impratio", "solref"), [(1.0, (0.02, 1.0)), (4.0, (0.02, 1.0)), (1.0, (-8000.0, -60.0))])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_sliding_rolling_and_at_limits(tmp_path, cone, impratio, solref, steps):
    pair = Pair(tmp_path, cone, impratio, solref, WIDE)
    contact = replace(pair.contact, solref=solref, solimp=WIDE)
    c = case(pair.model, steps, pair.q, pair.qd, contact=contact)
    check(replace(c, control=np.tile(CONTROL, (steps, 1))), NAMES)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_sticking(tmp_path, cone):
    """Friction that holds doesn't depend on its coefficient."""
    pair = Pair(tmp_path, cone, solimp=WIDE)
    c = case(pair.model, 4, pair.q, 1e-3 * pair.qd, contact=replace(pair.contact, solref=SOLREF, solimp=WIDE))
    check(c, [name for name in NAMES if name != "friction" and "actuator" not in name])


@pytest.mark.parametrize(("name", "value"), [("solref", [0.03, 0.9]), ("solimp", list(WIDE))])
def test_through_torch(tmp_path, name, value):
    """Torch gives the gradient of the trajectory, for a softness that all worlds share and for one of each."""
    pair = Pair(tmp_path)
    simulator = sim.Simulator(pair.model, 0.004, 2, "cpu", replace(pair.contact, solref=SOLREF, solimp=WIDE))
    q, qd = (torch.tensor(np.tile(x, (2, 1))) for x in (pair.q, pair.qd))
    for shape in ((len(value),), (2, len(value))):
        given = torch.tensor(value, dtype=torch.float64).expand(shape).clone().requires_grad_()
        _, end = sim.torch.rollout(simulator, q, qd, steps=3, **{name: given})
        (found,) = torch.autograd.grad(end[-1].square().sum(), given)
        with simulator.parameters.using({name: given.detach().numpy()}):
            trajectory = simulator.rollout(simulator.state(pair.q, pair.qd), steps=3)
            expected = trajectory.backward(None, 2.0 * trajectory.qd.numpy()[-1], [name]).parameters[name]
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
        assert found.shape == shape
        assert found.abs().max() > 0.0


def test_at_the_lower_limit(tmp_path):
    pair = Pair(tmp_path, solimp=WIDE)
    pair.q[-2:] = (-0.45, 0.1)
    c = case(pair.model, 3, pair.q, pair.qd, contact=replace(pair.contact, solref=SOLREF, solimp=WIDE))
    check(c, ["lower_limit", "limit_margin", "solref", "solimp"])


def test_parameters_of_each_world(tmp_path):
    """Gradients of worlds with values of their own are those of each alone."""
    pair = Pair(tmp_path)
    solref = np.array([[0.02, 1.0], [0.04, 0.7]])
    contact = replace(pair.contact, solref=SOLREF)
    both = sim.Simulator(pair.model, 0.004, 2, "cpu", contact, {"solref": solref})
    weights = np.random.default_rng(0).normal(size=(2, pair.model.nv))
    state = both.state(pair.q, pair.qd)
    found = both.rollout(state, steps=3).backward(None, weights, ["solref"]).parameters["solref"]
    for world in range(2):
        alone = sim.Simulator(pair.model, 0.004, 1, "cpu", contact, {"solref": solref[world]})
        expected = alone.rollout(alone.state(pair.q, pair.qd), steps=3).backward(
            None, weights[world : world + 1], ["solref"]
        )
        # Threads add to a parameter that worlds share in any order.
        np.testing.assert_allclose(found[world], expected.parameters["solref"], rtol=1e-13)
        assert np.abs(found[world]).min() > 0.0


def test_check_of_gradients_names_what_the_numbers_mean(tmp_path):
    """The width of the default solimp is a thousandth of its power: each is changed in its own scale."""
    pair = Pair(tmp_path)
    simulator = sim.Simulator(pair.model, 0.004, 1, "cpu", replace(pair.contact, solref=SOLREF, solimp=SOLIMP))
    report = sim.check_gradients(simulator, simulator.state(pair.q, pair.qd), steps=3, wrt=["solref", "solimp"])
    assert not report.wrong, str(report)
    assert {str(each.entry) for each in report.entries} >= {"solref, damping ratio or damping", "solimp, width"}
