"""The first test of pairs: it leaves out no contact, and what it lets through grows with what is near."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.simulation.stepping.workspace import Workspace
from tests.collision.harness import pebble
from warp_kernels.collision.broad_phase import WORD
from warp_kernels.types import BOX, CAPSULE, CONVEX, PLANE, SPHERE

DT = 1 / 240
BALL, ROD, BRICK, HULL, GROUND = (1 << bit for bit in range(5))
MASK = {BALL: BALL | ROD | BRICK | GROUND, ROD: BALL | ROD | GROUND, BRICK: BALL | GROUND, HULL: GROUND}
SHAPE = {
    BALL: (SPHERE, (0.12, 0.0, 0.0)),
    ROD: (CAPSULE, (0.05, 0.2, 0.0)),
    BRICK: (BOX, (0.05, 0.1, 0.2)),
    HULL: (CONVEX, (0.2, 0.1, 0.15)),
}


def bodies(dtype: str = "float64", offset: float = 0.0, each: int = 5) -> sim.Model:
    """Loose bodies of four shapes above a tilted plane, each shape with those that it has contacts with."""
    rng = np.random.default_rng(3)
    builder = sim.ModelBuilder()
    tilt = Rotation.from_rotvec([0.1, 0.2, 0.0]).as_quat()
    builder.add_geometry(
        "world", PLANE, position=(offset, -offset, 0.0), orientation=tilt, surface=sim.Surface(group=GROUND)
    )
    for number in range(each * len(SHAPE)):
        kind = list(SHAPE)[number % len(SHAPE)]
        shape, size = SHAPE[kind]
        name = builder.add_link(f"body{number}", mass=1.0, inertia=(0.01, 0.02, 0.015))
        position = rng.uniform(-0.6, 0.6, 3) + np.array([offset, -offset, 0.5])
        builder.add_joint(f"free{number}", "free", child=name, position=position)
        where = {"position": 0.1 * rng.normal(size=3), "orientation": Rotation.random(rng=rng).as_quat()}
        mesh = pebble() if shape == CONVEX else None
        builder.add_geometry(
            name, shape, size=size, mesh=mesh, surface=sim.Surface(group=kind, mask=MASK[kind]), **where
        )
    return builder.finalize(dtype)


@pytest.mark.parametrize("several", [True, False])  # worlds at a time, on a CPU
@pytest.mark.parametrize(("dtype", "offset"), [("float64", 0.0), ("float32", 0.0), ("float32", 300.0)])
def test_leaves_out_no_contact(dtype, offset, several, device, monkeypatch):
    """Many worlds with bodies at rest, fast and spinning: contacts as if every pair were looked at, bit for bit."""
    if not several:
        monkeypatch.setattr("sim.simulation.stepping.workspace.lanes_worth", lambda lanes, worlds: 1)
    worlds = 60
    model = bodies(dtype, offset)
    rng = np.random.default_rng(8)
    q = np.tile(model.q0, (worlds, 1)).reshape(worlds, -1, 7)
    q[..., :3] += rng.normal(size=q[..., :3].shape) * rng.choice([0.05, 0.3], (worlds, 1, 1))
    q[..., 3:] = Rotation.random(q[..., 3:].size // 4, rng=rng).as_quat().reshape(q[..., 3:].shape)
    qd = rng.normal(size=(worlds, q.shape[1], 6)) * rng.choice([0.0, 1.0, 20.0], (worlds, 1, 1))
    found = []
    for first_test in (True, False):
        simulator = sim.Simulator(model, DT, worlds, device, threads=1)
        (shard,) = simulator.engine.shards
        assert shard.step.contact_stage.many_pairs
        shard.step.contact_stage.many_pairs = first_test
        trajectory = simulator.rollout(simulator.state(q.reshape(worlds, -1), qd.reshape(worlds, -1)), steps=3)
        assert not simulator.contact_overflow.any()
        step = shard.step
        found.append(
            (
                trajectory.q.numpy(),
                step.contact_stage.contact_count.numpy(),
                step.contact_stage.slot_pair.numpy(),
                candidate_count(step),
            )
        )
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_array_equal(found[0][2], found[1][2])
    pairs = simulator.engine.shards[0].step.collision.num_pairs
    assert found[0][1].min() > 0
    assert found[0][3].min() < 0.2 * pairs
    assert (found[1][3] >= pairs).all()


def candidate_count(step) -> np.ndarray:
    """Bits that are set, per world."""
    words = step.contact_stage.candidate_bits.numpy()
    return sum(((words >> np.uint32(bit)) & np.uint32(1)).sum(axis=0) for bit in range(WORD))


def test_counts_neighbours_and_not_pairs():
    """Balls in a row, a margin and a bit apart: none near; with a wider margin each is near its neighbours alone."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    count = 30
    for number in range(count):
        builder.add_sphere(radius=0.1, mass=1.0, position=(0.25 * number, 0.0, 0.0))
    model = builder.finalize("float64")
    for margin, expected in ((0.049, 0), (0.051, count - 1), (0.301, 2 * count - 3)):
        simulator = sim.Simulator(model, DT, 1, "cpu", sim.HardContact(margin=margin))
        simulator.step(simulator.initial_state())
        np.testing.assert_array_equal(candidate_count(simulator.engine.shards[0].step), [expected])


@pytest.mark.parametrize("worlds", [1, 16])  # 16 are taken several at a time
def test_rods_are_near_by_their_segments(worlds):
    """Parallel rods side by side, whose balls overlap many others."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    count = 12
    for number in range(count):
        name = builder.add_link(f"rod{number}", mass=1.0, inertia=(0.01, 0.02, 0.015))
        builder.add_joint(f"free{number}", "free", child=name, position=(0.2 * number, 0.0, 0.0))
        builder.add_geometry(name, CAPSULE, size=(0.05, 0.5, 0.0))
    model = builder.finalize("float64")
    for margin, expected in ((0.0999, 0), (0.101, count - 1), (0.301, 2 * count - 3)):
        simulator = sim.Simulator(model, DT, worlds, "cpu", sim.HardContact(margin=margin), threads=1)
        simulator.step(simulator.initial_state())
        np.testing.assert_array_equal(candidate_count(simulator.engine.shards[0].step), [expected] * worlds)


@pytest.mark.filterwarnings("ignore::sim.OverlapWarning")
def test_threads_share_words(monkeypatch):
    """On a GPU four threads test the pairs of a word: the same bits, the last word's spare ones too."""
    model = bodies(each=4)
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(Workspace, "word_threads", threads)
        simulator = sim.Simulator(model, DT, 3, "cpu")
        simulator.step(simulator.initial_state())
        found.append(np.concatenate([s.step.contact_stage.candidate_bits.numpy() for s in simulator.engine.shards], 1))
    assert found[0].any()
    assert simulator.engine.shards[0].step.collision.num_pairs % WORD
    np.testing.assert_array_equal(*found)
