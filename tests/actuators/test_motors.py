"""Electric motors and integral action: MuJoCo, IsaacLab's curve, gradients, files, messages."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.exporters
import sim.torch
from tests.actuators.files import require_same_actuators, with_forces_read, written_and_read
from tests.errors import raises_naming, refuses
from tests.simulation.differences import Case, check

# Motors of voltages, with and without a winding's inductance; controllers of positions, velocities and torques with a
# limited voltage, some at it; integral action with and without a limit, early and in a range.
MJCF = """<mujoco><option timestep="0.002" integrator="{integrator}"/>
<worldbody><body><joint name="a" axis="0 1 0" damping="0.05" armature="0.02"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
  <body pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.05" armature="0.02"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/></body></body>
</worldbody>
<actuator>
  <dcmotor name="voltage" joint="a" motorconst="0.3" resistance="0.9" gear="2" ctrlrange="-9 9"/>
  <dcmotor name="winding" joint="b" nominal="12 2 30" inductance="0 0.01" saturation="0.9 0 0"/>
  <dcmotor name="place" joint="a" motorconst="0.5 0.4" resistance="1" input="pos" controller="9 0 0.3 0 0 4"/>
  <dcmotor name="speed" joint="b" motorconst="0.4" resistance="0.7" input="vel" controller="0 0 1.5 0 0 3"/>
  <dcmotor name="torque" joint="a" nominal="3 1.2 4" gear="-1" input="ff" controller="0 0 0 0 0 3" saturation="0.8"/>
  <dcmotor name="held" joint="b" motorconst="0.4" resistance="0.7" input="pos" controller="4 9 0.2 0 0.03 3"/>
  <pid name="pid" joint="a" kp="3" ki="5" kv="0.2" input="pos" imax="0.02" ctrlrange="-1 1"/>
  <general name="early" joint="b" gaintype="pid" gainprm="4" biastype="affine" biasprm="0 -2 -0.1" dyntype="pid"
    input="pos" actlimited="true" actrange="-0.03 0.02" actearly="true"/>
  <pid name="drive" joint="b" kp="0" kv="0.3" input="vel"/>
</actuator>
<keyframe><key name="bent" qpos="0.1 0.3" act="0.1 0.01 0.02 -0.01"/></keyframe></mujoco>"""
NAMES = ("voltage", "winding", "place", "speed", "torque", "held", "pid", "early", "drive")


def load(folder: Path, integrator: str = "Euler") -> sim.Model:
    (folder / "motors.xml").write_text(with_forces_read(MJCF.format(integrator=integrator), NAMES))
    return sim.load(folder / "motors.xml", dtype="float64")


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_motions_and_forces_are_those_of_mujoco(tmp_path, integrator):
    model = load(tmp_path, integrator)
    assert model.nu == len(NAMES)
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "motors.xml"))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    rng = np.random.default_rng(3)
    control = np.repeat(rng.normal(size=(12, 9)) * (6, 9, 1, 4, 1, 1, 1, 1, 3), 10, axis=0)
    data, forces = mujoco.MjData(peer), []
    data.qpos, data.qvel, data.act = (0.2, -0.4), (1.0, -3.0), (0.2, 0.01, 0.015, 0.01)
    q, qd, act = (torch.tensor(each[None].copy()) for each in (data.qpos, data.qvel, data.act))
    for given in control:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        forces.append(data.sensordata.copy())
    motion = sim.torch.rollout(
        simulator, q, qd, control=torch.tensor(control[:, None]), act=act, sensors=sim.torch.Sensors(simulator)
    )
    largest = np.abs(forces).max(axis=0)
    assert (largest > 0.1).all()
    np.testing.assert_allclose(motion.readings[:, 0].numpy() / largest, forces / largest, atol=1e-10)
    for name, expected in (("q", data.qpos), ("qd", data.qvel), ("act", data.act)):
        np.testing.assert_allclose(getattr(motion, name)[-1, 0].numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("law", ["hard", "mujoco", "midpoint"])
def test_gradients(tmp_path, law):
    model = load(tmp_path)
    contact = sim.MujocoContact() if law == "mujoco" else sim.HardContact()
    rng, steps = np.random.default_rng(1), 8
    control = 0.9 * rng.normal(size=(steps, 9)) * (6, 9, 1, 4, 1, 1, 1, 1, 3)
    case = Case(
        model, np.array([0.2, -0.4]), np.array([1.0, -3.0]), 0.1 * rng.normal(size=(steps, 2)), contact, 0.002,
        control, "midpoint" if law == "midpoint" else "euler", np.array([0.2, 0.01, 0.015, 0.0195]),
    )  # fmt: skip
    of_states = ("ki", "resistance", "time_constant", "act_upper")
    names = ("gear", "kp", "kd", "gain", "stall_force", "no_load_speed", "force_limit", *of_states)
    check(case, tuple(f"actuator_{name}" for name in names))


def arm(**options: object) -> sim.ModelBuilder:
    """Return a joint without gravity, with an actuator."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("link", mass=1.0, com=(0.1, 0, 0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint("hinge", "revolute", child="link", armature=0.05)
    builder.add_actuator("hinge", **options)
    return builder


