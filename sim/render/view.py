"""Camera, markers and trails of a picture, and the checks of poses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.checks import (
    as_numbers,
    is_positive,
    is_whole,
    items_of,
    number,
    require_type,
)
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.poses import compose
from sim.model.spec_checks import check_text, finite
from sim.render.mounted import mounted_pose
from warp_kernels import types as codes

Color = tuple[float, float, float]
MOST_PIXELS = 2**27
NEAR, FAR = 0.2, 200.0  # range of camera distances for which the unit of length is a metre


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position: position of the eye, world frame [m].
        target: point at the centre of the picture [m].
        fov: vertical field of view, between 0 and 180 [degrees].
        up: world direction that points up in the picture.

    Raises:
        ModelError: for another field of view.

    Example:
        >>> import sim
        >>> from sim.render import Camera, render_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> camera = Camera(position=(2.0, -2.0, 1.5), target=(0.0, 0.0, 0.6), fov=30.0)
        >>> render_frames(model, poses, camera, width=64, height=48, device="cpu").shape
        (1, 48, 64, 3)
    """

    position: Sequence[float]
    target: Sequence[float]
    fov: float = 35.0
    up: Sequence[float] = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        for label in ("position", "target", "up"):
            finite(f"camera: {label}", getattr(self, label), (3,))
        if not 0.0 < number("camera", "fov", self.fov) < 180.0:
            raise ModelError(f"camera: fov is {self.fov}; it must lie between 0 and 180 degrees")

    @property
    def distance(self) -> float:
        """Distance from the eye to the target [m]."""
        return float(np.linalg.norm(np.subtract(self.position, self.target)))

    def axes(self) -> np.ndarray:
        """Return the rows right, up and backward (towards the viewer), unit vectors in the world frame [3, 3].

        Raises:
            ModelError: if position and target coincide, or the camera looks along ``up``.
        """
        backward = np.subtract(self.position, self.target).astype(np.float64)
        right = np.cross(np.asarray(self.up, dtype=np.float64), backward)
        if not (np.isfinite(right).all() and np.linalg.norm(right) > 1e-9):
            position, target, up = (np.asarray(each).tolist() for each in (self.position, self.target, self.up))
            raise ModelError(
                f"camera: position {position}, target {target} and up {up} don't define its "
                f"orientation; move the target or change up"
            )
        backward /= np.linalg.norm(backward)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(backward, right), backward])

    def project(self, points: npt.ArrayLike, width: int, height: int) -> np.ndarray:
        """Return pixel coordinates (column, row) [..., 2] of world points [..., 3]; (0, 0) is the top left corner.

        Raises:
            ModelError: for points of another shape, and a size that isn't a positive integer.
        """
        array = as_numbers("project: points", points)
        if array.shape[-1:] != (3,):
            raise ModelError(f"project: points have shape {array.shape}; expected [..., 3]")
        check_size(width, height)
        seen = (array - np.asarray(self.position)) @ self.axes().T
        scale = 0.5 * height / np.tan(np.radians(self.fov) / 2.0)
        x, y = seen[..., 0] / -seen[..., 2], seen[..., 1] / -seen[..., 2]
        return np.stack([width / 2.0 + scale * x, height / 2.0 - scale * y], axis=-1)


def view_of(model: Model, name: str, poses: npt.ArrayLike) -> Camera:
    """Look through a camera of the model, see :meth:`sim.ModelBuilder.add_camera`.

    Args:
        model: the model.
        name: name of the camera.
        poses: world poses of the links of one world [num_links, 7].

    Raises:
        ModelError: for an unknown camera, or poses of another shape.

    Example:
        >>> import sim
        >>> from sim.render import render_frames, view_of
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_urdf("scenes/robots/manipulator.urdf")
        >>> _ = scene.add_camera("on hand", "link7", position=(0.0, 0.0, 0.1), orientation=(1.0, 0.0, 0.0, 0.0))
        >>> model = scene.finalize()
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> render_frames(model, poses, view_of(model, "on hand", poses[0]), width=64, height=48, device="cpu").shape
        (1, 48, 64, 3)
    """
    require_type("view_of: model", model, Model, "a sim.Model")
    mounted = model.camera(name)
    links = finite("poses", poses, (model.num_links, 7))
    eye = mounted_pose(model, mounted, links)
    _, up, backward = Rotation.from_quat(eye[3:]).as_matrix().T
    return Camera(eye[:3].tolist(), (eye[:3] - backward).tolist(), mounted.fov, up.tolist())


