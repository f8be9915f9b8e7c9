"""Tendons of a model: lengths that go with joint coordinates, or that run from point to point."""

from dataclasses import dataclass

import numpy as np

from sim.model.softness import Softness


@dataclass(frozen=True)
class Tendons:
    """The tendons of a model; their coefficients, points, springs, dampers and limits are parameters.

    A fixed tendon has terms, a coefficient times a joint coordinate each. A spatial one has points on links and
    straight segments between them.

    Attributes:
        names: [num_tendons].
        term_start: first term of each tendon, and their number [num_tendons + 1].
        term_dof: degree of freedom of each term [num_terms].
        point_link: link that each point moves with, -1 for the world [num_points].
        segment_start: first segment of each tendon, and their number [num_tendons + 1].
        segment_point: the point from which each segment runs to the next one [num_segments].
        segment_share: what a segment counts in the length: one over the divisor of its pulley [num_segments].
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
    segment_point: np.ndarray
    segment_share: np.ndarray
    limit_softness: tuple[Softness, ...]
    friction_softness: tuple[Softness, ...]
    coupling_names: tuple[str, ...]
    coupling_tendon: np.ndarray
    coupling_other: np.ndarray
    coupling_reference: np.ndarray
    coupling_softness: tuple[Softness, ...]

    def terms(self, tendon: int) -> range:
        """The terms of a tendon."""
        return range(int(self.term_start[tendon]), int(self.term_start[tendon + 1]))

    def segments(self, tendon: int) -> range:
        """The segments of a tendon."""
        return range(int(self.segment_start[tendon]), int(self.segment_start[tendon + 1]))

    def links(self, tendon: int) -> list[int]:
        """The links that the points of a tendon move with, without the world."""
        ends = {int(self.segment_point[segment]) + end for segment in self.segments(tendon) for end in (0, 1)}
        return sorted({int(self.point_link[end]) for end in ends} - {-1})


def owners_of(tendons: Tendons, part: str) -> list[str]:
    """The name of the tendon of each "term" or "point"."""
    if part == "term":
        return [name for tendon, name in enumerate(tendons.names) for _ in tendons.terms(tendon)]
    owners = {
        int(tendons.segment_point[segment]) + end: name
        for tendon, name in enumerate(tendons.names)
        for segment in tendons.segments(tendon)
        for end in (0, 1)
    }
    return [owners[point] for point in range(len(tendons.point_link))]
