"""Couplings, softness, limits and inertias as other programs read them, and what is read of their edits."""

import mujoco
import newton
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Usd
from scipy.spatial.transform import Rotation

import sim
from sim.usd import write_usd
from tests.errors import quietly, strictly
from tests.exporters.test_newton_motion import IN_SERIES, read_by_newton, written

INERTIA = np.diag([0.1, 0.2, 0.15])
SOFT = sim.Softness((0.005, 0.8), (0.95, 0.99, 0.002, 0.4, 3.0))


def two_arms(**coupling):
    """Two hinges on the world, of which the second follows the first."""
    builder = sim.ModelBuilder()
    for k in range(2):
        builder.add_link(f"arm{k}", mass=1.0 + k, inertia=INERTIA, com=(0.02, 0.1, -0.3))
        builder.add_joint(
            f"joint{k}", "revolute", child=f"arm{k}", axis=(0, 1, 0), position=(k, 0, 0), q0=0.4 - 0.5 * k
        )
    builder.add_joint_coupling("joint1", "joint0", ratio=-2.0, offset=0.3, **coupling)
    return builder.finalize("float64")


def edited(path, prim, **values):
    """Set attributes of a prim, by name without ``newton:``."""
    stage = Usd.Stage.Open(str(path))
    for name, value in values.items():
        stage.GetPrimAtPath(prim).GetAttribute(f"newton:{name}").Set(value)
    stage.Save()
    return path


def test_newton_couples_joints(tmp_path):
    model = two_arms()
    peer = read_by_newton(written(tmp_path, model, model.q0))
    names = [label.rsplit("/", 1)[-1] for label in peer.joint_label]
    sides = [peer.constraint_mimic_joint0.numpy(), peer.constraint_mimic_joint1.numpy()]
    assert [[names[joint] for joint in side] for side in sides] == [["joint1"], ["joint0"]]
    assert_allclose(peer.constraint_mimic_coef0.numpy(), [0.3], rtol=1e-6)
    assert_allclose(peer.constraint_mimic_coef1.numpy(), [-2.0], rtol=1e-6)


def test_a_coupling_that_is_edited_elsewhere(tmp_path):
    model = two_arms(softness=SOFT)
    path, joint = written(tmp_path, model, model.q0), "/World/Joints/joint1"
    back = strictly(sim.load, path, dtype="float64")
    assert back.equalities.coupling_softness == (SOFT,)
    for name in ("ratio", "offset"):
        np.testing.assert_array_equal(back.parameters[f"coupling_{name}"], model.parameters[f"coupling_{name}"])
    back = strictly(sim.load, edited(path, joint, mimicCoef1=-3.0), dtype="float64")
    assert_allclose(back.parameters["coupling_ratio"], [-3.0])
    assert back.equalities.coupling_softness == (SOFT,)
    edited(path, joint, mimicCoef1=-2.0)
    stage = Usd.Stage.Open(str(path))
    stage.GetPrimAtPath(joint).CreateAttribute("newton:mimicEnabled", stage.GetPrimAtPath(joint).GetAttribute(
        "physics:jointEnabled").GetTypeName(), False).Set(False)  # fmt: skip
    stage.Save()
    assert strictly(sim.load, path).equalities.coupling_names == ()


def test_a_coupling_of_a_file_with_annotations_alone(tmp_path):
    model = two_arms()
    path = written(tmp_path, model, model.q0)
    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/World/Joints/joint1")
    for name in ("NewtonMimicAPI", "MjcEqualityJointAPI"):
        prim.RemoveAppliedSchema(name)
    for name in prim.GetAuthoredPropertyNames():
        if name.startswith(("newton:", "mjc:")):
            prim.RemoveProperty(name)
    stage.Save()
    back = sim.load(path, dtype="float64")
    np.testing.assert_array_equal(back.parameters["coupling_ratio"], [-2.0])


@pytest.mark.parametrize("active", [True, False])
def test_a_coupling_that_is_switched(tmp_path, active):
    model = two_arms(active=active)
    path = written(tmp_path, model, model.q0)
    stage = Usd.Stage.Open(str(path))
    enabled = stage.GetPrimAtPath("/World/Joints/joint1").GetAttribute("newton:mimicEnabled")
    assert (not enabled or enabled.Get()) is active
    back = strictly(sim.load, path, dtype="float64")
    assert back.parameters["coupling_active"].tolist() == [float(active)]
    np.testing.assert_array_equal(back.parameters["coupling_ratio"], [-2.0])


