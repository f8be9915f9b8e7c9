"""The same robots with the same actuators in MuJoCo, implicitfast integrator."""

import mujoco
import numpy as np
import pytest

import sim
from scenes.mjcf import to_mjcf
from tests.actuators.worlds import arm
from tests.importers.mjcf_zoo import load_quietly

DT = 0.002
STEPS = 500


def in_mujoco(model: sim.Model, dt: float, control: np.ndarray) -> np.ndarray:
    """q and qd [steps + 1, nq + nv] from rest at zero."""
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=dt, sweeps=100))
    data = mujoco.MjData(peer)
    states = [np.concatenate([data.qpos, data.qvel])]
    for u in control:
        data.ctrl[:] = u
        mujoco.mj_step(peer, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
    return np.array(states)


def here(model: sim.Model, dt: float, control: np.ndarray) -> np.ndarray:
    simulator = sim.Simulator(model, dt, device="cpu")
    trajectory = simulator.rollout(simulator.initial_state(), control=control)
    return np.concatenate([trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]], axis=1)


def signals(dt: float, steps: int) -> np.ndarray:
    """[steps, 4]: a torque, an angle of a geared servo, a velocity, an angle."""
    t = dt * np.arange(steps)
    return np.stack(
        [3.0 * np.sin(5.0 * t), 0.6 * np.sin(3.0 * t), 0.3 * np.cos(4.0 * t), 0.5 * np.sin(6.0 * t)], axis=1
    )


@pytest.mark.parametrize("limit", [np.inf, 1.2])
def test_equal_motion_within_the_limits_of_servos(limit):
    """Kinds, gears, both gains, and a torque that is cut off: the same motion to rounding."""
    control = signals(DT, STEPS)
    ours = here(arm(limits=(limit, np.inf, np.inf, np.inf)), DT, control)
    theirs = in_mujoco(arm(limits=(limit, np.inf, np.inf, np.inf)), DT, control)
    assert np.abs(theirs).max() > 0.5
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


def test_equal_motion_far_beyond_the_limits():
    """Without gravity and with targets far away all forces are at their limits, here as there."""
    limits = (1.2, 0.8, 1.5, 0.3)
    control = np.tile([5.0, 9.0, 8.0, -9.0], (100, 1))
    model = arm(limits=limits, gravity=0.0)
    theirs = in_mujoco(model, DT, control)
    assert np.abs(theirs[-1]).max() > 0.5
    np.testing.assert_allclose(here(model, DT, control), theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


def test_nearly_equal_motion_across_the_limits():
    """MuJoCo limits the force that the present velocity asks for, this project that of the end of the step: the motions
    differ by what the few steps at which a force crosses its limit make of that.
    """
    model = arm(limits=(1.2, 6.0, 4.0, 1.0))
    control = signals(1e-3, 600)
    ours, theirs = here(model, 1e-3, control), in_mujoco(model, 1e-3, control)
    assert np.abs(theirs).max() > 0.5
    difference = np.abs(ours - theirs).max()
    assert 1e-9 < difference < 1e-5 * np.abs(theirs).max()


ROTOR = """
<mujoco>
  <option timestep="0.005" tolerance="0" iterations="100" integrator="{integrator}"/>
  <worldbody>
    <body><joint name="a" axis="0 1 0" damping="0.1" armature="0.01" range="-0.5 0.2" limited="true"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.03"/>
      <body pos="0.3 0 0.1"><joint name="b" axis="1 1 0" range="-1 0.1" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0.1 0.2 0" size="0.03"/></body></body>
  </worldbody>
  <actuator><motor joint="a" gear="3" armature="0.05" damping="0.2"/>
    <position joint="b" kp="30" kv="0.5" gear="2" armature="0.02"/> <motor joint="a" gear="0.5" damping="0.7"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_armature_and_damping_of_actuators(tmp_path, integrator):
    """MuJoCo 4 has them as attributes of actuators: times the square of the gear they are their joints'."""
    path = tmp_path / "rotor.xml"
    path.write_text(ROTOR.format(integrator=integrator))
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    data, start = mujoco.MjData(peer), ((0.21, 0.1), (0.7, -1.3))
    data.qpos, data.qvel = start
    data.ctrl = (0.3, -0.2, 0.5)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    state = simulator.state(*(np.array(each) for each in start))
    for _ in range(5):
        mujoco.mj_step(peer, data)
        state = simulator.step(state, control=np.array([data.ctrl]))
    np.testing.assert_allclose(state.qd.numpy()[0], data.qvel, atol=1e-11)
