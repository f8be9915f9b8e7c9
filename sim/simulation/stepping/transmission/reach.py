"""How near contacts must be for actuators to pull at them."""

import numpy as np

from sim.model.model import Model
from sim.simulation.stepping.collision import CollisionModel


def pair_reach(model: Model, collision: CollisionModel) -> np.ndarray:
    """The distance below which contacts of each pair count for actuators that pull at them [num_pairs], m."""
    own = {(pair.a, pair.b): pair.contact_margin + pair.contact_gap for pair in model.pair_softness}
    each = np.array([geometry.contact_margin + geometry.contact_gap for geometry in model.geometries])
    a, b = collision.pair_a.numpy(), collision.pair_b.numpy()
    pairs = zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True)
    return np.array([own.get(pair, each[list(pair)].sum()) for pair in pairs])
