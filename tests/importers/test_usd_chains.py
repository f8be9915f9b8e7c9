"""Joints of USD files that leave several axes free, as chains of joints."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.model.poses import compose, inverse
from tests.errors import raises_naming
from tests.importers.usd_scenes import add_body, add_joint, lock, poses_at, read, stage_of
from warp_kernels import types as codes

EVERY = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
CHAINS = {
    "cylindrical": ("transX", "rotX"),
    "planar": ("transX", "transY", "rotZ"),
    "universal": ("rotX", "rotZ"),
    "gantry": ("transX", "transY", "transZ"),
    "floating": EVERY,
}
UNITS = np.eye(3)
HERE = np.array([0.3, -0.1, 0.2, *Rotation.from_rotvec([0.4, -0.3, 0.5]).as_quat()])  # joint frame in either body
THERE = np.array([-0.2, 0.4, 0.1, *Rotation.from_rotvec([-0.2, 0.6, 0.1]).as_quat()])
BASE = np.array([0.5, 0.2, 1.0, *Rotation.from_rotvec([0.1, 0.2, -0.7]).as_quat()])


def moved(free, q):
    """Pose of the second joint frame in the first one: slides, then turns, each about the axes turned before."""
    slide, turn = np.zeros(3), Rotation.identity()
    for axis, x in zip(free, q, strict=True):
        along = x * UNITS["XYZ".index(axis[-1])]
        if axis.startswith("trans"):
            slide = slide + along
        else:
            turn = turn * Rotation.from_rotvec(along)
    return np.concatenate([slide, turn.as_quat()])


def put(prim, pose):
    prim.GetAttribute("xformOp:translate").Set(Gf.Vec3d(*pose[:3]))
    x, y, z, w = pose[3:]
    UsdGeom.Xformable(prim).AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))


def two_bodies(tmp_path, free, q, *, limited=()):
    """Bodies a, welded to the world, and b; a joint that leaves these axes free, at the coordinates q."""
    stage = stage_of(tmp_path)
    b_pose = compose(compose(BASE, HERE), compose(moved(free, q), inverse(THERE)))
    put(add_body(stage, "a", size=0.01), BASE)
    put(add_body(stage, "b", size=0.01), b_pose)
    weld = add_joint(stage, UsdPhysics.FixedJoint, "weld", None, "a", BASE[:3])
    weld.CreateLocalRot0Attr(quaternion(BASE))
    joint = add_joint(stage, UsdPhysics.Joint, "j", "a", "b", HERE[:3], THERE[:3])
    joint.CreateLocalRot0Attr(quaternion(HERE))
    joint.CreateLocalRot1Attr(quaternion(THERE))
    lock(joint, *(axis for axis in EVERY if axis not in free))
    for axis in limited:
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(-50.0)
        limit.CreateHighAttr(50.0)
    return stage, joint


def quaternion(pose):
    x, y, z, w = (float(number) for number in pose[3:])
    return Gf.Quatf(w, x, y, z)


@pytest.mark.parametrize("free", CHAINS.values(), ids=CHAINS)
def test_chains_move_as_their_axes(tmp_path, free):
    """Coordinates of the file's poses, and poses of other coordinates, against a product of poses."""
    rng = np.random.default_rng(len(free))
    q = rng.uniform(-0.8, 0.8, len(free))
    stage, _ = two_bodies(tmp_path, free, q, limited=free[-1:])
    model = read(stage)
    assert_allclose(model.q0, q, atol=2e-6)
    kinds = [codes.PRISMATIC if axis.startswith("trans") else codes.REVOLUTE for axis in free]
    assert [int(kind) for kind in model.joint_type if kind != codes.FIXED] == kinds
    assert [name for name in model.joint_names if name.startswith("j_")] == [f"j_{axis}" for axis in free]
    other = rng.uniform(-1.0, 1.0, len(free))
    link = model.link_names.index("b")
    expected = compose(compose(BASE, HERE), moved(free, other))
    pose = poses_at(model, other)[0, link]
    assert_allclose(pose[:3], expected[:3], atol=2e-6)  # the link's frame is at the joint, along the body's axes
    axes = Rotation.from_quat(expected[3:]) * Rotation.from_quat(THERE[3:]).inv()
    assert (Rotation.from_quat(pose[3:]).inv() * axes).magnitude() < 2e-6