@dataclass(frozen=True)
class Marker:
    """A ball without collision, such as a target, with its position in the world frame [m] and radius [m].

    Example:
        >>> import sim
        >>> from sim.render import Marker, render_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> target = Marker("target", (0.5, 0.0, 0.8), radius=0.05)
        >>> render_frames(model, poses, width=64, height=48, device="cpu", markers=[target]).shape
        (1, 48, 64, 3)
    """

    name: str
    position: Sequence[float]
    radius: float = 0.03
    color: Color = (0.85, 0.15, 0.12)

    def __post_init__(self) -> None:
        check_text(self.name, "a marker")
        finite(f"marker '{self.name}': position", self.position, (3,))
        _check_look(f"marker '{self.name}'", self.radius, self.color)


@dataclass(frozen=True)
class Trail:
    """The path of a point, which grows during the motion.

    Attributes:
        name: unique name.
        points: position of the point in each frame, world frame [frames, 3] [m].
        radius: radius of the line [m].
        color: red, green, blue.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.render import Trail, render_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, np.linspace(0.0, 0.5, 3)[:, None] * np.ones(7)).numpy()
        >>> path = Trail("hand", poses[:, -1, :3])
        >>> render_frames(model, poses, width=64, height=48, device="cpu", trails=[path]).shape
        (3, 48, 64, 3)
    """

    name: str
    points: np.ndarray
    radius: float = 0.01
    color: Color = (0.95, 0.55, 0.10)

    def __post_init__(self) -> None:
        check_text(self.name, "a trail")
        _check_look(f"trail '{self.name}'", self.radius, self.color)


def _check_look(where: str, radius: float, color: Color) -> None:
    """Raise ModelError for a radius that isn't positive or a colour that isn't three numbers from 0 to 1."""
    if not is_positive(radius):
        raise ModelError(f"{where}: radius is {radius!r}; it must be positive")
    shown = finite(f"{where}: color", color, (3,))
    if shown.min() < 0.0 or shown.max() > 1.0:
        raise ModelError(
            f"{where}: color is {color!r}; numbers must lie between 0 and 1 (divide a range of 0 to 255 by 255)"
        )


def listed(name: str, given: Sequence[Any], kind: type) -> tuple[Any, ...]:
    """Return a list of markers or trails as a tuple. Raise ModelError for other objects."""
    found = tuple(items_of(name, given, f"a list of sim.render.{kind.__name__}"))
    for each in found:
        require_type(f"{name}: one of them", each, kind, f"a sim.render.{kind.__name__}")
    return found


def length_unit(distance: float) -> float:
    """Return the unit of length of a picture [m]: 1, or a power of ten that puts the camera 2 to 20 units away."""
    if NEAR <= distance <= FAR or distance == 0.0:
        return 1.0
    return float(10.0 ** np.floor(np.log10(distance / 2.0)))


def clipping_range(camera: Camera) -> tuple[float, float]:
    """Return near and far clipping distances [m]: 1 cm to 1 km, or wider for other scales."""
    return min(0.01, 0.003 * camera.distance), max(1000.0, 300.0 * camera.distance)


