"""Vertices, faces and edges of shapes that collide as hulls, at unit size, packed for the kernels.

See :mod:`warp_kernels.collision.convex.support` for the meaning of each shape's vertices in convex pairs, and
:mod:`warp_kernels.collision.field.hull.contact` for boxes and convex meshes on heightfields.
"""

import math
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field

import numpy as np

from sim.errors import ModelError
from sim.model.geometries import Geometry, HullFaces, Mesh
from sim.model.shapes.inertia import mesh_mass_properties
from warp_kernels import types as codes
from warp_kernels.collision.convex.support import DISC_SIDES, MAX_CORNERS

# A vertex belongs to a face if its distance from the plane is below both these fractions: of the hull's extent and of
# its thickness. Files round vertices.
COPLANAR = 1e-5
LEVEL = 1e-2
SMALLEST = 1e-12  # extent of a mesh [m]
ROUNDING = 1e-14  # rounding of a distance from a plane, relative to the largest coordinate
BLOCK = 4_000_000  # maximum number of distances in memory at a time
SILENT = 1.0  # seconds after which computing hulls is reported


class FlatMeshError(ModelError):
    """Error for a mesh whose vertices are in a plane, so that its hull has no volume."""


@dataclass(frozen=True)
class HullBounds:
    """Inscribed ball of a convex mesh, and its bounding box along the axes of its frame; zeros for other geometries.

    Attributes:
        ball_centre: centre of the volume [3].
        ball_radius: distance of the nearest face from there.
        box_centre: [3].
        box_extents: half extents [3].
    """

    ball_centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    ball_radius: float = 0.0
    box_centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    box_extents: np.ndarray = field(default_factory=lambda: np.zeros(3))


@dataclass(frozen=True)
class Hull:
    """Shape that collides as a hull; the hull of a mesh is cached as long as the mesh exists.

    Attributes:
        vertices: [n, 3].
        triangles: triangles of the hull of a mesh [m, 3]; empty for primitives.
        polygons: vertices of each face, counter-clockwise seen from outside.
        corners: the same, at most MAX_CORNERS.
        normals: outward unit normal of each face [f, 3].
        edges: see :func:`hull_edges`.
        bounds: bounds of a convex mesh.
    """

    vertices: np.ndarray
    triangles: np.ndarray
    polygons: list[list[int]]
    corners: list[list[int]]
    normals: np.ndarray
    edges: np.ndarray
    bounds: HullBounds

    def is_of(self, mesh: Mesh) -> bool:
        """Return whether the mesh still has the values that the hull was computed from."""
        return np.array_equal(self.vertices, mesh.vertices) and np.array_equal(self.triangles, mesh.faces)


# Hulls of existing meshes, by the meshes' ids.
_hulls: dict[int, Hull] = {}


