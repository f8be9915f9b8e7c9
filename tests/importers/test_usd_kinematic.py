"""Kinematic bodies of USD are links whose motion is prescribed."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pxr import Gf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.importers.usd.motion import read_motion
from sim.usd import write_usd
from tests.importers.usd_scenes import add_body, add_joint, read, stage_of


def lead(*bodies):
    for body in bodies:
        UsdPhysics.RigidBodyAPI(body).CreateKinematicEnabledAttr(True)


def is_kinematic(path):
    """What UsdPhysics says of each body of a file, by the name of its prim."""
    stage = Usd.Stage.Open(str(path))
    bodies = [UsdPhysics.RigidBodyAPI(prim) for prim in stage.Traverse()]
    return {body.GetPath().name: body.GetKinematicEnabledAttr().Get() for body in bodies if body}


def write_and_read(tmp_path, model):
    path = write_usd(tmp_path / "scene.usda", model, sim.forward_kinematics(model, model.q0[None]), fps=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return path, sim.load(path, dtype="float64")


def test_a_kinematic_body_is_where_the_file_has_it_and_has_a_given_velocity(tmp_path):
    stage = stage_of(tmp_path)
    hand = add_body(stage, "hand", (1, 2, 3))
    add_body(stage, "ball")
    lead(hand)
    UsdGeom.Xformable(hand).AddRotateXYZOp().Set(Gf.Vec3f(20, 30, 40))
    model = read(stage)
    assert model.link_names == ("hand", "ball")
    assert model.prescribed.tolist() == [True] * 6 + [False] * 6
    matrix = UsdGeom.XformCache().GetLocalToWorldTransform(hand)
    (pose, _) = sim.forward_kinematics(model, model.q0[None]).numpy()[0]
    assert_allclose(pose[:3], matrix.ExtractTranslation())
    assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), np.array(matrix.ExtractRotationMatrix()).T, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_box_on_a_tray_is_carried_along(tmp_path, dtype):
    """The impact at u gives it mu u of the velocity v, friction the rest: a lag of (v - mu u)^2 / (2 mu g)."""
    stage = stage_of(tmp_path)
    lead(add_body(stage, "tray", (0, 0, 0), size=2.0))
    add_body(stage, "box", (0, 0, 1.1), size=0.2)
    stage.GetRootLayer().Save()
    model = sim.load(stage.GetRootLayer().realPath, dtype=dtype)
    simulator = sim.Simulator(model, dt=1 / 1000, device="cpu")
    qd = np.zeros((1, model.nv))
    qd[0, model.qd_slice("tray_kinematic")][:3] = velocity = (0.6, 0.0, 0.2)
    state = simulator.rollout(simulator.state(model.q0[None], qd), steps=500).final_state
    tray, box = sim.forward_kinematics(model, state.q).numpy()[0, :, :3] - [(0, 0, 0), (0, 0, 1.1)]
    assert_allclose(tray, 0.5 * np.array(velocity), atol=1e-5)
    assert_allclose(tray[0] - box[0], 0.4**2 / (2 * 9.81), rtol=0.03)  # half a step of 0.4 m/s is 2.5 % of it
    assert_allclose(box[2], tray[2], atol=1e-3)
    assert_allclose(state.qd.numpy()[0, model.qd_slice("box_free")][:3], velocity, atol=2e-3)


def test_time_samples_of_a_kinematic_body_lead_it(tmp_path):
    """They aren't part of the model, which a warning says; ``read_motion`` has them."""
    stage = stage_of(tmp_path)
    stage.SetTimeCodesPerSecond(10)
    hand = add_body(stage, "hand", (0.5, 0, 0))
    lead(hand)
    spin = UsdGeom.Xformable(hand).AddRotateZOp()
    for code, (angle, position) in enumerate([(0, (0.5, 0, 0)), (20, (0.6, 0, 0.1)), (90, (0.7, 0.2, 0.1))]):
        spin.Set(angle, code)
        hand.GetAttribute("xformOp:translate").Set(Gf.Vec3d(*position), code)
    with pytest.warns(sim.USDWarning, match="'/hand': the motion of this kinematic body"):
        model = read(stage)
    stored = read_motion(stage.GetRootLayer().realPath)
    dt, steps = 0.01, 20
    path = np.array([stored.poses(k * dt)[:, stored.model.link("hand")] for k in range(steps + 1)])
    rates = sim.difference(model, path[:-1], path[1:]).numpy() / dt
    simulator = sim.Simulator(model, dt=dt, device="cpu")
    for q, qd in zip(path[:-1], rates, strict=True):
        state = simulator.step(simulator.state(q, qd))
    matrix = UsdGeom.XformCache(2.0).GetLocalToWorldTransform(hand)
    pose = sim.forward_kinematics(model, state.q).numpy()[0, 0]
    assert_allclose(pose[:3], matrix.ExtractTranslation(), atol=1e-12)
    assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), np.array(matrix.ExtractRotationMatrix()).T, atol=1e-7)


