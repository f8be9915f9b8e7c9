"""Tendons of a model: lengths that depend linearly on joint coordinates, or paths through points.

Includes what a :class:`sim.ModelBuilder` collects of them, and their points and lengths for given poses of links.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.model.poses import IDENTITY, compose
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.tendons.wrapping import tangent_points


@dataclass(frozen=True)
class Tendons:
    """Tendons of a model; their coefficients, points, wraps, springs, dampers and limits are parameters.

    A fixed tendon has terms, each a coefficient times a joint coordinate. A spatial one has points on links, and
    segments between them. With a wrap, a sphere or a cylinder, there are three segments between two points: straight to
    the surface, along it, and straight on. "Path points" are all points, then two tangent points per wrap.

    Attributes:
        names: [num_tendons].
        term_start: first term of each tendon, and their number [num_tendons + 1].
        term_dof: degree of freedom of each term [num_terms].
        point_link: link of each point, -1 for the world [num_points].
        segment_start: first segment of each tendon, and their number [num_tendons + 1].
        segment_ends: two path points of each segment [num_segments, 2].
        segment_wrap: wrap of a segment along its surface, -1 for a straight one [num_segments].
        segment_share: weight of a segment in the length: one over the divisor of its pulley [num_segments].
        wrap_link: link of each wrap, -1 for the world [num_wraps].
        wrap_is_cylinder: 1 for a cylinder, 0 for a sphere [num_wraps].
        wrap_ends: points before and after each wrap [num_wraps, 2].
        wrap_side_link: link of the point on whose side the tendon passes, -1 for the world, -2 for none [num_wraps].
        wrap_side: that point in its link [num_wraps, 3], m.
        limit_softness: softness of the limits of each tendon under MuJoCo's law [num_tendons].
        friction_softness: softness of its dry friction, likewise [num_tendons].
        coupling_names: names of the couplings of tendons [num_couplings].
        coupling_tendon: coupled tendon [num_couplings].
        coupling_other: tendon that it follows, -1 if its length is fixed [num_couplings].
        coupling_reference: reference lengths of both [num_couplings, 2].
        coupling_softness: softness under MuJoCo's law [num_couplings].
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
    def path_link(self) -> np.ndarray:
        """Return the link of each path point, -1 for the world [num_points + 2 num_wraps]."""
        return np.concatenate([self.point_link, np.repeat(self.wrap_link, 2)]).astype(np.int32)

    def terms(self, tendon: int) -> range:
        """Return the terms of a tendon."""
        return range(int(self.term_start[tendon]), int(self.term_start[tendon + 1]))

    def segments(self, tendon: int) -> range:
        """Return the segments of a tendon."""
        return range(int(self.segment_start[tendon]), int(self.segment_start[tendon + 1]))

    def links(self, tendon: int) -> list[int]:
        """Return the links of a tendon's path points, without the world."""
        links = self.path_link
        ends = self.segment_ends[list(self.segments(tendon))].reshape(-1)
        return sorted({int(links[end]) for end in ends.tolist()} - {-1})

    def path(self, tendon: int) -> Iterator[tuple[str, int | float]]:
        """Yield the path of a spatial tendon: ("point", index), ("wrap", index) and ("pulley", divisor)."""
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
    """Return the name of the tendon of each "term", "point" or "wrap"."""
    if part == "term":
        return [name for tendon, name in enumerate(tendons.names) for _ in tendons.terms(tendon)]
    owners = {
        int(number): name
        for tendon, name in enumerate(tendons.names)
        for kind, number in tendons.path(tendon)
        if kind == part
    }
    return [owners[number] for number in range(len(owners))]


@dataclass(frozen=True, kw_only=True)
class TendonWrap:
    """Sphere or infinite cylinder that a spatial tendon wraps around, between two of its points.

    It has no mass and doesn't collide. As in MuJoCo, the tendon is straight unless the straight line crosses the wrap,
    and otherwise takes the shorter way around. A side forces it to pass on that side of the centre: it wraps around
    where the straight line intersects the ray from the centre away from the side. A side within the radius keeps the
    tendon inside: where the straight line misses the surface, the tendon bends to touch it in a point.

    Attributes:
        link: link of the wrap, or "world".
        radius: radius [m].
        position: centre in the link [m].
        axis: axis of a cylinder in the link, of any length. Default: none, for a sphere.
        side: a link, or "world", and a point in it [m], on whose side the tendon passes. Default: either side.

    Example:
        >>> import sim
        >>> builder = sim.ModelBuilder()
        >>> _ = builder.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> _ = builder.add_joint("elbow", "revolute", parent="world", child="arm", axis=(0, 1, 0))
        >>> pin = sim.TendonWrap(link="world", radius=0.05, axis=(0, 1, 0))
        >>> builder.add_spatial_tendon("cord", [("world", (-0.2, 0, 0.03)), pin, ("arm", (0.2, 0, 0.03))])
        'cord'
    """

    link: str
    radius: float
    position: Sequence[float] | npt.NDArray[np.floating] = (0.0, 0.0, 0.0)
    axis: Sequence[float] | npt.NDArray[np.floating] | None = None
    side: tuple[str, Sequence[float] | npt.NDArray[np.floating]] | None = None


