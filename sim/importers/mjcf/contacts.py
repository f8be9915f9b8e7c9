"""Which geoms of an MJCF file collide, and with what friction.

MuJoCo decides by bits, bodies and lists of pairs, and takes the larger friction of two geoms. Here a pair's friction is
the product of the two, torsional and rolling friction their sum: each geom gets the value with which the pairs of the
file have the same friction as in MuJoCo, as far as such values exist.
"""

from dataclasses import dataclass

import numpy as np

from sim.importers.mjcf.reader import Reader

CLOSE = 1e-9


@dataclass(frozen=True)
class Surfaces:
    """The contact properties of each geom.

    Attributes:
        collides: whether a geom takes part in contact [ngeom].
        touch: whether two geoms of the file collide with each other [ngeom, ngeom].
        friction: [ngeom]; torsional and rolling likewise [m].
        torsional: see friction.
        rolling: see friction.
        restitution: of geoms that move.
    """

    collides: np.ndarray
    touch: np.ndarray
    friction: np.ndarray
    torsional: np.ndarray
    rolling: np.ndarray
    restitution: float


def read_surfaces(reader: Reader, friction: float | None, restitution: float, self_collision: bool) -> Surfaces:
    """Surfaces of all geoms; ``friction`` replaces that of the file.

    Notes on what differs from the file are added to the reader's.
    """
    model = reader.file.model
    touch, moves = _touching(reader), model.body_weldid[model.geom_bodyid] > 0
    if not self_collision:
        touch &= ~(moves[:, None] & moves[None, :])
    paired = np.isin(np.arange(model.ngeom), [model.pair_geom1, model.pair_geom2])
    collides = (model.geom_contype | model.geom_conaffinity).astype(bool) | paired
    slide, spin, roll = _of_pairs(reader)
    if friction is not None:
        values = np.full(model.ngeom, float(friction))
    else:
        values = _sliding(reader, slide, touch, moves)
    torsional, rolling = (
        _turning(np.where(model.geom_condim >= dimension, own, 0.0), of_pairs, touch, moves)
        for dimension, own, of_pairs in ((4, model.geom_friction[:, 1], spin), (6, model.geom_friction[:, 2], roll))
    )
    for what, own, of_pairs in (("torsional", torsional, spin), ("rolling", rolling, roll)):
        _compare(reader, f"{what} friction", own[:, None] + own[None, :], of_pairs, touch)
    return Surfaces(collides, touch, values, torsional, rolling, restitution)


def exclude(reader: Reader, surfaces: Surfaces, names: dict[int, str]) -> None:
    """Exclude the pairs of geoms that don't touch in the file; ``names`` are those of the geoms that collide.

    Those of one link, and so of the world, never do.
    """
    geoms = np.array(list(names), dtype=np.int64)
    links = np.array([reader.places[int(body)][0] for body in reader.file.model.geom_bodyid[geoms]])
    apart = ~surfaces.touch[np.ix_(geoms, geoms)] & (links[:, None] != links[None, :])
    for a, b in np.argwhere(np.triu(apart)):
        reader.builder.exclude_geometries(names[int(geoms[a])], names[int(geoms[b])])


def _touching(reader: Reader) -> np.ndarray:
    """Whether MuJoCo looks for contacts of two geoms [ngeom, ngeom]."""
    model = reader.file.model
    bits = model.geom_contype[:, None] & model.geom_conaffinity[None, :]
    body = model.geom_bodyid
    weld = model.body_weldid[body]
    above = model.body_weldid[model.body_parentid[weld]]
    inside = (weld[:, None] > 0) & (weld[None, :] > 0)
    neighbours = inside & ((above[:, None] == weld[None, :]) | (weld[:, None] == above[None, :]))
    touch = ((bits | bits.T) != 0) & ~neighbours
    for signature in model.exclude_signature:
        a, b = body == int(signature) >> 16, body == int(signature) & 0xFFFF
        touch &= ~((a[:, None] & b[None, :]) | (b[:, None] & a[None, :]))
    for number, (a, b) in enumerate(zip(model.pair_geom1, model.pair_geom2, strict=True)):
        if neighbours[a, b]:
            reader.notes.append(
                f"{reader.file.label('pair', number)}: links joined by a joint never collide here; the pair is left out"
            )
        else:
            touch[a, b] = touch[b, a] = True
    return touch & (weld[:, None] != weld[None, :])


