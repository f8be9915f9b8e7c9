"""A step written in PyTorch agrees with ours: next states, and autograd's gradient with the backward pass."""

import numpy as np
import torch

import sim
from bench.standing import DAMPING, STIFFNESS
from bench.torch_step import TorchStep, rollout
from scenes import crowd

DT = 1.0 / 500.0
STEPS = 6


def worlds() -> tuple[sim.Simulator, np.ndarray, np.ndarray, np.ndarray]:
    """One that stands, one that slides with its feet on the ground, one that flies, one that lands on two legs.

    Their feet alone collide.
    """
    scene = crowd.herd(1, "float64", friction=0.5)
    model = scene.model
    joints = model.dof_q >= 0
    springs = {
        "stiffness": STIFFNESS * joints, "damping": DAMPING * joints,
        "rest_position": np.where(joints, scene.q0[model.dof_q], 0.0), "armature": np.where(joints, 0.01, 0.0),
    }  # fmt: skip
    simulator = sim.Simulator(model, DT, 4, "cpu", sim.PgsContact(cfm=0.01), springs)
    rng = np.random.default_rng(4)
    q = np.tile(scene.q0, (4, 1))
    q[:, 2] -= 1e-4
    q[2, 2] += 0.3
    q[:, 7:] += 0.002 * rng.normal(size=(4, 12))
    q[3, 3:7] = 0.0, 0.05, 0.2, 2.1  # any length
    qd = 0.05 * rng.normal(size=(4, model.nv))
    qd[1, :2] = 1.5, 0.4
    qd[2:, 3:] = rng.normal(size=(2, model.nv - 3))
    tau = 3.0 * rng.normal(size=(STEPS, 4, model.nv)) * joints
    return simulator, q, qd, tau


def test_steps_and_gradients_agree():
    simulator, q, qd, tau = worlds()
    state = simulator.state(q, qd)
    forces = simulator.contacts(state, tau[0])
    normal = [forces.force[forces.world == world, 2] for world in range(4)]
    slip = [np.linalg.norm(forces.force[forces.world == world, :2], axis=1) for world in range(4)]
    held = [s < 0.49 * n for s, n in zip(slip, normal, strict=True)]
    assert held[0].any(), "a foot sticks"
    assert (normal[1] > 1.0).any(), "feet bear"
    assert not held[1][normal[1] > 1.0].any(), "and slide"
    assert normal[2].sum() == 0.0, "this one flies"
    assert 0 < (normal[3] > 0.0).sum() < 4, "some feet bear"

    trajectory = simulator.rollout(state, tau)
    rng = np.random.default_rng(5)
    seeds = rng.normal(size=(4, simulator.model.nq)), rng.normal(size=(4, simulator.model.nv))
    expected = trajectory.backward(*seeds)
    inputs = [torch.tensor(value, requires_grad=True) for value in (q, qd, tau)]
    last = rollout(TorchStep(simulator), *inputs)
    ours = trajectory.final_state
    for value, own in zip(last, (ours.q, ours.qd), strict=True):
        np.testing.assert_allclose(value.detach().numpy(), own.numpy(), rtol=0.0, atol=1e-10)
    torch.autograd.backward(last, [torch.tensor(seed) for seed in seeds])
    for value, own in zip(inputs, (expected.q, expected.qd, expected.tau), strict=True):
        scale = np.abs(own.numpy()).max()
        np.testing.assert_allclose(value.grad.numpy(), own.numpy(), rtol=0.0, atol=1e-10 * scale)
