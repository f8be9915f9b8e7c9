"""Readings of contact sensors, from states [steps, num_worlds, ...] and a rollout's contact measurements."""

import torch

from sim.model.sensors.sensors import Sensor
from sim.simulation.simulator import Simulator
from sim.torch.current_parameters import current_parameter
from sim.torch.quaternions import turned_z_axis
from sim.torch.robot.robot import Robot
from warp_kernels.sensors.structs import CONTACT_FORCE, CONTACT_TORQUE, DISTANCE, MEMBERS, NORMAL, PER_CONTACT, POINT
from warp_kernels.types import CAPSULE, PLANE

# Readings along a contact's axes.
ALONG_AXES = {"force", "torque", "tangent", "linear_velocity", "angular_velocity"}


def contact_readings(
    simulator: Simulator, robot: Robot, q: torch.Tensor, qd: torch.Tensor, measured: torch.Tensor, sensor: Sensor
) -> torch.Tensor:
    """Return the readings of a contact sensor [steps, num_worlds, numbers].

    Args:
        simulator: the simulator that measured.
        robot: a robot on its model.
        q, qd: the states before each step.
        measured: its measurements in each step [steps, num_worlds, slots, 3].
        sensor: one of its ``contact_sensors``.
    """
    found = measured[:, :, simulator.contact_sensors.index(sensor.name), 0]
    start, room = simulator.engine.shards[0].step.collision.contact_slots[sensor.name]
    rows = measured[:, :, start : start + PER_CONTACT * room].unflatten(2, (room, PER_CONTACT))
    there = torch.arange(room, device=measured.device) < found[..., None]
    if sensor.choice == "net":
        readings, there = _net(rows, there), there.any(dim=-1, keepdim=True)
    else:
        rows, there = _chosen(rows, there, sensor)
        readings = _of_each(simulator, robot, q, qd, rows, there, set(sensor.readings))
    readings["found"] = found[..., None, None].expand(*there.shape, 1)
    read = torch.cat([readings[name] for name in sensor.readings], dim=-1) * there[..., None]
    missing = sensor.most - read.shape[2]
    return torch.nn.functional.pad(read, (0, 0, 0, missing)).flatten(start_dim=2)


