"""What a picture needs beside the model: the camera, markers and trails."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.model import Geometry, Model
from sim.model.poses import compose
from warp_kernels import types as codes

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position: of the eye, world frame [m].
        target: the point in the middle of the picture [m].
        fov: vertical angle of view [degrees].
        up: direction that points up in the picture.
    """

    position: Sequence[float]
    target: Sequence[float]
    fov: float = 35.0
    up: Sequence[float] = (0.0, 0.0, 1.0)

    @property
    def distance(self) -> float:
        """From the eye to the target [m]."""
        return float(np.linalg.norm(np.subtract(self.position, self.target)))

    def axes(self) -> np.ndarray:
        """Rows: right, up and backward (towards the viewer), unit vectors in the world frame [3, 3].

        Raises:
            ModelError: if the camera looks nowhere or straight along ``up``.
        """
        backward = np.subtract(self.position, self.target).astype(np.float64)
        right = np.cross(np.asarray(self.up, dtype=np.float64), backward)
        if not (np.isfinite(right).all() and np.linalg.norm(right) > 1e-9):
            raise ModelError(
                f"camera: position {self.position}, target {self.target} and up {self.up} leave its orientation open"
            )
        backward /= np.linalg.norm(backward)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(backward, right), backward])

    def project(self, points: npt.ArrayLike, width: int, height: int) -> np.ndarray:
        """Pixel coordinates (column, row) [..., 2] of world points [..., 3]; (0, 0) is the top left corner."""
        seen = (np.asarray(points, dtype=np.float64) - np.asarray(self.position)) @ self.axes().T
        scale = 0.5 * height / np.tan(np.radians(self.fov) / 2.0)
        x, y = seen[..., 0] / -seen[..., 2], seen[..., 1] / -seen[..., 2]
        return np.stack([width / 2.0 + scale * x, height / 2.0 - scale * y], axis=-1)


@dataclass(frozen=True)
class Marker:
    """A ball that is drawn and touches nothing, such as a target. position in the world frame [m], radius [m]."""

    name: str
    position: Sequence[float]
    radius: float = 0.03
    color: Color = (0.85, 0.15, 0.12)


@dataclass(frozen=True)
class Trail:
    """The path of a point. In a picture it grows with the motion.

    Attributes:
        name: unique name.
        points: [frames, 3] where the point is in each frame, world frame [m].
        radius: of the line [m].
        color: red, green, blue.
    """

    name: str
    points: np.ndarray
    radius: float = 0.01
    color: Color = (0.95, 0.55, 0.10)


