"""Camera, markers and trails of a picture, and the checks of poses."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.checks import (
    MOST_ITEMS,
    as_numbers,
    is_positive,
    is_whole,
    items_of,
    number,
    require_flags,
    require_type,
)
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.poses import compose
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.spec_checks import check_text, finite
from sim.render.mounted import mounted_pose
from sim.render.tendons import tendon_points
from warp_kernels import types as codes

Color = tuple[float, float, float]
MOST_PIXELS = 2**27
NEAR, FAR = 0.2, 200.0  # range of camera distances for which the unit of length is a metre
AZIMUTH, ELEVATION, FOV = -60.0, 15.0, 35.0  # field of view of a fitted camera [degrees]
VERTICAL = 1e-6  # cosine of the elevation below which a camera counts as looking straight up or down


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
        """Return pixel coordinates (column, row) [..., 2] of world points [..., 3]; (0, 0) is the top left corner."""
        seen = (np.asarray(points, dtype=np.float64) - np.asarray(self.position)) @ self.axes().T
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


def linear_light(srgb: np.ndarray) -> np.ndarray:
    """Convert sRGB colours (0 to 1) to linear light."""
    c = np.clip(srgb, 0.0, 1.0)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def light_of(screen: np.ndarray) -> np.ndarray:
    """Convert sRGB to linear light, also above 1."""
    return np.where(screen <= 0.04045, screen / 12.92, ((screen + 0.055) / 1.055) ** 2.4)


def screen_of(light: np.ndarray) -> np.ndarray:
    """Convert linear light to sRGB, also above 1; the inverse of :func:`light_of`."""
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1.0 / 2.4) - 0.055)


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


class Outermost:
    """Poses in which a link is furthest out in one of 26 directions, collected over many frames and worlds.

    A camera that sees these poses sees the whole motion, except for parts of a link that rotates near the edge.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.render import Outermost, fit_camera
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> outermost = Outermost(model.num_links)
        >>> for angle in np.linspace(0.0, 1.0, 20):
        ...     outermost.add(sim.forward_kinematics(model, np.full((1, 7), angle)).numpy())
        >>> camera = fit_camera(model, outermost.poses)
        >>> len(camera.position)
        3
    """

    DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])

    def __init__(self, num_links: int):
        if not (is_whole(num_links, 0) and num_links <= MOST_ITEMS):
            raise ModelError(f"Outermost: num_links is {num_links!r}; it must be a whole number from 0 to {MOST_ITEMS}")
        self._num_links = num_links
        self._farthest = np.full((num_links, len(self.DIRECTIONS)), -np.inf)
        # Each pose of the whole world is kept once, for all links and directions in which it is the outermost.
        self._number = np.full(self._farthest.shape, -1)
        self._kept: dict[int, np.ndarray] = {}
        self._added = 0

    def add(self, poses: np.ndarray) -> None:
        """Add the poses of one frame [num_worlds, num_links, 7]."""
        out = poses[:, :, :3] @ self.DIRECTIONS.T
        world = out.argmax(axis=0)
        furthest = np.take_along_axis(out, world[None], axis=0)[0]
        better = furthest > self._farthest
        if not better.any():
            return
        self._farthest[better] = furthest[better]
        self._number[better] = self._added + world[better]
        self._kept |= {self._added + one: np.array(poses[one]) for one in np.unique(world[better]).tolist()}
        self._kept = {number: self._kept[number] for number in np.unique(self._number).tolist()}
        self._added += len(poses)

    @property
    def poses(self) -> np.ndarray:
        """The collected poses [n, num_links, 7]; for a model without links [1, 0, 7]."""
        return np.array(list(self._kept.values())).reshape(max(len(self._kept), 1), self._num_links, 7)


def fit_camera(
    model: Model,
    poses: npt.ArrayLike,
    *,
    markers: Sequence[Marker] = (),
    azimuth: float = AZIMUTH,
    elevation: float = ELEVATION,
    fov: float = FOV,
    aspect: float = 4.0 / 3.0,
    margin: float = 1.1,
    static: bool = True,
) -> Camera:
    """Return the closest camera with a given direction that sees the whole motion.

    Args:
        model: the model.
        poses: link poses [frames, num_links, 7], world frame.
        markers: markers that must be visible, too.
        azimuth: azimuth of the camera, about z from the x axis [degrees].
        elevation: elevation of the camera above the horizon [degrees]. At 90 and -90 the camera looks straight down and
            up, with the orientation of the picture just before that.
        fov: vertical field of view [degrees].
        aspect: width / height of the picture.
        margin: factor of the margin around the motion; 1 is none.
        static: whether static geometry must be visible, too; False for a robot on wide terrain.

    Raises:
        ModelError: for angles that aren't finite, a field of view that is not between 0 and 180 degrees, and poses as
            :func:`check_poses`.

    Example:
        >>> import sim
        >>> from sim.render import fit_camera
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> camera = fit_camera(model, poses, azimuth=90.0, elevation=0.0)
        >>> bool(camera.position[1] > 0.5), bool(abs(camera.position[2] - camera.target[2]) < 1e-9)  # level
        (True, True)
    """
    for label, angle in (("azimuth", azimuth), ("elevation", elevation)):
        if not np.isfinite(number("camera", label, angle)):
            raise ModelError(f"camera: {label} is {angle}; it must be finite")
    azimuth, elevation = float(azimuth), float(elevation)
    for label, factor in (("aspect", aspect), ("margin", margin)):
        if not 0.0 < number("camera", label, factor) < np.inf:
            raise ModelError(f"camera: {label} is {factor}; it must be positive and finite")
    if not 0.0 < number("camera", "fov", fov) < 180.0:
        raise ModelError(f"camera: fov is {fov}; it must lie between 0 and 180 degrees")
    require_flags("camera", static=static)
    aspect, margin, fov = float(aspect), float(margin), float(fov)
    points = visible_points(model, check_poses(model, poses), markers, static=static)
    return _seeing(points, azimuth, elevation, fov, aspect, margin)


def _seeing(points: np.ndarray, azimuth: float, elevation: float, fov: float, aspect: float, margin: float) -> Camera:
    """Return the closest camera that sees points [n, 3]; the other arguments are those of :func:`fit_camera`."""
    if not len(points):  # an empty scene
        points = np.zeros((1, 3))
    a, e = np.radians(azimuth), np.radians(elevation)
    backward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    vertical = abs(np.cos(e)) < VERTICAL
    up_axis = (-float(np.sin(e) * np.cos(a)), -float(np.sin(e) * np.sin(a)), 0.0) if vertical else (0.0, 0.0, 1.0)
    axes = Camera(tuple(backward), (0.0, 0.0, 0.0), fov, up_axis).axes()
    right, up, back = (points @ axes.T).T
    tangent = np.tan(np.radians(fov) / 2.0) / margin
    # Along each axis of the picture, the sides of the view are two lines. The eye is where the outermost lines cross.
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    eye = back.max() + (min(0.1, 0.1 * size) or 0.1)
    for across, slope in ((right, tangent * aspect), (up, tangent)):
        low, high = np.min(across - slope * back), np.max(across + slope * back)
        eye = max(eye, (high - low) / (2.0 * slope))
    centre = np.array([_middle(right, eye - back), _middle(up, eye - back), 0.5 * (back.min() + back.max())])
    position = np.array([*centre[:2], eye])
    return Camera(tuple((position @ axes).tolist()), tuple((centre @ axes).tolist()), fov, up_axis)


def fit_worlds_camera(
    model: Model,
    poses: np.ndarray,
    offsets: np.ndarray,
    *,
    markers: Sequence[Marker] = (),
    aspect: float = 4.0 / 3.0,
    margin: float = 1.1,
) -> Camera:
    """Return a camera as :func:`fit_camera` does, for the motion of several worlds.

    Args:
        model: the model.
        poses: link poses in the frame of their world [frames, num_worlds, num_links, 7].
        offsets: displayed position of the origin of each world [num_worlds, 3].
        markers: markers that must be visible, too.
        aspect: width / height of the picture.
        margin: factor of the margin around the motion; 1 is none.
    """
    shifted = poses.copy()
    shifted[..., :3] += offsets[:, None]
    seen = shifted[:, 0]
    if len(offsets) > 1:
        outermost = Outermost(model.num_links)
        for worlds in shifted:
            outermost.add(worlds)
        seen = outermost.poses
    points = visible_points(model, check_poses(model, seen), markers, offsets)
    return _seeing(points, AZIMUTH, ELEVATION, FOV, aspect, margin)


def _middle(across: np.ndarray, depth: np.ndarray) -> float:
    """Return the lateral position from which points appear equally far to both sides, by bisection."""
    low, high = float(across.min()), float(across.max())
    for _ in range(24):
        middle = 0.5 * (low + high)
        seen = (across - middle) / depth
        low, high = (middle, high) if seen.max() + seen.min() > 0.0 else (low, middle)
    return 0.5 * (low + high)


def visible_points(
    model: Model,
    poses: np.ndarray,
    markers: Sequence[Marker] = (),
    offsets: np.ndarray | None = None,
    static: bool = True,
) -> np.ndarray:
    """Return corners of the bounding boxes of everything visible, and points of tendons, in every frame [n, 3].

    Poses [frames, num_links, 7] are displayed poses of links. Geometry fixed to the world appears at each offset [n,
    3], or once, and is omitted unless ``static``.
    """
    offsets = np.zeros((1, 3)) if offsets is None else offsets
    points = [poses[..., :3].reshape(-1, 3), tendon_points(model, poses).reshape(-1, 3)]
    for geometry in (model.geometries[k] for k in visible_solids(model)):
        fixed = geometry.link < 0
        if fixed and not static:
            continue
        corners = transform_points(geometry.placement, _corners(geometry))
        placed = corners + offsets[:, None] if fixed else transform_points(poses[:, geometry.link], corners)
        points.append(placed.reshape(-1, 3))
    for marker in listed("markers", markers, Marker):
        points.append(np.asarray(marker.position) + marker.radius * np.array([[1, 1, 1], [-1, -1, -1]]))
    return np.concatenate(points)


def outlines(model: Model) -> tuple[np.ndarray, float]:
    """Return corners of visible geometry fixed to the world [n, 3], and the radius of each link's visible geometry."""
    fixed, radius = [np.zeros((0, 3))], 0.0
    for geometry in (model.geometries[k] for k in visible_solids(model)):
        corners = transform_points(geometry.placement, _corners(geometry))
        if geometry.link < 0:
            fixed.append(corners)
        else:
            radius = max(radius, float(np.linalg.norm(corners, axis=1).max()))
    return np.concatenate(fixed), radius


def _corners(geometry: Geometry) -> np.ndarray:
    size = geometry.size
    if geometry.heights is not None:
        top, bottom = size[2] * geometry.heights.max(), size[2] * geometry.heights.min()
        low, high = np.array([-size[0], -size[1], bottom]), np.array([size[0], size[1], top])
    elif geometry.mesh is not None:
        scaled = geometry.mesh.vertices * size
        low, high = scaled.min(axis=0), scaled.max(axis=0)
    else:
        known = GEOMETRY_TYPES.get(geometry.type)
        if known is None or known.support is None:
            raise ModelError(
                f"geometry '{geometry.name}': a shape of type {geometry.type} can't be drawn; hide "
                f"it or use another shape"
            )
        high = known.extents(size)
        low = -high
    return np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
