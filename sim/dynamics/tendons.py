"""Lengths of tendons."""

import numpy as np

from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose


def tendon_lengths(model: Model, q: np.ndarray) -> np.ndarray:
    """The length of each tendon for coordinates [nq], by the model's own parameters [num_tendons], m."""
    tendons, parameters = model.tendons, model.parameters
    poses = forward_kinematics(model, q[None]).numpy()[0] if len(tendons.point_link) else np.zeros((0, 7))
    places = [
        compose(poses[link].astype(np.float64), np.concatenate([point, IDENTITY[3:]]))[:3] if link >= 0 else point
        for link, point in zip(tendons.point_link.tolist(), parameters.get("tendon_point", ()), strict=True)
    ]
    lengths = np.zeros(len(tendons.names))
    for tendon in range(len(lengths)):
        for term in tendons.terms(tendon):
            lengths[tendon] += parameters["tendon_coefficient"][term] * q[model.dof_q[tendons.term_dof[term]]]
        for segment in tendons.segments(tendon):
            at = int(tendons.segment_point[segment])
            lengths[tendon] += tendons.segment_share[segment] * np.linalg.norm(places[at + 1] - places[at])
    return lengths
