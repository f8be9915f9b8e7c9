"""Tendons: lengths, one step beside MuJoCo, and gradients."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
from tests.errors import raises_naming, refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS, case, check

DT = 0.003
XML = """
<mujoco>
  <option timestep="0.003" cone="elliptic" integrator="{integrator}" tolerance="0" iterations="200"/>
  <worldbody>
    <site name="ceiling" pos="0.3 0.2 2"/>
    <body name="upper" pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" damping="0.1" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/><site name="elbow" pos="0.3 0 0.1"/>
      <body name="lower" pos="0.4 0 0"><joint name="b" type="hinge" axis="0 1 0.2" ref="20"/>
        <geom type="capsule" fromto="0 0 0 0 0.1 -0.4" size="0.04"/><site name="wrist" pos="0 0.1 -0.3"/></body>
      <body name="twin" pos="0.2 0 0"><joint name="c" type="slide" axis="1 0 0.3"/>
        <geom type="box" size="0.05 0.06 0.07"/></body></body>
    <body name="loose" pos="1 0.3 1.2"><freejoint/><geom type="box" size="0.1 0.06 0.05"/>
      <site name="hook" pos="0.1 0.06 0.05"/></body>
    <body name="other" pos="1 1 1"><joint name="d" type="slide" axis="0 0 1"/><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <tendon>
    <fixed name="sum" stiffness="8" damping="0.7" springlength="0.1 0.2" limited="true" range="-0.1 0.15" {softness}>
      <joint joint="a" coef="0.7"/><joint joint="b" coef="-1.2"/></fixed>
    <fixed name="across" frictionloss="0.4" stiffness="5" {softness}>
      <joint joint="b" coef="0.5"/><joint joint="c" coef="2"/></fixed>
    <fixed name="apart" stiffness="2" limited="true" range="-1 -0.05" margin="0.01">
      <joint joint="a" coef="0.3"/><joint joint="d" coef="-0.6"/></fixed>
    <spatial name="rope" stiffness="3" limited="true" range="0 1.2" frictionloss="0.2" {softness}>
      <site site="ceiling"/><site site="elbow"/><site site="wrist"/></spatial>
    <spatial name="pulley" stiffness="9" damping="2" springlength="0.4">
      <site site="wrist"/><site site="hook"/><pulley divisor="2"/><site site="ceiling"/><site site="hook"/></spatial>
  </tendon>
  <equality>
    <tendon name="tie" tendon1="across" tendon2="sum" polycoef="0.05 0.8 0.3 -0.2 0.1" {softness_of_tie}/>
    <tendon name="hold" tendon1="apart" polycoef="-0.02"/>
  </equality>
  <actuator>
    <motor name="winch" tendon="rope" gear="-3"/>
    <position name="servo" tendon="sum" kp="30" kv="2" gear="1.5" forcerange="-3 4" ctrlrange="-1 1"/>
    <velocity name="drive" joint="d" kv="1.5"/>
    <general name="odd" tendon="pulley" gainprm="3 0.5 0.2" gaintype="affine" biastype="affine" biasprm="0.4 -5 -0.7"/>
  </actuator>
