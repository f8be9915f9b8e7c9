"""Kinematic bodies of USD are links whose pose is an input."""

import numpy as np
import pytest
from pxr import Gf, Usd, UsdPhysics

import sim
from sim.usd import write_usd
from tests.importers.usd_scenes import add_body, read, stage_of


def test_a_kinematic_body_is_a_link_with_a_pose_that_is_an_input(tmp_path):
    stage = stage_of(tmp_path)
    hand = add_body(stage, "hand", (1, 2, 3))
    add_body(stage, "ball")
    UsdPhysics.RigidBodyAPI(hand).CreateKinematicEnabledAttr(True)
    model = read(stage)
    assert model.kinematic_links == ("hand",)
    assert model.nv == 6
    link = model.link_names.index("hand")
    np.testing.assert_allclose(model.parameters["joint_placement"][link], (1, 2, 3, 0, 0, 0, 1))


def test_written_and_read(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("hand", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("grip", "fixed", parent="world", child="hand", position=(0, 0.2, 1), kinematic=True)
    builder.add_link("arm", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("elbow", "revolute", parent="hand", child="arm", axis=(0, 1, 0))
    model = builder.finalize("float64")
    path = write_usd(tmp_path / "hand.usda", model, sim.forward_kinematics(model, model.q0[None]), fps=30)
    again = sim.load(path, dtype="float64")
    assert again.kinematic_links == ("hand",)
    assert again.joint_names == model.joint_names
    np.testing.assert_array_equal(again.parameters["joint_placement"], model.parameters["joint_placement"])


def test_a_kinematic_body_on_a_joint_that_moves_it_is_noted(tmp_path):
    stage = stage_of(tmp_path)
    base, arm = add_body(stage, "base"), add_body(stage, "arm")
    joint = UsdPhysics.RevoluteJoint.Define(stage, "/hinge")
    joint.CreateBody1Rel().SetTargets([arm.GetPath()])
    joint.CreateLocalPos0Attr(Gf.Vec3f(0, 0, 0))
    for body in (base, arm):
        UsdPhysics.RigidBodyAPI(body).CreateKinematicEnabledAttr(True)
    with pytest.warns(sim.USDWarning, match="'/arm' is a kinematic body on joint '/hinge', which moves it here"):
        model = read(stage)
    assert model.kinematic_links == ("base",)


def test_a_free_joint_with_a_prescribed_velocity_is_a_kinematic_body_elsewhere(tmp_path):
    """Other programs don't let it fall; read again, it has its velocity."""
    builder = sim.ModelBuilder()
    builder.add_link("hand", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("lead", "free", child="hand", position=(0, 0.2, 1), kinematic=True)
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    model = builder.finalize("float64")
    path = write_usd(tmp_path / "hand.usda", model, sim.forward_kinematics(model, model.q0[None]), fps=30)
    stage = Usd.Stage.Open(str(path))
    bodies = [UsdPhysics.RigidBodyAPI(prim) for prim in stage.Traverse()]
    found = {body.GetPath().name: body.GetKinematicEnabledAttr().Get() for body in bodies if body}
    assert found == {"hand": True, "ball": False}
    again = sim.load(path, dtype="float64")
    assert again.prescribed.tolist() == [True] * 6 + [False] * 6
    assert again.kinematic_links == ()
    np.testing.assert_array_equal(again.q0, model.q0)
