"""Gradients through steps solved by Newton's method, against finite differences: every regime, every kind of row.

States lie off the kinks: a contact at a distance of exactly zero is where bodies begin to be pushed apart at another
rate than gaps close, so bodies here begin a little inside of what they rest on, or above it.
"""

import functools
from dataclasses import replace

import numpy as np
import pytest

import sim
from tests.actuators.test_gradients import GAINS, QD, Q, moved
from tests.actuators.test_gradients import arm as servo_arm
from tests.contact import solution_checks as checks
from tests.contact.solution_checks import lowered, residuals
from tests.contact.test_gradients import BODY, LINK, at, ball, spin
from tests.simulation.differences import case, check, regimes

FRICTION = pytest.mark.parametrize("friction", ["cone", "pyramid"])
INSIDE = 1e-4  # [m]


def options(friction: str = "cone", **others: object) -> sim.ContactMethod:
    return sim.HardContact(friction=friction, **others)


@FRICTION
@pytest.mark.parametrize(
    ("check_scene", "inside", "others"),
    [
        (checks.check_rolling_ball, (INSIDE,), {}),
        (checks.check_sliding_ball, (INSIDE,), {}),
        (checks.check_bouncing_ball, (), {}),
        # It gives way by the regularisation, here enough to depend on something.
        (checks.check_resting_box, (INSIDE,), {"regularisation": 0.1}),
        (functools.partial(checks.check_sliding_box, adjoint_bound=1e-12), (INSIDE,), {}),
        (checks.check_landing_box, (), {}),
        (checks.check_robot, (), {}),
        (checks.check_spinning_and_rolling_friction, (INSIDE,), {}),
    ],
)
def test_regimes_of_a_contact(check_scene, inside, others, friction):
    check_scene(options(friction, **others), *inside)


@FRICTION
class TestLooseBodies:
    def test_separating_ball(self, friction):
        c = case(ball(), 5, lowered(ball(), INSIDE), spin(0.3, 0.1, 0.5), options(friction))
        assert regimes(c) == {"open"}
        check(c, ["gravity", "mass", "inertia"])

    def test_deep_overlap(self, friction):
        """Pushed out at max_correction, however deep it is."""
        c = case(ball(), 5, at(ball(), 0.07), spin(4.0, 0.2, -0.2), options(friction))
        check(c, BODY)

    def test_pile_of_five_boxes(self, friction):
        """Each a little turned, so that no faces are parallel: between those, which corners touch would jump."""
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.8))
        rng = np.random.default_rng(3)
        for number in range(5):
            builder.add_box(
                half_extents=(0.1, 0.12, 0.05), mass=0.5 + 0.2 * number,
                position=(0.01 * number, 0.0, 0.05 + 0.1 * number),
                orientation=(*(2e-4 * rng.normal(size=2)), 0.02 * number, 1.0), surface=sim.Surface(friction=0.9),
            )  # fmt: skip
        model = builder.finalize("float64")
        c = case(model, 3, lowered(model, INSIDE), list(0.3 * rng.normal(size=model.nv)), options(friction), force=0.3)
        assert residuals(c)[0] < 1e-10
        check(c, ["mass", "com", "inertia", "friction", "gravity", "geometry_size"], most=8)


@pytest.mark.parametrize(
    ("check_scene", "inside"),
    [
        (checks.check_limits, ()),
        (checks.check_equalities, ()),
        (checks.check_spherical_limit, ()),
        (checks.gradcheck_rollout, (INSIDE,)),
    ],
)
def test_other_constraints(check_scene, inside):
    check_scene(options(), *inside)


def test_dry_friction():
    checks.check_slipping_joint(options())
    # It holds but for the regularisation, by which everything that pulls at it counts a little.
    check(checks.held_joint(options()), LINK)


def test_weld():
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.15), mass=2.0)
    builder.add_weld_constraint("hook", "box_0", "world", position_a=(0.02, 0.01, 0.03))
    model = builder.finalize("float64")
    model.parameters["anchor_b"][0] += (0.001, 0.002, -0.001, 0.0005, 0.001, -0.0004, 0.0)
    c = case(model, 5, qd=[0.1, 0.2, 0, 0.3, 0, 0.1], contact=options())
    check(c, ["anchor_a", "anchor_b", "mass", "com", "inertia", "gravity"])


def test_actuators_beyond_their_limits():
    servos = moved(servo_arm(limits=(0.33, 4.0, 9.0, 1.2)), 12, np.array([0.3, 0.9, 0.8, 0.5]), Q, QD)
    c = replace(servos, contact=options())
    assert "saturated" in regimes(c)
    check(c, [*GAINS, *LINK, "actuator_force_limit"])


@pytest.mark.parametrize("stiffness", [900.0, 4e6])
def test_compliant_contact(stiffness):
    """Softer than the regularisation, and harder: then that decides."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.3, stiffness=stiffness, damping=3.0))
    builder.add_sphere(radius=0.1, mass=0.4, position=(0.0, 0.0, 0.0999), surface=sim.Surface(friction=0.8))
    model = builder.finalize("float64")
    c = case(model, 8, qd=[2.0, 0.7, -0.3, 0.2, 0.1, 0.3], contact=options())
    names = ["mass", "friction", "gravity", "geometry_size"]
    check(c, [*names, "contact_stiffness", "contact_damping"] if stiffness < 1e3 else names)


@pytest.mark.slow
def test_a_thousand_steps():
    """A ball lands, slides and rolls on; what follows depends on all of it."""
    model = ball()
    c = case(model, 1000, at(model, 0.13), [1.0, 0.5, 0.0, 2.0, 1.0, 3.0], options(), force=1e-3)
    assert {"open", "slide", "stick"} <= regimes(c)
    check(c, ["mass", "friction", "gravity", "geometry_size"], bound=1e-5, most=12)
