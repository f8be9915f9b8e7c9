"""Delays of inputs: MuJoCo, gradients, files, messages."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.identify
import sim.torch
from tests.actuators.files import with_forces_read, written_and_read
from tests.errors import raises_naming, refuses
from tests.simulation.differences import Case, check

DT = 0.005
# Delays of whole steps and of fractions, held and interpolated, shorter than a step, longer than the samples, and
# before a filter; one actuator without.
MJCF = """<mujoco><option timestep="0.005" integrator="{integrator}"/>
<worldbody><body><joint name="a" axis="0 1 0" damping="0.1" armature="0.02"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
  <body pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.1" armature="0.02"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/></body></body>
</worldbody>
<actuator>
  <position name="whole" joint="a" kp="3" kv="0.2" nsample="4" delay="0.015"/>
  <motor name="now" joint="b"/>
  <motor name="linear" joint="b" nsample="5" delay="0.012" interp="linear" ctrlrange="-1 1"/>
  <motor name="held" joint="a" nsample="6" delay="0.012"/>
  <general name="filter" joint="b" dyntype="filter" dynprm="0.05" gainprm="2" nsample="3" delay="0.007"
    interp="linear"/>
  <motor name="short" joint="a" nsample="2" delay="0.002" interp="linear"/>
  <motor name="long" joint="a" nsample="2" delay="0.1" interp="linear"/>
</actuator>
<keyframe><key name="bent" qpos="0.1 0.2" act="0.3"/></keyframe></mujoco>"""
NAMES = ("whole", "now", "linear", "held", "filter", "short", "long")


def load(folder: Path, integrator: str = "Euler") -> sim.Model:
    (folder / "delays.xml").write_text(with_forces_read(MJCF.format(integrator=integrator), NAMES))
    return sim.load(folder / "delays.xml", dtype="float64")


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_motions_and_forces_are_those_of_mujoco(tmp_path, integrator):
    model = load(tmp_path, integrator)
    assert model.na == 1 + 4 + 5 + 6 + 3 + 2 + 2
    assert model.act_names[:3] == ("filter", "whole[1]", "whole[2]")
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "delays.xml"))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    control = np.random.default_rng(3).normal(size=(60, 7))
    data, forces = mujoco.MjData(peer), []
    for given in control:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        forces.append(data.sensordata.copy())
    still = torch.zeros(1, 2, dtype=torch.float64)
    motion = sim.torch.rollout(
        simulator, still, still, control=torch.tensor(control[:, None]), sensors=sim.torch.Sensors(simulator)
    )
    np.testing.assert_allclose(motion.readings[:, 0].numpy(), forces, atol=1e-11)
    for name, expected in (("q", data.qpos), ("qd", data.qvel)):
        np.testing.assert_allclose(getattr(motion, name)[-1, 0].numpy(), expected, atol=1e-11)
    np.testing.assert_allclose(motion.act[-1, 0, 0], data.act[0], atol=1e-12)


def arm(*delays: sim.Delay | None) -> sim.ModelBuilder:
    """Joints with a servo each."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number, delay in enumerate(delays):
        builder.add_link(f"link{number}", mass=1.0, com=(0.1, 0, 0), inertia=(0.01, 0.01, 0.01))
        builder.add_joint(f"joint{number}", "revolute", child=f"link{number}")
        builder.add_actuator(f"joint{number}", "position", gains=sim.Gains(5.0, 0.5), delay=delay)
    return builder


def test_delayed_input_is_the_input_that_comes_later():
    model = arm(sim.Delay(3 * DT, samples=3), None).finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    control = np.random.default_rng(0).normal(size=(30, 1))
    # The first three inputs of the second actuator are zero, as those that the first one remembers.
    later = np.concatenate([np.zeros((3, 1)), control[:-3]])
    q = simulator.rollout(simulator.initial_state(), control=np.hstack([control, later])).q.numpy()[:, 0]
    np.testing.assert_allclose(q[:, 0], q[:, 1], atol=1e-14)
    assert np.abs(q).max() > 0.01


def test_robots_begin_with_the_inputs_that_hold_them(tmp_path):
    model = load(tmp_path)
    act = model.act_holding(np.arange(7.0))
    assert [act[model.act_names.index(name)] for name in ("filter", "linear[5]", "long[1]")] == [0.0, 2.0, 6.0]
    model = arm(sim.Delay(2 * DT, samples=3)).finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    state = simulator.state([0.4], act=model.act_holding([0.4]))
    end = simulator.rollout(state, control=np.full((20, 1), 0.4)).final_state
    np.testing.assert_allclose(end.q.numpy(), 0.4, atol=1e-15)
    refuses(lambda: model.act_holding([0.4, 0.1]), "act_holding", "(2,)")


