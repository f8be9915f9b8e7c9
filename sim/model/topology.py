"""Topology beyond the trees: equality constraints, actuators on frames and contacts, excluded pairs."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from sim.model.softness import Softness


@dataclass(frozen=True)
class Equalities:
    """Equality constraints of a model; their anchors, ratios and offsets are parameters.

    Attributes:
        anchor_names: [num_anchors].
        anchor_link_a: first link of each pair of anchors, -1 for the world [num_anchors].
        anchor_link_b: second link [num_anchors].
        anchor_welded: 1 for coincident axes, too [num_anchors].
        anchor_softness: softness under MuJoCo's law [num_anchors].
        anchor_torque_scale: weight of a weld's rotations relative to displacements under that law [num_anchors], m.
        anchor_weighed_at: for both links, the centre of mass of the one that the anchor was added to, before others
            were welded to it [num_anchors, 2, 3], m, where that law evaluates inverse masses.
        coupling_names: joint that follows another [num_couplings].
        coupling_dof: degree of freedom of that joint [num_couplings].
        coupling_other: degree of freedom of the other joint [num_couplings].
        coupling_softness: softness under MuJoCo's law [num_couplings].
        coupling_q0: initial coordinate of the joint if it weren't coupled [num_couplings], rad or m, at which MuJoCo's
            law evaluates inverse masses.
    """

    anchor_names: tuple[str, ...]
    anchor_link_a: np.ndarray
    anchor_link_b: np.ndarray
    anchor_welded: np.ndarray
    anchor_softness: tuple[Softness, ...]
    anchor_torque_scale: np.ndarray
    anchor_weighed_at: np.ndarray
    coupling_names: tuple[str, ...]
    coupling_dof: np.ndarray
    coupling_other: np.ndarray
    coupling_softness: tuple[Softness, ...]
    coupling_q0: np.ndarray

    @property
    def num_constraints(self) -> int:
        """Return the number of their constraint blocks."""
        return len(self.anchor_names) + int(self.anchor_welded.sum()) + len(self.coupling_names)


# Instead of a link: a frame whose force is along its own axes, or an adhesion, which has no frame.
NO_LINK = -2


@dataclass(frozen=True)
class Transmissions:
    """Actuators of a model on frames and contacts; force and torque axes are parameters.

    Attributes:
        actuator: index of each one among the actuators [n].
        target: name of its frame or link; for an adhesion, of the link [n].
        reference: name of the frame that it is relative to; empty for none [n].
        link: link of its frame, -1 for the world, -2 for an adhesion [n].
        placement: pose of the frame in that link [n, 7].
        reference_link: link of the reference frame, -1 for the world, -2 for none [n].
        reference_placement: pose of the reference frame in its link [n, 7].
        adheres: 1 for geometries whose contacts an adhesion pulls [n, num_geometries].
    """

    actuator: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    target: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))
    reference_link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    reference_placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))
    adheres: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.actuator)


class ExcludedPairs(Set[tuple[int, int]]):
    """Immutable set of the pairs (i, j) of geometry indices, i < j, that never collide.

    A robot of n links that never collide with each other has n^2 / 2 such pairs. They are stored in n numbers, and
    enumerated only on iteration.

    Args:
        bodies: body of each geometry that collides, by the geometry's index. Links welded together are one body.
        neighbours: pairs of bodies (a, b), a <= b, whose geometries never collide.
        groups: bodies of which no two different ones collide.
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
        """Return the stored form of the set, for :meth:`from_arrays`: int64 arrays [n, 2].

        They are geometries with their bodies, neighbours, groups with their bodies, and single pairs.
        """
        members = [(number, body) for number, group in enumerate(self._groups) for body in group]
        parts = (self._bodies.items(), self._neighbours, members, self._single)
        return tuple(np.array(sorted(part), dtype=np.int64).reshape(-1, 2) for part in parts)

    @classmethod
    def from_arrays(
        cls, bodies: np.ndarray, neighbours: np.ndarray, members: np.ndarray, single: np.ndarray
    ) -> "ExcludedPairs":
        """Return the set whose :meth:`arrays` these are."""
        groups: dict[int, list[int]] = {}
        for number, body in members.tolist():
            groups.setdefault(number, []).append(body)
        pairs = ([(a, b) for a, b in part.tolist()] for part in (neighbours, single))
        return cls(dict(bodies.tolist()), next(pairs), groups.values(), next(pairs))

    @classmethod
    def _from_iterable(cls, pairs: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:  # type: ignore[override]
        """Return the result of unions and other operations."""
        return frozenset(pairs)
