"""What a step adds to gyroscopic forces and does to floating bases, for comparison with peers that do neither."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

import sim
from warp_kernels.types import FREE


def added_wrenches(simulator: sim.Simulator, common: bool = False) -> np.ndarray:
    """Moment about its origin, or its tree's, then force, along world axes on each link in the last step.

    They are [num_worlds, num_links, 6]. The simulator must have a single shard. The wrenches themselves are checked in
    ``test_gyroscopic.py``.
    """
    (shard,) = simulator.engine.shards
    step = shard.step
    found = np.zeros((simulator.num_worlds, simulator.model.num_links, 6))
    common_wrench, lifts = step.link_forces.common_wrench.worlds, step.link_forces.lift.worlds
    if common_wrench.shape[0]:
        found[:] = common_wrench.numpy().swapaxes(0, 1)
        if lifts.shape[0]:
            # Of links whose worlds know their inertia: mass, first moment.
            lift = lifts.numpy()[simulator.model.link_tree].swapaxes(0, 1)
            rigid = step.kinematics.link_inertia.worlds.numpy().swapaxes(0, 1)
            found[..., :3] += np.cross(rigid[..., 1:4], lift)
            found[..., 3:] += rigid[..., :1] * lift
        arms = (
            step.kinematics.pose.worlds.numpy().reshape(*step.kinematics.pose.worlds.shape, 7)[..., :3].swapaxes(0, 1)
        )
        if not common:
            found[..., :3] -= np.cross(arms, found[..., 3:])
    return found


@dataclass(frozen=True)
class Base:
    """A floating base: where its coordinates and velocities begin, and its centre of mass seen from its origin."""

    q: int
    qd: int
    centre: np.ndarray

    def arm(self, q: np.ndarray) -> np.ndarray:
        """From its origin to its centre of mass, along world axes."""
        return Rotation.from_quat(q[..., self.q + 3 : self.q + 7]).apply(self.centre)


def bases(model: sim.Model) -> list[Base]:
    """The floating bases of a model."""
    return [
        Base(int(model.joint_q_start[link]), int(model.joint_qd_start[link]), model.parameters["com"][link])
        for link in np.flatnonzero(model.joint_type == FREE)
    ]


def move_bases(model: sim.Model, dt: float, before: np.ndarray, q: np.ndarray, qd: np.ndarray) -> None:
    """After a step that moved the origins of floating bases along straight lines, move their centres of mass so.

    Args:
        model: the model.
        dt: time step.
        before: coordinates before the step [worlds, nq].
        q: those after it, which are changed.
        qd: velocities after it [worlds, nv], which are changed.
    """
    for base in bases(model):
        spin = qd[:, base.qd + 3 : base.qd + 6]
        arm = base.arm(before)
        back = arm - base.arm(q)
        q[:, base.q : base.q + 3] += back + dt * np.cross(spin, arm)
        qd[:, base.qd : base.qd + 3] += np.cross(spin, back)
