"""Motion and cameras stored in a USD file, to be drawn without simulation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdSkel
from scipy.spatial.transform import Rotation

from sim.errors import ImportFileError, ModelError, USDWarning
from sim.importers.usd.geometries import add_pictures, drawn_prims
from sim.importers.usd.layers import readable
from sim.importers.usd.lights import add_lights
from sim.importers.usd.reader import ORIGIN, Reader
from sim.importers.usd.schemas.properties import refuse_types
from sim.importers.usd.stage import Kind, Scene, moving_attributes, open_scene
from sim.model.builder import WorldBuilder
from sim.model.checks import free_name, require_path
from sim.model.model import Model
from sim.render.view import Camera
from sim.usd.cameras import is_view


def find_camera(scene: Scene, name: str | None = None) -> Usd.Prim | None:
    """Return the perspective camera of a name or path; note cameras of other projections.

    Without a name, return that of the whole motion, or the first that no body carries.

    Raises:
        ModelError: for a name that no perspective camera has.
    """
    known: list[str] = []
    fixed: list[Usd.Prim] = []
    for prim in scene.prims():
        if prim.IsA(UsdGeom.Camera):
            projection = UsdGeom.Camera(prim).GetProjectionAttr().Get(Usd.TimeCode.EarliestTime())
            if projection == UsdGeom.Tokens.perspective:
                if name in (prim.GetName(), str(prim.GetPath())):
                    return prim
                if scene.body_of(prim.GetPath()) is None:
                    fixed.append(prim)
                known.append(prim.GetName())
            else:
                scene.notes.append(f"prim '{prim.GetPath()}': cameras of projection '{projection}' are not supported")
    if name is None:
        return next((prim for prim in fixed if is_view(prim)), fixed[0] if fixed else None)
    raise ModelError(f"no camera '{name}'; {'choose from: ' + ', '.join(known) if known else 'the file has none'}")


def camera_at(scene: Scene, prim: Usd.Prim, time: Usd.TimeCode, aspect: float) -> Camera:
    """Return a camera at a time, with its whole view also in a picture of another aspect.

    Args:
        scene: the file.
        prim: the camera.
        time: time code.
        aspect: width over height of the picture.

    Raises:
        ImportFileError: naming the prim, for a camera without a field of view or with a singular transform.
    """
    seen: Gf.Camera = UsdGeom.Camera(prim).GetCamera(time)
    axes = scene.up.as_matrix() @ np.array(seen.transform)[:3, :3].T
    eye = scene.up.apply(np.array(seen.transform)[3, :3]) * scene.length
    lengths = np.linalg.norm(axes, axis=0)
    tangent = max(seen.verticalAperture, seen.horizontalAperture / aspect) / (2.0 * max(seen.focalLength, 1e-9))
    if not (np.isfinite(axes).all() and np.isfinite(eye).all() and lengths.all() and 0.0 < tangent < 1e3):
        raise scene.error(prim, "this camera has no field of view, or a singular transform")
    # It looks along its negative z axis; the distance of the target only decides how far away the haze is.
    distance = seen.focusDistance * scene.length if seen.focusDistance > 0.0 else 1.0
    backward, up = axes[:, 2] / lengths[2], axes[:, 1] / lengths[1]
    fov = float(np.degrees(2.0 * np.arctan(tangent)))
    position, target, above = (tuple(map(float, vector)) for vector in (eye, eye - distance * backward, up))
    return Camera(position, target, fov, above)


# Tolerance between a transform and the rotation of a rigid body
RIGID = 1e-4


@dataclass(frozen=True)
class StoredMotion:
    """Motion of a stage, to be drawn.

    Attributes:
        model: every rigid piece of the stage as a free link, with its visible shapes. It can't be simulated.
        num_worlds: number of copies of the pieces: the instances of the point instancers, or one.
        start, end: time codes of the motion.
        codes_per_second: time codes per second.
        moves: whether anything moves.
    """

    model: Model
    num_worlds: int
    start: float
    end: float
    codes_per_second: float
    moves: bool
    _scene: Scene
    _pieces: tuple[Piece, ...]
    _camera: Usd.Prim | None

    @property
    def seconds(self) -> float:
        """Duration from the first time code to the last [s]."""
        return (self.end - self.start) / self.codes_per_second

    def poses(self, seconds: float) -> np.ndarray:
        """Return poses of the links in the world [num_worlds, num_links, 7], at this time after the first time code.

        Between two samples of the file USD interpolates linearly.

        Raises:
            ImportFileError: naming the prim, where a transform isn't that of a rigid body.
        """
        time = self._time(seconds)
        cache = UsdGeom.XformCache(time)
        poses = np.empty((self.num_worlds, len(self._pieces), 7))
        with readable(self._scene.path):
            for link, piece in enumerate(self._pieces):
                poses[:, link] = piece.poses(self._scene, cache, time)
        return poses

    def camera(self, seconds: float, aspect: float) -> Camera | None:
        """Return the file's camera at that time, for a picture of that aspect (width / height); None without one."""
        with readable(self._scene.path):
            return camera_at(self._scene, self._camera, self._time(seconds), aspect) if self._camera else None

    def _time(self, seconds: float) -> Usd.TimeCode:
        return Usd.TimeCode(self.start + seconds * self.codes_per_second)


