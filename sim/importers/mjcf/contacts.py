"""Colliding geoms of an MJCF file, with their friction, solref and solimp.

MuJoCo selects pairs by bit masks, bodies and lists of pairs, and takes the larger friction of two geoms, or that of the
one with priority. So do geometries of Backswing, except for geoms of different ``condim`` and listed pairs: if their
friction differs from the file's, it is set for the pair.

MuJoCo mixes solref and solimp of two geoms and clamps the result. Backswing clamps those of each geometry first and
then mixes them. If the results differ, they are set for the pair; also if the file disables "refsafe", one of the
bounds.

A table of all pairs of geoms would need memory quadratic in their number, so its rows are computed when needed.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.source.file import MJCFFile
from sim.model.builder.geometries import one_or_two
from sim.model.softness import corrected_softness
from sim.simulation.stepping.mujoco_law import mixed_softness, pair_softness


def unbounded(file: MJCFFile, solref: np.ndarray) -> np.ndarray:
    """Return solref [n, 2] as MuJoCo uses it in a file that disables "refsafe"; otherwise unchanged.

    Time constants below two time steps are then not clamped. They are converted to the equivalent stiffness and
    damping, which are never clamped.
    """
    if not file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_REFSAFE):
        return solref
    time, ratio = solref.T
    quick = (time > 0.0) & (ratio > 0.0) & (time < 2.0 * file.model.opt.timestep)
    freed = np.array(solref, dtype=np.float64)
    freed[quick] = np.stack([-1.0 / (time[quick] * ratio[quick]) ** 2, -2.0 / time[quick]], axis=1)
    return freed


class MixedSoftness:
    """Geoms of a file with numbers beyond the bounds, and the mixed softness of their pairs."""

    def __init__(self, reader: Reader):
        self._reader, self._model = reader, reader.file.model
        ends = self._model.pair_geom1.tolist(), self._model.pair_geom2.tolist()
        self._listed = {frozenset(pair) for pair in zip(*ends, strict=True)}
        solref, solimp = self._model.geom_solref, self._model.geom_solimp
        bounded = [corrected_softness(*numbers) for numbers in zip(solref, solimp, strict=True)]
        solrefs = np.reshape([each.solref for each in bounded], solref.shape)
        solimps = np.reshape([each.solimp for each in bounded], solimp.shape)
        freed = unbounded(reader.file, solref)
        self._beyond = np.asarray((solrefs != freed).any(axis=1) | (solimps != solimp).any(axis=1))

    def state(self, geom: int, others: np.ndarray, names: dict[int, list[str]]) -> None:
        """Set the softness of a geom's pairs whose mixed value differs from the file's.

        Pairs that the file lists as a ``<pair>`` have the softness of that element.

        Args:
            geom: the geom.
            others: the geoms that it can collide with.
            names: names of geometries, by geom.
        """
        geometries = self._reader.builder.geometries
        for other in others[self._beyond[others] | self._beyond[geom]].tolist():
            if frozenset((geom, other)) in self._listed:
                continue
            a, b = (geometries[names[each][0]].geometry for each in (geom, other))
            solref, solimp = self._mixed(geom, other)
            softness = corrected_softness(unbounded(self._reader.file, solref[None])[0], solimp)
            if softness == pair_softness(a, b):
                continue
            margin, gap = a.contact_margin + b.contact_margin, a.contact_gap + b.contact_gap
            for pair in product(names[geom], names[other]):
                self._reader.builder.set_pair_softness(*pair, softness=softness, contact_margin=margin, contact_gap=gap)

    def _mixed(self, geom: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mixed, unclamped solref and solimp of two geoms."""
        model, pair = self._model, [geom, other]
        priority, weights = model.geom_priority[pair], model.geom_solmix[pair]
        if priority[0] != priority[1]:
            first = pair[int(priority[1] > priority[0])]
            return model.geom_solref[first], model.geom_solimp[first]
        numbers = mixed_softness(model.geom_solref[pair].tolist(), model.geom_solimp[pair].tolist(), weights.tolist())
        solref, solimp = map(np.array, numbers)
        return solref, solimp


