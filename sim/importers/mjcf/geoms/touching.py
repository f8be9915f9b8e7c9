"""Which geoms of an MJCF file touch.

A table of all pairs of geoms would take memory with the square of their number: its rows are computed where needed.
"""

from collections import defaultdict

import numpy as np

from sim.importers.mjcf.reader import Reader


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
