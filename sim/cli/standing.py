"""Standing a floating base on its feet: the lowest point of what collides."""

import numpy as np

from sim.dynamics.kinematics import forward_kinematics
from sim.model.geometry_types import GEOMETRY_TYPES
from sim.model.model import Geometry, Model
from sim.model.poses import compose


def lowest_point(model: Model) -> float | None:
    """Return the height of the lowest point of all moving geometries that collide, in the initial coordinates [m].

    None where there are none.
    """
    feet = [geometry for geometry in model.geometries if geometry.collides and not model.is_static(geometry)]
    if not feet:
        return None
    poses = forward_kinematics(model, model.q0[None]).numpy()[0].astype(np.float64)
    return min(_lowest(geometry, compose(poses[geometry.link], geometry.placement)) for geometry in feet)


def _lowest(geometry: Geometry, pose: np.ndarray) -> float:
    """Return the height of the lowest point of a shape at a pose [m], by its support function."""
    x, y, z, w = pose[3:]
    up = np.array([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])
    support = GEOMETRY_TYPES[geometry.type].reach
    if support is not None:
        reach = support(geometry.size, up)
    else:
        assert geometry.mesh is not None
        reach = -((geometry.mesh.vertices * geometry.size) @ up).min()
    return float(pose[2] - reach)
