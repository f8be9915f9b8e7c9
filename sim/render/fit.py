"""Cameras that see a whole motion, and the points that they must see."""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.checks import MOST_ITEMS, as_numbers, is_whole, number, require_flags, require_type
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.spec_checks import finite
from sim.render.tendons import tendon_points
from sim.render.view import Camera, Marker, check_poses, listed, transform_points, visible_solids

AZIMUTH, ELEVATION, FOV = -60.0, 15.0, 35.0  # field of view of a fitted camera [degrees]


VERTICAL = 1e-6  # cosine of the elevation below which a camera counts as looking straight up or down


class Outermost:
    """Poses in which a link is furthest out in one of 26 directions, collected over many frames and worlds.

    A camera that sees these poses sees the whole motion, except for little of a link that rotates near the edge.

    Args:
        num_links: number of links.
        boxes: lower and upper corner of what each link shows, link frame [num_links, 2, 3]; see :func:`link_boxes`.
            Default: only the origins of links count.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.render import Outermost, fit_camera, link_boxes
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> outermost = Outermost(model.num_links, link_boxes(model))
        >>> for angle in np.linspace(0.0, 1.0, 20):
        ...     outermost.add(sim.forward_kinematics(model, np.full((1, 7), angle)).numpy())
        >>> camera = fit_camera(model, outermost.poses)
        >>> len(camera.position)
        3
    """

    DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])

    def __init__(self, num_links: int, boxes: npt.ArrayLike | None = None):
        if not (is_whole(num_links, 0) and num_links <= MOST_ITEMS):
            raise ModelError(f"Outermost: num_links is {num_links!r}; it must be a whole number from 0 to {MOST_ITEMS}")
        self._num_links = num_links
        corners = finite("boxes", np.zeros((num_links, 2, 3)) if boxes is None else boxes, (num_links, 2, 3))
        if (corners[:, 0] > corners[:, 1]).any():
            raise ModelError("Outermost: boxes have a lower corner above the upper one; order them")
        self._middle, self._half = corners.mean(axis=1), 0.5 * (corners[:, 1] - corners[:, 0])
        self._farthest = np.full((num_links, len(self.DIRECTIONS)), -np.inf)
        # Each pose of the whole world is kept once, for all links and directions in which it is the outermost.
        self._number = np.full(self._farthest.shape, -1)
        self._kept: dict[int, np.ndarray] = {}
        self._added = 0

    def add(self, poses: npt.ArrayLike) -> None:
        """Add the poses of one frame [num_worlds, num_links, 7]. Raise ModelError for poses of another shape."""
        poses = as_numbers("poses", poses)
        if poses.ndim != 3 or poses.shape[1:] != (self._num_links, 7) or not len(poses):
            raise ModelError(f"poses have shape {poses.shape}; expected [num_worlds, {self._num_links}, 7]")
        out = poses[..., :3] @ self.DIRECTIONS.T
        if self._half.any():  # a box reaches as far as its middle, and half its size along each of its axes
            turned = Rotation.from_quat(poses[..., 3:].reshape(-1, 4)).as_matrix().swapaxes(1, 2) @ self.DIRECTIONS.T
            along = turned.reshape(*poses.shape[:2], 3, -1)
            out += np.einsum("lk,wlkd->wld", self._middle, along) + np.einsum("lk,wlkd->wld", self._half, abs(along))
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
        margin: width of the picture in widths of the motion; 1 leaves no margin.
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
        margin: width of the picture in widths of the motion; 1 leaves no margin.
    """
    shifted = poses.copy()
    shifted[..., :3] += offsets[:, None]
    seen = shifted[:, 0]
    if len(offsets) > 1:
        outermost = Outermost(model.num_links, link_boxes(model))
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


def link_boxes(model: Model) -> np.ndarray:
    """Return lower and upper corner of what each link shows, link frame [num_links, 2, 3], its origin included.

    Example:
        >>> import sim
        >>> from sim.render import link_boxes
        >>> link_boxes(sim.load("scenes/robots/manipulator.urdf")).shape
        (7, 2, 3)
    """
    require_type("link_boxes: model", model, Model, "a sim.Model")
    boxes = np.zeros((model.num_links, 2, 3))
    for geometry in (model.geometries[k] for k in visible_solids(model)):
        if geometry.link >= 0:
            corners, box = transform_points(geometry.placement, _corners(geometry)), boxes[geometry.link]
            box[0], box[1] = np.minimum(box[0], corners.min(axis=0)), np.maximum(box[1], corners.max(axis=0))
    return boxes


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
