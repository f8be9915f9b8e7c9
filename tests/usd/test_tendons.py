"""Tendons, and actuators on tendons, frames and contacts, in a USD file and back: the same steps."""

import numpy as np
import pytest
from pxr import Usd
from scipy.spatial.transform import Rotation

import sim
from sim.usd import write_usd
from tests.actuators import test_frames_and_contacts as on_frames
from tests.contact.mujoco import test_tendon_wrapping as wrapping
from tests.contact.mujoco import test_tendons as tendons
from tests.importers.mjcf_zoo import load_quietly


def scenes(folder):
    """Models from MJCF files with a state each."""
    (folder / "frames").mkdir()
    wrapped = folder / "wrapped.xml"
    wrapped.write_text(wrapping.XML)
    for path, start in (
        (tendons.written(folder, "wide"), tendons.start),
        (wrapped, lambda model: [each[3] for each in wrapping.states(model, 5)]),
        (on_frames.written(folder / "frames"), on_frames.start),
    ):
        model = load_quietly(path)
        yield model, *start(model)


def written(model, path):
    write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=30.0)
    return path


def test_they_come_back(tmp_path):
    for number, (model, q, qd) in enumerate(scenes(tmp_path)):
        again = sim.load(written(model, tmp_path / f"{number}.usda"), dtype="float64")
        assert again.tendons.names == model.tendons.names
        assert again.actuator_names == model.actuator_names
        assert again.transmissions.target == model.transmissions.target
        assert again.tendons.coupling_names == model.tendons.coupling_names
        assert again.tendons.limit_softness == model.tendons.limit_softness
        for name, value in model.parameters.items():
            if name.startswith(("tendon", "actuator")):
                np.testing.assert_allclose(again.parameters[name], value, atol=1e-12, err_msg=name)
        ends = []
        for each in (model, again):
            simulator = sim.Simulator(each, 0.002, contact=sim.MujocoContact())
            control = 0.3 * np.cos(np.arange(5 * model.nu)).reshape(5, 1, model.nu)
            ends.append(simulator.rollout(simulator.state(q, qd), control=control).final_state.qd.numpy())
        np.testing.assert_allclose(ends[1], ends[0], atol=1e-6 * np.abs(ends[0]).max())


def test_a_stage_that_is_moved_takes_its_tendons_along(tmp_path):
    path = tmp_path / "wrapped.xml"
    path.write_text(wrapping.XML)
    model = load_quietly(path)
    stage = written(model, tmp_path / "scene.usda")
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    turn = Rotation.from_euler("xyz", (0.3, -0.4, 0.5))
    builder.add_usd(stage, name="moved", position=(1, 2, 3), orientation=turn.as_quat())
    moved = builder.finalize("float64")
    assert moved.tendons.names == tuple(f"moved/{name}" for name in model.tendons.names)
    # Lengths stay what they were.
    for name in ("rest_lower", "rest_upper"):
        np.testing.assert_array_equal(moved.parameters[f"tendon_{name}"], model.parameters[f"tendon_{name}"])
    from sim.dynamics.kinematics import tendon_lengths

    np.testing.assert_allclose(tendon_lengths(moved, moved.q0), tendon_lengths(model, model.q0), atol=1e-6)


def test_what_is_gone_is_said(tmp_path):
    model = next(scenes(tmp_path))[0]
    path = written(model, tmp_path / "scene.usda")
    stage = Usd.Stage.Open(str(path))
    top = stage.GetPrimAtPath("/World")
    top.GetAttribute("backswing:tendon_0").Set(["sum", "gone", "b"])
    top.GetAttribute("backswing:actuator_0:driven").Set(["tendon", "lost", ""])
    top.GetAttribute("backswing:tied_tendon_0").Clear()
    stage.Save()
    with pytest.warns(sim.USDWarning) as said:
        sim.load(path)
    texts = " ".join(str(each.message) for each in said)
    assert "ignored: tendon 'sum': 'gone' doesn't exist" in texts
    assert "ignored: actuator 'winch': its target 'lost' doesn't exist" in texts


def test_what_hung_on_a_joint_that_another_program_removed_is_left_out(tmp_path):
    builder = sim.ModelBuilder()
    for name in ("leader", "follower", "other"):
        builder.add_link(f"{name}_link", mass=1.0, inertia=np.eye(3))
        builder.add_joint(name, "revolute", child=f"{name}_link")
    builder.add_joint_coupling("follower", "leader", ratio=2.0)
    for tendon, joint in (("near", "leader"), ("far", "other")):
        builder.add_fixed_tendon(tendon, {joint: 1.0})
    builder.add_tendon_coupling("tie", "far", "near")
    path = written(builder.finalize("float64"), tmp_path / "edited.usda")
    stage = Usd.Stage.Open(str(path))
    stage.RemovePrim("/World/Joints/leader")
    stage.GetRootLayer().Save()
    with pytest.warns(sim.USDWarning) as said:
        model = sim.load(path, dtype="float64")
    assert [str(each.message).removeprefix(f"{path}: ") for each in said] == [
        "ignored: tendon 'near': 'leader' doesn't exist",
        "ignored: constraint 'tie': tendon 'near' doesn't exist",
        "prim '/World/Joints/follower': its leader, joint '/World/Joints/leader', doesn't exist; it is not coupled",
    ]
    assert (model.tendons.names, model.equalities.coupling_names) == (("far",), ())


