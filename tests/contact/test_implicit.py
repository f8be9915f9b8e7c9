"""The adjoint of the solution: against finite differences of converged steps, and against that of the sweeps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from scenes import crowd
from tests.contact.test_cones import arm as spherical_arm
from tests.contact.test_cones import turned
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import (
    BODY,
    JOINT,
    LINK,
    TILT,
    arm_and_ball,
    at,
    ball,
    box,
    pendulum,
    spin,
)
from tests.contact.test_torsion import ball as resisting_ball
from tests.simulation.differences import Case, Weights, analytic, case, check, regimes
from warp_kernels.types import PLANE

SWEEPS = 250  # more than any scene here needs to converge to rounding
FRICTION = pytest.mark.parametrize("friction", ["cone", "pyramid"])


def options(friction: str = "cone", **others: object) -> sim.ContactOptions:
    return sim.ContactOptions(**{"friction": friction, "sweeps": SWEEPS, "adjoint": "implicit", **others})


def implicit(c: Case) -> Case:
    """The same with enough sweeps to converge, and the adjoint of what they converge to."""
    return replace(c, contact=replace(c.contact, sweeps=SWEEPS, adjoint="implicit"))


def residuals(c: Case) -> tuple[float, float]:
    """Of the forward sweeps [m/s], and of the adjoint's, relative."""
    simulator = c.simulator()
    c.rollout(simulator).backward(np.ones((1, c.model.nq)))
    return simulator.residual[0], simulator.adjoint_residual[0]


