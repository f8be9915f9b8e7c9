"""A motion as a layer of time samples over the stage that the model was read from."""

import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

import sim
from sim.importers.usd.motion import read_motion
from sim.usd import write_usd
from tests.errors import refuses


def make_mesh(stage, name):
    """Add a tetrahedron, which may be sheared."""
    mesh = UsdGeom.Mesh.Define(stage, name)
    mesh.CreatePointsAttr([(0, 0, 0), (0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.2)])
    mesh.CreateFaceVertexCountsAttr([3, 3, 3, 3])
    mesh.CreateFaceVertexIndicesAttr([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])
    UsdPhysics.MeshCollisionAPI.Apply(mesh.GetPrim()).CreateApproximationAttr("convexHull")
    return mesh


def make_scene(path, up="Z", metres=1.0, scale=(1.0, 1.0, 1.0), nested=True, mesh=False):
    """Write two bodies on a hinge, one of them below the other, with a material, a texture, a light and a camera."""
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    world = UsdGeom.Xform.Define(stage, "/World")
    world.AddTranslateOp().Set(Gf.Vec3d(0.5, 0.25, 1.0) / metres)
    world.AddRotateZOp().Set(30.0)
    world.AddScaleOp().Set(Gf.Vec3f(*scale))
    stage.SetDefaultPrim(world.GetPrim())
    UsdPhysics.Scene.Define(stage, "/World/physics")
    material = UsdShade.Material.Define(stage, "/World/Looks/steel")
    shader = UsdShade.Shader.Define(stage, "/World/Looks/steel/surface")
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("metallic", Sdf.ValueTypeNames.Float).Set(1.0)
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    UsdLux.SphereLight.Define(stage, "/World/lamp").CreateIntensityAttr(7.0)
    UsdGeom.Camera.Define(stage, "/World/eye").CreateFocalLengthAttr(33.0)
    second = "/World/upper/lower" if nested else "/World/lower"
    for name, place in (("/World/upper", (0.1, 0.0, 0.2)), (second, (0.4, 0.1, 0.0))):
        body = make_mesh(stage, name) if mesh else UsdGeom.Cube.Define(stage, name)
        if not mesh:
            body.CreateSizeAttr(0.2 / metres)
        body.AddTranslateOp().Set(Gf.Vec3d(*place) / metres)
        body.AddOrientOp().Set(Gf.Quatf(0.8, 0.0, 0.6, 0.0))
        UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
        UsdPhysics.CollisionAPI.Apply(body.GetPrim())
        UsdShade.MaterialBindingAPI.Apply(body.GetPrim()).Bind(material)
    joint = UsdPhysics.RevoluteJoint.Define(stage, "/World/hinge")
    joint.CreateBody0Rel().SetTargets(["/World/upper"])
    joint.CreateBody1Rel().SetTargets([second])
    joint.CreateAxisAttr("Y")
    cache = UsdGeom.XformCache()
    inside = cache.GetLocalToWorldTransform(stage.GetPrimAtPath(second)) * (
        cache.GetLocalToWorldTransform(stage.GetPrimAtPath("/World/upper")).GetInverse()
    )
    joint.CreateLocalPos0Attr(Gf.Vec3f(inside.ExtractTranslation()))
    joint.CreateLocalRot0Attr(Gf.Quatf(inside.RemoveScaleShear().ExtractRotationQuat()))
    stage.GetRootLayer().Save()
    return second


def motion_of(model, frames=7):
    rng = np.random.default_rng(4)
    q, qd = [model.q0], rng.normal(size=model.nv)
    for _ in range(frames - 1):
        q.append(sim.integrate(model, q[-1][None], 0.1 * qd[None]).numpy()[0])
        qd = qd + rng.normal(size=model.nv)
    return sim.forward_kinematics(model, np.array(q)).numpy().astype(float)


