"""USD stages, opened again."""

import numpy as np
import pytest
from pxr import Gf, Usd, UsdGeom, UsdLux, UsdPhysics, UsdShade, UsdValidation
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped, throw
from sim.model.geometries import Mesh
from sim.render import Camera, Marker, Trail
from sim.usd import write_usd
from tests.errors import raises_naming, refuses
from warp_kernels import types as codes


def link_poses(model, q):
    """World poses of all links [frames, num_links, 7] for coordinates [frames, nq]."""
    return sim.forward_kinematics(model, np.asarray(q)).numpy()


def all_joints_model():
    """Every joint type, every geometry type, an oblique axis, full inertia, awkward names."""
    builder = sim.ModelBuilder(gravity=(0.0, 3.0, -4.0))
    builder.add_ground()
    oblique = [[3, 0.2, 0.1], [0.2, 4, 0.3], [0.1, 0.3, 5]]
    builder.add_link("a b", mass=2.0, com=(0.1, 0.2, 0.3), inertia=oblique)
    builder.add_joint("1", "revolute", child="a b", axis=(1, 2, 3), position=(0, 0, 1),
                      orientation=(0.1, 0.2, 0.3, 0.9), limits=sim.Limits(-1.0, 2.0),
                      spring=sim.Spring(damping=0.5, stiffness=3.0))  # fmt: skip
    builder.add_link("a_b", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("2", "prismatic", child="a_b", parent="a b", axis=(-1, 0, 0), limits=sim.Limits(-0.5, 0.25))
    builder.add_link("ball", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("3", "spherical", child="ball", parent="a_b", position=(0, 1, 0))
    builder.add_link("wheel", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("4", "continuous", child="wheel", parent="a_b", axis=(0, 0, 1))
    builder.add_link("Camera", mass=0.0)
    builder.add_joint("5", "fixed", child="Camera", parent="wheel")
    corners = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    tetrahedron = Mesh(corners, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    for link, kind, size, mesh in (
        ("a b", codes.BOX, (0.1, 0.2, 0.3), None),
        ("a_b", codes.CAPSULE, (0.1, 0.2, 0), None),
        ("a_b", codes.CYLINDER, (0.1, 0.2, 0), None),
        ("a_b", codes.ELLIPSOID, (0.1, 0.2, 0.3), None),
        ("ball", codes.SPHERE, (0.1, 0, 0), None),
        ("wheel", codes.CONVEX, (0.5, 0.5, 0.5), tetrahedron),
    ):
        builder.add_geometry(
            link,
            kind,
            size=size,
            mesh=mesh,
            position=(0.01, 0, 0),
            surface=sim.Surface(friction=0.7),
            rgba=(0.2, 0.5, 0.8, 1.0),
        )
    builder.add_heightfield(
        np.arange(6.0).reshape(2, 3), spacing=0.3, orientation=(0.1, 0.2, 0, 1), surface=sim.Surface(friction=0.7)
    )
    builder.add_sphere(radius=0.1, mass=0.3, name="loose", position=(1, 1, 1))
    return builder.finalize("float64", collapse_fixed=False)


def wave(model, frames, seed=0):
    """Some motion of all joints: coordinates [frames, nq] with unit quaternions."""
    rng = np.random.default_rng(seed)
    q = np.tile(model.q0, (frames, 1)) + np.cumsum(rng.normal(size=(frames, model.nq)), axis=0) * 0.2
    for link in range(model.num_links):
        kind, start = model.joint_type[link], model.joint_q_start[link]
        if kind in (codes.SPHERICAL, codes.FREE):
            part = slice(start + 3, start + 7) if kind == codes.FREE else slice(start, start + 4)
            q[:, part] = Rotation.from_quat(q[:, part]).as_quat()
    return q


def validation_errors(path):
    stage = Usd.Stage.Open(str(path))
    context = UsdValidation.ValidationContext(UsdValidation.ValidationRegistry().GetOrLoadAllValidators())
    return [error.GetErrorAsString() for error in context.Validate(stage)]


def world_matrix(prim, frame):
    """Position and rotation of a prim."""
    matrix = UsdGeom.XformCache(Usd.TimeCode(frame)).GetLocalToWorldTransform(prim)
    return np.array(matrix.ExtractTranslation()), np.array(matrix.ExtractRotationMatrix()).T


def rigid_bodies(stage):
    return [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    model = all_joints_model()
    poses = link_poses(model, wave(model, 12))
    path = tmp_path_factory.mktemp("usd") / "all.usda"
    markers, trails = [Marker("goal", (1, 2, 3), 0.1)], [Trail("path", poses[:, -1, :3])]
    write_usd(path, model, poses, fps=24, markers=markers, trails=trails)
    return model, poses, path


def test_the_validator_knows_a_bad_stage(tmp_path):
    path = tmp_path / "bad.usda"
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.Xform.Define(stage, "/A")
    stage.Save()
    assert validation_errors(path)


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
def test_validation_passes(tmp_path, suffix):
    model = all_joints_model()
    path = write_usd(tmp_path / f"x{suffix}", model, link_poses(model, wave(model, 3)), fps=30)
    assert validation_errors(path) == []
    assert list(tmp_path.iterdir()) == [path]


def test_scenes_pass_validation(tmp_path):
    for scene in (throw.build(), quadruped.build()):
        poses = link_poses(scene.model, np.stack([scene.q0, scene.q0]))
        assert validation_errors(write_usd(tmp_path / "scene.usdc", scene.model, poses, fps=50)) == []


def test_metadata(written):
    _, poses, path = written
    assert validation_errors(path) == []
    stage = Usd.Stage.Open(str(path))
    assert stage.GetDefaultPrim().GetPath() == "/World"
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert UsdPhysics.GetStageKilogramsPerUnit(stage) == 1.0
    assert (stage.GetTimeCodesPerSecond(), stage.GetFramesPerSecond()) == (24.0, 24.0)
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, len(poses) - 1)
    assert UsdLux.DistantLight(stage.GetPrimAtPath("/World/Lights/Sun")).GetNormalizeAttr().Get() is True
    gravity = UsdPhysics.Scene(stage.GetPrimAtPath("/World/PhysicsScene"))
    assert gravity.GetGravityMagnitudeAttr().Get() == pytest.approx(5.0)
    np.testing.assert_allclose(gravity.GetGravityDirectionAttr().Get(), [0.0, 0.6, -0.8], rtol=1e-6)


def test_link_transforms_come_back(written):
    model, poses, path = written
    stage = Usd.Stage.Open(str(path))
    bodies = rigid_bodies(stage)
    assert len(bodies) == model.num_links
    for link, prim in enumerate(bodies):
        names = [op.GetOpName() for op in UsdGeom.Xformable(prim).GetOrderedXformOps()]
        assert names == ["xformOp:translate", "xformOp:orient", "xformOp:scale"]
        for frame, pose in enumerate(poses[:, link]):
            position, rotation = world_matrix(prim, frame)
            np.testing.assert_allclose(position, pose[:3], atol=1e-12)
            np.testing.assert_allclose(rotation, Rotation.from_quat(pose[3:]).as_matrix(), atol=1e-12)
        for op in UsdGeom.Xformable(prim).GetOrderedXformOps()[:2]:
            assert op.Get(Usd.TimeCode.Default()) == op.Get(0.0)


def test_quaternions_take_the_short_way(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize()
    poses = np.zeros((2, 1, 7))
    poses[0, 0, 6], poses[1, 0, 3:] = 1.0, -Rotation.from_rotvec([0.2, 0, 0]).as_quat()
    stage = Usd.Stage.Open(str(write_usd(tmp_path / "x.usda", model, poses, fps=10)))
    _, rotation = world_matrix(rigid_bodies(stage)[0], 0.5)
    np.testing.assert_allclose(rotation, Rotation.from_rotvec([0.1, 0, 0]).as_matrix(), atol=1e-6)


def test_mass_properties(written):
    model, _, path = written
    stage = Usd.Stage.Open(str(path))
    for link, prim in enumerate(rigid_bodies(stage)):
        mass = model.parameters["mass"][link]
        assert UsdPhysics.MassAPI(prim).GetMassAttr().Get() == pytest.approx(mass, rel=1e-6, abs=1e-11)
        if mass > 0:
            api = UsdPhysics.MassAPI(prim)
            assert api.GetMassAttr().Get() == pytest.approx(mass)
            np.testing.assert_allclose(api.GetCenterOfMassAttr().Get(), model.parameters["com"][link], atol=1e-6)
            axes = api.GetPrincipalAxesAttr().Get()
            turn = Rotation.from_quat([*axes.GetImaginary(), axes.GetReal()]).as_matrix()
            inertia = turn @ np.diag(api.GetDiagonalInertiaAttr().Get()) @ turn.T
            np.testing.assert_allclose(inertia, model.parameters["inertia"][link], atol=1e-5)


def test_joint_frames_meet_in_the_motion(written):
    """The two frames of each joint, put on the moving bodies, differ only by what the joint allows."""
    _, poses, path = written
    stage = Usd.Stage.Open(str(path))
    body_of = {prim.GetPath(): link for link, prim in enumerate(rigid_bodies(stage))}
    joints = [UsdPhysics.Joint(prim) for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)]
    assert len(joints) == 5
    for joint in joints:
        frames = []
        for rel, position, rotation in (
            (joint.GetBody0Rel(), joint.GetLocalPos0Attr(), joint.GetLocalRot0Attr()),
            (joint.GetBody1Rel(), joint.GetLocalPos1Attr(), joint.GetLocalRot1Attr()),
        ):
            targets = rel.GetTargets()
            pose = poses[7, body_of[targets[0]]] if targets else np.array([0.0, 0, 0, 0, 0, 0, 1])
            turn, local = Rotation.from_quat(pose[3:]), rotation.Get()
            turn_local = Rotation.from_quat([*local.GetImaginary(), local.GetReal()])
            frames.append((pose[:3] + turn.apply(position.Get()), turn * turn_local))
        offset = frames[0][1].inv().apply(frames[1][0] - frames[0][0])
        turn = (frames[0][1].inv() * frames[1][1]).as_rotvec()
        prim = joint.GetPrim()
        if prim.IsA(UsdPhysics.PrismaticJoint):
            np.testing.assert_allclose([*offset[1:], *turn], 0.0, atol=2e-6)
            assert abs(offset[0]) > 1e-3
        else:
            np.testing.assert_allclose(offset, 0.0, atol=2e-6)
            if prim.IsA(UsdPhysics.RevoluteJoint):
                np.testing.assert_allclose(turn[1:], 0.0, atol=2e-6)
                assert abs(turn[0]) > 1e-3
            if prim.IsA(UsdPhysics.FixedJoint):
                np.testing.assert_allclose(turn, 0.0, atol=2e-6)


def test_constraints_are_joints_outside_of_the_articulations(tmp_path):
    builder = sim.ModelBuilder()
    for name in ("a", "b"):
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, name=name, position=(0.3 * (name == "b"), 0, 0))
    builder.add_point_constraint("hook up", "a", "b", position_a=(0.15, 0.1, 0.0))
    builder.add_weld_constraint("weld", "b", "world", position_a=(0.1, 0.0, 0.0), orientation_a=(0, 0, 1, 1))
    model = builder.finalize()
    path = write_usd(tmp_path / "scene.usda", model, link_poses(model, model.q0[None]), fps=30)
    stage = Usd.Stage.Open(str(path))
    hook, weld = (UsdPhysics.Joint(prim) for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint))
    assert hook.GetPrim().IsA(UsdPhysics.SphericalJoint)
    assert weld.GetPrim().IsA(UsdPhysics.FixedJoint)
    assert hook.GetExcludeFromArticulationAttr().Get()
    assert [rel.GetTargets()[0].name for rel in (hook.GetBody0Rel(), hook.GetBody1Rel())] == ["a", "b"]
    assert not weld.GetBody1Rel().GetTargets()
    np.testing.assert_allclose(hook.GetLocalPos1Attr().Get(), (-0.15, 0.1, 0.0), atol=1e-6)
    np.testing.assert_allclose(weld.GetLocalPos1Attr().Get(), (0.4, 0.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(weld.GetLocalRot1Attr().Get().GetReal(), np.sqrt(0.5), atol=1e-6)


def test_a_cone_stands_on_the_axis(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("ball", "spherical", child="a", axis=(0, 0, -2), limits=sim.Limits(swing=0.5))
    model = builder.finalize()
    stage = Usd.Stage.Open(str(write_usd(tmp_path / "scene.usda", model, link_poses(model, model.q0[None]), fps=30)))
    (joint,) = (UsdPhysics.SphericalJoint(prim) for prim in stage.Traverse() if prim.IsA(UsdPhysics.SphericalJoint))
    assert joint.GetAxisAttr().Get() == "X"
    for angle in (joint.GetConeAngle0LimitAttr(), joint.GetConeAngle1LimitAttr()):
        np.testing.assert_allclose(angle.Get(), np.degrees(0.5), rtol=1e-6)
    for rotation in (joint.GetLocalRot0Attr().Get(), joint.GetLocalRot1Attr().Get()):
        np.testing.assert_allclose(Gf.Rotation(rotation).TransformDir(Gf.Vec3d(1, 0, 0)), (0, 0, -1), atol=1e-6)


def test_limits_are_in_degrees_and_drives_carry_damping_and_spring(written):
    _, _, path = written
    stage = Usd.Stage.Open(str(path))
    joints = {prim.GetTypeName(): prim for prim in reversed(list(stage.Traverse())) if prim.IsA(UsdPhysics.Joint)}
    revolute = UsdPhysics.RevoluteJoint(joints["PhysicsRevoluteJoint"])
    assert revolute.GetAxisAttr().Get() == "X"
    assert revolute.GetLowerLimitAttr().Get() == pytest.approx(-np.degrees(1.0))
    assert revolute.GetUpperLimitAttr().Get() == pytest.approx(np.degrees(2.0))
    drive = UsdPhysics.DriveAPI(joints["PhysicsRevoluteJoint"], "angular")
    assert drive.GetDampingAttr().Get() == pytest.approx(0.5 * np.pi / 180)
    assert drive.GetStiffnessAttr().Get() == pytest.approx(3.0 * np.pi / 180)
    prismatic = UsdPhysics.PrismaticJoint(joints["PhysicsPrismaticJoint"])
    assert prismatic.GetUpperLimitAttr().Get() == pytest.approx(0.25)


def test_articulation_roots_are_the_roots_of_trees_with_joints(written):
    _, _, path = written
    stage = Usd.Stage.Open(str(path))
    roots = [prim.GetName() for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.ArticulationRootAPI)]
    assert roots == ["a_b"]


def test_colliders_are_guides_and_visuals_are_meshes(written):
    model, _, path = written
    stage = Usd.Stage.Open(str(path))
    colliders = [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)]
    kinds = sorted(prim.GetTypeName() for prim in colliders)
    assert kinds == ["Capsule", "Cube", "Cylinder", "Mesh", "Mesh", "Mesh", "Plane", "Sphere", "Sphere"]
    for prim in colliders:
        assert UsdGeom.Imageable(prim).ComputePurpose() == "guide"
        material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
        expected = 1.0 if prim.GetTypeName() == "Plane" or "loose" in str(prim.GetPath()) else 0.7
        assert UsdPhysics.MaterialAPI(material).GetDynamicFrictionAttr().Get() == pytest.approx(expected)
    visuals = [prim for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh) and not prim.HasAPI(UsdPhysics.CollisionAPI)]
    assert len(visuals) == model.num_geometries + 1  # and the marker
    for prim in visuals:
        mesh = UsdGeom.Mesh(prim)
        assert mesh.GetSubdivisionSchemeAttr().Get() == "none"
        assert mesh.GetNormalsAttr().HasAuthoredValue()
        extent = np.array(mesh.GetExtentAttr().Get())
        points = np.array(mesh.GetPointsAttr().Get())
        np.testing.assert_allclose(extent, [points.min(axis=0), points.max(axis=0)])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_camera_sees_scenes_of_all_sizes(size, tmp_path):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.5 * size, mass=1.0)
    model = builder.finalize()
    path = write_usd(tmp_path / "ball.usda", model, model.q0.reshape(1, 1, 7), fps=10)
    stage = Usd.Stage.Open(str(path))
    view = UsdGeom.Camera(stage.GetPrimAtPath("/World/Camera")).GetCamera(Usd.TimeCode.Default())
    away = np.linalg.norm(view.frustum.position)
    assert view.clippingRange.min < away - size
    assert view.clippingRange.max > away + size


def test_camera_looks_where_it_should(tmp_path):
    model = all_joints_model()
    camera = Camera((3.0, -4.0, 2.0), (0.2, 0.1, 0.7), fov=40.0)
    path = write_usd(tmp_path / "x.usda", model, link_poses(model, wave(model, 2)), fps=10, camera=camera)
    stage = Usd.Stage.Open(str(path))
    view = UsdGeom.Camera(stage.GetPrimAtPath("/World/Camera")).GetCamera(Usd.TimeCode.Default())
    np.testing.assert_allclose(view.frustum.position, camera.position)
    ahead = np.subtract(camera.target, camera.position)
    np.testing.assert_allclose(view.frustum.ComputeViewDirection(), ahead / np.linalg.norm(ahead), atol=1e-6)
    assert view.GetFieldOfView(Gf.Camera.FOVVertical) == pytest.approx(40.0, abs=1e-3)


def test_many_worlds_are_point_instancers(tmp_path):
    model = all_joints_model()
    poses = np.stack([link_poses(model, wave(model, 4, seed)) for seed in range(5)], axis=1)
    path = write_usd(tmp_path / "many.usdc", model, poses, fps=10)
    assert validation_errors(path) == []
    stage = Usd.Stage.Open(str(path))
    instancers = [UsdGeom.PointInstancer(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.PointInstancer)]
    shown = [link for link in range(model.num_links) if any(g.link == link for g in model.geometries)]
    assert len(instancers) == len(shown)
    for link, instancer in zip(shown, instancers, strict=True):
        matrices = instancer.ComputeInstanceTransformsAtTime(Usd.TimeCode(3), Usd.TimeCode(3))
        assert len(matrices) == 5
        for world, matrix in enumerate(matrices):
            pose = poses[3, world, link]
            # Instance positions and orientations are single precision.
            np.testing.assert_allclose(matrix.ExtractTranslation(), pose[:3], atol=1e-6)
            turn = np.array(matrix.ExtractRotationMatrix()).T
            np.testing.assert_allclose(turn, Rotation.from_quat(pose[3:]).as_matrix(), atol=1e-6)
        # For readers that know half precision only.
        rough = [(*q.GetImaginary(), q.GetReal()) for q in instancer.GetOrientationsAttr().Get(3.0)]
        np.testing.assert_allclose(rough, instancer.GetOrientationsfAttr().Get(3.0), atol=5e-4)
    ground = UsdGeom.Mesh(stage.GetPrimAtPath("/World/Static/ground"))
    valid, reason = UsdGeom.Subset.ValidateFamily(ground, UsdGeom.Tokens.face, "materialBind")
    assert valid, reason
    assert len(UsdGeom.Subset.GetAllGeomSubsets(ground)) == 2


def test_bad_arguments_are_refused_and_leave_nothing(tmp_path):
    model = all_joints_model()
    poses = link_poses(model, wave(model, 2))
    refuses(lambda: write_usd(tmp_path / "x.usdx", model, poses, fps=10), "must end in")
    refuses(lambda: write_usd(tmp_path / "none" / "x.usda", model, poses, fps=10), "no folder")
    refuses(lambda: write_usd(tmp_path / "x.usda", model, poses, fps=0), "fps")
    refuses(lambda: write_usd(tmp_path / "x.usda", model, poses[:, 1:], fps=10), "poses", "shape")
    refuses(lambda: write_usd(tmp_path / "x.usda", model, poses[:, None, 1:], fps=10), "num_worlds")
    with raises_naming("trail 'short'"):
        write_usd(tmp_path / "x.usda", model, poses, fps=10, trails=[Trail("short", np.zeros((1, 3)))])
    assert list(tmp_path.iterdir()) == []
