"""MuJoCo's law here and in MuJoCo: forces and velocities of one step, and motions of hundreds of them."""

import mujoco
import numpy as np
import pytest

import sim
from tests.contact.mujoco.scenes import CONTROL, DT, Pair

SOFTNESS = {
    "default": {},
    "impratio": {"impratio": 10.0},
    "overdamped": {"solref": (0.05, 1.7)},
    "too fast": {"solref": (0.002, 0.8)},
    "stiffness": {"solref": (-900.0, -40.0)},
    "wide": {"solimp": (0.3, 0.9, 0.02, 0.3, 3.0)},
    "linear": {"solimp": (0.5, 0.99, 0.01, 0.5, 1.0)},
    "flat": {"solimp": (0.8, 0.8, 0.01, 0.5, 2.0)},
    "frictionless box": {"box": 1},
}


def control(steps: int) -> np.ndarray:
    """The inputs of one world [steps, 1, nu]."""
    return np.tile(CONTROL, (steps, 1, 1))


@pytest.mark.parametrize("options", SOFTNESS.values(), ids=SOFTNESS)
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_one_step(tmp_path, cone, options):
    pair = Pair(tmp_path, cone, **options)
    simulator, data = pair.simulator(), pair.theirs()
    assert data.ncon == 7
    trajectory = simulator.rollout(simulator.state(pair.q, pair.qd), control=control(1))
    mujoco.mj_step(pair.peer, data)
    _, qvel = sim.to_mujoco(pair.model, trajectory.q.numpy()[1, 0], trajectory.qd.numpy()[1, 0])
    assert np.abs(data.qvel - pair.theirs().qvel).max() > 0.5
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-11)
    assert simulator.residual.max() < 1e-12


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_forces(tmp_path, cone):
    """Normal forces of all contacts."""
    pair = Pair(tmp_path, cone)
    simulator, data = pair.simulator(), pair.theirs()
    found = simulator.contacts(simulator.state(pair.q, pair.qd), control=control(1)[0])
    forces = np.zeros((data.ncon, 6))
    for number in range(data.ncon):
        mujoco.mj_contactForce(pair.peer, data, number, forces[number])
    theirs = sorted(force[0] for force in forces)
    ours = sorted((found.force * found.normal).sum(axis=1))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_a_second_of_motion(tmp_path, cone):
    """The bodies slide and roll, the box comes to rest; nothing of it is chaotic."""
    pair = Pair(tmp_path, cone)
    if cone == "pyramidal":
        # MuJoCo turns the pyramid with the capsule that lies on it: straight on both are the same.
        pair.qd[6:12] = (2.0, 0, -0.2, 0, 1.0, 0)
    simulator, data = pair.simulator(), pair.theirs()
    q = simulator.rollout(simulator.state(pair.q, pair.qd), control=control(250)).q.numpy()[1:, 0]
    drift = []
    for row in q:
        mujoco.mj_step(pair.peer, data)
        qpos, _ = sim.to_mujoco(pair.model, row, np.zeros(pair.model.nv))
        drift.append(np.abs(qpos - data.qpos).max())
    assert max(drift) < 1e-7


def test_single_precision(tmp_path):
    pair = Pair(tmp_path, dtype="float32")
    simulator, data = pair.simulator(), pair.theirs()
    trajectory = simulator.rollout(simulator.state(pair.q, pair.qd), control=control(1))
    mujoco.mj_step(pair.peer, data)
    _, qvel = sim.to_mujoco(pair.model, trajectory.q.numpy()[1, 0], trajectory.qd.numpy()[1, 0])
    # Poses are rounded to 1e-7 m, and stiffness makes 1e-6 m/s of that; the capsule turns easily.
    np.testing.assert_allclose(qvel, data.qvel, rtol=5e-5, atol=3e-5)


def test_inverse_weights(tmp_path):
    pair = Pair(tmp_path)
    weights = pair.simulator().engine.shards[0].step.law
    np.testing.assert_allclose(weights.geometry_inverse_weight.numpy(), pair.peer.body_invweight0[:, 0], rtol=1e-12)
    np.testing.assert_allclose(weights.dof_inverse_weight.numpy(), pair.peer.dof_invweight0, rtol=1e-12)


def test_a_ball_on_the_ground_sinks_in_as_the_impedance_says():
    """At rest a_ref = k d(x) |x| is what R times the force asks for: (1 - d) g / d for one contact of one body."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=2.0, position=(0, 0, 0.1))
    model = builder.finalize("float64")
    flat = (0.8, 0.8, 0.001, 0.5, 2.0)
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.MujocoContact(solimp=flat))
    end = simulator.rollout(simulator.initial_state(), steps=2000).final_state.q.numpy()[0, 2]
    stiffness = 1.0 / (0.8 * 0.02) ** 2
    np.testing.assert_allclose(0.1 - end, (1.0 - 0.8) * 9.81 / 0.8 / (stiffness * 0.8), rtol=1e-9)


RODS = """
<mujoco>
  <option timestep="0.002" tolerance="0"/>
  <worldbody>
    <body name="lower"><geom type="capsule" size="0.03 0.3" zaxis="1 0 0" mass="1"/><freejoint/></body>
    <body name="upper" pos="0 0.002 0.0599"><freejoint/>
      <geom type="capsule" size="0.03 0.25" zaxis="1 {slope} 0" mass="1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("slope", [0.0, 5e-5, 2e-4, 1e-3, 0.005, 0.1])
def test_rods_that_are_almost_parallel(tmp_path, slope):
    """Two contacts of axes that are parallel, one of those that cross, at however small an angle."""
    path = tmp_path / "rods.xml"
    path.write_text(RODS.format(slope=slope))
    peer, model = mujoco.MjModel.from_xml_path(str(path)), sim.load(path, dtype="float64")
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    data = mujoco.MjData(peer)
    data.qvel[2], data.qvel[8], data.qvel[3:6] = 0.3, -0.2, (0.4, -0.5, 0.3)
    state = simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel))
    trajectory = simulator.rollout(state, steps=1)
    mujoco.mj_step(peer, data)
    assert data.ncon == (2 if slope < 1e-4 else 1)
    _, qvel = sim.to_mujoco(model, trajectory.q.numpy()[1, 0], trajectory.qd.numpy()[1, 0])
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-9)
