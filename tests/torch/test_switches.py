"""Switches of constraints as an input of PyTorch's rollouts, environments and the linearisation."""

import numpy as np
import torch

import sim
import sim.envs
import sim.torch
from tests.contact.test_switches import DT, G, holding, lifted
from tests.errors import raises_naming

DTYPE = torch.float64


def start(model: sim.Model, worlds: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(model.q0).expand(worlds, -1), torch.zeros(worlds, model.nv, dtype=DTYPE)


def test_rollout_and_steps_have_the_gradient_of_the_trajectory():
    model, steps = lifted(), 6
    simulator = sim.Simulator(model, DT, 2, "cpu")
    active = torch.zeros(steps, 2, 1, dtype=torch.bool)
    active[:3, 0], active[2:, 1] = True, True
    tau = torch.tensor(holding(model, 2, steps), requires_grad=True)
    last = np.random.default_rng(1).normal(size=(2, model.nq))
    trajectory = simulator.rollout(simulator.initial_state(), tau.detach().numpy(), active=active.numpy())
    expected = trajectory.backward(last).tau.numpy()
    q, _ = sim.torch.rollout(simulator, *start(model, 2), tau, active=active)
    np.testing.assert_array_equal(q.detach().numpy(), trajectory.q.numpy())
    (q[-1] * torch.tensor(last)).sum().backward()
    np.testing.assert_array_equal(tau.grad.numpy(), expected)
    tau.grad = None
    state, mass = start(model, 2), torch.tensor(model.parameters["mass"], requires_grad=True)
    for force, on in zip(tau, active.to(DTYPE), strict=True):
        state = sim.torch.step(simulator, *state, force, active=on, mass=mass)
    (state[0] * torch.tensor(last)).sum().backward()
    np.testing.assert_allclose(tau.grad.numpy(), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mass.grad.numpy(), trajectory.backward(last, parameters=["mass"]).parameters["mass"])


def test_held_and_changed():
    model = lifted()
    simulator = sim.Simulator(model, DT, 2, "cpu")
    tau = torch.tensor(holding(model, 2, 2), requires_grad=True)
    active = torch.tensor([[[1.0], [0.0]], [[0.0], [1.0]]], dtype=DTYPE)
    q, _ = sim.torch.rollout(simulator, *start(model, 2), tau, active=active, hold=3)
    each = simulator.rollout(
        simulator.initial_state(), holding(model, 2, 6), active=active.numpy().repeat(3, axis=0)
    ).q.numpy()
    np.testing.assert_array_equal(q.detach().numpy(), each[::3])
    q, _ = sim.torch.rollout(simulator, *start(model, 2), tau, active=active)
    active[0] = 0.0
    with raises_naming("modified by an inplace operation", error=RuntimeError):
        q.sum().backward()
    with raises_naming("active", "requires a gradient"):
        sim.torch.step(simulator, *start(model, 2), active=active[0].requires_grad_())
    with raises_naming("active", "(2, 1)"):
        sim.torch.rollout(simulator, *start(model, 2), active=torch.ones(3, 2, 4, dtype=torch.bool))


def test_linearisation():
    """It agrees with the gradients of a step with these switches, instead of those of the parameters."""
    model = lifted()
    simulator = sim.Simulator(model, DT, 2, "cpu")
    tau, on = holding(model, 2, 1)[0], np.array([[1.0], [0.0]])
    qd = np.array([0.1, 0.2, -0.1, 0.3, 0.5, -0.4, 0.2])
    state = simulator.state(model.q0, qd)
    matrices = simulator.linearise(state, tau, active=on)
    trajectory = simulator.rollout(state, tau[None], active=on[None])
    np.testing.assert_array_equal(matrices.next_state.qd.numpy(), trajectory.qd.numpy()[-1])
    for dof in range(model.nv):
        last = np.zeros((2, model.nv))
        last[:, dof] = 1.0
        found = trajectory.backward(qd_grad=last)
        row = model.nv + dof
        np.testing.assert_allclose(matrices.B_tau[:, row], found.tau.numpy()[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(matrices.A[:, row, model.nv :], found.qd.numpy(), rtol=1e-8, atol=1e-12)
    assert abs(matrices.A[0, model.nv, model.nv + 3]) > 0.1  # the cup feels the speed of the box
    assert matrices.A[1, model.nv, model.nv + 3] == 0.0


class Grasp(sim.envs.Task):
    """A cup holds a box while its action is positive."""

    frame_skip = 2

    def model(self) -> sim.Model:
        return lifted()

    def num_actions(self, model: sim.Model) -> int:
        return 1

    def inputs(self, state: sim.envs.TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        tau = torch.as_tensor(holding(self.model(), len(action), 1)[0])
        return {"tau": tau, "active": action > 0.0}

    def sample_state(self, n: int, generator: torch.Generator) -> sim.envs.TaskState:
        return self.episodes(*start(self.model(), n))

    def observe(self, state: sim.envs.TaskState) -> torch.Tensor:
        return state.q

    def reward(self, before, action, after) -> torch.Tensor:
        return after.q[:, 3]


def test_environments_take_it():
    env = sim.envs.VectorEnv(Grasp(dtype="float64"), 2, device="cpu", seed=0)
    env.reset()
    for _ in range(5):
        _, height, *_ = env.step(torch.tensor([[1.0], [-1.0]], dtype=DTYPE))
    fall = G * env.task.dt**2 * 10 * 11 / 2
    assert abs(float(height[0]) - 0.8) < 0.01 * fall
    np.testing.assert_allclose(float(height[1]), 0.8 - fall, atol=1e-9)
