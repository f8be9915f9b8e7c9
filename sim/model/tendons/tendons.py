"""Tendons of a model: lengths that go with joint coordinates, or that run from point to point."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.model.softness import Softness


@dataclass(frozen=True)
class Tendons:
    """The tendons of a model; their coefficients, points, wraps, springs, dampers and limits are parameters.

    A fixed tendon has terms, a coefficient times a joint coordinate each. A spatial one has points on links and
    segments between them. Where it may lie around a sphere or a cylinder, a wrap, it has three segments between two
    points: straight to the surface, along it, and straight on. Places are all points, and behind them the two places
    where it touches each wrap.

    Attributes:
        names: [num_tendons].
        term_start: first term of each tendon, and their number [num_tendons + 1].
        term_dof: degree of freedom of each term [num_terms].
        point_link: link that each point moves with, -1 for the world [num_points].
        segment_start: first segment of each tendon, and their number [num_tendons + 1].
        segment_ends: the places between which each segment runs [num_segments, 2].
        segment_wrap: the wrap that a segment lies on, -1 for a straight one [num_segments].
        segment_share: what a segment counts in the length: one over the divisor of its pulley [num_segments].
        wrap_link: link that each wrap moves with, -1 for the world [num_wraps].
        wrap_is_cylinder: 1 for a cylinder, 0 for a sphere [num_wraps].
        wrap_ends: the points before and behind it [num_wraps, 2].
        wrap_side_link: link of the point on whose side the tendon passes, -1 for the world, -2 for none [num_wraps].
        wrap_side: that point in its link [num_wraps, 3], m.
        limit_softness: of the limits of each tendon under MuJoCo's law [num_tendons].
        friction_softness: of its dry friction, likewise [num_tendons].
        coupling_names: of the tendons whose length is tied, the constraint's name [num_couplings].
        coupling_tendon: that tendon [num_couplings].
        coupling_other: the tendon whose length its own follows, -1 where it is held [num_couplings].
        coupling_reference: lengths of both that the polynomial counts from [num_couplings, 2].
        coupling_softness: under MuJoCo's law [num_couplings].
    """

    names: tuple[str, ...]
    term_start: np.ndarray
    term_dof: np.ndarray
    point_link: np.ndarray
    segment_start: np.ndarray
    segment_ends: np.ndarray
    segment_wrap: np.ndarray
    segment_share: np.ndarray
    wrap_link: np.ndarray
    wrap_is_cylinder: np.ndarray
    wrap_ends: np.ndarray
    wrap_side_link: np.ndarray
    wrap_side: np.ndarray
    limit_softness: tuple[Softness, ...]
    friction_softness: tuple[Softness, ...]
    coupling_names: tuple[str, ...]
    coupling_tendon: np.ndarray
    coupling_other: np.ndarray
    coupling_reference: np.ndarray
    coupling_softness: tuple[Softness, ...]

    @property
    def place_link(self) -> np.ndarray:
        """The link that each place moves with, -1 for the world [num_points + 2 num_wraps]."""
        return np.concatenate([self.point_link, np.repeat(self.wrap_link, 2)]).astype(np.int32)

    def terms(self, tendon: int) -> range:
        """The terms of a tendon."""
        return range(int(self.term_start[tendon]), int(self.term_start[tendon + 1]))

    def segments(self, tendon: int) -> range:
        """The segments of a tendon."""
        return range(int(self.segment_start[tendon]), int(self.segment_start[tendon + 1]))

    def links(self, tendon: int) -> list[int]:
        """The links that the places of a tendon move with, without the world."""
        links = self.place_link
        ends = self.segment_ends[list(self.segments(tendon))].reshape(-1)
        return sorted({int(links[end]) for end in ends.tolist()} - {-1})

    def path(self, tendon: int) -> Iterator[tuple[str, int | float]]:
        """What a spatial tendon runs through: ("point", number), ("wrap", number) and ("pulley", divisor)."""
        before, share = -1, 1.0
        for segment in self.segments(tendon):
            first, last = self.segment_ends[segment].tolist()
            if first != before:
                if before >= 0 or self.segment_share[segment] != share:
                    share = float(self.segment_share[segment])
                    yield "pulley", 1.0 / share
                yield "point", first
            if self.segment_wrap[segment] >= 0:
                yield "wrap", int(self.segment_wrap[segment])
            if last < len(self.point_link):
                yield "point", last
            before = last


def owners_of(tendons: Tendons, part: str) -> list[str]:
    """The name of the tendon of each "term", "point" or "wrap"."""
    if part == "term":
        return [name for tendon, name in enumerate(tendons.names) for _ in tendons.terms(tendon)]
    owners = {
        int(number): name
        for tendon, name in enumerate(tendons.names)
        for kind, number in tendons.path(tendon)
        if kind == part
    }
    return [owners[number] for number in range(len(owners))]