def test_a_coupling_of_joints_in_series_is_named(tmp_path):
    equality = '<equality><joint joint1="x" joint2="y" polycoef="0 2 0 0 0"/></equality></mujoco>'
    (tmp_path / "series.xml").write_text(IN_SERIES.replace("</mujoco>", equality))
    model = quietly(sim.load, tmp_path / "series.xml", dtype="float64")
    poses = sim.forward_kinematics(model, model.q0[None])
    with pytest.warns(sim.USDWarning, match="joint 'x' follows 'y', which other programs don't read"):
        write_usd(tmp_path / "series.usda", model, poses, fps=30)
    back = quietly(sim.load, tmp_path / "series.usda", dtype="float64")
    np.testing.assert_array_equal(back.parameters["coupling_ratio"], [2.0])


PLATES = Rotation.random(40, random_state=3).as_matrix()


def test_inertias_of_plates_are_those_of_others(tmp_path):
    """Newton turns principal moments in single precision, and MuJoCo refuses the ones that violate the inequality."""
    builder, moments = sim.ModelBuilder(), np.array([1.0, 2.0, 3.0]) * 1e-3
    for k, axes in enumerate(PLATES):
        builder.add_link(f"plate{k}", mass=1.0, inertia=axes @ np.diag(moments) @ axes.T)
        builder.add_joint(f"free{k}", "free", child=f"plate{k}", position=(k, 0, 0))
    model = builder.finalize("float64")
    path = written(tmp_path, model, model.q0)
    assert refused(read_by_newton(path).body_inertia.numpy()) == 0
    rounded = [axes.astype("f") @ np.diag(moments).astype("f") @ axes.T.astype("f") for axes in PLATES]
    assert refused(rounded) > 5
    np.testing.assert_array_equal(sim.load(path, dtype="float64").parameters["inertia"], model.parameters["inertia"])


def refused(inertias):
    """Return how many inertias MuJoCo refuses."""
    count = 0
    for inertia in np.asarray(inertias, dtype=float):
        spec = mujoco.MjSpec()
        body = spec.worldbody.add_body(mass=1.0, explicitinertial=True)
        body.fullinertia = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        body.add_freejoint()
        try:
            spec.compile()
        except ValueError:
            count += 1
    return count


def test_unphysical_inertias_are_written_as_they_are(tmp_path):
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="3" ixy="0" ixz="0" iyz="0"/></inertial>'
    (tmp_path / "odd.urdf").write_text(f'<robot name="odd"><link name="odd">{inertial}</link></robot>')
    model = quietly(sim.load, tmp_path / "odd.urdf", floating_base=True)
    stage = Usd.Stage.Open(str(written(tmp_path, model, model.q0)))
    (stated,) = (each for prim in stage.Traverse() if (each := prim.GetAttribute("physics:diagonalInertia")))
    assert tuple(stated.Get()) == (1.0, 1.0, 3.0)


