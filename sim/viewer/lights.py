"""Lights of the browser's scene: those of the model, or fixed ones.

The browser divides the light on a matte surface by pi, and its colours of lights are those of the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.looks.lights import Light, MountedLight
from sim.model.model import Model
from sim.render.colors import screen_of
from sim.render.dome import harmonics, light_coefficients
from sim.render.lights import brightness, fitting_exposure, middle_of, shown_lights
from sim.render.mounted import mounted_pose

if TYPE_CHECKING:
    from viser import SceneApi

AWAY = 1.0  # distance of directional lights from the origin, from which the browser takes their direction [m]
FLAT = 89.0  # cone of lights from an area [degrees]


class SceneLights:
    """The lights of a scene of viser. Those of a headlight shine from where the camera is at first.

    Args:
        scene: the scene.
        model: the model.
        poses: initial link poses [num_worlds, num_links, 7].
        offsets: displayed position of the origin of each world [num_worlds, 3].
        eye: first position of the camera [3].
    """

    def __init__(self, scene: SceneApi, model: Model, poses: np.ndarray, offsets: np.ndarray, eye: np.ndarray):
        # viser's default environment map takes about 15 s to load in a browser without a GPU.
        scene.configure_environment_map(None)
        own = shown_lights(model, len(offsets))
        self._scene, self._model, self._offset, self._eye = scene, model, offsets[0], eye
        self._placed: list[tuple[MountedLight, Any]] = []
        if not own:
            self.sky: Any = scene.add_light_hemisphere(
                "/light", sky_color=(255, 255, 255), ground_color=(150, 150, 150), intensity=1.5
            )
            return
        scene.configure_default_lights(False)
        exposure = fitting_exposure(model, own)
        skies = [one for one in own if one.light.type == "sky"]
        if skies:
            self._add_skies(skies, exposure)
        self._middle, _ = middle_of(model, poses[0])
        for number, one in enumerate(own):
            if one.light.type != "sky":
                self._add(f"/lights/{number}", one, exposure, poses[0])

    def update(self, poses: np.ndarray) -> None:
        """Move the lights to link poses [num_worlds, num_links, 7]."""
        for one, node in self._placed:
            if one.link >= 0:
                node.position, node.wxyz = self._pose(one, poses[0])

    def _pose(self, one: MountedLight, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return position and rotation, wxyz, of a light in the scene; directional ones stand where they come from."""
        placed = mounted_pose(self._model, one, poses)
        back = Rotation.from_quat(placed[3:]).apply([0.0, 0.0, 1.0])
        position = placed[:3] + self._offset
        if one.light.type == "directional":
            position = AWAY * back
        elif one.light.type == "headlight":
            position = self._eye
        return position, placed[[6, 3, 4, 5]]

    def _add(self, name: str, one: MountedLight, exposure: float, poses: np.ndarray) -> None:
        light, scene = one.light, self._scene
        position, wxyz = self._pose(one, poses)
        color, strength = screen_color(exposure * np.array(light.color))
        common: dict[str, Any] = {"color": color, "position": tuple(position), "wxyz": tuple(wxyz)}
        if light.type == "directional":
            # viser's shadows of slanting suns cover what faces the sun with stripes.
            node: Any = scene.add_light_directional(name, intensity=strength, cast_shadow=False, **common)
        elif light.type == "headlight":
            node = scene.add_light_point(name, intensity=strength, decay=0.0, **common)
        else:
            distance = max(float(np.linalg.norm(position - self._offset - self._middle)), 1e-3)
            decay, ratio = falloff(light, distance)
            common |= {"intensity": strength * ratio, "decay": decay, "cast_shadow": light.shadow}
            cone = min(light.cone, FLAT) if light.type == "area" else light.cone
            if cone < 180.0:
                soft = 1.0 if light.type == "area" else light.softness
                angle = float(np.radians(min(cone, FLAT)))
                node = scene.add_light_spot(name, angle=angle, penumbra=soft, **common)
            else:
                node = scene.add_light_point(name, **common)
        self._placed.append((one, node))

    def _add_skies(self, skies: list[MountedLight], exposure: float) -> None:
        """Add all skies as one light, from what surfaces receive that face up and down."""
        toward, total = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]), np.zeros((2, 3))
        for one in skies:
            if one.light.texture is None:
                total += np.array(one.light.color)
            else:
                inside = Rotation.from_quat(one.placement[3:]).inv().apply(toward)
                found = harmonics(inside) @ light_coefficients(one.light.texture)
                total += np.array(one.light.color) * np.maximum(found, 0.0)
        most = float(exposure * total.max())
        above, below = (_bytes(exposure * each / max(most, 1e-12)) for each in total)
        # Its direction is that of its position
        self.sky = self._scene.add_light_hemisphere(
            "/sky", sky_color=above, ground_color=below, intensity=np.pi * most, position=(0.0, 0.0, 1.0)
        )


def screen_color(light: np.ndarray) -> tuple[tuple[int, int, int], float]:
    """Return colour and intensity of a light in the browser that a matte white surface reflects as this light [3]."""
    most = float(light.max())
    return _bytes(light / max(most, 1e-12)), float(np.pi * most)


def falloff(light: Light, distance: float) -> tuple[float, float]:
    """Return the power of the distance that a light falls off with in the browser, and the factor of its intensity with
    which it is right at a distance [m]; at all distances if it has a single number of attenuation.
    """
    a, b, c = light.attenuation
    decay = (b * distance + 2.0 * c * distance**2) / (a + b * distance + c * distance**2)
    at = brightness(light, distance).max() / max(max(light.color), 1e-12)
    return float(decay), float(at * distance**decay)


def _bytes(light: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = np.round(255.0 * screen_of(np.clip(light, 0.0, 1.0))).astype(int).tolist()
    return red, green, blue
