"""Vertices and faces of the shapes that convex pairs are made of, at unit size, packed for the kernels.

See :mod:`warp_kernels.collision.convex.shapes` for what the vertices of each shape stand for.
"""

from dataclasses import dataclass, field

import numpy as np

from sim.model import Geometry
from warp_kernels import types as codes
from warp_kernels.collision.convex.shapes import DISC_SIDES, MAX_CORNERS

# Vertices closer to a triangle's plane than this part of the hull's extent lie on one face with it.
COPLANAR = 1e-7


@dataclass
class PackedShapes:
    """Shapes one after the other; equal ones stand once.

    Attributes:
        extent: for each geometry the first vertex, the number of vertices, the first face, the number of faces.
        vertices: of all shapes.
        corners: for each face its vertices, counted from the shape's first, counter-clockwise seen from outside.
        normals: for each face its outward unit normal.
    """

    extent: list[tuple[int, int, int, int]] = field(default_factory=list)
    vertices: list[np.ndarray] = field(default_factory=list)
    corners: list[list[int]] = field(default_factory=list)
    normals: list[np.ndarray] = field(default_factory=list)
    _known: dict[object, tuple[int, int, int, int]] = field(default_factory=dict)

    def add_nothing(self) -> None:
        """A geometry that is in no convex pair."""
        self.extent.append((0, 0, 0, 0))

    def add(self, geometry: Geometry) -> None:
        """A geometry that is in a convex pair."""
        key = id(geometry.mesh) if geometry.type == codes.CONVEX else geometry.type
        if key not in self._known:
            vertices, faces = _unit_shape(geometry)
            extent = (len(self.vertices), len(vertices), len(self.corners), len(faces))
            self.vertices += list(vertices)
            self.corners += faces
            self.normals += [_normal(vertices[face]) for face in faces]
            self._known[key] = extent
        self.extent.append(self._known[key])


def hull_faces(vertices: np.ndarray, triangles: np.ndarray) -> list[list[int]]:
    """The flat faces of a convex hull, triangles in one plane made one polygon.

    Args:
        vertices: [n, 3].
        triangles: outward triangles of the hull [m, 3].

    Returns:
        for each face its vertices, counter-clockwise seen from outside; of more than MAX_CORNERS an even choice.
    """
    p = vertices[triangles]
    across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    area = np.linalg.norm(across, axis=1)
    limit = COPLANAR * np.ptp(vertices, axis=0).max()
    done = area == 0.0
    faces = []
    for k in np.argsort(-area, kind="stable"):
        if done[k]:
            continue
        normal = across[k] / area[k]
        on_face = np.abs((vertices - p[k, 0]) @ normal) <= limit
        done |= on_face[triangles].all(axis=1)
        faces.append(_polygon(vertices, np.flatnonzero(on_face), normal))
    return faces


def _polygon(vertices: np.ndarray, on_face: np.ndarray, normal: np.ndarray) -> list[int]:
    offset = vertices[on_face] - vertices[on_face].mean(axis=0)
    u = offset[np.argmax(np.linalg.norm(offset, axis=1))]
    angle = np.arctan2(offset @ np.cross(normal, u), offset @ u)
    ring = on_face[np.argsort(angle, kind="stable")]
    chosen = np.unique(np.linspace(0, len(ring), min(len(ring), MAX_CORNERS), endpoint=False).astype(int))
    return [int(index) for index in ring[chosen]]


def _normal(polygon: np.ndarray) -> np.ndarray:
    """Newell's normal."""
    across = np.cross(polygon, np.roll(polygon, -1, axis=0)).sum(axis=0)
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
