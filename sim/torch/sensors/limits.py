"""What sensors of limits and rangefinders read, for states [steps, num_worlds, ...]."""

import torch

from sim.model.specs import WORLD
from sim.rays.cast import RAY_PARAMETERS
from sim.rays.targets import RayTargets
from sim.simulation.simulator import Simulator
from sim.torch.present_robot import parameters_of_rows, present_parameter
from sim.torch.robot.robot import Robot

NOTHING = -1.0  # what a rangefinder reads where its ray meets nothing


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


def rangefinder(simulator: Simulator, robot: Robot, q: torch.Tensor, frame: str) -> torch.Tensor:
    """Distance along a frame's z axis to the nearest geometry that isn't on its link; NOTHING for none."""
    steps, worlds = q.shape[:2]
    flat = q.flatten(0, 1)
    if frame == WORLD:
        origin, along = flat.new_zeros(len(flat), 3), flat.new_tensor([0.0, 0.0, 1.0]).expand(len(flat), 3)
        targets = RayTargets("all")
    else:
        pose = robot.forward_kinematics_matrix(flat, frame)
        origin, along, targets = pose[..., :3, 3], pose[..., :3, 2], RayTargets("all", (frame,))
    parameters = parameters_of_rows(simulator, RAY_PARAMETERS, q)
    rays = robot.cast_rays(flat, origin[:, None], along[:, None], targets, **parameters)  # type: ignore[arg-type]
    distance = rays[0].unflatten(0, (steps, worlds))
    return torch.where(distance.isfinite(), distance, NOTHING)
