"""MuJoCo's integrator "implicitfast" here and there, and its gradients."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

import sim
from tests.contact.mujoco.scenes import CONTROL, DT, SOLREF, Pair
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import assert_same_state, data_at
from tests.simulation.differences import case, check

NAMES = (
    "mass", "com", "inertia", "armature", "damping", "friction", "actuator_kp", "actuator_kd", "actuator_gear",
    "actuator_kd_per_input",
)  # fmt: skip
WIDE = (0.7, 0.95, 0.02, 0.4, 3.0)
GENTLE = (-0.4, 0.3, 0.2)


@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("control", [CONTROL, GENTLE], ids=["at limits", "within limits"])
def test_against_mujoco(tmp_path, control, steps):
    """Servos with velocity gains, at their limits of force and within; the arm is beyond its range."""
    pair = Pair(tmp_path)
    pair.peer.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    ours = sim.Simulator(pair.model, DT, 1, "cpu", pair.contact, integrator="implicitfast")
    data, euler = pair.theirs(), pair.theirs()
    for each in (data, euler):
        each.ctrl = control
    end = ours.rollout(ours.state(pair.q, pair.qd), control=np.tile(control, (steps, 1, 1))).final_state
    for _ in range(steps):
        mujoco.mj_step(pair.peer, data)
    pair.peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    for _ in range(steps):
        mujoco.mj_step(pair.peer, euler)
    assert np.abs(data.qvel - euler.qvel).max() > 1e-4
    assert_same_state(pair.model, end, data, 1e-13 if steps == 1 else 1e-9, 1e-11 if steps == 1 else 1e-8)


@pytest.mark.parametrize("control", [CONTROL, GENTLE], ids=["at limits", "within limits"])
def test_gradients(tmp_path, control):
    pair = Pair(tmp_path, solimp=WIDE)
    c = case(pair.model, 5, pair.q, pair.qd, contact=replace(pair.contact, solref=SOLREF, solimp=WIDE), dt=DT)
    check(replace(c, control=np.tile(control, (5, 1)), integrator="implicitfast"), NAMES)


def test_a_stiff_servo_stays_stable():
    """Beyond 2 / dt times the inertia a velocity gain is unstable by Euler's method, and not by this one."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    link = builder.add_link("arm", mass=1.0, com=(0.5, 0, 0), inertia=np.eye(3) * 0.01)
    builder.add_joint("hinge", "continuous", child=link)
    builder.add_actuator("hinge", "velocity", gains=sim.Gains(kd=500.0))
    model = builder.finalize("float64")
    speeds = []
    for integrator in ("euler", "implicitfast"):
        law, no_limit = sim.MujocoContact(), (np.inf, np.inf)
        ours = sim.Simulator(model, 0.004, 1, "cpu", law, integrator=integrator, state_limit=no_limit)
        end = ours.rollout(ours.state([0.0], [1.0]), control=np.zeros((100, 1, 1))).final_state
        speeds.append(abs(float(end.qd.numpy()[0, 0])))
    assert speeds[0] > 1e3
    assert speeds[1] < 1e-6


FREE = """
<mujoco>
  <option timestep="0.01" gravity="0 0 -9.81" integrator="implicitfast"/>
  <worldbody>
    <body pos="0 0 3"><joint type="free" damping="{damping}" armature="{armature}"/>
      <geom type="box" pos=".1 .05 .02" size=".2 .15 .1" mass="2"/></body>
    <body pos="2 0 3"><freejoint/><geom type="box" size=".2 .15 .1" mass="2"/>
      <body pos=".3 0 0"><joint type="hinge" axis="0 1 0" damping=".5"/>
        <geom type="box" pos=".2 0 0" size=".2 .05 .1" mass="1"/></body></body>
    <body pos="4 0 3"><freejoint/><geom type="box" size=".2 .15 .1" mass="2"/>
      <body pos=".3 0 0"><geom type="box" pos=".2 0 0" size=".2 .05 .1" mass="1"/></body></body>
  </worldbody>
</mujoco>
"""
QD = (0.3, -0.2, 0.1, 3.0, -5.0, 4.0, 0.0, 0.1, 0.2, 2.0, 4.0, -3.0, 1.5, -0.3, 0.2, 0.0, -4.0, 1.0, 5.0)


@pytest.mark.parametrize(("damping", "armature"), [(0.0, 0.0), (0.7, 0.0), (0.4, 0.2)])
def test_free_bodies_spin_as_in_mujoco(tmp_path, damping, armature):
    """Those that nothing is joined to implicitly, also where two are welded together; others by Euler's method."""
    path = tmp_path / "free.xml"
    path.write_text(FREE.format(damping=damping, armature=armature))
    peer = mujoco.MjModel.from_xml_path(str(path))
    model = load_quietly(path)
    # Along world axes here and along the body's there: damping that is equal for all is the same, armature isn't once
    # the body has turned.
    steps = 30 if armature == 0.0 else 1
    ours = sim.Simulator(model, 0.01, 1, "cpu", sim.MujocoContact(), integrator="implicitfast")
    data = data_at(peer, model, model.q0, np.array(QD))
    end = ours.rollout(ours.state(model.q0, QD), steps=steps).final_state
    mujoco.mj_step(peer, data, steps)
    assert_same_state(model, end, data, 1e-12, 1e-11)


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_gradients_of_free_bodies(tmp_path, damping):
    path = tmp_path / "free.xml"
    path.write_text(FREE.format(damping=damping, armature=0.1))
    model = load_quietly(path)
    c = case(model, 4, model.q0, QD, contact=sim.MujocoContact(), dt=0.01)
    check(replace(c, integrator="implicitfast"), ["mass", "com", "inertia", "armature", "damping", "gravity"])
