"""Static triangle meshes for collision: checks, and their elements as arrays.

See :mod:`warp_kernels.collision.field.ground.triangles`.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.geometries import Mesh

MOST_TRIANGLES = 2_000_000
# A triangle has no area if its height is less than this fraction of its longest side.
FLAT = 1e-9


def static_mesh(where: str, mesh: Mesh | None) -> Mesh:
    """Return a mesh without duplicate vertices and without triangles that have no area.

    Args:
        where: owner of the mesh, for messages.
        mesh: mesh as given, such as from a file with duplicate vertices.

    Raises:
        ModelError: for numbers that aren't finite, faces of unknown vertices, no or too many triangles, an edge of more
            than two triangles, and neighbouring triangles of opposite orientation.
    """
    if mesh is None:
        raise ModelError(f"{where}: a triangle mesh needs mesh=")
    vertices, faces = _arrays(where, mesh.vertices, mesh.faces)
    used, inverse = np.unique(vertices[faces.ravel()], axis=0, return_inverse=True)
    faces = inverse.reshape(-1, 3)
    a, b, c = used[faces].transpose(1, 0, 2)
    across = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    longest = np.max([((b - a) ** 2).sum(1), ((c - b) ** 2).sum(1), ((a - c) ** 2).sum(1)], axis=0)
    solid = across > FLAT * longest
    faces = faces[solid]
    if not len(faces):
        raise ModelError(f"{where}: the mesh has no triangle with an area")
    _require_one_side(where, used, faces)
    kept, inverse = np.unique(faces, return_inverse=True)
    return Mesh(used[kept], inverse.reshape(-1, 3), None if mesh.uv is None else np.asarray(mesh.uv)[solid])


def _arrays(where: str, vertices: npt.ArrayLike, faces: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    try:
        points = np.array(vertices, dtype=np.float64)
        corners = np.array(faces)
    except (TypeError, ValueError):
        raise ModelError(f"{where}: vertices and faces must be arrays of numbers") from None
    if points.ndim != 2 or points.shape[1] != 3 or corners.ndim != 2 or corners.shape[1] != 3:
        raise ModelError(
            f"{where}: vertices have shape {points.shape} and faces {corners.shape}; expected (n, 3) and (m, 3)"
        )
    if corners.dtype.kind not in "iu":
        raise ModelError(f"{where}: faces are of type {corners.dtype}; they must be whole numbers")
    if len(corners) > MOST_TRIANGLES:
        raise ModelError(
            f"{where}: {len(corners)} triangles; at most {MOST_TRIANGLES} are supported; simplify the mesh"
        )
    if corners.size and not 0 <= corners.min() <= corners.max() < len(points):
        raise ModelError(f"{where}: faces name vertices from {corners.min()} to {corners.max()} of {len(points)}")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        raise ModelError(f"{where}: vertex {wrong[0]} is {points[wrong[0]].tolist()}, which is not finite")
    return points, corners.astype(np.int64)


def _require_one_side(where: str, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Raise ModelError unless each edge has at most two triangles, which run along it in opposite directions."""
    ahead = np.sort(edges_of(faces) @ [len(vertices), 1])
    twice = np.flatnonzero(ahead[1:] == ahead[:-1])
    if not len(twice):
        return
    a, b = divmod(int(ahead[twice[0]]), len(vertices))
    back = np.count_nonzero(ahead == b * len(vertices) + a)
    middle = np.round(0.5 * (vertices[a] + vertices[b]), 6).tolist()
    if np.count_nonzero(ahead == ahead[twice[0]]) + back > 2:
        raise ModelError(f"{where}: more than two triangles share the edge at {middle}; split the mesh there")
    raise ModelError(
        f"{where}: the triangles on both sides of the edge at {middle} have opposite orientations; all must be "
        "counter-clockwise seen from outside"
    )


