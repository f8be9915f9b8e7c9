"""Patterns of rays in the frame of a sensor, as NumPy arrays."""

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_whole, number

MOST_RAYS = 2**27  # of one camera


def grid_pattern(size: tuple[float, float], spacing: float) -> np.ndarray:
    """Return points of a grid about the origin, for height scans.

    Args:
        size: lengths along x and y [m].
        spacing: distance between neighbouring points [m].

    Returns:
        x and y [points, 2], row by row along x.

    Raises:
        ModelError: for negative lengths and a spacing that isn't positive.

    Example:
        >>> import sim
        >>> sim.rays.grid_pattern((1.0, 0.5), 0.5).tolist()
        [[-0.5, -0.25], [0.0, -0.25], [0.5, -0.25], [-0.5, 0.25], [0.0, 0.25], [0.5, 0.25]]
    """
    if not (spacing > 0.0 and min(size) >= 0.0):
        raise ModelError(f"grid_pattern: size {size} and spacing {spacing} must be positive numbers")
    x, y = (spacing * (np.arange(count) - 0.5 * (count - 1)) for count in (int(s / spacing + 1e-9) + 1 for s in size))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def fan_pattern(
    columns: int,
    rows: int = 1,
    *,
    azimuths: tuple[float, float] = (-np.pi, np.pi),
    elevations: tuple[float, float] = (0.0, 0.0),
) -> np.ndarray:
    """Return unit directions of a lidar: x ahead, z up.

    Args:
        columns: number of azimuths.
        rows: number of elevations.
        azimuths: first and last angle about z, from x [rad]. For a full turn the last angle equals the first and is
            omitted.
        elevations: first and last angle above the xy plane [rad].

    Returns:
        [rows * columns, 3], row by row.

    Raises:
        ModelError: for numbers that aren't positive.

    Example:
        >>> import sim
        >>> sim.rays.fan_pattern(4).round(6).tolist()
        [[-1.0, -0.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if columns < 1 or rows < 1:
        raise ModelError(f"fan_pattern: {columns} columns and {rows} rows; both must be positive")
    full = np.isclose(azimuths[1] - azimuths[0], 2.0 * np.pi)
    azimuth = np.linspace(*azimuths, columns, endpoint=not full)
    elevation = np.linspace(*elevations, rows)[:, None]
    across, up = np.cos(elevation), np.broadcast_to(np.sin(elevation), (rows, columns))
    return np.stack([across * np.cos(azimuth), across * np.sin(azimuth), up], axis=-1).reshape(-1, 3)


def pixel_pattern(width: int, height: int, fov: float) -> np.ndarray:
    """Return directions through the pixel centres of a camera, with a component of 1 along its viewing axis.

    The camera looks along the negative z axis of its frame, y up in the image, as cameras of MJCF and USD do.

    Args:
        width: number of columns.
        height: number of rows.
        fov: vertical field of view [degrees].

    Returns:
        [height * width, 3], top row first.

    Raises:
        ModelError: for numbers that aren't positive, and a field of view of 180 degrees or more.

    Example:
        >>> import sim
        >>> sim.rays.pixel_pattern(2, 2, 90.0).round(6).tolist()
        [[-0.5, 0.5, -1.0], [0.5, 0.5, -1.0], [-0.5, -0.5, -1.0], [0.5, -0.5, -1.0]]
    """
    fov = number("pixel_pattern", "field of view", fov)
    if not (is_whole(width, 1) and is_whole(height, 1) and width * height <= MOST_RAYS and 0.0 < fov < 180.0):
        raise ModelError(
            f"pixel_pattern: {width} x {height} pixels, field of view {fov}; sizes must be positive integers of "
            f"at most {MOST_RAYS} pixels together, the field of view between 0 and 180 degrees"
        )
    size = 2.0 * np.tan(np.radians(fov) / 2.0) / height
    x = size * (np.arange(width) + 0.5 - 0.5 * width)
    y = size * (0.5 * height - np.arange(height) - 0.5)
    across, up = np.meshgrid(x, y)
    return np.stack([across, up, np.full_like(up, -1.0)], axis=-1).reshape(-1, 3)
