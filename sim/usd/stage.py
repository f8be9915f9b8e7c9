"""Stage of a moving model: visuals, physics and time samples in one file."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pxr import Gf, Kind, Sdf, Usd, UsdGeom, UsdPhysics

from sim.errors import ModelError, USDWarning
from sim.model.checks import require_type, some
from sim.model.model import GEOMETRY_TYPE_NAMES, Model
from sim.render.fit import Outermost, fit_camera, link_boxes
from sim.render.tessellation import sphere
from sim.render.texture_files import TextureFiles
from sim.render.view import Camera, Marker, Trail, clipping_range, listed
from sim.simulation.stepping.pair_friction import five_frictions
from sim.usd.annotations import keep, keep_parameters, keep_softness, keep_text, keep_texts
from sim.usd.cameras import VIEW, add_cameras
from sim.usd.geometries import (
    add_collider,
    add_visual,
    author_mesh,
    child_name,
    identity_pose,
    keep_repeat,
    set_pose,
)
from sim.usd.layers import layer_errors
from sim.usd.lights import add_lights
from sim.usd.materials import Materials, linear_color
from sim.usd.motion import InstanceMotion, XformMotion, add_frames, add_instancers, link_paths
from sim.usd.parts import keep_parts
from sim.usd.physics.constraints import add_constraints, add_couplings
from sim.usd.physics.drives import keep_further_actuators
from sim.usd.physics.mujoco_tendons import state_tendons
from sim.usd.physics.physics import (
    add_articulations,
    add_joints,
    add_mass,
    exclude_collisions,
    is_kinematic,
    state_coordinates,
)
from sim.usd.physics.series import Series
from sim.usd.physics.surfaces import move_surfaces
from sim.usd.physics.tendons import keep_tendons
from sim.usd.sensors import keep_sensors
from warp_kernels import types as codes


class StageWriter:
    """A stage that is written frame by frame.

    Args:
        name: path of the file, which must not exist yet.
        target: its final path; textures are in a folder beside it.
        model: the model.
        fps: frames per second; frame k is at time code k.
        num_worlds: number of worlds: one writes visuals and physics, several only visuals.
        markers: balls to draw.
        trails: paths to draw.
        camera: the camera. Default: one that sees the whole motion.
        massless_bodies: write links without mass as bodies, not as joints in series.
    """

    def __init__(
        self, name: str, target: Path, model: Model, fps: float, num_worlds: int, markers: Sequence[Marker] = (),
        trails: Sequence[Trail] = (), camera: Camera | None = None, massless_bodies: bool = False,
    ):  # fmt: skip
        require_type("model", model, Model, "a sim.Model")
        if camera is not None:
            require_type("camera", camera, Camera, "a sim.render.Camera")
        markers, trails = listed("markers", markers, Marker), listed("trails", trails, Trail)
        self.stage = _new_stage(name, fps)
        self.frames = 0
        self._model, self._markers, self._camera = model, markers, camera
        self._outermost = Outermost(model.num_links, link_boxes(model))
        _warn_of_textures(model)
        self.textures = TextureFiles(target)
        materials = Materials(self.stage, self.textures)
        _add_static(self.stage, model, materials)
        self._joints: list[Sdf.Path] = []
        self._motions: list[tuple[int, InstanceMotion]] | list[tuple[int, XformMotion]]
        if num_worlds > 1:
            self._motions = add_instancers(self.stage, model, num_worlds, materials)
            add_lights(self.stage, model, None, self.textures)
        else:
            self._motions, self._joints = _add_links(self.stage, model, materials, Series(model, massless_bodies))
        _add_extras(self.stage, markers, trails, materials)

    def append(self, poses: np.ndarray) -> None:
        """Add a frame with checked poses [num_worlds, num_links, 7]."""
        if self.frames == 0 and self._joints:
            state_coordinates(self.stage, self._model, self._joints, poses[0])
        with Sdf.ChangeBlock():
            for link, motion in self._motions:
                one = poses[:, link] if isinstance(motion, InstanceMotion) else poses[0, link]
                motion.append(self.frames, one)
        self._outermost.add(poses)
        self.frames += 1

    def flush(self) -> None:
        """Write new frames to the file to free their memory."""
        with layer_errors():
            self.stage.GetRootLayer().Save()

    def finish(self) -> None:
        """Complete the stage, which must have at least one frame, and write it."""
        self.stage.SetEndTimeCode(float(self.frames - 1))
        poses = self._outermost.poses
        _add_camera(self.stage, self._camera or fit_camera(self._model, poses, markers=self._markers))
        self.textures.write(Path(self.stage.GetRootLayer().realPath).parent)
        self.flush()


def _warn_of_textures(model: Model) -> None:
    """Issue a warning that names the geometries whose textures have no coordinates."""
    shown = [g for g in model.geometries if g.visible and g.material.texture is not None and g.material.repeat is None]
    bare = [g.name for g in shown if g.mesh is None or g.mesh.uv is None]
    if bare:
        warnings.warn(
            f"not written: textures of geometries without texture coordinates or repeat ({some(bare)})", USDWarning,
            stacklevel=4,
        )  # fmt: skip


def _new_stage(name: str, fps: float) -> Usd.Stage:
    with layer_errors():
        stage = Usd.Stage.CreateNew(name)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(fps)
    stage.SetFramesPerSecond(fps)
    stage.SetStartTimeCode(0.0)
    world = UsdGeom.Xform.Define(stage, "/World")
    stage.SetDefaultPrim(world.GetPrim())
    Usd.ModelAPI(world).SetKind(Kind.Tokens.assembly)
    return stage


def _add_static(stage: Usd.Stage, model: Model, materials: Materials) -> None:
    """Add gravity and the geometry fixed to the world."""
    gravity = model.parameters["gravity"]
    strength = float(np.linalg.norm(gravity))
    scene = UsdPhysics.Scene.Define(stage, "/World/PhysicsScene")
    scene.CreateGravityMagnitudeAttr(strength)
    direction = gravity / strength if strength > 0.0 else np.array([0.0, 0.0, -1.0])
    scene.CreateGravityDirectionAttr(Gf.Vec3f(*map(float, direction)))
    keep(scene.GetPrim(), "gravity", gravity)
    if "wind" in model.parameters:
        names = ("medium_density", "medium_viscosity", "wind")
        keep(scene.GetPrim(), "medium", np.hstack([model.parameters[name] for name in names]))
    fixed = [k for k, geometry in enumerate(model.geometries) if geometry.link < 0]
    if fixed:
        UsdGeom.Xform.Define(stage, "/World/Static")
    _add_geometries(stage, Sdf.Path("/World/Static"), model, fixed, materials)


def _add_links(
    stage: Usd.Stage, model: Model, materials: Materials, series: Series
) -> tuple[list[tuple[int, XformMotion]], list[Sdf.Path]]:
    """Add all links of a single world; return the motions of the links and the prims of their joints."""
    own = link_paths(model)
    paths = [own[link] for link in series.body.tolist()]
    motions = []
    for parent in sorted({path.GetParentPath() for path in paths}):
        UsdGeom.Xform.Define(stage, parent)
    for link, path in enumerate(paths):
        if series.is_inner(link):
            continue
        xform = UsdGeom.Xform.Define(stage, path)
        motions.append((link, XformMotion(xform)))
        body = UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
        if is_kinematic(model, link) and not model.is_movable(link):
            body.CreateKinematicEnabledAttr(True)
        add_mass(xform.GetPrim(), model, link)
        owned = [k for k, geometry in enumerate(model.geometries) if geometry.link == link]
        _add_geometries(stage, path, model, owned, materials)
        move_surfaces(xform.GetPrim(), model, [k for k in owned if model.geometries[k].collides])
    add_frames(stage, model, paths)
    add_cameras(stage, model, paths)
    add_lights(stage, model, paths, materials.textures)
    add_articulations(stage, model, paths, series)
    joints = add_joints(stage, model, paths, series)
    keep_parts(stage, model, paths, joints)
    add_constraints(stage, model, paths)
    add_couplings(stage, model, joints, series)
    exclude_collisions(stage, model, paths, series)
    keep_tendons(stage.GetDefaultPrim(), model)
    state_tendons(stage, model, joints, series)
    keep_further_actuators(stage.GetDefaultPrim(), model)
    keep_sensors(stage.GetDefaultPrim(), model)
    return motions, joints


def _add_geometries(
    stage: Usd.Stage, parent: Sdf.Path, model: Model, indices: Sequence[int], materials: Materials
) -> None:
    taken: set[str] = set()
    for index in indices:
        geometry = model.geometries[index]
        name = child_name(geometry.name.rsplit("/", 1)[-1], taken)
        if geometry.visible:
            add_visual(stage, parent.AppendChild(name), geometry, materials)
            keep_repeat(stage.GetPrimAtPath(parent.AppendChild(name)), geometry)
            # For readers: this prim draws a collider, or is a separate geometry.
            visual = stage.GetPrimAtPath(parent.AppendChild(name))
            keep_text(visual, "shows" if geometry.collides else "name", geometry.name)
            if not geometry.collides:
                _keep_shape(visual, model, index)
        if geometry.collides:
            collider = add_collider(stage, parent.AppendChild(child_name(f"{name}_collider", taken)), geometry)
            materials.bind_physics(
                collider, float(model.parameters["friction"][index]), float(model.parameters["restitution"][index])
            )
            _keep_geometry(collider, model, index)
            if geometry.link < 0:
                move_surfaces(collider, model, [index])


def _keep_shape(visual: Usd.Prim, model: Model, index: int) -> None:
    """Store the original shape of triangles drawn for a geometry without a collider."""
    keep_text(visual, "type", GEOMETRY_TYPE_NAMES[model.geometries[index].type])
    for name in ("geometry_size", "geometry_placement"):
        keep(visual, name, model.parameters[name][index])


def _keep_geometry(collider: Usd.Prim, model: Model, index: int) -> None:
    """Store the properties of a geometry that UsdPhysics can't express, or only in single precision."""
    geometry = model.geometries[index]
    keep_text(collider, "name", geometry.name)
    keep_parameters(collider, model, "geometry", index)
    if geometry.type in (codes.ELLIPSOID, codes.HEIGHTFIELD, codes.MESH):
        keep_text(collider, "type", GEOMETRY_TYPE_NAMES[geometry.type])
    if not geometry.visible:
        keep(collider, "visible", 0)
    if geometry.heights is not None:
        keep(collider, "heights", geometry.heights)
        keep(collider, "rows", len(geometry.heights))
    if (geometry.group, geometry.mask) != (1, -1):
        keep(collider, "group_and_mask", (geometry.group, geometry.mask))
    if geometry.friction_rule != "product":
        keep_text(collider, "friction_rule", geometry.friction_rule)
    if geometry.friction_direction is not None:
        keep(collider, "friction_direction", (*geometry.friction_direction, geometry.friction_angle))
    keep_softness(collider, "softness", geometry.softness)
    for label, value, usual in (
        ("softness_mix", geometry.softness_mix, 1.0),
        ("contact_margin", geometry.contact_margin, 0.0),
        ("contact_gap", geometry.contact_gap, 0.0),
    ):
        if value != usual:
            keep(collider, label, value)
    if geometry.contact_priority:
        keep(collider, "contact_priority", geometry.contact_priority)
    own = [number for number, pair in enumerate(model.pair_frictions) if pair.a == index]
    if own:
        pairs, values = [model.pair_frictions[number] for number in own], five_frictions(model)[own]
        keep_texts(collider, "pair_friction_with", [model.geometries[pair.b].name for pair in pairs])
        keep(collider, "pair_friction", values[:, [0, 2, 3]])
        if not all(pair.is_isotropic for pair in pairs):
            keep(collider, "pair_friction_across", values[:, [1, 4]])
            keep(collider, "pair_is_isotropic", [float(pair.is_isotropic) for pair in pairs])
    soft = [pair for pair in model.pair_softness if pair.a == index]
    if soft:
        numbers = [(*pair.softness.solref, *pair.softness.solimp, pair.contact_margin) for pair in soft]
        keep_texts(collider, "pair_softness_with", [model.geometries[pair.b].name for pair in soft])
        keep(collider, "pair_softness", numbers)
        if any(pair.contact_gap for pair in soft):
            keep(collider, "pair_gap", [pair.contact_gap for pair in soft])