@dataclass
class PackedShapes:
    """Concatenated shapes; equal ones are stored once.

    Attributes:
        extent: first vertex, number of vertices, first face and number of faces of each geometry.
        vertices: vertices of all shapes.
        polygons: vertices of each face, relative to the shape's first, counter-clockwise seen from outside.
        corners: the same, at most MAX_CORNERS.
        normals: outward unit normal of each face.
        edge_extent: first edge and number of edges of each geometry.
        edges: two vertices of each edge, and one further vertex of each adjacent face, relative to the shape's first.
        bounds: bounds of each geometry's convex mesh.
    """

    extent: list[tuple[int, int, int, int]] = field(default_factory=list)
    vertices: list[np.ndarray] = field(default_factory=list)
    polygons: list[list[int]] = field(default_factory=list)
    corners: list[list[int]] = field(default_factory=list)
    normals: list[np.ndarray] = field(default_factory=list)
    edge_extent: list[tuple[int, int]] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    bounds: list[HullBounds] = field(default_factory=list)
    _known: dict[object, int] = field(default_factory=dict)
    _seconds: float = 0.0

    def add_nothing(self) -> None:
        """Add a geometry that doesn't collide as a hull."""
        self.extent.append((0, 0, 0, 0))
        self.edge_extent.append((0, 0))
        self.bounds.append(HullBounds())

    def add(self, geometry: Geometry) -> None:
        """Add a geometry that collides as a hull."""
        key = id(geometry.mesh) if geometry.type == codes.CONVEX else geometry.type
        if key in self._known:
            first = self._known[key]
            self.extent.append(self.extent[first])
            self.edge_extent.append(self.edge_extent[first])
            self.bounds.append(self.bounds[first])
            return
        self._known[key] = len(self.extent)
        hull = self._hull(geometry)
        self.extent.append((len(self.vertices), len(hull.vertices), len(self.corners), len(hull.corners)))
        self.edge_extent.append((len(self.edges), len(hull.edges)))
        self.vertices += list(hull.vertices)
        self.polygons += hull.polygons
        self.corners += hull.corners
        self.normals += list(hull.normals)
        self.edges += hull.edges.tolist()
        self.bounds.append(hull.bounds)

    def _hull(self, geometry: Geometry) -> Hull:
        """Return the hull of a geometry, and report on standard error if all hulls take long."""
        mesh = geometry.mesh if geometry.type == codes.CONVEX else None
        kept = None if mesh is None else _hulls.get(id(mesh))
        if mesh is not None and kept is not None and kept.is_of(mesh):
            return kept
        line = threading.Timer(SILENT - self._seconds, _tell)
        if mesh is not None and self._seconds < SILENT:
            line.start()
        began = time.perf_counter()
        try:
            hull = _make_hull(geometry)
        finally:
            line.cancel()
        self._seconds += time.perf_counter() - began
        if mesh is not None:
            if kept is None:
                weakref.finalize(mesh, _hulls.pop, id(mesh), None).atexit = False
            _hulls[id(mesh)] = hull
        return hull


def hull_faces_of(geometry: Geometry) -> HullFaces:
    """Return the faces of a convex mesh: those stated for the mesh, otherwise merged from its triangles."""
    if geometry.mesh is not None and geometry.mesh.hull_faces is not None:
        return geometry.mesh.hull_faces
    shapes = PackedShapes()
    shapes.add(geometry)
    return HullFaces(tuple(map(tuple, shapes.polygons)), np.array(shapes.normals).reshape(-1, 3))


def _tell() -> None:
    print("computing faces and edges of convex meshes", file=sys.stderr, flush=True)


def _make_hull(geometry: Geometry) -> Hull:
    vertices, faces = _unit_shape(geometry)
    normals = _normals(vertices, faces)
    bounds, triangles = HullBounds(), np.zeros((0, 3), dtype=int)
    if geometry.mesh is not None:
        bounds, triangles = _hull_bounds(geometry.mesh, vertices, faces, normals), np.array(geometry.mesh.faces)
    corners = [_thinned(face) if len(face) > MAX_CORNERS else face for face in faces]
    return Hull(vertices, triangles, faces, corners, normals, hull_edges(vertices, faces), bounds)


def convex_hull(vertices: np.ndarray) -> Mesh:
    """Return the convex hull of points [n, 3].

    Raises:
        FlatMeshError: for points in a plane.
    """
    import trimesh

    if np.ptp(vertices, axis=0).min() < SMALLEST:
        raise FlatMeshError("has no convex hull of positive volume: it is flat")
    try:
        hull = trimesh.convex.convex_hull(vertices)
    except Exception as error:  # qhull, trimesh and NumPy raise different errors for points in a plane
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FlatMeshError(f"has no convex hull of positive volume: {reason}") from None
    return Mesh(np.array(hull.vertices, dtype=np.float64), np.array(hull.faces, dtype=np.int32))


