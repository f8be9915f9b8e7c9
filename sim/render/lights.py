"""Lights of a picture: those of the model, or sun and sky."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from sim.arrays.device_model import DeviceModel
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.checks import is_whole
from sim.model.looks.lights import Light, MountedLight
from sim.model.model import Model
from sim.render.dome import brightest, dome_arrays, dome_of
from sim.render.fit import visible_points
from sim.render.mounted import mounted_pose

SUN = np.array([-0.45, -0.55, 1.0])
ZENITH, HORIZON, BOUNCE = np.array([0.22, 0.42, 0.72]), np.array([0.74, 0.82, 0.90]), np.array([0.20, 0.19, 0.18])
OVERHEAD = 0.35 * ZENITH + 0.38
BRIGHTEST = 1.2  # light of all lights on a white surface that faces them, as of sun and sky
NEAREST = 0.2  # distance of a light from the middle of a scene that counts for its exposure, in sizes of the scene
SHADOW_RAYS, MOST_RAYS = 4, 1024  # of pictures, from a surface towards each light with a size
CONE = 0.01  # angle over which the border of a sharp cone fades [rad]


def default_sun() -> MountedLight:
    """Return the sun that shines on models without lights."""
    turn, _ = Rotation.align_vectors([SUN / np.linalg.norm(SUN)], [[0.0, 0.0, 1.0]])
    placement = np.concatenate([np.zeros(3), turn.as_quat()])
    return MountedLight("sun", Light("directional", (0.80, 0.75, 0.66)), -1, placement)


def shown_lights(model: Model, num_worlds: int) -> tuple[MountedLight, ...]:
    """Return the lights of a model that a picture of so many worlds shows: all, or none.

    Lights with a position are those of one world.
    """
    near = [one for one in model.lights if one.light.type in ("point", "area") or one.link >= 0]
    return () if near and num_worlds > 1 else model.lights


def fitting_exposure(model: Model, lights: tuple[MountedLight, ...]) -> float:
    """Return the factor that makes a white surface at the middle of the scene as bright as in the light of sun and sky,
    if it faces all lights.
    """
    poses = forward_kinematics(DeviceModel(model, "cpu"), model.q0[None]).numpy()[0]
    middle, size = middle_of(model, poses)
    total = np.zeros(3)
    for one in lights:
        distance = float(np.linalg.norm(mounted_pose(model, one, poses)[:3] - middle))
        total += brightness(one.light, max(distance, NEAREST * size))
    return BRIGHTEST / total.max() if total.max() > 0.0 else 1.0


def middle_of(model: Model, poses: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the middle of everything visible but planes [3] and its size [m], for link poses [num_links, 7]."""
    points = visible_points(model, poses[None])
    if not len(points):
        return np.zeros(3), 1.0
    return 0.5 * (points.min(axis=0) + points.max(axis=0)), float(np.linalg.norm(np.ptp(points, axis=0)))


def brightness(light: Light, distance: float) -> np.ndarray:
    """Return the light on the axis of a light at a distance [m], as its colour is defined [3]."""
    if light.texture is not None:
        return np.array(light.color) * brightest(light.texture)
    falloff = np.array([1.0, distance, distance**2]) @ light.attenuation if light.type in ("point", "area") else 1.0
    return np.array(light.color) / max(float(falloff), 1e-12)