def _of_pairs(reader: Reader) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MuJoCo's sliding, torsional and rolling friction of two geoms, [ngeom, ngeom] each."""
    model = reader.file.model
    first, second = model.geom_priority[:, None], model.geom_priority[None, :]

    def mixed(values: np.ndarray) -> np.ndarray:
        """The value of the geom with the higher priority, or the larger one of equal priorities."""
        a, b = values[:, None], values[None, :]
        return np.where(first == second, np.maximum(a, b), np.where(first > second, a, b))

    dimension = mixed(model.geom_condim)
    of_pairs = [mixed(model.geom_friction[:, column]) for column in range(3)]
    for number, (a, b) in enumerate(zip(model.pair_geom1, model.pair_geom2, strict=True)):
        dimension[a, b] = dimension[b, a] = model.pair_dim[number]
        for values, column in zip(of_pairs, (0, 2, 3), strict=True):
            values[a, b] = values[b, a] = model.pair_friction[number, column]
    return tuple(np.where(dimension >= least, values, 0.0) for values, least in zip(of_pairs, (3, 4, 6), strict=True))  # type: ignore[return-value]


def _sliding(reader: Reader, of_pairs: np.ndarray, touch: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Friction of each geom, chosen so that the products are those of the pairs: its own if that fits, otherwise near
    its own, and near 1 for what doesn't move.
    """
    stated = np.where(reader.file.model.geom_condim >= 3, reader.file.model.geom_friction[:, 0], 0.0)
    if _agree(stated[:, None] * stated[None, :], of_pairs, touch):
        return stated
    own = np.maximum(reader.file.model.geom_friction[:, 0], 1e-12)
    rough = touch & (of_pairs > 0.0)
    logarithms = np.log(np.where(rough, of_pairs, 1.0))
    values = np.exp(_shares(np.where(moves, np.log(own), 0.0), logarithms, rough))
    # A geom without friction on all that is fixed gets none; others keep theirs for what is added to the scene.
    on_ground = touch & ~moves[None, :]
    values[on_ground.any(axis=1) & ~rough.any(axis=1)] = 0.0
    _compare(reader, "friction", values[:, None] * values[None, :], of_pairs, touch)
    return values


def _turning(own: np.ndarray, of_pairs: np.ndarray, touch: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Torsional or rolling friction of each geom, chosen so that the sums are those of the pairs: its own if that fits,
    otherwise near its own, and near 0 for what doesn't move.
    """
    if _agree(own[:, None] + own[None, :], of_pairs, touch):
        return own
    return np.maximum(_shares(np.where(moves, own, 0.0), of_pairs, touch), 0.0)


def _agree(here: np.ndarray, there: np.ndarray, touch: np.ndarray) -> bool:
    return bool((np.abs(here - there) <= CLOSE)[touch].all())


def _shares(start: np.ndarray, of_pairs: np.ndarray, touch: np.ndarray) -> np.ndarray:
    """Values x of the geoms near ``start`` such that x_i + x_j is that of the pair wherever two touch; where there are
    none, a least-squares fit.
    """
    number = touch.astype(np.float64)
    missing = np.where(touch, of_pairs - start[:, None] - start[None, :], 0.0)
    normal = np.diag(number.sum(axis=1)) + number
    return start + np.linalg.lstsq(normal, missing.sum(axis=1), rcond=None)[0]


def _compare(reader: Reader, what: str, here: np.ndarray, there: np.ndarray, touch: np.ndarray) -> None:
    """Note the pairs whose value differs from the file's."""
    differ = np.argwhere(np.triu(touch & (np.abs(here - there) > CLOSE)))
    if len(differ):
        a, b = max(differ, key=lambda pair: abs(here[*pair] - there[*pair]))
        geoms = " and ".join(reader.file.label("geom", int(geom)) for geom in (a, b))
        reader.notes.append(
            f"{what} of {len(differ)} pairs of geoms differs from the file, since a pair's follows from the two "
            f"geometries here; most between {geoms}: {here[a, b]:.3g}, in the file {there[a, b]:.3g}"
        )
