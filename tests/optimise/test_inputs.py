"""Led hands, grippers and switches in problems: gradients beside central differences, in every method."""

import numpy as np
import pytest
import torch

import sim
import sim.optimise as so
from tests.contact.test_switches import DT, holding, lifted
from tests.errors import refuses
from tests.optimise.problems import slopes_of_stages


def gripper() -> sim.Simulator:
    """A led hand with one finger on a servo, which presses a block against the hand's palm."""
    scene = sim.ModelBuilder()
    scene.add_link("hand")
    scene.add_joint("hand_pose", "free", child="hand", position=(0.0, 0.0, 0.5), kinematic=True)
    scene.add_geometry("hand", "sphere", size=0.05, position=(-0.1, 0, 0), name="palm")
    scene.add_link("finger", mass=0.2, inertia=(0.001, 0.001, 0.001))
    scene.add_joint("grip", "prismatic", parent="hand", child="finger", axis=(-1, 0, 0), position=(0.1, 0, 0))
    scene.add_geometry("finger", "sphere", size=0.05, name="pad")
    scene.add_actuator("grip", "position", gains=sim.Gains(kp=2000.0, kd=20.0), name="servo", control_range=(-0.1, 0.1))
    scene.add_actuator("grip", name="idle")
    scene.add_sphere(name="ball", radius=0.0502, mass=0.3, position=(0.0, 0.0, 0.5))
    return sim.Simulator(scene.finalize("float64"), DT, device="cpu", threads=1)


def close_to_differences(problem: so.Problem, x: np.ndarray) -> np.ndarray:
    """Return the gradient [n], compared with central differences of unknowns x [n]."""
    found, width = problem.evaluate(x[None]).gradient[0], 1e-6 * np.eye(problem.size)
    above, below = problem.costs_of(np.concatenate([x + width, x - width])).reshape(2, -1)
    np.testing.assert_allclose(found, (above - below) / 2e-6, rtol=1e-5, atol=1e-6 * np.abs(found).max())
    return found


def carrying(**options) -> so.Problem:
    """The hand's velocity and the servo's input carry a ball and hold it with a wanted force."""
    costs = [
        so.Position("ball", (0.01, 0.02, 0.52), weight=1e3, at=-1),
        so.ContactForce("pad", target=30.0, against="ball", direction="normal", weight=1e-3),
        so.Effort(1e-3),
    ]
    given = dict(joints="hand_pose", actuators="servo")
    return so.Problem(gripper(), 4, costs, hold=3, **{**given, **options})


def test_a_hand_s_path_and_its_gripper_are_unknowns_together():
    problem = carrying()
    assert problem.space.names == (*["hand_pose"] * 6, "servo")
    assert problem.space.high.tolist() == [*[np.inf] * 6, 0.1]
    assert "'hand_pose'" in repr(problem)
    assert "'servo'" in repr(problem)
    x = 0.05 * np.random.default_rng(0).standard_normal((4, 7))
    x[:, 6] = 0.02
    motion = problem.motion(torch.as_tensor(x.reshape(1, -1)))
    assert bool((motion.contact_force[:, 0, 0, 0] > 5.0).all()), "it grips"
    found = close_to_differences(problem, x.reshape(-1))
    np.testing.assert_allclose(slopes_of_stages(problem, x.reshape(-1)), found, rtol=1e-7, atol=1e-9)
    assert (np.abs(found.reshape(4, 7)).min(0) > 0.0).all()
    close_to_differences(carrying(controls=so.Knots(2, "linear")), x[:2].reshape(-1))