class Touching:
    """Table of the geoms between which MuJoCo looks for contacts, computed row by row.

    Pairs that never collide in Backswing are noted in the reader.

    Attributes:
        moves: whether a geom's body moves [ngeom].
    """

    def __init__(self, reader: Reader, self_collision: bool):
        model = reader.file.model
        self._model, self._self_collision = model, self_collision
        self._weld = model.body_weldid[model.geom_bodyid]
        self._above = model.body_weldid[model.body_parentid[self._weld]]
        self.moves = self._weld > 0
        self._excluded: dict[int, list[int]] = defaultdict(list)
        for signature in model.exclude_signature:
            a, b = int(signature) >> 16, int(signature) & 0xFFFF
            self._excluded[a].append(b)
            self._excluded[b].append(a)
        self._stated: dict[int, list[int]] = defaultdict(list)
        for number, (a, b) in enumerate(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist(), strict=True)):
            if self._neighbours(a)[b]:
                reader.notes.append(
                    f"{reader.file.label('pair', number)}: links joined by a joint never collide; the pair is ignored"
                )
            else:
                self._stated[a].append(b)
                self._stated[b].append(a)

    def of(self, geom: int) -> np.ndarray:
        """Return a mask of the geoms that can collide with a geom [ngeom]."""
        model, weld = self._model, self._weld
        bits = (model.geom_contype[geom] & model.geom_conaffinity) | (model.geom_conaffinity[geom] & model.geom_contype)
        touch = (bits != 0) & ~self._neighbours(geom)
        for body in self._excluded.get(int(model.geom_bodyid[geom]), ()):
            touch &= model.geom_bodyid != body
        touch[self._stated.get(geom, [])] = True
        touch &= weld != weld[geom]
        if not self._self_collision and self.moves[geom]:
            touch &= ~self.moves
        return np.asarray(touch)

    def _neighbours(self, geom: int) -> np.ndarray:
        """Return a mask of the geoms on the links joined to a geom's link [ngeom]; all False for static geoms."""
        if not self.moves[geom]:
            return np.zeros(len(self.moves), dtype=bool)
        beside = (self._above == self._weld[geom]) | (self._weld == self._above[geom])
        return np.asarray(self.moves & beside)


# Minimum ``condim`` of contacts with sliding, torsional and rolling friction
LEAST_DIMENSION = (3, 4, 6)
# Of these, those of MuJoCo's five numbers of a pair: two tangents, the normal, two tangents
OF_TANGENTS = [0, 0, 1, 2, 2]
# MuJoCo's minimum friction of each kind that a contact has (mjMINMU); with zero its pyramids would be softer.
LEAST_FRICTION = 1e-5


@dataclass(frozen=True)
class Surfaces:
    """Contact properties of each geom.

    Attributes:
        collides: whether a geom takes part in contact [ngeom].
        touching: table of the geoms of the file that collide with each other.
        priority: of two geoms, the one with the higher priority determines the friction [ngeom].
        friction: sliding, torsional [m] and rolling friction [ngeom, 3].
        of_file: the same, regardless of the geom's ``condim`` [ngeom, 3].
        dimension: ``condim`` [ngeom].
        restitution: restitution of geoms that move.
    """

    collides: np.ndarray
    touching: Touching
    priority: np.ndarray
    friction: np.ndarray
    of_file: np.ndarray
    dimension: np.ndarray
    restitution: float


