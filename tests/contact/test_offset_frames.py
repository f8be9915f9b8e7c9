"""Bodies whose link frame lies beside their centre of mass: it moves straight, and nothing depends on the frame."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.simulation.differences import METHODS, case, check, regimes
from tests.simulation.test_linearisation import check_linearisation

H = 1 / 240
PARAMETERS = ("mass", "com", "inertia", "gravity")
NO_CONTACT = sim.HardContact(max_contacts=0)
OFFSET = np.array([0.1, 0.05, -0.07])
INERTIA = 8.0 / 12 * np.array([0.2, 0.17, 0.05])


def centres(q: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Positions [..., 3] of the centre of mass, of which the link's origin sees ``offset``."""
    turns = Rotation.from_quat(q[..., 3:7].reshape(-1, 4))
    arms = turns.apply((np.zeros((*q.shape[:-1], 3)) + offset).reshape(-1, 3))
    return q[..., :3] + arms.reshape(*q.shape[:-1], 3)


def flying(spin: float) -> np.ndarray:
    """Velocity of a body that turns about a skew axis."""
    return np.concatenate([[0.3, -0.2, 0.1], spin * np.array([0.6, -0.5, 0.62])])


def loose(offset: np.ndarray = OFFSET, **joint: object) -> sim.Model:
    """A body without geometries."""
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=8.0, com=offset, inertia=INERTIA)
    builder.add_joint("joint", "free", child="body", **joint)
    return builder.finalize("float64")


def box(offset: np.ndarray = OFFSET, turn: Rotation | None = None, restitution: float = 0.0) -> sim.Model:
    """A box over ground, its link frame anywhere."""
    turn = turn or Rotation.identity()
    half = np.array([0.1, 0.06, 0.04])
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5, restitution=1.0))
    inertia = turn.as_matrix() @ np.diag(2.0 / 3 * (half @ half - half**2)) @ turn.as_matrix().T
    builder.add_link("box", mass=2.0, com=offset, inertia=inertia)
    builder.add_joint("joint", "free", child="box")
    builder.add_geometry(
        "box",
        "box",
        size=half,
        position=offset,
        orientation=turn.as_quat(),
        surface=sim.Surface(friction=0.8, restitution=restitution),
    )
    return builder.finalize("float64")


# With Euler's method under gravity the centre lies on a parabola: after n steps it has fallen by g h^2 n (n + 1) / 2.
def test_the_centre_of_a_spinning_body_stays_on_its_parabola():
    model = loose()
    spin = 500.0 / np.sqrt(3.0) * np.ones(3)
    velocity = np.array([0.3, -0.2, 0.1])
    simulator = sim.Simulator(model, H, device="cpu", contact=NO_CONTACT)
    qd = np.concatenate([velocity - np.cross(spin, OFFSET), spin])
    found = simulator.rollout(simulator.state(model.q0, qd), steps=240)
    steps = np.arange(241)[:, None]
    expected = OFFSET + H * steps * velocity + H * H * steps * (steps + 1) / 2 * np.array([0.0, 0.0, -9.81])
    np.testing.assert_allclose(centres(found.q.numpy()[:, 0], OFFSET), expected, rtol=0.0, atol=1e-10)