def test_curve_limits_the_force_as_in_isaac_lab():
    """Its ``DCMotor``: the effort is clipped by the line through stall and no-load speed, and by the effort limit."""
    stall, fastest, most = 30.0, 20.0, 22.0
    motor = sim.DCMotor(stall_force=stall, no_load_speed=fastest)
    model = arm(kind="torque", motor=motor, force_limit=most).finalize("float64")
    speeds = np.linspace(-30.0, 30.0, 61)
    simulator = sim.Simulator(model, 1e-3, num_worlds=61, device="cpu")
    for asked in (100.0, -100.0, 3.0):
        after = simulator.step(simulator.state(np.zeros((61, 1)), speeds[:, None]), control=[asked]).qd.numpy()[:, 0]
        inertia = 0.05 + 0.01 + 0.1**2
        top = np.clip(stall * (1.0 - speeds / fastest), -most, most)
        bottom = np.clip(stall * (-1.0 - speeds / fastest), -most, most)
        np.testing.assert_allclose(inertia * (after - speeds) / 1e-3, np.clip(asked, bottom, top), atol=1e-9)


def test_integral_action_removes_the_error_of_a_servo():
    pid = sim.Activation("pid", integral_limit=1.0)
    model = arm(kind="position", gains=sim.Gains(20.0, 3.0, ki=40.0), activation=pid).finalize("float64")
    simulator = sim.Simulator(model, 0.01, device="cpu")
    load = np.full((1000, 1), 5.0)
    end = simulator.rollout(simulator.initial_state(), load, control=np.full((1000, 1), 0.3)).final_state
    assert end.q.numpy()[0, 0] == pytest.approx(0.3, abs=1e-6)
    assert end.act.numpy()[0, 0] == pytest.approx(-5.0 / 40.0, abs=1e-6)  # ki z carries the load
    # An unreachable target winds the integral up to its limit only.
    walled = sim.Simulator(model, 0.01, device="cpu", parameters={"upper_limit": [0.1]})
    end = walled.rollout(walled.initial_state(), control=np.full((1000, 1), 0.3)).final_state
    assert end.act.numpy()[0, 0] == pytest.approx(1.0, abs=0.003)


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_motors(tmp_path, suffix):
    model = load(tmp_path)
    require_same_actuators(model, written_and_read(model, tmp_path / f"again.{suffix}"))


def test_controllers_of_the_plugin_move_as_in_mujoco(tmp_path):
    """MuJoCo's mujoco.pid, with integral action that is clamped, and without."""
    given = (("ki", 9), ("kp", 6), ("imax", 0.2), ("kd", 0.4))
    numbers = "".join(f'<config key="{key}" value="{value}"/>' for key, value in given)
    extension = (
        f'<extension><plugin plugin="mujoco.pid"><instance name="all">{numbers}</instance>'
        '<instance name="servo"><config key="kp" value="3"/></instance></plugin></extension>'
    )
    actuators = (
        '<plugin name="x" joint="a" plugin="mujoco.pid" instance="all" actdim="1" ctrlrange="-0.5 0.5"/>'
        '<plugin name="y" joint="b" plugin="mujoco.pid" instance="servo" forcerange="-1 1"/>'
    )
    start, end = MJCF.format(integrator="Euler").split("<actuator>")[0], "</mujoco>"
    text = start.replace("<worldbody>", f"{extension}<worldbody>") + f"<actuator>{actuators}</actuator>{end}"
    path = tmp_path / "plugin.xml"
    path.write_text(text)
    model, peer = sim.load(path, dtype="float64"), mujoco.MjModel.from_xml_path(str(path))
    simulator, data = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu"), mujoco.MjData(peer)
    control = np.repeat(np.random.default_rng(0).normal(size=(10, 2)), 20, axis=0)
    found = simulator.rollout(simulator.initial_state(), control=control).final_state
    for given in control:
        data.ctrl = given
        mujoco.mj_step(peer, data)
    for name, expected in (("q", data.qpos), ("qd", data.qvel), ("act", data.act)):
        np.testing.assert_allclose(getattr(found, name).numpy()[0], expected, atol=1e-11)


