"""MuJoCo's inverse weights: how easily links and joints move in the initial configuration."""

from dataclasses import replace

import numpy as np
import warp as wp

from sim.dynamics.kinematics import forward_kinematics, jacobian
from sim.dynamics.mass_matrix import mass_matrix
from sim.model.model import Model
from warp_kernels.types import FREE, SPHERICAL


class InverseWeights:
    """Arrays on a device, of the model's own parameters whatever those of its worlds.

    Attributes:
        link_inverse_weight: mean inverse mass of each link's centre of mass over three directions (MuJoCo's
            ``body_invweight0``) [num_links], 1/kg.
        dof_inverse_weight: entries of the diagonal of M^-1, of spherical and free joints the means over three (its
            ``dof_invweight0``) [nv], 1/kg or 1/(kg m^2).
    """

    def __init__(self, model: Model, device: wp.DeviceLike = None):
        of_links, of_dofs = _inverse_weights(replace(model, dtype="float64"))
        self.link_inverse_weight: wp.array = wp.array(of_links, dtype=model.scalar, device=device)
        self.dof_inverse_weight: wp.array = wp.array(of_dofs, dtype=model.scalar, device=device)


def _inverse_weights(model: Model) -> tuple[np.ndarray, np.ndarray]:
    q = model.q0[None]
    inverse = np.linalg.inv(mass_matrix(model, q).numpy()[0])
    poses = forward_kinematics(model, q).numpy()[0]
    rows = jacobian(model, q, model.link_names).numpy()[0]
    of_links = np.zeros(model.num_links)
    for link in range(model.num_links):
        x, y, z, w = poses[link, 3:]
        v, com = np.array([x, y, z]), model.parameters["com"][link]
        arm = com + 2.0 * np.cross(v, np.cross(v, com) + w * com)
        linear = rows[link, 3:] + np.cross(rows[link, :3], arm, axisa=0, axisc=0)
        of_links[link] = np.trace(linear @ inverse @ linear.T) / 3.0
    of_dofs = np.diag(inverse).copy()
    for kind, start in zip(model.joint_type, model.joint_qd_start, strict=True):
        for first in {SPHERICAL: [start], FREE: [start, start + 3]}.get(int(kind), []):
            of_dofs[first : first + 3] = of_dofs[first : first + 3].mean()
    return of_links, of_dofs