</mujoco>
"""
SOFTNESS = {
    "default": ("", ""),
    "wide": (
        'solreflimit="0.05 0.7" solimplimit="0.5 0.95 0.3 0.4 3" solreffriction="0.05 0.7" '
        'solimpfriction="0.5 0.95 0.3 0.4 3"',
        'solref="0.05 0.7" solimp="0.5 0.95 0.3 0.4 3"',
    ),
}
CONTROL = (0.4, -0.3, 0.6, 0.5)


def written(folder: Path, softness: str = "default", integrator: str = "Euler") -> Path:
    path = folder / "scene.xml"
    of_tendons, of_tie = SOFTNESS[softness]
    path.write_text(XML.format(softness=of_tendons, softness_of_tie=of_tie, integrator=integrator))
    return path


def start(model: sim.Model) -> tuple[np.ndarray, np.ndarray]:
    """Beyond limits, and moving."""
    rate = 0.1 * np.sin(1.0 + np.arange(model.nv))
    q = sim.integrate(model, model.q0[None], rate[None], 1.0).numpy()[0]
    return q, np.cos(1.7 * np.arange(model.nv))


def test_lengths_and_inverse_weights(tmp_path):
    path = written(tmp_path)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    q, qd = start(model)
    simulator.step(simulator.state(q, qd))
    data = data_at(peer, model, q, qd)
    mujoco.mj_forward(peer, data)
    step = simulator.engine.shards[0].step
    np.testing.assert_allclose(step.tendons.tendon_length.numpy()[:, 0], data.ten_length, rtol=1e-13)
    np.testing.assert_allclose(step.tendons.tendon_rate.numpy()[:, 0], data.ten_velocity, rtol=1e-12)
    np.testing.assert_allclose(step.law.tendon_inverse_weight.numpy(), peer.tendon_invweight0, rtol=1e-12)


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("softness", SOFTNESS)
def test_one_step(tmp_path, softness, integrator):
    path = written(tmp_path, softness, integrator)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    q, qd = start(model)
    data = data_at(peer, model, q, qd, ctrl=CONTROL)
    mujoco.mj_forward(peer, data)
    kinds = [mujoco.mjtConstraint(int(kind)).name for kind in data.efc_type]
    assert {"mjCNSTR_EQUALITY", "mjCNSTR_FRICTION_TENDON", "mjCNSTR_LIMIT_TENDON"} == set(kinds), kinds
    assert kinds.count("mjCNSTR_LIMIT_TENDON") == 3
    before = data.qvel.copy()
    mujoco.mj_step(peer, data)
    end = simulator.step(simulator.state(q, qd), control=np.array([CONTROL]))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    assert np.abs(data.qvel - before).max() > 0.1
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-11 * np.abs(data.qvel - before).max())


NAMES = (
    "mass", "com", "inertia", "joint_placement", "tendon_coefficient", "tendon_point", "tendon_stiffness",
    "tendon_damping", "tendon_rest_lower", "tendon_rest_upper", "tendon_friction_loss", "tendon_lower_limit",
    "tendon_upper_limit", "tendon_limit_margin", "tendon_polynomial", "actuator_gear", "actuator_kp", "actuator_kd",
    "actuator_gain", "actuator_offset", "actuator_kp_per_input", "actuator_kd_per_input", "actuator_force_limit",
    "solref", "solimp",
)  # fmt: skip
CONTACT = sim.MujocoContact(solref=(0.05, 0.7), solimp=(0.5, 0.95, 0.3, 0.4, 3.0))


@pytest.mark.parametrize("steps", [1, 5])
def test_gradients(tmp_path, steps):
    model = load_quietly(written(tmp_path))
    c = case(model, steps, *start(model), contact=CONTACT, dt=DT)
    check(replace(c, control=np.tile(CONTROL, (steps, 1))), NAMES)


def test_gradients_with_rk4(tmp_path):
    model = load_quietly(written(tmp_path))
    c = case(model, 2, *start(model), contact=CONTACT, dt=DT)
    names = ["tendon_coefficient", "tendon_point", "tendon_stiffness", "tendon_upper_limit", "actuator_kp", "solimp"]
    check(replace(c, integrator="rk4", control=np.tile(CONTROL, (2, 1))), names)


def test_written_again(tmp_path):
    """Read, written and read: the same tendons, and in MuJoCo the same step."""
    from sim.exporters import write_mjcf

    path = written(tmp_path, "wide")
    model = load_quietly(path)
    write_mjcf(tmp_path / "again.xml", model)
    again = load_quietly(tmp_path / "again.xml")
    assert again.tendons.names == model.tendons.names
    assert again.tendons.limit_softness == model.tendons.limit_softness
    assert again.tendons.friction_softness == model.tendons.friction_softness
    assert again.tendons.coupling_softness == model.tendons.coupling_softness
    for name, value in model.parameters.items():
        if name.startswith("tendon") and name != "tendon_polynomial":
            np.testing.assert_allclose(again.parameters[name], value, rtol=1e-12, atol=1e-14, err_msg=name)
    ends = []
    for file in (path, tmp_path / "again.xml"):
        peer = mujoco.MjModel.from_xml_path(str(file))
        data = mujoco.MjData(peer)
        q, qd = start(model)
        data.qpos, data.qvel = sim.to_mujoco(model, q, qd)
        data.ctrl = CONTROL
        mujoco.mj_step(peer, data)
        ends.append(data.qvel.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


def test_lengths_are_counted_from_the_start_of_the_file(tmp_path):
    """A model that begins elsewhere than its tied lengths count from is written with a shifted polynomial."""
    from sim.exporters import write_mjcf

    builder = sim.ModelBuilder()
    for k in range(2):
        builder.add_link(f"b{k}", mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(f"x{k}", "prismatic", parent="world", child=f"b{k}", axis=(1, 0, 0), q0=(0.3 + k,))
        builder.add_fixed_tendon(f"t{k}", {f"x{k}": 2.0})
    builder.add_tendon_coupling("tie", "t0", "t1", polynomial=(0.1, 0.5, 0.2, 0.3, -0.1), reference=(0.2, 0.4))
    write_mjcf(tmp_path / "tie.xml", builder.finalize("float64"))
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "tie.xml"))
    data = mujoco.MjData(peer)
    data.qpos = (0.05, 0.6)
    mujoco.mj_forward(peer, data)
    expected = 2.0 * 0.05 - 0.2 - np.polynomial.polynomial.polyval(2.0 * 0.6 - 0.4, (0.1, 0.5, 0.2, 0.3, -0.1))
    np.testing.assert_allclose(data.efc_pos, expected, rtol=1e-12)


def test_what_has_no_tendons_says_so(tmp_path):
    from sim.exporters import write_urdf

    model = load_quietly(written(tmp_path))
    refuses(lambda: write_urdf(tmp_path / "scene.urdf", model), "one robot")
    with raises_naming("implicitfast'", "tendon 'sum'"):
        sim.Simulator(model, DT, integrator="implicitfast", contact=CONTACT)


@pytest.mark.parametrize("kind", ['range="0 0.2"', 'frictionloss="3"'], ids=["limit", "dry friction"])
@pytest.mark.parametrize(
    ("path", "theirs_moves"),
    [('<site site="a"/><site site="b"/>', True), ('<site site="a"/><site site="c"/>', False)],
    ids=["on a body", "on welded bodies"],
)
@pytest.mark.parametrize("law", ["mujoco", "hard"])
def test_a_tendon_that_nothing_moves_does_nothing(tmp_path, law, path, theirs_moves, kind):
    """Its slopes are zero, not rounding; in MuJoCo those of welded bodies are rounding, which throws them away."""
    body = """<body pos="0 0 1" euler="10 20 30"><freejoint/><geom size=".05"/>
      <site name="a" pos=".01 .02 .03"/><site name="b" pos=".6 .3 .2"/>
      <body pos=".1 .2 .3" euler="3 5 6"><geom size=".03" mass=".1"/><site name="c" pos=".1 .1 .1"/></body></body>"""
    text = f"<mujoco><worldbody>{body}</worldbody><tendon><spatial {kind}>{path}</spatial></tendon></mujoco>"
    file = tmp_path / "tendon.xml"
    file.write_text(text)
    model = sim.load(file, dtype="float64")
    peer = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(peer)
    contact = METHODS[law]()
    simulator = sim.Simulator(model, peer.opt.timestep, device="cpu", contact=contact)
    trajectory = simulator.rollout(simulator.initial_state(), steps=20)
    fall = -9.81 * 20 * peer.opt.timestep
    np.testing.assert_allclose(trajectory.qd.numpy()[-1, 0], [0.0, 0.0, fall, 0.0, 0.0, 0.0], atol=1e-13)
    for _ in range(20):
        mujoco.mj_step(peer, data)
    if theirs_moves:
        q, qd = trajectory.final_state.numpy()
        np.testing.assert_allclose(sim.to_mujoco(model, q[0], qd[0])[0], data.qpos, atol=1e-13)
