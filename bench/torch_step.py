"""One time step of a legged robot in plain PyTorch, to measure what the same mathematics costs under autograd.

Written in idiomatic PyTorch: batched over worlds, links and feet, with dense linear algebra for the mass matrix. Loops
remain only where the mathematics has them: down the legs, over the sweeps, and over the feet within a sweep. The step
computes the same as :class:`sim.Simulator` (docs/contact/index.md) for a robot with a floating base, revolute joints
and balls for feet on horizontal ground. It is also a second, independent implementation for tests.

It has no joint limits; the robots of the benchmarks don't reach them.
"""

from dataclasses import dataclass

import numpy as np
import torch

import sim
from sim.model.model import Model
from warp_kernels.collision.plane.contact import ARRIVAL
from warp_kernels.types import FREE, PLANE, REVOLUTE, SPHERE

UP = 2  # index of the world axis along the ground's normal; the tangents are the other two axes, in order


@dataclass(frozen=True)
class Robot:
    """Constants of a robot with L links, base first, J = L - 1 revolute joints and F feet.

    Attributes:
        parent: parent of each link, -1 for the base; a parent precedes its children.
        levels: links grouped by their depth below the base.
        axis: axis of each joint in the child's frame [L, 3]; unused for the base.
        offset: origin of each link in its parent's frame [L, 3].
        turn: rotation of each joint frame in its parent's frame [L, 3, 3].
        mass: mass of each link [L].
        com: centre of mass in the link's frame [L, 3].
        inertia: rotational inertia about the centre of mass, link axes [L, 3, 3].
        moves: True if a degree of freedom moves a link [L, 6 + J].
        damping: damping of each degree of freedom [6 + J].
        stiffness: stiffness of each joint's spring [6 + J], zero for the base.
        rest: position at which a spring is at rest [6 + J].
        armature: rotor inertia of each degree of freedom [6 + J].
        foot_link: link of each foot [F].
        foot_centre: centre of each foot in the link's frame [F, 3].
        foot_radius: radius of each foot [F].
        friction: friction of each foot with the ground [F].
        gravity: gravity in the world frame [3].
    """

    parent: list[int]
    levels: list[list[int]]
    axis: torch.Tensor
    offset: torch.Tensor
    turn: torch.Tensor
    mass: torch.Tensor
    com: torch.Tensor
    inertia: torch.Tensor
    moves: torch.Tensor
    damping: torch.Tensor
    stiffness: torch.Tensor
    rest: torch.Tensor
    armature: torch.Tensor
    foot_link: list[int]
    foot_centre: torch.Tensor
    foot_radius: torch.Tensor
    friction: torch.Tensor
    gravity: torch.Tensor


def robot_of(simulator: sim.Simulator) -> Robot:
    """Return the constants of a simulator's robot, with the simulator's parameters and in its dtype.

    Raises:
        ValueError: if the model is not a single floating robot with revolute joints and balls for feet on level ground.
    """
    model = simulator.model
    value = dict(simulator.parameters)
    feet, ground = _feet(model)
    parent = [int(p) for p in model.link_parent]
    depth: list[int] = []
    moves = np.zeros((model.num_links, model.nv))
    moves[:, :6] = 1.0
    for link, above in enumerate(parent):
        depth.append(0 if above < 0 else depth[above] + 1)
        if above >= 0:
            moves[link] = moves[above]
            moves[link, link + 5] = 1.0
    dtype = {"float32": torch.float32, "float64": torch.float64}[model.dtype]

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.array(values), dtype=dtype)

    placement = tensor(value["joint_placement"])
    return Robot(
        parent=parent,
        levels=[[link for link, d in enumerate(depth) if d == level] for level in range(1, max(depth) + 1)],
        axis=tensor(model.joint_axis),
        offset=placement[:, :3],
        turn=matrix_of(placement[:, 3:]),
        mass=tensor(value["mass"]),
        com=tensor(value["com"]),
        inertia=tensor(value["inertia"]),
        moves=tensor(moves),
        damping=tensor(value["damping"]),
        stiffness=tensor(value["stiffness"]),
        rest=tensor(value["rest_position"]),
        armature=tensor(value["armature"]),
        foot_link=[model.geometries[g].link for g in feet],
        foot_centre=tensor(value["geometry_placement"][feet, :3]),
        foot_radius=tensor(value["geometry_size"][feet, 0]),
        friction=tensor(value["friction"][feet] * value["friction"][ground]),
        gravity=tensor(value["gravity"]),
    )


