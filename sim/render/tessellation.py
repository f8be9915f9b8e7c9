"""Triangle meshes of all geometry types, with smooth normals on smooth surfaces."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sim.errors import ModelError
from sim.model.geometries import Geometry
from sim.model.model import GEOMETRY_TYPE_NAMES
from warp_kernels import types as codes

CREASE = np.cos(np.radians(35.0))  # faces at a larger angle to each other have a visible edge


@dataclass(frozen=True)
class Triangles:
    """A triangle mesh in the frame of its geometry.

    Attributes:
        vertices: positions [nv, 3], in metres.
        faces: vertex indices [nf, 3], counter-clockwise seen from outside.
        normals: unit normal at every corner of every face [nf, 3, 3].
        uv: texture coordinates at every corner of every face [nf, 3, 2]; None without.
    """

    vertices: np.ndarray
    faces: np.ndarray
    normals: np.ndarray
    uv: np.ndarray | None = None


def textured(geometry: Geometry, segments: int = 32) -> Triangles:
    """Return the triangles of a geometry as :func:`tessellate` does, with coordinates of its texture if it has one.

    They are those of its mesh, or else a projection along z.
    """
    triangles, material = tessellate(geometry, segments), geometry.material
    if material.texture is None or triangles.uv is not None or material.repeat is None:
        return triangles
    return replace(triangles, uv=0.5 + triangles.vertices[triangles.faces][..., :2] * material.repeat)


def tessellate(geometry: Geometry, segments: int = 32) -> Triangles:
    """Return the triangles of a geometry other than a plane.

    Args:
        geometry: the geometry; its placement isn't applied.
        segments: number of sides of a full circle.

    Raises:
        ModelError: for a plane, which is infinite, or a geometry that lacks its mesh.
    """
    radius, half_length = float(geometry.size[0]), float(geometry.size[1])
    if geometry.type == codes.SPHERE:
        return _round(radius, 0.0, segments)
    if geometry.type == codes.CAPSULE:
        return _round(radius, half_length, segments)
    if geometry.type == codes.CYLINDER:
        return _revolve(np.array([[radius, -half_length], [radius, half_length]]), -half_length, half_length, segments)
    if geometry.type == codes.ELLIPSOID:
        ball = _round(1.0, 0.0, segments)
        # Normals transform with the inverse of the scale.
        normals = ball.normals / geometry.size
        normals /= np.linalg.norm(normals, axis=2, keepdims=True)
        return Triangles(ball.vertices * geometry.size, ball.faces, normals)
    if geometry.heights is not None:
        return surface(geometry.heights, geometry.size)
    if geometry.type == codes.BOX:
        return box(geometry.size)
    if geometry.mesh is None:
        kind = GEOMETRY_TYPE_NAMES.get(geometry.type, str(geometry.type))
        raise ModelError(f"geometry '{geometry.name}': a {kind} without a mesh has no triangles to draw")
    return with_normals(geometry.mesh.vertices * geometry.size, geometry.mesh.faces, geometry.mesh.uv)


def sphere(radius: float, segments: int = 32) -> Triangles:
    """Return a ball with the given radius [m] about the origin."""
    return _round(radius, 0.0, segments)


def tube(radius: float, segments: int = 12) -> tuple[Triangles, np.ndarray]:
    """Return a capsule of zero length along z, to be extended, and a mask [nv] of its upper end's vertices."""
    capsule = _round(radius, radius, segments)
    upper = capsule.vertices[:, 2] > 0.0
    shift = np.where(upper, -radius, radius)[:, None] * [0.0, 0.0, 1.0]
    return Triangles(capsule.vertices + shift, capsule.faces, capsule.normals), upper


