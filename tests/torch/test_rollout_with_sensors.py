"""Sensors of accelerations and of what goes by them: beside MuJoCo's with all integrators, and their gradients."""

import contextlib
import copy

import mujoco
import numpy as np
import pytest
import torch

import sim
from sim.simulation.engine.rollout import run_steps
from tests.errors import raises_naming, refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from warp_kernels.rollout.records import StateArrays

XML = """
<mujoco>
  <option timestep="0.004" tolerance="0" iterations="200" integrator="{integrator}"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.6"/>
    <body name="base" pos="0.3 -0.2 0.1"><freejoint/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05" mass="3"/>
      <site name="head" pos="0.1 0.02 0.05" euler="10 20 30"/>
      <body name="arm" pos="0.1 0 0.05" euler="0 15 0">
        <joint name="shoulder" axis="0 1 0.2" damping="0.8" armature="0.01"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.03" mass="0.5" contype="0" conaffinity="0"/>
        <site name="shoulder" pos="0.01 -0.02 0.03" euler="30 -20 50"/>
        <body name="hand" pos="0 0 0.2"><joint name="wrist" axis="1 0.3 0" damping="0.3"/>
          <geom type="box" size="0.06 0.02 0.03" pos="0.03 0 0" mass="0.3" contype="0" conaffinity="0"/>
          <site name="hand" pos="0.02 0.01 -0.01" euler="-15 40 5"/></body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="strap" armature="0.02"><joint joint="shoulder" coef="1"/>
    <joint joint="wrist" coef="-0.6"/></fixed></tendon>
  <actuator><position joint="shoulder" kp="20" kv="3"/><velocity joint="wrist" kv="1.5"/></actuator>
  <sensor>
    <accelerometer name="imu" site="head"/> <accelerometer name="hand imu" site="hand"/>
    <framelinacc name="linear" objtype="site" objname="hand"/>
    <frameangacc name="angular" objtype="body" objname="arm"/>
    <force name="force" site="shoulder"/> <torque name="torque" site="hand"/> <gyro name="gyro" site="hand"/>
  </sensor>
</mujoco>
"""
INTEGRATORS = ("Euler", "RK4", "implicit", "implicitfast")
MEASURED = ["force", "torque"]
STEPS = 40


def scene(folder, integrator):
    """A box that lands on the floor, spins and waves."""
    path = folder / "scene.xml"
    path.write_text(XML.format(integrator=integrator))
    model = load_quietly(path)
    q = model.q0.copy()
    q[2] = 0.0505
    q[-2:] = (0.3, -0.4)
    qd = 0.3 * np.cos(1.7 * np.arange(model.nv))
    qd[-2:] = (2.0, -3.0)
    return path, model, q, qd


def inputs(steps):
    return np.random.default_rng(1).uniform(-1.0, 1.0, (steps, 1, 2))


