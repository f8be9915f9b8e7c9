"""Where the tendons of a model run, and how long they are, for given poses of its links."""

from collections.abc import Mapping

import numpy as np

from sim.model.poses import IDENTITY, compose
from sim.model.tendons.tendons import Tendons
from sim.model.tendons.wrapping import touching_places

# No side.
ANY_SIDE = -2


def tendon_places(
    tendons: Tendons, parameters: Mapping[str, np.ndarray], poses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All places in the world [num_places, 3], and the length along each wrap [num_wraps], m.

    A wrap that a tendon doesn't touch has its two places in the middle between the points beside it.

    Args:
        tendons: the tendons.
        parameters: ``tendon_point`` and the ``tendon_wrap_...`` ones, shared by all worlds.
        poses: of the links [num_links, 7].
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
        found = touching_places(
            ends, placed, tip - placed if tendons.wrap_is_cylinder[wrap] else None,
            float(parameters["tendon_wrap_radius"][wrap]),
            None if side_link == ANY_SIDE else _moved(poses, side_link, tendons.wrap_side[wrap]),
        )  # fmt: skip
        places, lengths[wrap] = (np.tile(ends.mean(axis=0), (2, 1)), 0.0) if found is None else found
        touched += list(places)
    return np.array([*points, *touched]).reshape(-1, 3), lengths


def lengths_of(
    tendons: Tendons, coefficients: np.ndarray, coordinates: np.ndarray, places: np.ndarray, arcs: np.ndarray
) -> np.ndarray:
    """The length of each tendon [num_tendons], m.

    Args:
        tendons: the tendons.
        coefficients: of the terms [num_terms].
        coordinates: the joint coordinate of each term [num_terms].
        places: from :func:`tendon_places`.
        arcs: likewise.
    """
    straight = places[tendons.segment_ends[:, 1]] - places[tendons.segment_ends[:, 0]]
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
    """A point of a link in the world."""
    if link < 0:
        return np.asarray(point, dtype=np.float64)
    return compose(poses[link].astype(np.float64), np.concatenate([point, IDENTITY[3:]]))[:3]
