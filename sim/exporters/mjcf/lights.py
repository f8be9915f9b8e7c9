"""Lights as those of an MJCF file, whose colours are those of the screen."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from sim.exporters.files import MeshFiles, number, numbers
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import FOLLOWS, Bodies
from sim.importers.mjcf.lights import AMBIENT, HEADLIGHT, SPECULAR
from sim.model.checks import free_name
from sim.model.looks.lights import Light, MountedLight
from sim.model.looks.looks import Texture
from sim.render.colors import screen_of
from sim.render.cube import face_directions
from sim.render.dome import dome_of, image_light, sampled
from sim.render.lights import fitting_exposure

TOO_BRIGHT = 0.25  # fitting exposure below which lights are written darker
WIDEST_FACE = 1024  # pixels of a sky's face
WIDEST = 90.0  # cone of a spotlight; points of light have 180 [degrees]


def add_lights(root: ET.Element, bodies: Bodies, losses: Losses, meshes: MeshFiles | None) -> None:
    """Add the lights to their bodies, lights of the sky as ambient light of the headlight, and their image as the sky.

    A file with lights states its headlight, since MuJoCo would add one. Without ``meshes`` there are no images.
    """
    model = bodies.model
    if not model.lights:
        return
    exposure = fitting_exposure(model, model.lights)
    factor = exposure if exposure < TOO_BRIGHT else 1.0
    if factor != 1.0:
        losses.remarks(f"written {1.0 / factor:.3g} times darker: the lights, whose brightness isn't in MuJoCo's unit")
    _name_losses(model.lights, losses)
    mounted = [one for one in model.lights if one.light.type not in ("sky", "headlight")]
    for one, placement in bodies.mounts("light", mounted):
        axis = -Rotation.from_quat(placement[3:]).as_matrix()[:, 2]
        diffuse, element = _screen([one], factor), bodies.elements[one.link]
        light = ET.SubElement(
            element, "light", name=one.name, mode=FOLLOWS[one.follows], pos=numbers(placement[:3]), dir=numbers(axis),
            diffuse=numbers(diffuse), specular=numbers(one.light.specular * SPECULAR * diffuse), ambient="0 0 0",
            castshadow="true" if one.light.shadow else "false",
        )  # fmt: skip
        _set_spread(light, one.light)
    uniform = [one for one in model.lights if one.light.texture is None]
    _add_headlight(root, uniform, factor)
    sky = dome_of([one for one in model.lights if one.light.texture is not None])
    if sky is not None and meshes is not None:
        _add_sky(root, sky, factor, losses, meshes)


def _set_spread(element: ET.Element, light: Light) -> None:
    if light.type == "directional":
        element.set("directional", "true")
        return
    is_area = light.type == "area"
    cone = min(light.cone, WIDEST) if is_area or light.cone < 180.0 else 180.0
    element.set("attenuation", numbers(light.attenuation))
    element.set("cutoff", number(cone))
    element.set("exponent", number(light.exponent + is_area))
    element.set("bulbradius", number(light.size[0] if light.size and not is_area else 0.0))


def _add_headlight(root: ET.Element, lights: Sequence[MountedLight], factor: float) -> None:
    """Add the headlight with the light of all headlights and skies; without such light it is black."""
    heads = [one for one in lights if one.light.type == "headlight"]
    diffuse = _screen(heads, factor)
    share = heads[0].light.specular * SPECULAR if heads else 0.0
    ambient = _screen([one for one in lights if one.light.type == "sky"], factor)
    ET.SubElement(
        ET.SubElement(root, "visual"), "headlight", diffuse=numbers(diffuse), ambient=numbers(ambient),
        specular=numbers(share * diffuse),
    )  # fmt: skip


def _add_sky(root: ET.Element, sky: MountedLight, factor: float, losses: Losses, meshes: MeshFiles) -> None:
    """Add the image of a sky, times its colour, as six faces side by side."""
    texture = sky.light.texture
    assert texture is not None
    image = image_light(texture)
    width = min(max(image.shape[1] // 4, 1), WIDEST_FACE)
    inside = Rotation.from_quat(sky.placement[3:]).inv().apply(face_directions(width).reshape(-1, 3))
    screen = screen_of(factor * np.array(sky.light.color) * sampled(image, inside))
    if screen.max() > 1.0:
        losses.remarks(f"darkened: the parts of sky '{sky.name}' that are brighter than white")
    faces = np.round(255.0 * np.clip(screen, 0.0, 1.0)).astype(np.uint8).reshape(6, width, width, 3)
    strip = Texture(np.concatenate(list(faces), axis=1), f"{sky.name}_faces")
    asset = root.find("asset")
    assert asset is not None
    name = free_name(sky.name, {texture.get("name", "") for texture in asset.iter("texture")})
    ET.SubElement(
        asset, "texture", type="skybox", name=name, file=meshes.textures.add(strip), gridsize="1 6",
        gridlayout="RLUDFB",
    )  # fmt: skip
    losses.leaves_out("light of the sky's image", [sky.name], "MuJoCo shows it as the background alone")


def _name_losses(lights: Sequence[MountedLight], losses: Losses) -> None:
    """Note what MuJoCo's lights lack."""
    spots = [one for one in lights if one.light.type in ("point", "area") and one.light.cone < 180.0]
    losses.leaves_out("soft borders of spotlights", [one.name for one in spots if one.light.softness > 0.0])
    wide = [one.name for one in spots if one.light.cone > WIDEST]
    losses.leaves_out("cones of spotlights above 90 degrees", wide)
    losses.leaves_out(
        "areas of lights", [one.name for one in lights if one.light.type == "area"], "they are spotlights"
    )
    widths = [one.name for one in lights if one.light.type == "directional" and one.light.size]
    losses.leaves_out("diameters of directional lights", widths)
    for type, usual in (("sky", AMBIENT), ("headlight", HEADLIGHT)):
        named = [one.name for one in lights if one.light.type == type and one.light.texture is None]
        if named not in ([], [usual]):
            losses.leaves_out(f"names of {type} lights", named, "they are one light")


def _screen(lights: Sequence[MountedLight], factor: float) -> np.ndarray:
    """Return the colour on the screen of the sum of lights, times a factor."""
    colors = np.array([one.light.color for one in lights]).reshape(-1, 3)
    return screen_of(factor * colors.sum(axis=0))
