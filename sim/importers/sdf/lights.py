"""Lights of SDF files, whose colours are those of the screen."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.sdf.values import flag, number, vector
from sim.importers.xmltree import Element
from sim.model.builder import WorldBuilder
from sim.model.checks import free_name
from sim.model.looks.lights import Light, aimed
from sim.render.colors import light_of

AMBIENT = "ambient"
WHITE, GREY = (1.0, 1.0, 1.0, 1.0), (0.4, 0.4, 0.4, 1.0)  # SDF's defaults of diffuse light and of ambient light
KINDS = ("directional", "point", "spot")


def light_of_element(element: Element) -> Light | None:
    """Return a light; None if it is off.

    Raises:
        ImportFileError: naming the element, for an unknown type and invalid numbers.
    """
    kind = element.attributes.get("type", "point")
    if kind not in KINDS:
        raise element.error(f"its type is '{kind[:80]}'; it must be one of {', '.join(KINDS)}")
    color = _color(vector(element, "diffuse", WHITE)) * max(number(element, "intensity", 1.0), 0.0)
    falloff, spot = element.optional("attenuation"), element.optional("spot")
    numbers = (1.0, 0.0, 0.0)
    if falloff is not None and kind != "directional":
        usual = {"constant": 1.0, "linear": 1.0, "quadratic": 0.0}
        constant, linear, quadratic = (max(number(falloff, name, value), 0.0) for name, value in usual.items())
        numbers = (constant, linear, quadratic) if constant + linear + quadratic > 0.0 else numbers
    outer, inner = np.pi, np.pi
    if kind == "spot" and spot is not None:
        outer, inner = number(spot, "outer_angle", 0.0), number(spot, "inner_angle", 0.0)
    red, green, blue = color.tolist()
    with element.located("light"):
        light = Light(
            "directional" if kind == "directional" else "point", (red, green, blue), numbers,
            cone=float(np.clip(0.5 * np.degrees(outer), 0.0, 180.0)) if kind == "spot" else 180.0,
            softness=float(np.clip(1.0 - inner / outer, 0.0, 1.0)) if kind == "spot" and outer > 0.0 else 0.0,
            specular=float(vector(element, "specular", WHITE)[:3].any()),
            shadow=flag(element, "cast_shadows"),
        )  # fmt: skip
    return light if flag(element, "light_on", default=True) else None


def add_light(builder: WorldBuilder, element: Element, name: str, link: str, placement: np.ndarray) -> bool:
    """Add a light at a pose [7] in a link, along its direction; return whether it is on.

    Raises:
        ImportFileError: naming the element, as :func:`light_of_element`, and for a direction of zero of a light that
            shines along it.
    """
    light = light_of_element(element)
    if light is None:
        return False
    direction = vector(element, "direction", (0.0, 0.0, -1.0))
    length = float(np.linalg.norm(direction))
    if length == 0.0 and element.attributes.get("type", "point") != "point":
        raise element.error("its direction is zero")
    down = np.array([0.0, 0.0, -1.0]) if length == 0.0 else direction / length
    turn = Rotation.from_quat(placement[3:]) * Rotation.from_quat(aimed(down))
    own = free_name(name, builder.lights)
    with element.located(f"light '{own}'"):
        builder.add_light(own, light, link, placement[:3], turn.as_quat())
    return True


def add_ambient(builder: WorldBuilder, top: Element) -> None:
    """Add the ambient light of a world or of a file without one, to a scene that has none."""
    scene = top.optional("scene") if top.tag == "world" else None
    stated = GREY if scene is None else vector(scene, "ambient", GREY)
    red, green, blue = _color(np.array(stated)).tolist()
    if AMBIENT not in builder.lights:
        builder.add_light(AMBIENT, Light("sky", (red, green, blue)))


def _color(rgba: np.ndarray) -> np.ndarray:
    return light_of(np.maximum(rgba[:3], 0.0))