@dataclass(kw_only=True)
class TendonSpec:
    """Tendon as the user described it.

    ``coefficients`` of a fixed tendon, by joint. ``branches`` of a spatial one: the divisor of the pulley at which each
    begins, 1 for the first, and links with points, and wraps between them. ``rest`` is None for the initial length.
    Polynomials are the quadratic and cubic coefficients.
    """

    name: str
    coefficients: dict[str, float]
    branches: list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]]
    stiffness: float
    damping: float
    stiffness_polynomial: tuple[float, float]
    damping_polynomial: tuple[float, float]
    armature: float
    rest: tuple[float, float] | None
    friction_loss: float
    lower: float
    upper: float
    limit_margin: float
    limit_softness: Softness
    friction_softness: Softness
    force_range: tuple[float, float] | None = None


@dataclass(kw_only=True)
class TendonCouplingSpec:
    """Tendon coupled to another, or of fixed length; ``reference`` is None for initial lengths, ``active`` for one that
    never switches.
    """

    name: str
    tendon: str
    other: str | None
    polynomial: np.ndarray
    reference: tuple[float, float] | None
    softness: Softness = DEFAULT_SOFTNESS
    active: bool | None = None


# Link of a wrap without a side.
ANY_SIDE = -2


def path_points(
    tendons: Tendons, parameters: Mapping[str, np.ndarray], poses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return all path points in the world [num_path_points, 3], and the length along each wrap [num_wraps], m.

    The two path points of a wrap that the tendon doesn't touch are midway between the points before and after it.

    Args:
        tendons: the tendons.
        parameters: ``tendon_point`` and the ``tendon_wrap_...`` parameters, shared by all worlds.
        poses: poses of the links [num_links, 7].
    """
    points = [
        _moved(poses, link, point)
        for link, point in zip(tendons.point_link.tolist(), parameters.get("tendon_point", ()), strict=True)
    ]
    touched, lengths = [], np.zeros(len(tendons.wrap_link))
    for wrap, link in enumerate(tendons.wrap_link.tolist()):
        ends = np.stack([points[end] for end in tendons.wrap_ends[wrap].tolist()])
        side_link = int(tendons.wrap_side_link[wrap])
        centre = parameters["tendon_wrap_centre"][wrap]
        tip = _moved(poses, link, centre + parameters["tendon_wrap_axis"][wrap])
        placed = _moved(poses, link, centre)
        found = tangent_points(
            ends, placed, tip - placed if tendons.wrap_is_cylinder[wrap] else None,
            float(parameters["tendon_wrap_radius"][wrap]),
            None if side_link == ANY_SIDE else _moved(poses, side_link, tendons.wrap_side[wrap]),
        )  # fmt: skip
        touching, lengths[wrap] = (np.tile(ends.mean(axis=0), (2, 1)), 0.0) if found is None else found
        touched += list(touching)
    return np.array([*points, *touched]).reshape(-1, 3), lengths


def lengths_of(
    tendons: Tendons, coefficients: np.ndarray, coordinates: np.ndarray, points: np.ndarray, arcs: np.ndarray
) -> np.ndarray:
    """Return the length of each tendon [num_tendons], m.

    Args:
        tendons: the tendons.
        coefficients: coefficients of the terms [num_terms].
        coordinates: joint coordinate of each term [num_terms].
        points: from :func:`path_points`.
        arcs: lengths along wraps, from there too.
    """
    straight = points[tendons.segment_ends[:, 1]] - points[tendons.segment_ends[:, 0]]
    along = tendons.segment_wrap >= 0
    pieces = np.linalg.norm(straight, axis=1)
    pieces[along] = arcs[tendons.segment_wrap[along]]
    pieces, terms = pieces * tendons.segment_share, coefficients * coordinates
    found = [
        terms[list(tendons.terms(tendon))].sum() + pieces[list(tendons.segments(tendon))].sum()
        for tendon in range(len(tendons.names))
    ]
    return np.array(found)


def _moved(poses: np.ndarray, link: int, point: np.ndarray) -> np.ndarray:
    """Return a point of a link in the world."""
    if link < 0:
        return np.asarray(point, dtype=np.float64)
    return compose(poses[link].astype(np.float64), np.concatenate([point, IDENTITY[3:]]))[:3]
