"""Actuators with states: closed forms, MuJoCo, gradients, files."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.exporters
import sim.torch
from sim.usd import write_usd
from tests.errors import raises_naming, refuses
from tests.simulation.differences import METHODS, Case, check

HARD = sim.HardContact()
STATES = ("actuator_time_constant", "actuator_act_lower", "actuator_act_upper")
# All dynamics, on joints and a tendon, early ones and bounded ones, with some beyond their range.
MJCF = """<mujoco><option timestep="0.005" integrator="{integrator}"/>
<worldbody><body><joint name="a" axis="0 1 0" damping="0.1" armature="0.02"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
  <body pos="0.3 0 0"><joint name="b" type="slide" axis="1 0 0" damping="0.3"/>
    <geom size="0.05" contype="0" conaffinity="0"/>
    <body pos="0.1 0 0"><joint name="c" axis="0 0 1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/></body></body></body>
</worldbody>
<actuator>
  <general name="integrator" joint="a" dyntype="integrator" gainprm="2" biastype="affine" biasprm="0.1 -2 -0.1"
    ctrlrange="-1 1" actlimited="true" actrange="-0.3 0.2"/>
  <motor name="motor" joint="b" ctrlrange="-1 1"/>
  <general name="filter" joint="c" dyntype="filter" dynprm="0.05" gainprm="3" actearly="true"/>
  <general name="exact" joint="c" dyntype="filterexact" dynprm="0.02" gaintype="affine" gainprm="1.5 -2 -0.5"/>
  {pull}
  <intvelocity name="intvelocity" joint="b" kp="3" kv="0.2" actrange="-1 1"/>
  <cylinder name="cylinder" joint="c" timeconst="0.3" area="0.5" bias="0.1 -0.2 -0.03"/>
