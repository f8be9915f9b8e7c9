"""Moving surfaces as PhysX's PhysxSurfaceVelocityAPI: one velocity and one spin about the origin of a prim."""

from collections.abc import Sequence

import numpy as np
from pxr import Gf, Sdf, Usd
from scipy.spatial.transform import Rotation

from sim.model.model import Model

SCHEMA = "PhysxSurfaceVelocityAPI"
HEAD = "physxSurfaceVelocity:surface"


def move_surfaces(prim: Usd.Prim, model: Model, geometries: Sequence[int]) -> None:
    """Write the common velocity of the surfaces of a body, if they have one.

    Args:
        prim: the body, or a collider of the world.
        model: the model.
        geometries: colliding geometries of the prim; poses are in the prim's frame if there are several.
    """
    if not model.moving_surfaces or not geometries:
        return
    single = model.geometries[geometries[0]].link < 0  # the prim is the geometry itself
    found = np.array([_about_origin(model, index, single) for index in geometries])
    if not found.any() or np.ptp(found, axis=0).max() > 1e-6 * np.abs(found).max():
        return
    prim.AddAppliedSchema(SCHEMA)
    for name, values in (("Velocity", found[0, :3]), ("AngularVelocity", np.degrees(found[0, 3:]))):
        attribute = prim.CreateAttribute(HEAD + name, Sdf.ValueTypeNames.Vector3f, False)
        attribute.Set(Gf.Vec3f(*map(float, values)))


def _about_origin(model: Model, index: int, single: bool) -> np.ndarray:
    """Return velocity and spin of a surface about the origin of its link, or with ``single`` of its own frame."""
    velocity, spin = (model.parameters[f"surface_{name}"][index] for name in ("velocity", "spin"))
    if single:
        return np.concatenate([velocity, spin])
    placement = model.geometries[index].placement
    turn = Rotation.from_quat(placement[3:])
    rate = turn.apply(spin)
    return np.concatenate([turn.apply(velocity) - np.cross(rate, placement[:3]), rate])
