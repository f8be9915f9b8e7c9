"""Motion of a model as a layer of time samples over the stage that it was read from, whose looks stay as they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.frames import StagePrim
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose, inverse
from sim.usd.layers import layer_errors

UPRIGHT = 1e-6  # largest product of two axes of a transform without shear
Y_UP = Rotation.from_euler("x", 90.0, degrees=True).as_matrix()  # to z up
SUFFIX = "motion"  # of the transform operations, so that they don't meet others of the file


def write_layer(name: str, target: Path, over: Path, model: Model, poses: np.ndarray, fps: float) -> None:
    """Write the time samples of the prims of a stage, with the stage as sublayer.

    Args:
        name: the file to write.
        target: its final path, which the path of the stage is relative to.
        over: the stage.
        model: the model, read from it.
        poses: link poses [frames, num_links, 7], world frame.
        fps: frames per second; frame k is at time code k.

    Raises:
        ModelError: for a model that wasn't read from the stage, and for prims that are gone or instances.
        OSError: for a stage that can't be opened.
    """
    prims = _prims_of(model, over)
    with layer_errors():
        below = Usd.Stage.Open(str(over))
        stage = Usd.Stage.CreateInMemory()
        layer = stage.GetRootLayer()
        layer.subLayerPaths.append(str(over.resolve()))
        length = UsdGeom.GetStageMetersPerUnit(below)
        UsdGeom.SetStageMetersPerUnit(stage, length)
        UsdGeom.SetStageUpAxis(stage, UsdGeom.GetStageUpAxis(below))
        for key in ("kilogramsPerUnit", "defaultPrim"):
            if below.HasAuthoredMetadata(key):
                stage.SetMetadata(key, below.GetMetadata(key))
        stage.SetTimeCodesPerSecond(fps)
        stage.SetFramesPerSecond(fps)
        stage.SetStartTimeCode(0.0)
        stage.SetEndTimeCode(float(len(poses) - 1))
        up = Y_UP if UsdGeom.GetStageUpAxis(below) == UsdGeom.Tokens.y else np.eye(3)
        _add_motion(stage, prims, poses, up, length)
        beside = Path(os.path.relpath(over.resolve(), target.parent.resolve())).as_posix()
        written = Sdf.Layer.CreateAnonymous()  # a stage would report that it doesn't find the relative path
        written.TransferContent(layer)
        written.subLayerPaths[0] = beside if beside.startswith(".") else f"./{beside}"
        if not written.Export(name):
            raise OSError("the layer can't be exported")


def _prims_of(model: Model, over: Path) -> dict[Sdf.Path, StagePrim]:
    """Return the prims that links were read from, those above others first."""
    if not os.path.isfile(over):  # unlike Path.is_file, also False for names that are too long
        raise ModelError(f"over: there is no file '{over}'")
    same = [prim for prim in model.stage_prims if os.path.exists(prim.file) and os.path.samefile(prim.file, over)]
    if not same:
        raise ModelError(f"over: no link of the model was read from '{over}'; load the model from that file")
    found = {Sdf.Path(prim.path): prim for prim in same}
    if len(found) < len(same):
        raise ModelError(f"over: '{over}' was read more than once, so that its prims have several poses; read it once")
    return dict(sorted(found.items()))


def _add_motion(
    stage: Usd.Stage, prims: dict[Sdf.Path, StagePrim], poses: np.ndarray, up: np.ndarray, length: float
) -> None:
    """Add time samples to all prims; ``up`` [3, 3] turns the axes of the stage to those with z up."""
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
    before, after = dict[Sdf.Path, np.ndarray](), dict[Sdf.Path, np.ndarray]()
    local: dict[Sdf.Path, tuple[bool, np.ndarray]] = {}
    for path, source in prims.items():
        prim = stage.GetPrimAtPath(path)
        if not prim or not prim.IsA(UsdGeom.Xformable):
            raise ModelError(f"over: the stage has no prim '{path}' with a transform; load the model from it again")
        if prim.IsInstanceProxy():
            raise ModelError(f"over: prim '{path}' is part of an instance, which can't move; make it not instanceable")
        before[path] = np.array(cache.GetLocalToWorldTransform(prim)).T
        after[path] = _world(source, before[path], poses, up, length)
        moving = next((above for above in reversed(path.GetPrefixes()[:-1]) if above in after), None)
        resets = UsdGeom.Xformable(prim).GetResetXformStack()
        parent = np.eye(4) if resets else np.array(cache.GetParentToWorldTransform(prim)).T
        parents = parent if moving is None or resets else after[moving] @ np.linalg.inv(before[moving]) @ parent
        local[path] = resets, np.linalg.inv(parents) @ after[path]
    for path, (resets, matrices) in local.items():
        _set(UsdGeom.Xformable(stage.GetPrimAtPath(path)), matrices, resets)


def _world(source: StagePrim, before: np.ndarray, poses: np.ndarray, up: np.ndarray, length: float) -> np.ndarray:
    """Return the matrices of a prim in the world of its stage [frames, 4, 4], column vectors, with its scale kept."""
    count = (len(poses), 1)
    links = np.tile(IDENTITY, count) if source.link < 0 else poses[:, source.link]
    placed = compose(np.tile(inverse(source.base), count), compose(links, np.tile(source.placement, count)))
    turns = up.T @ Rotation.from_quat(placed[:, 3:]).as_matrix() @ up
    still = up.T @ Rotation.from_quat(source.at[3:]).as_matrix() @ up
    matrices = np.tile(np.eye(4), (len(poses), 1, 1))
    matrices[:, :3, :3] = turns @ still.T @ before[:3, :3]
    matrices[:, :3, 3] = placed[:, :3] @ up / length
    return matrices


def _set(xform: UsdGeom.Xformable, matrices: np.ndarray, resets: bool) -> None:
    """Write local matrices [frames, 4, 4]: as translation, rotation and scale, which USD interpolates well, if they
    have no shear.
    """
    scale = np.linalg.norm(matrices[:, :3, :3], axis=1)
    axes = matrices[:, :3, :3] / scale[:, None]
    if np.linalg.det(axes[0]) < 0.0:
        scale[:, 0], axes[:, :, 0] = -scale[:, 0], -axes[:, :, 0]
    products = axes.transpose(0, 2, 1) @ axes - np.eye(3)
    if np.abs(products).max() > UPRIGHT or np.ptp(scale, axis=0).max() > UPRIGHT * np.abs(scale).max():
        op = xform.AddTransformOp(UsdGeom.XformOp.PrecisionDouble, SUFFIX)
        for frame, matrix in enumerate(matrices):
            op.Set(Gf.Matrix4d(*map(float, matrix.T.ravel())), Usd.TimeCode(frame))
        xform.SetXformOpOrder([op], resets)
        return
    translate = xform.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble, SUFFIX)
    orient = xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble, SUFFIX)
    stretch = xform.AddScaleOp(UsdGeom.XformOp.PrecisionDouble, SUFFIX)
    stretch.Set(Gf.Vec3d(*map(float, scale[0])))
    quaternions = Rotation.from_matrix(axes).as_quat()
    signs = np.cumprod(np.where((quaternions[1:] * quaternions[:-1]).sum(axis=1) < 0.0, -1.0, 1.0))
    quaternions[1:] *= signs[:, None]
    for frame, (matrix, (x, y, z, w)) in enumerate(zip(matrices, quaternions.tolist(), strict=True)):
        translate.Set(Gf.Vec3d(*map(float, matrix[:3, 3])), Usd.TimeCode(frame))
        orient.Set(Gf.Quatd(w, x, y, z), Usd.TimeCode(frame))
    xform.SetXformOpOrder([translate, orient, stretch], resets)
