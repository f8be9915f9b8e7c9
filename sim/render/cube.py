"""Skies of six faces, as MuJoCo has them, and as images by latitude and longitude.

Faces are in MuJoCo's order: right, left, up, down, front and back, towards x, -x, z, -z, -y and y.
"""

import numpy as np

from sim.render.dome import directions

MOST_ROWS = 2048  # of an image by latitude and longitude
# Directions of a face's middle, its columns to the right and its rows downwards
FACES = np.array([
    [(1, 0, 0), (0, 1, 0), (0, 0, -1)], [(-1, 0, 0), (0, -1, 0), (0, 0, -1)],
    [(0, 0, 1), (1, 0, 0), (0, -1, 0)], [(0, 0, -1), (1, 0, 0), (0, 1, 0)],
    [(0, -1, 0), (1, 0, 0), (0, 0, -1)], [(0, 1, 0), (-1, 0, 0), (0, 0, -1)],
], dtype=np.float64)  # fmt: skip


def panorama(faces: np.ndarray) -> np.ndarray:
    """Return an image by latitude and longitude [height, 2 height, 3] of faces [6, width, width, 3], nearest pixel."""
    width = faces.shape[1]
    rows = min(4 * width, MOST_ROWS)
    toward = directions(rows, 2 * rows)
    across = np.einsum("rcd,fd->rcf", toward, FACES[:, 0])
    face = np.argmax(across, axis=-1)
    depth = np.take_along_axis(across, face[..., None], axis=-1)[..., 0]
    column, row = (np.einsum("rcd,rcd->rc", toward, FACES[face, k]) / depth for k in (1, 2))
    pixel = [np.clip(((1.0 + each) * 0.5 * width).astype(int), 0, width - 1) for each in (row, column)]
    return np.asarray(faces[face, pixel[0], pixel[1]])


def face_directions(width: int) -> np.ndarray:
    """Return the directions of the pixels of all faces, unit vectors [6, width, width, 3]."""
    middle = (2.0 * np.arange(width) + 1.0) / width - 1.0
    ahead, right, down = (FACES[:, k, None, None, :] for k in range(3))
    toward = ahead + right * middle[None, None, :, None] + down * middle[None, :, None, None]
    return np.asarray(toward / np.linalg.norm(toward, axis=-1, keepdims=True))
