"""Sensors made of rays: height scans, lidars and depth cameras, for many states at once, with gradients."""

import math

import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.rays.patterns import pixel_pattern
from sim.rays.targets import RayTargets
from sim.torch.modes import in_own_precision
from sim.torch.robot.robot import Robot

EVERYTHING = RayTargets()


def pattern(name: str, value: npt.ArrayLike, size: int, like: torch.Tensor) -> torch.Tensor:
    """Points or directions as a tensor [..., rays, size] of the dtype and device of another.

    Raises:
        ModelError: for another shape.
    """
    result = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if result.dim() < 2 or result.shape[-1] != size:
        raise ModelError(f"{name} have shape {tuple(result.shape)}; expected (..., rays, {size})")
    return result


@in_own_precision
def height_scan(
    robot: Robot,
    q: torch.Tensor,
    frame: str,
    points: npt.ArrayLike,
    targets: RayTargets = EVERYTHING,
    *,
    above: float = 10.0,
    **parameters: torch.Tensor,
) -> torch.Tensor:
    """Heights of the ground around a frame, by vertical rays; the grid turns with the frame's heading only.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame.
        points: places x and y beside the frame's origin [points, 2], m; see :func:`sim.rays.grid_pattern`.
        targets: which geometries count as ground; leave out the robot's own links.
        above: how far above the frame the rays start [m].
        **parameters: as for :meth:`sim.torch.Robot.cast_rays`.

    Returns:
        height over the frame's origin [..., points], m, less than zero below it; minus infinity where there is nothing.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.5), name="ball")
        >>> robot = sim.torch.Robot(scene.finalize())
        >>> others = sim.RayTargets(exclude=["ball"])
        >>> sim.torch.height_scan(robot, robot.initial_coordinates(), "ball", [[0, 0], [1, 0]], others)
        tensor([-0.5000, -0.5000])
    """
    pose = robot.forward_kinematics_matrix(q, frame)
    heading = torch.atan2(pose[..., 1, 0], pose[..., 0, 0])[..., None]
    x, y = pattern("height_scan: points", points, 2, pose).unbind(dim=-1)
    across = heading.cos() * x - heading.sin() * y, heading.sin() * x + heading.cos() * y
    origin = pose[..., None, :3, 3] + torch.stack([*across, torch.full_like(across[0], above)], dim=-1)
    down = torch.zeros_like(origin)
    down[..., 2] = -1.0
    return above - robot.cast_rays(q, origin, down, targets, max_distance=math.inf, **parameters)[0]


@in_own_precision
def lidar(
    robot: Robot,
    q: torch.Tensor,
    frame: str,
    directions: npt.ArrayLike,
    targets: RayTargets = EVERYTHING,
    *,
    max_distance: float = math.inf,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Distances along directions that are fixed to a frame.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame, where all rays start.
        directions: along the frame's axes [rays, 3]; see :func:`sim.rays.fan_pattern`.
        targets: which geometries are seen; leave out the link that carries the lidar.
        max_distance: its range [m].
        **parameters: as for :meth:`sim.torch.Robot.cast_rays`.

    Returns:
        distance [..., rays], m, infinite out of range, and index of the geometry [..., rays], -1 for none.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.5), name="ball")
        >>> robot = sim.torch.Robot(scene.finalize())
        >>> down = sim.rays.fan_pattern(4, elevations=(-torch.pi / 6, 0.0))
        >>> sim.torch.lidar(robot, robot.initial_coordinates(), "ball", down, sim.RayTargets(exclude=["ball"]))
        (tensor([1., 1., 1., 1.]), tensor([0, 0, 0, 0]))
    """
    pose = robot.forward_kinematics_matrix(q, frame)
    local = pattern("lidar: directions", directions, 3, pose)
    along = local @ pose[..., :3, :3].mT
    origin = pose[..., None, :3, 3].expand_as(along)
    distance, geometry, _ = robot.cast_rays(q, origin, along, targets, max_distance=max_distance, **parameters)
    return distance, geometry


@in_own_precision
def depth_image(
    robot: Robot,
    q: torch.Tensor,
    frame: str,
    width: int,
    height: int,
    fov: float = 60.0,
    targets: RayTargets = RayTargets("visual"),  # noqa: B008  (it can't change)
    *,
    max_distance: float = math.inf,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Depth and segmentation as a camera on a frame sees them, one picture for each state.

    The camera looks along the negative z axis of its frame, y up in the picture, as cameras of MJCF and USD do.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame.
        width: number of columns.
        height: number of rows.
        fov: vertical field of view [degrees].
        targets: which geometries are seen.
        max_distance: distance from the camera up to which it sees [m].
        **parameters: as for :meth:`sim.torch.Robot.cast_rays`.

    Returns:
        depth along the camera's axis [..., height, width], m, infinite where there is nothing, and index of the
        geometry in ``model.geometries`` [..., height, width], -1 there.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> ball = scene.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.5), name="ball")
        >>> robot = sim.torch.Robot(scene.finalize())
        >>> depth, seen = sim.torch.depth_image(
        ...     robot, robot.initial_coordinates(), "ball", 4, 3, targets=sim.RayTargets(exclude=["ball"])
        ... )
        >>> depth.shape, depth.min(), seen.unique()
        (torch.Size([3, 4]), tensor(0.5000), tensor([0]))
    """
    pixels = pixel_pattern(width, height, fov)
    distance, geometry = lidar(robot, q, frame, pixels, targets, max_distance=max_distance, **parameters)
    lengths = torch.as_tensor(pixels, dtype=distance.dtype, device=distance.device).norm(dim=-1)
    return (distance / lengths).unflatten(-1, (height, width)), geometry.unflatten(-1, (height, width))
