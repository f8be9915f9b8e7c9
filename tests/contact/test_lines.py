"""Bodies that lie along edges: at rest on both ends of each line, with forces that sum to their weight."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.contact.test_convex_gradients import BODY
from tests.contact.worlds import G, run
from tests.simulation.differences import case, check, regimes

RADIUS = 0.1
SECONDS = 1.0


def check_rest(model: sim.Model, count: int) -> sim.Contacts:
    """The last body, of 1 kg, stays where it was put, on all the contacts that bear its weight."""
    q, qd, simulator = run(model, SECONDS)
    np.testing.assert_allclose(q, np.tile(q[0], (len(q), 1)), rtol=0.0, atol=1e-9)
    contacts = simulator.contacts(simulator.state(q[-1], qd[-1]))
    assert len(contacts) == count
    total = contacts.force_on(len(model.geometries) - 1, 1)[0]
    np.testing.assert_allclose(total, (0.0, 0.0, G), rtol=0.0, atol=1e-6)
    return contacts


def add_lying(builder: sim.ModelBuilder, shape: str, position: tuple[float, float, float], friction: float) -> None:
    """A capsule or cylinder of 1 kg along y, 0.25 m to either side."""
    lying = Rotation.from_euler("x", 90.0, True).as_quat()
    add = builder.add_capsule if shape == "capsule" else builder.add_cylinder
    add(
        radius=RADIUS,
        half_length=0.25,
        mass=1.0,
        position=position,
        orientation=tuple(lying),
        surface=sim.Surface(friction=friction),
    )


def over_a_gap(shape: str, shift: float = 0.0) -> sim.Model:
    """It lies along the upper edges of two boxes that are 12 cm apart and end 5 cm beyond each other."""
    builder = sim.ModelBuilder()
    for side, y in ((-1.0, 0.0), (1.0, 0.05)):
        builder.add_geometry("world", "box", size=(0.2, 0.3, 0.1), position=(0.26 * side, y, -0.1))
    add_lying(builder, shape, (0.0, shift, np.sqrt(RADIUS**2 - 0.06**2)), friction=0.5)
    return builder.finalize("float64")


@pytest.mark.parametrize("shape", ["capsule", "cylinder"])
@pytest.mark.parametrize("shift", [0.0, 0.15])
def test_a_body_over_a_gap_rests_on_both_ends_of_both_edges(shape, shift):
    contacts = check_rest(over_a_gap(shape, shift), 4)
    ends = [(-0.25 + shift, min(0.25 + shift, 0.3)), (-0.25 + shift, min(0.25 + shift, 0.35))]
    for side, expected in zip((-1.0, 1.0), ends, strict=True):
        there = contacts.point[:, 0] * side > 0.0
        np.testing.assert_allclose(np.sort(contacts.point[there, 1]), expected, atol=1e-6)
        np.testing.assert_allclose(np.abs(contacts.point[there, 0]), 0.06, atol=1e-6)
        np.testing.assert_allclose(np.abs(contacts.normal[there, 0]), 0.6, atol=1e-6)


@pytest.mark.parametrize("shape", ["capsule", "cylinder"])
def test_a_body_over_a_gap_comes_to_rest(shape):
    """Kicked along the edges, up at one end and about its own axis."""
    model = over_a_gap(shape)
    q, qd, simulator = run(model, 2.0, [0.0, 0.2, 0.0, 0.3, 1.0, 0.0])
    assert np.abs(q[:, 1]).max() > 3e-3
    assert np.abs(qd[-1]).max() < 1e-6
    # The axis is back over the middle of the gap, along y.
    np.testing.assert_allclose(q[-1, [0, 2]], model.q0[[0, 2]], rtol=0.0, atol=1e-6)
    axis = Rotation.from_quat(q[-1, 3:]).apply((0.0, 0.0, 1.0))
    np.testing.assert_allclose(np.abs(axis), (0.0, 1.0, 0.0), rtol=0.0, atol=1e-5)
    total = simulator.contacts(simulator.state(q[-1], qd[-1])).force_on(2, 1)[0]
    np.testing.assert_allclose(total, (0.0, 0.0, G), rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("shape", ["capsule", "cylinder"])
def test_a_body_in_a_groove_of_two_tilted_boxes_rests(shape):
    builder = sim.ModelBuilder()
    for side in (-1.0, 1.0):
        tilt = Rotation.from_euler("y", -side * np.pi / 6.0)
        position = tilt.apply((0.2 * side, 0.0, -0.1))
        builder.add_geometry("world", "box", size=(0.3, 0.3, 0.1), position=position, orientation=tilt.as_quat())
    add_lying(builder, shape, (0.0, 0.02, RADIUS / np.cos(np.pi / 6.0)), friction=0.0)
    contacts = check_rest(builder.finalize("float64"), 4)
    np.testing.assert_allclose(np.abs(contacts.normal[:, 0]), 0.5, atol=1e-9)
    np.testing.assert_allclose(np.sort(contacts.point[:, 1]), (-0.23, -0.23, 0.27, 0.27), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(contacts.force, axis=1), 0.25 * G / np.cos(np.pi / 6.0), rtol=1e-6)


def test_a_box_in_a_guide_stands_with_its_edge_on_an_edge():
    """The guide lets it go up and down and pitch, so that each end bears what the lever says."""
    builder = sim.ModelBuilder()
    turned = tuple(Rotation.from_euler("y", 45.0, True).as_quat())
    down = -0.1 * np.sqrt(2.0)
    builder.add_geometry("world", "box", size=(0.1, 0.3, 0.1), position=(0.0, 0.0, down), orientation=turned)
    for link, parent, kind, axis, height in (
        ("carriage", "world", "prismatic", (0, 0, 1), -down),
        ("box", "carriage", "revolute", (1, 0, 0), 0.0),
    ):
        builder.add_link(link, mass=0.5, inertia=(0.01, 0.01, 0.01))
        builder.add_joint(
            f"{link}_joint", kind, parent=parent, child=link, axis=axis, position=(0, 0.1 if height else 0, height)
        )
    builder.add_geometry("box", "box", size=(0.1, 0.3, 0.1), orientation=turned, surface=sim.Surface(friction=0.0))
    q, qd, simulator = run(builder.finalize("float64"), SECONDS, q=np.array([1e-3, 0.0]))
    np.testing.assert_allclose(q[-1], 0.0, atol=1e-6)
    assert np.abs(qd[-1]).max() < 1e-6
    contacts = simulator.contacts(simulator.state(q[-1], qd[-1]))
    np.testing.assert_allclose(contacts.force_on(1, 1)[0, 2], G, rtol=1e-6)
    for end, share in ((-0.2, 0.4), (0.3, 0.6)):
        there = np.abs(contacts.point[:, 1] - end) < 1e-6
        np.testing.assert_allclose(contacts.force[there, 2].sum(), share * G, rtol=1e-6)


@pytest.mark.parametrize("shape", ["capsule", "cylinder"])
def test_gradients_of_a_body_that_slides_along_edges(shape):
    """Turned a little, so that it touches at the ends and where the lines cross."""
    model = over_a_gap(shape)
    q = model.q0.copy()
    tilt = Rotation.from_rotvec((0.001, 0.0002, 0.003))
    q[3:] = (tilt * Rotation.from_quat(q[3:])).as_quat()
    q[2] -= 4e-4
    c = case(
        model,
        5,
        q=q,
        qd=np.array([0.0, 0.6, -0.1, 0.02, 0.01, 0.03]),
        contact=sim.PgsContact(sweeps=40),
    )
    assert "slide" in regimes(c)
    check(c, BODY)
