"""A scene with two of every shape, in this engine and in MuJoCo, and random poses of it."""

from pathlib import Path

import mujoco
import numpy as np
import trimesh

import sim

SHAPES = {
    "sphere": 'type="sphere" size=".{0}3"',
    "capsule": 'type="capsule" size=".1{0} .3"',
    "cylinder": 'type="cylinder" size=".2 .3{0}"',
    "ellipsoid": 'type="ellipsoid" size=".2 .3 .4{0}"',
    "box": 'type="box" size=".3 .2 .1{0}"',
    "stone": 'type="mesh" mesh="stone{0}"',
}
NAMES = ("plane", *(f"{name}{number}" for number in (1, 2) for name in SHAPES))


def both(folder: Path, tolerance: float = 1e-12) -> tuple[sim.Model, mujoco.MjModel]:
    """The scene here in float64, and in MuJoCo with this tolerance of its searches."""
    rng = np.random.default_rng(5)
    bodies = []
    for number in (1, 2):
        points = 0.4 * rng.normal(size=(12 * number, 3)) * (1.0, 0.7, 0.5)
        trimesh.convex.convex_hull(points).export(folder / f"stone{number}.obj")
        bodies += [
            f'<body name="{name}{number}"><freejoint/><geom name="{name}{number}" {shape.format(number)}/></body>'
            for name, shape in SHAPES.items()
        ]
    path = folder / "scene.xml"
    path.write_text(
        f"""<mujoco><option ccd_tolerance="{tolerance}" ccd_iterations="1000"/>
        <asset><mesh name="stone1" file="stone1.obj"/><mesh name="stone2" file="stone2.obj"/></asset>
        <worldbody><geom name="plane" type="plane" size="1 1 1" pos=".1 0 -.2" euler="20 30 40"/>{"".join(bodies)}
        </worldbody></mujoco>"""
    )
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    return builder.finalize(dtype="float64"), mujoco.MjModel.from_xml_path(str(path))


def random_poses(model: sim.Model, worlds: int, spread: float, seed: int = 0) -> np.ndarray:
    """Coordinates [worlds, nq] of bodies at random orientations, about as far from the origin as ``spread``."""
    rng = np.random.default_rng(seed)
    q = np.zeros((worlds, model.nq))
    for link in range(model.num_links):
        start = model.joint_q_start[link]
        q[:, start : start + 3] = spread * rng.normal(size=(worlds, 3))
        turn = rng.normal(size=(worlds, 4))
        q[:, start + 3 : start + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return q


def all_pairs() -> list[tuple[str, str]]:
    """Every shape with every other, and with another one of its kind."""
    kinds = list(SHAPES)
    pairs = [(f"{a}1", f"{b}2") for k, a in enumerate(kinds) for b in kinds[k:]]
    return [*pairs, *((f"{a}1", "plane") for a in kinds)]


def mujoco_distances(
    peer: mujoco.MjModel, q: np.ndarray, pairs: list[tuple[str, str]], farthest: float = 100.0
) -> tuple[np.ndarray, np.ndarray]:
    """Distances [worlds, pairs] and both points [worlds, pairs, 6] of ``mj_geomDistance``; q as in MuJoCo."""
    data = mujoco.MjData(peer)
    distance, points = np.zeros((len(q), len(pairs))), np.zeros((len(q), len(pairs), 6))
    for world, row in enumerate(q):
        data.qpos[:] = row
        mujoco.mj_kinematics(peer, data)
        for k, (a, b) in enumerate(pairs):
            numbers = peer.geom(a).id, peer.geom(b).id
            distance[world, k] = mujoco.mj_geomDistance(peer, data, *numbers, farthest, points[world, k])
    return distance, points