</actuator>
<keyframe><key name="bent" qpos="0.1 0.02 0.3" act="{act}" ctrl="{ctrl}"/></keyframe>{tendon}</mujoco>"""
TENDON = '<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/></fixed></tendon>'
OF_TENDON = (
    '<general name="pull" tendon="t" dyntype="filterexact" dynprm="0.02" gainprm="1.5" actearly="true"'
    ' actlimited="true" actrange="-0.1 0.1"/>'
)


def load(folder: Path, integrator: str = "Euler", tendon: bool = True) -> sim.Model:
    act = " ".join(str(number / 10) for number in range(1, 6 + tendon))
    ctrl = " ".join(str(number / 5) for number in range(6 + tendon))
    parts = {"tendon": TENDON, "pull": OF_TENDON} if tendon else {"tendon": "", "pull": ""}
    text = MJCF.format(integrator=integrator, act=act, ctrl=ctrl, **parts)
    (folder / "states.xml").write_text(text)
    return sim.load(folder / "states.xml", dtype="float64")


@pytest.mark.filterwarnings("ignore::sim.MJCFWarning")
@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast", "RK4"])
def test_motions_are_those_of_mujoco(tmp_path, integrator):
    model = load(tmp_path, integrator)
    assert model.na == 6
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "states.xml"))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    rng = np.random.default_rng(3)
    for _ in range(3):
        data = mujoco.MjData(peer)
        data.qpos[:], data.qvel[:] = 0.3 * rng.normal(size=3), rng.normal(size=3)
        data.act[:], data.ctrl[:] = 0.15 * rng.normal(size=6), rng.normal(size=7)
        state = simulator.state(data.qpos, data.qvel, data.act)
        found = simulator.rollout(state, control=np.tile(data.ctrl, (20, 1))).final_state
        for _ in range(20):
            mujoco.mj_step(peer, data)
        for name, expected in (("q", data.qpos), ("qd", data.qvel), ("act", data.act)):
            np.testing.assert_allclose(getattr(found, name).numpy()[0], expected, atol=1e-12)


def test_a_filter_follows_its_input_exactly():
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="body")
    builder.add_actuator("hinge", "torque", activation=sim.Activation("filterexact", time_constant=0.3))
    simulator = sim.Simulator(builder.finalize("float64"), 0.05, device="cpu")
    trajectory = simulator.rollout(simulator.initial_state(), control=np.full((10, 1), 2.0))
    time = 0.05 * np.arange(11)
    np.testing.assert_allclose(trajectory.act.numpy()[:, 0, 0], 2.0 * (1.0 - np.exp(-time / 0.3)), atol=1e-14)
    # The force of each step is that of the state at its beginning.
    np.testing.assert_allclose(np.diff(trajectory.qd.numpy()[:, 0, 0]), 0.05 * trajectory.act.numpy()[:-1, 0, 0])


@pytest.mark.filterwarnings("ignore::sim.MJCFWarning")
@pytest.mark.parametrize("law", ["hard", "Euler", "implicit", "implicitfast", "RK4"])
def test_gradients(tmp_path, law):
    model = load(tmp_path, "Euler" if law == "hard" else law)
    settings = {"dt": 0.005, "integrator": "euler", "contact": HARD}
    if law != "hard":
        settings = sim.mujoco_settings(model)
    rng = np.random.default_rng(1)
    steps = 6
    case = Case(
        model, 0.3 * rng.normal(size=3), rng.normal(size=3), 0.1 * rng.normal(size=(steps, 3)), settings["contact"],
        settings["dt"], 1.5 * rng.normal(size=(steps, 7)), settings["integrator"], 0.2 * rng.normal(size=6),
    )  # fmt: skip
    gains = ("actuator_gear", "actuator_gain", "actuator_kp", "actuator_kd", "actuator_control_upper")
    check(case, (*STATES, *gains))


def test_gradients_with_a_checkpoint_interval_and_several_worlds(tmp_path):
    model = load(tmp_path)
    simulator = sim.Simulator(model, 0.005, num_worlds=17, device="cpu", contact=HARD)  # lane groups
    rng = np.random.default_rng(2)
    state = simulator.state(rng.normal(size=(17, 3)), rng.normal(size=(17, 3)), 0.1 * rng.normal(size=(17, 6)))
    control = rng.normal(size=(7, 17, 7))
    whole, sparse = (simulator.rollout(state, control=control, checkpoint_interval=k) for k in (1, 3))
    np.testing.assert_array_equal(sparse.act.numpy(), whole.act.numpy()[[0, 3, 6, 7]])
    last = rng.normal(size=(17, 3))
    grads = [each.backward(last, act_grad=np.ones((17, 6))) for each in (whole, sparse)]
    for name in ("q", "act", "control"):
        np.testing.assert_array_equal(*(getattr(each, name).numpy() for each in grads))
    alone = sim.Simulator(model, 0.005, device="cpu", contact=HARD)
    first = alone.state(*(array.numpy()[3] for array in (state.q, state.qd, state.act)))
    single = alone.rollout(first, control=control[:, 3]).backward(last[3:4], act_grad=np.ones((1, 6)))
    np.testing.assert_allclose(grads[0].act.numpy()[3], single.act.numpy()[0], atol=1e-12)
    assert np.count_nonzero(single.act.numpy()) > 3


def test_linearisation(tmp_path):
    model = load(tmp_path)
    simulator = sim.Simulator(model, 0.005, device="cpu")
    rng = np.random.default_rng(4)
    x, u = 0.2 * rng.normal(size=12), 0.3 * rng.normal(size=7)

    def after(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        state = simulator.step(simulator.state(x[:3], x[3:6], x[6:]), control=u)
        return np.concatenate([array.numpy()[0] for array in (state.q, state.qd, state.act)])

    found = simulator.linearise(simulator.state(x[:3], x[3:6], x[6:]), control=u)
    for matrix, size, change in (
        (found.A, 12, lambda d: after(x + d, u) - after(x - d, u)),
        (found.B_control, 7, lambda d: after(x, u + d) - after(x, u - d)),
    ):
        expected = np.transpose([change(row) / 2e-6 for row in 1e-6 * np.eye(size)])
        np.testing.assert_allclose(matrix[0], expected, atol=1e-8 * np.abs(expected).max())


def test_torch_carries_the_states(tmp_path):
    model = load(tmp_path)
    simulator = sim.Simulator(model, 0.005, num_worlds=2, device="cpu")
    generator = torch.Generator().manual_seed(0)
    q, qd = (0.1 * torch.randn(2, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    act = torch.full((2, 6), 0.1, dtype=torch.float64, requires_grad=True)
    control = 0.3 * torch.randn(4, 2, 7, generator=generator, dtype=torch.float64)
    control.requires_grad_()
    all_q, _, all_act = sim.torch.rollout(simulator, q, qd, control=control, act=act)
    (all_q[-1].square().sum() + all_act[-1].sum()).backward()
    of_rollout = act.grad.clone(), control.grad.clone()
    act.grad = control.grad = None
    states = q, qd, act
    for inputs in control:
        states = sim.torch.step(simulator, states[0], states[1], control=inputs, act=states[2])
    (states[0].square().sum() + states[2].sum()).backward()
    torch.testing.assert_close(states[2], all_act[-1])
    torch.testing.assert_close((act.grad, control.grad), of_rollout)
    width = 1e-6
    up, down = (
        sum(
            part[-1].square().sum() if number == 0 else part[-1].sum() * (number == 2)
            for number, part in enumerate(
                sim.torch.rollout(simulator, q, qd, control=control.detach(), act=act.detach() + change)
            )
        )
        for change in (width, -width)
    )
    assert (up - down) / (2 * width) == pytest.approx(act.grad.sum().item(), rel=1e-6)
    with raises_naming("act"):
        sim.torch.step(simulator, q, qd)


def test_gradient_check_has_the_states(tmp_path):
    model = load(tmp_path)
    simulator = sim.Simulator(model, 0.005, device="cpu")
    state = simulator.state([0.1, 0.0, 0.2], act=[0.1, 0.2, -0.1, 0.05, 0.3, -0.2])
    report = sim.check_gradients(simulator, state, control=np.full((4, 7), 0.3), wrt=["act", "actuator_time_constant"])
    assert {str(checked.entry) for checked in report.entries} >= {"act of actuator 'filter'"}
    report.raise_if_wrong()


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_states(tmp_path, suffix):
    model = load(tmp_path, tendon=suffix == "xml")  # tendons are left out of USD
    path = tmp_path / f"again.{suffix}"
    if suffix == "xml":
        sim.exporters.write_mjcf(path, model)
    else:
        write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=1)
    again = sim.load(path, dtype="float64")
    assert again.actuator_names == model.actuator_names
    np.testing.assert_array_equal(again.actuator_dynamics, model.actuator_dynamics)
    np.testing.assert_array_equal(again.actuator_early, model.actuator_early)
    for name in STATES:
        np.testing.assert_allclose(again.parameters[name], model.parameters[name])
    key, kept = (next(iter(each.parts[0].keyframes.values())) for each in (model, again))
    assert kept.act == key.act
    assert key.act["filter"] == 0.2
    rng = np.random.default_rng(5)
    ends = []
    act, control = rng.normal(size=model.na), rng.normal(size=(5, model.nu))
    for each in (model, again):
        simulator = sim.Simulator(each, 0.005, device="cpu", contact=HARD)
        ends.append(simulator.rollout(simulator.state([0.1, 0.2, 0.3], act=act), control=control).final_state)
    np.testing.assert_allclose(ends[1].q.numpy(), ends[0].q.numpy(), atol=1e-12)
    np.testing.assert_allclose(ends[1].act.numpy(), ends[0].act.numpy(), atol=1e-12)


def hinge() -> sim.ModelBuilder:
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="body")
    return builder


def test_states_are_not_lost_silently():
    builder = hinge()
    builder.add_actuator("hinge", activation=sim.Activation("integrator"))
    simulator = sim.Simulator(builder.finalize("float64"), 0.01, device="cpu")
    assert "act [1, 1]" in repr(simulator.initial_state())
    states = torch.zeros(2, 1, 1, dtype=torch.float64)
    refuses(lambda: sim.torch.actuator_forces(simulator, states, states, states[:1]), "'hinge'", "act", "2 states")
    with raises_naming("'hinge'", "act", "2 states", 1):
        sim.torch.JointForces(simulator)(states, states, control=states[:1], act=states[:1])
    refuses(lambda: simulator.state([0.0], act=[0.0, 1.0]), "act", "shape")
    plain = sim.Simulator(hinge().finalize("float64"), 0.01, device="cpu")
    refuses(lambda: plain.state([0.0], act=[0.0]), "act")


@pytest.mark.filterwarnings("ignore::sim.MJCFWarning")
@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast", "RK4"])
def test_forces_are_those_of_mujoco(tmp_path, integrator):
    """Of actuators and, of Euler's steps, on joints; sensors read them too, with gradients in states and inputs."""
    load(tmp_path, integrator)
    path = tmp_path / "states.xml"
    names = ("integrator", "motor", "filter", "exact", "pull", "intvelocity", "cylinder")
    sensors = "".join(f'<actuatorfrc name="force of {name}" actuator="{name}"/>' for name in names)
    path.write_text(path.read_text().replace("</mujoco>", f"<sensor>{sensors}</sensor></mujoco>"))
    model, peer = sim.load(path, dtype="float64"), mujoco.MjModel.from_xml_path(str(path))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    rng, data, steps = np.random.default_rng(3), mujoco.MjData(peer), 10
    data.qpos[:], data.qvel[:], data.act[:] = 0.3 * rng.normal(size=3), rng.normal(size=3), 0.15 * rng.normal(size=6)
    control = rng.normal(size=(steps, 1, 7))
    q, qd, act = (torch.tensor(each[None]) for each in (data.qpos, data.qvel, data.act))
    theirs, on_joints = [], []
    for given in control[:, 0]:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
        on_joints.append(data.qfrc_actuator.copy())
    reading = sim.torch.Sensors(simulator)
    given = torch.tensor(control)
    motion = sim.torch.rollout(simulator, q, qd, control=given, act=act, sensors=reading)
    np.testing.assert_allclose(motion.readings[:, 0].numpy(), theirs, atol=1e-10 * np.abs(theirs).max())
    if integrator == "Euler":
        parts = sim.torch.JointForces(simulator)(motion.q, motion.qd, control=given, act=motion.act)
        np.testing.assert_allclose(parts.actuators[:, 0].numpy(), on_joints, atol=1e-10 * np.abs(on_joints).max())
    weights = torch.tensor(rng.normal(size=(3, 1, 7)))

    def loss(given, act):
        readings = sim.torch.rollout(simulator, q, qd, control=given, act=act, sensors=reading).readings
        return (weights * readings).sum()

    torch.autograd.gradcheck(loss, (given[:3].requires_grad_(), act.requires_grad_()), eps=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sim.MJCFWarning")
@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("tendon", [True, False])
def test_nothing_is_left_of_the_balance_of_forces(tmp_path, tendon, law):
    """Nothing but actuators and dampers acts, so that these give the whole motion."""
    model = load(tmp_path, tendon=tendon)
    simulator = sim.Simulator(model, 0.005, device="cpu", contact=METHODS[law]())
    rng = np.random.default_rng(0)
    q, qd, act = (torch.tensor(0.3 * rng.normal(size=(1, size))) for size in (3, 3, model.na))
    control = torch.tensor(rng.normal(size=(20, 1, model.nu)))
    q, qd, act = sim.torch.rollout(simulator, q, qd, control=control, act=act)
    parts = sim.torch.JointForces(simulator)(q, qd, control=control, act=act)
    assert parts.actuators.abs().max() > 0.5
    assert parts.constraints.abs().max() < 1e-12