@FRICTION
class TestLooseBodies:
    """The regimes of a contact: rolling (stick), sliding, open, bouncing, and four redundant contacts under a box."""

    def test_rolling_ball(self, friction):
        c = case(ball(), 10, qd=spin(0.3, 0.1, 0.0), contact=options(friction))
        assert "stick" in regimes(c)
        check(c, [n for n in BODY if n != "friction"])

    def test_sliding_ball(self, friction):
        c = case(ball(), 10, qd=spin(3.0, 1.0, 0.0), contact=options(friction))
        assert regimes(c) == {"slide"}
        check(c, BODY)

    def test_bouncing_ball(self, friction):
        model = ball(restitution=0.6)
        c = case(model, 10, at(model, 0.13), spin(1.0, 1.0, -3.0), options(friction))
        assert regimes(c) == {"open", "stick"}
        check(c, [*BODY, "restitution"], zero=["friction"])

    def test_sliding_box(self, friction):
        c = case(box(), 10, qd=[2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact=options(friction, cfm=0.5))
        assert "slide" in regimes(c)
        assert residuals(c)[0] < 1e-12
        check(c, BODY)

    def test_landing_box(self, friction):
        model = box(orientation=TILT)
        c = case(model, 10, at(model, 0.0527), spin(1.0, 0.2, -0.5), options(friction, cfm=0.5))
        assert {"open", "slide"} <= regimes(c)
        check(c, BODY)

    def test_resting_box(self, friction):
        c = case(box(1.5), 10, contact=options(friction, cfm=2.0), force=0.1)
        assert regimes(c) == {"stick"}
        check(c, ["mass", "com", "inertia", "gravity", "geometry_size", "geometry_placement"])


@FRICTION
def test_robot_ball_limits_and_dry_friction(friction):
    """Both limits, dry friction that slips and that holds, and a ball that slides on the hand."""
    c = implicit(arm_and_ball(friction))
    assert {"lower", "upper", "slip", "held", "slide"} <= regimes(c)
    check(c, [*BODY, *JOINT, "joint_placement"], most=12)


def test_limits():
    for q, qd, parameters in ((-0.29, -2.0, "lower_limit"), (0.49, 2.0, "upper_limit")):
        c = implicit(pendulum(8, q, qd, lower=-0.3, upper=0.5, damping=0.1))
        other = "upper_limit" if parameters == "lower_limit" else "lower_limit"
        check(c, [*LINK, "lower_limit", "upper_limit", "damping"], zero=[other])


def test_narrow_range():
    """Both limits are near at once; in the end the joint is between them."""
    c = pendulum(8, 0.001, 0.9, lower=-0.003, upper=0.002)
    c = implicit(replace(c, tau=10.0 * np.array([1, 1, -1, -1, -1, -1, 0.4, 0.3])[:, None]))
    assert regimes(c) == {"lower", "upper"}
    check(c, [*LINK, "lower_limit", "upper_limit"])


def test_dry_friction():
    c = implicit(pendulum(8, 0.3, 2.0, friction_loss=0.7))
    assert regimes(c) == {"slip"}
    check(c, [*LINK, "friction_loss"])
    c = implicit(pendulum(8, 0.3, 0.0, friction_loss=5.0))
    assert regimes(c) == {"held"}
    check(c, [*LINK, "friction_loss"], zero=["tau", *LINK, "friction_loss"])


@FRICTION
def test_heap_of_balls(friction):
    """Balls that touch each other and the ground: each contact shares its bodies with others, none is redundant."""
    scene = crowd.loose("ball", 5, "float64", spacing=0.0995, layers=2)
    model = scene.model
    rng = np.random.default_rng(1)
    q = scene.q0.reshape(-1, 7).copy()
    q[:, :3] += 0.003 * rng.normal(size=(5, 3))
    qd = 0.2 * rng.normal(size=model.nv)
    c = Case(model, q.reshape(-1), qd, 0.1 * rng.normal(size=(5, model.nv)), options(friction), 1 / 240)
    assert max(residuals(c)) < 1e-10
    check(c, ["mass", "inertia", "friction", "geometry_size", "gravity"], most=15)


@FRICTION
def test_spinning_and_rolling_friction(friction):
    """Their bounds are part of the contact's normal impulse, and so is their adjoint."""
    for qd, slip in (([0.5, 0.2, 0.0, -2.0, 5.0, 3.0], ()), ([3.0, 1.0, 0.0, 2.0, 1.0, 5.0], ("friction",))):
        model = resisting_ball(friction=0.3) if slip else resisting_ball()
        c = case(model, 8, qd=qd, contact=options(friction))
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


def test_limits_of_a_spherical_joint():
    model = spherical_arm(swing_limit=0.5)
    q = np.concatenate([[0.2], turned(0.47, (0.6, 0.8, 0.0)), [0.1]])
    check(case(model, 6, q, [0.5, 3.0, 2.0, 1.0, 0.3], options()), ["swing_limit", *LINK])


def test_in_torch():
    """One step of two worlds, a ball that slides and one that rolls, through the torch operation."""
    simulator = sim.Simulator(ball(), 1 / 240, 2, "cpu", options())
    q = torch.tensor(np.tile(simulator.model.q0, (2, 1)), requires_grad=True)
    qd = torch.tensor([spin(3.0, 1.0, 0.0), spin(0.3, 0.1, 0.0)], dtype=torch.float64, requires_grad=True)
    friction = torch.tensor(simulator.parameter("friction"), requires_grad=True)
    torch.autograd.gradcheck(
        lambda q, qd, friction: sim.torch.rollout(simulator, q, qd, steps=3, friction=friction), (q, qd, friction)
    )


def relative_error(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Largest over the inputs, each relative to its own largest derivative."""
    return max(np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max() for name in expected)


@FRICTION
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_agrees_with_the_unrolled_sweeps(friction, dtype):
    """Quadrupeds that stand on the ground and lean on each other: both adjoints, to rounding."""
    scene = crowd.quadrupeds(2, dtype, spacing=(0.55, 0.178))
    model = scene.model
    rng = np.random.default_rng(6)
    q = np.tile(scene.q0, (4, 1)) + 0.003 * rng.normal(size=(4, model.nq))
    qd = 0.2 * rng.normal(size=(4, model.nv))
    names = ["mass", "friction", "geometry_size", "damping"]
    found = []
    for adjoint in ("unrolled", "implicit"):
        contact = sim.ContactOptions(sweeps=SWEEPS, friction=friction, adjoint=adjoint)
        simulator = sim.Simulator(model, 1 / 500, 4, "cpu", contact, crowd.springs(scene, 60.0, 2.0))
        trajectory = simulator.rollout(simulator.state(q, qd), steps=3)
        back = trajectory.backward(np.ones((4, model.nq)), np.ones((4, model.nv)), names)
        found.append({"q": back.q.numpy(), "qd": back.qd.numpy(), **back.parameters})
    # Rounding: some ten of the precision's ulps.
    assert relative_error(found[1], found[0]) < (1e-12 if dtype == "float64" else 1e-5)


@FRICTION
def test_redundant_contacts_that_stick(friction):
    """A rigid box rides on a driven sled without softness: one impulse too many, but one motion, and its derivative."""
    builder = sim.ModelBuilder()
    builder.add_link("sled", mass=2.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("rail", "prismatic", child="sled", axis=(1.0, 0.0, 0.0), damping=0.5)
    builder.add_geometry("sled", PLANE, friction=0.8)
    builder.add_box(half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.05))
    model = builder.finalize("float64")
    qd = np.zeros(model.nv)
    qd[:2] = 0.4, 0.4
    c = case(model, 10, qd=list(qd), contact=options(friction), force=1.0)
    c = replace(c, tau=c.tau * np.array([1.0, 0.3, 0.3, 0.3, 0.01, 0.01, 0.01]))
    assert regimes(c) == {"stick"}
    assert max(residuals(c)) < 1e-12
    check(c, ["mass", "damping"])


def test_redundant_contacts_that_slide():
    """A rigid box turns while it slides on hard ground: how the four corners share its weight is not unique.

    Its motion depends on the shares, since each corner's friction has a direction of its own. The sweeps from zero
    choose one, and how that choice changes is not in the equations of the solution. The residual stays large and says
    so; with softness, in :class:`TestLooseBodies`, the shares are unique and everything agrees.
    """
    c = case(box(), 10, qd=[2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact=options())
    forward, adjoint = residuals(c)
    assert forward < 1e-12
    assert adjoint > 0.1
    weights = Weights.random(c)
    found = analytic(c, weights, ["com"])
    expected = analytic(replace(c, contact=replace(c.contact, adjoint="unrolled")), weights, ["com"])
    assert relative_error(found, expected) > 0.01


def test_residual_tells_of_too_few_sweeps():
    c = arm_and_ball()
    few, more, many = (residuals(replace(c, contact=options(sweeps=sweeps)))[1] for sweeps in (1, 3, 20))
    assert few == 1.0
    assert 1e-3 < more < 0.1
    assert many < 1e-12


def test_unrolled_has_no_residual():
    simulator = sim.Simulator(ball(), 1 / 240)
    simulator.rollout(simulator.initial_state(), steps=2).backward(np.ones((1, 7)))
    np.testing.assert_array_equal(simulator.adjoint_residual, [0.0])


def test_keeps_no_history():
    """Memory of the way back doesn't grow with the sweeps."""
    for sweeps in (5, 500):
        simulator = sim.Simulator(ball(), 1 / 240, 1, "cpu", options(sweeps=sweeps))
        simulator.rollout(simulator.initial_state(), steps=2).backward(np.ones((1, 7)))
        step = simulator.shards[0].step
        assert step.impulse_history.size == step.value_history.size == 0
        assert not hasattr(step, "value_bar_history")
