"""Friction of pairs of geometries, as :mod:`warp_kernels.collision.materials` combines it."""

from collections.abc import Iterable

import numpy as np

from sim.model.model import Model
from warp_kernels.collision.materials import FIRST, MAXIMUM, PRODUCT, SECOND, STATED

NAMES = ("friction", "torsional_friction", "rolling_friction")


def friction_rules(model: Model, pairs: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the friction rules of pairs of geometries.

    Returns:
        codes of :mod:`warp_kernels.collision.materials` [num_pairs]; sliding, torsional and rolling friction if stated
        for the pair, otherwise zero [num_pairs, 3].
    """
    stated = {
        (pair.a, pair.b): (pair.friction, pair.torsional_friction, pair.rolling_friction)
        for pair in model.pair_frictions
    }
    rules, frictions = [], []
    for i, j in pairs:
        own = stated.get((min(i, j), max(i, j)))
        rules.append(_rule(model, i, j) if own is None else STATED)
        frictions.append((0.0, 0.0, 0.0) if own is None else own)
    return np.array(rules, dtype=np.int32), np.array(frictions).reshape(-1, 3)


def pair_friction(model: Model, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return sliding, torsional and rolling friction of pairs for the model's own parameters [num_pairs, 3]."""
    listed = list(pairs)
    both = np.array(listed, dtype=np.int64).reshape(-1, 2)
    rules, stated = friction_rules(model, listed)
    values = np.stack([model.parameters[name] for name in NAMES], axis=1)
    a, b = values[both[:, 0]], values[both[:, 1]]
    combined = np.concatenate([a[:, :1] * b[:, :1], a[:, 1:] + b[:, 1:]], axis=1)
    by_rule = {PRODUCT: combined, MAXIMUM: np.maximum(a, b), FIRST: a, SECOND: b, STATED: stated}
    return np.select([rules[:, None] == rule for rule in by_rule], list(by_rule.values()))


def _rule(model: Model, i: int, j: int) -> int:
    a, b = model.geometries[i], model.geometries[j]
    if a.contact_priority != b.contact_priority:
        return FIRST if a.contact_priority > b.contact_priority else SECOND
    return MAXIMUM if a.friction_rule == b.friction_rule == "maximum" else PRODUCT
