"""Cameras of the model: where they are beside MuJoCo, files, pictures, messages."""

import mujoco
import numpy as np
import pytest

import sim
from sim.render import view_of

SCENE = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 .1"/>
<body name="b" pos="0.3 0 1" euler="0 30 0"><freejoint/><geom size=".1"/>
<camera name="sensor" sensorsize="0.01 0.008" focal="0.01 0.01" resolution="640 480"/>
<camera name="beside" mode="track" pos="1 0 0.2" euler="10 20 30"/>
<camera name="along" mode="trackcom" pos="1 0 0" fovy="30"/>
<body name="k" pos="0.2 0 0"><joint type="hinge" axis="0 1 0" pos="0.02 0 0"/>
<geom type="capsule" size=".03" fromto="0 0 0 .2 0 0"/><camera name="hand" pos="0.2 0 0.1" euler="0 -90 0"/></body>
</body>
<camera name="fixed" pos="0 -3 1" xyaxes="1 0 0 0 0 1"/>
<body name="post" pos="1 1 0"><geom type="box" size=".1 .1 .3"/><camera name="up there" pos="0 0 0.5" euler="0 90 0"/>
{more}</body></worldbody></mujoco>"""
QUARTER = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))  # turn about z


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(SCENE.format(more=""))
    return path


def largest_difference(path, model):
    """Return the largest difference in position and axes of all cameras, for random states."""
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data, random, worst = mujoco.MjData(theirs), np.random.default_rng(0), 0.0
    for _ in range(5):
        turn = random.normal(size=4)
        data.qpos[:] = [*random.normal(size=3), *turn / np.linalg.norm(turn), random.normal()]
        mujoco.mj_forward(theirs, data)
        q, _ = sim.from_mujoco(model, data.qpos[None], np.zeros((1, theirs.nv)))
        poses = sim.forward_kinematics(model, q).numpy()[0]
        for camera in range(theirs.ncam):
            seen = view_of(model, theirs.camera(camera).name, poses)
            worst = max(worst, np.abs(np.subtract(seen.position, data.cam_xpos[camera])).max())
            worst = max(worst, np.abs(seen.axes() - data.cam_xmat[camera].reshape(3, 3).T).max())
            assert seen.fov == pytest.approx(theirs.cam_fovy[camera], rel=1e-6)
    assert theirs.ncam == len(model.cameras) == 6
    return worst


def test_cameras_are_where_those_of_mujoco_are(scene, tmp_path):
    """On moving and merged links, fixed and following; also after a round trip through an exported file."""
    model = sim.load(scene, dtype="float64")
    assert largest_difference(scene, model) < 1e-12
    written = sim.exporters.write_mjcf(tmp_path / "written.xml", model)
    assert largest_difference(written, sim.load(written, dtype="float64")) < 1e-12


def test_cameras_that_turn_to_a_body_are_named(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(SCENE.format(more='<camera name="looks" mode="targetbody" target="b"/>'))
    with pytest.warns(sim.MJCFWarning, match="looks"):
        model = sim.load(path)
    assert "looks" not in [camera.name for camera in model.cameras]


def test_a_camera_follows_a_point_of_a_merged_link():
    scene = sim.ModelBuilder()
    scene.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("free", "free", child="body")
    scene.add_link("plate", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("weld", "fixed", parent="body", child="plate", position=(0.0, 0.0, 2.0))
    for follows in ("point", "centre of mass"):
        scene.add_camera(follows, "plate", (0.0, -5.0, 0.0), follows=follows, point=(1.0, 0.0, 0.0))
    model = scene.finalize("float64")
    poses = sim.forward_kinematics(model, np.array([[0.0, 0.0, 0.0, *QUARTER]])).numpy()[0]
    np.testing.assert_allclose(view_of(model, "point", poses).position, (0.0, -4.0, 2.0), atol=1e-12)
    np.testing.assert_allclose(view_of(model, "centre of mass", poses).position, (0.0, -5.0, 1.0), atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"name": "a"}, "'a'"),
        ({"fov": 180.0}, "fov"),
        ({"follows": "sun"}, "'sun'"),
        ({"position": (0.0, 0.0)}, "position"),
        ({"orientation": (0.0, 0.0, 0.0, 0.0)}, "orientation"),
        ({"point": (0.0, np.nan, 0.0)}, "point"),
    ],
)
def test_wrong_cameras_are_refused(wrong, named):
    scene = sim.ModelBuilder()
    scene.add_camera("a")
    with pytest.raises(sim.ModelError, match=named):
        scene.add_camera(**{"name": "b"} | wrong)
    assert list(scene.cameras) == ["a"]


def test_unknown_links_and_cameras_are_named():
    scene = sim.ModelBuilder()
    scene.add_camera("a", "nowhere")
    with pytest.raises(sim.ModelError, match="'nowhere'"):
        scene.finalize()
    model = sim.ModelBuilder().finalize()
    with pytest.raises(sim.ModelError, match="'a'"):
        model.camera("a")


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_cameras_survive_a_stage(scene, tmp_path, suffix):
    """The same views at other states; the camera that sees the whole motion isn't one of the model."""
    model = sim.load(scene, dtype="float64")
    written = tmp_path / f"scene{suffix}"
    sim.usd.write_usd(written, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24.0)
    again = sim.load(written, dtype="float64")
    assert {camera.name for camera in again.cameras} == {camera.name for camera in model.cameras}
    q = model.q0 + np.array([0.3, -0.2, 0.5, 0.0, 0.0, 0.0, 0.0, 0.7])
    q[3:7] = (0.5, 0.5, -0.5, 0.5)
    poses, others = (sim.forward_kinematics(each, q[None]).numpy()[0] for each in (model, again))
    for camera in model.cameras:
        one, other = view_of(model, camera.name, poses), view_of(again, camera.name, others)
        np.testing.assert_allclose(one.position, other.position, atol=1e-6)
        np.testing.assert_allclose(one.axes(), other.axes(), atol=1e-6)
        assert one.fov == other.fov


