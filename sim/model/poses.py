"""Poses as position and quaternion xyzw in one array [7], or in a batch [n, 7].

Written out, because models of many links compose several poses for each, and SciPy's rotations take 30 times as long.
"""

from typing import Any

import numpy as np

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def compose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the pose a followed by b, with a quaternion of unit length."""
    ax, ay, az, x, y, z, w = _entries(a)
    px, py, pz, bx, by, bz, bw = _entries(b)
    mx, my, mz = _turned(x, y, z, w, px, py, pz)
    turned = _unit(
        w * bx + x * bw + y * bz - z * by,
        w * by - x * bz + y * bw + z * bx,
        w * bz + x * by - y * bx + z * bw,
        w * bw - x * bx - y * by - z * bz,
    )
    return np.array((ax + mx, ay + my, az + mz, *turned)).T


def inverse(a: np.ndarray) -> np.ndarray:
    """Return the inverse of a pose."""
    px, py, pz, x, y, z, w = _entries(a)
    back = _turned(-x, -y, -z, w, px, py, pz)
    return np.array((-back[0], -back[1], -back[2], -x, -y, -z, w)).T


def _entries(pose: np.ndarray) -> tuple:
    """Return the seven entries, with unit quaternions: floats of one pose, arrays [n] of a batch."""
    px, py, pz, x, y, z, w = pose.tolist() if pose.ndim == 1 else pose.T
    return px, py, pz, *_unit(x, y, z, w)


def _unit(x: Any, y: Any, z: Any, w: Any) -> tuple:
    length = (x * x + y * y + z * z + w * w) ** 0.5
    return x / length, y / length, z / length, w / length


def _turned(x: Any, y: Any, z: Any, w: Any, px: Any, py: Any, pz: Any) -> tuple:
    """Rotate a point by a unit quaternion: p + 2 w (u x p) + 2 u x (u x p), with u = (x, y, z)."""
    tx, ty, tz = 2.0 * (y * pz - z * py), 2.0 * (z * px - x * pz), 2.0 * (x * py - y * px)
    return (
        px + w * tx + y * tz - z * ty,
        py + w * ty + z * tx - x * tz,
        pz + w * tz + x * ty - y * tx,
    )


def is_identity(a: np.ndarray) -> bool:
    """Return whether a pose is the identity."""
    return bool((a[:3] == 0.0).all() and (a[3:6] == 0.0).all())
