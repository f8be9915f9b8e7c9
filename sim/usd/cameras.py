"""Cameras of a model on a stage, and cameras of any stage for a model."""

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom

from sim.arrays.device_model import DeviceModel
from sim.dynamics.kinematics import forward_kinematics
from sim.model.frames import MountedCamera
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose, inverse
from sim.render.view import view_of
from sim.usd.annotations import keep, keep_text, kept, kept_text
from sim.usd.geometries import child_name, set_pose
from sim.usd.motion import RESERVED

FOCAL_LENGTH, ASPECT = 50.0, 4.0 / 3.0  # as USD has them by default; only ratios matter
VIEW = "view"  # marks the camera that sees the whole motion, which isn't one of the model
CLIPPING = (0.01, 1.0e6)  # range of distances that are drawn [m]


def add_cameras(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Add the cameras below the prims of their links; those that follow a link without turning as at the start."""
    if not model.cameras:
        return
    poses = forward_kinematics(DeviceModel(model, "cpu"), model.q0[None]).numpy()[0]
    for camera in model.cameras:
        parent = paths[camera.link] if camera.link >= 0 else stage.GetDefaultPrim().GetPath()
        # Other prims of the world come later.
        taken = {*RESERVED, *(child.GetName() for child in stage.GetPrimAtPath(parent).GetChildren())}
        path = parent.AppendChild(child_name(camera.name.rsplit("/", 1)[-1], taken))
        prim = UsdGeom.Camera.Define(stage, path)
        placement = camera.placement
        if camera.follows != "link":
            eye = np.concatenate([view_of(model, camera.name, poses).position, placement[3:]])
            placement = compose(inverse(IDENTITY if camera.link < 0 else poses[camera.link]), eye)
            keep_text(prim.GetPrim(), "camera_follows", camera.follows)
            keep(prim.GetPrim(), "camera_placement", [*camera.placement, *camera.point])
        set_pose(prim, placement)
        height = 2.0 * FOCAL_LENGTH * np.tan(np.deg2rad(0.5 * camera.fov))
        prim.CreateFocalLengthAttr(FOCAL_LENGTH)
        prim.CreateVerticalApertureAttr(float(height))
        prim.CreateHorizontalApertureAttr(float(height * ASPECT))
        prim.CreateClippingRangeAttr(Gf.Vec2f(*CLIPPING))
        keep_text(prim.GetPrim(), "camera", camera.name)
        keep(prim.GetPrim(), "camera_fov", [camera.fov])


def is_view(prim: Usd.Prim) -> bool:
    """Return whether a camera sees a whole motion that was written to the stage."""
    return kept(prim, VIEW, 1) is not None


def is_of_model(prim: Usd.Prim) -> bool:
    """Return whether a prim is a perspective camera with a field of view, but not that of a whole motion."""
    if not prim.IsA(UsdGeom.Camera) or is_view(prim):
        return False
    seen = UsdGeom.Camera(prim).GetCamera(Usd.TimeCode.EarliestTime())
    return seen.projection == Gf.Camera.Perspective and 0.0 < seen.GetFieldOfView(Gf.Camera.FOVVertical) < 180.0


def camera_of(prim: Usd.Prim, placement: np.ndarray) -> MountedCamera:
    """Return a camera of a stage.

    Args:
        prim: the camera.
        placement: its pose in the link [7].
    """
    seen, own = UsdGeom.Camera(prim).GetCamera(Usd.TimeCode.EarliestTime()), kept(prim, "camera_fov", 1)
    fov = float(seen.GetFieldOfView(Gf.Camera.FOVVertical))
    if own is not None and abs(own[0] - fov) < 1e-4:  # not changed since, but in double precision
        fov = float(own[0])
    name, follows = kept_text(prim, "camera") or prim.GetName(), kept_text(prim, "camera_follows")
    if follows in ("point", "centre of mass"):
        stated = kept(prim, "camera_placement", 10)
        if stated is not None:
            x, y, z = stated[7:].tolist()
            return MountedCamera(name, -1, stated[:7], fov, follows, (x, y, z))
    return MountedCamera(name, -1, placement, fov)