class Piece:
    """A rigid piece: a prim, or the instances of a prototype.

    Args:
        scene: the file.
        path: path of the prim, or of the prototype.
        instancer: the point instancer above a prototype.
    """

    def __init__(self, scene: Scene, path: Sdf.Path, instancer: Usd.Prim | None = None):
        self.path, self.instancer = path, instancer
        pose, stretch = scene.placed(scene.prim(path))
        self._turn = Rotation.from_quat(pose[3:])
        self._back = np.linalg.inv(self._turn.as_matrix() @ stretch)

    def poses(self, scene: Scene, cache: UsdGeom.XformCache, time: Usd.TimeCode) -> np.ndarray:
        """Return poses in the world [7], or [instances, 7]."""
        prim = scene.prim(self.path)
        if self.instancer is None:
            matrices = np.array(cache.GetLocalToWorldTransform(prim))
        else:
            found = UsdGeom.PointInstancer(self.instancer).ComputeInstanceTransformsAtTime(time, time)
            if len(found) != len(_indices(self.instancer)):
                raise scene.error(
                    self.instancer,
                    f"has {len(found)} instances at time code {time.GetValue():g}, another number than at first",
                )
            matrices = np.array(found) @ np.array(cache.GetLocalToWorldTransform(self.instancer))
        up = scene.up.as_matrix()
        # Row vectors of USD; the initial scale and shear stay in the shapes.
        turned = up @ np.swapaxes(matrices[..., :3, :3], -1, -2) * scene.length @ self._back
        positions = matrices[..., 3, :3] @ up.T * scene.length
        off = np.abs(np.swapaxes(turned, -1, -2) @ turned - np.eye(3)).max() if turned.size else 0.0
        if not (np.isfinite(positions).all() and off < RIGID):
            raise scene.error(
                self.instancer or prim,
                f"its transform at time code {time.GetValue():g} isn't that of a rigid body that was there at first; "
                "only motions that keep size and shape can be drawn",
            )
        quaternions = (Rotation.from_matrix(turned) * self._turn).as_quat()
        return np.concatenate([positions, quaternions], axis=-1)