def _add_extras(stage: Usd.Stage, markers: Sequence[Marker], trails: Sequence[Trail], materials: Materials) -> None:
    if markers or trails:
        UsdGeom.Scope.Define(stage, "/World/Marks")
    taken: set[str] = set()
    for marker in markers:
        path = Sdf.Path("/World/Marks").AppendChild(child_name(marker.name, taken))
        mesh = author_mesh(stage, path, sphere(marker.radius), marker.color)
        set_pose(mesh, identity_pose(marker.position))
        materials.bind(mesh.GetPrim(), (*marker.color, 1.0))
    for trail in trails:
        path = Sdf.Path("/World/Marks").AppendChild(child_name(trail.name, taken))
        points = np.asarray(trail.points, dtype=np.float32).reshape(-1, 3)
        if len(points) < 2 or not np.isfinite(points).all():
            raise ModelError(f"trail '{trail.name}': a curve needs at least two points, all finite")
        curve = UsdGeom.BasisCurves.Define(stage, path)
        curve.CreateTypeAttr(UsdGeom.Tokens.linear)
        curve.CreateCurveVertexCountsAttr([len(points)])
        curve.CreatePointsAttr(points)
        curve.CreateWidthsAttr([2.0 * trail.radius])
        curve.SetWidthsInterpolation(UsdGeom.Tokens.constant)
        curve.CreateExtentAttr(
            np.stack([points.min(axis=0), points.max(axis=0)]) + trail.radius * np.array([[-1], [1]])
        )
        curve.CreateDisplayColorAttr([linear_color(trail.color)])
        materials.bind(curve.GetPrim(), (*trail.color, 1.0))


def _add_camera(stage: Usd.Stage, view: Camera) -> None:
    camera = UsdGeom.Camera.Define(stage, "/World/Camera")
    keep(camera.GetPrim(), VIEW, [1.0])
    right, up, backward = view.axes()
    matrix = Gf.Matrix4d(1.0)
    for row, axis in enumerate((right, up, backward, np.asarray(view.position, dtype=float))):
        matrix.SetRow3(row, Gf.Vec3d(*map(float, axis)))
    camera.AddTransformOp().Set(matrix)
    # Aperture and focal length share a unit, so only their ratio, the field of view, matters.
    aperture = 24.0
    camera.CreateVerticalApertureAttr(aperture)
    camera.CreateHorizontalApertureAttr(aperture * 4.0 / 3.0)
    camera.CreateFocalLengthAttr(float(aperture / (2.0 * np.tan(np.radians(view.fov) / 2.0))))
    camera.CreateClippingRangeAttr(Gf.Vec2f(*clipping_range(view)))
    camera.CreateFocusDistanceAttr(float(np.linalg.norm(np.subtract(view.position, view.target))))
