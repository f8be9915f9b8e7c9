"""Several joints between the same two bodies of USD files, as MuJoCo's converter and Newton write them."""

import contextlib
from pathlib import Path

import mujoco
import newton
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.model.poses import compose, inverse
from sim.usd import write_usd
from tests.errors import quietly, strictly
from tests.importers.usd_scenes import add_body, add_joint, assert_same_models, poses_at, read, stage_of

SCHEMAS = {"hinge": UsdPhysics.RevoluteJoint, "slide": UsdPhysics.PrismaticJoint, "ball": UsdPhysics.SphericalJoint}
BODIES = {
    "hinges": '<joint name="z" axis="0 0 1"/><joint name="a" axis="0 1 1"/><joint name="m" axis="1 0 0"/>',
    "hinges apart": '<joint name="z" axis="0 1 0"/><joint name="a" axis="0 1 0" pos="0.3 0 0.1"/>',
    "hinge before slide": '<joint name="z" axis="0 0 1" pos="0.2 0 0"/><joint name="a" type="slide" axis="1 0 0"/>',
    "planar": '<joint name="z" type="slide" axis="1 0 0"/><joint name="b" type="slide" axis="0 1 1"/>'
    '<joint name="a" axis="1 0 1" pos="0 0.2 0"/>',
    "ball after slides": '<joint name="z" type="slide" axis="1 0 0"/><joint name="b" type="slide" axis="0 1 0"/>'
    '<joint name="a" type="ball" pos="0.1 0 0"/>',
    "references": '<joint name="z" axis="0 0 1" ref="0.5" range="-1 2"/>'
    '<joint name="a" axis="0 1 0" pos="0.1 0 0" ref="-0.3" springref="0.2" stiffness="2"/>'
    '<joint name="m" type="slide" axis="1 0 0" ref="0.7"/>',
    "Euler angles": '<joint name="z" axis="1 0 0"/><joint name="a" axis="0 1 0"/><joint name="m" axis="1 0 0"/>',
}
SCENE = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="base" pos="0.1 0.2 1" quat="0.8 0.1 0.5 0.2"><joint name="mount" axis="0 1 0"/>
    <geom type="box" size="0.1 0.2 0.3"/>
    <body name="arm" pos="0.4 0 0.1" quat="0.7 0 0.7 0.1">{}<geom type="box" size="0.3 0.1 0.2" pos="0.1 0 0"/></body>
  </body>
</worldbody></mujoco>"""


def pose_of(position, quaternion):
    w, x, y, z = quaternion
    return np.array([*position, x, y, z, w])


def converted(tmp_path, model):
    """A stage of MuJoCo's model at its initial coordinates, as its converter would write it."""
    data, stage = mujoco.MjData(model), stage_of(tmp_path)
    mujoco.mj_forward(model, data)
    scene = UsdPhysics.Scene.Define(stage, "/scene").GetPrim()
    scene.CreateAttribute("mjc:compiler:angle", Sdf.ValueTypeNames.Token).Set("radian")
    poses = [pose_of(*both) for both in zip(data.xpos, data.xquat, strict=True)]
    for body in range(1, model.nbody):
        prim = add_body(stage, model.body(body).name, poses[body][:3], size=0.01, mass=float(model.body_mass[body]))
        x, y, z, w = poses[body][3:]
        UsdGeom.Xformable(prim).AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))
        api = UsdPhysics.MassAPI(prim)
        api.CreateDiagonalInertiaAttr(Gf.Vec3f(*model.body_inertia[body]))
        w, x, y, z = map(float, model.body_iquat[body])
        api.CreatePrincipalAxesAttr(Gf.Quatf(w, x, y, z))
        api.CreateCenterOfMassAttr(Gf.Vec3f(*model.body_ipos[body]))
    for number in range(model.njnt):
        joint, body = model.joint(number), int(model.jnt_bodyid[number])
        parent = int(model.body_parentid[body])
        kind = ("free", "ball", "slide", "hinge")[int(joint.type[0])]
        turn = Rotation.align_vectors(joint.axis, [0, 0, 1])[0]
        own = np.array([*joint.pos, *turn.as_quat()])
        above = compose(compose(inverse(poses[parent]), poses[body]), own)
        prim = add_joint(
            stage, SCHEMAS[kind], joint.name, model.body(parent).name if parent else "", model.body(body).name,
            above[:3], own[:3],
        )  # fmt: skip
        prim.CreateAxisAttr("Z")
        for side, (x, y, z, w) in enumerate((above[3:].tolist(), own[3:].tolist())):
            getattr(prim, f"CreateLocalRot{side}Attr")(Gf.Quatf(w, x, y, z))
        if kind != "ball":
            unit = np.degrees(1.0) if kind == "hinge" else 1.0
            prim.GetPrim().CreateAttribute("mjc:ref", Sdf.ValueTypeNames.Double).Set(float(model.qpos0[number]))
            if model.jnt_limited[number]:
                prim.CreateLowerLimitAttr(unit * joint.range[0])
                prim.CreateUpperLimitAttr(unit * joint.range[1])
    return stage


