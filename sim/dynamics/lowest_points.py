"""Heights of the lowest points of geometries, for robots that should stand on the ground or fall to it."""

from itertools import product

import numpy as np
import numpy.typing as npt

from sim.dynamics.kinematics import forward_kinematics
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from warp_kernels import types as codes


def lowest_points(model: Model, q: npt.ArrayLike | None = None) -> dict[str, float]:
    """Return the heights of the lowest points of all moving colliding geometries, by name [m].

    Args:
        model: the model.
        q: coordinates [nq]. Default: the initial ones.
    """
    chosen = np.asarray(model.q0 if q is None else q)
    poses = forward_kinematics(model, chosen[None]).numpy()[0].astype(np.float64)
    return {
        geometry.name: _lowest(geometry, compose(poses[geometry.link], geometry.placement))
        for geometry in model.geometries
        if geometry.collides and not model.is_static(geometry)
    }


def enclosing_balls(geometry: Geometry) -> np.ndarray:
    """Return balls whose hull encloses a bounded shape: their centres in the link frame and their radii [balls, 4], m.

    They are those of a sphere and at the ends of a capsule; other shapes have the corners of a box around them.
    """
    size = np.asarray(geometry.size)
    if geometry.type == codes.SPHERE:
        points, radius = np.zeros((1, 3)), size[0]
    elif geometry.type == codes.CAPSULE:
        points, radius = np.array([[0.0, 0.0, -size[1]], [0.0, 0.0, size[1]]]), size[0]
    else:
        if geometry.mesh is None:
            high = GEOMETRY_TYPES[geometry.type].extents(size)
            low = -high
        else:
            vertices = geometry.mesh.vertices * size
            low, high = vertices.min(axis=0), vertices.max(axis=0)
        points, radius = np.array(list(product(*zip(low, high, strict=True)))), 0.0
    poses = np.column_stack([points, np.tile(IDENTITY[3:], (len(points), 1))])
    return np.column_stack([compose(geometry.placement, poses)[:, :3], np.full(len(points), radius)])


def _lowest(geometry: Geometry, pose: np.ndarray) -> float:
    """Return the height of the lowest point of a shape at a pose [m], from its support function."""
    x, y, z, w = pose[3:]
    up = np.array([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])
    support = GEOMETRY_TYPES[geometry.type].support
    if support is not None:
        farthest = support(geometry.size, up)
    else:
        assert geometry.mesh is not None
        farthest = -((geometry.mesh.vertices * geometry.size) @ up).min()
    return float(pose[2] - farthest)
