"""Writes the motion of links as time samples, frame by frame."""

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, Vt

from sim.usd.shapes import set_pose

IDENTITY_POSE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


class XformMotion:
    """The motion of a link in one world. A link that does not move has only the default value."""

    def __init__(self, xform: UsdGeom.Xformable):
        self._translate, self._orient = set_pose(xform, IDENTITY_POSE)
        self._last = np.zeros(0)
        self._moves = False

    def append(self, frame: int, pose: np.ndarray) -> None:
        """Add the pose [7] of the next frame."""
        pose = shortest_way(self._last, pose)
        if frame == 0:
            self._set(pose, Usd.TimeCode.Default())
        elif self._moves or (pose != self._last).any():
            if not self._moves:
                # It has not moved so far: hold the pose until the previous frame, so that USD does not interpolate
                # before it.
                self._set(self._last, Usd.TimeCode(0))
                self._set(self._last, Usd.TimeCode(frame - 1))
                self._moves = True
            self._set(pose, Usd.TimeCode(frame))
        self._last = pose

    def _set(self, pose: np.ndarray, time: Usd.TimeCode) -> None:
        self._translate.Set(Gf.Vec3d(*map(float, pose[:3])), time)
        self._orient.Set(Gf.Quatd(float(pose[6]), *map(float, pose[3:6])), time)


class InstanceMotion:
    """The motion of a link in many worlds: a PointInstancer with one instance per world.

    Args:
        stage: the stage.
        path: path of the instancer.
        prototype: path of the geometry drawn for each world.
        num_worlds: number of instances.
        reach: radius of the prototype about its origin [m].
    """

    def __init__(self, stage: Usd.Stage, path: Sdf.Path, prototype: Sdf.Path, num_worlds: int, reach: float):
        instancer = UsdGeom.PointInstancer.Define(stage, path)
        instancer.CreatePrototypesRel().SetTargets([prototype])
        instancer.CreateProtoIndicesAttr(Vt.IntArray(num_worlds, 0))
        self._positions = instancer.CreatePositionsAttr()
        self._orientations = instancer.CreateOrientationsfAttr()
        # In half precision, for readers such as Blender that do not support the attribute above; others prefer that
        # one.
        self._rough_orientations = instancer.CreateOrientationsAttr()
        self._extent = instancer.CreateExtentAttr()
        self._reach = reach
        self._last = np.zeros(0)

    def append(self, frame: int, poses: np.ndarray) -> None:
        """Add the poses [num_worlds, 7] of the next frame."""
        poses = shortest_way(self._last, poses)
        points = np.ascontiguousarray(poses[:, :3], dtype=np.float32)
        box = np.stack([points.min(axis=0) - self._reach, points.max(axis=0) + self._reach])
        for time in (Usd.TimeCode.Default(), Usd.TimeCode(0)) if frame == 0 else (Usd.TimeCode(frame),):
            self._positions.Set(Vt.Vec3fArray.FromNumpy(points), time)
            # In memory, USD quaternions are x, y, z, w.
            turns = np.ascontiguousarray(poses[:, 3:], dtype=np.float32)
            self._orientations.Set(Vt.QuatfArray.FromNumpy(turns), time)
            self._rough_orientations.Set(Vt.QuathArray.FromNumpy(turns.astype(np.float16)), time)
            self._extent.Set(Vt.Vec3fArray.FromNumpy(box), time)
        self._last = poses


def shortest_way(before: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Poses [..., 7] with the signs of quaternions chosen closest to the previous ones."""
    if not len(before):
        return poses
    signs = np.where(np.einsum("...i,...i->...", before[..., 3:], poses[..., 3:]) < 0.0, -1.0, 1.0)
    return np.concatenate([poses[..., :3], poses[..., 3:] * signs[..., None]], axis=-1)
