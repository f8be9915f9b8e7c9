"""Tensors for a simulator."""

from types import SimpleNamespace

import numpy as np
import torch

import sim
from tests.simulation.worlds import DT, WORLDS, hopper, inputs

STEPS = 6


def simulator(device: str, dtype: str = "float64", worlds: int = WORLDS, sweeps: int = 20) -> sim.Simulator:
    return sim.Simulator(hopper(dtype), DT, worlds, device, sim.PgsContact(sweeps=sweeps))


def tensors(simulator: sim.Simulator, steps: int = STEPS, requires_grad: bool = True) -> SimpleNamespace:
    """q [worlds, nq], qd [worlds, nv], tau [steps, worlds, nv] and two parameters, on the simulator's device."""
    dtype = {"float32": torch.float32, "float64": torch.float64}[simulator.model.dtype]

    def tensor(value: np.ndarray) -> torch.Tensor:
        return torch.tensor(value, dtype=dtype, device=str(simulator.device), requires_grad=requires_grad)

    q, qd, tau = inputs(simulator.model, steps, simulator.num_worlds)
    friction = simulator.model.parameters["friction"]
    mass = np.stack([(0.9 + 0.1 * k) * simulator.model.parameters["mass"] for k in range(simulator.num_worlds)])
    return SimpleNamespace(q=tensor(q), qd=tensor(qd), tau=tensor(tau), friction=tensor(friction), mass=tensor(mass))


def loss(q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    weight = torch.arange(1, q.shape[-1] + 1, dtype=q.dtype, device=q.device)
    return (weight * q**2).sum() + (qd**2).sum()
