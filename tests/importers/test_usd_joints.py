"""Joints of USD files that close loops, that contradict the poses of the stage, and those of copies of a robot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, UsdGeom, UsdPhysics

import sim
from tests.importers.usd_scenes import add_body, add_joint, poses_at, read, stage_of

NO_CONTACT = 0.01  # size of bodies that don't reach each other [m]


def pendulum(tmp_path, name, *hinges):
    """A body beside the x axis, held to the world by these joints at points of that axis."""
    stage = stage_of(tmp_path, name)
    add_body(stage, "body", (0, 0.3, 0), size=NO_CONTACT)
    UsdPhysics.MassAPI(stage.GetPrimAtPath("/body")).CreateDiagonalInertiaAttr(Gf.Vec3f(0.01, 0.02, 0.03))
    for number, (schema, x) in enumerate(hinges):
        joint = add_joint(stage, schema, f"j{number}", None, "body", (x, 0, 0), (x, -0.3, 0))
        if number:
            joint.CreateExcludeFromArticulationAttr(True)
    return read(stage)


def end_of(model, q):
    """Pose of the body after a quarter of a second, from a start at rest."""
    simulator = sim.Simulator(model, dt=1e-3, num_worlds=1, device="cpu", contact=sim.PgsContact(sweeps=100))
    state = simulator.state(np.asarray(q), np.zeros(model.nv))
    for _ in range(250):
        state = simulator.step(state)
    return poses_at(model, state.q.numpy()[0])[0, 0]


def test_a_hinge_that_closes_a_loop(tmp_path):
    """A ball and a hinge at one point: the hinge alone keeps the axis, and the body swings as on a hinge only."""
    ball, hinge = UsdPhysics.SphericalJoint, UsdPhysics.RevoluteJoint
    closed = pendulum(tmp_path, "closed.usda", (ball, 0.0), (hinge, 0.0))
    assert closed.equalities.anchor_names == ("j1/start", "j1/end")
    alone = pendulum(tmp_path, "alone.usda", (hinge, 0.0))
    ends = [end_of(model, model.q0) for model in (closed, alone)]
    assert abs(ends[1][3]) > 0.2  # it swings
    assert_allclose(ends[0], ends[1], atol=2e-3)


@pytest.mark.parametrize("side", ["Lower", "Upper"])
@pytest.mark.parametrize("schema", [UsdPhysics.RevoluteJoint, UsdPhysics.PrismaticJoint])
def test_limits_on_one_side_count(tmp_path, schema, side):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    getattr(add_joint(stage, schema, "j", None, "a"), f"Create{side}LimitAttr")(-0.5 if side == "Lower" else 0.5)
    model = read(stage)
    limits = model.parameters["lower_limit"][0], model.parameters["upper_limit"][0]
    unit = np.radians(1.0) if schema is UsdPhysics.RevoluteJoint else 1.0
    assert_allclose(limits, (-0.5 * unit, np.inf) if side == "Lower" else (-np.inf, 0.5 * unit))


def test_limits_of_a_hinge_that_closes_a_loop_are_reported(tmp_path):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    add_body(stage, "b", (1, 0, 0))
    add_joint(stage, UsdPhysics.RevoluteJoint, "one", "a", "b", (0.5, 0, 0), (-0.5, 0, 0))
    two = add_joint(stage, UsdPhysics.RevoluteJoint, "two", "a", "b", (0.7, 0, 0), (-0.3, 0, 0))
    two.CreateUpperLimitAttr(30.0)
    with pytest.warns(sim.USDWarning, match="'/two': it closes a loop, so that its limits and drive are ignored"):
        read(stage)


@pytest.mark.parametrize("schema", [UsdPhysics.FixedJoint, UsdPhysics.SphericalJoint, UsdPhysics.RevoluteJoint])
def test_joints_that_contradict_the_stage_are_reported(tmp_path, schema):
    """Every kind of joint, whether it carries its body or closes a loop."""
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    add_body(stage, "b", (1, 0, 0))
    joint = add_joint(stage, schema, "j", "a", "b", (0.25, 0, 0), (-0.5, 0, 0))
    with pytest.warns(sim.USDWarning, match=r"'/j': its .* 0\.25 m"):
        model = read(stage, collapse_fixed=False)
    assert_allclose(poses_at(model, model.q0)[0, 1, :3], (0.25, 0, 0), atol=1e-6)  # the joint counts
    joint.CreateExcludeFromArticulationAttr(True)
    add_joint(stage, UsdPhysics.RevoluteJoint, "carrier", "a", "b", (0.5, 0, 0), (-0.5, 0, 0))
    with pytest.warns(sim.USDWarning, match=r"'/j': its frames are 0\.25 m and 0 rad apart"):
        read(stage)


def test_a_fixed_joint_that_turns_its_body_is_reported(tmp_path):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    joint = add_joint(stage, UsdPhysics.FixedJoint, "j", None, "a")
    joint.CreateLocalRot0Attr(Gf.Quatf(np.sqrt(0.5), 0, 0, np.sqrt(0.5)))
    with pytest.warns(sim.USDWarning, match=r"'/j': its frames are 0 m and 1\.57 rad apart"):
        read(stage)


def test_copies_of_a_robot_have_their_own_actuators(tmp_path):
    """As in a file of cloned environments: joints, drives and constraints of the same names under other prims."""
    stage = stage_of(tmp_path)
    for number in range(3):
        top = f"env_{number}"
        UsdGeom.Xform.Define(stage, f"/{top}")
        add_body(stage, f"{top}/a", (0, 2 * number, 0))
        add_body(stage, f"{top}/b", (1, 2 * number, 0))
        joint = add_joint(stage, UsdPhysics.RevoluteJoint, f"{top}/knee", f"{top}/a", f"{top}/b",
                          (0.5, 0, 0), (-0.5, 0, 0))  # fmt: skip
        UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular").CreateStiffnessAttr(10.0)
        add_joint(stage, UsdPhysics.SphericalJoint, f"{top}/loop", f"{top}/a", f"{top}/b", (0.5, 0, 0), (-0.5, 0, 0))
    model = read(stage)
    names = ("knee", "env_1/knee", "env_2/knee")
    assert model.actuator_names == names
    assert tuple(model.joint_names[int(model.dof_link[dof])] for dof in model.actuator_dof) == names
    assert model.equalities.anchor_names == ("loop", "env_1/loop", "env_2/loop")