def test_bodies_are_where_the_poses_are(tmp_path, capfd):
    """By the USD library, in a stage in metres with z up; nested bodies have their own motion."""
    second = make_scene(tmp_path / "scene.usda")
    model = sim.load(tmp_path / "scene.usda")
    poses = motion_of(model)
    write_usd(tmp_path / "motion.usda", model, poses, fps=50, over=tmp_path / "scene.usda")
    stage = Usd.Stage.Open(str(tmp_path / "motion.usda"))
    assert "Warning" not in capfd.readouterr().err  # of a layer that USD doesn't find
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode(), stage.GetTimeCodesPerSecond()) == (0.0, 6.0, 50.0)
    for frame in range(len(poses)):
        cache = UsdGeom.XformCache(Usd.TimeCode(frame))
        for link, path in enumerate(("/World/upper", second)):
            matrix = np.array(cache.GetLocalToWorldTransform(stage.GetPrimAtPath(path)))
            assert_allclose(matrix[3, :3], poses[frame, link, :3], atol=2e-6)
            assert_allclose(matrix[:3, :3].T, Rotation.from_quat(poses[frame, link, 3:]).as_matrix(), atol=2e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"up": "Y", "metres": 0.01},
        {"metres": 0.01, "scale": (2.0, 2.0, 2.0)},
        {"up": "Y", "scale": (-1.0, 1.0, 1.0)},
        {"nested": False, "mesh": True, "scale": (1.0, 3.0, 1.0)},
    ],
    ids=["plain", "y up", "scaled", "mirrored", "sheared"],
)
@pytest.mark.filterwarnings("ignore::sim.USDWarning")
def test_motions_in_every_frame_of_reference(tmp_path, options):
    make_scene(tmp_path / "scene.usda", **options)
    model = sim.load(tmp_path / "scene.usda")
    poses = motion_of(model)
    write_usd(tmp_path / "motion.usdc", model, poses, fps=50, over=tmp_path / "scene.usda")
    motion = read_motion(tmp_path / "motion.usdc")
    for frame in range(len(poses)):
        found = motion.poses(frame / 50)[0]
        first = motion.poses(0.0)[0]
        for link in range(model.num_links):
            turn = Rotation.from_quat(found[link, 3:]) * Rotation.from_quat(first[link, 3:]).inv()
            asked = Rotation.from_quat(poses[frame, link, 3:]) * Rotation.from_quat(poses[0, link, 3:]).inv()
            assert (turn * asked.inv()).magnitude() < 1e-5
            assert_allclose(found[link, :3], poses[frame, link, :3], atol=1e-5)


def test_everything_else_stays(tmp_path):
    """The file is not changed, its looks are in the new stage, and both may move to another folder."""
    folder = tmp_path / "one"
    (folder / "shots").mkdir(parents=True)
    make_scene(folder / "scene.usda")
    before = (folder / "scene.usda").read_bytes()
    model = sim.load(folder / "scene.usda")
    write_usd(folder / "shots" / "motion.usda", model, motion_of(model), fps=24, over=folder / "scene.usda")
    assert (folder / "scene.usda").read_bytes() == before
    text = (folder / "shots" / "motion.usda").read_text()
    assert "@../scene.usda@" in text
    assert str(tmp_path) not in text
    shutil.move(folder, tmp_path / "two")
    stage = Usd.Stage.Open(str(tmp_path / "two" / "shots" / "motion.usda"))
    original = Usd.Stage.Open(str(tmp_path / "two" / "scene.usda"))
    assert stage.GetDefaultPrim().GetPath() == "/World"
    ours, theirs = ({str(prim.GetPath()): prim for prim in each.Traverse()} for each in (stage, original))
    assert list(ours) == list(theirs)
    for path, prim in theirs.items():
        for attribute in prim.GetAttributes():
            if not attribute.GetName().startswith("xformOp"):
                assert ours[path].GetAttribute(attribute.GetName()).Get() == attribute.Get()
        for relation in prim.GetRelationships():
            assert ours[path].GetRelationship(relation.GetName()).GetTargets() == relation.GetTargets()