def transform_points(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Transform points [n, 3] by poses [..., 7] (position, quaternion xyzw). Return [..., n, 3]."""
    flat = np.asarray(pose, dtype=np.float64).reshape(-1, 7)
    turned = np.einsum("fij,nj->fni", Rotation.from_quat(flat[:, 3:]).as_matrix(), points) + flat[:, None, :3]
    return turned.reshape(*np.shape(pose)[:-1], len(points), 3)


def check_poses(model: Model, poses: npt.ArrayLike) -> np.ndarray:
    """Return link poses as float64 [frames, num_links, 7] with unit quaternions.

    Raises:
        ModelError: for a wrong shape, no frames, non-finite values, or a zero quaternion.
    """
    require_type("model", model, Model, "a sim.Model")
    array = as_numbers("poses", poses)
    if array.ndim != 3 or array.shape[1:] != (model.num_links, 7) or not len(array):
        raise ModelError(
            f"poses have shape {array.shape}; expected [frames, {model.num_links}, 7]: position and quaternion xyzw"
        )
    if not np.isfinite(array).all():
        frame, link = np.argwhere(~np.isfinite(array))[0][:2]
        raise ModelError(f"poses: frame {frame}, link '{model.link_names[link]}' is not finite")
    length = np.linalg.norm(array[..., 3:], axis=-1, keepdims=True)
    if (length < 1e-6).any():
        frame, link = np.argwhere(length[..., 0] < 1e-6)[0]
        raise ModelError(f"poses: frame {frame}, link '{model.link_names[link]}' has a zero quaternion")
    array[..., 3:] /= length
    return array


def check_world_poses(model: Model, poses: npt.ArrayLike) -> np.ndarray:
    """Check poses [frames, num_worlds, num_links, 7], or [frames, num_links, 7] for one world. Return four dimensions.

    Raises:
        ModelError: as :func:`check_poses` does.
    """
    require_type("model", model, Model, "a sim.Model")
    array = as_numbers("poses", poses)
    if array.ndim != 4:
        return check_poses(model, array)[:, None]
    if array.shape[2:] != (model.num_links, 7) or 0 in array.shape[:2]:
        raise ModelError(f"poses have shape {array.shape}; expected [frames, num_worlds, {model.num_links}, 7]")
    flat = array.reshape(array.shape[0] * array.shape[1], model.num_links, 7)
    return check_poses(model, flat).reshape(array.shape)


def check_size(width: int, height: int) -> None:
    """Raise ModelError for a picture size that isn't a positive integer or is too large."""
    if not (is_whole(width, 1) and is_whole(height, 1)):
        raise ModelError(f"picture of {width} x {height} pixels: both must be positive integers")
    if int(width) * int(height) > MOST_PIXELS:
        raise ModelError(f"picture of {width} x {height} pixels: at most {MOST_PIXELS} pixels are supported")


def visible_solids(model: Model) -> list[int]:
    """Return indices of the geometries to draw, except planes."""
    return [k for k, g in enumerate(model.geometries) if is_seen(g) and g.type != codes.PLANE]


def visible_planes(model: Model) -> list[int]:
    """Return indices of the visible planes.

    Raises:
        ModelError: for a plane that is not fixed to the world.
    """
    numbers = [k for k, g in enumerate(model.geometries) if is_seen(g) and g.type == codes.PLANE]
    for k in numbers:
        if model.geometries[k].link >= 0:
            raise ModelError(
                f"geometry '{model.geometries[k].name}': only planes fixed to the world can be drawn; use a box"
            )
    return numbers


def is_seen(geometry: Geometry) -> bool:
    """Return whether a geometry is drawn: it may be hidden or fully transparent, as helpers in MJCF files are."""
    return geometry.visible and geometry.rgba[3] > 0.0


def instance_poses(geometries: Sequence[Geometry], link_poses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return displayed poses of geometries.

    Args:
        geometries: geometries of one model.
        link_poses: link poses in the frame of their world [num_worlds, num_links, 7].
        offsets: displayed position of the origin of each world [num_worlds, 3].

    Returns:
        Poses [num_worlds, len(geometries), 7].
    """
    worlds = len(offsets)
    placements = np.array([g.placement for g in geometries]).reshape(-1, 7)
    # The world's pose comes after the last link, so that index -1 refers to it.
    world = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (worlds, 1, 1))
    carriers = np.concatenate([link_poses, world], axis=1)[:, np.array([g.link for g in geometries], dtype=int)]
    carriers[..., :3] += offsets[:, None]
    return compose(carriers.reshape(-1, 7), np.tile(placements, (worlds, 1))).reshape(worlds, -1, 7)
