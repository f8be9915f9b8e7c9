"""Colliding geometries and their friction in an MJCF file.

In MuJoCo bodies collide unless a joint joins them, and a pair has the larger friction of its two geoms, or that of the
one with priority. Backswing also supports the product, and the sum of torsional and rolling friction. Pairs for which
MuJoCo's rules give another result are listed explicitly.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from itertools import combinations, product

from sim.exporters.files import number, numbers
from sim.exporters.mjcf.bodies import Bodies, set_softness
from sim.model.geometries import PairSoftness
from sim.model.model import Model
from sim.simulation.stepping.collision import may_touch
from sim.simulation.stepping.mujoco_law import pair_softness
from sim.simulation.stepping.pair_friction import NAMES, five_frictions, pair_friction


@dataclass(frozen=True)
class Surface:
    """Friction of a geom or of a pair: sliding, torsional [m] and rolling [m]; ``priority`` decides between two.

    ``across`` is the sliding and rolling friction of a pair along its second tangent if that differs.
    """

    slide: float
    spin: float
    roll: float
    priority: int = 0
    across: tuple[float, float] | None = None

    @property
    def dimension(self) -> int:
        """MuJoCo's ``condim``: the smallest that covers all non-zero friction."""
        slide, roll = self.across or (0.0, 0.0)
        return 6 if self.roll or roll else 4 if self.spin else 3 if self.slide or slide else 1

    @property
    def five(self) -> list[float]:
        """MuJoCo's five numbers of a pair."""
        slide, roll = self.across or (self.slide, self.roll)
        return [self.slide, slide, self.spin, self.roll, roll]

    def with_other(self, other: "Surface") -> "Surface":
        """Return MuJoCo's friction of the pair."""
        if self.priority != other.priority:
            chosen = max(self, other, key=lambda one: one.priority)
            return Surface(chosen.slide, chosen.spin, chosen.roll)
        dimension = max(self.dimension, other.dimension)
        spin, roll = max(self.spin, other.spin), max(self.roll, other.roll)
        return Surface(max(self.slide, other.slide), spin * (dimension > 3), roll * (dimension > 4))


def surface(model: Model, index: int) -> Surface:
    """Return the friction of a geometry.

    For products, static geometry has priority, so that the ground decides where robots have 1.
    """
    slide, spin, roll = (float(model.parameters[key][index]) for key in NAMES)
    geometry = model.geometries[index]
    priority = geometry.contact_priority
    if priority == 0 and geometry.friction_rule == "product":
        priority = int(geometry.link < 0 or model.link_tail_dof[geometry.link] < 0)
    return Surface(slide, spin, roll, priority)


def add_contacts(root: ET.Element, bodies: Bodies) -> None:
    """Exclude bodies that don't collide, and list the pairs of geometries for which MuJoCo's rules differ."""
    contact = ET.SubElement(root, "contact")
    model = bodies.model
    group, above = bodies.weld_groups()
    surfaces = {k: surface(model, k) for k, geometry in enumerate(model.geometries) if geometry.collides}
    stated = {(pair.a, pair.b): pair for pair in model.pair_softness}
    uneven = {
        (pair.a, pair.b): (slide, roll)
        for pair, (_, slide, _, _, roll) in zip(model.pair_frictions, five_frictions(model).tolist(), strict=True)
        if not pair.is_isotropic
    }
    by_link: dict[int, list[int]] = {}
    for index in surfaces:
        by_link.setdefault(model.geometries[index].link, []).append(index)
    for a, b in combinations(sorted(by_link), 2):
        if group[a] == group[b]:
            continue
        # Links fixed to the world collide with it.
        neighbours = group[a] >= 0 and group[b] >= 0 and (above[a] == group[b] or above[b] == group[a])
        pairs = [(i, j) for i in by_link[a] for j in by_link[b]]
        touching = [(min(pair), max(pair)) for pair in pairs if may_touch(model, *pair)]
        excluded = not neighbours and len(touching) < len(pairs)
        if excluded:
            for first, second in product(bodies.names_of(a), bodies.names_of(b)):
                ET.SubElement(contact, "exclude", body1=first, body2=second)
        frictions = pair_friction(model, touching).tolist()
        for (i, j), friction in zip(touching, frictions, strict=True):
            wanted = replace(Surface(*friction), across=uneven.get((i, j)))
            own = stated.get((i, j))
            if excluded or neighbours or own or surfaces[i].with_other(surfaces[j]) != wanted:
                _add_pair(contact, model, i, j, wanted, own)


def _add_pair(contact: ET.Element, model: Model, i: int, j: int, own: Surface, stated: PairSoftness | None) -> None:
    if stated is None:  # otherwise MuJoCo would use its defaults
        a, b = model.geometries[i], model.geometries[j]
        stated = PairSoftness(
            i, j, pair_softness(a, b), a.contact_margin + b.contact_margin, a.contact_gap + b.contact_gap
        )
    pair = ET.SubElement(
        contact, "pair", geom1=model.geometries[i].name, geom2=model.geometries[j].name, condim=str(own.dimension),
        friction=numbers(own.five),
    )  # fmt: skip
    set_softness(pair, stated.softness)
    if stated.contact_margin:
        pair.set("margin", number(stated.contact_margin))
    if stated.contact_gap:
        pair.set("gap", number(stated.contact_gap))
