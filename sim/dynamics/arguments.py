"""Checks of arguments: names of frames and references, coordinates of a configuration."""

from collections.abc import Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.checks import names_in
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from warp_kernels.kinematics import frames as codes

REFERENCES = {"local_world_aligned": codes.LOCAL_WORLD_ALIGNED, "world": codes.WORLD, "local": codes.LOCAL}
Names = tuple[str, ...]


def frame_names(model: Model, frames: Sequence[str] | None) -> Names:
    """Return names of frames, those of all links for None. Raises ModelError for a single string and unknown frames."""
    if frames is None:
        return model.link_names
    if isinstance(frames, str):
        raise ModelError(f"frames is the string '{frames}'; give a sequence of names, such as ['{frames}']")
    names = names_in("frames", frames)
    for name in names:
        model.frame(name)
    return names


def reference_code(name: str | None) -> int:
    """Return the code of a reference by name. Raises ModelError for an unknown one."""
    if not isinstance(name, str) or name not in REFERENCES:
        raise ModelError(f"unknown reference '{name}'; known are {', '.join(REFERENCES)}")
    return REFERENCES[name]


# Length of a quaternion below which it counts as zero.
SHORTEST = 1e-6


def require_coordinates(model: Model, where: str, q: np.ndarray) -> None:
    """Check that coordinates [states, num_worlds, nq] are finite and have no zero quaternion.

    Raises:
        ModelError: naming the caller ``where``, and the first invalid state, world and joint.
    """
    ends = np.append(model.joint_q_start, model.nq)[1:].tolist()
    turning = [
        end for kind, end in zip(model.joint_type, ends, strict=True) if JOINT_TYPES[int(kind)].quaternion is not None
    ]
    if np.isfinite(q).all() and all((_length(q, end) >= SHORTEST).all() for end in turning):
        return
    for link, (first, end) in enumerate(zip(model.joint_q_start, ends, strict=True)):
        problem, bad = "isn't finite", ~np.isfinite(q[..., first:end]).all(axis=-1)
        if end in turning and not bad.any():
            problem, bad = "has a zero quaternion", _length(q, end) < SHORTEST
        if bad.any():
            state, world = np.argwhere(bad)[0]
            raise ModelError(f"{where}: q {problem} in state {state}, world {world}, joint '{model.joint_names[link]}'")


def _length(q: np.ndarray, end: int) -> np.ndarray:
    """Return the length of the quaternion whose last entry is the one before ``end``."""
    return np.linalg.norm(q[..., end - 4 : end], axis=-1)
