"""Poses as position and quaternion xyzw in one array [7], or many of them [n, 7]."""

import numpy as np
from scipy.spatial.transform import Rotation

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def compose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pose a then b."""
    if a is IDENTITY:
        return b
    rotation = Rotation.from_quat(a[..., 3:])
    turned = (rotation * Rotation.from_quat(b[..., 3:])).as_quat()
    return np.concatenate([a[..., :3] + rotation.apply(b[..., :3]), turned], axis=-1)


def inverse(a: np.ndarray) -> np.ndarray:
    """The pose that undoes a."""
    back = Rotation.from_quat(a[3:]).inv()
    return np.concatenate([-back.apply(a[:3]), back.as_quat()])


def is_identity(a: np.ndarray) -> bool:
    """Whether a pose moves nothing."""
    return bool((a[:3] == 0.0).all() and (a[3:6] == 0.0).all())
