"""Writes contact pairs and their friction to an MJCF file.

In MuJoCo all geoms collide unless their bodies share a joint. A pair has the larger friction, or that of the geom with
priority. In Backswing a pair has the product of the frictions, and the sum of torsional and rolling friction. Pairs for
which this differs are listed one by one.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import combinations

from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.text import numbers
from sim.model.model import Model
from sim.simulation.stepping.collision import may_touch


@dataclass(frozen=True)
class Surface:
    """Friction of a geom or of a pair: sliding, torsional [m] and rolling [m]; ``priority`` decides between two."""

    slide: float
    spin: float
    roll: float
    priority: int = 0

    @property
    def dimension(self) -> int:
        """MuJoCo's ``condim``: the least that includes all non-zero values."""
        return 6 if self.roll else 4 if self.spin else 3 if self.slide else 1

    def with_other(self, other: "Surface") -> "Surface":
        """How MuJoCo combines the two."""
        if self.priority != other.priority:
            chosen = max(self, other, key=lambda one: one.priority)
            return Surface(chosen.slide, chosen.spin, chosen.roll)
        dimension = max(self.dimension, other.dimension)
        spin, roll = max(self.spin, other.spin), max(self.roll, other.roll)
        return Surface(max(self.slide, other.slide), spin * (dimension > 3), roll * (dimension > 4))


def surface(model: Model, index: int) -> Surface:
    """Surface of a geometry. Static ones have priority, so that the ground decides where robots have friction 1."""
    slide, spin, roll = (
        float(model.parameters[key][index]) for key in ("friction", "torsional_friction", "rolling_friction")
    )
    link = model.geometries[index].link
    return Surface(slide, spin, roll, int(link < 0 or model.link_tail_dof[link] < 0))


def add_contacts(root: ET.Element, bodies: Bodies) -> None:
    """Exclude bodies that do not touch, and list the pairs of geometries that MuJoCo would combine differently."""
    contact = ET.SubElement(root, "contact")
    model = bodies.model
    group, above = bodies.weld_groups()
    surfaces = {k: surface(model, k) for k, geometry in enumerate(model.geometries) if geometry.collides}
    by_link: dict[int, list[int]] = {}
    for index in surfaces:
        by_link.setdefault(model.geometries[index].link, []).append(index)
    for a, b in combinations(sorted(by_link), 2):
        if group[a] == group[b]:
            continue
        # Bodies jointed to the world do collide with it.
        neighbours = group[a] >= 0 and group[b] >= 0 and (above[a] == group[b] or above[b] == group[a])
        pairs = [(i, j) for i in by_link[a] for j in by_link[b]]
        touching = [(min(pair), max(pair)) for pair in pairs if may_touch(model, *pair)]
        excluded = not neighbours and len(touching) < len(pairs)
        if excluded:
            names = [bodies.elements[link].get("name", "world") for link in (a, b)]
            ET.SubElement(contact, "exclude", body1=names[0], body2=names[1])
        for i, j in touching:
            wanted = _pair(surfaces[i], surfaces[j])
            if excluded or neighbours or surfaces[i].with_other(surfaces[j]) != wanted:
                _add_pair(contact, model, i, j, wanted)


def _pair(a: Surface, b: Surface) -> Surface:
    return Surface(a.slide * b.slide, a.spin + b.spin, a.roll + b.roll)


def _add_pair(contact: ET.Element, model: Model, i: int, j: int, own: Surface) -> None:
    ET.SubElement(
        contact, "pair", geom1=model.geometries[i].name, geom2=model.geometries[j].name, condim=str(own.dimension),
        friction=numbers([own.slide, own.slide, own.spin, own.roll, own.roll]),
    )  # fmt: skip
