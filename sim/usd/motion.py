"""Motion of links on the stage: their paths, time samples, and one instance per world."""

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, Vt

from sim.model.model import Model
from sim.render.tessellation import tessellate
from sim.render.view import transform_points
from sim.usd.annotations import keep, keep_text, keep_texts
from sim.usd.geometries import add_visual, child_name, set_pose
from sim.usd.materials import Materials

IDENTITY_POSE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


class XformMotion:
    """Motion of a link in one world. A link that doesn't move has only a default value."""

    def __init__(self, xform: UsdGeom.Xformable):
        self._translate, self._orient = set_pose(xform, IDENTITY_POSE)
        self._last = np.zeros(0)
        self._moves = False

    def append(self, frame: int, pose: np.ndarray) -> None:
        """Add the pose [7] of the next frame."""
        pose = nearest_sign(self._last, pose)
        if frame == 0:
            self._set(pose, Usd.TimeCode.Default())
        elif self._moves or (pose != self._last).any():
            if not self._moves:
                # First motion of this link: hold the pose until the frame before, since USD would interpolate from the
                # start.
                self._set(self._last, Usd.TimeCode(0))
                self._set(self._last, Usd.TimeCode(frame - 1))
                self._moves = True
            self._set(pose, Usd.TimeCode(frame))
        self._last = pose

    def _set(self, pose: np.ndarray, time: Usd.TimeCode) -> None:
        self._translate.Set(Gf.Vec3d(*map(float, pose[:3])), time)
        self._orient.Set(Gf.Quatd(float(pose[6]), *map(float, pose[3:6])), time)


class InstanceMotion:
    """Motion of a link in many worlds: a PointInstancer with one instance per world.

    Args:
        stage: the stage.
        path: path of the instancer.
        prototype: path of the prim drawn in each world.
        num_worlds: number of instances.
        reach: maximum distance of the prototype's points from its origin [m].
    """

    def __init__(self, stage: Usd.Stage, path: Sdf.Path, prototype: Sdf.Path, num_worlds: int, radius: float):
        instancer = UsdGeom.PointInstancer.Define(stage, path)
        instancer.CreatePrototypesRel().SetTargets([prototype])
        instancer.CreateProtoIndicesAttr(Vt.IntArray(num_worlds, 0))
        self._positions = instancer.CreatePositionsAttr()
        self._orientations = instancer.CreateOrientationsfAttr()
        # In half precision, for readers that support no other, such as Blender; others use the attribute above.
        self._rough_orientations = instancer.CreateOrientationsAttr()
        self._extent = instancer.CreateExtentAttr()
        self._radius = radius
        self._last = np.zeros(0)

    def append(self, frame: int, poses: np.ndarray) -> None:
        """Add the poses [num_worlds, 7] of the next frame."""
        poses = nearest_sign(self._last, poses)
        points = np.ascontiguousarray(poses[:, :3], dtype=np.float32)
        box = np.stack([points.min(axis=0) - self._radius, points.max(axis=0) + self._radius])
        for time in (Usd.TimeCode.Default(), Usd.TimeCode(0)) if frame == 0 else (Usd.TimeCode(frame),):
            self._positions.Set(Vt.Vec3fArray.FromNumpy(points), time)
            # USD stores quaternions as x, y, z, w.
            turns = np.ascontiguousarray(poses[:, 3:], dtype=np.float32)
            self._orientations.Set(Vt.QuatfArray.FromNumpy(turns), time)
            self._rough_orientations.Set(Vt.QuathArray.FromNumpy(turns.astype(np.float16)), time)
            self._extent.Set(Vt.Vec3fArray.FromNumpy(box), time)
        self._last = poses


def nearest_sign(before: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Return poses [..., 7] with each quaternion's sign chosen close to the previous one; the first are unchanged."""
    if not len(before):
        return poses
    signs = np.where(np.einsum("...i,...i->...", before[..., 3:], poses[..., 3:]) < 0.0, -1.0, 1.0)
    return np.concatenate([poses[..., :3], poses[..., 3:] * signs[..., None]], axis=-1)


def add_instancers(
    stage: Usd.Stage, model: Model, num_worlds: int, materials: Materials
) -> list[tuple[int, InstanceMotion]]:
    """Draw every link in every world. Links without visible geometry are omitted.

    Returns:
        The links drawn, and their motions.
    """
    paths = link_paths(model)
    for parent in sorted({path.GetParentPath() for path in paths}):
        UsdGeom.Xform.Define(stage, parent)
    motions = []
    for link, path in enumerate(paths):
        visuals = [geometry for geometry in model.geometries if geometry.link == link and geometry.visible]
        if not visuals:
            continue
        corners = [transform_points(geometry.placement, tessellate(geometry).vertices) for geometry in visuals]
        radius = float(np.linalg.norm(np.concatenate(corners), axis=1).max())
        motion = InstanceMotion(stage, path, path.AppendChild("prototype"), num_worlds, radius)
        prototype = UsdGeom.Xform.Define(stage, path.AppendChild("prototype"))
        taken: set[str] = set()
        for geometry in visuals:
            name = child_name(geometry.name.rsplit("/", 1)[-1], taken)
            add_visual(stage, Sdf.Path(prototype.GetPath()).AppendChild(name), geometry, materials)
        motions.append((link, motion))
    return motions


RESERVED = ("PhysicsScene", "Static", "Marks", "Materials", "Camera", "Lights", "Joints", "Constraints", "Contacts")


def link_paths(model: Model) -> list[Sdf.Path]:
    """Return a path for each link: /World/part/link for robots, /World/link for loose bodies.

    Links are never nested: a rigid body below a rigid body would move twice.
    """
    part_of = {link: part.name for part in model.parts if len(part.links) > 1 for link in part.links}
    world = Sdf.Path("/World")
    taken: dict[Sdf.Path, set[str]] = {world: set(RESERVED)}
    groups: dict[str, Sdf.Path] = {}
    paths = []
    for link in model.link_names:
        parent, name = world, link
        if link in part_of:
            part = part_of[link]
            if part not in groups:
                groups[part] = world.AppendChild(child_name(part, taken[world]))
                taken[groups[part]] = set()
            parent, name = groups[part], link.removeprefix(f"{part}/")
        paths.append(parent.AppendChild(child_name(name, taken[parent])))
    return paths


def add_frames(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Add named frames fixed to links, including links that were merged into others, as empty Xforms.

    Frames of the world are annotations of the default prim.
    """
    still = [frame for frame in model.frames if frame.link < 0]
    keep_texts(stage.GetDefaultPrim(), "world_frames", [frame.name for frame in still])
    if still:
        keep(stage.GetDefaultPrim(), "world_frame_poses", [frame.placement for frame in still])
    for frame in model.frames:
        if frame.link >= 0 and frame.name != model.link_names[frame.link]:
            parent = paths[frame.link]
            taken = {child.GetName() for child in stage.GetPrimAtPath(parent).GetChildren()}
            xform = UsdGeom.Xform.Define(stage, parent.AppendChild(child_name(frame.name.rsplit("/", 1)[-1], taken)))
            set_pose(xform, frame.placement)
            keep_text(xform.GetPrim(), "frame", frame.name)