def test_controllers_with_several_inputs_are_several_actuators(tmp_path):
    start = MJCF.format(integrator="implicitfast").split("<actuator>")[0]
    actuators = (
        '<pid name="x" joint="a" kp="9" kv="0.4" gear="1.5" velrange="-2 2"/><motor name="y" joint="a"/>'
        '<pid name="z" joint="b" kp="4" ki="6" kv="0.3" input="pos vel ff"/>'
        '<dcmotor name="w" joint="b" motorconst="0.4" resistance="1" input="vel ff" controller="0 0 0.2 0 0 0"/>'
    )
    path = tmp_path / "inputs.xml"
    path.write_text(start.replace('ctrl="', 'no="') + f"<actuator>{actuators}</actuator></mujoco>")
    model, peer = sim.load(path, dtype="float64"), mujoco.MjModel.from_xml_path(str(path))
    assert model.actuator_names == ("x", "x/vel", "y", "z", "z/vel", "z/ff", "w", "w/ff")
    simulator, data = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu"), mujoco.MjData(peer)
    control = np.repeat(2.0 * np.random.default_rng(0).normal(size=(10, peer.nu)), 20, axis=0)
    found = simulator.rollout(simulator.initial_state(), control=control).final_state
    for given in control:
        data.ctrl = given
        mujoco.mj_step(peer, data)
    for name, expected in (("q", data.qpos), ("qd", data.qvel), ("act", data.act)):
        np.testing.assert_allclose(getattr(found, name).numpy()[0], expected, atol=1e-10)


def test_motors_that_mujoco_lacks_are_lost_by_name(tmp_path):
    motor = sim.DCMotor(1.0, 2.0)
    model = arm(motor=motor, activation=sim.Activation("integrator")).finalize()
    with raises_naming("hinge", "motors"):
        sim.exporters.write_mjcf(tmp_path / "lost.xml", model)


@pytest.mark.parametrize(
    ("element", "word"),
    [
        ('<dcmotor name="m" joint="a" motorconst="1" resistance="1" thermal="1 1"/>', "thermal"),
        ('<dcmotor name="m" joint="a" motorconst="1" resistance="1" cogging="1 2 0"/>', "cogging"),
        (
            '<dcmotor name="m" joint="a" motorconst="1" resistance="1" input="pos vel" controller="1 0 1 0 0 9"/>',
            "inputs",
        ),
        ('<pid name="m" joint="a" forcerange="-1 1"/>', "inputs"),
        ('<dcmotor name="m" joint="a" motorconst="1" resistance="1" input="none"/>', "no input"),
        ('<pid name="m" joint="a" input="pos" slewmax="1"/>', "slew"),
        ('<pid name="m" joint="a" input="pos" kp="0" ki="1"/>', "kp"),
        ('<pid name="m" tendon="t" input="pos" kp="1" ki="1"/>', "joint"),
        ('<dcmotor name="m" tendon="t" nominal="12 2 30" inductance="0 0.01"/>', "joint"),
        (
            '<dcmotor name="m" tendon="t" motorconst="1" resistance="1" input="pos" controller="1 0 0 0 0 3"/>',
            "joint",
        ),
        (
            '<dcmotor name="m" joint="a" motorconst="1" resistance="1" input="ff" controller="0 0 0 0 0 1" '
            'inductance="0 1"/>',
            "inductance",
        ),
    ],
)
def test_other_motors_are_left_out_by_name(tmp_path, element, word):
    (tmp_path / "motor.xml").write_text(
        '<mujoco><worldbody><body><joint name="a"/><geom size=".1"/></body></worldbody>'
        f'<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon><actuator>{element}</actuator></mujoco>'
    )
    with pytest.warns(sim.MJCFWarning, match=rf"actuator 'm' .line 1.*{word}"):
        assert sim.load(tmp_path / "motor.xml").nu == 0


def test_messages_name_the_actuator(tmp_path):
    refuses(lambda: sim.DCMotor(0.0, 1.0), "stall_force", 0.0)
    refuses(lambda: sim.Activation("current", time_constant=0.1), "resistance")
    refuses(lambda: sim.Activation("filter", time_constant=0.1, integral_limit=1.0), "integral_limit", "pid")
    refuses(lambda: arm(gains=sim.Gains(), activation=sim.Activation("pid")), "hinge", "position")
    refuses(lambda: arm(kind="position", gains=sim.Gains(1.0, ki=1.0)), "hinge", "pid")
    winding = sim.Activation("current", time_constant=0.1, resistance=1.0)
    refuses(lambda: arm(activation=winding), "hinge", "affine")
    model = load(tmp_path)
    for integrator in ("implicit", "implicitfast"):
        with raises_naming(integrator, "winding"):
            sim.Simulator(model, 0.002, contact=sim.MujocoContact(), integrator=integrator, device="cpu")
    simulator = sim.Simulator(model, 0.002, device="cpu")
    with raises_naming("actuator_stall_force", "voltage"):
        simulator.parameters["actuator_stall_force"] = np.ones(9)