LIMITED = """<mujoco><worldbody>
  <body><joint name="hinge" axis="0 1 0" range="-20 30" limited="true" {0}/><geom size="0.1" pos="0.3 0 0"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("text", "softness", "margin"),
    [
        ("", sim.Softness(), 0.0),
        ('solreflimit="0.004 0.9" solimplimit="0.8 0.9 0.01 0.5 2" margin="0.1"',
         sim.Softness((0.004, 0.9), (0.8, 0.9, 0.01, 0.5, 2.0)), 0.1),
    ],
)  # fmt: skip
def test_limits_are_as_soft_in_newton_as_in_mujoco(tmp_path, text, softness, margin):
    (tmp_path / "arm.xml").write_text(LIMITED.format(text))
    model = sim.load(tmp_path / "arm.xml", dtype="float64")
    path = written(tmp_path, model, model.q0)
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    quietly(builder.add_usd, str(path))
    peer = quietly(builder.finalize, device="cpu")
    assert_allclose(peer.mujoco.solreflimit.numpy(), [softness.solref], rtol=1e-6)
    assert_allclose(peer.mujoco.solimplimit.numpy(), [softness.solimp], rtol=1e-6)
    back = strictly(sim.load, path, dtype="float64")
    assert back.limit_softness == model.limit_softness == (softness,)
    assert_allclose(back.parameters["limit_margin"], [margin])


def test_springs_of_limits_in_newton(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=INERTIA, com=(0, 0, -0.3))
    limits = sim.Limits(-0.5, 0.7, stiffness=80.0, damping=2.0)
    builder.add_joint("hinge", "revolute", child="arm", axis=(0, 1, 0), limits=limits)
    model = builder.finalize("float64")
    path = written(tmp_path, model, model.q0)
    peer = read_by_newton(path)
    assert_allclose(peer.joint_limit_ke.numpy(), [80.0], rtol=1e-6)
    assert_allclose(peer.joint_limit_kd.numpy(), [2.0], rtol=1e-6)
    back = strictly(sim.load, path, dtype="float64")
    for name in ("stiffness", "damping"):
        np.testing.assert_array_equal(back.parameters[f"limit_{name}"], model.parameters[f"limit_{name}"])


@pytest.mark.parametrize("kind", ["point", "weld"])
def test_softness_of_constraints(tmp_path, kind):
    builder = sim.ModelBuilder()
    for k in range(2):
        builder.add_link(f"box{k}", mass=1.0, inertia=INERTIA)
        builder.add_joint(f"free{k}", "free", child=f"box{k}", position=(k, 0, 1))
    more = {"torque_scale": 0.5, "orientation_b": (0, 0, 0, 1)} if kind == "weld" else {}
    ends = {"position_a": (0.5, 0, 0), "position_b": (-0.5, 0, 0)}
    getattr(builder, f"add_{kind}_constraint")("tie", "box0", "box1", softness=SOFT, active=False, **ends, **more)
    model = builder.finalize("float64")
    path = written(tmp_path, model, model.q0)
    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/World/Constraints/tie")
    assert tuple(prim.GetAttribute("mjc:solref").Get()) == SOFT.solref
    assert tuple(prim.GetAttribute("mjc:solimp").Get()) == SOFT.solimp
    assert prim.GetAttribute("physics:jointEnabled").Get() is False
    back = strictly(sim.load, path, dtype="float64")
    assert back.equalities.anchor_softness == (SOFT,)
    assert back.equalities.anchor_torque_scale.tolist() == [more.get("torque_scale", 1.0)]
    assert back.parameters["anchor_active"].tolist() == [0.0]
    prim.GetAttribute("physics:jointEnabled").Set(True)
    stage.Save()
    assert strictly(sim.load, path).parameters["anchor_active"].tolist() == [1.0]


def damped_servo(kind):
    """A joint with a damper and a servo whose force is limited, as robots of MJCF files have."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=INERTIA, com=(0.1, 0, -0.3))
    builder.add_joint("joint", kind, child="arm", axis=(0, 1, 0), q0=0.9, spring=sim.Spring(damping=2.0))
    builder.add_actuator("joint", "position", gains=sim.Gains(kp=300.0, kd=10.0), gear=2.0, force_limit=7.0)
    return builder.finalize("float64")


def require_damped_servo(path, damping=2.0, **changed):
    back = strictly(sim.load, path, dtype="float64")
    assert_allclose(back.parameters["damping"], [damping], rtol=1e-12)
    for name, value in {"gear": 2.0, "kp": 300.0, "kd": 10.0, "force_limit": 7.0, **changed}.items():
        np.testing.assert_allclose(back.parameters[f"actuator_{name}"], [value], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_the_damper_of_a_joint_leaves_its_servo_a_limit(tmp_path, kind):
    model = damped_servo(kind)
    path = written(tmp_path, model, model.q0)
    peer = read_by_newton(path)
    for name, value in {"target_ke": 1200.0, "target_kd": 40.0, "effort_limit": 14.0, "damping": 2.0}.items():
        assert_allclose(getattr(peer, f"joint_{name}").numpy(), [value], rtol=1e-6, err_msg=name)
    require_damped_servo(path)
    label, unit = ("angular", np.radians(1.0)) if kind == "revolute" else ("linear", 1.0)
    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/World/Joints/joint")
    prim.GetAttribute("newton:damping").Set(3.0 * unit)
    stage.Save()
    require_damped_servo(path, damping=float(np.float32(3.0 * unit)) / unit)
    prim.GetAttribute(f"drive:{label}:physics:damping").Set(50.0 * unit)  # the stored servo is no longer valid
    stage.Save()
    require_damped_servo(path, float(np.float32(3.0 * unit)) / unit, gear=1.0, kp=1200.0, kd=50.0, force_limit=14.0)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_files_whose_drives_have_the_damper_too(tmp_path, kind):
    """As written by version 0.2.0: a drive without a limit, which agrees with what is stored."""
    model = damped_servo(kind)
    path = written(tmp_path, model, model.q0)
    label, unit = ("angular", np.radians(1.0)) if kind == "revolute" else ("linear", 1.0)
    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/World/Joints/joint")
    prim.RemoveProperty("newton:damping")
    prim.GetAttribute(f"drive:{label}:physics:damping").Set(42.0 * unit)
    prim.GetAttribute(f"drive:{label}:physics:maxForce").Set(np.inf)
    stage.Save()
    require_damped_servo(path)
