"""Surfaces that move while their geometries don't: closed forms, momentum, lane groups and gradients."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, G, run
from tests.simulation.differences import case, check, regimes

SPEED, FRICTION, RADIUS = 0.6, 0.4, 0.1


def on_belt(
    velocity=(SPEED, 0.0, 0.0), spin=None, ball: bool = False, dtype: str = "float64", own: dict | None = None
) -> sim.Model:
    """A flat box, or a ball, on a ground whose surface moves; own: surface of the body."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=FRICTION, velocity=velocity, spin=spin))
    surface = sim.Surface(friction=1.0, **(own or {}))
    if ball:
        builder.add_sphere(radius=RADIUS, mass=0.5, position=(0, 0, RADIUS), surface=surface)
    else:
        builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(0, 0, 0.05), surface=surface)
    return builder.finalize(dtype)


@pytest.mark.parametrize("direction", [(1.0, 0.0), (-0.6, 0.8)])
def test_a_box_comes_to_the_speed_of_a_belt(direction):
    """After v / (mu g), in which it slides by v^2 / (2 mu g)."""
    x, y = direction
    q, qd, _ = run(on_belt((SPEED * x, SPEED * y, 0.3)), 0.3)  # the part along the normal doesn't count
    along = qd[:, :2] @ direction
    stop = SPEED / (FRICTION * G)
    steps = int(stop / DT)
    np.testing.assert_allclose(along[: steps + 1], FRICTION * G * DT * np.arange(steps + 1), atol=1e-9)
    np.testing.assert_allclose(along[steps + 2 :], SPEED, atol=1e-9)
    np.testing.assert_allclose(qd[:, 2], 0.0, atol=1e-9)
    slid = SPEED * DT * (len(q) - 1) - (q[-1, :2] - q[0, :2]) @ direction
    np.testing.assert_allclose(slid, SPEED**2 / (2 * FRICTION * G), atol=SPEED * DT)


def test_a_ball_rolls_on_a_belt():
    """From rest it slides until it moves at 2/7 of the belt's speed, after 2 v / (7 mu g)."""
    _, qd, _ = run(on_belt(ball=True), 0.1)
    steps = int(2 / 7 * SPEED / (FRICTION * G) / DT)
    np.testing.assert_allclose(qd[: steps + 1, 0], FRICTION * G * DT * np.arange(steps + 1), atol=1e-9)
    np.testing.assert_allclose(qd[steps + 2 :, 0], 2 / 7 * SPEED, atol=1e-9)
    np.testing.assert_allclose(qd[-1, 4], -5 / 7 * SPEED / RADIUS, atol=1e-8)


def test_a_turntable_carries_a_box_around():
    """A box that turns with the table stays on its circle, held by friction, and turns as fast."""
    rate, radius = 2.0, 0.5
    assert rate**2 * radius < FRICTION * G
    model = on_belt(None, (0.0, 0.0, rate))
    start = model.q0 + radius * (np.arange(7) == 0)
    q, qd, _ = run(model, 1.0, [0, rate * radius, 0, 0, 0, rate], q=start, dt=DT)
    np.testing.assert_allclose(qd[-1, 5], rate, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(q[-1, :2]), radius, rtol=rate**2 * DT)
    np.testing.assert_allclose(np.arctan2(q[-1, 1], q[-1, 0]), rate, rtol=rate**2 * DT)


def test_torsional_friction_sees_the_spin():
    """A ball at the centre of a turntable gains spin by c m g / I until it turns with the table."""
    rate, reach = 5.0, 0.01
    model = on_belt(None, (0.0, 0.0, rate), ball=True, own={"torsional_friction": reach})
    _, qd, _ = run(model, 0.4)
    gain = reach * G / (0.4 * RADIUS**2)
    steps = int(rate / gain / DT)
    np.testing.assert_allclose(qd[: steps + 1, 5], gain * DT * np.arange(steps + 1), atol=1e-9)
    np.testing.assert_allclose(qd[steps + 2 :, 5], rate, atol=1e-9)


