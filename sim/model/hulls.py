"""Vertices, faces and edges of the shapes that collide as hulls, at unit size, packed for the kernels.

See :mod:`warp_kernels.collision.convex.shapes` for the meaning of each shape's vertices in convex pairs, and
:mod:`warp_kernels.collision.field.hull.contact` for boxes and convex meshes on heightfields.
"""

from dataclasses import dataclass, field

import numpy as np

from sim.errors import ModelError
from sim.model.mass_properties import mesh_mass_properties
from sim.model.model import Geometry, Mesh
from warp_kernels import types as codes
from warp_kernels.collision.convex.shapes import DISC_SIDES, MAX_CORNERS

# Vertices closer to a face's plane than both these fractions belong to it, as files round them: of the hull's extent,
# and of its thickness.
COPLANAR = 1e-5
LEVEL = 1e-2
SMALLEST = 1e-12  # extent of a mesh [m]


class FlatMeshError(ModelError):
    """A mesh whose vertices lie in a plane, so that its hull has no volume."""


@dataclass(frozen=True)
class HullBounds:
    """A ball inside of a convex mesh, and the box around it along the axes of its frame; zeros for other geometries.

    Attributes:
        ball_centre: the centre of the volume [3].
        ball_radius: distance of the nearest face from there.
        box_centre: [3].
        box_extents: half the lengths of the sides [3].
    """

    ball_centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    ball_radius: float = 0.0
    box_centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    box_extents: np.ndarray = field(default_factory=lambda: np.zeros(3))


@dataclass
class PackedShapes:
    """Shapes one after the other; equal ones are stored once.

    Attributes:
        extent: for each geometry the first vertex, the number of vertices, the first face, the number of faces.
        vertices: of all shapes.
        corners: for each face its vertices, counted from the shape's first, counter-clockwise seen from outside.
        normals: for each face its outward unit normal.
        edge_extent: for each geometry the first edge and the number of edges.
        edges: for each edge its two vertices, and a vertex of either face beside it, counted from the shape's first.
        bounds: for each geometry those of its convex mesh.
    """

    extent: list[tuple[int, int, int, int]] = field(default_factory=list)
    vertices: list[np.ndarray] = field(default_factory=list)
    corners: list[list[int]] = field(default_factory=list)
    normals: list[np.ndarray] = field(default_factory=list)
    edge_extent: list[tuple[int, int]] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    bounds: list[HullBounds] = field(default_factory=list)
    _known: dict[object, int] = field(default_factory=dict)

    def add_nothing(self) -> None:
        """A geometry that doesn't collide as a hull."""
        self.extent.append((0, 0, 0, 0))
        self.edge_extent.append((0, 0))
        self.bounds.append(HullBounds())

    def add(self, geometry: Geometry) -> None:
        """A geometry that does."""
        key = id(geometry.mesh) if geometry.type == codes.CONVEX else geometry.type
        if key in self._known:
            first = self._known[key]
            self.extent.append(self.extent[first])
            self.edge_extent.append(self.edge_extent[first])
            self.bounds.append(self.bounds[first])
            return
        self._known[key] = len(self.extent)
        vertices, faces = _unit_shape(geometry)
        edges = hull_edges(vertices, faces)
        self.extent.append((len(self.vertices), len(vertices), len(self.corners), len(faces)))
        self.edge_extent.append((len(self.edges), len(edges)))
        self.vertices += list(vertices)
        self.corners += [_thinned(face) for face in faces]
        self.normals += [_normal(vertices[face]) for face in faces]
        self.edges += edges
        self.bounds.append(HullBounds() if geometry.mesh is None else _hull_bounds(geometry.mesh, vertices, faces))


def convex_hull(vertices: np.ndarray) -> Mesh:
    """The convex hull of points [n, 3].

    Raises:
        FlatMeshError: for points in a plane.
    """
    import trimesh

    if np.ptp(vertices, axis=0).min() < SMALLEST:
        raise FlatMeshError("has no convex hull of positive volume: it is flat")
    try:
        hull = trimesh.convex.convex_hull(vertices)
    except Exception as error:  # qhull raises its own errors, trimesh and numpy theirs, for points in a plane
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FlatMeshError(f"has no convex hull of positive volume: {reason}") from None
    return Mesh(np.array(hull.vertices, dtype=np.float64), np.array(hull.faces, dtype=np.int32))


def _hull_bounds(mesh: Mesh, vertices: np.ndarray, faces: list[list[int]]) -> HullBounds:
    volume, centre, _ = mesh_mass_properties(mesh)
    depths = [_normal(vertices[face]) @ (vertices[face[0]] - centre) for face in faces]
    lower, upper = vertices.min(axis=0), vertices.max(axis=0)
    radius = min(depths) if volume > 0.0 else 0.0
    return HullBounds(centre, radius, 0.5 * (lower + upper), 0.5 * (upper - lower))


def hull_edges(vertices: np.ndarray, faces: list[list[int]]) -> list[tuple[int, int, int, int]]:
    """The edges between the faces of a hull.

    Args:
        vertices: [n, 3].
        faces: vertices of each face, counter-clockwise seen from outside.

    Returns:
        for each edge its two vertices and, of either face beside it, the vertex that is farthest from it.
    """
    beside: dict[tuple[int, int], list[int]] = {}
    for face in faces:
        for a, b in zip(face, face[1:] + face[:1], strict=True):
            across = np.cross(vertices[face] - vertices[a], vertices[b] - vertices[a])
            farthest = face[int(np.linalg.norm(across, axis=1).argmax())]
            beside.setdefault((min(a, b), max(a, b)), []).append(farthest)
    # A face that rounding has separated from its neighbour has its edge to itself.
    return [(a, b, far[0], far[-1]) for (a, b), far in beside.items()]


