"""Pairs of geometries that never touch, kept as what they follow from."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import combinations, product

import numpy as np


class ExcludedPairs(Set[tuple[int, int]]):
    """The pairs (i, j) of geometry indices, i < j, that never touch: a set that doesn't change.

    In a robot of n links none of which touch each other there are n^2 / 2 such pairs. What they follow from takes n
    numbers; the pairs themselves are made only where somebody walks through them.

    Args:
        bodies: the body of each geometry that collides, by the geometry's index. Links welded together are one body.
        neighbours: pairs of bodies (a, b), a <= b, whose geometries never touch.
        groups: bodies of which no two different ones touch.
        single: pairs of geometries (i, j), i < j.
    """

    def __init__(
        self,
        bodies: Mapping[int, int],
        neighbours: Iterable[tuple[int, int]],
        groups: Iterable[Collection[int]],
        single: Iterable[tuple[int, int]],
    ):
        self._bodies = dict(bodies)
        self._neighbours = frozenset(neighbours)
        self._groups = tuple(frozenset(group) for group in groups)
        self._single = frozenset(single)
        self._groups_of: dict[int, set[int]] = {}
        for number, group in enumerate(self._groups):
            for body in group:
                self._groups_of.setdefault(body, set()).add(number)

    def __contains__(self, pair: object) -> bool:
        if pair in self._single:
            return True
        if not isinstance(pair, tuple):
            return False
        i, j = pair
        a, b = self._bodies.get(i, -1), self._bodies.get(j, -1)
        if a < 0 or b < 0 or i >= j:
            return False
        if ((a, b) if a <= b else (b, a)) in self._neighbours:
            return True
        groups, others = self._groups_of.get(a), self._groups_of.get(b)
        return groups is not None and others is not None and a != b and not groups.isdisjoint(others)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        shapes: dict[int, list[int]] = {}
        for geometry, body in self._bodies.items():
            shapes.setdefault(body, []).append(geometry)
        pairs = {pair for group in self._groups for pair in combinations(sorted(group & shapes.keys()), 2)}
        found = {
            (min(i, j), max(i, j))
            for a, b in pairs | self._neighbours
            for i, j in product(shapes.get(a, ()), shapes.get(b, ()))
            if i != j
        }
        return iter(found | self._single)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"ExcludedPairs({set(self)})"

    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the pairs follow from, for :meth:`from_arrays`: int64 arrays [n, 2].

        Geometries with their bodies, neighbours, groups with their bodies, and single pairs.
        """
        members = [(number, body) for number, group in enumerate(self._groups) for body in group]
        parts = (self._bodies.items(), self._neighbours, members, self._single)
        return tuple(np.array(sorted(part), dtype=np.int64).reshape(-1, 2) for part in parts)

    @classmethod
    def from_arrays(
        cls, bodies: np.ndarray, neighbours: np.ndarray, members: np.ndarray, single: np.ndarray
    ) -> "ExcludedPairs":
        """The set whose :meth:`arrays` these are."""
        groups: dict[int, list[int]] = {}
        for number, body in members.tolist():
            groups.setdefault(number, []).append(body)
        pairs = ([(a, b) for a, b in part.tolist()] for part in (neighbours, single))
        return cls(dict(bodies.tolist()), next(pairs), groups.values(), next(pairs))

    @classmethod
    def _from_iterable(cls, pairs: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:  # type: ignore[override]
        """What unions and other operations make."""
        return frozenset(pairs)
