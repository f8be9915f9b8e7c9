"""Which geoms of an MJCF file collide, and with what friction.

MuJoCo decides by bits, bodies and lists of pairs, and takes the larger friction of two geoms, or that of the one with
priority. Geometries here do so too. What is left are geoms of different ``condim`` and listed pairs: where the geoms
give another friction than the file, it is stated for the pair.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from sim.importers.mjcf.geoms.mixing import MixedSoftness
from sim.importers.mjcf.geoms.touching import Touching
from sim.importers.mjcf.reader import Reader, softness_of
from sim.simulation.stepping.mujoco.law import pair_softness

# The least ``condim`` of contacts with sliding, torsional and rolling friction.
LEAST_DIMENSION = (3, 4, 6)
# MuJoCo's least friction of each kind that a contact has (mjMINMU); with none at all its pyramids would be softer.
LEAST_FRICTION = 1e-5


@dataclass(frozen=True)
class Surfaces:
    """The contact properties of each geom.

    Attributes:
        collides: whether a geom takes part in contact [ngeom].
        touching: which geoms of the file collide with each other.
        priority: of two geoms, that with the higher decides the friction [ngeom].
        friction: sliding, torsional [m] and rolling friction [ngeom, 3].
        of_file: the same whatever the geom's ``condim`` [ngeom, 3].
        dimension: ``condim`` [ngeom].
        restitution: of geoms that move.
    """

    collides: np.ndarray
    touching: Touching
    priority: np.ndarray
    friction: np.ndarray
    of_file: np.ndarray
    dimension: np.ndarray
    restitution: float


def read_surfaces(reader: Reader, friction: float | None, restitution: float, self_collision: bool) -> Surfaces:
    """Surfaces of all geoms; ``friction`` replaces the sliding friction of the file."""
    model = reader.file.model
    paired = np.isin(np.arange(model.ngeom), [model.pair_geom1, model.pair_geom2])
    of_file = np.maximum(model.geom_friction, LEAST_FRICTION)
    dimension = np.array(model.geom_condim)
    if friction is not None:
        of_file[:, 0] = float(friction)
        dimension = np.maximum(dimension, LEAST_DIMENSION[0])
    return Surfaces(
        collides=(model.geom_contype | model.geom_conaffinity).astype(bool) | paired,
        touching=Touching(reader, self_collision),
        priority=np.array(model.geom_priority),
        friction=_acting(of_file, dimension),
        of_file=of_file,
        dimension=dimension,
        restitution=restitution,
    )


def set_pairs(reader: Reader, surfaces: Surfaces, friction: float | None, names: dict[int, list[str]]) -> None:
    """Exclude the pairs of geoms that don't touch in the file, and state the friction that geoms don't give a pair.

    Args:
        reader: of the file. Notes on what differs from it are added to the reader's.
        surfaces: of all geoms.
        friction: replaces the sliding friction of the file.
        names: of the geometries of geoms that collide, by geom. Those of one link, and so of the world, never do.
    """
    geoms = np.array(list(names), dtype=np.int64)
    links = np.array([reader.places[int(body)][0] for body in reader.file.model.geom_bodyid[geoms]])
    listed = _listed_pairs(reader, friction)
    mixing = MixedSoftness(reader)
    for number, geom in enumerate(geoms.tolist()):
        later = geoms[number + 1 :]
        touching = surfaces.touching.of(geom)[later]
        apart = ~touching & (links[number + 1 :] != links[number])
        for other in later[apart].tolist():
            for pair in product(names[geom], names[other]):
                reader.builder.exclude_geometries(*pair)
        _state_frictions(reader, surfaces, geom, later[touching], listed, names)
        mixing.state(geom, later[touching], names)
    _state_softness(reader, names)


def _state_frictions(
    reader: Reader,
    surfaces: Surfaces,
    geom: int,
    others: np.ndarray,
    listed: dict[frozenset[int], np.ndarray],
    names: dict[int, list[str]],
) -> None:
    """State the friction of a geom with those others where the file's is another than theirs give."""
    here = _mixed(surfaces.friction, surfaces.priority, geom, others)
    of_file = _mixed(surfaces.of_file, surfaces.priority, geom, others)
    there = _acting(of_file, _mixed(surfaces.dimension[:, None], surfaces.priority, geom, others)[:, 0])
    for row, other in enumerate(others.tolist()):
        there[row] = listed.get(frozenset((geom, other)), there[row])
    differ = (here != there).any(axis=1)
    for other, (slide, spin, roll) in zip(others[differ].tolist(), there[differ].tolist(), strict=True):
        for pair in product(names[geom], names[other]):
            reader.builder.set_pair_friction(*pair, friction=slide, torsional_friction=spin, rolling_friction=roll)


def _state_softness(reader: Reader, names: dict[int, list[str]]) -> None:
    """State softness and margin of the pairs that the file lists."""
    model = reader.file.model
    for pair in range(model.npair):
        if np.any(model.pair_solreffriction[pair]):
            reader.notes.append(f"left out: solreffriction of {reader.file.label('pair', pair)}; its solref is used")
        ends = [names.get(int(geom[pair]), []) for geom in (model.pair_geom1, model.pair_geom2)]
        if not (ends[0] and ends[1]):
            continue
        a, b = (reader.builder.geometries[end[0]].geometry for end in ends)
        softness = softness_of(model.pair_solref[pair], model.pair_solimp[pair])
        margin, gap = float(model.pair_margin[pair]), float(model.pair_gap[pair])
        sums = a.contact_margin + b.contact_margin, a.contact_gap + b.contact_gap
        if softness == pair_softness(a, b) and (margin, gap) == sums:
            continue
        with reader.file.located("pair", pair, "pair"):
            for one, other in product(*ends):
                reader.builder.set_pair_softness(one, other, softness=softness, contact_margin=margin, contact_gap=gap)


def _mixed(values: np.ndarray, priority: np.ndarray, geom: int, others: np.ndarray) -> np.ndarray:
    """MuJoCo's values of a geom with others: those of the one with the higher priority, or the larger ones [n, ...]."""
    own, theirs = priority[geom], priority[others][:, None]
    a, b = values[geom], values[others]
    return np.where(own == theirs, np.maximum(a, b), np.where(own > theirs, a, b))


def _acting(friction: np.ndarray, dimension: np.ndarray) -> np.ndarray:
    """Of sliding, torsional and rolling friction [n, 3] those that contacts of these dimensions have."""
    return np.where(dimension[:, None] >= LEAST_DIMENSION, friction, 0.0)


def _listed_pairs(reader: Reader, friction: float | None) -> dict[frozenset[int], np.ndarray]:
    """Sliding, torsional and rolling friction of the pairs of geoms that the file lists."""
    model, listed = reader.file.model, {}
    frictions = np.maximum(model.pair_friction, LEAST_FRICTION).tolist()
    for pair, (first, second, spin, roll, other_roll) in enumerate(frictions):
        dimension = int(model.pair_dim[pair])
        if (dimension >= LEAST_DIMENSION[0] and first != second) or (
            dimension >= LEAST_DIMENSION[2] and roll != other_roll
        ):
            reader.notes.append(
                f"{reader.file.label('pair', pair)}: its friction differs along its two tangents; "
                "the first is used for both"
            )
        values = _acting(np.array([[first, spin, roll]]), np.array([dimension]))[0]
        if friction is not None:
            values[0] = friction
        listed[frozenset((int(model.pair_geom1[pair]), int(model.pair_geom2[pair])))] = values
    return listed
