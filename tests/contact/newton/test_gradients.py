"""Gradients through steps solved by Newton's method, against finite differences: every regime, every kind of row.

States lie off the kinks: a contact at a distance of exactly zero is where bodies begin to be pushed apart at another
rate than gaps close, so bodies here begin a little inside of what they rest on, or above it.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.actuators.test_gradients import GAINS, QD, Q, moved
from tests.actuators.test_gradients import arm as servo_arm
from tests.contact.test_cones import arm as spherical_arm
from tests.contact.test_cones import turned
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import BODY, JOINT, LINK, TILT, arm_and_ball, at, ball, box, pendulum, spin
from tests.contact.test_torsion import ball as resisting_ball
from tests.simulation.differences import Case, case, check, regimes

FRICTION = pytest.mark.parametrize("friction", ["cone", "pyramid"])
INSIDE = 1e-4  # [m]


def options(friction: str = "cone", **others: object) -> sim.ContactOptions:
    return sim.ContactOptions(**{"solver": "newton", "friction": friction, **others})


def newton(c: Case) -> Case:
    """The same, solved by Newton's method."""
    return replace(c, contact=options(c.contact.friction))


def lowered(model: sim.Model, distance: float = INSIDE) -> np.ndarray:
    """Every loose body a little lower."""
    q = model.q0.copy().reshape(-1, 7)
    q[:, 2] -= distance * (1 + np.arange(len(q)))
    return q.reshape(-1)


def residuals(c: Case) -> tuple[float, float]:
    """Of the solution [m/s], and of its adjoint, relative."""
    simulator = c.simulator()
    c.rollout(simulator).backward(np.ones((1, c.model.nq)))
    return simulator.residual[0], simulator.adjoint_residual[0]


@FRICTION
class TestLooseBodies:
    def test_rolling_ball(self, friction):
        c = case(ball(), 10, lowered(ball()), spin(0.3, 0.1, 0.0), options(friction))
        assert "stick" in regimes(c)
        check(c, [n for n in BODY if n != "friction"])

    def test_sliding_ball(self, friction):
        c = case(ball(), 10, lowered(ball()), spin(3.0, 1.0, 0.0), options(friction))
        assert regimes(c) == {"slide"}
        check(c, BODY)

    def test_bouncing_ball(self, friction):
        model = ball(restitution=0.6)
        c = case(model, 10, at(model, 0.13), spin(1.0, 1.0, -3.0), options(friction))
        assert regimes(c) == {"open", "stick"}
        check(c, [*BODY, "restitution"], zero=["friction"])

    def test_separating_ball(self, friction):
        c = case(ball(), 5, lowered(ball()), spin(0.3, 0.1, 0.5), options(friction))
        assert regimes(c) == {"open"}
        check(c, ["gravity", "mass", "inertia"])

    def test_resting_box(self, friction):
        """Four redundant contacts hold it. It gives way by the regularisation, here enough to depend on something."""
        c = case(box(1.5), 10, lowered(box()), contact=options(friction, regularisation=0.1), force=0.1)
        assert regimes(c) == {"stick"}
        assert max(residuals(c)) < 1e-12
        check(c, ["mass", "com", "inertia", "gravity", "geometry_size", "geometry_placement"])

    def test_redundant_contacts_that_slide_and_spin(self, friction):
        """How the corners share the weight decides where their friction acts."""
        c = case(box(), 10, lowered(box()), [2.0, 0.7, 0.0, 0.0, 0.0, 0.4], options(friction))
        assert "slide" in regimes(c)
        assert max(residuals(c)) < 1e-12
        check(c, BODY)

    def test_landing_box(self, friction):
        model = box(orientation=TILT)
        c = case(model, 10, at(model, 0.0527), spin(1.0, 0.2, -0.5), options(friction))
        assert {"open", "slide"} <= regimes(c)
        check(c, BODY)

    def test_deep_overlap(self, friction):
        """Pushed out at max_correction, however deep it is."""
        c = case(ball(), 5, at(ball(), 0.07), spin(4.0, 0.2, -0.2), options(friction))
        check(c, BODY)

    def test_pile_of_five_boxes(self, friction):
        """Each a little turned, so that no faces are parallel: between those, which corners touch would jump."""
        builder = sim.ModelBuilder()
        builder.add_ground(friction=0.8)
        rng = np.random.default_rng(3)
        for number in range(5):
            builder.add_box(
                half_extents=(0.1, 0.12, 0.05), mass=0.5 + 0.2 * number,
                position=(0.01 * number, 0.0, 0.05 + 0.1 * number),
                orientation=(*(2e-4 * rng.normal(size=2)), 0.02 * number, 1.0), friction=0.9,
            )  # fmt: skip
        model = builder.finalize("float64")
        c = case(model, 3, lowered(model), list(0.3 * rng.normal(size=model.nv)), options(friction), force=0.3)
        assert residuals(c)[0] < 1e-10
        check(c, ["mass", "com", "inertia", "friction", "gravity", "geometry_size"], most=15)


@FRICTION
def test_robot_ball_limits_and_dry_friction(friction):
    """Both limits, dry friction that slips and that holds, and a ball that slides on the hand."""
    c = newton(arm_and_ball(friction))
    assert {"lower", "upper", "slip", "held", "slide"} <= regimes(c)
    check(c, [*BODY, *JOINT, "joint_placement"], most=12)


