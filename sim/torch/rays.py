"""Ray-based sensors (height scans, lidars, depth cameras) for batches of states, with gradients."""

import math

import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, require_type
from sim.rays.patterns import pixel_pattern
from sim.rays.targets import RayTargets
from sim.torch.arrays import require_dense
from sim.torch.modes import in_own_precision
from sim.torch.robot.arguments import one_number
from sim.torch.robot.robot import Robot

EVERYTHING = RayTargets()


def pattern(name: str, value: npt.ArrayLike, size: int, like: torch.Tensor) -> torch.Tensor:
    """Return points or directions as a tensor [..., rays, size] of the dtype and on the device of another.

    Raises:
        ModelError: for a wrong shape.
    """
    if isinstance(value, torch.Tensor):
        require_dense(name, value)
    else:
        value = as_numbers(name, value)
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
    """Measure heights of the ground around a frame with vertical rays; the grid turns with the frame's heading only.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame.
        points: x and y offsets from the frame's origin [points, 2], m; see :func:`sim.rays.grid_pattern`.
        targets: geometries that count as ground; exclude the robot's own links.
        above: height above the frame at which the rays start [m].
        **parameters: as for :meth:`sim.torch.Robot.cast_rays`.

    Returns:
        height over the frame's origin [..., points], m, less than zero below it; minus infinity without a hit.

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
    require_type("height_scan: robot", robot, Robot, "a sim.torch.Robot")
    above = one_number("above", above)
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
    """Measure distances along directions that are fixed to a frame.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame at whose origin all rays start.
        directions: along the frame's axes [rays, 3]; see :func:`sim.rays.fan_pattern`.
        targets: geometries that are seen; exclude the link that carries the lidar.
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
    require_type("lidar: robot", robot, Robot, "a sim.torch.Robot")
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
    """Render depth and segmentation of a camera on a frame, one image for each state.

    The camera looks along the negative z axis of its frame, y up in the image, like cameras of MJCF and USD.

    Args:
        robot: the robot, on the model of its whole world.
        q: coordinates [..., nq].
        frame: name of the frame.
        width: number of columns.
        height: number of rows.
        fov: vertical field of view [degrees].
        targets: geometries that are seen.
        max_distance: range of the camera [m].
        **parameters: as for :meth:`sim.torch.Robot.cast_rays`.

    Returns:
        depth along the camera's axis [..., height, width], m, infinite without a hit, and index of the
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
