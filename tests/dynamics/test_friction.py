"""Dry friction of joints in motion: MuJoCo's constraints, the simulator's, and what torques tell of it."""

import mujoco
import numpy as np
import pytest
import warp as wp
from numpy.testing import assert_allclose

import sim
from tests.dynamics.states import random_state
from tests.dynamics.trees import build, zoo
from tests.importers.mjcf_zoo import compiled, load_quietly, write_zoo
from tests.importers.reference import GYMNASIUM
from tests.simulation.gyroscopic import added_wrenches, bases
from warp_kernels import types as codes


@pytest.mark.parametrize("name", ["zoo", "ant", "humanoid"])
def test_mujoco_has_the_same_dynamics(name, tmp_path, device):
    """MuJoCo's constraint that is to stop a joint within a tenth of a millisecond is at its bound, exactly."""
    path = write_zoo(tmp_path) if name == "zoo" else GYMNASIUM / f"{name}.xml"
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    model, peer = load_quietly(path, collision=False), compiled(path)
    rng = np.random.default_rng(0)
    q, _, _, _ = random_state(model, 0, 3)
    qd = rng.choice([-1.0, 1.0], (3, model.nv)) * rng.uniform(0.5, 1.5, (3, model.nv))
    # As much as twice the gravity of a unit; of a free body the axes are others there.
    loss = 2.0 * sim.mass_matrix(model, q[:1]).numpy()[0].diagonal()
    for link in np.flatnonzero(model.joint_type == codes.FREE):
        loss[model.qd_slice(model.joint_names[link])] = 0.0
    m = sim.DeviceModel(model, device, parameters={"friction_loss": loss})
    still = sim.DeviceModel(model, device, parameters={"friction_loss": 0.0 * loss})
    tau = rng.normal(size=(3, model.nv))
    qdd = sim.forward_dynamics(m, q, qd, tau).numpy()
    peer.dof_frictionloss[:] = loss
    peer.opt.density = peer.opt.viscosity = 0.0
    off = mujoco.mjtDisableBit
    for flag in (off.mjDSBL_CONTACT, off.mjDSBL_LIMIT, off.mjDSBL_ACTUATION, off.mjDSBL_REFSAFE):
        peer.opt.disableflags |= int(flag)
    peer.dof_solref[:] = 1e-4, 1.0
    data = mujoco.MjData(peer)
    for world in range(3):
        to_peer = sim.to_mujoco(model, np.tile(q[world], (model.nv, 1)), np.eye(model.nv))[1].T
        data.qpos, data.qvel = sim.to_mujoco(model, q[world], qd[world])
        data.qfrc_applied = np.linalg.solve(to_peer.T, tau[world])
        mujoco.mj_forward(peer, data)
        assert_allclose(data.qfrc_constraint, -loss * np.sign(qd[world]), rtol=1e-12, atol=0)
        scale = np.abs(data.qacc).max()
        assert_allclose(to_peer @ qdd[world], data.qacc, rtol=0, atol=1e-10 * scale)
        mujoco.mj_inverse(peer, data)
        given = [x[None] for x in (q[world], qd[world], np.linalg.solve(to_peer, data.qacc))]
        force = to_peer.T @ data.qfrc_inverse
        assert_allclose(sim.inverse_dynamics(m, *given).numpy()[0], force, rtol=0, atol=1e-10 * np.abs(force).max())
        # Friction makes a difference that could not be missed.
        without = force - sim.inverse_dynamics(still, *given).numpy()[0]
        assert_allclose(without, loss * np.sign(qd[world]), rtol=0, atol=1e-10 * np.abs(force).max())


@pytest.mark.parametrize("loss", [0.0, 0.4], ids=["none yet", "some"])
def test_gradients_of_friction_where_joints_rest(loss, device):
    """They are the signs of the velocities, zero at rest, also in friction that is zero."""
    model = build(zoo(), "float64")
    q, qd, qdd, _ = random_state(model, 0, 4)
    qd[0] = 0.0
    qd[1, ::2] = 0.0
    qd[2, 1::2] = -0.0
    weight = np.random.default_rng(1).normal(size=qd.shape)
    m = sim.DeviceModel(model, device, 1, {"friction_loss": np.full(model.nv, loss)}, ["friction_loss"])
    without = sim.DeviceModel(model, device, 1, {"friction_loss": np.zeros(model.nv)})
    inverse = sim.mass_matrix_inverse(m, q).numpy()
    for function, share in (
        (sim.inverse_dynamics, weight * np.sign(qd)),
        (sim.forward_dynamics, -np.einsum("wij,wj->wi", inverse, weight) * np.sign(qd)),
    ):
        m.set_parameter("friction_loss", np.full(model.nv, loss))
        speed = wp.array(qd, dtype=wp.float64, device=device, requires_grad=True)
        with wp.Tape() as tape:
            result = function(m, q, speed, qdd)
        result.grad.assign(weight)
        tape.backward()
        assert_allclose(m.gradient("friction_loss"), share.sum(0), rtol=1e-12, atol=1e-12)
        found = ((result.numpy() - function(without, q, qd, qdd).numpy()) * weight).sum()
        assert_allclose(found, loss * share.sum(), rtol=1e-12, atol=1e-12)
        # In the velocity dry friction has no gradient, at rest neither.
        again = wp.array(qd, dtype=wp.float64, device=device, requires_grad=True)
        with wp.Tape() as tape:
            other = function(without, q, again, qdd)
        other.grad.assign(weight)
        tape.backward()
        assert_allclose(speed.grad.numpy(), again.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_a_step_has_the_same_friction_in_motion(device):
    """The simulator's constraints, at their bound, change velocities as forward dynamics says.

    With what the midpoint rule adds to gyroscopic forces as external wrenches there.
    """
    model = build(zoo(), "float64")
    for name in ("damping", "stiffness"):
        model.parameters[name][:] = 0.0  # which a step takes at its end
    q, qd, _, _ = random_state(model, 2, 3)
    qd += np.sign(qd)
    tau = np.random.default_rng(3).normal(size=qd.shape)
    dt = 1e-4
    simulator = sim.Simulator(model, dt, num_worlds=3, device=device)
    state = simulator.step(simulator.state(q, qd), tau)
    after = state.qd.numpy()
    # Of floating bases the velocity of the step is that about the centre of mass before it.
    for base in bases(model):
        back = base.arm(q) - base.arm(state.q.numpy())
        after[:, base.qd : base.qd + 3] -= np.cross(after[:, base.qd + 3 : base.qd + 6], back)
    wrench = added_wrenches(simulator)
    qdd = sim.forward_dynamics(sim.DeviceModel(model, device), q, qd, tau, wrench=wrench).numpy()
    # The rounding of the velocities is divided by the time step.
    assert_allclose((after - qd) / dt, qdd, rtol=0, atol=1e-11 * np.abs(qdd).max())
