"""Friction of pairs of geometries, as :mod:`warp_kernels.collision.materials` combines it, and its directions."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.model.model import Model, PairFriction
from warp_kernels.collision.directions import ISOTROPIC, WORLD_AXES
from warp_kernels.collision.materials import FIRST, MAXIMUM, PRODUCT, SECOND, STATED
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, PLANE, warp_types

NAMES = ("friction", "torsional_friction", "rolling_friction")


def friction_rules(
    model: Model, pairs: Iterable[tuple[int, int]], by_mujoco: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the friction rules of pairs of geometries.

    Args:
        model: the model.
        pairs: indices of both geometries.
        by_mujoco: whether the contact law is MuJoCo's, for which rolling friction is that about the first tangent, not
            the larger one.

    Returns:
        codes of :mod:`warp_kernels.collision.materials` [num_pairs]; sliding, torsional and rolling friction if stated
        for the pair, otherwise zero [num_pairs, 3].
    """
    stated = _stated(model)
    rules, frictions = [], []
    for i, j in pairs:
        own = stated.get((min(i, j), max(i, j)))
        rules.append(_rule(model, i, j) if own is None else STATED)
        frictions.append((0.0, 0.0, 0.0))
        if own is not None:
            frictions[-1] = (own.friction, own.torsional_friction, _rolling(own, by_mujoco))
    return np.array(rules, dtype=np.int32), np.array(frictions).reshape(-1, 3)


def pair_friction(model: Model, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return sliding, torsional and rolling friction of pairs for the model's own parameters [num_pairs, 3].

    Where friction differs along two tangents, that of the first.
    """
    listed = list(pairs)
    both = np.array(listed, dtype=np.int64).reshape(-1, 2)
    rules, stated = friction_rules(model, listed, by_mujoco=True)
    values = np.stack([model.parameters[name] for name in NAMES], axis=1)
    a, b = values[both[:, 0]], values[both[:, 1]]
    combined = np.concatenate([a[:, :1] * b[:, :1], a[:, 1:] + b[:, 1:]], axis=1)
    by_rule = {PRODUCT: combined, MAXIMUM: np.maximum(a, b), FIRST: a, SECOND: b, STATED: stated}
    return np.select([rules[:, None] == rule for rule in by_rule], list(by_rule.values()))


def has_directions(model: Model) -> bool:
    """Return whether the friction of a pair may differ along two tangents."""
    directed = any(geometry.collides and geometry.friction_direction is not None for geometry in model.geometries)
    return directed or not all(pair.is_isotropic for pair in model.pair_frictions)


def friction_directions(
    model: Model, pairs: list[tuple[int, int]], by_mujoco: bool, device: wp.DeviceLike
) -> Any | None:
    """Return the ``Directions`` of :mod:`warp_kernels.collision.structs` of pairs; None if none of them has any.

    Where both geometries have a direction and neither a higher priority, it counts as if neither had one.
    """
    if not has_directions(model):
        return None
    stated, t = _stated(model), warp_types(model.scalar)
    guides = [_guide(model, pair, stated.get((min(pair), max(pair)))) for pair in pairs]
    owners = [stated.get((min(pair), max(pair))) for pair in pairs]
    rolling = [(1.0, 1.0) if own is None else _lengths(own, by_mujoco) for own in owners]

    def array(values: list[Any], dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    return fill(
        collision_structs(model.scalar).Directions,
        geometry=array([guide for guide, _ in guides], wp.int32),
        axis=array([axis for _, axis in guides], t.vec3),
        turn=array([_turn(model, pair, guide) for pair, (guide, _) in zip(pairs, guides, strict=True)], t.vec2),
        across=array([0.0 if own is None else own.friction_across for own in owners], model.scalar),
        rolling=array(rolling, t.vec2),
        directed=array([int(geometry.friction_direction is not None) for geometry in model.geometries], wp.int32),
    )


def _stated(model: Model) -> dict[tuple[int, int], PairFriction]:
    return {(pair.a, pair.b): pair for pair in model.pair_frictions}


def _rolling(own: PairFriction, by_mujoco: bool) -> float:
    """Return the rolling friction of the circular cone, see :mod:`warp_kernels.collision.directions`."""
    return own.rolling_friction if by_mujoco else max(own.rolling_friction, own.rolling_friction_across)


def _lengths(own: PairFriction, by_mujoco: bool) -> tuple[float, float]:
    """Return the lengths of both tangents for rolling friction."""
    whole = _rolling(own, by_mujoco)
    return (own.rolling_friction / whole, own.rolling_friction_across / whole) if whole > 0.0 else (1.0, 1.0)


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