def sensors_of(model, **options):
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu", contact_sensors=MEASURED, **options)
    return sim.torch.Sensors(simulator)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_readings_beside_mujoco(tmp_path, integrator):
    path, model, q, qd = scene(tmp_path, integrator)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, q, qd)
    theirs, touching = [], set()
    for control in inputs(STEPS)[:, 0]:
        data.ctrl = control
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
        touching.add(int(data.ncon))
    assert {0, 4} <= touching
    sensors, control = sensors_of(model), torch.tensor(inputs(STEPS))
    given = torch.tensor(q[None]), torch.tensor(qd[None])
    *states, found = sim.torch.rollout(sensors.simulator, *given, control=control, sensors=sensors)
    np.testing.assert_allclose(found[:, 0].numpy(), theirs, atol=1e-8 * np.abs(theirs).max())
    # From the states alone they are the same where the integrator is Euler's, else those of a whole step.
    if integrator == "Euler":
        force = sim.torch.rollout(sensors.simulator, *given, control=control, contact_forces=True).contact_force
        again = sensors(*states, control, force)
        np.testing.assert_allclose(again[:, 0].numpy(), theirs, atol=1e-8 * np.abs(theirs).max())
    else:
        whole = sim.torch.Sensors(sensors.simulator, ["hand imu"])(*states, control)[:, 0].numpy()
        assert np.abs(whole - np.array(theirs)[:, 3:6]).max() > 1e-3 * np.abs(theirs).max()


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradients(tmp_path, integrator):
    """In states and inputs, over three steps in which corners stick, slide and leave the floor."""
    _, model, q, qd = scene(tmp_path, integrator)
    sensors = sensors_of(model)
    weights = torch.tensor(np.random.default_rng(0).normal(size=(3, 1, 21)))

    def loss(q, qd, control):
        *states, readings = sim.torch.rollout(sensors.simulator, q[None], qd[None], control=control, sensors=sensors)
        return (weights * readings).sum() + states[0][-1].sum()

    given = [torch.tensor(x, requires_grad=True) for x in (q, qd, inputs(3))]
    found = torch.autograd.grad(loss(*given), given)
    step = 1e-6
    with torch.no_grad():
        base, rate, control = (x.detach() for x in given)
        by_rate = [
            float(loss(base, rate + step * e, control) - loss(base, rate - step * e, control)) / (2 * step)
            for e in torch.eye(model.nv).double()
        ]
        by_input = []
        for e in torch.eye(control.numel()).double():
            change = step * e.reshape(control.shape)
            by_input.append(float(loss(base, rate, control + change) - loss(base, rate, control - change)) / (2 * step))
        by_position, along = [], []
        for e in np.eye(model.nv):
            up, down = (
                torch.tensor(sim.integrate(model, q[None], sign * step * e[None], 1.0).numpy()[0]) for sign in (1, -1)
            )
            by_position.append(float(loss(up, rate, control) - loss(down, rate, control)) / (2 * step))
            along.append(float((up - down) @ found[0]) / (2 * step))
    for value, expected in ((along, by_position), (found[1].numpy(), by_rate), (found[2].numpy().ravel(), by_input)):
        assert np.abs(expected).max() > 1.0
        np.testing.assert_allclose(value, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_a_step_reads_in_its_last_of_several(tmp_path, integrator):
    """Readings, forces and their gradients are those of the last step of a rollout with the same input."""
    _, model, q, qd = scene(tmp_path, integrator)
    sensors, gradients = sensors_of(model), []
    for held in (True, False):
        given = [torch.tensor(x[None], requires_grad=True) for x in (q, qd)] + [
            torch.tensor(inputs(1)[0], requires_grad=True)
        ]
        start, control = given[:2], given[2]
        options = {"contact_forces": True, "sensors": sensors, "gravity": torch.tensor([0.0, 0.3, -9.0]).double()}
        if held:
            found = sim.torch.step(sensors.simulator, *start, control=control, hold=3, **options)
            assert found.readings.shape == (1, 21)
            assert found.contact_force.shape[:2] == (1, len(MEASURED))
            assert found[2] is found.contact_force
            results = [found.q, found.qd, found.contact_force, found.readings]
        else:
            found = sim.torch.rollout(sensors.simulator, *start, control=control.expand(3, 1, 2), **options)
            results = [values[-1] for values in found]
        gradients.append((results, torch.autograd.grad(sum(value.square().sum() for value in results), given)))
    for one, two in zip(*gradients, strict=True):
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradient_in_a_parameter_with_other_worlds_gone_bad(tmp_path, integrator):
    """What a bad world reads adds nothing."""
    _, model, q, qd = scene(tmp_path, integrator)
    worlds = 3
    sensors = sensors_of(model, num_worlds=worlds)
    start, rate = (torch.tensor(np.tile(x, (worlds, 1))) for x in (q, qd))
    rate[1] = torch.nan
    rate.requires_grad = True
    with pytest.warns(sim.NotFiniteWarning):
        readings = sim.torch.rollout(
            sensors.simulator, start, rate, steps=3, leave_out_bad_worlds=True, sensors=sensors
        ).readings
    readings[:, [0, 2]].sum().backward()
    assert rate.grad[1].abs().max() == 0.0
    single = sensors_of(model)
    alone = torch.tensor(qd[None], requires_grad=True)
    expected = sim.torch.rollout(single.simulator, start[:1], alone, steps=3, sensors=single).readings
    expected.sum().backward()
    for world in (0, 2):
        np.testing.assert_allclose(readings[:, world].detach(), expected[:, 0].detach(), rtol=1e-12)
        np.testing.assert_allclose(rate.grad[world], alone.grad[0], rtol=1e-10)


@pytest.mark.parametrize("name", ["mass", "damping", "joint_placement", "gravity", "actuator_kp", "tendon_armature"])
def test_parameters_count_in_the_readings_as_in_the_motion(tmp_path, name):
    """Given for a call they read as those that the simulator has, and have the gradient of differences."""
    _, model, q, qd = scene(tmp_path, "Euler")
    sensors = sensors_of(model)
    given, control = (torch.tensor(q[None]), torch.tensor(qd[None])), torch.tensor(inputs(4))
    weights = torch.tensor(np.random.default_rng(0).normal(size=(4, 1, 21)))
    present = torch.tensor(sensors.simulator.parameters[name])
    other = (1.1 * present).requires_grad_()

    def loss(value):
        readings = sim.torch.rollout(
            sensors.simulator, *given, control=control, sensors=sensors, **{name: value}
        ).readings
        return (weights * readings).sum()

    (slope,) = torch.autograd.grad(loss(other), other)
    change = 1e-6 * torch.randn(present.shape, dtype=present.dtype, generator=torch.Generator().manual_seed(1))
    change = change * (present != 0.0)
    with torch.no_grad():
        difference = float(loss(other + change) - loss(other - change)) / 2.0
        found = float(loss(other))
    assert float((slope * change).sum()) == pytest.approx(difference, rel=1e-4)
    np.testing.assert_array_equal(sensors.simulator.parameters[name], present)
    sensors = copy.deepcopy(sensors)  # nothing of a call is kept that couldn't be copied
    sensors.simulator.parameters[name] = other.detach()
    readings = sim.torch.rollout(sensors.simulator, *given, control=control, sensors=sensors).readings
    assert float((weights * readings).sum()) == pytest.approx(found, rel=1e-12)


def test_a_mass_is_learnt_from_a_force_sensor(tmp_path):
    _, model, q, qd = scene(tmp_path, "Euler")
    sensors = sensors_of(model)
    given, control = (torch.tensor(q[None]), torch.tensor(qd[None])), torch.tensor(inputs(20))
    own = torch.tensor(model.parameters["mass"])
    measured = sim.torch.rollout(
        sensors.simulator, *given, control=control, mass=own * torch.tensor([1, 1, 2]), sensors=sensors
    ).readings
    factor = torch.ones((), dtype=own.dtype, requires_grad=True)
    optimiser = torch.optim.LBFGS([factor], line_search_fn="strong_wolfe")

    def miss():
        optimiser.zero_grad()
        mass = own * torch.stack([torch.ones_like(factor), torch.ones_like(factor), factor])
        read = sim.torch.rollout(sensors.simulator, *given, control=control, mass=mass, sensors=sensors).readings
        loss = (read - measured)[..., sensors.slices["force"]].square().mean()
        loss.backward()
        return loss

    optimiser.step(miss)
    assert factor.item() == pytest.approx(2.0, abs=1e-3)


def test_bad_worlds_give_shared_parameters_no_gradient(tmp_path):
    _, model, q, qd = scene(tmp_path, "Euler")
    rate = torch.tensor(np.tile(qd, (2, 1)))
    rate[1] = torch.nan
    gradients = []
    for worlds in (1, 2):
        mass = torch.tensor(model.parameters["mass"], requires_grad=True)
        sensors, start = sensors_of(model, num_worlds=worlds), torch.tensor(np.tile(q, (worlds, 1)))
        with contextlib.nullcontext() if worlds == 1 else pytest.warns(sim.NotFiniteWarning):
            readings = sim.torch.rollout(
                sensors.simulator, start, rate[:worlds], steps=3, leave_out_bad_worlds=True, mass=mass, sensors=sensors
            ).readings
        readings[:, 0].sum().backward()
        gradients.append(mass.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_parameters_are_checked(tmp_path):
    _, model, q, qd = scene(tmp_path, "Euler")
    sensors = sensors_of(model)
    states = torch.tensor(np.tile(q, (3, 1, 1))), torch.tensor(np.tile(qd, (3, 1, 1)))
    for call in (lambda **given: sensors(*states, **given), lambda **given: sim.torch.rollout(
        sensors.simulator, states[0][0], states[1][0], steps=2, sensors=sensors, **given
    )):  # fmt: skip
        with raises_naming("unknown", "parameter 'weight'"):
            call(weight=1.0)
        with raises_naming("parameter 'mass'", "shape", "(2,)", "(3,)", "(1, 3)"):
            call(mass=torch.ones(2))


def test_hard_contact_reads_as_from_the_states(tmp_path):
    _, model, q, qd = scene(tmp_path, "Euler")
    hard = sim.HardContact()
    simulator = sim.Simulator(model, 0.004, device="cpu", contact=hard, contact_sensors=MEASURED)
    sensors = sim.torch.Sensors(simulator)
    given = torch.tensor(q[None]), torch.tensor(qd[None])
    *states, found = sim.torch.rollout(sensors.simulator, *given, steps=5, sensors=sensors)
    *again, force = sim.torch.rollout(simulator, *given, steps=5, contact_forces=True)
    torch.testing.assert_close(found, sensors(*again, contact_force=force), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(states, again, rtol=0, atol=0)


def test_what_is_refused(tmp_path):
    _, model, q, qd = scene(tmp_path, "Euler")
    simulator = sim.Simulator(model, 0.004, device="cpu", contact=sim.HardContact())
    state = simulator.state(q, qd)
    with raises_naming("keeps_solved", "sim.MujocoContact"):
        run_steps(simulator.engine, StateArrays(state.q, state.qd), None, None, 2, 1, keeps_solved=True)
    measured = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu", contact_sensors=MEASURED)
    trajectory = measured.rollout(measured.state(q, qd), steps=2)
    assert trajectory.solved is None
    refuses(lambda: trajectory.gradients(solved_grad=np.zeros((2, 1, model.nv))), "solved_grad", "rollout")
    whole = [torch.tensor(x[None]) for x in (q, qd)]
    refuses(lambda: sim.torch.step(simulator, *whole, contact_forces=True), "step", "contact_sensors")
    sensors = sensors_of(model)
    refuses(lambda: sim.torch.step(simulator, *whole, sensors=sensors), "step", "another simulator")
