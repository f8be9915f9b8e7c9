"""MuJoCo's Runge-Kutta method here and there, its gradients, and what of it is refused."""

import pickle
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from sim.arrays.launch import is_collecting
from sim.simulation.stepping.runge_kutta import RungeKuttaStep
from tests.contact.mujoco.scenes import CONTROL, DT, SOLREF, Pair
from tests.errors import raises_naming, refuses
from tests.mujoco_states import assert_same_state
from tests.simulation.differences import case, check

NAMES = (
    "mass", "com", "inertia", "friction", "solref", "solimp", "upper_limit", "friction_loss", "actuator_kp",
    "actuator_gear", "armature", "damping", "stiffness", "geometry_size", "gravity", "joint_placement",
)  # fmt: skip
WIDE = (0.7, 0.95, 0.02, 0.4, 3.0)


def simulator(pair: Pair, num_worlds: int = 1, **options) -> sim.Simulator:
    return sim.Simulator(pair.model, DT, num_worlds, "cpu", pair.contact, integrator="rk4", **options)


def control(steps: int) -> np.ndarray:
    """The inputs of one world [steps, 1, nu]."""
    return np.tile(CONTROL, (steps, 1, 1))


@pytest.mark.parametrize(("cone", "steps"), [("elliptic", 1), ("elliptic", 50), ("pyramidal", 1)])
def test_against_mujoco(tmp_path, cone, steps):
    """Bodies that slide and roll, turn and lie, and an arm beyond its limits."""
    pair = Pair(tmp_path, cone)
    pair.peer.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    ours, data = simulator(pair), pair.theirs()
    end = ours.rollout(ours.state(pair.q, pair.qd), control=control(steps)).final_state
    for _ in range(steps):
        mujoco.mj_step(pair.peer, data)
    assert np.abs(data.qvel - pair.theirs().qvel).max() > 0.5
    assert_same_state(pair.model, end, data, 1e-13 if steps == 1 else 1e-9, 1e-12 if steps == 1 else 1e-8)
    assert ours.residual.max() < 1e-12


def top() -> sim.Model:
    """A body on a spherical joint away from its centre of mass, of three different moments of inertia."""
    builder = sim.ModelBuilder()
    link = builder.add_link("top", mass=1.0, com=(0.1, 0.05, 0.3), inertia=np.diag([0.03, 0.05, 0.04]))
    builder.add_joint("pivot", "spherical", child=link)
    return builder.finalize("float64")


def test_order_on_rotations():
    """Half the step, a sixteenth of the error."""
    model = top()
    ends = []
    for steps in (16, 32, 64, 2048):
        ours = sim.Simulator(model, 0.5 / steps, 1, "cpu", sim.MujocoContact(), integrator="rk4")
        end = ours.rollout(ours.state(model.q0, [3.0, -2.0, 4.0]), steps=steps).final_state
        ends.append(np.concatenate([end.q.numpy()[0], end.qd.numpy()[0]]))
    errors = np.abs(np.subtract(ends[:-1], ends[-1])).max(axis=1)
    assert errors[-1] < 1e-5
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 4.0, atol=0.4)


def test_gradients_of_large_rotations():
    """Of a step in which the top turns by more than half a radian, where another formula serves."""
    model = top()
    contact = sim.MujocoContact()
    c = case(model, 2, model.q0, [6.0, -9.0, 4.0], contact=contact, dt=0.05)
    check(replace(c, integrator="rk4"), ["mass", "com", "inertia", "gravity"])


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_gradients(tmp_path, cone, steps):
    pair = Pair(tmp_path, cone, solimp=WIDE)
    contact = replace(pair.contact, solref=SOLREF, solimp=WIDE)
    c = case(pair.model, steps, pair.q, pair.qd, contact=contact, dt=DT)
    check(replace(c, control=np.tile(CONTROL, (steps, 1)), integrator="rk4"), NAMES)


def test_gradients_between_stored_states(tmp_path):
    """With few states kept, and in several worlds, they are the same bit for bit."""
    pair = Pair(tmp_path)
    ours = simulator(pair, 3)
    state = ours.state(pair.q + np.linspace(0.0, 1e-3, 3)[:, None] * (np.arange(len(pair.q)) > 20), pair.qd)
    found = []
    for interval in (1, 3):
        trajectory = ours.rollout(state, control=np.tile(CONTROL, (7, 3, 1)), checkpoint_interval=interval)
        found.append(trajectory.backward(np.ones((3, pair.model.nq)), np.ones((3, pair.model.nv)), ["mass"]))
    for name in ("q", "qd", "control"):
        np.testing.assert_array_equal(getattr(found[0], name).numpy(), getattr(found[1], name).numpy())
    np.testing.assert_allclose(found[0].parameters["mass"], found[1].parameters["mass"], rtol=1e-13)


