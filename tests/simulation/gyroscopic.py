"""What a step adds to gyroscopic forces, for comparison with peers that evaluate them before the step."""

import numpy as np

import sim
from warp_kernels.types import FREE, SPHERICAL


def turning_links(model: sim.Model) -> np.ndarray:
    """Indices of the links whose gyroscopic forces follow the midpoint rule."""
    return np.flatnonzero(np.isin(model.joint_type, (FREE, SPHERICAL)))


def added_wrenches(simulator: sim.Simulator) -> np.ndarray:
    """Moment about its origin, then force, along world axes on each link in the last step [num_worlds, num_links, 6].

    The simulator must have a single shard. The wrenches themselves are checked in ``test_gyroscopic.py``.
    """
    (shard,) = simulator.shards
    step = shard.step
    found = np.zeros((simulator.num_worlds, simulator.model.num_links, 6))
    if step.common_wrench.shape[0]:
        found[:] = step.common_wrench.numpy().swapaxes(0, 1)
        arms = step.pose.numpy().reshape(*step.pose.shape, 7)[..., :3].swapaxes(0, 1)
        found[..., :3] -= np.cross(arms, found[..., 3:])
    return found