def hull_faces(vertices: np.ndarray, triangles: np.ndarray) -> list[list[int]]:
    """The flat faces of a convex hull, triangles in one plane made one polygon.

    Args:
        vertices: [n, 3].
        triangles: outward triangles of the hull [m, 3].

    Returns:
        for each face its vertices, counter-clockwise seen from outside.
    """
    p = vertices[triangles]
    across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    area = np.linalg.norm(across, axis=1)
    limit = _unevenness(vertices)
    # A triangle that is lower than this belongs to the faces beside it.
    done = area <= limit * np.linalg.norm(p - np.roll(p, 1, axis=1), axis=2).max(axis=1)
    faces = []

    def in_plane(place: np.ndarray, normal: np.ndarray) -> np.ndarray:
        level = np.abs((vertices - place) @ normal) <= limit
        return level[triangles].all(axis=1) & (across @ normal > 0.0)

    for k in np.argsort(-area, kind="stable"):
        if done[k]:
            continue
        face, inside = triangles[k].tolist(), in_plane(p[k, 0], across[k] / area[k])
        if inside.sum() > 1:
            face = _polygon(vertices, np.unique(triangles[inside]), across[k] / area[k], limit)
            # Once more in the plane of the whole face, which a small triangle doesn't tell.
            normal = _normal(vertices[face])
            inside = in_plane(vertices[face].mean(axis=0), normal)
            inside[k] = True
            face = _polygon(vertices, np.unique(triangles[inside]), normal, limit)
        done |= inside
        faces.append(face)
    return faces


def _unevenness(vertices: np.ndarray) -> float:
    """How far the vertices of a flat face may be from its plane, or from the line of an edge [m]."""
    offset = vertices - vertices.mean(axis=0)
    thickness = float(np.ptp(offset @ np.linalg.svd(offset, full_matrices=False)[2][-1]))
    return min(COPLANAR * float(np.ptp(vertices, axis=0).max()), LEVEL * thickness)


def _polygon(vertices: np.ndarray, on_face: np.ndarray, normal: np.ndarray, limit: float) -> list[int]:
    """Corners of the least convex polygon around vertices of a face, counter-clockwise seen from outside (Andrew 1979).

    Vertices that are beyond the line between two others by no more than the limit are no corners.
    """
    offset = vertices[on_face] - vertices[on_face].mean(axis=0)
    u = offset[np.argmax(np.linalg.norm(offset, axis=1))]
    u = u - (u @ normal) * normal
    u /= np.linalg.norm(u)
    x, y = offset @ u, offset @ np.cross(normal, u)
    order = np.lexsort((y, x))
    corners: list[int] = []
    for way in (order, order[::-1]):
        chain: list[int] = []
        for c in way:
            while len(chain) > 1:
                a, b = chain[-2], chain[-1]
                beyond = (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])
                if beyond > limit * np.hypot(x[c] - x[a], y[c] - y[a]):
                    break
                chain.pop()
            chain.append(int(c))
        corners += chain[:-1]
    return [int(on_face[corner]) for corner in corners]


def _thinned(face: list[int]) -> list[int]:
    """The corners of a face; an evenly spaced choice where there are more than MAX_CORNERS."""
    chosen = np.unique(np.linspace(0, len(face), min(len(face), MAX_CORNERS), endpoint=False).astype(int))
    return [face[index] for index in chosen]


def _normal(polygon: np.ndarray) -> np.ndarray:
    """Newell's normal."""
    offset = polygon - polygon[0]
    across = np.cross(offset, np.roll(offset, -1, axis=0)).sum(axis=0)
    return across / np.linalg.norm(across)


def _unit_shape(geometry: Geometry) -> tuple[np.ndarray, list[list[int]]]:
    if geometry.type == codes.CONVEX:
        if geometry.mesh is None:
            return np.zeros((1, 3)), []
        vertices = np.asarray(geometry.mesh.vertices, dtype=np.float64).reshape(-1, 3)
        return vertices, hull_faces(vertices, np.asarray(geometry.mesh.faces).reshape(-1, 3))
    ends = np.array([(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)])
    if geometry.type == codes.CAPSULE:
        return ends, []
    if geometry.type == codes.BOX:
        corners = np.array([[2.0 * (k >> axis & 1) - 1.0 for axis in range(3)] for k in range(8)])
        faces = [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]]
        return corners, faces
    if geometry.type == codes.CYLINDER:
        angle = 2.0 * np.pi * np.arange(DISC_SIDES) / DISC_SIDES
        ring = np.column_stack([np.cos(angle), np.sin(angle)])
        rims = [np.column_stack([ring, np.full(DISC_SIDES, z)]) for z in (-1.0, 1.0)]
        lower = list(reversed(range(DISC_SIDES)))
        return np.concatenate([*rims, ends]), [lower, [DISC_SIDES + k for k in range(DISC_SIDES)]]
    return np.zeros((1, 3)), []