@pytest.mark.parametrize("free", CHAINS.values(), ids=CHAINS)
def test_chains_whose_bodies_are_swapped(tmp_path, free):
    """The second body is the one that stands: the same coordinates, and the inverse motion."""
    rng = np.random.default_rng(len(free))
    q = rng.uniform(-0.8, 0.8, len(free))
    stage, _ = two_bodies(tmp_path, free, q, limited=free[-1:])
    stage.RemovePrim("/weld")
    b_pose = compose(compose(BASE, HERE), compose(moved(free, q), inverse(THERE)))
    weld = add_joint(stage, UsdPhysics.FixedJoint, "weld", None, "b", b_pose[:3])
    weld.CreateLocalRot0Attr(quaternion(b_pose))
    model = read(stage)
    names = [name for name in model.joint_names if name.startswith("j_")]
    assert names == [f"j_{axis}" for axis in reversed(free)]
    assert_allclose(model.q0, q[::-1], atol=5e-6)
    other = rng.uniform(-1.0, 1.0, len(free))
    a = poses_at(model, other[::-1])[0, model.link_names.index("a")]
    expected = compose(compose(b_pose, THERE), inverse(moved(free, other)))
    assert_allclose(a[:3], expected[:3], atol=5e-6)
    axes = Rotation.from_quat(expected[3:]) * Rotation.from_quat(HERE[3:]).inv()
    assert (Rotation.from_quat(a[3:]).inv() * axes).magnitude() < 5e-6


def test_three_free_turns_in_a_chain_are_a_ball(tmp_path):
    free = ("transZ", "rotX", "rotY", "rotZ")
    q = np.array([0.3, 0.4, -0.5, 0.6])
    stage, _ = two_bodies(tmp_path, free, q)
    model = read(stage)
    assert [int(kind) for kind in model.joint_type if kind != codes.FIXED] == [codes.PRISMATIC, codes.SPHERICAL]
    expected = compose(compose(compose(BASE, HERE), moved(free, q)), inverse(THERE))
    pose = poses_at(model, model.q0)[0, model.link_names.index("b")]
    origin = compose(expected, np.concatenate([THERE[:3], [0, 0, 0, 1]]))
    assert_allclose(pose[:3], origin[:3], atol=2e-6)
    assert (Rotation.from_quat(pose[3:]).inv() * Rotation.from_quat(expected[3:])).magnitude() < 2e-6


def test_limits_drives_and_friction_of_each_axis(tmp_path):
    stage, joint = two_bodies(tmp_path, ("transX", "rotX"), (0.0, 0.0))
    for axis, stiffness in (("transX", 100.0), ("rotX", 2.0)):
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(-0.4)
        limit.CreateHighAttr(30.0)
        drive = UsdPhysics.DriveAPI.Apply(joint.GetPrim(), axis)
        drive.CreateStiffnessAttr(stiffness)
        drive.CreateDampingAttr(0.1 * stiffness)
    model = read(stage)
    degree = np.radians(1.0)
    assert_allclose(model.parameters["lower_limit"], [-0.4, -0.4 * degree], rtol=1e-6)
    assert_allclose(model.parameters["upper_limit"], [30.0, 30.0 * degree], rtol=1e-6)
    assert model.actuator_names == ("j_transX", "j_rotX")
    assert_allclose(model.parameters["actuator_kp"], [100.0, 2.0 / degree], rtol=1e-6)
    assert_allclose(model.parameters["actuator_kd"], [10.0, 0.2 / degree], rtol=1e-6)


def test_bodies_of_a_chain_do_not_collide(tmp_path):
    stage, _ = two_bodies(tmp_path, ("transX", "rotX"), (0.0, 0.0), limited=("rotX",))
    model = read(stage, collapse_fixed=False)
    assert [model.link_names[geometry.link] for geometry in model.geometries] == ["a", "b"]
    assert (0, 1) in model.excluded_pairs


def test_a_joint_that_holds_nothing_is_left_out(tmp_path):
    stage, _ = two_bodies(tmp_path, EVERY, np.zeros(6))
    model = read(stage)
    assert [int(kind) for kind in model.joint_type].count(codes.FREE) == 1


def test_a_chain_that_contradicts_the_stage_is_reported(tmp_path):
    stage, joint = two_bodies(tmp_path, ("transX", "rotX"), (0.2, 0.3), limited=("rotX",))
    joint.CreateLocalPos0Attr(Gf.Vec3f(*(HERE[:3] + Rotation.from_quat(HERE[3:]).apply([0, 0.25, 0]))))
    with pytest.warns(sim.USDWarning, match=r"'/j': its bodies are 0\.25 m"):
        read(stage)


def test_a_chain_that_closes_a_loop_is_refused(tmp_path):
    stage, joint = two_bodies(tmp_path, ("transX", "rotX"), (0.2, 0.3), limited=("rotX",))
    joint.CreateExcludeFromArticulationAttr(True)
    add_joint(stage, UsdPhysics.RevoluteJoint, "carrier", "a", "b")
    with raises_naming("'/j'", "joint", "axes", "loop", error=sim.ImportFileError):
        read(stage)
