"""Switches of constraints as an input of PyTorch's rollouts, environments and the linearisation."""

import numpy as np
import torch

import sim
import sim.envs
import sim.torch
from tests.contact.test_breaking import LIMIT, hanging, pull
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


def test_constraints_that_break():
    """Rollouts and steps are those of the simulator, with its gradients; held inputs return some states."""
    model, steps = hanging(break_force=LIMIT[0]), 72
    simulator = sim.Simulator(model, DT, 2, "cpu")
    forces = pull(model)[:steps, None].repeat(2, axis=1) * [[1.0], [0.1]]
    trajectory = simulator.rollout(simulator.initial_state(), forces)
    last = np.random.default_rng(1).normal(size=(2, model.nq))
    expected = trajectory.backward(last).tau.numpy()
    tau = torch.tensor(forces, requires_grad=True)
    motion = sim.torch.rollout(simulator, *start(model, 2), tau)
    q, _, broken = motion
    assert broken is motion.broken
    np.testing.assert_array_equal(broken.numpy(), trajectory.broken.numpy())
    np.testing.assert_array_equal(broken[-1].numpy(), [[1], [0]])
    (q[-1] * torch.tensor(last)).sum().backward()
    np.testing.assert_array_equal(tau.grad.numpy(), expected)
    tau.grad = None
    state = (*start(model, 2), torch.zeros(2, 1, dtype=torch.bool))
    for force in tau:
        q, qd, broken = state
        state = sim.torch.step(simulator, q, qd, force, broken=broken)
    (state.q * torch.tensor(last)).sum().backward()
    np.testing.assert_allclose(tau.grad.numpy(), expected, rtol=1e-12, atol=1e-14)
    held = sim.torch.rollout(simulator, *start(model, 2), tau[::4], hold=4)
    assert held.broken.shape == (steps // 4 + 1, 2, 1)
    ahead = sim.torch.rollout(simulator, held.q[-1], held.qd[-1], steps=3, broken=held.broken[-1])
    fall = ahead.qd[-1, :, 2] - held.qd[-1, :, 2]
    np.testing.assert_allclose(fall.detach().numpy(), [-3 * DT * G, 0.0], atol=1e-3)
    with raises_naming("give broken"):
        sim.torch.step(simulator, *start(model, 2))
    with raises_naming("broken", "(2, 3)"):
        sim.torch.step(simulator, *start(model, 2), broken=torch.zeros(2, 3, dtype=DTYPE))
    whole = sim.Simulator(hanging(), DT, device="cpu")
    with raises_naming("broken", "remove it"):
        sim.torch.step(whole, *start(whole.model, 1), broken=torch.zeros(1, 1, dtype=DTYPE))


class Hanging(sim.envs.Task):
    """A load that an action pulls off its hook."""

    frame_skip, action_low, action_high = 2, -20.0, 0.0

    def model(self) -> sim.Model:
        return hanging(break_force=10.0)

    def num_actions(self, model: sim.Model) -> int:
        return 1

    def inputs(self, state: sim.envs.TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"tau": torch.nn.functional.pad(action, (2, 3))}

    def sample_state(self, n: int, generator: torch.Generator) -> sim.envs.TaskState:
        return self.episodes(*start(self.model(), n))

    def observe(self, state: sim.envs.TaskState) -> torch.Tensor:
        return state.q

    def reward(self, before, action, after) -> torch.Tensor:
        return after.q[:, 2]


def test_environments_keep_what_is_broken_until_a_reset():
    env = sim.envs.VectorEnv(Hanging(dtype="float64"), 2, device="cpu", seed=0)
    env.reset()
    env.step(torch.tensor([[-10.0], [0.0]], dtype=DTYPE))
    np.testing.assert_array_equal(env.state.carried["broken"].numpy(), [[1], [0]])
    saved = env.get_state()
    _, height, *_ = env.step(torch.zeros(2, 1, dtype=DTYPE))
    assert float(height[0]) < 0.999
    assert abs(float(height[1]) - 1.0) < 1e-5
    env.reset()
    assert not env.state.carried
    env.set_state(saved)
    assert torch.equal(env.step(torch.zeros(2, 1, dtype=DTYPE))[1], height)
    env.reset(options={"reset_mask": torch.tensor([True, False])})
    np.testing.assert_array_equal(env.state.carried["broken"].numpy(), [[0], [0]])
    saved["carried"] = {"glue": saved["carried"]["broken"]}
    with raises_naming("carried", "glue"):
        env.set_state(saved)
