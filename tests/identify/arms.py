"""An arm whose links and joints differ from its file, and logs of it."""

import copy

import numpy as np
import torch

import sim
from scenes.manipulator import MANIPULATOR_URDF
from sim.identify import Log

PAYLOAD = (1.3, (0.02, -0.01, 0.05), 0.01)  # added to mass, centre of mass and moments of inertia of the last link


def arm():
    """The robot as its file has it."""
    return sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)


def different(robot):
    """Another hand, and more friction in the joints."""
    true = copy.deepcopy(robot)
    true.mass[-1] += PAYLOAD[0]
    true.com[-1] += torch.tensor(PAYLOAD[1])
    true.inertia[-1] += PAYLOAD[2] * torch.eye(3)
    true.damping += 0.3
    true.friction_loss += 0.2
    return true


def numbers_of_a_body(robot, link=-1):
    """In the order in which an estimate has them."""
    inertia = robot.inertia[link].numpy()
    rows, columns = np.tril_indices(3)
    return np.concatenate([[float(robot.mass[link])], robot.com[link].numpy(), inertia[rows, columns]])


def moving_log(robot, seconds=10.0, rate=50.0, noise=0.5, offset=0.1, seed=0):
    """Sums of sines in all joints, with joint forces that have noise and an offset."""
    rng = np.random.default_rng(3)
    time = np.arange(round(seconds * rate)) / rate
    w = np.array([0.7, 1.9, 4.3])[:, None] + 0.21 * np.arange(robot.nv)
    a = rng.normal(size=(3, robot.nv)) / w
    q, qd, qdd = (
        sum(a[k] * w[k] ** n * np.sin(w[k] * time[:, None] + 0.5 * n * np.pi) for k in range(3)) for n in range(3)
    )
    with torch.no_grad():
        tau = robot.inverse_dynamics(*map(torch.as_tensor, (q, qd, qdd))).numpy()
    tau = tau + offset + noise * np.random.default_rng(seed).standard_normal(tau.shape)
    return Log(robot.model, time, q, qd, qdd, tau, source=f"seed {seed}")
