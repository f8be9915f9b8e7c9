"""What a triangle mesh must be like for bodies to touch it."""

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.model import Mesh

MOST_TRIANGLES = 2_000_000
# A triangle is without area where its height is less than this share of its longest side.
FLAT = 1e-9


def static_mesh(where: str, mesh: Mesh | None) -> Mesh:
    """A mesh with each vertex once and without triangles that have no area.

    Args:
        where: what the mesh is of, for messages.
        mesh: as given, such as from a file that repeats vertices.

    Raises:
        ModelError: for numbers that aren't finite, faces of unknown vertices, no or too many triangles, an edge of more
            than two triangles, and triangles beside each other that turn opposite ways.
    """
    if mesh is None:
        raise ModelError(f"{where}: a triangle mesh needs mesh=")
    vertices, faces = _arrays(where, mesh.vertices, mesh.faces)
    used, place = np.unique(vertices[faces.ravel()], axis=0, return_inverse=True)
    faces = place.reshape(-1, 3)
    a, b, c = used[faces].transpose(1, 0, 2)
    across = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    longest = np.max([((b - a) ** 2).sum(1), ((c - b) ** 2).sum(1), ((a - c) ** 2).sum(1)], axis=0)
    faces = faces[across > FLAT * longest]
    if not len(faces):
        raise ModelError(f"{where}: the mesh has no triangle with an area")
    _require_one_side(where, used, faces)
    kept, place = np.unique(faces, return_inverse=True)
    return Mesh(used[kept], place.reshape(-1, 3))


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
        raise ModelError(f"{where}: {len(corners)} triangles; at most {MOST_TRIANGLES} are supported, thin it out")
    if corners.size and not 0 <= corners.min() <= corners.max() < len(points):
        raise ModelError(f"{where}: faces name vertices from {corners.min()} to {corners.max()} of {len(points)}")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        raise ModelError(f"{where}: vertex {wrong[0]} is {points[wrong[0]].tolist()}, which is not finite")
    return points, corners.astype(np.int64)


def _require_one_side(where: str, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Each edge belongs to two triangles at most, which run along it in opposite ways."""
    ahead = np.sort(edges_of(faces) @ [len(vertices), 1])
    twice = np.flatnonzero(ahead[1:] == ahead[:-1])
    if not len(twice):
        return
    a, b = divmod(int(ahead[twice[0]]), len(vertices))
    back = np.count_nonzero(ahead == b * len(vertices) + a)
    place = np.round(0.5 * (vertices[a] + vertices[b]), 6).tolist()
    if np.count_nonzero(ahead == ahead[twice[0]]) + back > 2:
        raise ModelError(f"{where}: more than two triangles share the edge at {place}; take the mesh apart there")
    raise ModelError(
        f"{where}: the triangles on both sides of the edge at {place} turn opposite ways; seen from outside, all must "
        "turn counter-clockwise"
    )


def edges_of(faces: np.ndarray) -> np.ndarray:
    """The edges of triangles [m, 3], from each corner to the next [3 m, 2]."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
