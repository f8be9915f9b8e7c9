"""What rangefinders read, for states [steps, num_worlds, ...]."""

import torch

from sim.model.sensors import Sensor
from sim.model.specs import WORLD
from sim.rays.cast import RAY_PARAMETERS
from sim.rays.targets import RayTargets
from sim.simulation.simulator import Simulator
from sim.torch.present_robot import parameters_of_rows
from sim.torch.robot.robot import Robot

NOTHING = -1.0  # the distance where a ray meets nothing


def range_readings(simulator: Simulator, robot: Robot, q: torch.Tensor, sensor: Sensor) -> torch.Tensor:
    """What a rangefinder reads of its rays, which pass through its own link [steps, num_worlds, numbers]."""
    flat = q.flatten(0, 1)
    axes, share = _rays(sensor, q)
    if sensor.target == WORLD:
        targets, origin, along = RayTargets("all"), torch.zeros_like(axes), axes
    else:
        pose = robot.forward_kinematics_matrix(flat, sensor.target)
        targets, origin = RayTargets("all", (sensor.target,)), pose[:, None, :3, 3]
        along = (pose[:, None, :3, :3] @ axes[..., None])[..., 0]
    origin, along = (vectors.expand(len(flat), len(axes), 3) for vectors in (origin, along))
    parameters = parameters_of_rows(simulator, RAY_PARAMETERS, q)
    distance, _, normal = robot.cast_rays(flat, origin, along, targets, **parameters)  # type: ignore[arg-type]
    met = distance.isfinite()
    length = torch.where(met, distance, 0.0)
    readings = {
        "distance": torch.where(met, length, NOTHING)[..., None],
        "direction": along * met[..., None],
        "origin": origin,
        "point": (origin + length[..., None] * along) * met[..., None],
        "normal": normal,
        "depth": torch.where(met, length * share, NOTHING)[..., None],
    }
    read = torch.cat([readings[name] for name in sensor.readings], dim=-1)
    return read.flatten(start_dim=1).unflatten(0, q.shape[:2])


def _rays(sensor: Sensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Directions of length 1 in the frame [rays, 3], and what of them is along the axis of a camera [rays]."""
    if sensor.pixels is None or sensor.image is None:
        return like.new_tensor([[0.0, 0.0, 1.0]]), like.new_ones(1)
    (columns, rows), (focal_x, focal_y, centre_x, centre_y) = sensor.pixels, sensor.image
    x = (torch.arange(columns, device=like.device).to(like) + 0.5 - centre_x) / focal_x
    y = (centre_y - 0.5 - torch.arange(rows, device=like.device).to(like)) / focal_y
    up, across = torch.meshgrid(y, x, indexing="ij")
    axes = torch.nn.functional.normalize(torch.stack([across, up, -torch.ones_like(up)], dim=-1).flatten(0, 1), dim=-1)
    return axes, -axes[:, 2]