def _feet(model: Model) -> tuple[list[int], int]:
    """Return indices of the colliding balls and of the ground. Raises for models that this step does not cover."""
    kinds = [int(kind) for kind in model.joint_type]
    if kinds != [FREE] + [REVOLUTE] * (model.num_links - 1):
        raise ValueError("the step in PyTorch supports a single robot with a free base and revolute joints only")
    colliding = [index for index, geometry in enumerate(model.geometries) if geometry.collides]
    feet = [index for index in colliding if model.geometries[index].type == SPHERE]
    ground = [index for index in colliding if model.geometries[index].type == PLANE]
    level = len(ground) == 1 and np.array_equal(model.geometries[ground[0]].placement, [0, 0, 0, 0, 0, 0, 1])
    if len(feet) + len(ground) != len(colliding) or not level:
        raise ValueError("the step in PyTorch supports only balls on a single plane z = 0 as colliding shapes")
    if (model.parameters["restitution"][feet] * model.parameters["restitution"][ground] != 0.0).any():
        raise ValueError("the step in PyTorch has no restitution")
    return feet, ground[0]


class TorchStep(torch.nn.Module):
    """Step as a module: ``q, qd = step(q, qd, tau)``, all [W, ...] in the order of :mod:`sim`.

    Args:
        simulator: supplies the robot, parameters, dt and contact options.

    Raises:
        ValueError: see :func:`robot_of`.
    """

    def __init__(self, simulator: sim.Simulator):
        super().__init__()
        self.robot = robot_of(simulator)
        self.dt = simulator.dt
        assert isinstance(simulator.contact, sim.PgsContact)
        self.contact = simulator.contact

    def forward(self, q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the state after the step."""
        velocity, response, rows = self.free_step(q, qd, tau)
        matrix, value = self.contact_problem(velocity, response, rows)
        impulse = torch.zeros_like(value)
        scale = step_lengths(matrix)
        for _ in range(self.contact.sweeps):
            impulse = self.sweep(impulse, matrix, value, scale)
        return self.finish(q, velocity, response, impulse)

    def free_step(
        self, q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Compute everything before the contact problem.

        Returns:
            free velocity v* [W, nv]; M^-1 J' [W, nv, F, 3]; the Jacobian J [W, F, 3, nv] and signed distances of the
            feet [W, F].
        """
        r, h = self.robot, self.dt
        rotation, position = self.poses(q)
        subspace = self.subspace(rotation, position)
        jacobian = r.moves[:, None, :] * subspace[:, None]  # [W, L, 6, nv]
        inertia = self.link_inertias(rotation, position)
        momentum = inertia @ jacobian
        implicit = r.armature + h * r.damping + h * h * r.stiffness
        mass = torch.einsum("wlxi,wlxj->wij", jacobian, momentum) + torch.diag(implicit)
        spring = torch.cat([torch.zeros_like(q[:, :6]), q[:, 7:] + h * qd[:, 6:] - r.rest[6:]], dim=1)
        force = tau - r.damping * qd - r.stiffness * spring - self.bias_force(qd, rotation, subspace, jacobian, inertia)
        force = torch.cat([force[:, :6] + self.gyroscopic_force(qd, rotation), force[:, 6:]], dim=1)
        rows, distance = self.foot_rows(q, rotation, position, jacobian)
        columns = torch.cat([force[:, :, None], rows.flatten(1, 2).mT], dim=2)
        solved = torch.cholesky_solve(columns, torch.linalg.cholesky(mass))
        response = solved[:, :, 1:].unflatten(2, (-1, 3))
        return qd + h * solved[:, :, 0], response, (rows, distance)

    def poses(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute rotations [W, L, 3, 3] and origins [W, L, 3] of the links, in world axes about the base's origin."""
        r = self.robot
        base = matrix_of(q[:, 3:7])
        rotation, position = [base] * len(r.parent), [torch.zeros_like(q[:, :3])] * len(r.parent)
        for links in r.levels:
            above = [r.parent[link] for link in links]
            upper = torch.stack([rotation[link] for link in above], dim=1)
            origin = torch.stack([position[link] for link in above], dim=1)
            angle = q[:, [link + 6 for link in links]]
            found = upper @ r.turn[links] @ rotation_about(r.axis[links], angle)
            origin = origin + (upper @ r.offset[links, :, None])[..., 0]
            for slot, link in enumerate(links):
                rotation[link], position[link] = found[:, slot], origin[:, slot]
        return torch.stack(rotation, dim=1), torch.stack(position, dim=1)

    def subspace(self, rotation: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return the motion of each degree of freedom [W, 6, nv], angular first; a free base has linear coordinates
        first.
        """
        axis = (rotation[:, 1:] @ self.robot.axis[1:, :, None])[..., 0]
        joints = torch.cat([axis, torch.linalg.cross(position[:, 1:], axis)], dim=2).mT
        base = torch.eye(6, dtype=axis.dtype).roll(3, dims=0).expand(len(axis), 6, 6)
        return torch.cat([base, joints], dim=2)

    def link_inertias(self, rotation: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Compute spatial inertias about the base's origin in world axes [W, L, 6, 6]."""
        r = self.robot
        com = position + (rotation @ r.com[:, :, None])[..., 0]
        cross = skew(com)
        coupled = r.mass[:, None, None] * cross
        rotational = rotation @ r.inertia @ rotation.mT - coupled @ cross
        linear = (r.mass[:, None, None] * torch.eye(3, dtype=com.dtype)).expand_as(rotational)
        return torch.cat([torch.cat([rotational, coupled], dim=-1), torch.cat([-coupled, linear], dim=-1)], dim=-2)

    def bias_force(
        self,
        qd: torch.Tensor,
        rotation: torch.Tensor,
        subspace: torch.Tensor,
        jacobian: torch.Tensor,
        inertia: torch.Tensor,
    ) -> torch.Tensor:
        """Compute joint forces that hold all accelerations at zero [W, nv]: gravity and velocity products."""
        r = self.robot
        velocity = (jacobian @ qd[:, None, :, None])[..., 0]  # [W, L, 6]
        parents = velocity[:, r.parent[1:]]
        own = (subspace[:, :, 6:] * qd[:, None, 6:]).mT
        joints = torch.cat([
            torch.linalg.cross(parents[..., :3], own[..., :3]),
            torch.linalg.cross(parents[..., :3], own[..., 3:]) + torch.linalg.cross(parents[..., 3:], own[..., :3]),
        ], dim=2)  # fmt: skip
        # The base's coordinate is the velocity of a point that moves with it. Its centre of mass doesn't accelerate.
        moving = torch.linalg.cross(qd[:, :3], qd[:, 3:6]) - r.gravity
        moving = moving - torch.linalg.cross(qd[:, 3:6], torch.linalg.cross(qd[:, 3:6], self.base_arm(rotation)))
        base = torch.cat([torch.zeros_like(moving), moving], dim=1)
        acceleration = base[:, None] + r.moves[:, 6:] @ joints
        momentum = (inertia @ velocity[..., None])[..., 0]
        force = (inertia @ acceleration[..., None])[..., 0] + torch.cat([
            torch.linalg.cross(velocity[..., :3], momentum[..., :3])
            + torch.linalg.cross(velocity[..., 3:], momentum[..., 3:]),
            torch.linalg.cross(velocity[..., :3], momentum[..., 3:]),
        ], dim=2)  # fmt: skip
        return torch.einsum("wlxi,wlx->wi", jacobian, force)

    def gyroscopic_force(self, qd: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        """Compute the midpoint rule's correction of the base's gyroscopic forces before the step [W, 6]."""
        r, h = self.robot, self.dt
        inertia = rotation[:, 0] @ r.inertia[0] @ rotation[:, 0].mT
        spin = qd[:, 3:6]
        resolved = (h / (1.0 + ((h * spin) ** 2).sum(1) ** 2) ** 0.25)[:, None]

        def turned(w: torch.Tensor) -> torch.Tensor:
            return (inertia @ w[..., None])[..., 0]

        middle = spin
        for _ in range(5):
            left = turned(middle - spin) + 0.5 * resolved * torch.linalg.cross(middle, turned(middle))
            slope = inertia + 0.5 * resolved[..., None] * (skew(middle) @ inertia - skew(turned(middle)))
            middle = middle - torch.linalg.solve(slope, left)
        moment = torch.linalg.cross(spin, turned(spin)) - resolved / h * torch.linalg.cross(middle, turned(middle))
        return torch.cat([torch.zeros_like(moment), moment], dim=1)

    def base_arm(self, rotation: torch.Tensor) -> torch.Tensor:
        """Return the vector from the base's origin to its centre of mass [W, 3], along world axes."""
        return (rotation[:, 0] @ self.robot.com[0, :, None])[..., 0]

    def foot_rows(
        self, q: torch.Tensor, rotation: torch.Tensor, position: torch.Tensor, jacobian: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the Jacobian of each foot's contact point along normal and tangents [W, F, 3, nv], and distances [W,
        F].

        Feet in the air have rows too. Their bias is so large that they receive no impulse unless they land in this
        step.
        """
        r = self.robot
        centre = position[:, r.foot_link] + (rotation[:, r.foot_link] @ r.foot_centre[:, :, None])[..., 0]
        distance = q[:, None, UP] + centre[..., UP] - r.foot_radius
        down = torch.zeros_like(centre)
        # Before touchdown the contact point is on the foot, see warp_kernels/collision/plane/contact.py.
        x = torch.clamp(distance / (ARRIVAL * self.contact.margin), 0.0, 1.0)
        down[..., UP] = r.foot_radius + 0.5 * distance * (1.0 - x**3 * (10.0 + x * (6.0 * x - 15.0)))
        lever = centre - down
        motion = jacobian[:, r.foot_link]
        velocity = motion[:, :, 3:] - skew(lever) @ motion[:, :, :3]
        return velocity[:, :, [UP, 0, 1]], distance

    def contact_problem(
        self, velocity: torch.Tensor, response: torch.Tensor, rows: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A [W, F, 3, F, 3] and b [W, F, 3] of the contact velocities A impulse + b."""
        jacobian, distance = rows
        matrix = torch.einsum("wfxi,wigy->wfxgy", jacobian, response)
        feet = matrix.shape[1]
        softness = self.contact.cfm * torch.eye(3 * feet, dtype=matrix.dtype).view(feet, 3, feet, 3)
        bias = torch.clamp(self.contact.erp * distance / self.dt, min=-self.contact.max_correction)
        free = torch.einsum("wfxi,wi->wfx", jacobian, velocity)
        return matrix + softness, free + torch.nn.functional.pad(bias[..., None], (0, 2))

    def sweep(
        self, impulse: torch.Tensor, matrix: torch.Tensor, value: torch.Tensor, scale: torch.Tensor
    ) -> torch.Tensor:
        """Run one sweep of projected Gauss-Seidel over the feet: impulses [W, F, 3] before and after."""
        impulses = list(impulse.unbind(1))
        flat = matrix.flatten(3)
        for foot in range(len(impulses)):
            newest = torch.cat(impulses, dim=1)
            row = torch.baddbmm(value[:, foot, :, None], flat[:, foot], newest[:, :, None])[..., 0]
            old = impulses[foot]
            normal = torch.relu(old[:, 0] - scale[:, foot, 0] * row[:, 0])
            moved = row[:, 1:] + matrix[:, foot, 1:, foot, 0] * (normal - old[:, 0])[:, None]
            tangent = old[:, 1:] - scale[:, foot, 1, None] * moved
            limit = self.robot.friction[foot] * normal
            square = (tangent * tangent).sum(1)
            slides = square > limit * limit
            # Guard the square root even where its value is unused: its derivative at zero is infinite.
            length = torch.sqrt(torch.where(slides, square, 1.0))
            shorter = torch.where(slides, limit / length, 1.0)
            impulses[foot] = torch.cat([normal[:, None], tangent * shorter[:, None]], dim=1)
        return torch.stack(impulses, dim=1)

    def finish(
        self, q: torch.Tensor, velocity: torch.Tensor, response: torch.Tensor, impulse: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the next state from the free velocity and the impulses: the base's centre of mass moves straight."""
        h = self.dt
        qd = velocity + torch.einsum("wifx,wfx->wi", response, impulse)
        turned = product(exponential(h * qd[:, 3:6]), torch.nn.functional.normalize(q[:, 3:7], dim=1))
        turned = torch.nn.functional.normalize(turned, dim=1)
        spin, arm = qd[:, 3:6], self.base_arm(matrix_of(q[:, None, 3:7]))
        back = arm - self.base_arm(matrix_of(turned[:, None]))
        origin = q[:, :3] + h * (qd[:, :3] + torch.linalg.cross(spin, arm)) + back
        qd = torch.cat([qd[:, :3] + torch.linalg.cross(spin, back), qd[:, 3:]], dim=1)
        return torch.cat([origin, turned, q[:, 7:] + h * qd[:, 6:]], dim=1), qd


def step_lengths(matrix: torch.Tensor) -> torch.Tensor:
    """Compute step lengths of each foot [W, F, 2]: 1 / diagonal for the normal, 1 / Schatten 4-norm for the
    tangents.
    """
    own = torch.diagonal(matrix, dim1=1, dim2=3).movedim(-1, 1)  # [W, F, 3, 3]
    tangential = own[..., 1:, 1:]
    square = tangential @ tangential.mT
    norm = (square * square).sum((-2, -1)) ** 0.25
    return 1.0 / torch.stack([own[..., 0, 0], norm], dim=-1)


def matrix_of(quaternion: torch.Tensor) -> torch.Tensor:
    """Return rotation matrices [..., 3, 3] of quaternions xyzw of any length [..., 4]."""
    unit = torch.nn.functional.normalize(quaternion, dim=-1)
    cross = skew(unit[..., :3])
    return torch.eye(3, dtype=unit.dtype) + 2.0 * (unit[..., 3, None, None] * cross + cross @ cross)


def rotation_about(axis: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Return rotation matrices [W, J, 3, 3] about unit axes [J, 3] by angles [W, J]."""
    cross = skew(axis)
    sine, cosine = torch.sin(angle)[..., None, None], torch.cos(angle)[..., None, None]
    return torch.eye(3, dtype=axis.dtype) + sine * cross + (1.0 - cosine) * (cross @ cross)


def skew(v: torch.Tensor) -> torch.Tensor:
    """Return matrices of the cross product v x, [..., 3, 3]."""
    x, y, z = v.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).unflatten(-1, (3, 3))


def exponential(v: torch.Tensor) -> torch.Tensor:
    """Return quaternions xyzw [W, 4] of rotation vectors [W, 3], smooth at zero, by a short series near it."""
    square = (v * v).sum(1, keepdim=True)
    small = square < 1.0e-6
    angle = torch.sqrt(torch.where(small, 1.0, square))
    sine = torch.where(small, 0.5 - square / 48.0 + square * square / 3840.0, torch.sin(0.5 * angle) / angle)
    cosine = torch.where(small, 1.0 - square / 8.0 + square * square / 384.0, torch.cos(0.5 * angle))
    return torch.cat([sine * v, cosine], dim=1)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply quaternions xyzw [W, 4]."""
    v = a[:, 3:] * b[:, :3] + b[:, 3:] * a[:, :3] + torch.linalg.cross(a[:, :3], b[:, :3])
    return torch.cat([v, a[:, 3:] * b[:, 3:] - (a[:, :3] * b[:, :3]).sum(1, keepdim=True)], dim=1)


def rollout(
    step: torch.nn.Module, q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Roll out all steps, recorded by autograd, and return the final state. tau: [steps, W, nv]."""
    for force in tau:
        q, qd = step(q, qd, force)
    return q, qd
