"""Lengths of tendons, and the forces on joints of what acts along them, as differentiable functions of coordinates."""

import torch

from sim.errors import ModelError
from sim.model.tendons.tendons import owners_of
from sim.simulation.simulator import Simulator
from sim.torch.present_robot import present_parameter
from sim.torch.robot.robot import Robot


class TendonPaths:
    """The tendons of a simulator's model.

    Args:
        simulator: points and coefficients of tendons are its present ones, without gradient.
        robot: gives the poses of links; it belongs to the same model.

    Raises:
        ModelError: naming a tendon that lies around a sphere or a cylinder.
    """

    def __init__(self, simulator: Simulator, robot: Robot):
        self._simulator, self._robot = simulator, robot
        model = simulator.model
        tendons = model.tendons
        if len(tendons.wrap_link):
            raise ModelError(
                f"tendon '{owners_of(tendons, 'wrap')[0]}' lies around something, and sensors of forces have straight "
                "tendons only; leave these sensors out"
            )
        self._count, self._nv = len(tendons.names), model.nv
        self._links = [int(link) for link in sorted(set(tendons.point_link.tolist()) - {-1})]
        self._names = [model.link_names[link] for link in self._links]

    def __call__(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Lengths and slopes for coordinates [steps, num_worlds, nq].

        Returns:
            lengths [steps, num_worlds, num_tendons], m, and their change per degree of freedom [steps, num_worlds,
            num_tendons, nv]: times velocities, rates of the lengths; times the force of a tendon, forces on joints.
        """
        lengths = [q.new_zeros(q.shape[:-1])] * self._count
        slopes = [q.new_zeros(*q.shape[:-1], self._nv)] * self._count
        self._add_terms(q, lengths, slopes)
        if self._simulator.model.tendons.point_link.size:
            self._add_segments(q, lengths, slopes)
        return torch.stack(lengths, dim=-1), torch.stack(slopes, dim=-2)

    def _add_terms(self, q: torch.Tensor, lengths: list[torch.Tensor], slopes: list[torch.Tensor]) -> None:
        """What fixed tendons have: coefficients times joint coordinates."""
        model = self._simulator.model
        coefficients = present_parameter(self._simulator, "tendon_coefficient", q)
        unit = torch.eye(self._nv, dtype=q.dtype, device=q.device)
        for tendon in range(self._count):
            for term in model.tendons.terms(tendon):
                dof, coefficient = int(model.tendons.term_dof[term]), coefficients[..., term]
                lengths[tendon] = lengths[tendon] + coefficient * q[..., int(model.dof_q[dof])]
                slopes[tendon] = slopes[tendon] + coefficient[..., None] * unit[dof]

    def _add_segments(self, q: torch.Tensor, lengths: list[torch.Tensor], slopes: list[torch.Tensor]) -> None:
        """What spatial tendons have: straight lines from point to point."""
        tendons = self._simulator.model.tendons
        points = self._points(q)
        for tendon in range(self._count):
            for segment in tendons.segments(tendon):
                at, behind = tendons.segment_ends[segment].tolist()
                share = float(tendons.segment_share[segment])
                (first, first_rate), (second, second_rate) = points[at], points[behind]
                apart = second - first
                length = torch.linalg.vector_norm(apart, dim=-1)
                along = apart / length.clamp(min=torch.finfo(q.dtype).tiny)[..., None]
                rate = ((second_rate - first_rate) @ along[..., None])[..., 0]
                lengths[tendon] = lengths[tendon] + share * length
                slopes[tendon] = slopes[tendon] + share * rate

    def _points(self, q: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Where each point is in the world [..., 3], and its velocity per degree of freedom [..., nv, 3]."""
        links = self._simulator.model.tendons.point_link.tolist()
        own = present_parameter(self._simulator, "tendon_point", q)
        if self._links:
            flat = q.reshape(-1, q.shape[-1])
            poses = self._robot.forward_kinematics_matrix(flat, self._names).unflatten(0, q.shape[:-1])
            jacobians = self._robot.jacobian(flat, self._names).unflatten(0, q.shape[:-1])
        found = []
        for number, link in enumerate(links):
            point = own[..., number, :]
            if link < 0:
                found.append((point, q.new_zeros(self._nv, 3)))
                continue
            slot = self._links.index(link)
            pose, jacobian = poses[..., slot, :, :], jacobians[..., slot, :, :]
            arm = (pose[..., :3, :3] @ point[..., None])[..., 0]
            found.append((pose[..., :3, 3] + arm, point_jacobian(jacobian, arm)))
        return found


def point_jacobian(jacobian: torch.Tensor, arm: torch.Tensor) -> torch.Tensor:
    """Velocity of a point per degree of freedom [..., nv, 3].

    Args:
        jacobian: of the point's link, about its origin along world axes [..., 6, nv].
        arm: from that origin to the point, along world axes [..., 3].
    """
    turning, moving = jacobian[..., :3, :].mT, jacobian[..., 3:, :].mT
    return moving + torch.linalg.cross(turning, arm[..., None, :].expand_as(turning))
