"""Values of SDF files: numbers and poses as the text of elements."""

import math

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.xmltree import Element
from sim.model.poses import IDENTITY
from sim.model.specs import UNREACHABLE

TRUE, FALSE = ("1", "true"), ("0", "false")


def numbers(element: Element, count: int) -> np.ndarray:
    """Return the text of an element as finite numbers [count].

    Raises:
        ImportFileError: naming the element.
    """
    words = element.content.split()
    try:
        values = np.array([float(word) for word in words])
    except ValueError:
        raise element.error(f"is not numeric: '{element.content[:80]}'") from None
    if len(values) != count:
        raise element.error(f"has {len(values)} numbers, expected {count}: '{element.content[:80]}'")
    if not np.isfinite(values).all():
        raise element.error(f"is not finite: '{element.content[:80]}'")
    return values


def below(element: Element, *tags: str) -> Element | None:
    """Return the descendant reached by these tags; None if there is none."""
    found: Element | None = element
    for tag in tags:
        found = None if found is None else found.optional(tag)
    return found


def _stated(parent: Element | None, tag: str) -> Element | None:
    """Return a child with content: as in SDF's own reader, an empty one counts as missing."""
    found = None if parent is None else parent.optional(tag)
    return found if found is not None and found.content else None


def vector(parent: Element, tag: str, default: tuple[float, ...]) -> np.ndarray:
    """Return the numbers of a child; the default if it is missing or empty."""
    found = _stated(parent, tag)
    return np.array(default) if found is None else numbers(found, len(default))


def number(parent: Element, tag: str, default: float) -> float:
    """Return the number of a child, likewise."""
    return float(vector(parent, tag, (default,))[0])


def bound(parent: Element | None, tag: str, default: float, largest: float = UNREACHABLE) -> float:
    """Return a limit; infinite if it is missing or at least ``largest``."""
    found = _stated(parent, tag)
    if found is None:
        return default
    try:
        value = float(found.content)
    except ValueError:
        raise found.error(f"is not a number: '{found.content[:80]}'") from None
    if math.isnan(value):
        raise found.error("is not a number")
    return math.copysign(math.inf, value) if abs(value) >= largest else value


def flag(parent: Element, tag: str, default: bool = False) -> bool:
    """Return the value of a true or false child."""
    found = _stated(parent, tag)
    if found is None:
        return default
    word = found.content.lower()
    if word not in (*TRUE, *FALSE):
        raise found.error(f"is '{found.content[:80]}'; it must be true or false")
    return word in TRUE


def pose(parent: Element) -> np.ndarray:
    """Return the ``<pose>`` of an element: position and quaternion xyzw [7]; default: identity."""
    found = _stated(parent, "pose")
    if found is None:
        return IDENTITY
    format = found.attributes.get("rotation_format", "euler_rpy")
    if format == "quat_xyzw":
        values = numbers(found, 7)
        if not values[3:].any():
            raise found.error("its quaternion is zero")
        return np.concatenate([values[:3], values[3:] / np.linalg.norm(values[3:])])
    if format != "euler_rpy":
        raise found.error(f"its rotation_format is '{format}'; it must be euler_rpy or quat_xyzw")
    values = numbers(found, 6)
    degrees = found.attributes.get("degrees", "false").lower() in TRUE
    return np.concatenate([values[:3], Rotation.from_euler("xyz", values[3:], degrees=degrees).as_quat()])


def relative_to(parent: Element) -> str | None:
    """Return the frame that a pose is relative to; None for the default."""
    found = parent.optional("pose")
    # Before version 1.7 the attribute was called frame.
    return None if found is None else (found.attributes.get("relative_to") or found.attributes.get("frame") or None)


def named(element: Element) -> str:
    """Return the name of an element, which is required."""
    name = element.text("name")
    if "::" in name:
        raise element.error(f"its name '{name}' contains '::', which SDF reserves for nested models")
    return name