def linear_light(srgb: np.ndarray) -> np.ndarray:
    """Linear light of colours given as people pick them (sRGB, 0 to 1)."""
    c = np.clip(srgb, 0.0, 1.0)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def transform_points(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points [n, 3] moved by poses [..., 7] (position, quaternion xyzw): [..., n, 3]."""
    flat = np.asarray(pose, dtype=np.float64).reshape(-1, 7)
    turned = np.einsum("fij,nj->fni", Rotation.from_quat(flat[:, 3:]).as_matrix(), points) + flat[:, None, :3]
    return turned.reshape(*np.shape(pose)[:-1], len(points), 3)


def check_poses(model: Model, poses: npt.ArrayLike) -> np.ndarray:
    """Link poses as float64 [frames, num_links, 7] with unit quaternions.

    Raises:
        ModelError: for another shape, no frame, values that are not finite or a zero quaternion.
    """
    array = np.array(poses, dtype=np.float64)
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
    """Poses [frames, num_worlds, num_links, 7], or of one world [frames, num_links, 7], with all four dimensions.

    Raises:
        ModelError: as :func:`check_poses` does.
    """
    array = np.asarray(poses, dtype=np.float64)
    if array.ndim != 4:
        return check_poses(model, array)[:, None]
    if array.shape[2:] != (model.num_links, 7) or 0 in array.shape:
        raise ModelError(f"poses have shape {array.shape}; expected [frames, num_worlds, {model.num_links}, 7]")
    return check_poses(model, array.reshape(-1, model.num_links, 7)).reshape(array.shape)


def visible_solids(model: Model) -> list[int]:
    """Indices of the geometries that are drawn, planes aside."""
    return [k for k, g in enumerate(model.geometries) if g.visible and g.type != codes.PLANE]


def visible_planes(model: Model) -> list[int]:
    """Indices of the planes that are drawn.

    Raises:
        ModelError: for one that isn't fixed to the world.
    """
    numbers = [k for k, g in enumerate(model.geometries) if g.visible and g.type == codes.PLANE]
    for k in numbers:
        if model.geometries[k].link >= 0:
            raise ModelError(f"geometry '{model.geometries[k].name}': only planes fixed to the world can be drawn")
    return numbers


def instance_poses(geometries: Sequence[Geometry], link_poses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Where geometries are in the picture.

    Args:
        geometries: of one model.
        link_poses: in the frame of their world [num_worlds, num_links, 7].
        offsets: where the origin of each world is drawn [num_worlds, 3].

    Returns:
        [num_worlds, len(geometries), 7].
    """
    worlds = len(offsets)
    placements = np.array([g.placement for g in geometries]).reshape(-1, 7)
    # The world itself stands after the last link, where the number -1 finds it.
    world = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (worlds, 1, 1))
    carriers = np.concatenate([link_poses, world], axis=1)[:, np.array([g.link for g in geometries], dtype=int)]
    carriers[..., :3] += offsets[:, None]
    return compose(carriers.reshape(-1, 7), np.tile(placements, (worlds, 1))).reshape(worlds, -1, 7)


class Outermost:
    """Of a motion in many frames and worlds the poses in which a link is furthest out in one of 26 directions.

    A camera that sees these sees all of it, but for what a link that turns near the edge reaches beyond.
    """

    DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])

    def __init__(self, num_links: int):
        self._reach = np.full((num_links, len(self.DIRECTIONS)), -np.inf)
        self._poses = np.zeros((num_links, len(self.DIRECTIONS), num_links, 7))

    def add(self, poses: np.ndarray) -> None:
        """Look at the poses of one frame [num_worlds, num_links, 7]."""
        out = poses[:, :, :3] @ self.DIRECTIONS.T
        world = out.argmax(axis=0)
        furthest = np.take_along_axis(out, world[None], axis=0)[0]
        link, direction = np.nonzero(furthest > self._reach)
        self._poses[link, direction] = poses[world[link, direction]]
        self._reach[link, direction] = furthest[link, direction]

    @property
    def poses(self) -> np.ndarray:
        """[n, num_links, 7]; of a model without links one set of none."""
        return self._poses.reshape(max(self._reach.size, 1), *self._poses.shape[-2:])


def fit_camera(
    model: Model,
    poses: npt.ArrayLike,
    *,
    markers: Sequence[Marker] = (),
    azimuth: float = -60.0,
    elevation: float = 15.0,
    fov: float = 35.0,
    aspect: float = 4.0 / 3.0,
    margin: float = 1.1,
) -> Camera:
    """The nearest camera that looks in a given direction and sees the whole motion.

    Args:
        model: the model.
        poses: link poses [frames, num_links, 7], world frame.
        markers: further things to see.
        azimuth: where the camera stands, about z from the x axis [degrees].
        elevation: how high it stands above the horizon [degrees].
        fov: vertical angle of view [degrees].
        aspect: width over height of the picture.
        margin: how much room to leave around the motion; 1 is none.
    """
    points = _extent(model, check_poses(model, poses), markers)
    if not len(points):  # an empty scene
        points = np.zeros((1, 3))
    a, e = np.radians(azimuth), np.radians(elevation)
    backward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    axes = Camera(tuple(backward), (0.0, 0.0, 0.0)).axes()
    right, up, back = (points @ axes.T).T
    tangent = np.tan(np.radians(fov) / 2.0) / margin
    # Seen along one axis of the picture, the sides of the view are two lines; the eye is where the outermost cross.
    eye = back.max() + 0.1
    for across, slope in ((right, tangent * aspect), (up, tangent)):
        low, high = np.min(across - slope * back), np.max(across + slope * back)
        eye = max(eye, (high - low) / (2.0 * slope))
    centre = np.array([_middle(right, eye - back), _middle(up, eye - back), 0.5 * (back.min() + back.max())])
    position = np.array([*centre[:2], eye])
    return Camera(tuple(position @ axes), tuple(centre @ axes), fov)