def test_small_steps_follow_forward_dynamics():
    """Also where a base has armature, which has no weight."""
    model, dt = loose(armature=3.0), 1e-6
    qd = flying(20.0)
    simulator = sim.Simulator(model, dt, device="cpu", contact=NO_CONTACT)
    after = simulator.step(simulator.state(model.q0, qd)).qd.numpy()[0]
    expected = sim.forward_dynamics(model, model.q0, qd, np.zeros(6)).numpy()
    np.testing.assert_allclose((after - qd) / dt, expected, rtol=0.0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("shape", ["sphere", "box", "capsule"])
def test_no_bullet_passes_a_plate(shape):
    """60 bullets of 1 cm at each speed and with each offset, at a plate of 2 mm; a hit makes them spin."""
    size = {"sphere": (0.01, 0.0, 0.0), "box": (0.01, 0.01, 0.01), "capsule": (0.007, 0.01, 0.0)}[shape]
    offsets, speeds, throws = (0.0, 0.005, 0.01, 0.03), (20.0, 50.0, 100.0), 60
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(0.001, 0.5, 0.5), surface=sim.Surface(restitution=1.0))
    builder.add_link("bullet", mass=0.01, inertia=4e-7 * np.ones(3))
    builder.add_joint("joint", "free", child="bullet")
    builder.add_geometry("bullet", shape, size=size, surface=sim.Surface(friction=1.0))
    model = builder.finalize("float64")
    offset, speed, throw = (grid.ravel() for grid in np.meshgrid(offsets, speeds, np.arange(throws), indexing="ij"))
    worlds, rng = len(throw), np.random.default_rng(7)
    com = np.zeros((worlds, model.num_links, 3))
    com[:, 0, 0] = offset
    placement = np.tile(model.parameters["geometry_placement"], (worlds, 1, 1))
    placement[:, 1, 0] += offset
    start = -rng.uniform(0.1, 0.6, throws)[throw]
    velocity = speed[:, None] * np.column_stack([np.ones(throws), 0.2 * rng.normal(size=(throws, 2))])[throw]
    across = rng.uniform(-0.2, 0.2, (throws, 2))[throw] + velocity[:, 1:] * (start / speed)[:, None]
    centre = np.column_stack([start, across])
    turn = Rotation.random(throws, random_state=0)[throw]
    q = np.concatenate([centre - turn.apply(com[:, 0]), turn.as_quat()], axis=1)
    qd = np.concatenate([velocity, np.zeros((worlds, 3))], axis=1)
    simulator = sim.Simulator(
        model, H, worlds, "cpu", parameters={"com": com, "geometry_placement": placement}, threads=1
    )
    found = centres(simulator.rollout(simulator.state(q, qd), steps=20).q.numpy(), com[:, 0])
    beside = np.abs(found[..., 1:]).max(axis=-1) > 0.47
    passed = (found[..., 0] > 0.0) & ~beside
    assert not passed.any(), np.argwhere(passed)
    # They did reach it.
    assert (np.abs(found[..., 0]).min(axis=0) < 0.5 * speed * H + 0.03).all()


def test_a_motion_is_the_same_wherever_the_frame_is():
    """A box that tumbles over the ground, hits it, bounces and slides."""
    turn = Rotation.from_rotvec([0.4, -0.8, 0.3])
    start = Rotation.from_rotvec([0.7, 0.2, -0.3])
    velocity, spin = np.array([2.0, -0.5, -4.0]), np.array([30.0, -20.0, 10.0])
    found = []
    for offset, within in ((np.zeros(3), Rotation.identity()), (OFFSET, turn)):
        model = box(offset, within, restitution=0.6)
        simulator = sim.Simulator(model, H, device="cpu")
        link = start * within.inv()
        arm = link.apply(offset)
        q = np.concatenate([[0.0, 0.0, 0.3] - arm, link.as_quat()])
        qd = np.concatenate([velocity - np.cross(spin, arm), spin])
        motion = simulator.rollout(simulator.state(q, qd), steps=150)
        found.append((centres(motion.q.numpy()[:, 0], offset), motion.qd.numpy()[:, 0, 3:]))
    speeds = np.diff(found[0][0][:, 2]) / H
    assert np.count_nonzero((speeds[:-1] < 0.0) & (speeds[1:] > 0.0)) >= 2  # hits
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-9 * np.abs(one).max())


def robot(offset: np.ndarray) -> sim.Model:
    """A base with an arm, seen from a frame beside the base's centre of mass."""
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=2.0, com=offset, inertia=(0.02, 0.03, 0.04))
    builder.add_joint("float", "free", child="base")
    builder.add_link("arm", mass=1.0, com=(0.1, 0.0, 0.02), inertia=(0.002, 0.01, 0.01))
    hinge = offset + np.array([0.1, 0.0, 0.0])
    builder.add_joint("hinge", "revolute", parent="base", child="arm", position=hinge, axis=(0.0, 1.0, 0.3))
    builder.add_link("hand", mass=0.5, com=(0.0, 0.05, 0.02), inertia=(0.002, 0.001, 0.001))
    builder.add_joint("ball", "spherical", parent="arm", child="hand", position=(0.2, 0.0, 0.0))
    return builder.finalize("float64")