def test_cameras_of_other_programs_are_read(tmp_path):
    """On a body of a stage with y up and centimetres."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.CreateNew(str(tmp_path / "stage.usda"))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    ball = UsdGeom.Sphere.Define(stage, "/Ball")
    ball.AddTranslateOp().Set(Gf.Vec3d(0.0, 100.0, 0.0))
    for schema in (UsdPhysics.RigidBodyAPI, UsdPhysics.CollisionAPI):
        schema.Apply(ball.GetPrim())
    for path, height in (("/Ball/Ahead", 10.0), ("/Above", 300.0)):
        camera = UsdGeom.Camera.Define(stage, path)
        camera.AddTranslateOp().Set(Gf.Vec3d(0.0, height, 0.0))
        camera.CreateFocalLengthAttr(20.0)
        camera.CreateVerticalApertureAttr(40.0)
    stage.Save()
    model = sim.load(tmp_path / "stage.usda", dtype="float64")
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()[0]
    for name, height in (("Ahead", 1.1), ("Above", 3.0)):
        seen = view_of(model, name, poses)
        np.testing.assert_allclose(seen.position, (0.0, 0.0, height), atol=1e-9)
        np.testing.assert_allclose(seen.axes(), ((1, 0, 0), (0, 0, 1), (0, -1, 0)), atol=1e-9)
        assert seen.fov == pytest.approx(90.0)


@pytest.mark.parametrize("name", ["Camera", "Joints", "Lights"])
def test_names_of_prims_that_every_stage_has(name, tmp_path):
    scene = sim.ModelBuilder()
    scene.add_sphere(radius=0.1, mass=1.0)
    scene.add_camera(name, position=(0.0, 0.0, 3.0))
    model = scene.finalize()
    sim.usd.write_usd(tmp_path / "a.usda", model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24.0)
    assert [camera.name for camera in sim.load(tmp_path / "a.usda").cameras] == [name]
