"""Many worlds in one file: one PointInstancer for each link, one instance for each world."""

import numpy as np
import numpy.typing as npt
from pxr import Sdf, Usd, UsdGeom, Vt

from sim.errors import ModelError
from sim.model import Model
from sim.render.view import check_poses
from sim.usd.links import continuous, link_paths, quaternion_array
from sim.usd.materials import Materials
from sim.usd.shapes import add_visual, child_name


def check_world_poses(model: Model, poses: npt.ArrayLike) -> np.ndarray:
    """Poses [frames, num_worlds, num_links, 7] with unit quaternions. Raises ModelError as :func:`check_poses` does."""
    array = np.asarray(poses, dtype=np.float64)
    if array.shape[2:] != (model.num_links, 7) or 0 in array.shape:
        raise ModelError(f"poses have shape {array.shape}; expected [frames, num_worlds, {model.num_links}, 7]")
    return check_poses(model, array.reshape(-1, model.num_links, 7)).reshape(array.shape)


def add_instancers(stage: Usd.Stage, model: Model, poses: np.ndarray, materials: Materials) -> None:
    """Draw every link in every world. Links that nothing is seen of are left out.

    Args:
        stage: the stage.
        model: the model.
        poses: [frames, num_worlds, num_links, 7].
        materials: the materials of the stage.
    """
    frames, worlds = poses.shape[:2]
    paths = link_paths(model)
    for parent in sorted({path.GetParentPath() for path in paths}):
        UsdGeom.Xform.Define(stage, parent)
    for link, path in enumerate(paths):
        visuals = [geometry for geometry in model.geometries if geometry.link == link and geometry.visible]
        if not visuals:
            continue
        instancer = UsdGeom.PointInstancer.Define(stage, path)
        prototype = UsdGeom.Xform.Define(stage, path.AppendChild("prototype"))
        taken: set[str] = set()
        for geometry in visuals:
            name = child_name(geometry.name.rsplit("/", 1)[-1], taken)
            add_visual(stage, Sdf.Path(prototype.GetPath()).AppendChild(name), geometry, materials)
        instancer.CreatePrototypesRel().SetTargets([prototype.GetPath()])
        instancer.CreateProtoIndicesAttr(Vt.IntArray(worlds, 0))
        positions, orientations = instancer.CreatePositionsAttr(), instancer.CreateOrientationsfAttr()
        quaternions = continuous(poses[:, :, link, 3:])
        for frame in range(frames):
            points = Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(poses[frame, :, link, :3], dtype=np.float32))
            turns = quaternion_array(quaternions[frame])
            if frame == 0:
                positions.Set(points)
                orientations.Set(turns)
            positions.Set(points, Usd.TimeCode(frame))
            orientations.Set(turns, Usd.TimeCode(frame))
        _set_extents(instancer, frames)


def _set_extents(instancer: UsdGeom.PointInstancer, frames: int) -> None:
    extent = instancer.CreateExtentAttr()
    for frame in range(frames):
        time = Usd.TimeCode(frame)
        box = UsdGeom.Boundable.ComputeExtentFromPlugins(instancer, time)
        if frame == 0:
            extent.Set(box)
        extent.Set(box, time)
