"""A scene with two of every shape, in this engine and in MuJoCo, and random poses of it."""

from pathlib import Path

import mujoco
import numpy as np
import trimesh
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import sim

SHAPES = {
    "sphere": 'type="sphere" size=".{0}3"',
    "capsule": 'type="capsule" size=".1{0} .3"',
    "cylinder": 'type="cylinder" size=".2 .3{0}"',
    "ellipsoid": 'type="ellipsoid" size=".2 .3 .4{0}"',
    "box": 'type="box" size=".3 .2 .1{0}"',
    "stone": 'type="mesh" mesh="stone{0}"',
}


def both(folder: Path) -> tuple[sim.Model, mujoco.MjModel]:
    """The scene here in float64, and in MuJoCo with searches that end at rounding."""
    rng = np.random.default_rng(5)
    bodies = []
    for number in (1, 2):
        points = 0.4 * rng.normal(size=(12 * number, 3)) * (1.0, 0.7, 0.5)
        trimesh.convex.convex_hull(points).export(folder / f"stone{number}.obj")
        trimesh.creation.box((0.6, 0.4, 0.2 + 0.02 * number)).export(folder / f"crate{number}.obj")
        for name, shape in SHAPES.items():
            # A box is a mesh too: MuJoCo's function for capsules and boxes doesn't measure how deep they overlap.
            crate = f'<geom name="crate{number}" type="mesh" mesh="crate{number}"/>' if name == "box" else ""
            geom = f'<geom name="{name}{number}" {shape.format(number)}/>'
            bodies.append(f'<body name="{name}{number}"><freejoint/>{geom}{crate}</body>')
    path = folder / "scene.xml"
    meshes = "".join(f'<mesh file="{name}{number}.obj"/>' for name in ("stone", "crate") for number in (1, 2))
    path.write_text(
        f"""<mujoco><option ccd_tolerance="1e-12" ccd_iterations="1000"/><asset>{meshes}</asset>
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
    model: sim.Model, peer: mujoco.MjModel, q: np.ndarray, pairs: list[tuple[str, str]], farthest: float = 100.0
) -> tuple[np.ndarray, np.ndarray]:
    """Distances [worlds, pairs] and both points [worlds, pairs, 6] of ``mj_geomDistance``."""
    data = mujoco.MjData(peer)
    distance, points = np.zeros((len(q), len(pairs))), np.zeros((len(q), len(pairs), 6))
    for world, row in enumerate(q):
        data.qpos[:] = sim.to_mujoco(model, row, np.zeros(model.nv))[0]
        mujoco.mj_kinematics(peer, data)
        for k, (a, b) in enumerate(pairs):
            numbers = peer.geom(a).id, peer.geom(b).id
            distance[world, k] = mujoco.mj_geomDistance(peer, data, *numbers, farthest, points[world, k])
    return distance, points


def height_over_surface(model: sim.Model, name: str, q: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How far points [worlds, 3] are outside of a shape [worlds]; scaled near an ellipsoid, less where it is far."""
    geometry = model.geometries[model.geometry(name)]
    start = model.joint_q_start[geometry.link]
    local = Rotation.from_quat(q[:, start + 3 : start + 7]).inv().apply(points - q[:, start : start + 3])
    local = Rotation.from_quat(geometry.placement[3:]).inv().apply(local - geometry.placement[:3])
    size, kind = geometry.size, name[:-1]
    if kind in ("sphere", "capsule"):
        local[:, 2] -= np.clip(local[:, 2], -size[1], size[1])
        return np.linalg.norm(local, axis=1) - size[0]
    if kind == "cylinder":
        return np.maximum(np.hypot(local[:, 0], local[:, 1]) - size[0], np.abs(local[:, 2]) - size[1])
    if kind == "ellipsoid":
        return (np.linalg.norm(local / size, axis=1) - 1.0) * size.min()
    if kind == "box":
        return (np.abs(local) - size).max(axis=1)
    planes = ConvexHull(geometry.mesh.vertices * size).equations
    return (local @ planes[:, :3].T + planes[:, 3]).max(axis=1)
