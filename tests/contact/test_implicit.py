"""The adjoint of the solution: against finite differences of converged steps, and against that of the sweeps."""

from dataclasses import replace

import numpy as np
import pytest

import sim
from scenes import crowd
from tests.contact import solution_checks as checks
from tests.contact.solution_checks import residuals
from tests.contact.test_gradients import LINK, arm_and_ball, ball, box, pendulum
from tests.simulation.differences import Case, Weights, analytic, case, check, regimes
from warp_kernels.types import PLANE

SWEEPS = 250  # more than any scene here needs to converge to rounding
FRICTION = pytest.mark.parametrize("friction", ["cone", "pyramid"])


def options(friction: str = "cone", **others: object) -> sim.ContactMethod:
    return sim.PgsContact(**{"friction": friction, "sweeps": SWEEPS, "adjoint": "implicit", **others})


@FRICTION
@pytest.mark.parametrize(
    ("check_scene", "others"),
    [
        (checks.check_rolling_ball, {}),
        (checks.check_sliding_ball, {}),
        (checks.check_bouncing_ball, {}),
        (checks.check_sliding_box, {"cfm": 0.5}),
        (checks.check_landing_box, {"cfm": 0.5}),
        (checks.check_resting_box, {"cfm": 2.0}),
        (checks.check_robot, {}),
        (checks.check_spinning_and_rolling_friction, {}),
    ],
)
def test_regimes_of_a_contact(check_scene, others, friction):
    """Rolling (stick), sliding, open, bouncing, four redundant contacts under a box, a robot, torsion."""
    check_scene(options(friction, **others))


@pytest.mark.parametrize(
    "check_scene",
    [checks.check_limits, checks.check_equalities, checks.check_spherical_limit, checks.gradcheck_rollout],
)
def test_other_constraints(check_scene):
    check_scene(options())


def test_narrow_range():
    """Both limits are near at once; in the end the joint is between them."""
    c = pendulum(8, 0.001, 0.9, limits=sim.Limits(-0.003, 0.002))
    c = replace(c, tau=10.0 * np.array([1, 1, -1, -1, -1, -1, 0.4, 0.3])[:, None], contact=options())
    assert regimes(c) == {"lower", "upper"}
    check(c, [*LINK, "lower_limit", "upper_limit"])


def test_dry_friction():
    checks.check_slipping_joint(options())
    check(checks.held_joint(options()), [*LINK, "friction_loss"], zero=["tau", *LINK, "friction_loss"])


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
        contact = sim.PgsContact(sweeps=SWEEPS, friction=friction, adjoint=adjoint)
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
    builder.add_joint("rail", "prismatic", child="sled", axis=(1.0, 0.0, 0.0), spring=sim.Spring(damping=0.5))
    builder.add_geometry("sled", PLANE, surface=sim.Surface(friction=0.8))
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
    so; with softness, in :func:`test_regimes_of_a_contact`, the shares are unique and everything agrees.
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
    simulator = sim.Simulator(ball(), 1 / 240, contact=sim.PgsContact())
    simulator.rollout(simulator.initial_state(), steps=2).backward(np.ones((1, 7)))
    np.testing.assert_array_equal(simulator.adjoint_residual, [0.0])


def test_keeps_no_history():
    """Memory of the way back doesn't grow with the sweeps."""
    for sweeps in (5, 500):
        simulator = sim.Simulator(ball(), 1 / 240, 1, "cpu", options(sweeps=sweeps))
        simulator.rollout(simulator.initial_state(), steps=2).backward(np.ones((1, 7)))
        solver = simulator.engine.shards[0].step.solver
        assert solver.impulse_history.size == solver.value_history.size == 0
        assert not hasattr(solver, "value_bar_history")
