"""A capsule and a box under MuJoCo's law: its contact points in many poses, and their gradients."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.contact.mujoco.random_contacts import XML, one_step, quaternion, scene
from tests.errors import quietly
from tests.simulation.differences import case, check

EXACT = 1e-10
# Radius and half length of the capsule, half extents of the box: a long capsule over a narrow box, a short one over a
# wide box, and both alike.
SIZES = {
    "long": ((0.03, 0.3), (0.1, 0.15, 0.08)),
    "short": ((0.05, 0.04), (0.2, 0.3, 0.1)),
    "alike": ((0.08, 0.1), (0.1, 0.1, 0.1)),
}


def file_of(capsule: tuple[float, float], box: tuple[float, float, float]) -> str:
    bodies = (
        f'<body><freejoint/><geom type="box" size="{box[0]} {box[1]} {box[2]}"/></body>'
        f'<body><freejoint/><geom type="capsule" size="{capsule[0]} {capsule[1]}"/></body>'
    )
    return XML.format(dt=0.002, cone="elliptic", assets="", bodies=bodies)


def random_turn(chance: np.random.Generator) -> Rotation:
    """An orientation of a capsule: any, along a face, or along an edge; the last two tilted by 1e-5 to 0.3 rad."""
    kind = chance.integers(3)
    if kind == 0:
        return Rotation.random(random_state=int(chance.integers(1 << 30)))
    lying = Rotation.from_euler("xyz", 90.0 * chance.integers(0, 4, size=3), degrees=True)
    about = Rotation.from_euler("z", chance.uniform(0.0, 360.0) if kind == 1 else 0.0, degrees=True)
    return Rotation.from_rotvec(10.0 ** chance.uniform(-5.0, -0.5) * chance.normal(size=3)) * about * lying


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_contacts_of_random_poses(sizes):
    """Shallow and deep ones, from the surface to the middle of the box."""
    xml = file_of(*sizes)
    peer = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(peer)
    chance = np.random.default_rng(0)
    reach = np.array(sizes[1]) + sum(sizes[0])
    poses, theirs = [], []
    while len(poses) < 300:
        data.qpos[:7] = 0.0, 0.0, 0.0, *quaternion(Rotation.random(random_state=len(poses)))
        box = Rotation.from_quat(data.qpos[3:7], scalar_first=True)
        data.qpos[7:10] = box.apply(chance.uniform(-reach, reach))
        data.qpos[10:14] = quaternion(box * random_turn(chance))
        mujoco.mj_forward(peer, data)
        if data.ncon:
            poses.append(data.qpos.copy())
            theirs += [[len(poses) - 1, c.dist, *c.pos, *c.frame[:3]] for c in data.contact]
    model = quietly(sim.load_text, xml, "mjcf", dtype="float64")
    simulator = sim.Simulator(model, num_worlds=len(poses), device="cpu", **sim.mujoco_settings(model))
    qvel = np.zeros((len(poses), peer.nv))
    found = simulator.contacts(simulator.state(*sim.from_mujoco(model, np.array(poses), qvel)))
    ours = np.column_stack([found.world, found.distance, found.point, found.normal])
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=EXACT)
    assert 0 < np.count_nonzero(np.bincount(found.world) == 2) < len(poses)


@pytest.mark.parametrize("depth", [(1e-4, 3e-3), (5e-3, 0.08)], ids=["shallow", "deep"])
def test_one_step(depth):
    steps = [one_step(scene(("box", "capsule"), seed, depth)) for seed in range(8)]
    assert max(difference for difference, _, _ in steps) < EXACT
    assert all(theirs == ours > 0 for _, theirs, ours in steps)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_lying_exactly_along_an_edge_in_single_precision(sizes):
    """A capsule on a box touches it at both ends of their overlap."""
    (radius, half_length), box = sizes
    xml = file_of(*sizes)
    upright = quaternion(Rotation.identity())
    lying = quaternion(Rotation.from_euler("y", 90.0, degrees=True))
    qpos = np.array([0, 0, 0, *upright, 0.01, 0.02, box[2] + radius - 1e-3, *lying])
    model = quietly(sim.load_text, xml, "mjcf", dtype="float32")
    simulator = sim.Simulator(model, device="cpu", **sim.mujoco_settings(model))
    found = simulator.contacts(simulator.state(*sim.from_mujoco(model, qpos, np.zeros(12))))
    ends = [max(-box[0], 0.01 - half_length), min(box[0], 0.01 + half_length)]
    np.testing.assert_allclose(np.sort(found.point[:, 0]), ends, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(found.distance, -1e-3, rtol=0.0, atol=1e-6)


# Positions and rotation vectors of a capsule in the frame of a box, by the parts that touch.
POSES = {
    "end over a face, and its other end": ("short", (0.02, -0.01, 0.147), (1.52, 0.3, 0.1)),
    "end over a face, and where it leaves that": ("long", (0.25, 0.02, 0.108), (0.1, 1.56, 0.05)),
    "an edge, and where it leaves the face": ("long", (0.02, 0.1, 0.104), (1.45, 0.6, 0.0)),
    "an edge, and the width of the box away": ("long", (0.02, 0.01, 0.105), (1.55, 0.1, 0.0)),
    "an edge alone": ("alike", (0.15, 0.02, 0.14), (0.5, -0.8, 0.3)),
    "an end inside, and where it leaves": ("alike", (0.15, 0.13, 0.16), (-0.6, 0.9, 0.2)),
    "a corner": ("alike", (0.1858, 0.2033, 0.2068), (-0.691, 0.576, 0.0)),
    "a corner, and the width of the box away": ("long", (0.01, 0.168, 0.09), (0.02, 1.55, 0.03)),
    "an edge from inside the box": ("long", (0.03, 0.02, 0.03), (0.4, 1.2, 0.3)),
}


@pytest.mark.parametrize(("sizes", "position", "turn"), POSES.values(), ids=POSES)
def test_gradients(sizes, position, turn):
    xml = file_of(*SIZES[sizes])
    box = Rotation.from_rotvec((0.2, -0.1, 0.3))
    pose = np.concatenate([box.apply(position), quaternion(box * Rotation.from_rotvec(turn))])
    qpos = np.concatenate([np.zeros(3), quaternion(box), pose])
    peer = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(peer)
    data.qpos = qpos
    mujoco.mj_forward(peer, data)
    model = sim.load_text(xml, "mjcf", dtype="float64")
    q, qd = sim.from_mujoco(model, qpos, 0.01 * np.arange(12.0))
    simulator = sim.Simulator(model, device="cpu", **sim.mujoco_settings(model))
    assert len(simulator.contacts(simulator.state(q, qd))) == data.ncon > 0
    c = case(model, 2, q, qd, contact=sim.MujocoContact(solimp=(0.7, 0.95, 0.02, 0.4, 3.0)))
    check(c, ["mass", "geometry_size", "com", "gravity"])
