"""Softness of constraints under MuJoCo's law."""

import xml.etree.ElementTree as ET

from sim.exporters.text import numbers
from sim.model.softness import DEFAULT_SOFTNESS, Softness


def set_softness(element: ET.Element, softness: Softness, suffix: str = "") -> None:
    """Write solref and solimp of an element, unless they are the default.

    Args:
        element: a geom, a joint or an equality.
        softness: its softness.
        suffix: "limit" or "friction" of a joint.
    """
    if softness != DEFAULT_SOFTNESS:
        element.set(f"solref{suffix}", numbers(softness.solref))
        element.set(f"solimp{suffix}", numbers(softness.solimp))
