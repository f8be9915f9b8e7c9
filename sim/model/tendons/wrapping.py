"""Wrapping of a tendon around a sphere or a cylinder; the method of MuJoCo's ``mju_wrap``.

The kernels of :mod:`warp_kernels.solver.tendons` do the same, with gradients.
"""

import numpy as np

# Smaller numbers count as zero.
TINY = 1e-15


def tangent_points(
    ends: np.ndarray, centre: np.ndarray, axis: np.ndarray | None, radius: float, side: np.ndarray | None
) -> tuple[np.ndarray, float] | None:
    """Return the points where a tendon touches a wrap [2, 3], and its length along it; None if it is straight.

    Args:
        ends: points before and after the wrap [2, 3].
        centre: centre of the sphere or cylinder [3].
        axis: axis of a cylinder [3]; None for a sphere.
        radius: radius.
        side: point on whose side the tendon passes [3]; None for the shorter way.
    """
    ends = ends - centre
    if np.linalg.norm(ends, axis=1).min() < TINY or radius < TINY:
        return None
    plane = _plane(ends, axis)
    flat = ends @ plane.T
    if side is not None and np.linalg.norm(side - centre) < radius:
        found = _inside(flat, radius)
    else:
        found = _around(flat, radius, None if side is None else plane @ (side - centre))
    if found is None:
        return None
    touched, length = found
    points = touched @ plane
    if axis is not None:
        # A straight line on the unrolled surface: height is proportional to arc length.
        along = axis / np.linalg.norm(axis)
        heights = ends @ along
        first, last = np.linalg.norm(flat - touched, axis=1)
        shares = np.array([first, first + length]) / max(first + length + last, TINY)
        rises = heights[0] + (heights[1] - heights[0]) * shares
        points, length = points + rises[:, None] * along, float(np.hypot(length, rises[1] - rises[0]))
    return points + centre, length


def _plane(ends: np.ndarray, axis: np.ndarray | None) -> np.ndarray:
    """Return two orthonormal directions in the plane of the circle [2, 3]."""
    normal = np.cross(ends[0], ends[1]) if axis is None else axis
    first = ends[0] if axis is None else np.eye(3)[np.argmin(np.abs(axis))]
    if np.linalg.norm(normal) < TINY:
        normal = np.cross(first, np.eye(3)[np.argmin(np.abs(first))])
    normal = normal / np.linalg.norm(normal)
    first = first - (first @ normal) * normal
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)])


def _around(ends: np.ndarray, radius: float, side: np.ndarray | None) -> tuple[np.ndarray, float] | None:
    """Return the tangent points and arc length around a circle about the origin of the plane."""
    squares = (ends * ends).sum(axis=1)
    apart = ends[1] - ends[0]
    if squares.min() < radius**2 or apart @ apart < TINY:
        return None
    nearest = ends[0] + np.clip(-(apart @ ends[0]) / (apart @ apart), 0.0, 1.0) * apart
    beyond = side is not None and _passes_beyond(ends, side)
    if nearest @ nearest > radius**2 and not beyond:
        return None
    turned = np.stack([-ends[:, 1], ends[:, 0]], axis=1)
    tangent = radius * np.sqrt(squares - radius**2)
    best, found = -np.inf, None
    for winding in (1.0, -1.0):
        signs = np.array([-winding, winding])
        touched = (radius**2 * ends + (signs * tangent)[:, None] * turned) / squares[:, None]
        good = winding * _cross(ends[0], ends[1]) if beyond else -float(((touched[0] - touched[1]) ** 2).sum())
        if good >= best and not _intersect(ends[0], touched[0], ends[1], touched[1]):
            best, found = good, (touched, winding)
    if found is None:
        return None
    touched, winding = found
    angle = np.arctan2(-winding * _cross(touched[0], touched[1]), touched[0] @ touched[1])
    return touched, radius * float(angle % (2.0 * np.pi))


def _inside(ends: np.ndarray, radius: float) -> tuple[np.ndarray, float] | None:
    """Return the point at which a tendon inside a circle touches it, with equal angles."""
    distances = np.linalg.norm(ends, axis=1)
    if distances.min() <= radius:
        return None
    apart = ends[1] - ends[0]
    if apart @ apart > TINY:
        share = -(apart @ ends[0]) / (apart @ apart)
        if 0.0 < share < 1.0 and np.linalg.norm(ends[0] + share * apart) <= radius:
            return None
    one, other = radius / distances
    between = np.arctan2(_cross(ends[0], ends[1]), ends[0] @ ends[1])
    if np.pi - abs(between) < TINY:
        return None

    def gap(z: float) -> float:
        return float(np.arcsin(one * z) + np.arcsin(other * z) - 2.0 * np.arcsin(z) + abs(between))

    from scipy.optimize import brentq  # slow to import

    z = np.sign(between) * (brentq(gap, 0.0, 1.0, xtol=1e-15, rtol=1e-14) if gap(1.0) < 0.0 else 1.0)
    angle = np.arcsin(z) - np.arcsin(one * z)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    point = turn @ ends[0] * one
    return np.stack([point, point]), 0.0


def _passes_beyond(ends: np.ndarray, side: np.ndarray) -> bool:
    """Return whether the straight line between both ends intersects the ray from the centre away from a side."""
    turn = _cross(ends[0], ends[1])
    return _cross(side, ends[0]) * turn > 0.0 and _cross(ends[1], side) * turn > 0.0


def _cross(a: np.ndarray, b: np.ndarray) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def _intersect(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    """Return whether the line segments from a to b and from c to d intersect."""
    divisor = _cross(b - a, d - c)
    if abs(divisor) < TINY:
        return False
    shares = _cross(d - c, a - c) / divisor, _cross(b - a, a - c) / divisor
    return min(shares) >= 0.0 and max(shares) <= 1.0
