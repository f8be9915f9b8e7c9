"""Smoothed gradients: what they see before contact, what they leave alone, and a task that stays flat without them."""

import numpy as np
import pytest

import sim
from tests.contact.test_gradients import box, spin
from tests.errors import raises_naming
from tests.simulation.differences import Case, Weights, analytic, case

DT = 1 / 100
STEPS = 60
START, GAP = -0.6, 0.3  # of the pusher, and between it and the box [m]


def options(smoothing: float = 0.0, margin: float = 0.5) -> sim.ContactMethod:
    return sim.HardContact(margin=margin, gradient_smoothing=smoothing)


def pushing() -> sim.Model:
    """A ball on a rail, and a box on the ground in its way."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_link("pusher", mass=1.0)
    builder.add_joint("rail", "prismatic", child="pusher", axis=(1.0, 0.0, 0.0), position=(START, 0.0, 0.1))
    builder.add_geometry("pusher", "sphere", size=(0.05, 0.0, 0.0), surface=sim.Surface(friction=0.0))
    builder.add_box(
        half_extents=(0.1, 0.1, 0.1),
        mass=0.5,
        position=(START + 0.15 + GAP, 0.0, 0.0999),
        surface=sim.Surface(friction=0.6),
    )
    return builder.finalize("float64")


def pushed(contact: sim.ContactMethod, force: float) -> tuple[float, float]:
    """Where the box ends, and the derivative of that in a constant force on the pusher."""
    model = pushing()
    simulator = sim.Simulator(model, DT, contact=contact)
    tau = np.zeros((STEPS, model.nv))
    tau[:, 0] = force
    trajectory = simulator.rollout(simulator.initial_state(), tau)
    weights = np.zeros((1, model.nq))
    weights[0, 1] = 1.0
    found = trajectory.backward(weights).tau.numpy()[:, 0, 0].sum()
    return float(trajectory.q.numpy()[-1, 0, 1]), float(found)


def test_a_pusher_sees_a_box_that_it_does_not_reach():
    """The pusher ends 12 cm before the box: the exact gradient is zero, the smoothed one points towards it."""
    begin = pushed(options(), 0.0)[0]
    end, exact = pushed(options(), 1.0)
    assert end == pytest.approx(begin, abs=1e-4)
    assert exact == 0.0
    smoothed_end, smoothed = pushed(options(0.1), 1.0)
    assert smoothed_end == end, "smoothing changes the motion"
    assert smoothed > 1e-4
    # The share that is passed falls as the distance over which gradients are smoothed does.
    assert 0.0 < pushed(options(0.05), 1.0)[1] < smoothed
    # So does a pusher that waits.
    assert pushed(options(0.1), 0.0)[1] > 0.0


def test_a_push_keeps_most_of_its_gradient():
    """What reaches the box early, by the smoothed law, the friction under it holds; the push itself gets the rest."""
    for force in (2.0, 5.0):
        _, exact = pushed(options(), force)
        assert 0.8 * exact < pushed(options(0.1), force)[1] < exact


def test_pushing_succeeds_only_with_smoothing():
    """Push the box by 20 cm: gradient descent from a force that doesn't reach it."""
    target = pushed(options(), 0.0)[0] + 0.2

    def solve(smoothing: float) -> float:
        force = 1.0
        for _ in range(60):
            end, slope = pushed(options(smoothing), force)
            # Gauss-Newton on one unknown, no more than half a newton at a time.
            force += np.clip((target - end) * slope / (slope**2 + 1e-4), -0.5, 0.5)
        return abs(pushed(options(), force)[0] - target)

    assert solve(0.0) > 0.19
    assert solve(0.1) < 0.01


def test_contacts_that_act_are_left_as_they_are():
    """A box that rests deep inside its friction cone, and far above the ground, beside the exact gradient."""
    for height in (0.0499, 2.0):
        model = box(1.5)
        q = model.q0.copy()
        q[2] = height
        exact = case(model, 5, q, contact=options(margin=0.02))
        smoothed = case(model, 5, q, contact=options(1e-6, margin=0.02))
        weights = Weights.random(exact)
        names = ["q", "qd", "tau", "mass", "friction"]
        for name, expected in analytic(exact, weights, names).items():
            found = analytic(smoothed, weights, names)[name]
            np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max() + 1e-12, err_msg=name)


def slope_in_friction(contact: sim.ContactMethod, pull: float) -> float:
    """Of the last place of a box that is pulled along the ground, in its friction."""
    model = box(0.5)
    c: Case = case(model, 20, contact=contact, force=0.0)
    c.tau[:, 0] = pull
    simulator = c.simulator()
    weights = np.zeros((1, model.nq))
    weights[0, 0] = 1.0
    return float(c.rollout(simulator).backward(weights, parameters=["friction"]).parameters["friction"][1])


def test_friction_that_nearly_slips_has_a_gradient():
    """The box stays where it is up to 3.4 N: with less, friction hardly matters, unless it is smoothed."""
    exact = slope_in_friction(options(margin=0.02), 3.0)
    near, far = (slope_in_friction(options(1e-4, margin=0.02), pull) for pull in (3.0, 1.0))
    assert near < 5.0 * far < 0.0, "more friction, less way"
    assert abs(exact) < 1e-2 * abs(near)


def test_the_exact_gradient_is_checked():
    simulator = sim.Simulator(pushing(), DT, contact=options(0.1))
    report = sim.check_gradients(simulator, simulator.initial_state(), wrt=["qd"], steps=20)
    assert not report.wrong
    assert "gradient_smoothing is ignored" in str(report)


def test_the_motion_is_the_same():
    exact, smoothed = (case(box(), 10, qd=spin(2.0, 0.7, 0.0), contact=options(smoothing)) for smoothing in (0.0, 0.01))
    first, second = (c.rollout(c.simulator()) for c in (exact, smoothed))
    np.testing.assert_array_equal(first.q.numpy(), second.q.numpy())


def test_pyramids_have_no_smoothing():
    with raises_naming("gradient_smoothing", "'pyramid'"):
        sim.HardContact(gradient_smoothing=0.01, friction="pyramid")