class LightSet:
    """The lights of one renderer.

    Args:
        model: the model.
        num_worlds: number of worlds in the picture.
        exposure: factor of all lights of the model. Default: see :func:`fitting_exposure`.
        unit: unit of length of the picture [m].
        rays: number of rays from a surface towards each light with a size; 1 for hard shadows.

    Raises:
        ModelError: for a number of rays that isn't whole, or out of range.
    """

    def __init__(self, model: Model, num_worlds: int, exposure: float | None, unit: float, rays: int):
        if not is_whole(rays, 1) or rays > MOST_RAYS:
            raise ModelError(f"shadow_rays is {rays!r:.80}; it must be a whole number from 1 to {MOST_RAYS}")
        own = shown_lights(model, num_worlds)
        self._model, self._unit, self._rays = model, unit, int(rays)
        if exposure is None:
            exposure = fitting_exposure(model, own) if own else 1.0
        self._exposure = float(exposure)
        self._lights = [one for one in own or (default_sun(),) if one.light.type != "sky"]
        skies = [one for one in own if one.light.type == "sky"]
        sky = np.array([one.light.color for one in skies if one.light.texture is None]).reshape(-1, 3).sum(axis=0)
        self._dome = dome_of([one for one in skies if one.light.texture is not None])
        # What surfaces that face up, and mirrors, see of the sky, and what comes from below
        self.sky = (sky, sky, sky, sky) if own else (OVERHEAD, ZENITH, HORIZON, BOUNCE)

    @property
    def extended(self) -> bool:
        """Need of soft shadows or the image of a sky in the kernels, see ``render_structs``."""
        soft = self._rays > 1 and any(self._extent(one.light)[0] > 0.0 for one in self._lights)
        return soft or self._dome is not None

    @property
    def mounted(self) -> tuple[MountedLight, ...]:
        """The lights other than the sky's."""
        return tuple(self._lights)

    def colors(self) -> np.ndarray:
        """Return their colours, times the exposure [n, 3]."""
        return self._exposure * np.array([one.light.color for one in self._lights]).reshape(-1, 3)

    def arrays(self, kernels: SimpleNamespace) -> Any:
        """Return the struct of the kernels, on the current device; :meth:`move` sets positions and axes."""
        lights = [one.light for one in self._lights]
        metres = self._unit ** np.arange(3.0)
        falloff = np.array([light.attenuation for light in lights]).reshape(-1, 3) * metres
        falloff[[light.type == "headlight" for light in lights]] = (1.0, 0.0, 0.0)
        cones = np.radians([light.cone for light in lights])
        fade = cones * (1.0 - np.array([light.softness for light in lights]))
        borders = np.stack([np.minimum(fade, np.maximum(cones - CONE, 0.0)), cones], axis=1).reshape(-1, 2)
        exponents = [light.exponent + (light.type == "area") for light in lights]
        found = kernels.Lights()
        found.directional = wp.array([int(light.type == "directional") for light in lights], dtype=int)
        found.positions = wp.zeros(len(lights), dtype=wp.vec3)
        found.axes = wp.zeros(len(lights), dtype=wp.vec3)
        found.colors = wp.array(self.colors().astype(np.float32), dtype=wp.vec3)
        found.attenuation = wp.array(falloff.astype(np.float32), dtype=wp.vec3)
        found.cones = wp.array(borders.astype(np.float32), dtype=wp.vec2)
        found.exponents = wp.array(np.array(exponents, dtype=np.float32), dtype=float)
        found.specular = wp.array(np.array([light.specular for light in lights], dtype=np.float32), dtype=float)
        casts = [int(light.shadow and light.type != "headlight") for light in lights]
        found.shadows = wp.array(casts, dtype=int)
        if self.extended:
            found.flat = wp.array([int(light.type == "area") for light in lights], dtype=int)
            found.across = wp.zeros(len(lights), dtype=wp.vec3)
            extents = np.array([self._extent(light) for light in lights]).reshape(-1, 2)
            found.extents = wp.array(extents.astype(np.float32), dtype=wp.vec2)
            found.rays = self._rays
        return found

    def _extent(self, light: Light) -> list[float]:
        """Return the size of a light as the kernels have it, see ``Lights`` of :mod:`warp_kernels.render.structs`."""
        if light.type == "directional":
            return [float(np.sin(0.5 * np.radians(min(light.size[0], 180.0)))) if light.size else 0.0, 0.0]
        lengths = np.array([*light.size, 0.0, 0.0][:2]) / self._unit
        return (lengths if len(light.size) < 2 else 0.5 * lengths).tolist()

    def light(self, view: Any, dome: Any) -> None:
        """Set the light of the sky in the struct of the camera; ``dome`` is the struct of :meth:`dome`."""
        colors = (wp.vec3(*(self._exposure * color)) for color in self.sky)
        view.overhead, view.high, view.low, view.bounce = colors
        view.zenith, view.horizon = wp.vec3(*ZENITH), wp.vec3(*HORIZON)
        if self.extended:
            view.dome = dome
            view.tint = wp.vec3(*(self._exposure * np.array(self._dome.light.color if self._dome else (0.0, 0.0, 0.0))))

    def dome(self, kernels: SimpleNamespace) -> Any:
        """Return the struct of the sky's image, on the current device."""
        return dome_arrays(kernels, self._dome)

    def move(
        self, arrays: Any, link_poses: np.ndarray, offset: np.ndarray, eye: np.ndarray, target: np.ndarray
    ) -> None:
        """Move the lights to a frame.

        Args:
            arrays: the struct.
            link_poses: link poses in the world [num_links, 7].
            offset: displayed position of the origin of the world [3].
            eye, target: position of the camera, and the point that positions are relative to [3].
        """
        placed = [mounted_pose(self._model, one, link_poses) for one in self._lights]
        poses = np.array(placed).reshape(-1, 7) + np.pad(offset, (0, 4))
        poses[[one.light.type == "headlight" for one in self._lights], :3] = eye
        if len(poses):
            turned = Rotation.from_quat(poses[:, 3:]).as_matrix()
            arrays.positions.assign(((poses[:, :3] - target) / self._unit).astype(np.float32))
            arrays.axes.assign((-turned[:, :, 2]).astype(np.float32))
            if self.extended:
                arrays.across.assign(turned[:, :, 0].astype(np.float32))