def read_surfaces(reader: Reader, friction: float | None, restitution: float, self_collision: bool) -> Surfaces:
    """Return surfaces of all geoms; ``friction`` replaces the sliding friction of the file."""
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
    """Exclude pairs of geoms that don't collide in the file, and set friction that the geoms don't give a pair.

    Args:
        reader: reader of the file, which collects notes on differences from it.
        surfaces: surfaces of all geoms.
        friction: replaces the sliding friction of the file.
        names: names of the geometries of colliding geoms, by geom. Geometries of one link (or the world) never collide.
    """
    geoms = np.array(list(names), dtype=np.int64)
    links = np.array([reader.carriers[int(body)][0] for body in reader.file.model.geom_bodyid[geoms]])
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
    """Set the friction of a geom with those others for which the file's differs from the mixed one."""
    here = _mixed(surfaces.friction, surfaces.priority, geom, others)
    of_file = _mixed(surfaces.of_file, surfaces.priority, geom, others)
    there = _acting(of_file, _mixed(surfaces.dimension[:, None], surfaces.priority, geom, others)[:, 0])
    here, there = here[:, OF_TANGENTS], there[:, OF_TANGENTS]
    for row, other in enumerate(others.tolist()):
        there[row] = listed.get(frozenset((geom, other)), there[row])
    differ = (here != there).any(axis=1)
    for other, (first, second, spin, *rolls) in zip(others[differ].tolist(), there[differ].tolist(), strict=True):
        for pair in product(names[geom], names[other]):
            reader.builder.set_pair_friction(
                *pair, friction=one_or_two(first, second), torsional_friction=spin, rolling_friction=one_or_two(*rolls)
            )


def _state_softness(reader: Reader, names: dict[int, list[str]]) -> None:
    """Set softness and margin of the pairs that the file lists."""
    model = reader.file.model
    for pair in range(model.npair):
        if np.any(model.pair_solreffriction[pair]):
            reader.notes.append(f"ignored: solreffriction of {reader.file.label('pair', pair)}; its solref is used")
        ends = [names.get(int(geom[pair]), []) for geom in (model.pair_geom1, model.pair_geom2)]
        if not (ends[0] and ends[1]):
            continue
        a, b = (reader.builder.geometries[end[0]].geometry for end in ends)
        softness = corrected_softness(model.pair_solref[pair], model.pair_solimp[pair])
        margin, gap = float(model.pair_margin[pair]), float(model.pair_gap[pair])
        sums = a.contact_margin + b.contact_margin, a.contact_gap + b.contact_gap
        if softness == pair_softness(a, b) and (margin, gap) == sums:
            continue
        with reader.file.located("pair", pair, "pair"):
            for one, other in product(*ends):
                reader.builder.set_pair_softness(one, other, softness=softness, contact_margin=margin, contact_gap=gap)


def _mixed(values: np.ndarray, priority: np.ndarray, geom: int, others: np.ndarray) -> np.ndarray:
    """Return MuJoCo's pair values of a geom: those of the higher priority, or the larger ones [n, ...]."""
    own, theirs = priority[geom], priority[others][:, None]
    a, b = values[geom], values[others]
    return np.where(own == theirs, np.maximum(a, b), np.where(own > theirs, a, b))


def _acting(friction: np.ndarray, dimension: np.ndarray) -> np.ndarray:
    """Return sliding, torsional and rolling friction [n, 3], zero where these dimensions have none."""
    return np.where(dimension[:, None] >= LEAST_DIMENSION, friction, 0.0)


def _listed_pairs(reader: Reader, friction: float | None) -> dict[frozenset[int], np.ndarray]:
    """Return the friction of the pairs of geoms that the file lists: MuJoCo's five numbers."""
    model = reader.file.model
    least = np.array(LEAST_DIMENSION)[OF_TANGENTS]
    values = np.where(model.pair_dim[:, None] >= least, np.maximum(model.pair_friction, LEAST_FRICTION), 0.0)
    if friction is not None:
        values[:, :2] = friction
    pairs = zip(model.pair_geom1.tolist(), model.pair_geom2.tolist(), strict=True)
    return {frozenset(pair): own for pair, own in zip(pairs, values, strict=True)}
