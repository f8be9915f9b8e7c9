"""What sensors of limits read, for states [steps, num_worlds, ...]."""

import torch

from sim.simulation.simulator import Simulator
from sim.torch.present_robot import present_parameter


def joint_limit(
    simulator: Simulator, q: torch.Tensor, qd: torch.Tensor, joint: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Position and velocity of the limit at which a joint is; both zero away from its limits."""
    dof = int(simulator.model.joint_qd_start[simulator.model.joint_names.index(joint)])
    place = int(simulator.model.dof_q[dof])
    names = ("lower_limit", "upper_limit", "limit_margin")
    return _limit(q[..., place : place + 1], qd[..., dof : dof + 1], *_bounds(simulator, names, dof, q))


def tendon_limit(
    simulator: Simulator, length: torch.Tensor, rate: torch.Tensor, tendon: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """As :func:`joint_limit` for a tendon of a length [steps, num_worlds, 1]."""
    number = simulator.model.tendons.names.index(tendon)
    names = ("tendon_lower_limit", "tendon_upper_limit", "tendon_limit_margin")
    return _limit(length, rate, *_bounds(simulator, names, number, length))


def _bounds(simulator: Simulator, names: tuple[str, ...], number: int, like: torch.Tensor) -> list[torch.Tensor]:
    return [present_parameter(simulator, name, like)[..., number : number + 1] for name in names]


def _limit(
    place: torch.Tensor, rate: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor, margin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of both limits at once the lower, as MuJoCo, which lists it first."""
    below, above = place - lower, upper - place
    at_lower, at_upper = below < margin, above < margin
    nothing = torch.zeros_like(place)
    position = torch.where(at_lower, below - margin, torch.where(at_upper, above - margin, nothing))
    return position, torch.where(at_lower, rate, torch.where(at_upper, -rate, nothing))