def test_what_is_refused(tmp_path):
    make_scene(tmp_path / "scene.usda")
    make_scene(tmp_path / "other.usda")
    model = sim.load(tmp_path / "scene.usda")
    poses = motion_of(model, 2)

    def write(name="motion.usda", over="scene.usda", model=model, poses=poses, **options):
        return write_usd(tmp_path / name, model, poses, fps=24, over=tmp_path / over, **options)

    refuses(lambda: write(over="other.usda"), "other.usda", "load the model from that file")
    refuses(lambda: write(over="gone.usda"), "gone.usda", "no file")
    refuses(lambda: write(name="scene.usda"), "the stage itself")
    refuses(lambda: write(massless_bodies=True), "massless_bodies", "leave")
    refuses(lambda: write(poses=np.stack([poses, poses], axis=1)), "2 worlds")
    twice = sim.ModelBuilder()
    for name, y in (("a", 0.0), ("b", 3.0)):
        twice.add_usd(tmp_path / "scene.usda", name=name, position=(0.0, y, 0.0))
    both = twice.finalize()
    refuses(lambda: write(model=both, poses=motion_of(both, 2)), "more than once")
    assert not (tmp_path / "motion.usda").exists()


def test_a_moved_copy_of_a_file_moves_in_its_own_place(tmp_path):
    """The stage keeps its origin, wherever the builder put it."""
    make_scene(tmp_path / "scene.usda")
    plain = sim.load(tmp_path / "scene.usda")
    builder = sim.ModelBuilder()
    builder.add_usd(tmp_path / "scene.usda", name="far", position=(5.0, 0.0, 1.0), orientation=(0.0, 0.0, 0.6, 0.8))
    moved = builder.finalize()
    found = []
    for name, model in (("plain", plain), ("moved", moved)):
        poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        path = write_usd(tmp_path / f"{name}.usda", model, poses, fps=24, over=tmp_path / "scene.usda")
        found.append(read_motion(path).poses(0.0))
    assert_allclose(found[0], found[1], atol=1e-6)


def test_the_initial_pose_is_that_of_the_file(tmp_path):
    """The joint is away from the origins of the bodies, where their links are."""
    path = tmp_path / "scene.usda"
    second = make_scene(path, up="Y", metres=0.01)
    stage = Usd.Stage.Open(str(path))
    joint = UsdPhysics.RevoluteJoint.Get(stage, "/World/hinge")
    shift = Gf.Vec3f(5.0, 3.0, -4.0)
    turn = Gf.Rotation(Gf.Quatd(joint.GetLocalRot0Attr().Get()))
    joint.GetLocalPos0Attr().Set(joint.GetLocalPos0Attr().Get() + Gf.Vec3f(turn.TransformDir(Gf.Vec3d(shift))))
    joint.CreateLocalPos1Attr(shift)
    stage.GetRootLayer().Save()
    model = sim.load(path)
    assert np.linalg.norm(model.stage_prims[1].placement[:3]) > 0.01
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()
    written = Usd.Stage.Open(str(write_usd(tmp_path / "motion.usda", model, poses, fps=24, over=path)))
    for prim in ("/World/upper", second):
        ours, theirs = (
            np.array(UsdGeom.XformCache(Usd.TimeCode(0)).GetLocalToWorldTransform(each.GetPrimAtPath(prim)))
            for each in (written, stage)
        )
        assert_allclose(ours, theirs, atol=1e-4)  # centimetres


def test_a_file_written_here_takes_a_motion(tmp_path):
    """Links without a body of their own, merged ones and loose bodies among them."""
    scene = sim.ModelBuilder()
    scene.add_urdf("scenes/robots/manipulator.urdf")
    scene.add_sphere(radius=0.1, mass=1.0, name="ball")
    first = scene.finalize()
    start = sim.forward_kinematics(first, first.q0[None]).numpy()
    model = sim.load(write_usd(tmp_path / "robot.usdc", first, start, fps=24))
    poses = motion_of(model)
    write_usd(tmp_path / "motion.usda", model, poses, fps=24, over=tmp_path / "robot.usdc")
    motion = read_motion(tmp_path / "motion.usda")
    links = [
        next(k for k, name in enumerate(motion.model.link_names) if name.endswith(own)) for own in model.link_names
    ]
    for frame in range(len(poses)):
        assert_allclose(motion.poses(frame / 24)[0, links, :3], poses[frame, :, :3], atol=1e-5)