def _hull_bounds(mesh: Mesh, vertices: np.ndarray, faces: list[list[int]], normals: np.ndarray) -> HullBounds:
    volume, centre, _ = mesh_mass_properties(mesh)
    depths = ((vertices[[face[0] for face in faces]] - centre) * normals).sum(axis=1)
    lower, upper = vertices.min(axis=0), vertices.max(axis=0)
    radius = float(depths.min()) if volume > 0.0 else 0.0
    return HullBounds(centre, radius, 0.5 * (lower + upper), 0.5 * (upper - lower))


def _by_length(faces: list[list[int]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each number of corners, the indices of the faces with that many [f] and their corners [f,
    corners].
    """
    lengths = np.array([len(face) for face in faces], dtype=int)
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    return [(chosen, np.array([faces[index] for index in chosen])) for chosen in groups]


def hull_edges(vertices: np.ndarray, faces: list[list[int]]) -> np.ndarray:
    """Return the edges between the faces of a hull, in the order in which the faces name them first.

    Args:
        vertices: [n, 3].
        faces: vertices of each face, counter-clockwise seen from outside.

    Returns:
        two vertices of each edge, the smaller index first, and the vertex of each adjacent face that is farthest from
        the edge [edges, 4].
    """
    first = np.concatenate([[0], np.cumsum([len(face) for face in faces])]).astype(int)
    sides = np.zeros((first[-1], 3), dtype=int)
    for chosen, corners in _by_length(faces):
        p = vertices[corners]
        for k in range(corners.shape[1]):
            ahead = (k + 1) % corners.shape[1]
            across = np.cross(p - p[:, k, None], (p[:, ahead] - p[:, k])[:, None])
            farthest = np.linalg.norm(across, axis=2).argmax(axis=1)
            farthest = corners[np.arange(len(corners)), farthest]
            sides[first[chosen] + k] = np.column_stack([corners[:, k], corners[:, ahead], farthest])
    low, high, far = sides[:, :2].min(axis=1), sides[:, :2].max(axis=1), sides[:, 2]
    key = low * len(vertices) + high
    _, start = np.unique(key, return_index=True)
    _, end = np.unique(key[::-1], return_index=True)
    # A face that rounding has separated from its neighbour doesn't share its edge.
    edges = np.column_stack([low[start], high[start], far[start], far[::-1][end]])
    return edges[np.argsort(start)]


def hull_faces(vertices: np.ndarray, triangles: np.ndarray) -> list[list[int]]:
    """Return the flat faces of a convex hull, with coplanar triangles merged into polygons.

    Args:
        vertices: [n, 3].
        triangles: outward triangles of the hull [m, 3].

    Returns:
        vertices of each face, counter-clockwise seen from outside.
    """
    p = vertices[triangles]
    across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    area = np.linalg.norm(across, axis=1)
    limit = _unevenness(vertices)
    # A triangle below this height belongs to its neighbouring faces.
    done = area <= limit * np.linalg.norm(p - np.roll(p, 1, axis=1), axis=2).max(axis=1)
    normals = across / np.where(done, 1.0, area)[:, None]
    alone = _alone(vertices, triangles, normals, limit)
    a, b, c = np.ascontiguousarray(triangles.T)
    faces = []

    def in_plane(point: np.ndarray, normal: np.ndarray) -> np.ndarray:
        level = np.abs((vertices - point) @ normal) <= limit
        inside = np.flatnonzero(level[a] & level[b] & level[c])
        return inside[across[inside] @ normal > 0.0]

    for k in np.argsort(-area, kind="stable").tolist():
        if done[k]:
            continue
        done[k] = True
        face = triangles[k].tolist()
        if not alone[k] and len(inside := in_plane(p[k, 0], normals[k])) > 1:
            face = _polygon(vertices, np.unique(triangles[inside]), normals[k], limit)
            # Repeat with the plane of the whole face, which that of a small triangle only approximates.
            normal = _normals(vertices, [face])[0]
            inside = np.append(in_plane(vertices[face].mean(axis=0), normal), k)
            face = _polygon(vertices, np.unique(triangles[inside]), normal, limit)
            done[inside] = True
        faces.append(face)
    return faces


def _alone(vertices: np.ndarray, triangles: np.ndarray, normals: np.ndarray, limit: float) -> np.ndarray:
    """Return whether the plane of a triangle can only have its corners, and no other triangle has the same plane
    [m].
    """
    lowest = (vertices[triangles[:, 0]] * normals).sum(axis=1) - limit - ROUNDING * np.abs(vertices).max()
    level = np.empty(len(triangles), dtype=int)
    rows = max(BLOCK // len(vertices), 1)
    for start in range(0, len(triangles), rows):
        part = slice(start, start + rows)
        level[part] = np.count_nonzero(normals[part] @ vertices.T >= lowest[part, None], axis=1)
    low, middle, high = np.sort(triangles, axis=1).astype(np.int64).T
    key = (low * len(vertices) + middle) * len(vertices) + high
    _, which, times = np.unique(key, return_inverse=True, return_counts=True)
    return (level <= 3) & (times[which] == 1)


def _unevenness(vertices: np.ndarray) -> float:
    """Return the tolerance of vertices of a flat face from its plane, or from the line of an edge [m]."""
    offset = vertices - vertices.mean(axis=0)
    thickness = float(np.ptp(offset @ np.linalg.svd(offset, full_matrices=False)[2][-1]))
    return min(COPLANAR * float(np.ptp(vertices, axis=0).max()), LEVEL * thickness)


def _polygon(vertices: np.ndarray, on_face: np.ndarray, normal: np.ndarray, limit: float) -> list[int]:
    """Return the corners of the convex hull of a face's vertices, counter-clockwise from outside (Andrew 1979).

    Vertices that are beyond the line between two others by no more than the limit are dropped.
    """
    offset = vertices[on_face] - vertices[on_face].mean(axis=0)
    u = offset[np.argmax(np.linalg.norm(offset, axis=1))]
    u = u - (u @ normal) * normal
    u /= np.linalg.norm(u)
    (nx, ny, nz), (ux, uy, uz) = normal.tolist(), u.tolist()
    across, along = offset @ u, offset @ (ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux)
    order = np.lexsort((along, across)).tolist()
    x, y = across.tolist(), along.tolist()
    corners: list[int] = []
    for sequence in (order, order[::-1]):
        chain: list[int] = []
        for c in sequence:
            while len(chain) > 1:
                a, b = chain[-2], chain[-1]
                beyond = (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])
                if beyond > limit * math.hypot(x[c] - x[a], y[c] - y[a]):
                    break
                chain.pop()
            chain.append(c)
        corners += chain[:-1]
    return on_face[corners].tolist()


def _thinned(face: list[int]) -> list[int]:
    """Return the corners of a face, or an evenly spaced subset if there are more than MAX_CORNERS."""
    chosen = np.unique(np.linspace(0, len(face), min(len(face), MAX_CORNERS), endpoint=False).astype(int))
    return [face[index] for index in chosen]


def _normals(vertices: np.ndarray, faces: list[list[int]]) -> np.ndarray:
    """Return Newell's normals of faces [f, 3]."""
    normals = np.zeros((len(faces), 3))
    for chosen, corners in _by_length(faces):
        offset = vertices[corners] - vertices[corners[:, :1]]
        (x, y, z), (u, v, w) = offset.transpose(2, 0, 1), offset[:, [*range(1, offset.shape[1]), 0]].transpose(2, 0, 1)
        across = np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=2).sum(axis=1)
        normals[chosen] = across / np.linalg.norm(across, axis=1)[:, None]
    return normals


def _unit_shape(geometry: Geometry) -> tuple[np.ndarray, list[list[int]]]:
    if geometry.type == codes.CONVEX:
        if geometry.mesh is None:
            return np.zeros((1, 3)), []
        vertices = np.array(geometry.mesh.vertices, dtype=np.float64).reshape(-1, 3)
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
