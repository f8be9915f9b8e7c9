"""Pictures of a whole motion, and the arrangement of its worlds."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sim.arrays.device_model import find_device
from sim.cores import usable_cores
from sim.errors import ModelError
from sim.model.checks import MOST_ITEMS, is_whole, number, require_type
from sim.model.model import Model
from sim.render.fit import fit_worlds_camera, outlines
from sim.render.lights import SHADOW_RAYS
from sim.render.occlusion import AmbientOcclusion
from sim.render.renderer import Renderer, draw_together
from sim.render.view import Camera, Marker, Trail, check_size, check_world_poses, listed

AT_A_TIME = 4  # maximum number of frames that a CPU draws at a time
TOGETHER = 12  # number of frames drawn before the first of them is returned


def render_frames(
    model: Model,
    poses: npt.ArrayLike,
    camera: Camera | None = None,
    width: int = 640,
    height: int = 480,
    *,
    markers: Sequence[Marker] = (),
    trails: Sequence[Trail] = (),
    device: str | None = None,
    supersamples: int = 9,
    frames: Sequence[int] | None = None,
    spacing: float | None = None,
    occlusion: AmbientOcclusion | None = None,
    exposure: float | None = None,
    shadow_rays: int = SHADOW_RAYS,
) -> np.ndarray:
    """Draw pictures of a motion, uint8 [frames, height, width, 3].

    Args:
        model: the model.
        poses: link poses (position, quaternion xyzw) in the frame of their world, [frames, num_links, 7] for one world,
            [frames, num_worlds, num_links, 7] for several, which are drawn next to each other.
        camera: the camera; default: :func:`fit_camera` shows the whole motion.
        width: width of a picture [pixels].
        height: height of a picture [pixels].
        markers: fixed balls, such as a target.
        trails: paths of points, one point per frame of ``poses``.
        device: Warp device; default: Warp's default device.
        supersamples: number of rays per pixel on an edge; a square number.
        frames: indices of the frames to draw, negative ones from the end; default: all.
        spacing: distance between neighbouring worlds [m]. Default: enough for the whole motion of each world.
        occlusion: darken corners and gaps, where less of the sky is visible; None disables this.
        exposure: factor of the brightness of the model's lights; see :class:`Renderer`.
        shadow_rays: number of rays towards each light with a size; 1 for shadows with hard borders.

    Raises:
        ModelError: for poses with a wrong shape or non-finite values, a trail with a wrong length, indices of frames
            out of range, or a size that isn't a positive integer.

    Example:
        >>> import sim
        >>> from sim.render import render_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> render_frames(model, poses, width=64, height=48, device="cpu").shape
        (1, 48, 64, 3)
    """
    return np.stack(
        list(
            iterate_frames(
                model,
                poses,
                camera,
                width,
                height,
                markers=markers,
                trails=trails,
                device=device,
                supersamples=supersamples,
                frames=frames,
                spacing=spacing,
                occlusion=occlusion,
                exposure=exposure,
                shadow_rays=shadow_rays,
            )
        )
    )


def iterate_frames(
    model: Model,
    poses: npt.ArrayLike,
    camera: Camera | None = None,
    width: int = 640,
    height: int = 480,
    *,
    markers: Sequence[Marker] = (),
    trails: Sequence[Trail] = (),
    device: str | None = None,
    supersamples: int = 9,
    frames: Sequence[int] | None = None,
    spacing: float | None = None,
    occlusion: AmbientOcclusion | None = None,
    exposure: float | None = None,
    shadow_rays: int = SHADOW_RAYS,
) -> Iterator[np.ndarray]:
    """Draw pictures as :func:`render_frames` does, one by one, for a progress bar or a long motion.

    A CPU draws a dozen frames, several at a time, before it yields the first of them.

    Example:
        >>> import sim
        >>> from sim.render import iterate_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> pictures = iterate_frames(model, poses, width=64, height=48, device="cpu")
        >>> [picture.shape for picture in pictures]
        [(48, 64, 3)]
    """
    check_size(width, height)
    checked = check_world_poses(model, poses)
    offsets = grid_offsets(checked.shape[1], fitting_spacing(model, checked) if spacing is None else spacing)
    markers, trails = listed("markers", markers, Marker), listed("trails", trails, Trail)
    for trail in trails:
        if np.shape(trail.points) != (len(checked), 3):
            raise ModelError(
                f"trail '{trail.name}': points have shape {np.shape(trail.points)}; expected {(len(checked), 3)}"
            )
    if camera is None:
        camera = fit_worlds_camera(model, checked, offsets, markers=markers, aspect=width / height)
    chosen = _chosen(frames, len(checked))
    renderers = [
        Renderer(
            model,
            width=width,
            height=height,
            camera=camera,
            markers=markers,
            trails=trails,
            device=device,
            supersamples=supersamples,
            offsets=offsets,
            occlusion=occlusion,
            exposure=exposure,
            shadow_rays=shadow_rays,
        )
        for _ in range(min(AT_A_TIME, len(usable_cores()), len(chosen)) if find_device(device).is_cpu else 1)
    ]
    for first in range(0, len(chosen), TOGETHER):
        yield from draw_together(renderers, checked, chosen[first : first + TOGETHER])


def _chosen(frames: Sequence[int] | None, count: int) -> Sequence[int]:
    """Return the indices of the frames to draw, counted from 0."""
    if frames is None:
        return range(count)
    require_type("frames", frames, (Sequence, np.ndarray), "a list of numbers")
    if len(frames) == 0:
        raise ModelError("frames is empty; name at least one, or omit it to draw all")
    for frame in frames:
        if not (is_whole(frame, -count) and frame < count):
            raise ModelError(f"frames: there is no frame {frame!r}; indices go from 0 to {count - 1}")
    return [int(frame) % count for frame in frames]


def grid_offsets(num_worlds: int, spacing: float) -> np.ndarray:
    """Return positions of worlds on a square grid about the origin [num_worlds, 3].

    Args:
        num_worlds: number of worlds.
        spacing: distance between neighbours [m]; 0 for worlds whose poses are already apart.

    Raises:
        ModelError: for a number of worlds that is not positive, or a spacing that is negative or not finite.

    Example:
        >>> from sim.render import grid_offsets
        >>> grid_offsets(4, 2.0).tolist()
        [[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    """
    apart = number("grid_offsets", "spacing", spacing)
    if not is_whole(num_worlds, 1) or num_worlds > MOST_ITEMS or not (np.isfinite(apart) and apart >= 0.0):
        raise ModelError(
            f"{num_worlds} worlds with a spacing of {spacing} m: there must be one world to {MOST_ITEMS}, and the "
            "spacing must not be negative"
        )
    side = int(np.ceil(np.sqrt(num_worlds)))
    each = np.arange(num_worlds)
    cells = np.stack([each % side, each // side, np.zeros(num_worlds)], axis=1).astype(np.float64)
    return apart * (cells - (cells.max(axis=0) + cells.min(axis=0)) / 2.0)


def fitting_spacing(model: Model, poses: np.ndarray) -> float:
    """Return a spacing with a margin for the motion of each world, poses [frames, num_worlds, num_links, 7]."""
    fixed, radius = outlines(model)
    extents = [np.ptp(points[..., :2], axis=(0, 2)).max() for points in (poses, fixed[:, None, None]) if points.size]
    return (1.3 * float(max(extents, default=0.0)) + 2.0 * radius) or 0.5
