"""Geometry of tendons to draw: straight pieces along their paths, and arcs around wraps."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.model import Model
from sim.model.poses import compose
from sim.model.tendons.tendons import path_points
from sim.render.tessellation import Triangles, tube

ARC_PIECES = 12  # straight pieces per wrap
RADIUS = 0.004  # radius of a tendon [m]
COLOR = (0.72, 0.16, 0.14)
TINY = 1e-9


def tendon_pieces(model: Model, poses: np.ndarray) -> np.ndarray:
    """Return the ends of the straight pieces along all spatial tendons [num_pieces, 2, 3], in the world frame [m].

    Their number depends on the model only: a tendon that doesn't touch a wrap has pieces of zero length there.

    Args:
        model: the model, whose parameters give points and wraps.
        poses: link poses of one world [num_links, 7].
    """
    tendons = model.tendons
    if not len(tendons.segment_ends):
        return np.zeros((0, 2, 3))
    points, arcs = path_points(tendons, model.parameters, poses)
    pieces = []
    for number, (first, last) in enumerate(points[tendons.segment_ends]):
        wrap = int(tendons.segment_wrap[number])
        if wrap < 0:
            pieces.append(np.stack([first, last])[None])
            continue
        before = points[tendons.wrap_ends[wrap, 0]]
        path = _arc(model, poses, wrap, before, first, last, float(arcs[wrap]))
        pieces.append(np.stack([path[:-1], path[1:]], axis=1))
    return np.concatenate(pieces)


def num_tendon_pieces(model: Model) -> int:
    """Return the number of pieces that :func:`tendon_pieces` returns."""
    return int(np.where(model.tendons.segment_wrap >= 0, ARC_PIECES, 1).sum())


def tendon_points(model: Model, poses: np.ndarray) -> np.ndarray:
    """Return points along spatial tendons, for a camera that sees them [frames, num_points, 3].

    Args:
        model: the model.
        poses: link poses of one world [frames, num_links, 7].
    """
    own = np.asarray(model.parameters.get("tendon_point", np.zeros((0, 3))), dtype=np.float64).reshape(-1, 3)
    points = np.tile(own, (len(poses), 1, 1))
    for number, link in enumerate(model.tendons.point_link.tolist()):
        if link >= 0:
            turned = Rotation.from_quat(poses[:, link, 3:]).apply(own[number])
            points[:, number] = poses[:, link, :3] + turned
    return points


def _arc(
    model: Model, poses: np.ndarray, wrap: int, before: np.ndarray, first: np.ndarray, last: np.ndarray, length: float
) -> np.ndarray:
    """Return points along a wrap from the first to the last tangent point of a tendon [ARC_PIECES + 1, 3].

    Args:
        model: the model.
        poses: link poses [num_links, 7].
        wrap: index of the wrap.
        before: previous point of the tendon; the tendon touches the surface tangentially.
        first: first tangent point.
        last: last tangent point.
        length: length of the arc between them [m].
    """
    shares = np.linspace(0.0, 1.0, ARC_PIECES + 1)[:, None]
    straight = first + shares * (last - first)
    if length < TINY:
        return straight
    centre, axis = _centre_and_axis(model, poses, wrap)
    along = np.zeros(3) if axis is None else axis
    # In the plane across the axis: direction from the centre, and tangent
    out, came = (vector - (vector @ along) * along for vector in (first - centre, first - before))
    radius = float(np.linalg.norm(out))
    ahead = came - (came @ out) / radius**2 * out
    if np.linalg.norm(ahead) < TINY:  # the tendon begins on the surface
        across = last - first - ((last - first) @ along) * along
        ahead = across - (across @ out) / radius**2 * out
    if np.linalg.norm(ahead) < TINY:
        return straight
    ahead *= radius / np.linalg.norm(ahead)
    rise = float((last - first) @ along)
    angles = shares * np.sqrt(max(length**2 - rise**2, 0.0)) / radius
    return first - out + np.cos(angles) * out + np.sin(angles) * ahead + shares * rise * along


def _centre_and_axis(model: Model, poses: np.ndarray, wrap: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return centre and axis of a wrap in the world frame; a sphere has no axis."""
    tendons, parameters = model.tendons, model.parameters
    link = int(tendons.wrap_link[wrap])
    pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) if link < 0 else poses[link].astype(np.float64)
    own = np.concatenate([parameters["tendon_wrap_centre"][wrap], [0.0, 0.0, 0.0, 1.0]])
    centre = compose(pose, own)[:3]
    if not tendons.wrap_is_cylinder[wrap]:
        return centre, None
    axis = Rotation.from_quat(pose[3:]).apply(parameters["tendon_wrap_axis"][wrap])
    return centre, axis / np.linalg.norm(axis)


@dataclass
class Tubes:
    """Capsules along tendons, as rigid meshes of variable length.

    Attributes:
        count: number of capsules.
        shape: a capsule of zero length along z.
        upper: mask of the vertices that move with the upper end.
    """

    count: int
    shape: Triangles
    upper: np.ndarray

    def update(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return poses [count, 7] and local vertices [count * num_vertices, 3] for ends of pieces [count, 2, 3]."""
        apart = pieces[:, 1] - pieces[:, 0]
        lengths = np.linalg.norm(apart, axis=1)
        along = np.where(lengths[:, None] > TINY, apart / np.maximum(lengths, TINY)[:, None], [0.0, 0.0, 1.0])
        vertices = np.tile(self.shape.vertices, (self.count, 1, 1))
        vertices[..., 2] += np.where(self.upper, 0.5, -0.5) * lengths[:, None]
        return np.concatenate([pieces.mean(axis=1), turns_from_z(along)], axis=1), vertices.reshape(-1, 3)


def tubes(count: int, radius: float = RADIUS) -> Tubes:
    """Create capsules for a number of pieces."""
    shape, upper = tube(radius)
    return Tubes(count, shape, upper)


def turns_from_z(directions: np.ndarray) -> np.ndarray:
    """Return the shortest rotations from z to unit vectors: quaternions xyzw [n, 4] of directions [n, 3]."""
    x, y, z = directions.T
    quaternion = np.stack([-y, x, np.zeros_like(x), 1.0 + z], axis=1)
    quaternion[z < -1.0 + 1e-12] = [1.0, 0.0, 0.0, 0.0]
    return quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