@pytest.mark.parametrize("name", BODIES)
def test_joints_in_series_move_as_in_mujoco(tmp_path, name):
    """Poses and mass matrix at other coordinates than those of the file; limits; q0."""
    theirs = mujoco.MjModel.from_xml_string(SCENE.format(BODIES[name]))
    model, data = read(converted(tmp_path, theirs)), mujoco.MjData(theirs)
    assert model.joint_names == tuple(theirs.joint(number).name for number in range(theirs.njnt))
    ball = "ball" in BODIES[name]
    expected = [*theirs.qpos0[:-4], 0, 0, 0, 1] if ball else theirs.qpos0
    assert_allclose(model.q0, expected, atol=1e-6)
    if theirs.jnt_limited.any():
        assert_allclose(model.parameters["lower_limit"][theirs.jnt_limited == 1], theirs.jnt_range[1:2, 0], rtol=1e-6)
    q = model.q0 + np.random.default_rng(1).uniform(-0.8, 0.8, model.nq)
    if ball:
        q[-4:] /= np.linalg.norm(q[-4:])
    data.qpos[:] = [*q[:-4], q[-1], *q[-4:-1]] if ball else q
    mujoco.mj_forward(theirs, data)
    full = np.zeros((theirs.nv, theirs.nv))
    mujoco.mj_fullM(theirs, data, full)
    assert_allclose(sim.mass_matrix(model, q[None]).numpy()[0], full, atol=1e-5)
    link = model.link("arm")
    pose, mass, com = poses_at(model, q)[0, link], model.parameters["mass"][link], model.parameters["com"][link]
    assert mass == pytest.approx(theirs.body("arm").mass[0])
    assert_allclose(pose[:3] + Rotation.from_quat(pose[3:]).apply(com), data.body("arm").xipos, atol=1e-6)


def test_bodies_that_are_swapped_have_the_series_reversed(tmp_path):
    """The arm is joined to the world, and the base moves: its pose relative to the arm is MuJoCo's."""
    theirs = mujoco.MjModel.from_xml_string(SCENE.format(BODIES["hinges"]))
    stage = converted(tmp_path, theirs)
    stage.RemovePrim("/mount")
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    weld = add_joint(stage, UsdPhysics.FixedJoint, "weld", None, "arm", data.body("arm").xpos)
    w, x, y, z = data.body("arm").xquat
    weld.CreateLocalRot0Attr(Gf.Quatf(w, x, y, z))
    arm = pose_of(data.body("arm").xpos, data.body("arm").xquat)
    model = read(stage)
    assert model.joint_names[-3:] == ("m", "a", "z")
    q = np.array([0.4, -0.7, 0.5])
    data.qpos[1:] = q[::-1]
    mujoco.mj_forward(theirs, data)
    base, moved = (pose_of(data.body(name).xpos, data.body(name).xquat) for name in ("base", "arm"))
    expected = compose(arm, compose(inverse(moved), base))
    link = model.link("base")
    found, com = poses_at(model, q)[0, link], model.parameters["com"][link]
    assert (Rotation.from_quat(found[3:]).inv() * Rotation.from_quat(expected[3:])).magnitude() < 1e-6
    # The link's frame is at its joint, the body's at its centre.
    assert_allclose(found[:3] + Rotation.from_quat(found[3:]).apply(com), expected[:3], atol=1e-6)


