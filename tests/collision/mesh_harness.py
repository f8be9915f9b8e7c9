"""One body and a static triangle mesh in many worlds at once, each with its own scale."""

from dataclasses import dataclass

import numpy as np
import trimesh
import warp as wp
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh
from tests.collision.field_harness import FieldBench
from tests.collision.harness import Bench, pebble, scatter
from warp_kernels import types as codes


@dataclass
class MeshBench(FieldBench):
    """A :class:`FieldBench` with a mesh in place of the heightfield."""

    ground: Mesh | None = None

    def __post_init__(self):
        builder = sim.ModelBuilder()
        builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint("free", "free", child="body")
        mesh = self.mesh if self.types[0] == codes.CONVEX else None
        builder.add_geometry("body", self.types[0], size=(1.0, 1.0, 1.0), mesh=mesh)
        builder.add_static_mesh(self.ground.vertices, self.ground.faces)
        self.take(builder)

    def device_inputs(self, values: dict[str, np.ndarray] | None = None) -> dict[str, wp.array]:
        height = wp.zeros((1, 0), dtype=self.model.scalar, device=self.device, requires_grad=True)
        return {**Bench.device_inputs(self, values), "height": height}

    def surface(self) -> np.ndarray:
        """Triangles in the frame of the mesh [worlds, triangles, 3, 3]."""
        mesh = self.model.geometries[1].mesh
        return mesh.vertices[mesh.faces] * self.values["geometry_size"][:, 1, None, None]

    def edges(self, point: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """From start to end of the edges with these numbers [slots, worlds, 3], in the frame of the mesh."""
        triangles = self.collision.triangles
        start, end = np.moveaxis(triangles.corner.numpy()[point][..., :2], -1, 0)
        vertices = triangles.vertices.numpy()
        return (vertices[end] - vertices[start]) * self.values["geometry_size"][:, 1]

    def signed_distance(self, points: np.ndarray) -> np.ndarray:
        """Of places [worlds, 3] in the frame of a closed mesh, negative inside."""
        triangles = self.surface()
        worlds, count = triangles.shape[:2]
        nearest = trimesh.triangles.closest_point(triangles.reshape(-1, 3, 3), np.repeat(points, count, axis=0))
        distance = np.linalg.norm(nearest.reshape(worlds, count, 3) - points[:, None], axis=2).min(axis=1)
        return np.where(winding_number(triangles, points) > 0.5, -distance, distance)


def winding_number(triangles: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How often closed surfaces [worlds, triangles, 3, 3] go around places [worlds, 3] (Van Oosterom 1983)."""
    a, b, c = np.moveaxis(triangles - points[:, None, None], 2, 0)
    la, lb, lc = (np.linalg.norm(x, axis=2) for x in (a, b, c))
    ab, bc, ca = ((x * y).sum(2) for x, y in ((a, b), (b, c), (c, a)))
    volume = (a * np.cross(b, c)).sum(2)
    return np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb).sum(1) / (2.0 * np.pi)


def random_mesh_bench(kind: int, ground: Mesh, worlds: int, seed: int, size: float, **options: object) -> MeshBench:
    """A body at random poses around the middle of random triangles."""
    mesh = pebble() if kind == codes.CONVEX else None
    bench = MeshBench((kind, codes.MESH), worlds, mesh=mesh, ground=ground, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    v = bench.values
    for name in ("friction", "restitution"):
        v[name] = rng.uniform(0.1, 1.0, (worlds, 2))
    v["geometry_size"][:, 0] = size * rng.uniform(0.2, 1.0, (worlds, 3))
    v["geometry_size"][:, 1] = rng.uniform(0.8, 1.2, (worlds, 3))
    scatter(bench, rng)
    triangles = bench.surface()[np.arange(worlds), rng.integers(0, bench.surface().shape[1], worlds)]
    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    target = triangles.mean(axis=1) + size * rng.uniform(-0.3, 2.0, (worlds, 1)) * normal
    body, frame = bench.world_poses()
    v["pose"][0, :, :3] += frame[:, :3] + Rotation.from_quat(frame[:, 3:]).apply(target) - body[:, :3]
    return bench


def tray() -> Mesh:
    """A tray with walls of 4 cm."""
    return open_box(np.array([0.5, 0.4, 0.2]), np.array([0.46, 0.36, 0.2]), 0.05)


def open_box(outer: np.ndarray, inner: np.ndarray, floor: float) -> Mesh:
    """A box without a lid, from its half extents outside and inside and the thickness of its floor."""
    ring = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=float)
    layers = [
        np.c_[ring * outer[:2], np.full(4, -outer[2])],
        np.c_[ring * outer[:2], np.full(4, outer[2])],
        np.c_[ring * inner[:2], np.full(4, outer[2])],
        np.c_[ring * inner[:2], np.full(4, floor - outer[2])],
    ]
    faces = [[0, 2, 1], [0, 3, 2]]
    for layer in range(3):
        for k in range(4):
            a, b = 4 * layer + k, 4 * layer + (k + 1) % 4
            faces += [[a, b, b + 4], [a, b + 4, a + 4]]
    faces += [[12, 13, 14], [12, 14, 15]]
    return Mesh(np.concatenate(layers), np.array(faces))