def _chosen(rows: torch.Tensor, there: torch.Tensor, sensor: Sensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the contacts that a sensor reads, in order, and a mask of those that exist."""
    count = min(sensor.most, rows.shape[2])
    if sensor.choice == "first" or not count:
        return rows[:, :, :count], there[..., :count]
    strength = torch.linalg.vector_norm(rows[..., CONTACT_FORCE, :].detach(), dim=-1)
    key = rows[..., DISTANCE, 0].detach() if sensor.choice == "nearest" else -strength
    order = torch.where(there, key, torch.inf).argsort(dim=-1, stable=True)[..., :count]
    chosen = rows.gather(2, order[..., None, None].expand(*order.shape, PER_CONTACT, 3))
    return chosen, there.gather(2, order)


def _net(rows: torch.Tensor, there: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return one net contact, at the force-weighted mean point, along the world's axes."""
    force, point = rows[..., CONTACT_FORCE, :], rows[..., POINT, :]
    weight = torch.linalg.vector_norm(force, dim=-1, keepdim=True) * there[..., None]
    total = weight.sum(dim=2, keepdim=True)
    centre = (weight * point).sum(dim=2, keepdim=True) / torch.where(total > 0.0, total, 1.0)
    torque = rows[..., CONTACT_TORQUE, :] + torch.linalg.cross(point - centre, force)
    axes = torch.eye(3, dtype=rows.dtype, device=rows.device).expand(*centre.shape, 3)
    return {
        "force": force.sum(dim=2, keepdim=True),
        "torque": torque.sum(dim=2, keepdim=True),
        "distance": torch.zeros_like(total),
        "position": centre,
        "normal": axes[..., 0],
        "tangent": axes[..., 1],
    }


def _of_each(
    simulator: Simulator,
    robot: Robot,
    q: torch.Tensor,
    qd: torch.Tensor,
    rows: torch.Tensor,
    there: torch.Tensor,
    names: set[str],
) -> dict[str, torch.Tensor]:
    """Return all readings of contacts [steps, num_worlds, contacts, ...]."""
    normal = torch.where(there[..., None], rows[..., NORMAL, :], rows.new_tensor([0.0, 0.0, 1.0]))
    readings = {"distance": rows[..., DISTANCE, :1], "position": rows[..., POINT, :], "normal": normal}
    if not names & ALONG_AXES:
        return readings
    members = rows[..., MEMBERS, :2].detach().long() - 1  # -1 where there is no contact
    axes = _axes(normal, rows[..., MEMBERS, 2:].detach(), _capsules(simulator, robot, q, members))
    vectors = {"force": rows[..., CONTACT_FORCE, :], "torque": rows[..., CONTACT_TORQUE, :]}
    if names & {"linear_velocity", "angular_velocity"}:
        vectors |= _velocities(simulator, robot, q, qd, members, rows[..., POINT, :])
    readings |= {name: (axes @ vector[..., None])[..., 0] for name, vector in vectors.items()}
    return readings | {"tangent": axes[..., 1, :]}


def _axes(normal: torch.Tensor, order: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
    """Return MuJoCo's axes of a contact as rows [..., 3, 3].

    The first tangent is closest to ``along`` if that is non-zero, otherwise to the y or z axis of the world. It and the
    normal are negated if the order is -1, that is, if the second geometry is MuJoCo's first.
    """
    guide = along - (normal * along).sum(dim=-1, keepdim=True) * normal
    y_axis, z_axis = torch.eye(3, dtype=normal.dtype, device=normal.device)[1:]
    axis = torch.where(normal[..., 1:2].abs() < 0.5, y_axis, z_axis)
    other = axis - (normal * axis).sum(dim=-1, keepdim=True) * normal
    has_guide = (guide * guide).sum(dim=-1, keepdim=True) >= 1e-12
    tangent = order * torch.nn.functional.normalize(torch.where(has_guide, guide, other), dim=-1)
    return torch.stack([normal, tangent, torch.linalg.cross(normal, tangent)], dim=-2)


def _capsules(simulator: Simulator, robot: Robot, q: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
    """Return the axis of a capsule on a plane, MuJoCo's first tangent there; zero for other contacts."""
    geometries = simulator.model.geometries
    kinds = [geometry.type for geometry in geometries]
    if CAPSULE not in kinds or PLANE not in kinds:
        return q.new_zeros(*members.shape[:-1], 3)
    types = torch.tensor([*kinds, -1], device=q.device)[members]
    on_plane = (types == CAPSULE) & (types == PLANE).any(dim=-1, keepdim=True)
    capsule = torch.where(on_plane[..., 0], members[..., 0], members[..., 1])
    placement = current_parameter(simulator, "geometry_placement", q)[..., 3:]
    axis = turned_z_axis(placement).expand(*q.shape[:2], len(geometries), 3)
    link = torch.tensor([geometry.link for geometry in geometries], device=q.device)
    rotation = robot.forward_kinematics_matrix(q)[..., :3, :3]
    world = torch.eye(3, dtype=rotation.dtype, device=rotation.device).expand(*q.shape[:2], 1, 3, 3)
    rotation = torch.cat([rotation, world], dim=2)
    along = (rotation[:, :, link] @ axis[..., None])[..., 0]
    along = along.gather(2, capsule.clamp(min=0)[..., None].expand(*capsule.shape, 3))
    return along * on_plane.any(dim=-1, keepdim=True)


def _velocities(
    simulator: Simulator, robot: Robot, q: torch.Tensor, qd: torch.Tensor, members: torch.Tensor, point: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return velocities of the second geometry relative to the first at a contact, along the world's axes."""
    origin, velocity = robot.forward_kinematics(q)[0], robot.frame_velocity(q, qd)
    moving = torch.nn.functional.pad(torch.cat([velocity, origin], dim=-1), (0, 0, 0, 1))  # the world comes last
    links = torch.tensor([geometry.link for geometry in simulator.model.geometries] + [-1], device=q.device)
    link = links[members] % (simulator.model.num_links + 1)
    spins, speeds = [], []
    for side in range(2):
        spin, speed, centre = (
            moving.gather(2, link[..., side, None].expand(*link.shape[:-1], 9)).unflatten(-1, (3, 3)).unbind(dim=-2)
        )
        spins.append(spin)
        speeds.append(speed + torch.linalg.cross(spin, point - centre))
    return {"linear_velocity": speeds[1] - speeds[0], "angular_velocity": spins[1] - spins[0]}
