"""Cameras of a USD file."""

from __future__ import annotations

import numpy as np
from pxr import Gf, Usd, UsdGeom

from sim.importers.usd.stage import Scene
from sim.render.view import Camera


def first_camera(scene: Scene) -> Usd.Prim | None:
    """The first perspective camera in the order of the stage; others are noted."""
    for prim in scene.prims():
        if prim.IsA(UsdGeom.Camera):
            projection = UsdGeom.Camera(prim).GetProjectionAttr().Get(Usd.TimeCode.EarliestTime())
            if projection == UsdGeom.Tokens.perspective:
                return prim
            scene.notes.append(f"prim '{prim.GetPath()}': cameras of projection '{projection}' are not supported")
    return None


def camera_at(scene: Scene, prim: Usd.Prim, time: Usd.TimeCode, aspect: float) -> Camera:
    """A camera at a time, with everything that it sees also in a picture of another aspect.

    Args:
        scene: the file.
        prim: the camera.
        time: when.
        aspect: width over height of the picture.

    Raises:
        ImportFileError: naming the prim, for a camera without a field of view or with a singular transform.
    """
    seen: Gf.Camera = UsdGeom.Camera(prim).GetCamera(time)
    axes = scene.up.as_matrix() @ np.array(seen.transform)[:3, :3].T
    place = scene.up.apply(np.array(seen.transform)[3, :3]) * scene.length
    lengths = np.linalg.norm(axes, axis=0)
    tangent = max(seen.verticalAperture, seen.horizontalAperture / aspect) / (2.0 * max(seen.focalLength, 1e-9))
    if not (np.isfinite(axes).all() and np.isfinite(place).all() and lengths.all() and 0.0 < tangent < 1e3):
        raise scene.error(prim, "this camera has no field of view, or a singular transform")
    # It looks along its negative z axis; the distance of the target only decides how far away the haze is.
    distance = seen.focusDistance * scene.length if seen.focusDistance > 0.0 else 1.0
    backward, up = axes[:, 2] / lengths[2], axes[:, 1] / lengths[1]
    fov = float(np.degrees(2.0 * np.arctan(tangent)))
    position, target, above = (tuple(map(float, vector)) for vector in (place, place - distance * backward, up))
    return Camera(position, target, fov, above)