def test_limits():
    for q, qd, parameter in ((-0.29, -2.0, "lower_limit"), (0.49, 2.0, "upper_limit")):
        c = newton(pendulum(8, q, qd, lower=-0.3, upper=0.5, damping=0.1))
        other = "upper_limit" if parameter == "lower_limit" else "lower_limit"
        check(c, [*LINK, "lower_limit", "upper_limit", "damping"], zero=[other])


def test_dry_friction():
    c = newton(pendulum(8, 0.3, 2.0, friction_loss=0.7))
    assert regimes(c) == {"slip"}
    check(c, [*LINK, "friction_loss"])
    c = newton(pendulum(8, 0.3, 0.0, friction_loss=5.0))
    assert regimes(c) == {"held"}
    # It holds but for the regularisation, by which everything that pulls at it counts a little.
    check(c, LINK)


@FRICTION
def test_spinning_and_rolling_friction(friction):
    for qd, slip in (([0.5, 0.2, 0.0, -2.0, 5.0, 3.0], ()), ([3.0, 1.0, 0.0, 2.0, 1.0, 5.0], ("friction",))):
        model = resisting_ball(friction=0.3) if slip else resisting_ball()
        c = case(model, 8, lowered(model), qd, options(friction))
        others = [name for name in BODY if name != "friction"]
        check(c, ["torsional_friction", "rolling_friction", *others, *slip])


def test_equalities():
    """A chain closed to a loop by a point, and a coupled pair of joints."""
    builder = bent_loop()
    builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
    model = builder.finalize("float64")
    model.parameters["anchor_b"][0, :3] += (0.002, -0.001, 0.0015)
    check(case(model, 6, qd=[0.5, -0.3, 0.2, 0.1], contact=options()), ["anchor_a", "anchor_b", *LINK])
    builder = bent_loop()
    builder.add_joint_coupling("j3", "j1", ratio=-1.4, offset=0.002)
    check(
        case(builder.finalize("float64"), 6, qd=[0.5, -0.3, 0.2, 0.4], contact=options()),
        ["coupling_ratio", "coupling_offset", *LINK],
    )


def test_weld():
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.15), mass=2.0)
    builder.add_weld_constraint("hook", "box_0", "world", position_a=(0.02, 0.01, 0.03))
    model = builder.finalize("float64")
    model.parameters["anchor_b"][0] += (0.001, 0.002, -0.001, 0.0005, 0.001, -0.0004, 0.0)
    c = case(model, 5, qd=[0.1, 0.2, 0, 0.3, 0, 0.1], contact=options())
    check(c, ["anchor_a", "anchor_b", "mass", "com", "inertia", "gravity"])


def test_limits_of_a_spherical_joint():
    model = spherical_arm(swing_limit=0.5)
    q = np.concatenate([[0.2], turned(0.47, (0.6, 0.8, 0.0)), [0.1]])
    check(case(model, 6, q, [0.5, 3.0, 2.0, 1.0, 0.3], options()), ["swing_limit", *LINK])


def test_actuators_beyond_their_limits():
    c = newton(moved(servo_arm(limits=(0.33, 4.0, 9.0, 1.2)), 12, np.array([0.3, 0.9, 0.8, 0.5]), Q, QD))
    assert "saturated" in regimes(c)
    check(c, [*GAINS, *LINK, "actuator_force_limit"])


@pytest.mark.parametrize("stiffness", [900.0, 4e6])
def test_compliant_contact(stiffness):
    """Softer than the regularisation, and harder: then that decides."""
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.3, contact_stiffness=stiffness, contact_damping=3.0)
    builder.add_sphere(radius=0.1, mass=0.4, position=(0.0, 0.0, 0.0999), friction=0.8)
    model = builder.finalize("float64")
    c = case(model, 8, qd=[2.0, 0.7, -0.3, 0.2, 0.1, 0.3], contact=options())
    names = ["mass", "friction", "gravity", "geometry_size"]
    check(c, [*names, "contact_stiffness", "contact_damping"] if stiffness < 1e3 else names)


def test_in_torch():
    """Steps of two worlds, a ball that slides and one that rolls, through the torch operation."""
    simulator = sim.Simulator(ball(), 1 / 240, 2, "cpu", options())
    q = torch.tensor(np.tile(lowered(ball()), (2, 1)), requires_grad=True)
    qd = torch.tensor([spin(3.0, 1.0, 0.0), spin(0.3, 0.1, 0.0)], dtype=torch.float64, requires_grad=True)
    friction = torch.tensor(simulator.parameter("friction"), requires_grad=True)
    torch.autograd.gradcheck(
        lambda q, qd, friction: sim.torch.rollout(simulator, q, qd, steps=3, friction=friction), (q, qd, friction)
    )


@pytest.mark.slow
def test_a_thousand_steps():
    """A ball lands, slides and rolls on; what follows depends on all of it."""
    model = ball()
    c = case(model, 1000, at(model, 0.13), [1.0, 0.5, 0.0, 2.0, 1.0, 3.0], options(), force=1e-3)
    assert {"open", "slide", "stick"} <= regimes(c)
    check(c, ["mass", "friction", "gravity", "geometry_size"], bound=1e-5, most=12)