def fit_worlds_camera(
    model: Model,
    poses: np.ndarray,
    offsets: np.ndarray,
    *,
    markers: Sequence[Marker] = (),
    aspect: float = 4.0 / 3.0,
    margin: float = 1.1,
) -> Camera:
    """As :func:`fit_camera` for the motion of several worlds.

    Args:
        model: the model.
        poses: link poses in the frame of their world [frames, num_worlds, num_links, 7].
        offsets: where the origin of each world is drawn [num_worlds, 3].
        markers: further things to see.
        aspect: width over height of the picture.
        margin: how much room to leave around the motion; 1 is none.
    """
    shifted = poses.copy()
    shifted[..., :3] += offsets[:, None]
    if len(offsets) == 1:
        return fit_camera(model, shifted[:, 0], markers=markers, aspect=aspect, margin=margin)
    outermost = Outermost(model.num_links)
    for worlds in shifted:
        outermost.add(worlds)
    return fit_camera(model, outermost.poses, markers=markers, aspect=aspect, margin=margin)


def _middle(across: np.ndarray, depth: np.ndarray) -> float:
    """Where to stand so that points are seen as far to one side as to the other; by bisection."""
    low, high = float(across.min()), float(across.max())
    while high - low > 1e-6 * (1.0 + abs(low) + abs(high)):
        middle = 0.5 * (low + high)
        seen = (across - middle) / depth
        low, high = (middle, high) if seen.max() + seen.min() > 0.0 else (low, middle)
    return 0.5 * (low + high)


def _extent(model: Model, poses: np.ndarray, markers: Sequence[Marker]) -> np.ndarray:
    """Corners of boxes about everything visible, in every frame [n, 3]."""
    points = [poses[..., :3].reshape(-1, 3)]
    for geometry in model.geometries:
        if geometry.visible and geometry.type != codes.PLANE:
            corners = transform_points(geometry.placement, _corners(geometry))
            placed = corners if geometry.link < 0 else transform_points(poses[:, geometry.link], corners)
            points.append(placed.reshape(-1, 3))
    for marker in markers:
        points.append(np.asarray(marker.position) + marker.radius * np.array([[1, 1, 1], [-1, -1, -1]]))
    return np.concatenate(points)


def _corners(geometry: Geometry) -> np.ndarray:
    size = geometry.size
    if geometry.heights is not None:
        top, bottom = size[2] * geometry.heights.max(), size[2] * geometry.heights.min()
        low, high = np.array([-size[0], -size[1], bottom]), np.array([size[0], size[1], top])
    elif geometry.mesh is not None:
        scaled = geometry.mesh.vertices * size
        low, high = scaled.min(axis=0), scaled.max(axis=0)
    else:
        radius, half_length = size[0], size[1]
        cap = radius if geometry.type == codes.CAPSULE else 0.0
        high = {
            codes.SPHERE: np.full(3, radius),
            codes.CAPSULE: np.array([radius, radius, half_length + cap]),
            codes.CYLINDER: np.array([radius, radius, half_length]),
            codes.BOX: np.asarray(size),
            codes.ELLIPSOID: np.asarray(size),
        }[geometry.type]
        low = -high
    return np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
