"""Contact of two moving bodies: momentum, restitution, robots that touch each other and loose bodies."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, G, balls, run
from tests.simulation.differences import blocks
from warp_kernels.constraints.kinds import CONTACT
from warp_kernels.types import SPHERE


def momentum(model: sim.Model, qd: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Linear and angular momentum about the world's origin of free balls, [steps, 6]."""
    total = np.zeros((len(q), 6))
    for number, (mass, inertia) in enumerate(
        zip(model.parameters["mass"], model.parameters["inertia"][:, 0, 0], strict=True)
    ):
        at, v, w = q[:, 7 * number :][:, :3], qd[:, 6 * number :][:, :3], qd[:, 6 * number + 3 :][:, :3]
        total[:, :3] += mass * v
        total[:, 3:] += mass * np.cross(at, v) + inertia * w
    return total


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_head_on_collision(restitution):
    """Velocities of two unequal balls after a central collision."""
    model = balls([(-0.15, 0, 0), (0.15, 0, 0)], [1.0, 3.0], restitution)
    q, qd, _ = run(model, 0.2, [2.0, 0, 0, 0, 0, 0, -1.0, 0, 0, 0, 0, 0])
    mean = (2.0 - 3.0) / 4.0
    expected = [mean - 0.75 * 3.0 * restitution, mean + 0.25 * 3.0 * restitution]
    np.testing.assert_allclose(qd[-1, [0, 6]], expected, atol=1e-12)
    if restitution == 0.0:
        np.testing.assert_allclose(q[-1, 7] - q[-1, 0], 0.2, atol=1e-12)


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_oblique_collision_keeps_momentum(friction):
    """Linear momentum exactly; angular momentum up to the step, since balls touch at a distance."""
    model = balls([(-0.15, 0.05, 0.02), (0.15, 0, 0)], [1.0, 3.0], 0.7, friction)
    start = [2.0, 0.1, 0, 1.0, 0, 3.0, -1.0, 0, 0.3, 0, 2.0, 0]
    for dt in (1e-3, 1e-4):
        q, qd, _ = run(model, 0.2, start, dt=dt)
        p = momentum(model, qd, q)
        assert np.abs(qd[-1] - qd[0]).max() > 0.5
        np.testing.assert_allclose(p[:, :3], np.tile(p[0, :3], (len(p), 1)), atol=1e-12)
        np.testing.assert_allclose(p[:, 3:], np.tile(p[0, 3:], (len(p), 1)), atol=6.0 * dt)


def test_collision_obeys_galilei():
    """Seen from a train the same happens."""
    model = balls([(-0.15, 0.05, 0.02), (0.15, 0, 0)], [1.0, 3.0], 0.7, 0.5)
    start = np.array([2.0, 0.1, 0, 1.0, 0, 3.0, -1.0, 0, 0.3, 0, 2.0, 0])
    train = np.array([3.0, -4.0, 5.0, 0, 0, 0] * 2)
    _, qd, _ = run(model, 0.2, start)
    _, moving, _ = run(model, 0.2, start + train)
    np.testing.assert_allclose(moving - train, qd, atol=1e-9)


def test_newtons_cradle():
    """With gaps the collisions come one after the other and the last ball takes all, energy and momentum.

    Balls that touch are hit at once, and the solver treats that as one collision: restitution is for pairs that
    approach, so the first rebounds at a third of its speed and the other two go on together at two thirds. That keeps
    energy, too.
    """
    x = [(-0.5, 0, 0), (0.0, 0, 0), (0.2 + 2e-3, 0, 0)]
    start = [1.0, *np.zeros(17)]
    _, qd, _ = run(balls(x, [1.0] * 3, 1.0), 0.6, start)
    np.testing.assert_allclose(qd[-1], [*np.zeros(12), 1.0, *np.zeros(5)], atol=1e-9)

    x[2] = (0.2, 0, 0)
    _, qd, _ = run(balls(x, [1.0] * 3, 1.0), 0.6, start)
    np.testing.assert_allclose(qd[-1, [0, 6, 12]], [-1 / 3, 2 / 3, 2 / 3], atol=1e-6)
    np.testing.assert_allclose((qd[-1] ** 2).sum(), 1.0, atol=1e-6)


def test_row_of_balls_without_restitution_sticks_together():
    _, qd, _ = run(balls([(-0.3, 0, 0), (0.0, 0, 0), (0.2, 0, 0)], [1.0, 2.0, 3.0]), 0.3, [1.0, *np.zeros(17)])
    np.testing.assert_allclose(qd[-1, [0, 6, 12]], 1 / 6, atol=1e-6)


