"""Friction of pairs of geometries, as :mod:`warp_kernels.collision.materials` combines it, and its directions."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.model.geometries import PairFriction
from sim.model.model import Model
from sim.model.parameters import OF_PAIRS
from warp_kernels.collision.directions import ISOTROPIC, WORLD_AXES
from warp_kernels.collision.materials import FIRST, MAXIMUM, PRODUCT, SECOND, STATED
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, PLANE, warp_types

NAMES = ("friction", "torsional_friction", "rolling_friction")


def friction_rules(model: Model, pairs: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the friction rules of pairs of geometries.

    Args:
        model: the model.
        pairs: indices of both geometries.

    Returns:
        codes of :mod:`warp_kernels.collision.materials` [num_pairs]; index of each pair in ``model.pair_frictions``,
        -1 without its own friction [num_pairs].
    """
    listed, stated = list(pairs), _stated(model)
    numbers = [stated.get((min(pair), max(pair)), -1) for pair in listed]
    rules = [_rule(model, *pair) if own < 0 else STATED for pair, own in zip(listed, numbers, strict=True)]
    return np.array(rules, dtype=np.int32), np.array(numbers, dtype=np.int32)


def pair_friction(model: Model, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return sliding, torsional and rolling friction of pairs for the model's own parameters [num_pairs, 3].

    Where friction differs along two tangents, that of the first.
    """
    listed = list(pairs)
    both = np.array(listed, dtype=np.int64).reshape(-1, 2)
    rules, own = friction_rules(model, listed)
    stated = np.zeros((len(listed), 3))
    if (own >= 0).any():
        stated[own >= 0] = np.stack([model.parameters[f"pair_{name}"] for name in NAMES], axis=1)[own[own >= 0]]
    values = np.stack([model.parameters[name] for name in NAMES], axis=1)
    a, b = values[both[:, 0]], values[both[:, 1]]
    combined = np.concatenate([a[:, :1] * b[:, :1], a[:, 1:] + b[:, 1:]], axis=1)
    by_rule = {PRODUCT: combined, MAXIMUM: np.maximum(a, b), FIRST: a, SECOND: b, STATED: stated}
    return np.select([rules[:, None] == rule for rule in by_rule], list(by_rule.values()))


def five_frictions(model: Model) -> np.ndarray:
    """Return MuJoCo's five numbers of each pair with its own friction [num_pairs, 5]: two slides, spin, two rolls."""
    if not model.pair_frictions:
        return np.zeros((0, 5))
    slide, slide_across, spin, roll, roll_across = (model.parameters[name] for name in OF_PAIRS)
    isotropic = np.array([pair.is_isotropic for pair in model.pair_frictions])
    across = np.where(isotropic, slide, slide_across), np.where(isotropic, roll, roll_across)
    return np.stack([slide, across[0], spin, roll, across[1]], axis=1)


def has_directions(model: Model) -> bool:
    """Return whether the friction of a pair may differ along two tangents."""
    directed = any(geometry.collides and geometry.friction_direction is not None for geometry in model.geometries)
    return directed or not all(pair.is_isotropic for pair in model.pair_frictions)


def friction_directions(model: Model, pairs: list[tuple[int, int]], device: wp.DeviceLike) -> Any | None:
    """Return the ``Directions`` of :mod:`warp_kernels.collision.structs` of pairs; None if none of them has any.

    Where both geometries have a direction and neither a higher priority, it counts as if neither had one.
    """
    if not has_directions(model):
        return None
    t = warp_types(model.scalar)
    stated = {key: model.pair_frictions[index] for key, index in _stated(model).items()}
    guides = [_guide(model, pair, stated.get((min(pair), max(pair)))) for pair in pairs]

    def array(values: list[Any], dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    return fill(
        collision_structs(model.scalar).Directions,
        geometry=array([guide for guide, _ in guides], wp.int32),
        axis=array([axis for _, axis in guides], t.vec3),
        turn=array([_turn(model, pair, guide) for pair, (guide, _) in zip(pairs, guides, strict=True)], t.vec2),
        directed=array([int(geometry.friction_direction is not None) for geometry in model.geometries], wp.int32),
    )


def _stated(model: Model) -> dict[tuple[int, int], int]:
    """Return the index of each pair with its own friction, by its geometries."""
    return {(pair.a, pair.b): index for index, pair in enumerate(model.pair_frictions)}


def _guide(model: Model, pair: tuple[int, int], own: PairFriction | None) -> tuple[int, tuple[float, ...]]:
    """Return the geometry whose direction the first tangent of a pair follows, or a code, and that direction."""
    if own is not None and own.is_isotropic:
        return ISOTROPIC, (0.0, 0.0, 0.0)
    directed = [index for index in pair if model.geometries[index].friction_direction is not None]
    priorities = [model.geometries[index].contact_priority for index in pair]
    if own is None or len(directed) == 2:
        directed = [index for index in directed if model.geometries[index].contact_priority == max(priorities)]
    if len(directed) == 1:
        return directed[0], model.geometries[directed[0]].friction_direction or ()
    if own is None:
        return ISOTROPIC, (0.0, 0.0, 0.0)
    types = {model.geometries[index].type: index for index in pair}
    return (types[CAPSULE], (0.0, 0.0, 1.0)) if types.keys() == {PLANE, CAPSULE} else (WORLD_AXES, (0.0, 0.0, 0.0))


def _turn(model: Model, pair: tuple[int, int], guide: int) -> tuple[float, float]:
    """Return cosine and sine of the angle about the normal from the first geometry to the second one."""
    angle = model.geometries[guide].friction_angle if guide >= 0 else 0.0
    return float(np.cos(angle)), float(np.sin(angle)) * (1.0 if guide == pair[0] else -1.0)


def _rule(model: Model, i: int, j: int) -> int:
    a, b = model.geometries[i], model.geometries[j]
    if a.contact_priority != b.contact_priority:
        return FIRST if a.contact_priority > b.contact_priority else SECOND
    return MAXIMUM if a.friction_rule == b.friction_rule == "maximum" else PRODUCT
