"""Friction against closed forms: inclines, stopping distances, the shape of the cone and of the pyramid."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, G, loose_box, run
from tests.simulation.differences import blocks
from warp_kernels.types import BOX

MU = 0.5
ANGLE = np.arctan(MU)


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
@pytest.mark.parametrize("angle", [0.5 * ANGLE, 0.98 * ANGLE])
def test_block_sticks_below_the_friction_angle(friction, angle):
    model = loose_box(MU, angle)
    q, qd, _ = run(model, 0.5, friction=friction)
    np.testing.assert_allclose(q, np.tile(model.q0, (len(q), 1)), atol=1e-9)
    assert np.abs(qd).max() < 1e-8


@pytest.mark.parametrize("angle", [1.05 * ANGLE, 1.5 * ANGLE])
def test_block_slides_above_it(angle):
    _, qd, _ = run(loose_box(MU, angle), 0.5)
    expected = G * (np.sin(angle) - MU * np.cos(angle)) * DT * np.arange(len(qd))
    np.testing.assert_allclose(qd[:, 0], expected, atol=1e-7)
    np.testing.assert_allclose(qd[:, 1:], 0.0, atol=1e-7)


@pytest.mark.parametrize("axis", [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.6, 0.8, 0.0)])
@pytest.mark.parametrize("ratio", [0.9, 1.3])
def test_tilted_plane(axis, ratio):
    """The same with the plane itself tilted about any axis."""
    angle = ratio * ANGLE
    turn = (*(np.sin(angle / 2) * np.array(axis)), np.cos(angle / 2))
    builder = sim.ModelBuilder()
    builder.add_geometry("world", 0, name="slope", orientation=turn, surface=sim.Surface(friction=MU))
    normal = np.cross(axis, [0, 0, 1.0]) * np.sin(angle) + np.array([0, 0, np.cos(angle)])
    builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=0.05 * normal, orientation=turn)
    model = builder.finalize("float64")
    _, qd, _ = run(model, 0.3)
    downhill = np.array([0, 0, -1.0]) + normal[2] * normal
    downhill /= np.linalg.norm(downhill)
    acceleration = max(G * (np.sin(angle) - MU * np.cos(angle)), 0.0)
    np.testing.assert_allclose(qd[-1, :3], acceleration * DT * (len(qd) - 1) * downhill, atol=1e-7)


@pytest.mark.parametrize("dt", [1e-3, 1e-4])
def test_stopping_distance(dt):
    v0 = 1.5
    q, qd, _ = run(loose_box(MU), 0.4, [v0, 0, 0, 0, 0, 0], dt=dt)
    # Semi-implicit Euler loses half a step of the initial velocity; the sum over the steps is exact.
    n = int(v0 / (MU * G * dt))
    np.testing.assert_allclose(q[-1, 0], n * v0 * dt - MU * G * dt**2 * n * (n + 1) / 2, atol=1e-7)
    np.testing.assert_allclose(q[-1, 0], v0**2 / (2 * MU * G), atol=v0 * dt)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)


@pytest.mark.parametrize("heading", np.linspace(0.0, 2 * np.pi, 9)[:-1])
def test_cone_is_isotropic(heading):
    """Friction of full size, opposite to the slip, for every heading."""
    v0 = np.array([np.cos(heading), np.sin(heading)])
    q, qd, simulator = run(loose_box(MU), 0.1, [*v0, 0, 0, 0, 0])
    np.testing.assert_allclose(qd[-1, :2], v0 * (1 - MU * G * 0.1), atol=1e-7)
    np.testing.assert_allclose(q[-1, 0] * v0[1] - q[-1, 1] * v0[0], 0.0, atol=1e-7)
    for block in blocks(simulator):
        np.testing.assert_allclose(np.linalg.norm(block.impulse[1:]), MU * block.impulse[0], rtol=1e-9)


@pytest.mark.parametrize("heading", np.linspace(0.0, np.pi, 7)[:-1])
def test_pyramid_bounds_each_tangent(heading):
    """Between mu N along a tangent and sqrt(2) mu N across; along the slip at least mu N."""
    v0 = np.array([np.cos(heading), np.sin(heading)])
    _, qd, simulator = run(loose_box(MU), DT, [*v0, 0, 0, 0, 0], friction="pyramid")
    for block in blocks(simulator):
        assert np.abs(block.impulse[1:]).max() <= MU * block.impulse[0] * (1 + 1e-12)
    deceleration = np.linalg.norm(v0 - qd[-1, :2]) / DT
    assert MU * G * (1 - 1e-6) < deceleration < np.sqrt(2) * MU * G * (1 + 1e-6)


def test_pyramid_reaches_its_corner():
    sizes = []
    for heading in np.linspace(0.0, np.pi / 2, 19):
        _, qd, _ = run(loose_box(MU), DT, [np.cos(heading), np.sin(heading), 0, 0, 0, 0], friction="pyramid")
        sizes.append(np.hypot(np.cos(heading) - qd[-1, 0], np.sin(heading) - qd[-1, 1]) / DT / (MU * G))
    assert max(sizes) > 1.4


def test_no_friction_where_nothing_presses():
    """A box that lifts off at once feels nothing, however rough."""
    _, qd, simulator = run(loose_box(10.0), DT, [1.0, 0.5, 0.1, 0, 0, 0])
    found = blocks(simulator)
    assert len(found) == 4
    for block in found:
        np.testing.assert_array_equal(block.impulse, 0.0)
    np.testing.assert_allclose(qd[-1], [1.0, 0.5, 0.1 - G * DT, 0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_friction_is_bounded_by_the_normal_impulse(friction):
    """Thrown on the ground at random, in every step."""
    simulator = sim.Simulator(loose_box(0.7, height=0.25), 1e-3, contact=sim.HardContact(friction=friction))
    q = simulator.model.q0.copy()
    q[3:7] = (0.2, 0.1, -0.3, 0.9)
    state = simulator.state(q, [1.0, 0.3, -2.0, 1.0, 2.0, -3.0])
    pressed = 0
    for _ in range(400):
        state = simulator.step(state)
        for block in blocks(simulator):
            tangent = np.abs(block.impulse[1:])
            size = np.linalg.norm(tangent) if friction == "cone" else tangent.max()
            assert block.impulse[0] >= 0.0
            assert size <= 0.7 * block.impulse[0] * (1 + 1e-12)
            pressed += block.impulse[0] > 0.0
    assert pressed > 100


def test_ball_slides_then_rolls():
    """Thrown without spin it ends at 5/7 of its speed, rolling."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.3))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0.0, 0.0, 0.1))
    _, qd, _ = run(builder.finalize("float64"), 0.4, [2.0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(qd[-1], [10 / 7, 0, 0, 0, 100 / 7, 0], atol=1e-9)
    slipping = qd[:, 0] - 0.1 * qd[:, 4] > 1e-9
    np.testing.assert_allclose(qd[slipping, 0], 2.0 - 0.3 * G * DT * np.arange(slipping.sum()), atol=1e-9)


def test_friction_of_a_pair_is_the_product():
    for ground, body in ((0.8, 0.5), (0.5, 0.8), (0.4, 1.0)):
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=ground))
        builder.add_box(
            half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(0, 0, 0.05), surface=sim.Surface(friction=body)
        )
        _, qd, _ = run(builder.finalize("float64"), 0.05, [3.0, 0, 0, 0, 0, 0])
        np.testing.assert_allclose(qd[-1, 0], 3.0 - ground * body * G * 0.05, atol=1e-7)


def test_box_held_between_two_fingers():
    """Two sliders press a box with 10 N each: friction 0.5 carries at most 10 N of weight."""
    for mass, held in ((0.9, True), (1.15, False)):
        builder = sim.ModelBuilder()
        for side in (-1.0, 1.0):
            name = f"finger {side:+.0f}"
            builder.add_link(name, mass=0.3, inertia=(0.01, 0.01, 0.01))
            builder.add_joint(f"to {name}", "prismatic", child=name, position=(0.15 * side, 0, 0), axis=(1, 0, 0))
            builder.add_geometry(name, 1, size=(0.05, 0, 0), surface=sim.Surface(friction=0.5))
        builder.add_geometry("finger +1", BOX, name="unused", size=(0.01, 0.01, 0.01), collides=False)
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=mass)
        tau = np.array([10.0, -10.0, 0, 0, 0, 0, 0, 0])
        q, qd, _ = run(builder.finalize("float64"), 0.2, tau=tau)
        fall = 0.0 if held else G - 10.0 / mass
        np.testing.assert_allclose(qd[-1, 4], -fall * 0.2, atol=1e-3)
        assert (abs(q[-1, 4]) < 1e-6) == held
