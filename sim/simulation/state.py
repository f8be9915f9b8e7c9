"""State of all worlds at one time."""

from dataclasses import dataclass

import numpy as np
import warp as wp


@dataclass(frozen=True)
class Impulses:
    """The impulses of a step, with which the next one begins under ``ContactOptions(warm_start=True)``.

    Attributes:
        value: of the constraints of each world, zero where there is none [num_worlds, max_constraints, 3], N s or
            N m s.
        key: which constraint it was, for the next step to know it again [num_worlds, max_constraints, 2].
    """

    value: wp.array
    key: wp.array


@dataclass(frozen=True)
class State:
    """Coordinates and velocities of all worlds.

    Attributes:
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        impulses: those of the step that led here, for a warm start; None for zeros.
    """

    q: wp.array
    qd: wp.array
    impulses: Impulses | None = None

    def __repr__(self) -> str:
        warm = ", impulses" if self.impulses is not None else ""
        shapes = f"q {list(self.q.shape)}, qd {list(self.qd.shape)}{warm}"
        return f"State({shapes}, {self.q.dtype.__name__} on {self.q.device})"

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of q and qd as numpy arrays."""
        return self.q.numpy().copy(), self.qd.numpy().copy()
