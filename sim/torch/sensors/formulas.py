"""Readings of single sensors, as differentiable functions of states [steps, num_worlds, ...]."""

import itertools
from collections.abc import Sequence

import torch

from sim.distances.measure import DISTANCE_PARAMETERS
from sim.errors import ModelError
from sim.model.checks import number, require_type
from sim.model.sensors.sensors import Sensor
from sim.model.specs import WORLD
from sim.rays.cast import RAY_PARAMETERS
from sim.rays.targets import RayTargets
from sim.simulation.simulator import Simulator
from sim.torch.arrays import require_dense
from sim.torch.current_parameters import current_parameter, parameters_of_rows
from sim.torch.modes import in_own_precision
from sim.torch.robot.robot import Robot

# Minimum depth [m] in a camera's division.
SMALLEST_DEPTH = 1e-15


def inside(zone: str, size: Sequence[float], point: torch.Tensor) -> torch.Tensor:
    """Return 1 for points in a zone about the origin of their axes, else 0: points [..., 3] to [..., 1]."""
    x, y, z = point.unbind(dim=-1)
    if zone in ("sphere", "ellipsoid"):
        radii = torch.as_tensor(size, dtype=point.dtype, device=point.device)  # one, or three
        held = torch.linalg.vector_norm(point / radii, dim=-1) <= 1.0
    elif zone == "box":
        held = (x.abs() <= size[0]) & (y.abs() <= size[1]) & (z.abs() <= size[2])
    else:
        beyond = z - z.clamp(-size[1], size[1])
        if zone == "cylinder":
            held = (beyond == 0.0) & (torch.hypot(x, y) <= size[0])
        else:
            held = torch.linalg.vector_norm(torch.stack([x, y, beyond], dim=-1), dim=-1) <= size[0]
    return held.to(point.dtype)[..., None]


def projection(image: Sequence[float], point: torch.Tensor) -> torch.Tensor:
    """Project points along a camera's axes to its image: [..., 3] to [..., 2], px.

    Points behind it are projected through it, as MuJoCo does.
    """
    along, across, centre_x, centre_y = image
    x, y, z = point.unbind(dim=-1)
    smallest = torch.where(z < 0.0, -SMALLEST_DEPTH, SMALLEST_DEPTH).to(z)
    depth = torch.where(z.abs() < SMALLEST_DEPTH, smallest, z)
    return torch.stack([centre_x - along * x / depth, centre_y + across * y / depth], dim=-1)


def distance_readings(simulator: Simulator, robot: Robot, q: torch.Tensor, sensor: Sensor) -> torch.Tensor:
    """Return a sensor's readings of the nearest pair of geometries [steps, num_worlds, numbers]."""
    pairs = list(itertools.product(sensor.geometries or (), sensor.against or ()))
    parameters = parameters_of_rows(simulator, DISTANCE_PARAMETERS, q)
    found = robot.geometry_distances(q.flatten(0, 1), pairs, max_distance=sensor.max_distance, **parameters)
    nearest = found.distance.detach().argmin(dim=-1)

    def of_nearest(values: torch.Tensor) -> torch.Tensor:
        """Return the entry of the nearest pair from [rows, pairs, 3]."""
        return values.gather(1, nearest[:, None, None].expand(-1, 1, 3))[:, 0]

    if sensor.kind == "geometry_distance":
        read = found.distance.gather(1, nearest[:, None])
    elif sensor.kind == "geometry_normal":
        # From point to point like MuJoCo: negated in penetration.
        apart = torch.where(found.distance.detach() < 0.0, -1.0, 1.0)
        read = of_nearest(apart[..., None] * found.normal)
    else:
        read = torch.cat([of_nearest(found.point_a), of_nearest(found.point_b)], dim=-1)
    return read.unflatten(0, q.shape[:2])


NOTHING = -1.0  # the distance of a ray without a hit


