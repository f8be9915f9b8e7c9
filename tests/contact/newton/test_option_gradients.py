"""Gradients in ``regularisation`` and ``recovery_time``, against finite differences, and how they are given."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.contact.solution_checks import lowered
from tests.contact.test_cones import arm as spherical_arm
from tests.contact.test_cones import turned
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import ball, box, pendulum, spin
from tests.contact.test_impact_time import landing
from tests.contact.test_torsion import ball as resisting_ball
from tests.errors import raises_naming, refuses
from tests.simulation.differences import Case, case, check, regimes

FRICTION = pytest.mark.parametrize("friction", ["cone", "pyramid"])
INSIDE = 1e-4  # [m]
BOTH = ["regularisation", "recovery_time"]


def options(friction: str = "cone") -> sim.ContactMethod:
    return sim.HardContact(friction=friction)


def on_ground(model: sim.Model, qd: list[float], friction: str = "cone", inside: float = INSIDE) -> Case:
    return case(model, 8, lowered(model, inside), qd, options(friction))


def yielding(c: Case) -> Case:
    """Enough that what depends on its forces stands out of the rounding of differences."""
    return replace(c, contact=replace(c.contact, regularisation=0.02))


@FRICTION
def test_sticking_box(friction):
    c = yielding(on_ground(box(1.5), [0.0] * 6, friction))
    assert regimes(c) == {"stick"}
    check(c, BOTH)


@FRICTION
def test_sliding_box(friction):
    """Redundant contacts, whose friction follows their normal impulses."""
    c = yielding(on_ground(box(), [2.0, 0.7, 0.0, 0.0, 0.0, 0.4], friction))
    assert "slide" in regimes(c)
    check(c, BOTH)


def test_spinning_and_rolling_friction():
    check(on_ground(resisting_ball(), [0.5, 0.2, 0.0, -2.0, 5.0, 3.0]), BOTH)


def test_deep_overlap():
    """It fades at the largest correction; the recovery time has a part in what it bears, but for the deepest."""
    # Wider differences: rounding is 2e-6 of the usual ones in the regularisation.
    check(on_ground(ball(), spin(0.3, 0.1, -0.2), inside=0.03), BOTH, width=10.0)
    check(on_ground(ball(), spin(0.3, 0.1, -0.2), inside=0.07), BOTH, zero=["recovery_time"], width=10.0)


# Rounding leaves 1e-7 to 3e-6 in the differences in the regularisation of the harder one, as masses 0.1 % apart show.
@pytest.mark.parametrize(("stiffness", "bound"), [(900.0, 1e-6), (4e6, 5e-6)])
def test_compliant_contact(stiffness, bound):
    """Softer than the regularisation, which friction alone feels, and harder."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8, stiffness=stiffness, damping=3.0))
    builder.add_sphere(radius=0.1, mass=0.4, position=(0.0, 0.0, 0.0999), surface=sim.Surface(friction=0.8))
    c = case(builder.finalize("float64"), 8, qd=[0.2, 0.1, -0.3, 0.2, 0.1, 0.3], contact=options())
    check(c, BOTH, zero=["recovery_time"], bound=bound)


def test_limits():
    check(replace(pendulum(8, -0.301, -2.0, limits=sim.Limits(-0.3, 0.5)), contact=options()), BOTH)
    q = np.concatenate([[0.2], turned(0.503, (0.6, 0.8, 0.0)), [0.1]])
    check(case(spherical_arm(swing=0.5), 6, q, [0.5, 3.0, 2.0, 1.0, 0.3], options()), BOTH)


def test_equalities():
    """Soft enough that their answers stand out of the rounding of differences."""
    contact = sim.HardContact(regularisation=0.02)
    builder = bent_loop()
    builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
    model = builder.finalize("float64")
    model.parameters["anchor_b"][0, :3] += (0.002, -0.001, 0.0015)
    check(case(model, 6, qd=[0.5, -0.3, 0.2, 0.1], contact=contact), BOTH)
    builder = bent_loop()
    builder.add_joint_coupling("j3", "j1", ratio=-1.4, offset=0.002)
    check(case(builder.finalize("float64"), 6, qd=[0.5, -0.3, 0.2, 0.4], contact=contact), BOTH)


def test_values_may_differ_by_world():
    model, dt = box(), 1 / 240
    values = {"regularisation": np.array([1e-3, 1e-2]), "recovery_time": np.array([0.02, 0.1])}
    both = sim.Simulator(model, dt, 2, "cpu", options(), values)
    q = lowered(model, INSIDE)
    found = both.rollout(both.state(np.tile(q, (2, 1))), steps=5)
    gradients = found.backward(np.ones((2, model.nq)), parameters=BOTH).parameters
    for world in range(2):
        own = {name: value[world] for name, value in values.items()}
        alone = sim.Simulator(model, dt, 1, "cpu", replace(options(), **own))
        expected = alone.rollout(alone.state(q), steps=5)
        np.testing.assert_array_equal(found.q.numpy()[:, world], expected.q.numpy()[:, 0])
        single = expected.backward(np.ones((1, model.nq)), parameters=BOTH).parameters
        for name in BOTH:
            assert np.shape(single[name]) == ()
            np.testing.assert_allclose(gradients[name][world], single[name], rtol=1e-12)


def test_in_torch():
    simulator = sim.Simulator(ball(), 1 / 240, 1, "cpu", options())
    q = torch.tensor(lowered(ball(), INSIDE)[None])
    qd = torch.tensor([spin(0.3, 0.1, 0.0)], dtype=torch.float64)
    given = [torch.tensor(simulator.parameters[name], requires_grad=True) for name in BOTH]
    torch.autograd.gradcheck(
        lambda *values: sim.torch.rollout(simulator, q, qd, steps=3, **dict(zip(BOTH, values, strict=True))), given
    )


def test_wrong_values_are_refused():
    simulator = sim.Simulator(ball(), 1 / 240, 1, "cpu", options())
    refuses(lambda: simulator.parameters.update({"regularisation": 0.0}), "regularisation'", 0)
    refuses(lambda: simulator.parameters.update({"regularisation": 1e-15}), "regularisation", "1e-15", "at least")
    refuses(lambda: simulator.parameters.update({"recovery_time": -1.0}), "'recovery_time'", "-1.0")
    with raises_naming("unknown", "parameter 'regularisation'"):
        sim.Simulator(ball(), 1 / 240, contact=sim.PgsContact()).parameters["regularisation"] = 1e-2


def test_bouncing_box():
    """Several corners that bounce, whose normal impulses depend on the softness that they make up for, and friction."""
    c = landing("box on its corners", options())
    assert "open" in regimes(c)
    # Rounding of the loss is 5e-6 of what the usual difference changes it by.
    check(c, ["regularisation", "restitution"], width=10.0)