def test_through_torch(tmp_path):
    pair = Pair(tmp_path)
    ours = simulator(pair)
    q, qd = (torch.tensor(x[None]).requires_grad_() for x in (pair.q, pair.qd))
    _, end = sim.torch.step(ours, q, qd, control=torch.tensor(control(1)[0]), hold=2)
    found = torch.autograd.grad(end.sum(), (q, qd))
    trajectory = ours.rollout(ours.state(pair.q, pair.qd), control=control(2))
    expected = trajectory.backward(None, np.ones((1, pair.model.nv)))
    np.testing.assert_allclose(found[0].numpy(), expected.q.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[1].numpy(), expected.qd.numpy(), rtol=1e-12)


def test_contacts_are_those_of_the_state(tmp_path):
    pair = Pair(tmp_path)
    euler, ours = pair.simulator(), simulator(pair)
    expected = euler.contacts(euler.state(pair.q, pair.qd), control=control(1)[0])
    found = ours.contacts(ours.state(pair.q, pair.qd), control=control(1)[0])
    np.testing.assert_array_equal(found.distance, expected.distance)
    np.testing.assert_allclose(found.force, expected.force, rtol=1e-12)


def test_a_pickled_simulator_and_bad_worlds(tmp_path):
    pair = Pair(tmp_path)
    ours = simulator(pair, 2)
    again = pickle.loads(pickle.dumps(ours))
    assert again.integrator == "rk4"
    q = np.tile(pair.q, (2, 1))
    q[1, 0] = np.nan
    state = sim.State(*(wp.array(x, dtype=wp.float64, device="cpu") for x in (q, np.tile(pair.qd, (2, 1)))))
    with pytest.warns(sim.NotFiniteWarning):
        bad = again.rollout(state, steps=2)
    assert again.bad_worlds == {1: 0}
    alone = ours.rollout(ours.state(pair.q, pair.qd), steps=2)
    np.testing.assert_array_equal(bad.q.numpy()[:, 0], alone.q.numpy()[:, 0])
    one = np.ones((1, pair.model.nq))
    gradients = bad.backward(np.repeat(one, 2, axis=0), parameters=["mass"], leave_out_bad_worlds=True)
    expected = alone.backward(np.repeat(one, 2, axis=0) * [[1.0], [0.0]], parameters=["mass"])
    np.testing.assert_array_equal(gradients.q.numpy(), expected.q.numpy() * [[1.0], [0.0]])
    np.testing.assert_array_equal(gradients.parameters["mass"], expected.parameters["mass"])


def test_gradients_of_a_pickled_trajectory(tmp_path):
    """What the stages found comes along; where it was left behind, it is found again."""
    pair = Pair(tmp_path)
    ours = simulator(pair)
    trajectory = ours.rollout(ours.state(pair.q, pair.qd), control=control(3))
    assert trajectory.stages is not None
    assert trajectory.stages.shape == (9, 1, pair.model.nv)
    few = ours.rollout(ours.state(pair.q, pair.qd), control=control(3), checkpoint_interval=2)
    assert few.stages is None
    again = pickle.loads(pickle.dumps(trajectory))
    from_states = sim.Trajectory(ours, trajectory.q, trajectory.qd, None, trajectory.control)
    found = [each.backward(np.ones((1, pair.model.nq))) for each in (trajectory, again, few, from_states)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].q.numpy(), other.q.numpy())
        np.testing.assert_array_equal(found[0].control.numpy(), other.control.numpy())


def test_what_is_refused(tmp_path):
    pair = Pair(tmp_path)
    with raises_naming("integrator", "'leapfrog'", "'euler'", "'explicit'"):
        sim.Simulator(pair.model, DT, integrator="leapfrog")
    with raises_naming("integrator='rk4'", "sim.MujocoContact"):
        sim.Simulator(pair.model, DT, contact=sim.HardContact(), integrator="rk4")
    ours = simulator(pair)
    refuses(lambda: ours.linearise(ours.state(pair.q, pair.qd)), "linearise", "integrator='rk4'")


def test_loading_the_way_back_reads_no_trajectory(monkeypatch):
    """Its kernels run once before Warp captures them, when the cursor stands behind the last step of a rollout."""
    monkeypatch.setattr("sim.arrays.graphs.SAME_SIGNATURE", ())
    bound = []
    run_adjoint = RungeKuttaStep.run_adjoint

    def watched(step: RungeKuttaStep) -> None:
        if not is_collecting():
            bound.append(step.table.numpy().any())
        run_adjoint(step)

    monkeypatch.setattr(RungeKuttaStep, "run_adjoint", watched)
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    contact = sim.MujocoContact()
    simulator = sim.Simulator(builder.finalize(), 0.01, device="cpu", contact=contact, integrator="rk4")
    trajectory = simulator.rollout(simulator.initial_state(), steps=2)
    trajectory.backward(np.ones((1, 7)))
    assert not bound[0]
    assert bound[1:]  # the capture
