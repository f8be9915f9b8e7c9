"""Frames that are fixed to links: named ones, those of cameras, and of prims of a USD file."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a link.

    Attributes:
        name: unique name.
        link: index of the link it moves with; -1 is the world.
        placement: pose in the link frame, position and quaternion xyzw [7].
    """

    name: str
    link: int
    placement: np.ndarray


@dataclass(frozen=True)
class MountedCamera:
    """A camera on a link; it looks along its -z axis, with x to the right and y up.

    Attributes:
        name: unique name.
        link: index of the link it moves with; -1 is the world.
        placement: pose in the link frame, position and quaternion xyzw [7]; of a camera that follows its link without
            turning, the offset from what it follows, and its orientation, both along world axes.
        fov: vertical field of view [degrees].
        follows: "link", and a camera turns with it; "point", a point of the link; or "centre of mass", that of the link
            with all links that it carries.
        point: the point in the link frame [3].
    """

    name: str
    link: int
    placement: np.ndarray
    fov: float
    follows: str = "link"
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class StagePrim:
    """A prim of a USD file that a link was read from.

    Attributes:
        file: the file.
        path: path of the prim.
        link: index of the link it moves with; -1 is the world.
        placement: pose of the prim's frame in the link frame, position and quaternion xyzw [7].
        base: pose of the origin of the stage in the world [7].
        at: pose of the prim's frame in the stage as read, in metres with z up [7].
    """

    file: str
    path: str
    link: int
    placement: np.ndarray
    base: np.ndarray
    at: np.ndarray
