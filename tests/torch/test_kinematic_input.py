"""Velocities of kinematic joints as an input of PyTorch's rollouts, environments and optimisation."""

import numpy as np
import pytest
import torch

import sim
import sim.envs
import sim.torch
from sim.optimise import Effort, Knots, PerStage, Posture, Problem, ilqr, lbfgs
from tests.contact.test_kinematic_input import H, hand_and_box, wall_and_ball
from tests.errors import raises_naming

DTYPE = torch.float64


def start(model: sim.Model, worlds: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(model.q0).expand(worlds, -1), torch.zeros(worlds, model.nv, dtype=DTYPE)


def test_rollout_and_steps_have_the_gradient_of_the_trajectory():
    model = hand_and_box()
    simulator = sim.Simulator(model, H, 3, device="cpu")
    given = torch.tensor(0.1 * np.random.default_rng(0).normal(size=(4, 3, model.nk)), requires_grad=True)
    last = np.random.default_rng(1).normal(size=(3, model.nq))
    trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given.detach().numpy())
    expected = trajectory.backward(last).kinematic_qd.numpy()
    q, _ = sim.torch.rollout(simulator, *start(model, 3), kinematic_qd=given)
    np.testing.assert_array_equal(q.detach().numpy(), trajectory.q.numpy())
    (q[-1] * torch.tensor(last)).sum().backward()
    np.testing.assert_array_equal(given.grad.numpy(), expected)
    given.grad = None
    state = start(model, 3)
    for row in given:
        state = sim.torch.step(simulator, *state, kinematic_qd=row)
    (state[0] * torch.tensor(last)).sum().backward()
    np.testing.assert_allclose(given.grad.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_held_with_other_inputs_and_parameters():
    model = wall_and_ball()
    simulator = sim.Simulator(model, H, 2, device="cpu")
    given = torch.full((3, 2, model.nk), 0.1, dtype=DTYPE, requires_grad=True)
    tau = torch.zeros(3, 2, model.nv, dtype=DTYPE, requires_grad=True)
    friction = torch.tensor(model.parameters["friction"], requires_grad=True)
    q, _ = sim.torch.rollout(simulator, *start(model, 2), tau, kinematic_qd=given, hold=4, friction=friction)
    assert q.shape == (4, 2, model.nq)
    assert q[-1, :, 0].tolist() == pytest.approx([model.q0[0] + 0.1 * 12 * H] * 2)
    q[-1].sum().backward()
    every = given.detach().repeat_interleave(4, dim=0).requires_grad_()
    sim.torch.rollout(simulator, *start(model, 2), kinematic_qd=every).q[-1].sum().backward()
    torch.testing.assert_close(given.grad, every.grad.unflatten(0, (3, 4)).sum(1), rtol=1e-12, atol=1e-13)
    assert all(x.grad is not None for x in (tau, friction))
    with raises_naming("tau", "kinematic_qd"):
        sim.torch.rollout(simulator, *start(model, 2), tau[:2], kinematic_qd=given)
    with raises_naming("kinematic_qd", "(2, 6)"):
        sim.torch.rollout(simulator, *start(model, 2), kinematic_qd=given[..., :5])


def test_gradient_in_the_poses_of_a_path():
    model = wall_and_ball()
    simulator = sim.Simulator(model, H, 2, device="cpu")
    rng = np.random.default_rng(3)
    poses = np.tile(model.q0[:7], (5, 2, 1, 1))
    poses[..., 0] += 0.02 * np.linspace(0, 1, 5)[:, None, None]
    poses += 1e-3 * rng.normal(size=poses.shape)
    path = torch.tensor(poses, requires_grad=True)

    def last(path: torch.Tensor) -> torch.Tensor:
        q, qd = start(model, 2)
        q = torch.cat([path[0, :, 0], q[:, 7:]], dim=1)
        return sim.torch.rollout(simulator, q, qd, kinematic_qd=sim.torch.velocities_along(simulator, path)).q[-1]

    np.testing.assert_allclose(
        sim.torch.velocities_along(simulator, path).detach().numpy(), sim.velocities_along(simulator, poses), rtol=1e-12
    )
    found = last(path).detach()[:, :7]
    torch.testing.assert_close(found[:, :3], path[-1, :, 0, :3].detach(), rtol=0, atol=1e-13)
    assert torch.autograd.gradcheck(last, (path,), eps=1e-6, atol=1e-6, rtol=1e-6, nondet_tol=0.0)
    with raises_naming("float32"):
        sim.torch.velocities_along(simulator, path.float())


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.MujocoContact()])
def test_linearisation(contact):
    """Beside the gradients of a step, whose loss is one component of the next state."""
    model = hand_and_box()
    simulator = sim.Simulator(model, H, 2, device="cpu", contact=contact)
    given = 0.1 * np.random.default_rng(4).normal(size=(2, model.nk))
    state = simulator.rollout(
        simulator.initial_state(), steps=2, kinematic_qd=0.5 * given[None].repeat(2, 0)
    ).final_state
    matrices = simulator.linearise(state, kinematic_qd=given)
    trajectory = simulator.rollout(state, kinematic_qd=given[None])
    for dof in range(model.nv):
        last = np.zeros((2, model.nv))
        last[:, dof] = 1.0
        found = trajectory.backward(qd_grad=last)
        row = matrices.B_kinematic[:, model.nv + dof]
        np.testing.assert_allclose(row, found.kinematic_qd.numpy()[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(matrices.A[:, model.nv + dof, model.nv :], found.qd.numpy(), rtol=1e-8, atol=1e-8)
    led = model.kinematic_dofs
    np.testing.assert_allclose(matrices.B_kinematic[0, led], np.eye(model.nk) * H, atol=1e-5)
    assert simulator.linearise(state).B_kinematic is None


class Push(sim.envs.Task):
    """A hand is moved by its actions, as a ball shall be."""

    frame_skip = 2

    def model(self) -> sim.Model:
        return wall_and_ball()

    def num_actions(self, model: sim.Model) -> int:
        return model.nk

    def inputs(self, state: sim.envs.TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"kinematic_qd": 0.5 * action}

    def sample_state(self, n: int, generator: torch.Generator) -> sim.envs.TaskState:
        return self.episodes(*start(self.model(), n))

    def observe(self, state: sim.envs.TaskState) -> torch.Tensor:
        return state.q

    def reward(self, before, action, after) -> torch.Tensor:
        return after.q[:, 7]


def test_environments_take_it_and_have_its_gradient():
    env = sim.envs.VectorEnv(Push(dtype="float64"), 2, device="cpu", seed=0, differentiable=True)
    env.reset()
    action = torch.full((2, 6), 0.4, dtype=DTYPE, requires_grad=True)
    for _ in range(5):
        observation, reward, *_ = env.step(action)
    assert (observation[:, 0] - start(env.simulator.model, 2)[0][:, 0]).tolist() == pytest.approx([0.2 * 10 * H] * 2)
    reward.sum().backward()
    assert (action.grad[:, 0] > 0.0).all()


class TestOptimise:
    """A cart on a led rail swings its pole to an angle, or a motor and a led lift work together."""

    def problem(self, controls=None, motor: bool = False) -> Problem:
        builder = sim.ModelBuilder()
        builder.add_link("cart")
        builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0), kinematic=True)
        builder.add_link("pole", mass=1.0, inertia=(0.02, 0.02, 0.01), com=(0.0, 0.0, -0.2))
        builder.add_joint("hinge", "revolute", child="pole", parent="cart", axis=(0, 1, 0))
        simulator = sim.Simulator(builder.finalize("float64"), 0.01, device="cpu")
        costs = [Posture([0.2, 0.8], weight=100.0, at=-1), Effort(1e-3)]
        joints = ("rail", "hinge") if motor else ("rail",)
        return Problem(simulator, 10, costs, hold=4, joints=joints, limits=(-3.0, 3.0), controls=controls)

    @pytest.mark.parametrize("motor", [False, True])
    def test_gradient(self, motor):
        problem = self.problem(motor=motor)
        x = 0.3 * np.random.default_rng(0).normal(size=(1, problem.size))
        found = problem.evaluate(x).gradient[0]
        for k in range(problem.size):
            width = 1e-5 * np.eye(problem.size)[k]
            above, below = problem.costs_of(np.concatenate([x + width, x - width]))
            assert found[k] == pytest.approx((above - below) / 2e-5, rel=1e-6, abs=1e-7)

    @pytest.mark.parametrize("method", [lbfgs, ilqr])
    def test_a_hand_s_path_is_found(self, method):
        problem = self.problem(PerStage() if method is ilqr else Knots(5))
        result = method(problem)
        assert result.cost < 0.02 * problem.costs_of(np.zeros((1, problem.size)))[0]
