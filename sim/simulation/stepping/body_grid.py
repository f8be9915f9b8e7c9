"""Broad phase by a grid, for worlds of many bodies: memory and time are linear in their number."""

import copy
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.errors import ModelError
from sim.model.model import Model
from sim.simulation.options import ContactMethod, HardContact, MujocoContact
from sim.simulation.stepping.collision import (
    MOST_LISTED,
    CollisionModel,
    by_type,
    family_of,
    is_crowd,
    may_touch,
    radius_of,
    require_contact_function,
)
from sim.simulation.stepping.pair_friction import friction_rules, has_directions
from warp_kernels import types as codes
from warp_kernels.collision.broad_phase import WORD
from warp_kernels.collision.grid.cells import grid_structs
from warp_kernels.collision.pairs import COLLISION_PAIRS, CONVEX_SHAPES, FAMILIES, HULLS

# Size relative to the median above which a geometry is compared with all others, unless too many are that large.
LARGE = 4.0
MOST_LARGE = 16
# Width of a cell relative to the extent of a typical geometry.
WIDTH = 3.0
# Capacity for candidate pairs relative to that for contacts.
PAIRS_PER_CONTACT = 4
TYPES = 16


def collision_model(
    model: Model, device: wp.DeviceLike, sensed: Sequence[int | str], contact: ContactMethod, max_contacts: int
) -> CollisionModel:
    """Return the collision arrays of a model: with a grid for a crowd, unless MuJoCo's law or Gauss-Seidel is used.

    These two need a list of all pairs. ``max_contacts`` is the contact capacity of a world.

    Raises:
        ModelError: for a crowd with friction that differs along two directions.
    """
    if is_crowd(model) and isinstance(contact, HardContact):
        if has_directions(model):
            raise ModelError(
                "the model has friction that differs along two directions, which needs a list of all pairs, and more "
                f"than {MOST_LISTED} geometries that move; remove friction_direction and pairs of two frictions, or "
                "choose sim.MujocoContact"
            )
        return GridCollision(model, device, sensed, contact.margin, max_contacts)
    return CollisionModel(model, device, sensed, isinstance(contact, MujocoContact), max_contacts)


