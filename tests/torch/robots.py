"""Robots, states as tensors, and every method of a robot as a function of them."""

from collections.abc import Callable

import numpy as np
import torch

import sim
from tests.dynamics.states import random_state
from tests.dynamics.trees import build, zoo

Call = Callable[..., torch.Tensor]

FRAMES = ("link5", "link3")
BODIES = ("joint_placement", "mass", "com", "inertia")
ALL = (*BODIES, "damping", "armature", "stiffness", "rest_position", "friction_loss", "gravity")


def poses(robot: sim.torch.Robot, q: torch.Tensor) -> torch.Tensor:
    return torch.cat(robot.forward_kinematics(q, FRAMES), dim=-1)


# Each takes (robot, q, qd, qdd, wrench on links) and depends on the parameters named beside it.
CALLS: dict[str, tuple[Call, tuple[str, ...]]] = {
    "forward_kinematics": (lambda r, q, qd, a, w: poses(r, q), BODIES[:1]),
    "forward_kinematics_matrix": (lambda r, q, qd, a, w: r.forward_kinematics_matrix(q, "link5"), BODIES[:1]),
    "jacobian": (lambda r, q, qd, a, w: r.jacobian(q, FRAMES, "local"), BODIES[:1]),
    "jacobian_derivative": (lambda r, q, qd, a, w: r.jacobian_derivative(q, qd, "link5"), BODIES[:1]),
    "frame_velocity": (lambda r, q, qd, a, w: r.frame_velocity(q, qd, FRAMES, "world"), BODIES[:1]),
    "frame_acceleration": (lambda r, q, qd, a, w: r.frame_acceleration(q, qd, a, "link8"), BODIES[:1]),
    "integrate": (lambda r, q, qd, a, w: r.integrate(q, qd, 0.3), ()),
    "difference": (lambda r, q, qd, a, w: r.difference(q, r.integrate(q, 0.3 * qd)), ()),
    "inverse_dynamics": (lambda r, q, qd, a, w: r.inverse_dynamics(q, qd, a, w), ALL),
    "forward_dynamics": (lambda r, q, qd, a, w: r.forward_dynamics(q, qd, a, w), ALL),
    "wrenches at frames": (
        lambda r, q, qd, a, w: r.inverse_dynamics(q, qd, a, {"link5": w[..., 0, :], "link4": w[..., 1, :]}, "local"),
        ALL,
    ),
    "mass_matrix": (lambda r, q, qd, a, w: r.mass_matrix(q), (*BODIES, "armature")),
    "mass_matrix_inverse": (lambda r, q, qd, a, w: r.mass_matrix_inverse(q), (*BODIES, "armature")),
    "gravity_forces": (lambda r, q, qd, a, w: r.gravity_forces(q), (*BODIES[:3], "gravity")),
    "coriolis_forces": (lambda r, q, qd, a, w: r.coriolis_forces(q, qd), BODIES),
    "bias_forces": (lambda r, q, qd, a, w: r.bias_forces(q, qd), (*BODIES, "gravity")),
    "centre_of_mass": (lambda r, q, qd, a, w: r.centre_of_mass(q), BODIES[:3]),
    "centre_of_mass_jacobian": (lambda r, q, qd, a, w: r.centre_of_mass_jacobian(q), BODIES[:3]),
    "centroidal_momentum": (lambda r, q, qd, a, w: r.centroidal_momentum(q, qd), BODIES),
    "centroidal_momentum_matrix": (lambda r, q, qd, a, w: r.centroidal_momentum_matrix(q), BODIES),
    "kinetic_energy": (lambda r, q, qd, a, w: r.kinetic_energy(q, qd), (*BODIES, "armature")),
    "potential_energy": (
        lambda r, q, qd, a, w: r.potential_energy(q),
        (*BODIES[:3], "stiffness", "rest_position", "gravity"),
    ),
}


def zoo_robot(device: str, dtype: torch.dtype = torch.float64) -> sim.torch.Robot:
    """All joint types, two trees, a link fixed to a moving one."""
    model = build(zoo(), "float64", collapse_fixed=False)
    return sim.torch.Robot(model, dtype=dtype, device=device)


def state(robot: sim.torch.Robot, batch: tuple[int, ...], seed: int = 0) -> list[torch.Tensor]:
    """q, qd, qdd and wrenches on links of random states."""
    arrays = random_state(robot.model, seed, int(np.prod(batch)))
    return [
        torch.tensor(array, dtype=robot.mass.dtype, device=robot.mass.device).reshape(*batch, *array.shape[1:])
        for array in arrays
    ]