def box(half_extents: np.ndarray) -> Triangles:
    """Return a box with half_extents [3] in metres about the origin."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return with_normals(signs * half_extents, faces)


def surface(heights: np.ndarray, size: np.ndarray) -> Triangles:
    """Return the triangles of a heightfield.

    heights: [rows, columns]; size: as in :class:`sim.model.geometries.Geometry`.
    """
    rows, columns = heights.shape
    x, y = np.meshgrid(np.linspace(-size[0], size[0], columns), np.linspace(-size[1], size[1], rows))
    vertices = np.stack([x, y, size[2] * heights], axis=-1).reshape(-1, 3)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    ahead, above, across = corner + 1, corner + columns, corner + columns + 1
    lower, upper = np.stack([corner, ahead, across], axis=1), np.stack([corner, across, above], axis=1)
    return with_normals(vertices, np.concatenate([lower, upper]))


def with_normals(vertices: np.ndarray, faces: np.ndarray, uv: np.ndarray | None = None) -> Triangles:
    """Add corner normals: the angle-weighted mean over the faces at a vertex, up to the crease angle."""
    vertices = np.asarray(vertices, dtype=np.float64)
    faces = np.asarray(faces, dtype=np.int64)
    corners = vertices[faces]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sizes = np.linalg.norm(areas, axis=1)
    solid = sizes > 0.0
    faces, corners, flat = faces[solid], corners[solid], areas[solid] / sizes[solid, None]
    ahead, behind = (np.roll(corners, shift, axis=1) - corners for shift in (-1, 1))
    angles = np.arctan2(sizes[solid, None], np.einsum("fci,fci->fc", ahead, behind)).ravel()
    # Files often repeat vertices for every face, so corners are matched by position.
    _, index = np.unique(np.round(vertices, 9), axis=0, return_inverse=True)
    owner = np.arange(faces.size) // 3
    incidence = sparse.csr_matrix((np.ones(faces.size), (np.arange(faces.size), index.reshape(-1)[faces.ravel()])))
    pairs = (incidence @ incidence.T).tocoo()
    smooth = np.einsum("ij,ij->i", flat[owner[pairs.row]], flat[owner[pairs.col]]) > CREASE
    here, there = pairs.row[smooth], pairs.col[smooth]
    mean = sparse.csr_matrix((angles[there], (here, owner[there])), (faces.size, len(faces))) @ flat
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    uv = None if uv is None else np.asarray(uv, dtype=np.float64)[solid]
    return Triangles(vertices, faces.astype(np.int32), mean.reshape(-1, 3, 3), uv)


def _round(radius: float, half_length: float, segments: int) -> Triangles:
    rings = max(segments // 4, 2)
    angles = np.linspace(0.0, np.pi / 2.0, rings + 1)[:-1]
    upper = np.stack([radius * np.cos(angles), half_length + radius * np.sin(angles)], axis=1)
    lower = upper[::-1] * (1.0, -1.0)
    profile = np.concatenate([lower if half_length > 0.0 else lower[:-1], upper])
    return _revolve(profile, -half_length - radius, half_length + radius, segments)


def _revolve(profile: np.ndarray, bottom: float, top: float, segments: int) -> Triangles:
    """Revolve a profile of (radius, z), from bottom to top, about z, closed by a point on the axis at either end."""
    turn = 2.0 * np.pi * np.arange(segments) / segments
    rings = np.stack(
        [
            profile[:, :1] * np.cos(turn),
            profile[:, :1] * np.sin(turn),
            np.broadcast_to(profile[:, 1:], (len(profile), segments)),
        ],
        axis=2,
    )
    vertices = np.concatenate([rings.reshape(-1, 3), [[0.0, 0.0, bottom], [0.0, 0.0, top]]])
    here = np.arange(segments)
    after = (here + 1) % segments
    south = np.full(segments, len(vertices) - 2)
    faces = [np.stack([south, after, here], axis=1)]
    for ring in range(len(profile) - 1):
        a, b = ring * segments, (ring + 1) * segments
        faces.append(np.stack([a + here, a + after, b + after], axis=1))
        faces.append(np.stack([a + here, b + after, b + here], axis=1))
    last = (len(profile) - 1) * segments
    faces.append(np.stack([last + here, last + after, south + 1], axis=1))
    return with_normals(vertices, np.concatenate(faces))