class GridCollision(CollisionModel):
    """Collision arrays of a model whose candidate pairs are found by a grid, see :mod:`warp_kernels.collision.grid`.

    Attributes are those of :class:`CollisionModel`, except that pairs belong to a shard, see :meth:`for_worlds`, and

        num_pairs: capacity for candidate pairs of a world; before :meth:`for_worlds`, 1 if there may be any.
        grid: geometries in the grid, and the rules by which two of them may touch.
        num_families: number of families of pairs.
    """

    by_grid = True

    def __init__(
        self, model: Model, device: wp.DeviceLike, sensed: Sequence[int | str], margin: float, max_contacts: int
    ):
        self._share(model, device, sensed, False, lambda sides: max_contacts)
        self._scalar = model.scalar
        self._structs = grid_structs(model.scalar)
        members = [index for index, geometry in enumerate(model.geometries) if geometry.collides]
        self.colliding = self._integers(members)
        radius = {index: radius_of(model.geometries[index]) for index in members}
        self._in_cells = _in_cells(radius)
        pairs = _compared(model, members, self._in_cells)
        families = _families(model, self._in_cells, pairs)
        self._families = [family for family in FAMILIES if family in families.values()]
        self.num_pairs = self.num_families = len(self._families)
        self._set_types(families)
        self.grid = self._grid(model, members, pairs, families, radius, margin)
        packed = {kind for types, family in families.items() if family == CONVEX_SHAPES for kind in types}
        on_ground = [pair for pair in pairs if FAMILIES[family_of(model, *pair)] in HULLS]
        shapes = {index for index in members if model.geometries[index].type in packed}
        self._pack_shapes(model, shapes | {body for body, _ in on_ground}, on_ground)

    def for_worlds(self, num_worlds: int, max_contacts: int) -> "GridCollision":
        """Return a copy with the working arrays of some worlds.

        Each geometry has a capacity of four candidate pairs per contact of the average capacity, in words of 32.
        """
        own = copy.copy(self)
        members = self.colliding.shape[0]
        own.grid = fill(self._structs.Grid, **{name: getattr(self.grid, name) for name in self._structs.Grid.vars})
        own.grid.words = max(-(-PAIRS_PER_CONTACT * max_contacts // (max(members, 1) * WORD)), 1)
        room = members * own.grid.words * WORD
        own.num_pairs = room * self.num_families
        total = own.num_pairs * num_worlds
        own.pair_a, own.pair_b, own.pair_rule, own.pair_stated = (
            wp.zeros(total, dtype=wp.int32, device=self._device) for _ in range(4)
        )
        own.no_friction = wp.zeros(total, dtype=codes.warp_types(self._scalar).vec3, device=self._device)
        own.pairs = {family: own._pairs_between(0, 0, first_bit=0, end_bit=0, room=0) for family in FAMILIES}
        for index, family in enumerate(self._families):
            between = index * room * num_worlds, (index + 1) * room * num_worlds
            bits = {"first_bit": index * room, "end_bit": (index + 1) * room}
            own.pairs[family] = own._pairs_between(*between, room=room, **bits)
        own.searched = own.evaluated = own.pairs
        own.candidates = fill(
            self._structs.CandidatePairs,
            a=own.pair_a,
            b=own.pair_b,
            rule=own.pair_rule,
            stated=own.pair_stated,
            bits=own.all_candidates(num_worlds),
        )
        own.found = own.candidates
        buckets = 1 << max(8 * members - 1, 1).bit_length()
        own.cells = fill(
            self._structs.Cells,
            head=wp.zeros((buckets, num_worlds), dtype=wp.int32, device=self._device),
            following=wp.zeros((members, num_worlds), dtype=wp.int32, device=self._device),
            cell=wp.zeros((members, num_worlds), dtype=wp.vec3i, device=self._device),
        )
        return own

    def _grid(
        self,
        model: Model,
        members: list[int],
        pairs: list[tuple[int, int]],
        families: dict[tuple[int, int], str],
        radius: dict[int, float],
        margin: float,
    ) -> Any:
        slot = {index: number for number, index in enumerate(members)}
        geometries = [model.geometries[index] for index in members]
        # A pair within the grid belongs to its first geometry, any other pair to the geometry in the grid, of which
        # there are many.
        owned: list[list[tuple[int, int]]] = [[] for _ in members]
        for pair in pairs:
            owner = pair[0] if pair[0] in self._in_cells else pair[1]
            owned[slot[owner]].append(pair)
        listed = list(itertools.chain.from_iterable(owned))
        rules, stated = friction_rules(model, listed)
        partners = [[b if a == index else a for a, b in own] for index, own in zip(members, owned, strict=True)]
        excluded: list[set[int]] = [set() for _ in members]
        for a, b in itertools.chain(model.excluded_pairs, pairs):
            if a in self._in_cells and b in self._in_cells:
                excluded[slot[a]].add(slot[b])
                excluded[slot[b]].add(slot[a])
        common = float(np.median([radius[index] for index in self._in_cells])) if self._in_cells else 1.0
        table = np.zeros((TYPES, TYPES))
        for types, family in families.items():
            table[types] = self._families.index(family)
        return fill(
            self._structs.Grid,
            width=model.scalar(WIDTH * (common + 0.5 * margin)),
            words=1,
            in_cells=self._integers([index in self._in_cells for index in members]),
            is_static=self._integers([not model.is_movable(geometry.link) for geometry in geometries]),
            group=self._bits([geometry.group for geometry in geometries]),
            mask=self._bits([geometry.mask for geometry in geometries]),
            priority=self._integers([geometry.contact_priority for geometry in geometries]),
            takes_larger=self._integers([geometry.friction_rule == "maximum" for geometry in geometries]),
            partner_start=self._integers(_starts(partners)),
            partner=self._integers(list(itertools.chain.from_iterable(partners))),
            partner_rule=self._integers(rules),
            partner_stated=self._integers(stated),
            excluded_start=self._integers(_starts(excluded)),
            excluded=self._integers(list(itertools.chain.from_iterable(map(sorted, excluded)))),
            family=self._integers(table.reshape(-1)),
        )

    def _bits(self, values: list[int]) -> wp.array:
        words = (np.array(values, dtype=np.int64) & 0xFFFFFFFF).astype(np.uint32)
        return wp.array(words, dtype=wp.uint32, device=self._device)


def _starts(parts: Iterable[Any]) -> np.ndarray:
    return np.cumsum([0, *map(len, parts)])


def _in_cells(radius: dict[int, float]) -> frozenset[int]:
    """Return the geometries in the grid: bounded ones, except for a few that are much larger than others."""
    finite = [index for index in radius if np.isfinite(radius[index])]
    if not finite:
        return frozenset()
    largest = LARGE * np.median([radius[index] for index in finite])
    large = [index for index in finite if radius[index] > largest]
    return frozenset(finite).difference(large if len(large) <= MOST_LARGE else ())


def _compared(model: Model, members: list[int], in_cells: frozenset[int]) -> list[tuple[int, int]]:
    """Return the pairs compared without a grid: of geometries outside of it, and with a pair friction."""
    outside = [index for index in members if index not in in_cells]
    found = [(i, j) for number, i in enumerate(outside) for j in outside[number + 1 :]]
    found += [(i, j) for i in outside for j in members if j in in_cells]
    found += [(p.a, p.b) for p in model.pair_frictions if p.a in in_cells and p.b in in_cells]
    pairs = [by_type(model, i, j) for i, j in found if may_touch(model, i, j)]
    for pair in pairs:
        require_contact_function(model, *pair)
    return pairs


def _families(model: Model, in_cells: frozenset[int], pairs: list[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return the family of each possible pair of types."""
    kinds = sorted({model.geometries[index].type for index in in_cells})
    types = {(i, j) for i in kinds for j in kinds if i <= j} if len(in_cells) > 1 else set()
    types |= {(model.geometries[i].type, model.geometries[j].type) for i, j in pairs}
    return {pair: COLLISION_PAIRS[pair][0] for pair in sorted(types)}
