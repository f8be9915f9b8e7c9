"""A step's matrices of derivatives, beside differences in tangent coordinates and beside MuJoCo's."""

import numpy as np
import pytest

import sim
from scenes import quadruped
from scenes.mjcf import to_mjcf
from tests.actuators.worlds import arm as servo_arm
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import TILT, at, ball, box

H = 1 / 240


def differences(
    simulator: sim.Simulator, state: sim.State, tau: np.ndarray, step: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Central differences of the next state in tangent coordinates, of one world: A and B_tau."""
    model = simulator.model
    q, qd = state.q.numpy(), state.qd.numpy()
    middle = simulator.step(state, tau).q

    def after(dq: np.ndarray, dqd: np.ndarray, dtau: np.ndarray) -> np.ndarray:
        moved = sim.integrate(model, q, dq[None])
        found = simulator.step(simulator.state(moved.numpy(), qd + dqd), tau + dtau)
        return np.concatenate([sim.difference(model, middle, found.q).numpy()[0], found.qd.numpy()[0]])

    nv = model.nv
    columns = []
    # A newton moves a body in a step by less than a metre moves it: a larger step keeps the digits.
    for unit in np.diag(step * np.repeat([1.0, 1.0, 100.0], nv)):
        parts = np.split(unit, 3)
        columns.append((after(*parts) - after(*(-part for part in parts))) / (2 * unit.sum()))
    whole = np.transpose(columns)
    return whole[:, : 2 * nv], whole[:, 2 * nv :]


@pytest.mark.parametrize("solver", ["pgs", "newton"])
def test_a_box_that_lands_and_slides(solver):
    model = box(orientation=TILT)
    simulator = sim.Simulator(model, H, device="cpu", contact=sim.ContactOptions(solver=solver))
    state = simulator.state(at(model, 0.0517), [1.0, 0.2, -0.5, 0.2, 0.1, 0.3])
    tau = 0.1 * np.arange(6.0)
    found = simulator.linearise(state, tau)
    A, B = differences(simulator, state, tau)
    assert found.A.shape == (1, 12, 12)
    assert found.B_control.shape == (1, 12, 0)
    np.testing.assert_allclose(found.A[0], A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_allclose(found.B_tau[0], B, atol=1e-6 * np.abs(B).max())
    np.testing.assert_array_equal(found.next_state.q.numpy(), simulator.step(state, tau).q.numpy())


def test_a_ball_that_bounces_within_the_step():
    """Its coordinates move along another velocity than the next one. Then its restitution is taken away."""
    model = ball(restitution=0.8)
    simulator = sim.Simulator(model, H, device="cpu")
    state = simulator.state(at(model, 0.105), [1.0, 0.2, -3.0, 0.2, 0.1, 0.3])
    tau = 0.1 * np.arange(6.0)
    for restitution in (model.parameters["restitution"], np.zeros(model.num_geometries)):
        simulator.set_parameter("restitution", restitution)
        found = simulator.linearise(state, tau)
        A, B = differences(simulator, state, tau)
        np.testing.assert_allclose(found.A[0], A, atol=1e-6 * np.abs(A).max())
        np.testing.assert_allclose(found.B_tau[0], B, atol=1e-6 * np.abs(B).max())


def test_inputs_of_actuators():
    model = servo_arm()
    simulator = sim.Simulator(model, H, device="cpu")
    state = simulator.state(0.1 * np.arange(1.0, model.nq + 1), 0.3 * np.ones(model.nv))
    control, step = 0.2 * np.ones(model.nu), 1e-6
    columns = []
    for unit in step * np.eye(model.nu):
        there, back = (simulator.step(state, control=control + sign * unit) for sign in (1.0, -1.0))
        change = [a.numpy()[0] - b.numpy()[0] for a, b in ((there.q, back.q), (there.qd, back.qd))]
        columns.append(np.concatenate(change) / (2 * step))
    found = simulator.linearise(state, control=control).B_control[0]
    np.testing.assert_allclose(found, np.transpose(columns), atol=1e-7 * np.abs(found).max())


def test_as_in_mujoco():
    """A chain of four hinges in the air, beside MuJoCo's differences of its own step."""
    mujoco = pytest.importorskip("mujoco")
    model = bent_loop().finalize("float64")
    q, qd = np.array([0.3, 0.4, 0.5, 0.6]), np.array([0.5, -0.3, 0.2, 0.4])
    simulator = sim.Simulator(model, H, device="cpu")
    found = simulator.linearise(simulator.state(q, qd))
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=H, sweeps=50))
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, q, qd)
    A, B = np.zeros((8, 8)), np.zeros((8, peer.nu))
    mujoco.mjd_transitionFD(peer, data, 1e-6, True, A, B, None, None)
    np.testing.assert_allclose(found.A[0], A, atol=1e-6 * np.abs(A).max())


def test_worlds_with_parameters_of_their_own():
    """Each world's matrices are those that it has alone, also after a parameter changed."""
    scene = quadruped.build("float64", friction=0.4, height=0.001)
    model, rng = scene.model, np.random.default_rng(1)
    masses = np.stack([model.parameters["mass"], 1.5 * model.parameters["mass"]])
    contact = sim.ContactOptions()
    both = sim.Simulator(model, H, 2, "cpu", contact, {"mass": masses})
    qd = 0.3 * rng.normal(size=(2, model.nv))
    both.linearise(both.state(scene.q0, qd))
    both.set_parameter("damping", np.full(model.nv, 0.3))
    found = both.linearise(both.state(scene.q0, qd))
    for world in range(2):
        alone = sim.Simulator(model, H, 1, "cpu", contact, {"mass": masses[world], "damping": np.full(model.nv, 0.3)})
        expected = alone.linearise(alone.state(scene.q0, qd[world]))
        np.testing.assert_array_equal(found.A[world], expected.A[0])
        np.testing.assert_array_equal(found.B_tau[world], expected.B_tau[0])


def test_a_warm_start_is_refused():
    simulator = sim.Simulator(box(), H, contact=sim.ContactOptions(solver="pgs", warm_start=True))
    with pytest.raises(sim.ModelError, match="with warm_start the impulses are part of the state"):
        simulator.linearise(simulator.initial_state())
