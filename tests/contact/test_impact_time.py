"""Bounces at their time of impact within the step: closed forms, convergence to continuous time, and gradients."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import G, loose_ball
from tests.simulation.differences import Case, case, check, regimes
from warp_kernels.types import SPHERE

OPTIONS = {
    "unrolled": sim.PgsContact(),
    "implicit": sim.PgsContact(adjoint="implicit", sweeps=400),
    "newton": sim.HardContact(),
}
# With the softness of "newton" too a ball bounces as on hard ground.
SOLVERS = {"pgs": sim.PgsContact(), "newton": sim.HardContact()}
BODY = ["mass", "com", "inertia", "restitution", "gravity", "geometry_size", "geometry_placement"]


def fall(height: float, seconds: float, restitution: float) -> float:
    """The height above the ground of a ball dropped from rest, in continuous time."""
    left, speed = seconds, 0.0
    while True:
        until = (speed + np.sqrt(speed**2 + 2 * G * height)) / G
        if until > left:
            return height + speed * left - G * left**2 / 2
        left, speed, height = left - until, restitution * (G * until - speed), 0.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_step(solver):
    """It falls along a straight line until it touches, and turns back with what gravity has given it until then.

    A velocity belongs to the middle of the way that it has moved positions: half a step before its state.
    """
    dt, height, speed, e = 1e-2, 0.02, -3.0, 0.6
    simulator = sim.Simulator(loose_ball(restitution=e), dt, contact=SOLVERS[solver])
    after = simulator.step(simulator.state([0, 0, 0.1 + height, 0, 0, 0, 1], [0, 0, speed, 0, 0, 0]))
    free = speed - G * dt
    touch = -height / free
    rebound = -e * (speed - G * (dt / 2 + touch)) - G * (dt / 2 - touch)
    assert after.qd.numpy()[0, 2] == pytest.approx(rebound, rel=1e-6)
    assert after.q.numpy()[0, 2] - 0.1 == pytest.approx((dt - touch) * rebound, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_impacts_in_one_step(solver):
    """Two balls reach the ground at different moments of a step, in one world: each is as it would be alone."""
    dt = 1e-2
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    for k in range(2):
        builder.add_sphere(radius=0.1, mass=0.5, position=(k, 0.0, 0.1), surface=sim.Surface(restitution=0.7))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, dt, contact=SOLVERS[solver])
    heights, speeds = np.array([0.01, 0.025]), np.array([-3.0, -4.0])
    q, qd = model.q0.reshape(2, 7).copy(), np.zeros((2, 6))
    q[:, 2], qd[:, 2] = 0.1 + heights, speeds
    after = simulator.step(simulator.state(q.reshape(-1), qd.reshape(-1)))
    touch = -heights / (speeds - G * dt)
    rebound = -0.7 * (speeds - G * (dt / 2 + touch)) - G * (dt / 2 - touch)
    np.testing.assert_allclose(after.qd.numpy()[0].reshape(2, 6)[:, 2], rebound, rtol=1e-6)
    np.testing.assert_allclose(after.q.numpy()[0].reshape(2, 7)[:, 2] - 0.1, (dt - touch) * rebound, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("restitution", [0.8, 1.0])
@pytest.mark.parametrize("seconds", [0.6, 1.0])
def test_motion_and_derivatives_converge_to_those_of_continuous_time(seconds, restitution, solver):
    """The last height, and its derivative in the first one, of balls dropped from near 0.9 m: one bounce, or two.

    Both errors are of first order in the step, and no height is a jump away from its neighbour.
    """
    starts = 0.9 + np.linspace(-0.02, 0.02, 81)
    model = loose_ball(restitution=restitution)
    expected = np.array([fall(height, seconds, restitution) for height in starts])
    slopes = [(fall(h + 1e-6, seconds, restitution) - fall(h - 1e-6, seconds, restitution)) / 2e-6 for h in starts]
    for dt in (1e-2, 1e-3):
        simulator = sim.Simulator(model, dt, len(starts), contact=SOLVERS[solver])
        q = np.tile(model.q0, (len(starts), 1))
        q[:, 2] = 0.1 + starts
        trajectory = simulator.rollout(simulator.state(q), steps=round(seconds / dt))
        weights = np.zeros_like(q)
        weights[:, 2] = 1.0
        found = trajectory.backward(weights).q.numpy()[:, 2]
        heights = trajectory.q.numpy()[-1, :, 2] - 0.1
        np.testing.assert_allclose(found, slopes, atol=10 * dt)
        np.testing.assert_allclose(heights, expected, atol=5 * dt)
        between = (found[1:] + found[:-1]) / 2 * np.diff(starts)
        np.testing.assert_allclose(np.diff(heights), between, atol=0.05 * (starts[1] - starts[0]))


def test_an_elastic_ball_comes_back():
    """Twenty bounces with restitution 1: heights stay within the first order of the step."""
    dt = 1e-3
    simulator = sim.Simulator(loose_ball(restitution=1.0), dt)
    trajectory = simulator.rollout(simulator.state([0, 0, 0.6, 0, 0, 0, 1]), steps=round(20 * 2 * np.sqrt(1 / G) / dt))
    z, speed = trajectory.q.numpy()[:, 0, 2] - 0.1, trajectory.qd.numpy()[:, 0, 2]
    # What semi-implicit Euler conserves in free fall: the velocity belongs to half a step before the position.
    energy = G * z + speed**2 / 2 - G * dt / 2 * speed
    assert z.min() > -1e-9
    np.testing.assert_allclose(energy, G * 0.5, rtol=1e-4)


def landing(name: str, contact: sim.ContactMethod) -> Case:
    """Bodies that bounce, by name."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0, restitution=1.0))
    qd = np.zeros(6)
    if name == "ball that slides":
        builder.add_sphere(
            radius=0.1, mass=0.3, position=(0, 0, 0.13), surface=sim.Surface(friction=0.2, restitution=0.7)
        )
        qd = np.array([2.0, 1.0, -3.0, 0.2, 0.1, 0.3])
    elif name == "ball that sticks":
        builder.add_sphere(
            radius=0.1, mass=0.3, position=(0, 0, 0.13), surface=sim.Surface(friction=0.9, restitution=0.7)
        )
        qd = np.array([0.5, 0.2, -3.0, 0.2, 0.1, 0.3])
    elif name == "ball with torsion":
        builder.add_sphere(
            radius=0.1, mass=0.3, position=(0, 0, 0.13),
            surface=sim.Surface(friction=0.9, restitution=0.7, torsional_friction=0.01, rolling_friction=0.005),
        )  # fmt: skip
        qd = np.array([0.5, 0.2, -3.0, 0.2, 9.0, 20.0])
    elif name == "box on its corners":
        # Two corners touch at different moments of a step.
        builder.add_box(
            half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0, 0, 0.064), orientation=(0.02, 0.0, 0.1, 1.0),
            surface=sim.Surface(friction=0.4, restitution=0.5),
        )  # fmt: skip
        qd = np.array([1.0, 0.3, -2.5, 0.4, 0.3, 1.0])
    else:
        # One ball rests on the ground while another hits it, and the ground, from above.
        builder.add_sphere(radius=0.1, mass=0.3, position=(0, 0, 0.0999), surface=sim.Surface(friction=0.6))
        builder.add_sphere(
            radius=0.1, mass=0.5, position=(0.193, 0.02, 0.12), surface=sim.Surface(friction=0.6, restitution=0.8)
        )
        qd = np.array([0, 0, 0, 0, 0, 0, -1.0, 0.1, -3.0, 0.2, 0.1, 0.3])
    return case(builder.finalize("float64"), 12, qd=qd, contact=contact)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "name", ["ball that slides", "ball that sticks", "ball with torsion", "box on its corners", "two balls"]
)
def test_gradients(name, options):
    c = landing(name, OPTIONS[options])
    assert "open" in regimes(c)
    check(c, BODY)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_of_an_arm_that_bounces(options):
    """Two links, of which the last hits the ground while a limit and a damper act on the first."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5, restitution=1.0))
    builder.add_link("upper", mass=1.0, com=(0.15, 0.0, 0.0), inertia=(0.002, 0.01, 0.01))
    builder.add_joint(
        "shoulder",
        "revolute",
        child="upper",
        axis=(0.0, 1.0, 0.0),
        position=(0.0, 0.0, 0.4),
        limits=sim.Limits(upper=0.9),
        spring=sim.Spring(damping=0.1),
    )
    builder.add_link("lower", mass=0.5, com=(0.1, 0.02, 0.0), inertia=(0.001, 0.004, 0.004))
    builder.add_joint("elbow", "spherical", parent="upper", child="lower", position=(0.3, 0.0, 0.0))
    builder.add_geometry(
        "lower", SPHERE, size=(0.05, 0, 0), position=(0.2, 0.0, 0.0), surface=sim.Surface(friction=0.3, restitution=0.6)
    )
    model = builder.finalize("float64")
    q = model.q0.copy()
    q[0] = 0.78
    c = case(model, 10, q, [2.0, 0.3, 1.0, -0.4], OPTIONS[options], dt=1 / 240)
    assert "open" in regimes(c)
    check(c, ["mass", "com", "inertia", "damping", "restitution", "friction", "gravity"])


def test_the_restitution_of_the_ground_alone_makes_nothing_bounce():
    """It is 1, which leaves that of a pair to the other body; without that nothing of a bounce is computed."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.2))
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu")
    assert not simulator.engine.bouncing
    simulator.parameters["restitution"] = [1.0, 0.5]
    assert simulator.engine.bouncing
