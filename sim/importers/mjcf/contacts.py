"""Which geoms of an MJCF file collide, and with what friction.

MuJoCo decides by bits, bodies and lists of pairs, and takes the larger friction of two geoms. Here a pair's friction is
the product of the two, torsional and rolling friction their sum: each geom gets the value with which the pairs of the
file have the same friction as in MuJoCo, as far as such values exist.
"""

from dataclasses import dataclass

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.touching import Groups, Touching, group

CLOSE = 1e-9


@dataclass(frozen=True)
class Surfaces:
    """The contact properties of each geom.

    Attributes:
        collides: whether a geom takes part in contact [ngeom].
        touching: which geoms of the file collide with each other.
        friction: [ngeom]; torsional and rolling likewise [m].
        torsional: see friction.
        rolling: see friction.
        restitution: of geoms that move.
    """

    collides: np.ndarray
    touching: Touching
    friction: np.ndarray
    torsional: np.ndarray
    rolling: np.ndarray
    restitution: float


def read_surfaces(reader: Reader, friction: float | None, restitution: float, self_collision: bool) -> Surfaces:
    """Surfaces of all geoms; ``friction`` replaces that of the file.

    Notes on what differs from the file are added to the reader's.
    """
    model = reader.file.model
    touching = Touching(reader, self_collision)
    groups = group(reader, touching)
    fit = _Fit(reader, touching, groups)
    paired = np.isin(np.arange(model.ngeom), [model.pair_geom1, model.pair_geom2])
    collides = (model.geom_contype | model.geom_conaffinity).astype(bool) | paired
    slide, spin, roll = fit.of_pairs()
    if friction is not None:
        values = np.full(len(groups.first), float(friction))
    else:
        values = fit.sliding(slide)
    torsional, rolling = (
        fit.turning(np.where(fit.dimension >= dimension, fit.own[:, column], 0.0), of_pairs)
        for dimension, column, of_pairs in ((4, 1, spin), (6, 2, roll))
    )
    for what, own, of_pairs in (("torsional", torsional, spin), ("rolling", rolling, roll)):
        fit.compare(f"{what} friction", own[:, None] + own[None, :], of_pairs)
    values, torsional, rolling = (of_group[groups.of_geom] for of_group in (values, torsional, rolling))
    return Surfaces(collides, touching, values, torsional, rolling, restitution)


def exclude(reader: Reader, surfaces: Surfaces, names: dict[int, str]) -> None:
    """Exclude the pairs of geoms that don't touch in the file; ``names`` are those of the geoms that collide.

    Those of one link, and so of the world, never do.
    """
    geoms = np.array(list(names), dtype=np.int64)
    links = np.array([reader.places[int(body)][0] for body in reader.file.model.geom_bodyid[geoms]])
    for number, geom in enumerate(geoms.tolist()):
        later = slice(number + 1, None)
        apart = ~surfaces.touching.of(geom)[geoms[later]] & (links[later] != links[number])
        for other in geoms[later][apart].tolist():
            reader.builder.exclude_geometries(names[geom], names[other])


