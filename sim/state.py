"""State of all worlds at one time."""

from dataclasses import dataclass

import numpy as np
import warp as wp


@dataclass(frozen=True)
class State:
    """Coordinates and velocities of all worlds.

    Attributes:
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
    """

    q: wp.array
    qd: wp.array

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of q and qd as numpy arrays."""
        return self.q.numpy().copy(), self.qd.numpy().copy()
