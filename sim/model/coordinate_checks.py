"""Are coordinates those of a configuration?"""

import itertools

import numpy as np

from sim.errors import ModelError
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model


def require_coordinates(model: Model, where: str, q: np.ndarray) -> None:
    """Check that coordinates [states, num_worlds, nq] are finite and have no zero quaternion.

    Raises:
        ModelError: naming the first state, world and joint where they aren't; ``where`` says who asks.
    """
    starts = np.append(model.joint_q_start, model.nq)
    for link, (first, end) in enumerate(itertools.pairwise(starts)):
        part = q[..., first:end]
        problem, bad = "isn't finite", ~np.isfinite(part).all(axis=-1)
        if JOINT_TYPES[int(model.joint_type[link])].quaternion is not None and not bad.any():
            problem, bad = "has a zero quaternion", np.linalg.norm(part[..., -4:], axis=-1) < 1e-6
        if bad.any():
            state, world = np.argwhere(bad)[0]
            raise ModelError(f"{where}: q {problem} in state {state}, world {world}, joint '{model.joint_names[link]}'")