def test_surfaces_of_bodies_that_move():
    """Tracks drive a box along the ground in its own direction, and the belt under it adds its speed."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=FRICTION, velocity=(0.0, 0.3, 0.0)))
    turn = (0.0, 0.0, np.sin(0.4), np.cos(0.4))
    tracks = sim.Surface(friction=1.0, velocity=(-0.5, 0.0, 0.0))
    builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(0, 0, 0.05), orientation=turn, surface=tracks)
    _, qd, _ = run(builder.finalize("float64"), 0.4)
    np.testing.assert_allclose(qd[-1, :3], [0.5 * np.cos(0.8), 0.3 + 0.5 * np.sin(0.8), 0.0], atol=1e-9)


@pytest.mark.parametrize("shape", ["heightfield", "mesh", "box"])
def test_grounds(shape):
    """Other static geometries, turned so that their own x axis is the world's y axis."""
    builder, surface = sim.ModelBuilder(), sim.Surface(friction=FRICTION, velocity=(SPEED, 0.0, 0.0))
    turn = {"orientation": (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)), "surface": surface}
    if shape == "heightfield":
        builder.add_heightfield(np.zeros((5, 5)), spacing=0.5, **turn)
    elif shape == "mesh":
        corners = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
        builder.add_static_mesh(corners, [(0, 1, 2), (0, 2, 3)], **turn)
    else:
        builder.add_geometry("world", "box", size=(1, 1, 0.1), position=(0, 0, -0.1), **turn)
    builder.add_box(half_extents=(0.1, 0.1, 0.03), mass=2.0, position=(0.02, 0.01, 0.03))
    _, qd, _ = run(builder.finalize("float64"), 0.3)
    np.testing.assert_allclose(qd[-1], [0, SPEED, 0, 0, 0, 0], atol=1e-6)


def test_momentum_is_conserved():
    """Between two bodies in empty space: what one surface gives the other takes."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    spinning = sim.Surface(friction=0.7, velocity=(0.3, -0.2, 0.1), spin=(1.0, 2.0, -0.5))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 0), surface=spinning)
    builder.add_sphere(radius=0.1, mass=0.8, position=(0.03, 0.05, 0.19), surface=sim.Surface(friction=0.9))
    masses = np.array([[0.5], [0.8]])
    _, qd, _ = run(builder.finalize("float64"), 0.05, [0, 0, 0.2, 0, 0, 0, 0, 0, -0.3, 0, 0, 0])
    linear = (masses * qd.reshape(len(qd), 2, 6)[:, :, :3]).sum(axis=1)
    assert np.abs(qd[-1, :2]).min() > 1e-3
    np.testing.assert_allclose(linear, linear[:1].repeat(len(qd), axis=0), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_per_world(dtype):
    """Speeds of 16 worlds, in lane groups, and their gradients as one by one."""
    model, speeds = on_belt((0.0, 0.0, 0.0), dtype=dtype), np.linspace(-0.5, 0.5, 16)
    velocity = np.zeros((16, 2, 3))
    velocity[:, 0, 0] = speeds
    simulator = sim.Simulator(model, 1 / 240, 16, "cpu", parameters={"surface_velocity": velocity})
    trajectory = simulator.rollout(simulator.initial_state(), steps=40)
    np.testing.assert_allclose(trajectory.qd.numpy()[-1, :, 0], speeds, atol=2e-5)
    found = trajectory.backward(None, np.tile(np.eye(6)[0], (16, 1)), ["surface_velocity"]).parameters[
        "surface_velocity"
    ]
    np.testing.assert_allclose(found[:, 0], np.tile([1.0, 0.0, 0.0], (16, 1)), atol=1e-4)


def test_a_model_without_has_nothing_of_it():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=RADIUS, mass=0.5, position=(0, 0, RADIUS))
    model = builder.finalize()
    simulator = sim.Simulator(model, DT, device="cpu")
    assert not {"surface_velocity", "surface_spin"} & set(model.parameters)
    assert simulator.engine.shards[0].step.surfaces is None


MOTION = ("surface_velocity", "surface_spin")
SOFT = {"solref": (0.03, 0.9), "solimp": (0.7, 0.95, 0.02, 0.4, 3.0)}


@pytest.mark.parametrize(
    "contact",
    [sim.HardContact(), sim.PgsContact(), sim.PgsContact(sweeps=5),
     sim.MujocoContact(friction="cone", **SOFT), sim.MujocoContact(friction="pyramid", **SOFT)],
)  # fmt: skip
def test_gradients(contact):
    """A ball that slides on the belt and then rolls, and one that slides and spins."""
    own = {"torsional_friction": 0.02, "velocity": (0.1, 0.0, 0.2), "spin": (0.2, 1.0, 0.5)}
    model = on_belt((0.4, 0.2, 0.1), (0.3, -0.2, 3.0), ball=True, own=own)
    inside = 0.0 if isinstance(contact, sim.PgsContact) else 1e-3
    q = model.q0 + np.array([0.05, -0.1, -inside, 0, 0, 0, 0])
    names = [*MOTION, "torsional_friction", "geometry_placement", "geometry_size", "mass"]
    check(case(model, 10, q, [0.3, 0.0, 0.0, 0.0, 3.0, 0.5], contact), names)
    fast = case(model, 6, q, [3.0, 1.0, 0.0, 0.0, 0.0, 40.0], contact)
    if not isinstance(contact, sim.MujocoContact):  # whose cone also counts the torsional impulse
        assert regimes(fast) == {"slide"}
    check(fast, [*names, "friction"])
