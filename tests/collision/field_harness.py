"""One body and a heightfield in many worlds at once, each with its own heights."""

from dataclasses import dataclass

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

import sim
from tests.collision.harness import Bench, pebble, scatter
from warp_kernels import types as codes
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, EDGE_Y


@dataclass
class FieldBench(Bench):
    """A :class:`Bench` of a body and a heightfield of ``grid`` rows and columns; heights [worlds, rows * columns]."""

    grid: tuple[int, int] = (5, 6)

    def __post_init__(self):
        builder = sim.ModelBuilder()
        builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint("free", "free", child="body")
        mesh = self.mesh if self.types[0] == codes.CONVEX else None
        builder.add_geometry("body", self.types[0], size=(1.0, 1.0, 1.0), mesh=mesh)
        link = "world"
        if self.fixed is None:
            link = builder.add_link("carrier", mass=1.0, inertia=(1.0, 1.0, 1.0))
            builder.add_joint("carrier_free", "free", child="carrier")
        builder.add_geometry(link, "heightfield", size=(1.0, 1.0, 1.0), heights=np.zeros(self.grid))
        self.take(builder)
        self.values["height"] = np.zeros((self.num_worlds, self.grid[0] * self.grid[1]))

    def device_inputs(self, values: dict[str, np.ndarray] | None = None) -> dict[str, wp.array]:
        source = self.values if values is None else values
        t = codes.warp_types(self.model.scalar)
        height = wp.array(source["height"], dtype=t.scalar, device=self.device, requires_grad=True)
        return {**super().device_inputs(values), "height": height}

    def in_field(self) -> tuple[np.ndarray, np.ndarray]:
        """Position [worlds, 3] and rotation matrix [worlds, 3, 3] of the body in the field's frame."""
        body, field = self.world_poses()
        turn = Rotation.from_quat(field[:, 3:]).inv()
        return turn.apply(body[:, :3] - field[:, :3]), (turn * Rotation.from_quat(body[:, 3:])).as_matrix()

    def to_field(self, points: np.ndarray, vectors: bool = False) -> np.ndarray:
        """Contact points, or vectors, [slots, worlds, 3] in the frames of the fields."""
        field = self.world_poses()[1]
        turn = Rotation.from_quat(field[:, 3:]).inv()
        offset = 0.0 if vectors else self.reference() - field[:, :3]
        return np.stack([turn.apply(each) for each in points + offset])

    def surface(self) -> np.ndarray:
        """Triangles of the fields in their frames [worlds, triangles, 3, 3]; lower ones of all cells, then upper."""
        rows, columns = self.grid
        half_x, half_y, scale = self.values["geometry_size"][:, 1].T[..., None, None]
        grid = np.broadcast_arrays(
            half_x * np.linspace(-1.0, 1.0, columns),
            half_y * np.linspace(-1.0, 1.0, rows)[:, None],
            scale * self.values["height"].reshape(-1, rows, columns),
        )
        p = np.stack(grid, axis=-1)
        a, b, c, d = p[:, :-1, :-1], p[:, :-1, 1:], p[:, 1:, 1:], p[:, 1:, :-1]
        lower, upper = np.stack([a, b, c], axis=3), np.stack([a, c, d], axis=3)
        return np.concatenate([lower.reshape(len(p), -1, 3, 3), upper.reshape(len(p), -1, 3, 3)], axis=1)

    def edges(self, point: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """From start to end of edges of a kind that belong to points [slots, worlds, 3], in the field's frame."""
        rows, columns = self.grid
        row, column = np.divmod(point, columns)
        grid = self.values["height"].reshape(-1, rows, columns) * self.values["geometry_size"][:, 1, 2, None, None]
        step = 2.0 * self.values["geometry_size"][:, 1, :2] / (columns - 1, rows - 1)
        dr, dc = np.isin(kind, (EDGE_Y, DIAGONAL)), np.isin(kind, (EDGE_X, DIAGONAL))
        world = np.arange(self.num_worlds)
        end = np.minimum(row + dr, rows - 1), np.minimum(column + dc, columns - 1)
        return np.stack([dc * step[:, 0], dr * step[:, 1], grid[world, *end] - grid[world, row, column]], axis=-1)


def random_field_bench(kind: int, num_worlds: int, seed: int, roughness: float = 0.15, **options: object) -> FieldBench:
    """A body over random fields at random poses, from deep inside to well apart."""
    mesh = pebble() if kind == codes.CONVEX else None
    bench = FieldBench((kind, codes.HEIGHTFIELD), num_worlds, mesh=mesh, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    v = bench.values
    for name in ("friction", "restitution"):
        v[name] = rng.uniform(0.1, 1.0, (num_worlds, 2))
    v["geometry_size"][:, 0] = rng.uniform(0.05, 0.25, (num_worlds, 3))
    v["geometry_size"][:, 1] = rng.uniform((0.8, 0.7, 0.8), (1.2, 1.1, 1.3), (num_worlds, 3))
    v["height"] = roughness * rng.normal(size=v["height"].shape)
    scatter(bench, rng)
    body, field = bench.world_poses()
    target = rng.uniform((-0.6, -0.5, -0.15), (0.6, 0.5, 0.45), (num_worlds, 3))
    v["pose"][0, :, :3] += field[:, :3] + Rotation.from_quat(field[:, 3:]).apply(target) - body[:, :3]
    return bench
