"""Lengths of tendons, and joint forces from tendon forces, as differentiable functions of coordinates."""

import torch

from sim.model.tendons.tendons import ANY_SIDE
from sim.simulation.simulator import Simulator
from sim.torch.actuation.tendon_wraps import Wrapped, tangent_points
from sim.torch.current_parameters import current_parameter
from sim.torch.robot.robot import Robot


class TendonPaths:
    """Tendons of a simulator's model.

    Args:
        simulator: its present points and coefficients of tendons are used, without gradient.
        robot: gives the poses of links; it belongs to the same model.
    """

    def __init__(self, simulator: Simulator, robot: Robot):
        self._simulator, self._robot = simulator, robot
        model = simulator.model
        tendons = model.tendons
        self._count, self._nv = len(tendons.names), model.nv
        used = {*tendons.path_link.tolist(), *tendons.wrap_side_link.tolist()} - {-1, ANY_SIDE}
        self._links = sorted(int(link) for link in used)
        self._names = [model.link_names[link] for link in self._links]

    def __call__(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return lengths and slopes for coordinates [steps, num_worlds, nq].

        Returns:
            lengths [steps, num_worlds, num_tendons], m, and their Jacobian [steps, num_worlds, num_tendons, nv]: it
            maps velocities to rates of the lengths, and its transpose maps tendon forces to joint forces.
        """
        lengths = [q.new_zeros(q.shape[:-1])] * self._count
        slopes = [q.new_zeros(*q.shape[:-1], self._nv)] * self._count
        self._add_terms(q, lengths, slopes)
        if self._simulator.model.tendons.point_link.size:
            self._add_segments(q, lengths, slopes)
        return torch.stack(lengths, dim=-1), torch.stack(slopes, dim=-2)

    def _add_terms(self, q: torch.Tensor, lengths: list[torch.Tensor], slopes: list[torch.Tensor]) -> None:
        """Add fixed tendons: coefficients times joint coordinates."""
        model = self._simulator.model
        coefficients = current_parameter(self._simulator, "tendon_coefficient", q)
        unit = torch.eye(self._nv, dtype=q.dtype, device=q.device)
        for tendon in range(self._count):
            for term in model.tendons.terms(tendon):
                dof, coefficient = int(model.tendons.term_dof[term]), coefficients[..., term]
                lengths[tendon] = lengths[tendon] + coefficient * q[..., int(model.dof_q[dof])]
                slopes[tendon] = slopes[tendon] + coefficient[..., None] * unit[dof]

    def _add_segments(self, q: torch.Tensor, lengths: list[torch.Tensor], slopes: list[torch.Tensor]) -> None:
        """Add spatial tendons: straight segments between points, or paths around wraps."""
        tendons = self._simulator.model.tendons
        points, arcs = self._path_points(q)
        for tendon in range(self._count):
            for segment in tendons.segments(tendon):
                share, wrap = float(tendons.segment_share[segment]), int(tendons.segment_wrap[segment])
                if wrap >= 0:  # its ends move along tangents, which doesn't change the length
                    lengths[tendon] = lengths[tendon] + share * arcs[wrap]
                    continue
                at, behind = tendons.segment_ends[segment].tolist()
                (first, first_rate), (second, second_rate) = points[at], points[behind]
                apart = second - first
                length = torch.linalg.vector_norm(apart, dim=-1)
                along = apart / length.clamp(min=torch.finfo(q.dtype).tiny)[..., None]
                rate = ((second_rate - first_rate) @ along[..., None])[..., 0]
                lengths[tendon] = lengths[tendon] + share * length
                slopes[tendon] = slopes[tendon] + share * rate

    def _path_points(self, q: torch.Tensor) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], list[torch.Tensor]]:
        """Return the world position of each path point [..., 3], its velocity per degree of freedom [..., nv, 3], and
        the length on each wrap [...].
        """
        tendons, links = self._simulator.model.tendons, _LinkMotions(self, q)
        names = ("point", "wrap_centre", "wrap_axis", "wrap_radius")
        points, centres, axes, radii = (current_parameter(self._simulator, f"tendon_{name}", q) for name in names)
        found = [links.point(int(link), points[..., k, :]) for k, link in enumerate(tendons.point_link)]
        sides = torch.as_tensor(tendons.wrap_side, dtype=q.dtype, device=q.device)
        arcs = []
        for wrap, (link, side_link) in enumerate(zip(tendons.wrap_link, tendons.wrap_side_link, strict=True)):
            centre, _ = links.point(int(link), centres[..., wrap, :])
            ends = [found[end][0] - centre for end in tendons.wrap_ends[wrap].tolist()]
            axis = links.direction(int(link), axes[..., wrap, :]) if tendons.wrap_is_cylinder[wrap] else None
            side = None if side_link == ANY_SIDE else links.point(int(side_link), sides[wrap])[0] - centre
            shape = q.shape[:-1]
            rows = [None if each is None else each.expand(*shape, 3).reshape(-1, 3) for each in (*ends, axis, side)]
            assert rows[0] is not None
            assert rows[1] is not None
            radius = radii[..., wrap].expand(shape).reshape(-1)
            on, off, arc = tangent_points(Wrapped(rows[0], rows[1], rows[2], radius, rows[3]))
            found += [links.carried(int(link), centre + each.unflatten(0, shape)) for each in (on, off)]
            arcs.append(arc.unflatten(0, shape))
        return found, arcs


class _LinkMotions:
    """Poses and Jacobians of the links that tendons touch, for coordinates [..., nq]."""

    def __init__(self, paths: TendonPaths, q: torch.Tensor):
        self._links, self._still = paths._links, q.new_zeros(paths._nv, 3)
        if self._links:
            flat = q.reshape(-1, q.shape[-1])
            poses = paths._robot.forward_kinematics_matrix(flat, paths._names)
            self._poses = poses.unflatten(0, q.shape[:-1])
            self._jacobians = paths._robot.jacobian(flat, paths._names).unflatten(0, q.shape[:-1])

    def point(self, link: int, local: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a point of a link in the world [..., 3], and its velocity per degree of freedom [..., nv, 3]."""
        if link < 0:
            return local, self._still
        pose = self._poses[..., self._links.index(link), :, :]
        return self.carried(link, pose[..., :3, 3] + (pose[..., :3, :3] @ local[..., None])[..., 0])

    def direction(self, link: int, local: torch.Tensor) -> torch.Tensor:
        """Return a direction in a link, along world axes [..., 3]."""
        if link < 0:
            return local
        return (self._poses[..., self._links.index(link), :3, :3] @ local[..., None])[..., 0]

    def carried(self, link: int, point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a point in the world, and its velocity if a link carries it."""
        if link < 0:
            return point, self._still
        slot = self._links.index(link)
        arm = point - self._poses[..., slot, :3, 3]
        return point, point_jacobian(self._jacobians[..., slot, :, :], arm)


def point_jacobian(jacobian: torch.Tensor, arm: torch.Tensor) -> torch.Tensor:
    """Return the velocity of a point per degree of freedom [..., nv, 3].

    Args:
        jacobian: Jacobian of the point's link, about its origin along world axes [..., 6, nv].
        arm: vector from that origin to the point, along world axes [..., 3].
    """
    turning, moving = jacobian[..., :3, :].mT, jacobian[..., 3:, :].mT
    return moving + torch.linalg.cross(turning, arm[..., None, :].expand_as(turning))