def slider_and_ball(restitution: float) -> sim.Model:
    """A robot of one sliding joint of 2 kg, and a ball of 0.5 kg in its way."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("hammer", mass=2.0, inertia=(1, 1, 1))
    builder.add_joint("slide", "prismatic", child="hammer", axis=(1, 0, 0))
    builder.add_geometry("hammer", SPHERE, size=(0.1, 0, 0), surface=sim.Surface(restitution=restitution, friction=0.0))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0.3, 0, 0), surface=sim.Surface(restitution=1.0))
    return builder.finalize("float64")


@pytest.mark.parametrize("restitution", [0.0, 1.0])
def test_robot_hits_a_ball(restitution):
    _, qd, _ = run(slider_and_ball(restitution), 0.2, [1.5, 0, 0, 0, 0, 0, 0])
    mean = 2.0 * 1.5 / 2.5
    np.testing.assert_allclose(qd[-1, :2], [mean - 0.2 * 1.5 * restitution, mean + 0.8 * 1.5 * restitution], atol=1e-12)
    np.testing.assert_allclose(2.0 * qd[:, 0] + 0.5 * qd[:, 1], 3.0, atol=1e-12)


def test_pendulum_hits_a_ball():
    """Angular momentum about the hinge is kept, energy too: the ball's velocity follows from both."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("rod", mass=1.0, com=(0, 0, -0.3), inertia=(0.05, 0.05, 0.01))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0, 1, 0))
    builder.add_geometry(
        "rod", SPHERE, size=(0.05, 0, 0), position=(0, 0, -0.5), surface=sim.Surface(restitution=1.0, friction=0.0)
    )
    # The rod swings towards -x for a positive rate about y.
    builder.add_sphere(radius=0.05, mass=0.4, position=(-0.10001, 0, -0.5), surface=sim.Surface(restitution=1.0))
    _, qd, _ = run(builder.finalize("float64"), 2 * DT, [3.0, 0, 0, 0, 0, 0, 0])
    inertia, load = 0.05 + 0.09, 0.4 * 0.25
    after = 3.0 * (inertia - load) / (inertia + load)
    np.testing.assert_allclose(qd[-1, 0], after, rtol=1e-4)
    np.testing.assert_allclose(qd[-1, 1], -(3.0 + after) * 0.5, rtol=1e-4)


def test_two_robots_and_loose_bodies_in_one_world():
    """Two arms rest with a finger each on the ground, a ball lies on one of them, a box beside: all in one problem."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    for side in (-1.0, 1.0):
        name = f"arm {side:+.0f}"
        builder.add_link(name, mass=1.0, com=(0, 0, -0.1), inertia=(0.01, 0.01, 0.01))
        builder.add_joint(
            f"to {name}",
            "prismatic",
            child=name,
            position=(side, 0, 0.3),
            axis=(0, 0, 1),
            spring=sim.Spring(damping=1.0),
        )
        builder.add_geometry(name, SPHERE, size=(0.1, 0, 0), position=(0, 0, -0.2))
    builder.add_sphere(radius=0.1, mass=0.5, position=(1.0, 0, 0.3))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 1.0, 0.1))
    model = builder.finalize("float64")
    q, qd, simulator = run(model, 0.05)
    np.testing.assert_allclose(q[-1], model.q0, atol=1e-9)
    found = [block.impulse[0] / DT for block in blocks(simulator) if block.kind == CONTACT]
    np.testing.assert_allclose(sorted(found), sorted([G, 1.5 * G, 0.5 * G, *[0.5 * G] * 4]), rtol=1e-6)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)


def test_robots_touch_each_other():
    """Two sliders driven against each other by unequal forces move as one."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for side in (-1.0, 1.0):
        name = f"slider {side:+.0f}"
        builder.add_link(name, mass=2.0, inertia=(1, 1, 1))
        builder.add_joint(f"to {name}", "prismatic", child=name, position=(0.1 * side, 0, 0), axis=(1, 0, 0))
        builder.add_geometry(name, SPHERE, size=(0.1, 0, 0))
    _q, qd, simulator = run(builder.finalize("float64"), 0.1, tau=np.array([10.0, -4.0]))
    np.testing.assert_allclose(qd[-1], 0.1 * 6.0 / 4.0, rtol=1e-9)
    (block,) = blocks(simulator)
    np.testing.assert_allclose(block.impulse[0] / DT, 7.0, rtol=1e-9)