def test_a_link_whose_pose_is_a_parameter_comes_back(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("hand", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("grip", "fixed", parent="world", child="hand", position=(0, 0.2, 1), kinematic=True)
    builder.add_link("arm", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("elbow", "revolute", parent="hand", child="arm", axis=(0, 1, 0))
    builder.add_link("tool", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("wrist", "fixed", parent="arm", child="tool", position=(0, 0, 1), kinematic=True)
    model = builder.finalize("float64")
    path, again = write_and_read(tmp_path, model)
    assert is_kinematic(path) == {"hand": True, "arm": False, "tool": False}
    assert again.kinematic_links == model.kinematic_links == ("hand", "tool")
    assert again.joint_names == model.joint_names
    assert_array_equal(again.parameters["joint_placement"], model.parameters["joint_placement"])


def test_joints_with_prescribed_velocities_come_back(tmp_path):
    """What they lead is kinematic in other programs, except for a wheel on a body that isn't."""
    builder = sim.ModelBuilder()
    for name, kind, parent in (
        ("hand", "free", "world"), ("lift", "prismatic", "world"), ("table", "revolute", "lift"),
        ("thing", "spherical", "table"), ("car", "free", "world"), ("wheel", "revolute", "car"),
    ):  # fmt: skip
        builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(
            f"{name} joint", kind, parent=parent, child=name, axis=(0, 0, 1), position=(0, 0.2, 1),
            kinematic=name not in ("thing", "car"),
        )  # fmt: skip
    model = builder.finalize("float64")
    path, again = write_and_read(tmp_path, model)
    led = {"hand": True, "lift": True, "table": True, "thing": False, "car": False, "wheel": False}
    assert is_kinematic(path) == led
    assert (again.joint_names, again.kinematic_links) == (model.joint_names, ())
    assert_array_equal(again.prescribed, model.prescribed)
    assert_array_equal(again.q0, model.q0)
    for name, value in model.parameters.items():
        assert_allclose(again.parameters[name], value, atol=1e-15, err_msg=name)
    ends = []
    for each in (model, again):
        simulator = sim.Simulator(each, dt=1 / 240, device="cpu")
        state = simulator.state(each.q0[None], 0.3 + np.arange(each.nv)[None] / 20)
        ends.append(simulator.rollout(state, steps=30).final_state.q.numpy())
    assert_array_equal(ends[1], ends[0])


def test_what_another_program_says_of_a_body_counts(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("hand", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("lead", "free", child="hand", kinematic=True)
    path, _ = write_and_read(tmp_path, builder.finalize("float64"))
    stage = Usd.Stage.Open(str(path))
    body = next(prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI))
    UsdPhysics.RigidBodyAPI(body).GetKinematicEnabledAttr().Set(False)
    assert not read(stage).prescribed.any()


def test_a_joint_to_what_stands_still_leads_a_kinematic_body(tmp_path):
    """No force acts along it: neither limits nor drives count, nor another joint between the two."""
    stage = stage_of(tmp_path)
    base, arm = add_body(stage, "base", (0, 0, 1)), add_body(stage, "arm", (1, 0, 1))
    lead(base, arm)
    add_joint(stage, UsdPhysics.FixedJoint, "mount", None, "base", (0, 0, 1))
    hinge = add_joint(stage, UsdPhysics.RevoluteJoint, "hinge", "base", "arm", (1, 0, 0))
    hinge.CreateUpperLimitAttr(30.0)
    hinge.CreateLowerLimitAttr(-30.0)
    add_joint(stage, UsdPhysics.SphericalJoint, "ball", "base", "arm", (1, 0, 0))
    motor = stage.DefinePrim("/motor", "MjcActuator")
    motor.CreateRelationship("mjc:target").SetTargets([hinge.GetPath()])
    with (
        pytest.warns(sim.USDWarning, match="'/hinge': its body is kinematic, so that its limits and drive have no eff"),
        pytest.warns(sim.USDWarning, match="'/ball': it joins bodies that no force moves; it has no effect"),
        pytest.warns(
            sim.USDWarning, match="ignored: actuator '/motor', which acts on '/hinge'; only .* a dynamic body"
        ),
    ):
        model = read(stage)
    assert (model.kinematic_links, model.joint_names) == (("base",), ("mount", "hinge"))
    assert model.prescribed.tolist() == [True]


def test_several_free_axes_of_a_kinematic_body_are_given(tmp_path):
    stage = stage_of(tmp_path)
    lead(add_body(stage, "base"))
    joint = add_joint(stage, UsdPhysics.Joint, "planar", None, "base")
    for axis in ("transZ", "rotX", "rotY"):
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(1.0)
        limit.CreateHighAttr(-1.0)
    model = read(stage)
    assert model.joint_names == ("planar_transX", "planar_transY", "planar_rotZ")
    assert model.prescribed.all()


def test_a_chain_between_two_kinematic_bodies_hangs_at_both(tmp_path):
    """Neither is carried by the chain: one end of it is a joint, the other a constraint."""
    stage = stage_of(tmp_path)
    left, right = add_body(stage, "left"), add_body(stage, "right", (2, 0, 0))
    add_body(stage, "rod", (1, 0, 0))
    lead(left, right)
    add_joint(stage, UsdPhysics.SphericalJoint, "first", "left", "rod", (0.5, 0, 0), (-0.5, 0, 0))
    add_joint(stage, UsdPhysics.SphericalJoint, "second", "rod", "right", (0.5, 0, 0), (-0.5, 0, 0))
    model = read(stage)
    assert model.prescribed.sum() == 12
    assert model.equalities.anchor_names == ("second",)
    simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
    qd = np.where(model.prescribed, np.tile([0, 1.0, 0, 0, 0, 0], 3)[: model.nv], 0.0)
    qd[model.qd_slice("left_kinematic")] = qd[model.qd_slice("right_kinematic")] = (0, 1.0, 0, 0, 0, 0)
    state = simulator.rollout(simulator.state(model.q0[None], qd[None]), steps=240).final_state
    poses = sim.forward_kinematics(model, state.q).numpy()[0, [model.link(name) for name in ("left", "rod", "right")]]
    assert_allclose(poses[:, 1], 1.0, atol=5e-3)