def test_a_policy_leads_a_hand():
    torch.manual_seed(0)
    module = torch.nn.Linear(gripper().model.nq + gripper().model.nv, 7).double()
    torch.nn.init.constant_(module.bias[6:], 0.02)
    with torch.no_grad():
        module.weight *= 0.1
    problem = carrying(controls=so.Policy(module, observe=None))
    x = problem.parametrisation.guess(problem.space, None)[0]
    direction = np.random.default_rng(1).standard_normal(len(x))
    above, below = problem.costs_of(np.stack([x + 1e-6 * direction, x - 1e-6 * direction]))
    assert problem.evaluate(x[None]).gradient[0] @ direction == pytest.approx((above - below) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("method", [so.ilqr, so.gradient, so.lbfgs])
def test_a_hand_carries_and_grips(method):
    """The ball is carried to where it is wanted, which no control but the hand's velocity can do."""
    problem = carrying()
    guess = np.zeros((4, 7))
    guess[:, 6] = 0.02
    found = method(problem, guess, iterations=15)
    assert found.cost < 0.1 * found.history[0]
    ball = found.q[-1, problem.model.q_slice("ball")][:3]
    np.testing.assert_allclose(ball, (0.01, 0.02, 0.52), atol=0.004)


SWITCHED = np.array([[1], [1], [0], [0]])


def released(active, **options) -> so.Problem:
    """A cup moves up with a box, which it lets go."""
    simulator = sim.Simulator(lifted(), DT, device="cpu", threads=1)
    costs = [so.Position("box", (0.02, 0.0, 0.9), weight=1e4, at=-1), so.Effort(1e-4)]
    return so.Problem(simulator, 4, costs, hold=5, joints="slide", active=active, **options)


def test_switches_are_given_for_each_stage():
    """The motion is that of a rollout with this input, and all of its expansions know it."""
    problem, x = released(SWITCHED), 25.0 + np.arange(4.0)
    found = close_to_differences(problem, x)
    np.testing.assert_allclose(slopes_of_stages(problem, x), found, rtol=1e-7, atol=1e-9)
    assert np.abs(found[:2]).min() > 100.0 * np.abs(found[2:] - 1e-4 * x[2:]).max(), "it has let go"
    simulator, model = problem.simulator, problem.model
    tau = holding(model, 1, 20)
    tau[:, 0, 0] = x.repeat(5)
    expected = simulator.rollout(simulator.initial_state(), tau, active=SWITCHED.repeat(5, axis=0)).q.numpy()[:, 0]
    np.testing.assert_array_equal(problem.states_of(x[:, None])[0], expected)
    np.testing.assert_array_equal(problem.motion(torch.as_tensor(x[None])).q[:, 0], expected[::5])
    always, never = (released([on]).costs_of(x[None])[0] for on in (1, 0))
    assert len({always, never, problem.costs_of(x[None])[0]}) == 3
    assert never == released(None).costs_of(x[None])[0]


@pytest.mark.parametrize("method", [so.ilqr, so.gradient, so.lbfgs, so.cmaes])
def test_every_method_throws_what_it_lets_go(method):
    found = method(released(SWITCHED), np.full((4, 1), 25.0), iterations=30)
    assert found.q[-1, 3] == pytest.approx(0.9, abs=0.01)


def test_a_policy_throws():
    torch.manual_seed(0)
    problem = released(SWITCHED, controls=so.Policy(torch.nn.Linear(1, 1).double(), lambda q, qd, stage: q[:, :1]))
    found = problem.motion(torch.tensor([[0.0, 25.0]], dtype=torch.float64))
    expected = released(SWITCHED).motion(torch.full((1, 4), 25.0, dtype=torch.float64))
    torch.testing.assert_close(found.q, expected.q, atol=1e-12, rtol=0.0)


def test_a_horizon_knows_the_switches_of_its_stages():
    """Each call has those from its moment on; the first stages are those that are done."""
    problem = released(SWITCHED)
    control = so.MPC(problem, np.full((4, 1), 25.0), iterations=10)
    plant = sim.Simulator(problem.model, DT, device="cpu", threads=1)
    state = plant.initial_state()
    for moment in range(4):
        problem.active[:] = SWITCHED[np.minimum(moment + np.arange(4), 3)]
        q, qd = state.numpy()
        u = control(q[0], qd[0])
        np.testing.assert_allclose(control.plan[0], u)
        tau = holding(problem.model, 1, 5)
        tau[..., 0] = u
        state = plant.rollout(state, tau, active=SWITCHED[moment][None].repeat(5, axis=0)).final_state
        np.testing.assert_allclose(control._search.states.q[5], state.q.numpy(), atol=1e-12)


def test_what_is_refused():
    simulator = gripper()
    for given, named in (
        (dict(actuators="claw"), ("actuators", "'claw'", "servo")),
        (dict(actuators=["servo", "servo"]), ("actuators", "duplicate")),
        (dict(actuators=[]), ("joints", "actuators")),
        (dict(active=[1.0]), ("active", "no point, weld")),
    ):
        refuses(lambda given=given: so.Problem(simulator, 3, [so.Effort()], **given), *named)
    for active in ([0.5], np.ones((3, 1)), [1.0, 1.0]):
        refuses(lambda active=active: released(active), "active", "(4, 1)")
    scene = sim.ModelBuilder()
    scene.add_link("cup", mass=1.0, inertia=(0.01, 0.01, 0.01))
    scene.add_joint("slide", "prismatic", child="cup", axis=(0, 0, 1))
    scene.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=0.5, position=(0, 0, -0.2))
    scene.add_weld_constraint("suction", "cup", "box", position_a=(0, 0, -0.1), break_force=30.0)
    tearing = sim.Simulator(scene.finalize("float64"), DT, device="cpu")
    problem = so.Problem(tearing, 3, [so.Effort()])
    refuses(lambda: so.ilqr(problem), "ilqr", "break_force")
    refuses(lambda: so.MPC(problem), "MPC", "break_force")
    refuses(lambda: so.Problem(tearing, 3, [so.Effort()], controls=so.Policy(torch.nn.Linear(1, 1))), "break_force")