def cords(**actuator):
    """Two joints with a tendon that they share, another of one of them, and actuators of the first."""
    builder = sim.ModelBuilder()
    for k, name in enumerate(("near", "far")):
        builder.add_link(name, mass=1.0 + k, inertia=np.diag([0.1, 0.2, 0.15]), com=(0.1, 0.0, -0.3))
        joint = {"parent": "near", "position": (0, 0, -0.6)} if k else {"position": (0, 0, 2)}
        builder.add_joint(f"{name}_joint", "revolute", child=name, axis=(0.0, 1.0, 0.2 * k), q0=0.3, **joint)
    builder.add_fixed_tendon(
        "both", {"near_joint": 0.7, "far_joint": -0.4}, armature=0.3, friction_loss=0.05,
        spring=sim.Spring(stiffness=30.0, damping=0.8, rest=(-1.0, 0.05)),
        limits=sim.Limits(-0.2, 0.12, margin=0.01, softness=sim.Softness((0.03, 0.8), (0.8, 0.9, 0.01, 0.4, 3.0))),
    )  # fmt: skip
    builder.add_fixed_tendon("one", {"far_joint": 1.5}, limits=sim.Limits(upper=0.4))
    builder.add_actuator(tendon="both", kind="torque", name="pull", gear=2.0, force_limit=(-1.0, 3.0))
    builder.add_actuator(
        tendon="one", kind="position", name="hold", gear=0.8, gains=sim.Gains(kp=25.0, kd=0.6), control_range=(0.1, 0.5)
    )  # fmt: skip
    return builder.finalize("float64")


EDITS = {  # by another program: the prim, attribute and value, then the parameter and its value
    "stiffness": ("Tendons/both", "mjc:stiffness", 44.0, "tendon_stiffness", (44.0, 0.0)),
    "coefficients": ("Tendons/both", "mjc:path:coef", [0.7, 0.9], "tendon_coefficient", (0.7, 0.9, 1.5)),
    "rest": ("Tendons/both", "mjc:springlength", [-0.2, 0.05], "tendon_rest_lower", (-0.2, 1.5 * 0.3)),
    "limit": ("Tendons/one", "mjc:range:max", 0.6, "tendon_upper_limit", (0.12, 0.6)),
    "gear": ("Actuators/pull", "mjc:gear", [3.0], "actuator_gear", (3.0, 0.8)),
    "force": ("Actuators/pull", "mjc:forceRange:max", 5.0, "actuator_force_limit", (3.0, np.inf)),
    "input": ("Actuators/hold", "mjc:ctrlRange:min", 0.2, "actuator_control_lower", (-np.inf, 0.2)),
}  # fmt: skip


def test_what_is_written_for_other_programs_changes_nothing(tmp_path):
    model = cords()
    again = sim.load(written(model, tmp_path / "cords.usda"), dtype="float64")
    assert (again.tendons.names, again.actuator_names) == (model.tendons.names, model.actuator_names)
    np.testing.assert_array_equal(again.actuator_kind, model.actuator_kind)
    assert again.tendons.limit_softness == model.tendons.limit_softness
    for name, value in model.parameters.items():
        if name.startswith(("tendon", "actuator")):
            np.testing.assert_array_equal(again.parameters[name], value, err_msg=name)


@pytest.mark.parametrize("name", EDITS)
def test_edits_of_other_programs_count(tmp_path, name):
    where, attribute, value, parameter, expected = EDITS[name]
    model, path = cords(), tmp_path / "cords.usda"
    stage = Usd.Stage.Open(str(written(model, path)))
    stage.GetPrimAtPath(f"/World/{where}").GetAttribute(attribute).Set(value)
    stage.GetRootLayer().Save()
    again = sim.load(path, dtype="float64")
    np.testing.assert_allclose(again.parameters[parameter], expected, rtol=1e-12)
    others = {each for each in model.parameters if each.startswith(("tendon", "actuator"))} - {parameter}
    for other in others - ({"actuator_force_centre"} if name == "force" else set()):
        np.testing.assert_array_equal(again.parameters[other], model.parameters[other], err_msg=other)