def test_coordinates_of_poses_that_were_moved(tmp_path):
    """A body three hinges away from where its joints are zero, and a state that another program begins at."""
    theirs = mujoco.MjModel.from_xml_string(SCENE.format(BODIES["hinges"]))
    stage = converted(tmp_path, theirs)
    data, q = mujoco.MjData(theirs), np.array([0.0, 0.9, -0.6, 0.7])
    data.qpos[:] = q
    mujoco.mj_forward(theirs, data)
    arm = stage.GetPrimAtPath("/arm")
    arm.GetAttribute("xformOp:translate").Set(Gf.Vec3d(*data.body("arm").xpos))
    w, x, y, z = data.body("arm").xquat
    arm.GetAttribute("xformOp:orient").Set(Gf.Quatd(w, x, y, z))
    assert_allclose(read(stage).q0, q, atol=1e-6)
    # Whole turns are those of the state.
    for name, value in (("z", q[1] + 2.0 * np.pi), ("a", q[2]), ("m", q[3])):
        state = stage.GetPrimAtPath(f"/{name}").CreateAttribute(
            "state:angular:physics:position", Sdf.ValueTypeNames.Float
        )
        state.Set(np.degrees(value))
    assert_allclose(read(stage).q0, q + 2.0 * np.pi * np.eye(4)[1], atol=1e-6)
    stage.GetPrimAtPath("/a").GetAttribute("state:angular:physics:position").Set(80.0)
    with pytest.warns(sim.USDWarning, match="'/a': its state differs"):
        read(stage)


def test_frames_that_never_coincide_are_reported(tmp_path):
    stage = converted(tmp_path, mujoco.MjModel.from_xml_string(SCENE.format(BODIES["hinges"])))
    position = UsdPhysics.Joint(stage.GetPrimAtPath("/a")).GetLocalPos0Attr()
    position.Set(position.Get() + Gf.Vec3f(0.1, 0, 0))
    with pytest.warns(sim.USDWarning, match="'/a': its frames and those of '/z', which joins the same bodies"):
        read(stage)


@pytest.mark.parametrize("adds", [False, True])
def test_a_second_hinge_on_the_axis_of_the_first(tmp_path, adds):
    """A door has two, which move together; with jointsAddMobility each of them moves."""
    stage = stage_of(tmp_path)
    UsdPhysics.ArticulationRootAPI.Apply(add_body(stage, "wall"))
    add_body(stage, "door", (1, 0, 0))
    for name, height in (("top", 0.5), ("bottom", -0.5)):
        joint = add_joint(stage, UsdPhysics.RevoluteJoint, name, "wall", "door", (0.5, 0, height), (-0.5, 0, height))
        joint.CreateAxisAttr("Z")
    if adds:
        attribute = stage.GetPrimAtPath("/wall").CreateAttribute("newton:jointsAddMobility", Sdf.ValueTypeNames.Bool)
        attribute.Set(True)
    model = read(stage)
    assert model.nv == 6 + (2 if adds else 1)
    assert model.equalities.anchor_names == (() if adds else ("bottom/start", "bottom/end"))


def test_a_humanoid_of_newton(tmp_path):
    """The file that MuJoCo's converter made of its humanoid: joints in the order of the file, actuators, masses."""
    path = Path(newton.__file__).parent / "tests/assets/humanoid_mjc.usda"
    model = quietly(sim.load, path, dtype="float64")
    assert model.nv == 27
    assert model.joint_names[1:4] == ("abdomen_z", "abdomen_y", "abdomen_x")
    hip = model.joint_names.index("right_hip_x")
    assert model.joint_names[hip : hip + 3] == ("right_hip_x", "right_hip_z", "right_hip_y")
    assert len(model.actuator_names) == 21
    assert model.parameters["actuator_gear"][model.actuator_names.index("abdomen_z")] == 67.5
    peer = newton.ModelBuilder()
    quietly(peer.add_usd, str(path))
    masses = {label.rsplit("/", 1)[-1]: mass for label, mass in zip(peer.body_label, peer.body_mass, strict=True)}
    found = {name: mass for name, mass in zip(model.link_names, model.parameters["mass"], strict=True) if mass}
    assert found == pytest.approx(masses, rel=1e-5)


def written(tmp_path, model, **options):
    return write_usd(tmp_path / "model.usda", model, poses_at(model, model.q0), fps=30, **options)