class _Fit:
    """Chooses the friction of groups of geoms, so that pairs have that of the file.

    Attributes:
        dimension: MuJoCo's dimension of the contacts of each group [groups].
        own: sliding, torsional and rolling friction of each group [groups, 3].
    """

    def __init__(self, reader: Reader, touching: Touching, groups: Groups):
        model = reader.file.model
        self._reader, self._touching, self._groups = reader, touching, groups
        self._moves = touching.moves[groups.first]
        self._touch = groups.count > 0
        self._priority = model.geom_priority[groups.first]
        self.dimension = model.geom_condim[groups.first]
        self.own = model.geom_friction[groups.first]

    def of_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """MuJoCo's sliding, torsional and rolling friction of geoms of two groups, [groups, groups] each."""
        model = self._reader.file.model
        first, second = self._priority[:, None], self._priority[None, :]

        def mixed(values: np.ndarray) -> np.ndarray:
            """The value of the geom with the higher priority, or the larger one of equal priorities."""
            a, b = values[:, None], values[None, :]
            return np.where(first == second, np.maximum(a, b), np.where(first > second, a, b))

        dimension = mixed(self.dimension)
        slide, spin, roll = (mixed(self.own[:, column]) for column in range(3))
        group = self._groups.of_geom
        for number, (a, b) in enumerate(zip(group[model.pair_geom1], group[model.pair_geom2], strict=True)):
            dimension[a, b] = dimension[b, a] = model.pair_dim[number]
            for values, column in ((slide, 0), (spin, 2), (roll, 3)):
                values[a, b] = values[b, a] = model.pair_friction[number, column]
        return tuple(np.where(dimension >= least, x, 0.0) for x, least in ((slide, 3), (spin, 4), (roll, 6)))  # type: ignore[return-value]

    def sliding(self, of_pairs: np.ndarray) -> np.ndarray:
        """Friction of each group, chosen so that the products are those of the pairs: its own if that fits, otherwise
        near its own, and near 1 for what doesn't move.
        """
        stated = np.where(self.dimension >= 3, self.own[:, 0], 0.0)
        if self._agree(stated[:, None] * stated[None, :], of_pairs):
            return stated
        own = np.maximum(self.own[:, 0], 1e-12)
        rough = self._touch & (of_pairs > 0.0)
        logarithms = np.log(np.where(rough, of_pairs, 1.0))
        values = np.exp(self._shares(np.where(self._moves, np.log(own), 0.0), logarithms, rough))
        # A geom without friction on all that is fixed gets none; others keep theirs for what is added to the scene.
        on_ground = self._touch & ~self._moves[None, :]
        values[on_ground.any(axis=1) & ~rough.any(axis=1)] = 0.0
        self.compare("friction", values[:, None] * values[None, :], of_pairs)
        return values

    def turning(self, own: np.ndarray, of_pairs: np.ndarray) -> np.ndarray:
        """Torsional or rolling friction of each group, chosen so that the sums are those of the pairs: its own if that
        fits, otherwise near its own, and near 0 for what doesn't move.
        """
        if self._agree(own[:, None] + own[None, :], of_pairs):
            return own
        return np.maximum(self._shares(np.where(self._moves, own, 0.0), of_pairs, self._touch), 0.0)

    def _agree(self, here: np.ndarray, there: np.ndarray) -> bool:
        return bool((np.abs(here - there) <= CLOSE)[self._touch].all())

    def _shares(self, start: np.ndarray, of_pairs: np.ndarray, touch: np.ndarray) -> np.ndarray:
        """Values x of the groups near ``start`` such that x_i + x_j is that of the pair wherever two geoms touch; where
        there are none, a least-squares fit over all geoms.

        The equations of one geom of each group, scaled to be symmetric: the shortest solution is that of all geoms.
        """
        number = np.where(touch, self._groups.count, 0).astype(np.float64)
        missing = number * np.where(touch, of_pairs - start[:, None] - start[None, :], 0.0)
        scale = np.sqrt(self._groups.size)
        normal = (np.diag(number.sum(axis=1)) + number) * scale[:, None] / scale[None, :]
        return start + np.linalg.lstsq(normal, scale * missing.sum(axis=1), rcond=None)[0] / scale

    def compare(self, what: str, here: np.ndarray, there: np.ndarray) -> None:
        """Note the pairs whose value differs from the file's."""
        groups, differs = self._groups, self._touch & (np.abs(here - there) > CLOSE)
        if differs.any():
            pairs = int((groups.size[:, None] * np.where(differs, groups.count, 0)).sum()) // 2
            a, b = max(np.argwhere(np.triu(differs)), key=lambda pair: abs(here[*pair] - there[*pair]))
            geom = int(groups.first[a])
            other = np.flatnonzero(self._touching.of(geom) & (groups.of_geom == b))[0]
            geoms = " and ".join(self._reader.file.label("geom", int(one)) for one in (geom, other))
            self._reader.notes.append(
                f"{what} of {pairs} pairs of geoms differs from the file, since a pair's follows from the two "
                f"geometries here; most between {geoms}: {here[a, b]:.3g}, in the file {there[a, b]:.3g}"
            )
