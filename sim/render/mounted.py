"""Poses of cameras and lights on links."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.frames import MountedCamera
from sim.model.looks.lights import MountedLight
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose


def mounted_pose(model: Model, mounted: MountedCamera | MountedLight, poses: np.ndarray) -> np.ndarray:
    """Return the pose of a camera or light in the world [7], for poses of the links [num_links, 7]."""
    link = IDENTITY if mounted.link < 0 else poses[mounted.link]
    if mounted.follows == "link":
        return compose(link, mounted.placement)
    followed = compose(link, np.array([*mounted.point, *IDENTITY[3:]]))[:3]
    if mounted.follows == "centre of mass":
        followed = _carried_centre(model, mounted.link, poses, followed)
    return np.concatenate([followed + mounted.placement[:3], mounted.placement[3:]])


def carried_mass(model: Model, link: int) -> np.ndarray:
    """Return the masses of a link and of all that it carries, zero for other links [num_links]; -1 is the world."""
    carried = np.full(model.num_links, link < 0)
    for other in range(max(link, 0), model.num_links):
        parent = model.link_parent[other]
        carried[other] |= other == link or (parent >= 0 and carried[parent])
    return np.asarray(model.parameters["mass"] * carried)


def _carried_centre(model: Model, link: int, poses: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return the centre of mass of a link and all that it carries, or ``otherwise`` if they have no mass [3]."""
    mass = carried_mass(model, link)
    if not mass.sum() > 0.0:
        return otherwise
    centres = poses[:, :3] + Rotation.from_quat(poses[:, 3:]).apply(model.parameters["com"])
    return np.asarray(mass @ centres / mass.sum())