def range_readings(simulator: Simulator, robot: Robot, q: torch.Tensor, sensor: Sensor) -> torch.Tensor:
    """Return a rangefinder's readings of its rays, which pass through its own link [steps, num_worlds, numbers]."""
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
    """Return unit directions in the frame [rays, 3], and their components along the axis of a camera [rays]."""
    if sensor.pixels is None or sensor.image is None:
        return like.new_tensor([[0.0, 0.0, 1.0]]), like.new_ones(1)
    (columns, rows), (focal_x, focal_y, centre_x, centre_y) = sensor.pixels, sensor.image
    x = (torch.arange(columns, device=like.device).to(like) + 0.5 - centre_x) / focal_x
    y = (centre_y - 0.5 - torch.arange(rows, device=like.device).to(like)) / focal_y
    up, across = torch.meshgrid(y, x, indexing="ij")
    axes = torch.nn.functional.normalize(torch.stack([across, up, -torch.ones_like(up)], dim=-1).flatten(0, 1), dim=-1)
    return axes, -axes[:, 2]


def joint_limit(
    simulator: Simulator, q: torch.Tensor, qd: torch.Tensor, joint: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return position and velocity of a joint's active limit; both zero away from its limits."""
    dof = int(simulator.model.joint_qd_start[simulator.model.joint_names.index(joint)])
    index = int(simulator.model.dof_q[dof])
    names = ("lower_limit", "upper_limit", "limit_margin")
    return _limit(q[..., index : index + 1], qd[..., dof : dof + 1], *_bounds(simulator, names, dof, q))


def tendon_limit(
    simulator: Simulator, length: torch.Tensor, rate: torch.Tensor, tendon: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return :func:`joint_limit` for a tendon of a length [steps, num_worlds, 1]."""
    number = simulator.model.tendons.names.index(tendon)
    names = ("tendon_lower_limit", "tendon_upper_limit", "tendon_limit_margin")
    return _limit(length, rate, *_bounds(simulator, names, number, length))


def _bounds(simulator: Simulator, names: tuple[str, ...], number: int, like: torch.Tensor) -> list[torch.Tensor]:
    return [current_parameter(simulator, name, like)[..., number : number + 1] for name in names]


def _limit(
    coordinate: torch.Tensor, rate: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor, margin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the lower limit if both are active, like MuJoCo, which lists it first."""
    below, above = coordinate - lower, upper - coordinate
    at_lower, at_upper = below < margin, above < margin
    nothing = torch.zeros_like(coordinate)
    position = torch.where(at_lower, below - margin, torch.where(at_upper, above - margin, nothing))
    return position, torch.where(at_lower, rate, torch.where(at_upper, -rate, nothing))


@in_own_precision
def imu(robot: Robot, q: torch.Tensor, qd: torch.Tensor, dt: float, frame: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the readings of an inertial measurement unit at a frame, in each step of a rollout.

    The acceleration is the change of velocity over the step that leads to a state, so that contacts are part of it.

    Args:
        robot: the robot that was simulated; gravity is that of its parameters.
        q: coordinates [steps + 1, ..., nq], as :func:`sim.torch.rollout` returns them.
        qd: velocities [steps + 1, ..., nv].
        dt: time between two states [s].
        frame: name of a frame or link.

    Returns:
        specific force, the acceleration of the frame's origin less gravity [steps, ..., 3], m/s^2, and angular velocity
        [steps, ..., 3], rad/s, both along the frame's axes.

    Raises:
        ModelError: for an unknown frame, and for fewer than two states.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> robot = sim.torch.Robot(model)
        >>> q = torch.zeros(11, model.nq, dtype=torch.float64)  # at rest for ten steps
        >>> force, turning = sim.torch.imu(robot, q, torch.zeros_like(q), 0.01, "link7")
        >>> force.shape, round(float(force[0].norm()), 2)
        (torch.Size([10, 3]), 9.81)
    """
    require_type("imu: robot", robot, Robot, "a sim.torch.Robot")
    for name, given in (("q", q), ("qd", qd)):
        require_dense(f"imu: {name}", given, 2)
    if not number("imu", "dt", dt) > 0.0:
        raise ModelError(f"imu: dt is {dt!r}; it must be positive")
    if len(q) < 2 or len(qd) != len(q):
        raise ModelError(f"imu: q has {len(q)} states and qd {len(qd)}; give the same number of both, at least two")
    qdd = torch.diff(qd, dim=0) / float(dt)
    acceleration = robot.frame_acceleration(q[1:], qd[1:], qdd, frame, reference="local")[..., 3:]
    rotation = robot.forward_kinematics_matrix(q[1:], frame)[..., :3, :3]
    rate = robot.frame_velocity(q[1:], qd[1:], frame, reference="local")[..., :3]
    return acceleration - (rotation.mT @ robot.gravity.unsqueeze(-1)).squeeze(-1), rate
