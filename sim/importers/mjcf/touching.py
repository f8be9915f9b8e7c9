"""Which geoms of an MJCF file touch, and groups of geoms that are alike in what they touch.

A table of all pairs of geoms would take memory with the square of their number, and the fit of their friction time with
its cube. Rows are computed where they are needed, and the fit is one of groups.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from sim.importers.mjcf.reader import Reader

# Rounds of refinement after which geoms are no longer grouped. Scenes of many bodies take two or three.
ROUNDS = 8


class Touching:
    """Whether MuJoCo looks for contacts of two geoms, row by row.

    Notes on pairs that never collide here are added to the reader's.

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
                    f"{reader.file.label('pair', number)}: links joined by a joint never collide here; "
                    "the pair is left out"
                )
            else:
                self._stated[a].append(b)
                self._stated[b].append(a)

    def of(self, geom: int) -> np.ndarray:
        """The geoms that a geom touches, as truth values [ngeom]."""
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
        """The geoms of the links that are joined to a geom's link; none for those that don't move [ngeom]."""
        if not self.moves[geom]:
            return np.zeros(len(self.moves), dtype=bool)
        beside = (self._above == self._weld[geom]) | (self._weld == self._above[geom])
        return np.asarray(self.moves & beside)


@dataclass(frozen=True)
class Groups:
    """Groups of geoms with the same properties, of which each touches as many geoms of any group as the others.

    Attributes:
        of_geom: the group of each geom, numbered by their first geoms [ngeom].
        first: the first geom of each group [groups].
        size: the number of geoms of each group [groups].
        count: how many geoms of a group (column) each geom of a group (row) touches [groups, groups].
    """

    of_geom: np.ndarray
    first: np.ndarray
    size: np.ndarray
    count: np.ndarray


def group(reader: Reader, touching: Touching) -> Groups:
    """Group the geoms of a file; those of stated pairs are alone."""
    model = reader.file.model
    alone = np.where(np.isin(np.arange(model.ngeom), [model.pair_geom1, model.pair_geom2]), np.arange(model.ngeom), -1)
    of_geom = _numbered(
        np.column_stack([touching.moves, model.geom_condim, model.geom_priority, model.geom_friction, alone])
    )
    chance = np.random.default_rng(0)
    for _ in range(ROUNDS):
        # Sums of one random number per group tell geoms apart that touch different numbers of a group.
        weights = chance.integers(0, 2**63, size=of_geom.max(initial=0) + 1)[of_geom]
        sums = [weights[touching.of(geom)].sum() for geom in range(model.ngeom)]
        finer = _numbered(np.column_stack([of_geom, _numbered(np.array(sums, dtype=np.int64)[:, None])]))
        if finer.max(initial=0) == of_geom.max(initial=0):
            break
        of_geom = finer
    else:
        of_geom = np.arange(model.ngeom)
    first = np.unique(of_geom, return_index=True)[1]
    size = np.bincount(of_geom, minlength=len(first))
    rows = [np.bincount(of_geom[touching.of(int(geom))], minlength=len(first)) for geom in first]
    return Groups(of_geom, first, size, np.array(rows, dtype=np.int64).reshape(len(first), len(first)))


def _numbered(keys: np.ndarray) -> np.ndarray:
    """Numbers of the different rows, in the order in which they first occur."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return np.asarray(order[inverse.reshape(-1)])
