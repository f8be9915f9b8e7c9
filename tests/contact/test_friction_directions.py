"""Friction that differs along two directions of a geometry or of a pair: closed forms, rules, gradients, lanes."""

import numpy as np
import pytest

import sim
from sim.diagnostics.gradient_entries import entries
from tests.contact.worlds import DT, G
from tests.errors import raises_naming
from tests.simulation.differences import case, check

ALONG, ACROSS = 0.2, 0.5
HARD = {"newton": sim.HardContact(), "pgs": sim.PgsContact(sweeps=100)}


def ski(tilt=0.0, toward=0.0, heading=0.4, number=1, **surface):
    """Flat boxes with a direction on a slope whose plane is z = 0; it descends toward an angle from the direction."""
    way = heading + toward
    gravity = G * np.array([np.sin(tilt) * np.cos(way), np.sin(tilt) * np.sin(way), -np.cos(tilt)])
    builder = sim.ModelBuilder(gravity=tuple(gravity))
    builder.add_ground()
    for place in range(number):
        builder.add_box(
            half_extents=(0.2, 0.2, 0.001), mass=2.0, position=(place, 0, 0.001),
            orientation=(0, 0, np.sin(heading / 2), np.cos(heading / 2)),
            surface=sim.Surface(
                **{"friction": ALONG, "friction_across": ACROSS, "friction_direction": (3.0, 0, 0.1)} | surface
            ),
        )  # fmt: skip
    return builder.finalize("float64")


def velocities(model, qd, steps=20, contact=HARD["pgs"]):
    """By default by sweeps, with which contacts are exactly hard."""
    simulator = sim.Simulator(model, DT, device="cpu", contact=contact)
    return simulator.rollout(simulator.state(model.q0, qd), steps=steps).qd.numpy()


def turned(vector, angle):
    """A vector in the plane, from axes along and across the direction to those of the world."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ vector


@pytest.mark.parametrize("method", HARD)
@pytest.mark.parametrize("toward", [0.0, 0.7, np.pi / 2])
def test_sticks_within_the_ellipse(toward, method):
    """The largest slope on which a body stays depends on where that descends to."""
    reach = 1.0 / np.hypot(np.cos(toward) / ALONG, np.sin(toward) / ACROSS)
    for share in (0.97, 1.05):
        model = ski(np.arctan(share * reach), toward)
        speed = np.linalg.norm(velocities(model, np.zeros(6), contact=HARD[method])[-1, 0, :3])
        assert speed < 2e-4 if share < 1.0 else speed > 1e-3


@pytest.mark.parametrize("method", HARD)
@pytest.mark.parametrize("slip", [(1.0, 0.0), (0.0, -1.0), (0.6, 0.8), (0.9, -0.1)])
def test_slides_with_the_most_dissipation(slip, method):
    """Along the gradient of the ellipse's support function, so not against the slip."""
    slip = np.array(slip)
    model = ski()
    qd = np.zeros(6)
    qd[:2] = turned(slip, 0.4)
    end = velocities(model, qd, steps=1, contact=HARD[method])[-1, 0]
    force = -(np.array([ALONG, ACROSS]) ** 2) * slip
    force /= np.hypot(ALONG * slip[0], ACROSS * slip[1])
    # Newton's method has normal forces that lack a thousandth in the first step, by its regularisation.
    np.testing.assert_allclose((end[:2] - qd[:2]) / (G * DT), turned(force, 0.4), atol=2e-3)
    np.testing.assert_allclose(end[2:], 0.0, atol=1e-5)


def test_a_pyramid_bounds_each_direction():
    qd = np.zeros(6)
    qd[:2] = turned(np.array([1.0, 0.1]), 0.4)
    end = velocities(ski(), qd, steps=10, contact=sim.PgsContact(sweeps=100, friction="pyramid"))[-1, 0, :2]
    np.testing.assert_allclose((qd[:2] - end) / (10 * G * DT), turned(np.array([ALONG, ACROSS]), 0.4), atol=1e-5)


def test_without_friction_across():
    qd = np.zeros(6)
    qd[:2] = turned(np.array([1.0, 1.0]), 0.4)
    end = velocities(ski(friction_across=0.0), qd, steps=10)[-1, 0, :2]
    np.testing.assert_allclose((qd[:2] - end) / (10 * G * DT), turned(np.array([ALONG, 0.0]), 0.4), atol=1e-5)


def test_an_angle_turns_the_direction_about_the_outward_normal():
    """The normal of the box that touches the ground points down."""
    qd = np.array([1.0, 0.3, 0, 0, 0, 0])
    ends = [velocities(ski(heading=heading, friction_angle=angle), qd) for heading, angle in ((0.5, 0), (0.4, -0.1))]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-7)
    assert np.abs(ends[0] - velocities(ski(heading=0.3), qd)).max() > 1e-3


