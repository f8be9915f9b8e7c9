"""Random scenes of bodies in contact, one step of each here and in MuJoCo."""

from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

import sim
from tests.errors import quietly

DT = 0.002
SHAPES = ("box", "cylinder", "capsule", "sphere", "ellipsoid", "mesh")
XML = """
<mujoco>
  <option timestep="{dt}" tolerance="0" iterations="200" ls_iterations="100" ls_tolerance="1e-10" cone="{cone}"/>
  <asset>{assets}</asset>
  <worldbody>{bodies}</worldbody>
</mujoco>
"""


@dataclass(frozen=True)
class Scene:
    """A pair of shapes that touch; the second alone moves if the first is a plane.

    Attributes:
        pair: both shapes, "plane" first.
        xml: the file.
        qpos, qvel: state in MuJoCo's coordinates.
    """

    pair: tuple[str, str]
    xml: str
    qpos: np.ndarray
    qvel: np.ndarray


def shape(name: str, kind: str, chance: np.random.Generator) -> tuple[str, str]:
    """The asset and the geom of a random body of this kind."""
    size = chance.uniform(0.05, 0.15, size=3)
    if kind == "mesh":
        points = chance.normal(size=(int(chance.integers(8, 30)), 3))
        if chance.random() < 0.5:
            # A prism: flat faces with more than four vertices.
            sides = int(chance.integers(3, 9))
            angles = 2.0 * np.pi * (np.arange(sides) + chance.uniform(0.0, 0.3, sides)) / sides
            ring = np.column_stack([np.cos(angles), np.sin(angles)])
            points = np.concatenate([np.column_stack([ring, np.full(sides, z)]) for z in (-1.0, 1.0)])
        points = points / np.linalg.norm(points, axis=1, keepdims=True) * size
        vertices = " ".join(f"{value:.6f}" for value in points.ravel())
        return f'<mesh name="{name}" vertex="{vertices}"/>', f'<geom type="mesh" mesh="{name}" density="1000"/>'
    values = " ".join(f"{value:.6f}" for value in size)
    return "", f'<geom type="{kind}" size="{values}" density="1000"/>'


def turn(chance: np.random.Generator) -> Rotation:
    """A random orientation: any, or lying on a side, tilted by up to two degrees."""
    if chance.random() < 0.4:
        return Rotation.random(random_state=int(chance.integers(1 << 30)))
    lying = Rotation.from_euler("xyz", 90.0 * chance.integers(0, 4, size=3), degrees=True)
    about = Rotation.from_euler("z", chance.uniform(0.0, 360.0), degrees=True)
    tilt = Rotation.from_rotvec(np.radians(chance.uniform(0.01, 2.0)) * np.append(chance.normal(size=2), 0.0))
    return tilt * about * lying


def quaternion(rotation: Rotation) -> np.ndarray:
    return rotation.as_quat()[[3, 0, 1, 2]]


def scene(pair: tuple[str, str], seed: int, depth: tuple[float, float] = (1e-4, 3e-3)) -> Scene:
    """A random scene of a pair of shapes, which overlap by a depth in this range [m]."""
    chance = np.random.default_rng([SHAPES.index(pair[1]), ("plane", *SHAPES).index(pair[0]), seed])
    assets, bodies = "", ""
    for number, kind in enumerate(pair):
        if kind == "plane":
            bodies += '<geom type="plane" size="5 5 1"/>'
            continue
        asset, geom = shape(f"mesh{number}", kind, chance)
        assets += asset
        bodies += f"<body><freejoint/>{geom}</body>"
    cone = ("elliptic", "pyramidal")[seed % 2]
    xml = XML.format(dt=DT, assets=assets, bodies=bodies, cone=cone)
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    towards = np.array([0.0, 0.0, 1.0])
    if chance.random() < 0.5 and pair[0] != "plane":
        towards = chance.normal(size=3)
        towards /= np.linalg.norm(towards)
    for body in range(model.nq // 7):
        data.qpos[7 * body + 3 : 7 * body + 7] = quaternion(turn(chance))
    within = np.exp(chance.uniform(*np.log(depth)))
    offset = chance.uniform(-0.03, 0.03, size=3)
    offset -= (offset @ towards) * towards
    first = model.nq - 7

    def distance(along: float) -> float:
        data.qpos[first : first + 3] = offset + along * towards
        mujoco.mj_kinematics(model, data)
        return mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)

    low, high = 0.0, 1.0
    if pair[0] == "plane":
        data.qpos[2] = 1.0
        mujoco.mj_kinematics(model, data)
        data.qpos[2] -= mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None) + within
    else:
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if distance(middle) < 0.0 else (low, middle)
        distance(high - within)
    qvel = chance.normal(scale=0.3, size=model.nv)
    return Scene(pair, xml, data.qpos.copy(), qvel)


def scenes(count: int, pairs: tuple[tuple[str, str], ...], **options: tuple[float, float]) -> Iterator[Scene]:
    """As many random scenes, the pairs in turn."""
    for number in range(count):
        yield scene(pairs[number % len(pairs)], number // len(pairs), **options)


def one_step(scene: Scene) -> tuple[float, int, int]:
    """The difference of a step from MuJoCo's, in its coordinates, and the numbers of contacts there and here."""
    peer = mujoco.MjModel.from_xml_string(scene.xml)
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = scene.qpos, scene.qvel
    mujoco.mj_forward(peer, data)
    model = quietly(sim.load_text, scene.xml, "mjcf", dtype="float64")
    simulator = sim.Simulator(model, num_worlds=1, device="cpu", **sim.mujoco_settings(model))
    q, qd = sim.from_mujoco(model, scene.qpos, scene.qvel)
    state = simulator.state(q, qd)
    ours = len(simulator.contacts(state).point)
    end = simulator.rollout(state, steps=1).final_state
    theirs = data.ncon
    mujoco.mj_step(peer, data)
    qpos, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    return float(max(np.abs(qpos - data.qpos).max(), np.abs(qvel - data.qvel).max())), theirs, ours