@pytest.mark.parametrize("massless_bodies", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_joints_in_series_come_back(tmp_path, name, massless_bodies):
    (tmp_path / "model.xml").write_text(SCENE.format(BODIES[name]))
    model = quietly(sim.load, tmp_path / "model.xml", dtype="float64")
    path = written(tmp_path, model, massless_bodies=massless_bodies)
    assert_same_models(model, strictly(sim.load, path, dtype="float64"))
    stage = Usd.Stage.Open(str(path))
    bodies = [prim.GetName() for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    # Newton has no balls in series, and takes slides first and one point for all hinges.
    whole = massless_bodies or name in ("ball after slides", "hinge before slide", "hinges apart", "references")
    assert len(bodies) == (model.num_links if whole else 2)
    if not whole:
        root = next(prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.ArticulationRootAPI))
        assert root.GetAttribute("newton:jointsAddMobility").Get() is True


def test_series_are_read_from_edited_frames(tmp_path):
    """What another program states counts, not what was stored."""
    (tmp_path / "model.xml").write_text(SCENE.format(BODIES["hinges"]))
    model = sim.load(tmp_path / "model.xml", dtype="float64")
    stage = Usd.Stage.Open(str(written(tmp_path, model)))
    prim = next(prim for prim in stage.Traverse() if prim.GetName() == "m")
    joint = UsdPhysics.RevoluteJoint(prim)
    assert joint.GetAxisAttr().Get() == "X"
    joint.GetAxisAttr().Set("Y")
    again = read(stage)
    q = np.array([0.3, -0.2, 0.5, 0.7])
    before, after = (poses_at(each, q)[0, each.link("arm")] for each in (model, again))
    assert np.abs(before - after).max() > 0.1
    assert_allclose(again.parameters["mass"], model.parameters["mass"])


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("/World/Joints/mount", "backswing:joint_placement", [0.0] * 7),
        ("/World/Joints/z/a", "backswing:joint_placement", [0.0] * 7),
        ("/World/Joints/z", "backswing:axis", [0.0] * 3),
        ("/World/Joints/z/a/m", "state:angular:physics:position", 1e30),
        ("/World/model/arm", "xformOp:translate", (1e300, 0.0, 1e300)),
    ],
)
def test_broken_numbers_are_read_or_refused(tmp_path, path, name, value):
    (tmp_path / "model.xml").write_text(SCENE.format(BODIES["hinges"]))
    model = sim.load(tmp_path / "model.xml", dtype="float64")
    stage = Usd.Stage.Open(str(written(tmp_path, model)))
    attribute = stage.GetPrimAtPath(path).GetAttribute(name)
    assert attribute.Set(value)
    with contextlib.suppress(sim.ImportFileError):
        quietly(read, stage)


def test_series_on_a_moved_stage_and_in_keyframes(tmp_path):
    text = SCENE.format(BODIES["planar"]).replace(
        "</mujoco>", '<keyframe><key name="k" qpos="0.1 0.2 0.3 0.4"/></keyframe></mujoco>'
    )
    (tmp_path / "model.xml").write_text(text)
    model = sim.load(tmp_path / "model.xml", dtype="float64")
    path, builder = written(tmp_path, model), sim.ModelBuilder()
    turn = Rotation.from_rotvec((0.1, 0.2, 0.3))
    (part,) = builder.add_usd(path, name="copy", position=(1, 2, 3), orientation=turn.as_quat())
    assert_allclose(part.keyframes["k"].q, [0.1, 0.2, 0.3, 0.4])
    moved = builder.finalize("float64")
    assert moved.link_names == tuple(f"copy/{name}" for name in model.link_names)
    poses, others = (poses_at(each, part.keyframes["k"].q)[0] for each in (model, moved))
    assert_allclose(others[:, :3], turn.apply(poses[:, :3]) + np.array((1, 2, 3)), atol=1e-12)


def test_bodies_in_series_may_collide(tmp_path):
    """A joint says whether its bodies collide, which massless links between them allow."""
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("free", "free", child="base")
    builder.add_link("between")
    builder.add_joint("one", "revolute", parent="base", child="between", axis=(1, 0, 0))
    builder.add_link("arm", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("two", "revolute", parent="between", child="arm", axis=(0, 1, 0))
    builder.add_part("base", ("base", "between", "arm"), ("free", "one", "two"))
    for name in ("base", "arm"):
        builder.add_geometry(name, "sphere", size=0.1)
    for excluded in (False, True):
        if excluded:
            builder.exclude_collision("base", "arm")
        model = builder.finalize("float64")
        path = written(tmp_path, model)
        assert len(model.excluded_pairs) == excluded
        assert_same_models(model, strictly(sim.load, path, dtype="float64"))
        stage = Usd.Stage.Open(str(path))
        assert "between" not in {prim.GetName() for prim in stage.Traverse()}
        path.unlink()
