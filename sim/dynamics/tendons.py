"""Lengths of tendons."""

import numpy as np
import warp as wp

from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model
from sim.model.tendons.course import lengths_of, tendon_places


def tendon_lengths(model: Model, q: np.ndarray) -> np.ndarray:
    """The length of each tendon for coordinates [nq], by the model's own parameters [num_tendons], m."""
    tendons = model.tendons
    if not tendons.names:
        return np.zeros(0)
    poses = np.zeros((0, 7))
    if len(tendons.point_link):
        given: wp.array = wp.array(q[None], dtype=model.scalar, device="cpu")  # so that no GPU has to be there
        poses = forward_kinematics(model, given).numpy()[0]
    coordinates = q[model.dof_q[tendons.term_dof]]
    places = tendon_places(tendons, model.parameters, poses)
    return lengths_of(tendons, model.parameters["tendon_coefficient"], coordinates, *places)
