"""Orientations as three angles, for sliders."""

import numpy as np


def to_angles(xyzw: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw [3] of a quaternion [4]: rotations about the fixed x, then y, then z axis [rad].

    If the pitch is a right angle, roll and yaw are about the same axis, and the yaw is set to zero.
    """
    x, y, z, w = np.asarray(xyzw, dtype=np.float64) / np.linalg.norm(xyzw)
    sine = 2.0 * (w * y - z * x)
    if abs(sine) > 1.0 - 1e-12:
        roll = 2.0 * np.arctan2(x, w)
        return np.array([(roll + np.pi) % (2.0 * np.pi) - np.pi, np.copysign(np.pi / 2.0, sine), 0.0])
    return np.array(
        [
            np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            np.arcsin(sine),
            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
        ]
    )
