"""What sensors of distances between geometries read, for states [steps, num_worlds, ...]."""

import itertools

import torch

from sim.distances.measure import DISTANCE_PARAMETERS
from sim.model.sensors import Sensor
from sim.simulation.simulator import Simulator
from sim.torch.present_robot import parameters_of_rows
from sim.torch.robot.robot import Robot


def distance_readings(simulator: Simulator, robot: Robot, q: torch.Tensor, sensor: Sensor) -> torch.Tensor:
    """What a sensor reads of the two geometries that are nearest to each other [steps, num_worlds, numbers]."""
    pairs = list(itertools.product(sensor.geometries or (), sensor.against or ()))
    parameters = parameters_of_rows(simulator, DISTANCE_PARAMETERS, q)
    found = robot.geometry_distances(q.flatten(0, 1), pairs, max_distance=sensor.reach, **parameters)
    nearest = found.distance.detach().argmin(dim=-1)

    def of_nearest(values: torch.Tensor) -> torch.Tensor:
        """Of [rows, pairs, 3] those of the nearest."""
        return values.gather(1, nearest[:, None, None].expand(-1, 1, 3))[:, 0]

    if sensor.kind == "geometry_distance":
        read = found.distance.gather(1, nearest[:, None])
    elif sensor.kind == "geometry_normal":
        # From point to point, as MuJoCo has it: the other way where they overlap.
        apart = torch.where(found.distance.detach() < 0.0, -1.0, 1.0)
        read = of_nearest(apart[..., None] * found.normal)
    else:
        read = torch.cat([of_nearest(found.point_a), of_nearest(found.point_b)], dim=-1)
    return read.unflatten(0, q.shape[:2])