def test_a_robot_moves_the_same_wherever_the_frame_of_its_base_is():
    spin = np.array([12.0, -7.0, 5.0])
    found = []
    for offset in (np.zeros(3), OFFSET):
        model = robot(offset)
        simulator = sim.Simulator(model, H, device="cpu", contact=NO_CONTACT)
        q = model.q0.copy()
        q[:3] = -offset
        qd = np.concatenate([[1.0, 2.0, 3.0] - np.cross(spin, offset), spin, [4.0, 3.0, -2.0, 6.0]])
        motion = simulator.rollout(simulator.state(q, qd), steps=48)
        coordinates = motion.q.numpy()[:, 0]
        found.append(np.concatenate([centres(coordinates, offset), coordinates[:, 3:]], axis=1))
    np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("spin", [0.0, 5.0, 500.0])
def test_gradients_in_free_flight(spin):
    model = loose()
    check(case(model, steps=4, qd=flying(spin), contact=NO_CONTACT, force=10.0), PARAMETERS)


def test_gradients_with_armature():
    model = loose(armature=3.0)
    check(case(model, steps=4, qd=flying(20.0), contact=NO_CONTACT), (*PARAMETERS, "armature"))


def test_gradients_of_a_robot():
    model = robot(OFFSET)
    qd = np.concatenate([flying(20.0), [4.0, 3.0, -2.0, 6.0]])
    check(case(model, steps=4, qd=qd, contact=NO_CONTACT), (*PARAMETERS, "joint_placement"))


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_gradients_through_a_hit(restitution):
    model = box(restitution=restitution)
    q = np.concatenate([[-0.1, -0.05, 0.155], Rotation.from_rotvec([0.3, 0.2, -0.3]).as_quat()])
    there = case(model, steps=6, q=q, qd=[2.0, -0.5, -4.0, 10.0, -5.0, 3.0])
    assert {"open", "slide"} <= regimes(there) or {"open", "stick"} <= regimes(there)
    parameters = (*PARAMETERS, "friction", "geometry_size", *(["restitution"] if restitution else []))
    check(there, parameters)


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_matrices_of_a_step(restitution):
    """In the air, and in a hit. A box that bounces moves along another velocity than the next one."""
    model = box(restitution=restitution)
    simulator = sim.Simulator(model, H, device="cpu")
    for height in (1.0, 0.155):
        q = np.concatenate([[-0.1, -0.05, height], Rotation.from_rotvec([0.3, 0.2, -0.3]).as_quat()])
        state, tau = simulator.state(q, [2.0, -0.5, -4.0, 60.0, -50.0, 30.0]), 0.1 * np.arange(6.0)
        check_linearisation(simulator, state, tau)


def test_matrices_of_a_robot():
    model = robot(OFFSET)
    simulator = sim.Simulator(model, H, device="cpu", contact=NO_CONTACT)
    qd, tau = np.concatenate([flying(60.0), [4.0, 3.0, -2.0, 6.0]]), 0.1 * np.arange(10.0)
    state = simulator.state(model.q0, qd)
    check_linearisation(simulator, state, tau)


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("tie", ["point", "weld"])
def test_tied_bodies_move_the_same_wherever_their_frames_are(tie, solver):
    """A body that spins, tied to the world or to another body at a lever. The rows know how ties drift in a step."""
    spin = np.array([0.0, 0.0, 15.0])
    found = []
    for offset in (np.zeros(3), OFFSET):
        builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        for name, position in (("one", 0.5), ("other", -0.5)):
            builder.add_link(name, mass=2.0, com=offset, inertia=(0.02, 0.03, 0.04))
            builder.add_joint(name, "free", child=name, position=[position, 0.0, 0.0] - offset)
        half = np.array([0.5, 0.0, 0.0])
        halves = {"position_a": offset - half, "position_b": offset + half}
        if tie == "weld":
            halves["orientation_b"] = np.array([0.0, 0.0, 0.0, 1.0])
            builder.add_weld_constraint("tie", "one", "other", **halves)
        else:
            builder.add_point_constraint("tie", "one", "world", position_a=halves["position_a"])
        model = builder.finalize("float64")
        simulator = sim.Simulator(model, H, device="cpu", contact=METHODS[solver]())
        qd = [
            np.concatenate([np.cross(spin, [position, 0.0, 0.0]) - np.cross(spin, offset), spin])
            for position in (0.5, -0.5)
        ]
        motion = simulator.rollout(simulator.state(model.q0, np.concatenate(qd)), steps=240).q.numpy()[:, 0]
        found.append(np.stack([centres(motion[:, start : start + 7], offset) for start in (0, 7)]))
    lengths = np.linalg.norm(found[1][0], axis=-1)
    np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(lengths, 0.5, rtol=2e-3)