def read_motion(
    path: str | os.PathLike[str], *, ground: float | None = None, camera: str | None = None
) -> StoredMotion:
    """Open a USD file to draw the motion that it stores.

    Everything whose transform has time samples moves, whether it is a rigid body or not: prims, what is below them, and
    the instances of point instancers, as long as they keep their size and shape. Point instancers must have one
    prototype each, below them, and all the same number of instances. Warnings name what isn't drawn or doesn't move.

    Args:
        path: a ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.
        ground: height of a ground to add [m].
        camera: name or path of the camera of :meth:`StoredMotion.camera`. Default: the one that was written to see the
            whole motion, or the first that no body carries.

    Raises:
        ImportFileError: naming the file and the prim, for a file that can't be opened or shows nothing.
        ModelError: for a camera that the file doesn't have.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import sim
        >>> from sim.importers.usd.motion import read_motion
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, np.linspace(model.q0, model.q0 + 0.5, 31)).numpy()
        >>> motion = read_motion(sim.usd.write_usd(tempfile.mkdtemp() + "/motion.usdc", model, poses, fps=30))
        >>> motion.seconds
        1.0
        >>> motion.poses(0.5).shape == (1, motion.model.num_links, 7)
        True
    """
    require_path(path)
    scene = open_scene(Path(path))
    with readable(scene.path):
        motion = _read(scene, ground, camera)
    for note in dict.fromkeys(scene.notes):
        warnings.warn(f"{scene.path}: {note}", USDWarning, stacklevel=2)
    return motion