def edges_of(faces: np.ndarray) -> np.ndarray:
    """Return the edges of triangles [m, 3], from each corner to the next [3 m, 2]."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)


# Minimum sine of the angle between two triangles for their common edge to count as an edge.
ANGLE = 1e-9


@dataclass
class MeshElements:
    """Triangles, edges and points of meshes, concatenated; equal meshes are stored once.

    Attributes:
        extent: first element, number of triangles and number of edges of each geometry; zeros without mesh.
        meshes: stored meshes.
        stored: index of each geometry's mesh; -1 for none.
        vertices, corner, outward, beside, neighbour, owned_start, owned: one array per mesh, see
            :func:`warp_kernels.collision.structs.collision_structs`.
    """

    extent: list[tuple[int, int, int]] = field(default_factory=list)
    meshes: list[Mesh] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    vertices: list[np.ndarray] = field(default_factory=list)
    corner: list[np.ndarray] = field(default_factory=list)
    outward: list[np.ndarray] = field(default_factory=list)
    beside: list[np.ndarray] = field(default_factory=list)
    neighbour: list[np.ndarray] = field(default_factory=list)
    owned_start: list[np.ndarray] = field(default_factory=list)
    owned: list[np.ndarray] = field(default_factory=list)
    _known: dict[int, int] = field(default_factory=dict)

    def add_nothing(self) -> None:
        """Add a geometry that has no mesh, or doesn't collide."""
        self.extent.append((0, 0, 0))
        self.stored.append(-1)

    def add(self, mesh: Mesh) -> None:
        """Add a geometry with a mesh from :func:`sim.model.shapes.triangles.static_mesh`."""
        if id(mesh) in self._known:
            first = self._known[id(mesh)]
            self.extent.append(self.extent[first])
            self.stored.append(self.stored[first])
            return
        self._known[id(mesh)] = len(self.extent)
        self.stored.append(len(self.meshes))
        self.meshes.append(mesh)
        self._add_elements(np.asarray(mesh.vertices), np.asarray(mesh.faces, dtype=np.int64))

    def _add_elements(self, vertices: np.ndarray, faces: np.ndarray) -> None:
        points, elements, neighbours, owned = (
            sum(map(len, parts)) for parts in (self.vertices, self.corner, self.neighbour, self.owned)
        )
        count = len(faces)
        edges = _edges(vertices, faces)
        kept = np.unique(edges.ends)
        self.extent.append((elements, count, len(edges.ends)))
        normals = _unit(_areas(vertices, faces))
        corner_weights = _corner_angles(vertices, faces)[:, :, None] * normals[:, None]
        around = np.zeros_like(vertices)
        np.add.at(around, faces.ravel(), corner_weights.reshape(-1, 3))
        of_edges = normals[edges.triangles[:, 0]] + np.where(
            edges.triangles[:, 1:] >= 0, normals[edges.triangles[:, 1]], 0.0
        )
        first_owner = np.full(len(vertices), count)
        np.minimum.at(first_owner, faces.ravel(), np.repeat(np.arange(count), 3))
        beside, starts = _neighbours(faces, kept)
        self.vertices.append(vertices)
        self.corner.append(
            points + np.concatenate([faces, edges.ends[:, [0, 1, 0]], np.repeat(kept[:, None], 3, axis=1)])
        )
        self.outward.append(_unit(np.concatenate([normals, of_edges, around[kept]])))
        self.beside.append(
            np.concatenate(
                [
                    np.stack([edges.borders, np.zeros(count, dtype=np.int64)], axis=1),
                    np.where(edges.across >= 0, points + edges.across, -1),
                    neighbours + np.stack([starts[:-1], starts[1:]], axis=1),
                ]
            )
        )
        self.neighbour.append(points + beside)
        owner = np.concatenate([np.arange(count), edges.triangles[:, 0], first_owner[kept]])
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(owner)), side="left")
        self.owned_start.append(owned + ends)
        self.owned.append(order)


@dataclass
class _Edges:
    """Edges of a mesh that are convex or on its border.

    Attributes:
        ends: vertices of each edge [e, 2].
        triangles: triangles on both sides, the second -1 at a border [e, 2].
        across: third vertices of these triangles [e, 2].
        borders: bits of the edges of each triangle that are on the border [triangles].
    """

    ends: np.ndarray
    triangles: np.ndarray
    across: np.ndarray
    borders: np.ndarray


def _edges(vertices: np.ndarray, faces: np.ndarray) -> _Edges:
    ahead = edges_of(faces)
    third = faces[:, [2, 0, 1]].ravel()
    triangle = np.repeat(np.arange(len(faces)), 3)
    size = len(vertices)
    key, back = ahead @ [size, 1], ahead[:, ::-1] @ [size, 1]
    order = np.argsort(key)
    index = np.minimum(np.searchsorted(key[order], back), len(key) - 1)
    other = np.where(key[order][index] == back, order[index], -1)
    border = other < 0
    # Each edge between two triangles is listed in the direction from the lower to the higher vertex.
    chosen = np.flatnonzero(border | (ahead[:, 0] < ahead[:, 1]))
    beyond = other[chosen]
    start, end = vertices[ahead[chosen]].transpose(1, 0, 2)
    across = np.stack([third[chosen], np.where(beyond >= 0, third[beyond], -1)], axis=1)
    into = vertices[across[:, 1]] - start
    along = _unit(end - start)
    into -= (into * along).sum(1)[:, None] * along
    normal = _unit(_areas(vertices, faces))[triangle[chosen]]
    convex = border[chosen] | ((into * normal).sum(1) < -ANGLE * np.linalg.norm(into, axis=1))
    chosen, beyond, across = chosen[convex], beyond[convex], across[convex]
    return _Edges(
        ahead[chosen],
        np.stack([triangle[chosen], np.where(beyond >= 0, triangle[beyond], -1)], axis=1),
        across,
        border.reshape(-1, 3) @ [1, 2, 4],
    )


def _neighbours(faces: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices that share an edge with each of some, concatenated, and the start of each list [k + 1]."""
    ahead = edges_of(faces)
    both = np.unique(np.concatenate([ahead, ahead[:, ::-1]]), axis=0)
    starts = np.searchsorted(both[:, 0], np.stack([kept, kept + 1], axis=1))
    lists = [both[first:end, 1] for first, end in starts]
    return np.concatenate([np.zeros(0, dtype=np.int64), *lists]), np.cumsum([0, *map(len, lists)])


def _areas(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = vertices[faces].transpose(1, 0, 2)
    return np.cross(b - a, c - a)


def _corner_angles(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    corners = vertices[faces]
    ahead, behind = (_unit(np.roll(corners, shift, axis=1) - corners) for shift in (-1, 1))
    return np.arccos(np.clip((ahead * behind).sum(-1), -1.0, 1.0))


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.tile([0.0, 0.0, 1.0], (*vectors.shape[:-1], 1)), where=length > 0.0)
