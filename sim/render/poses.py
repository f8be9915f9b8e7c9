"""Where the links are, worked out on the host in double precision: for pictures, files and start poses."""

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model import Model
from warp_kernels import types as codes


def link_poses(model: Model, q: npt.ArrayLike) -> np.ndarray:
    """World poses of all links, without gradient; :func:`sim.forward_kinematics` is the fast one.

    Args:
        model: the model.
        q: joint coordinates [..., nq].

    Returns:
        poses [..., num_links, 7]: position [m] and quaternion xyzw in the world frame.

    Raises:
        ModelError: for another shape, or coordinates that are not finite.
    """
    coordinates = np.asarray(q, dtype=np.float64)
    if coordinates.ndim < 1 or coordinates.shape[-1] != model.nq:
        raise ModelError(f"q has shape {coordinates.shape}; expected [..., {model.nq}]")
    if not np.isfinite(coordinates).all():
        raise ModelError(f"q is not finite at {tuple(int(i) for i in np.argwhere(~np.isfinite(coordinates))[0])}")
    flat = coordinates.reshape(-1, model.nq)
    positions: list[np.ndarray] = []
    rotations: list[Rotation] = []
    for link in range(model.num_links):
        placement = model.parameters["joint_placement"][link]
        offset, turn = _joint_motion(model, link, flat)
        joint = Rotation.from_quat(placement[3:])
        position = placement[:3] + joint.apply(offset)
        rotation = joint * turn
        parent = int(model.link_parent[link])
        if parent >= 0:
            position = positions[parent] + rotations[parent].apply(position)
            rotation = rotations[parent] * rotation
        positions.append(position)
        rotations.append(rotation)
    poses = [
        np.concatenate([position, np.broadcast_to(rotation.as_quat(), (len(flat), 4))], axis=1)
        for position, rotation in zip(positions, rotations, strict=True)
    ]
    return np.stack(poses, axis=1).reshape(*coordinates.shape[:-1], model.num_links, 7)


def _joint_motion(model: Model, link: int, q: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Offset [frames, 3] and rotation of a link in its joint frame."""
    kind, start = int(model.joint_type[link]), int(model.joint_q_start[link])
    axis = model.joint_axis[link]
    still = np.zeros((len(q), 3))
    if kind == codes.REVOLUTE:
        return still, Rotation.from_rotvec(q[:, start : start + 1] * axis)
    if kind == codes.PRISMATIC:
        return q[:, start : start + 1] * axis, Rotation.identity(len(q))
    if kind == codes.SPHERICAL:
        return still, Rotation.from_quat(q[:, start : start + 4])
    if kind == codes.FREE:
        return q[:, start : start + 3], Rotation.from_quat(q[:, start + 3 : start + 7])
    return still, Rotation.identity(len(q))