def _read(scene: Scene, ground: float | None, name: str | None) -> StoredMotion:
    """Return the motion of an open file."""
    scene.notes.clear()  # notes about physics
    refuse_types(scene)
    builder = WorldBuilder()
    instancers = _instancers(scene)
    reader = Reader(builder, scene, ORIGIN, "", "springs", 1.0, 0.0, None, instancers=frozenset(instancers))
    prims = drawn_prims(reader)
    if not prims:
        raise ImportFileError(
            scene.path, "shows nothing: it contains neither meshes nor other shapes that can be drawn"
        )
    pieces = [
        Piece(scene, found, next((instancers[at] for at in instancers if found.HasPrefix(at)), None))
        for found in _carriers(scene, instancers, [prim.GetPath() for prim in prims])
    ]
    for piece in pieces:
        reader.names[piece.path] = str(piece.path).lstrip("/")
        reader.link_in_body[piece.path] = ORIGIN
        builder.add_link(reader.names[piece.path], mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(f"{reader.names[piece.path]}_free", "free", child=reader.names[piece.path])
    add_pictures(reader, prims)
    add_lights(reader)
    if ground is not None:
        builder.add_ground(height=ground, name=free_name("ground", builder.geometries))
    _note_unsupported_motion(scene, prims)
    camera = find_camera(scene, name)
    model = builder.finalize(collapse_fixed=False)
    # In the order of the links.
    number = {name: link for link, name in enumerate(model.link_names)}
    ordered = sorted(pieces, key=lambda piece: number[reader.names[piece.path]])
    moving = [
        *(attribute for piece in pieces for attribute in _moving(scene, piece)),
        *([] if camera is None else moving_attributes(camera)),
    ]
    start, end = _range(scene.stage, moving)
    worlds = next((len(_indices(prim)) for prim in instancers.values()), 1)
    rate = float(scene.stage.GetTimeCodesPerSecond())
    if not (np.isfinite(rate) and rate > 0.0):
        raise ImportFileError(scene.path, f"timeCodesPerSecond is {rate}; it must be positive")
    return StoredMotion(model, worlds, start, end, rate, bool(moving) and end > start, scene, tuple(ordered), camera)


def _instancers(scene: Scene) -> dict[Sdf.Path, Usd.Prim]:
    """Return the point instancers that can be drawn; note the others with everything else that isn't drawn."""
    fit: dict[Sdf.Path, Usd.Prim] = {}
    number: int | None = None
    for prim in scene.prims():
        if prim.IsA(UsdGeom.PointInstancer):
            count = _plain_instances(scene, UsdGeom.PointInstancer(prim))
            if count and number in (None, count):
                number, fit[prim.GetPath()] = count, prim
    return fit


def _plain_instances(scene: Scene, instancer: UsdGeom.PointInstancer) -> int:
    """Return the number of instances of an instancer with one prototype, all visible and of one size; else zero."""
    prim, prototypes = instancer.GetPrim(), instancer.GetPrototypesRel().GetTargets()
    below = len(prototypes) == 1 and prototypes[0].HasPrefix(prim.GetPath()) and bool(scene.prim(prototypes[0]))
    special = (instancer.GetScalesAttr(), instancer.GetInvisibleIdsAttr())
    indices = _indices(prim)
    stays = not (indices.any() or instancer.GetProtoIndicesAttr().ValueMightBeTimeVarying())
    return len(indices) if below and stays and not any(one.HasAuthoredValue() for one in special) else 0


def _indices(prim: Usd.Prim) -> np.ndarray:
    return np.array(UsdGeom.PointInstancer(prim).GetProtoIndicesAttr().Get(Usd.TimeCode.EarliestTime()) or [])


def _carriers(scene: Scene, instancers: dict[Sdf.Path, Usd.Prim], drawn: Iterable[Sdf.Path]) -> list[Sdf.Path]:
    """Return the prims with visible children that become the bodies of the scene.

    These are rigid bodies, prims with time samples of their own, and prototypes, each of which is one rigid piece.
    """
    prototypes = {UsdGeom.PointInstancer(prim).GetPrototypesRel().GetTargets()[0] for prim in instancers.values()}
    bodies = {found.primPath for found in scene.of(Kind.RigidBody)}
    carriers = [
        prim.GetPath()
        for prim in scene.prims()
        if prim.GetPath() in prototypes | bodies
        or (prim.IsA(UsdGeom.Xformable) and UsdGeom.Xformable(prim).TransformMightBeTimeVarying())
    ]
    inside = [path for path in carriers if any(path != top and path.HasPrefix(top) for top in prototypes)]
    scene.bodies.clear()
    scene.bodies.update((path, None) for path in carriers if path not in inside and path not in instancers)
    used = {scene.body_of(path) for path in drawn}
    for path in [path for path in scene.bodies if path not in used]:
        del scene.bodies[path]
    return list(scene.bodies)


def _moving(scene: Scene, piece: Piece) -> list[Usd.Attribute]:
    """Return the attributes with time samples that move a piece."""
    found: list[Usd.Attribute] = []
    if piece.instancer is not None:
        instancer = UsdGeom.PointInstancer(piece.instancer)
        found += [
            instancer.GetPositionsAttr(), instancer.GetOrientationsAttr(), instancer.GetOrientationsfAttr(),
        ]  # fmt: skip
    moving = [attribute for attribute in found if attribute and attribute.GetNumTimeSamples() > 1]
    return moving + moving_attributes(scene.prim(piece.path))


def _range(stage: Usd.Stage, moving: list[Usd.Attribute]) -> tuple[float, float]:
    """Return first and last time code: of the stage, or else of the time samples."""
    if stage.HasAuthoredTimeCodeRange():
        return float(stage.GetStartTimeCode()), float(stage.GetEndTimeCode())
    samples = [time for attribute in moving for time in attribute.GetTimeSamples()]
    return (min(samples), max(samples)) if samples else (0.0, 0.0)


def _note_unsupported_motion(scene: Scene, prims: list[Usd.Prim]) -> None:
    """Note motions of a file that are not rigid."""
    for prim in prims:
        changing = prim.IsA(UsdGeom.PointBased) and UsdGeom.PointBased(prim).GetPointsAttr().ValueMightBeTimeVarying()
        if changing or prim.HasAPI(UsdSkel.BindingAPI):
            scene.notes.append(f"prim '{prim.GetPath()}' deforms; it is drawn with its first shape")
    for prim in scene.prims():
        if prim.IsA(UsdGeom.Imageable) and UsdGeom.Imageable(prim).GetVisibilityAttr().ValueMightBeTimeVarying():
            scene.notes.append(f"prim '{prim.GetPath()}' appears and disappears; it is always drawn")
