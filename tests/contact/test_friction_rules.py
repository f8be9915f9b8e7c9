"""The friction of a pair of geometries: the product, the larger, one side's alone, or one that is stated."""

import numpy as np
import pytest

import sim
from sim.simulation.stepping.collision import candidate_pairs
from sim.simulation.stepping.pair_friction import pair_friction
from tests.contact.worlds import DT, G, run
from tests.simulation.differences import case, check

GROUND, BODY = 0.4, 0.3
# Of the ground and of a ball, and what the pair has: friction, torsional and rolling friction.
RULES = {
    "product": ({}, {}, (GROUND * BODY, 0.03, 0.006)),
    "one maximum": ({"friction_rule": "maximum"}, {}, (GROUND * BODY, 0.03, 0.006)),
    "maximum": ({"friction_rule": "maximum"}, {"friction_rule": "maximum"}, (GROUND, 0.02, 0.004)),
    "ground first": ({"priority": 1}, {"friction_rule": "maximum"}, (GROUND, 0.01, 0.004)),
    "ball first": ({"priority": -1}, {"priority": 2}, (BODY, 0.02, 0.002)),
}
STATED = (0.25, 0.015, 0.003)


def ball(rule: str, dtype: str = "float64") -> sim.Model:
    ground, body, _ = RULES[rule]
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=GROUND, torsional_friction=0.01, rolling_friction=0.004, **ground))
    builder.add_sphere(
        radius=0.1, mass=0.5, position=(0, 0, 0.1), name="ball",
        surface=sim.Surface(friction=BODY, torsional_friction=0.02, rolling_friction=0.002, **body),
    )  # fmt: skip
    return builder.finalize(dtype)


def stated_ball() -> sim.Model:
    """Its geometries have other values, which don't count."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=GROUND))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 0.1), name="ball", surface=sim.Surface(friction=BODY))
    slide, spin, roll = STATED
    builder.set_pair_friction("ball/geometry", "ground", friction=slide, torsional_friction=spin, rolling_friction=roll)
    return builder.finalize("float64")


WORLDS = [*((ball(rule), values) for rule, (_, _, values) in RULES.items()), (stated_ball(), STATED)]


@pytest.mark.parametrize(("model", "values"), WORLDS, ids=[*RULES, "stated"])
class TestOfAPair:
    def test_is_told(self, model, values):
        np.testing.assert_allclose(pair_friction(model, zip(*candidate_pairs(model), strict=True)), [values])

    def test_slides(self, model, values):
        _, qd, _ = run(model, 0.05, [3.0, 0, 0, 0, 0, 0])
        np.testing.assert_allclose(qd[-1, 0], 3.0 - values[0] * G * 0.05, atol=1e-9)

    def test_spins(self, model, values):
        _, qd, _ = run(model, 0.05, [0, 0, 0, 0, 0, 30.0])
        np.testing.assert_allclose(qd[-1, 5], 30.0 - values[1] * G * 0.05 / (0.4 * 0.1**2), atol=1e-9)

    def test_rolls(self, model, values):
        _, qd, _ = run(model, 0.05, [0.5, 0, 0, 0, 5.0, 0])
        np.testing.assert_allclose(qd[-1, 0], 0.5 - values[2] * G / (0.1 * 1.4) * round(0.05 / DT) * DT, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_gradients(rule):
    model = ball(rule)
    # In the ground a little: the law has a kink where the surfaces just touch.
    c = case(model, 8, model.q0 - 1e-3 * (np.arange(7) == 2), qd=[3.0, 1.0, 0.0, 2.0, 1.0, 15.0])
    check(c, ["friction", "torsional_friction", "rolling_friction", "mass"])


def test_a_stated_one_reaches_no_geometry():
    model = stated_ball()
    simulator = sim.Simulator(model, DT)
    trajectory = simulator.rollout(simulator.state(model.q0, [3.0, 0, 0, 0, 0, 0]), steps=5)
    found = trajectory.backward(None, np.ones((1, 6)), ["friction", "gravity"]).parameters
    np.testing.assert_array_equal(found["friction"], 0.0)
    assert np.abs(found["gravity"]).max() > 0.01  # what friction takes follows from the weight


def test_stated_for_what_is_not_there():
    builder = sim.ModelBuilder()
    builder.add_ground()
    with pytest.raises(sim.ModelError, match="geometries 'ground' and 'ground'"):
        builder.set_pair_friction("ground", "ground", friction=1.0)
    with pytest.raises(sim.ModelError, match="pair of geometries 'ground' and 'wall': friction is -1"):
        builder.set_pair_friction("ground", "wall", friction=-1.0)
    builder.set_pair_friction("ground", "wall", friction=1.0)
    with pytest.raises(sim.ModelError, match="set_pair_friction: unknown geometry 'wall'"):
        builder.finalize()