def test_a_delay_is_identified():
    model = arm(sim.Delay(1.3 * DT, samples=6)).finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu", parameters={"actuator_delay": [3.4 * DT]})
    control = np.repeat(np.random.default_rng(1).normal(size=(31, 1)), 3, axis=0)
    motion = simulator.rollout(simulator.state([0.0]), control=control[:90])
    q, qd = motion.q.numpy()[:, 0], motion.qd.numpy()[:, 0]
    log = sim.identify.Log(model, DT * np.arange(91), q, qd, control=control[:91])
    fit = sim.identify.fit_trajectories(model, log, ["delay of joint0"], dt=DT, noise={"q": 1e-6}, known_start=True)
    assert fit.estimate["delay of joint0"] == pytest.approx(3.4 * DT, rel=1e-6)


@pytest.mark.parametrize("law", ["hard", "implicitfast"])
def test_gradients(tmp_path, law):
    model = load(tmp_path, "Euler" if law == "hard" else law)
    settings = {"dt": DT, "integrator": "euler", "contact": sim.HardContact()}
    if law != "hard":
        settings = sim.mujoco_settings(model)
    # Off the kinks at whole steps.
    model.parameters["actuator_delay"][[0, 2, 3, 4, 5, 6]] = np.array([2.6, 2.4, 3.7, 1.4, 0.3, 1.2]) * DT
    rng, steps = np.random.default_rng(1), 8
    case = Case(
        model, 0.3 * rng.normal(size=2), rng.normal(size=2), 0.1 * rng.normal(size=(steps, 2)), settings["contact"],
        settings["dt"], rng.normal(size=(steps, 7)), settings["integrator"], rng.normal(size=model.na),
    )  # fmt: skip
    check(case, ("actuator_delay", "actuator_gear", "actuator_time_constant"))


def test_worlds_with_their_own_delays_and_linearisation():
    model = arm(sim.Delay(0.0, samples=4)).finalize("float64")
    delays = np.array([[0.0], [0.4 * DT], [4 * DT]])
    simulator = sim.Simulator(model, DT, num_worlds=3, device="cpu", parameters={"actuator_delay": delays})
    control = np.random.default_rng(2).normal(size=(12, 1))
    together = simulator.rollout(simulator.initial_state(), control=control).final_state
    for world, own in enumerate(delays):
        alone = sim.Simulator(model, DT, device="cpu", parameters={"actuator_delay": own})
        end = alone.rollout(alone.initial_state(), control=control).final_state
        np.testing.assert_array_equal(together.q.numpy()[world], end.q.numpy()[0])
        np.testing.assert_array_equal(end.act.numpy()[0], control[:-5:-1, 0])
    x = 0.2 * np.random.default_rng(4).normal(size=6)

    def after(x: np.ndarray) -> np.ndarray:
        state = alone.step(alone.state(x[:1], x[1:2], x[2:]), control=control[0])
        return np.concatenate([array.numpy()[0] for array in (state.q, state.qd, state.act)])

    found = alone.linearise(alone.state(x[:1], x[1:2], x[2:]), control=control[0]).A[0]
    expected = np.transpose([(after(x + row) - after(x - row)) / 2e-6 for row in 1e-6 * np.eye(6)])
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_delays(tmp_path, suffix):
    model = load(tmp_path)
    path = tmp_path / f"again.{suffix}"
    again = written_and_read(model, path)
    if suffix == "xml":
        assert path.read_text().count('act="') == 1
    np.testing.assert_array_equal(again.delay_samples, model.delay_samples)
    np.testing.assert_allclose(again.parameters["actuator_delay"], model.parameters["actuator_delay"], rtol=1e-12)


def test_messages_name_the_actuator(tmp_path):
    refuses(lambda: sim.Delay(-0.1, 3), "time", -0.1)
    refuses(lambda: sim.Delay(0.1, 0), "samples", 0)
    refuses(lambda: sim.Delay(0.1, 10**11), "samples", 10**11)
    model = arm(sim.Delay(0.02, samples=3), None).finalize("float64")
    with raises_naming("joint0", 0.02, 3):
        sim.Simulator(model, DT, device="cpu")
    simulator = sim.Simulator(model, 0.01, device="cpu")
    with raises_naming("joint0", 0.04):
        simulator.parameters["actuator_delay"] = np.array([0.04, 0.0])
    with raises_naming("joint1", "actuator_delay"):
        simulator.parameters["actuator_delay"] = np.array([0.0, 0.01])
    with raises_naming("rk4", "joint0"):
        sim.Simulator(model, 0.01, integrator="rk4", contact=sim.MujocoContact(), device="cpu")
    cubic = MJCF.format(integrator="Euler").replace('delay="0.012" interp="linear"', 'delay="0.012" interp="cubic"')
    (tmp_path / "cubic.xml").write_text(cubic)
    with pytest.warns(sim.MJCFWarning, match="linear.*cubic"):
        sim.load(tmp_path / "cubic.xml")