def test_rules_of_a_pair():
    """Product, larger, one side's: as the friction of an isotropic pair is combined, for both directions."""
    qd = np.zeros(6)
    for slip, number in ((np.array([1.0, 0.0]), 0), (np.array([0.0, 1.0]), 1)):
        qd[:2] = turned(slip, 0.4)
        for ground, own, expected in (
            (sim.Surface(friction=0.5), {}, (0.5 * ALONG, 0.5 * ACROSS)),
            (sim.Surface(friction=0.3, friction_rule="maximum"), {"friction_rule": "maximum"}, (0.3, ACROSS)),
            (sim.Surface(friction=0.3), {"priority": 1}, (ALONG, ACROSS)),
            (sim.Surface(friction=0.3, priority=1), {}, (0.3, 0.3)),
        ):
            builder = sim.ModelBuilder()
            builder.add_ground(surface=ground)
            surface = sim.Surface(friction=ALONG, friction_across=ACROSS, friction_direction=(1, 0, 0), **own)
            builder.add_sphere(
                radius=0.1, mass=2.0, position=(0, 0, 0.1), orientation=(0, 0, np.sin(0.2), np.cos(0.2)),
                surface=surface,
            )  # fmt: skip
            end = velocities(builder.finalize("float64"), qd, steps=1)[-1, 0, :2]
            np.testing.assert_allclose((qd[:2] - end) / (G * DT), turned(slip * expected[number], 0.4), atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_of_a_stated_pair(directed):
    """The first tangent follows the direction of a geometry, or is the world's y axis as in MuJoCo."""
    builder = sim.ModelBuilder()
    own = {"friction_across": 0.3, "friction_direction": (0.0, 0.0, 1.0)} if directed else {}
    builder.add_ground()
    builder.add_cylinder(
        radius=0.1, half_length=0.2, mass=2.0, position=(0, 0, 0.1), orientation=(0.0, np.sqrt(0.5), 0, np.sqrt(0.5)),
        surface=sim.Surface(friction=0.3, **own), name="log",
    )  # fmt: skip
    builder.set_pair_friction("log/geometry", "ground", friction=(0.4, 0.1))
    end = velocities(builder.finalize("float64"), [1.0, 0, 0, 0, 0, 0], steps=1)[-1, 0]
    np.testing.assert_allclose((1.0 - end[0]) / (G * DT), 0.4 if directed else 0.1, atol=1e-5)


def test_two_rolling_frictions_of_a_pair():
    """A ball that rolls along y turns about x, the second tangent."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 0.1), name="ball")
    builder.set_pair_friction("ball/geometry", "ground", friction=1.0, rolling_friction=(0.002, 0.005))
    model = builder.finalize("float64")
    for qd, roll in (((0.5, 0, 0, 0, 5.0, 0), 0.002), ((0, 0.5, 0, -5.0, 0, 0), 0.005)):
        end = velocities(model, qd, steps=50)[-1, 0]
        np.testing.assert_allclose(0.5 - np.linalg.norm(end[:2]), roll * G / (0.1 * 1.4) * 50 * DT, atol=1e-5)
    simulator = sim.Simulator(model, DT, device="cpu", contact=HARD["pgs"])
    torque = simulator.contacts(simulator.state(model.q0, [0, 0.5, 0, -5.0, 0, 0])).torque[0]
    np.testing.assert_allclose(torque, [0.005 * 0.5 * G, 0.0, 0.0], atol=1e-6)


def mecanum():
    """A platform on four wheels with rollers, which turn freely: no friction across their axes."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_link("platform", mass=8.0, inertia=(0.2, 0.2, 0.3))
    builder.add_joint("base", "free", child="platform", position=(0, 0, 0.1))
    axle = (np.sin(-np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4))  # the wheel's z axis along y
    for number, (x, y) in enumerate([(0.3, 0.2), (0.3, -0.2), (-0.3, 0.2), (-0.3, -0.2)]):
        sign = -1 if number in (0, 3) else 1
        wheel = f"wheel{number}"
        builder.add_link(wheel, mass=1.0, inertia=(0.005, 0.005, 0.005))
        builder.add_joint(wheel, "revolute", parent="platform", child=wheel, position=(x, y, 0), orientation=axle)
        builder.add_geometry(
            wheel, "sphere", size=0.1,
            surface=sim.Surface(
                friction=0.9, friction_across=0.0, friction_direction=(0, 0, 1), friction_angle=sign * np.pi / 4
            ),
        )  # fmt: skip
        builder.add_actuator(wheel, "velocity", gains=sim.Gains(kd=20.0))
    return builder.finalize("float64")


@pytest.mark.parametrize(
    ("rates", "velocity"),
    [((5, 5, 5, 5), (0.5, 0.0, 0.0)), ((-5, 5, 5, -5), (0.0, 0.5, 0.0)), ((-5, 5, -5, 5), (0.0, 0.0, 1.0))],
    ids=["ahead", "sideways", "turning"],
)
def test_mecanum_wheels(rates, velocity):
    """v_x = r (w_0 + w_1 + w_2 + w_3) / 4, v_y = r (-w_0 + w_1 + w_2 - w_3) / 4, the turn likewise by arms of 0.5 m."""
    model = mecanum()
    simulator = sim.Simulator(model, 2e-3, device="cpu")
    control = np.tile(np.array(rates, dtype=float), (400, 1))
    end = simulator.rollout(simulator.initial_state(), control=control).qd.numpy()[-1, 0]
    np.testing.assert_allclose(end[[0, 1, 5]], velocity, atol=0.02)


@pytest.mark.parametrize("method", ["cone", "pyramid", "pgs", "mujoco"])
@pytest.mark.parametrize("motion", ["slides", "sticks", "along"])
def test_gradients(motion, method):
    """Where friction slides along both directions, holds along both, or along one of a pyramid's."""
    tilt, toward, qd = {
        "slides": (0.0, 0.0, [1.0, 0.7, 0, 0.1, 0.2, 0.5]),
        "sticks": (0.1, 0.3, np.zeros(6)),
        "along": (np.arctan(0.3), 0.2, [0.5, 1e-3, 0, 0, 0, 0]),
    }[motion]
    model = ski(tilt, toward, friction_angle=0.1)
    contact = {
        "cone": sim.HardContact(), "pyramid": sim.HardContact(friction="pyramid"), "pgs": sim.PgsContact(sweeps=300),
        "mujoco": sim.MujocoContact(solref=(0.03, 0.9), solimp=(0.7, 0.95, 0.02, 0.4, 3.0)),
    }[method]  # fmt: skip
    names = ["mass", "gravity", "geometry_placement", "friction", "friction_across"]
    held = motion == "sticks" and method != "mujoco"
    # In the ground by far more than the steps of the differences, where MuJoCo's law is smooth.
    c = case(model, 4, model.q0 - 2e-3 * (np.arange(7) == 2), qd, contact, force=1.0)
    check(c, names[:-2] if held else names, zero=names[-2:] if held else [])


def test_the_gradient_check_perturbs_geometries_with_a_direction():
    model = ski()
    found = [entry.owner for entry in entries(model, model.parameters["friction_across"], "friction_across")]
    assert found == ["geometry 'box_0/geometry'"]


def test_lane_groups_agree_with_single_worlds():
    model = ski(number=2)
    rng = np.random.default_rng(3)
    worlds = 16
    qd = rng.normal(size=(worlds, model.nv)) * np.tile([1, 1, 0, 0, 0, 1], 2)
    frictions = {name: rng.uniform(0.1, 0.8, (worlds, 3)) for name in ("friction", "friction_across")}
    frictions["friction_across"][:, 0] = 0.0
    for contact in (sim.HardContact(), sim.MujocoContact(), sim.MujocoContact(friction="pyramid")):
        together = gradients(model, contact, qd, frictions)
        for world in (0, 11):
            alone = gradients(model, contact, qd[[world]], {name: x[[world]] for name, x in frictions.items()})
            for name, value in alone.items():
                np.testing.assert_allclose(together[name][[world]], value, atol=1e-7, err_msg=name)
        assert np.abs(together["friction_across"][:, 1:]).max(axis=0).min() > 1e-3


def gradients(model, contact, qd, frictions):
    """The velocities after some steps, and the gradient of one of their sums."""
    simulator = sim.Simulator(model, DT, len(qd), "cpu", contact, frictions)
    trajectory = simulator.rollout(simulator.state(np.tile(model.q0, (len(qd), 1)), qd), steps=5)
    weights = np.cos(np.arange(model.nv)) * np.ones((len(qd), 1))
    found = trajectory.backward(None, weights, list(frictions))
    return {"qd_end": trajectory.qd.numpy()[-1], "qd": found.qd.numpy()} | found.parameters


def test_refused():
    one = sim.Surface(friction_across=0.5, friction_direction=(1, 0, 0))
    with raises_naming("friction_across", "'ground'", "friction_direction"):
        sim.Simulator(ski(), DT, parameters={"friction_across": np.full(2, 0.5)})
    crowd = sim.ModelBuilder()
    for number in range(130):
        crowd.add_sphere(radius=0.1, mass=1.0, position=(number, 0, 0), surface=one if number == 0 else sim.Surface())
    with raises_naming("two directions", "128", "MujocoContact"):
        sim.Simulator(crowd.finalize(), DT)
