"""The case that everything here measures: hand-written quadrupeds on four feet, held by springs in their joints."""

from dataclasses import dataclass

import numpy as np
import warp as wp

import sim
from scenes import crowd
from scenes.mjcf import to_mjcf
from scenes.quadruped import LEGS

DT = 1.0e-3  # [s]
STIFFNESS = 200.0  # of every joint spring [N m/rad]
DAMPING = 5.0  # of every joint [N m s/rad]
SETTLE_STEPS = 1000


@dataclass(frozen=True)
class Standing:
    """A simulator with its worlds at rest on four feet.

    Attributes:
        simulator: the simulator.
        state: the settled state, the same in every world.
    """

    simulator: sim.Simulator
    state: sim.State

    def check_contacts(self) -> None:
        """Make sure that all worlds had four contacts in the last step that was taken.

        Raises:
            RuntimeError: otherwise, since the times would not be those of standing.
        """
        counts = np.concatenate([shard.step.contact_count.numpy() for shard in self.simulator.shards])
        expected = len(LEGS) * self.simulator.model.num_trees
        if (counts != expected).any():
            raise RuntimeError(f"standing robots have {expected} contacts; there are {np.unique(counts)}")

    def control(self, steps: int) -> wp.array:
        """Joint forces of zero [steps, num_worlds, nv]; the springs do the work."""
        model = self.simulator.model
        shape = (steps, self.simulator.num_worlds, model.nv)
        return wp.zeros(shape, dtype=model.scalar, device=self.simulator.device)


def standing(
    worlds: int, *, device: str, dtype: str, sweeps: int, cores: int, adjoint: str = "unrolled", robots: int = 1
) -> Standing:
    """Settle one world, then copy its state to all. robots: how many stand in a world."""
    scene = crowd.herd(robots, dtype)
    contact = sim.ContactOptions(sweeps=sweeps, adjoint=adjoint)
    parameters = crowd.springs(scene, STIFFNESS, DAMPING)
    one = sim.Simulator(scene.model, DT, 1, device, contact, parameters, threads=1)
    settled = one.rollout(one.state(scene.q0), steps=SETTLE_STEPS).final_state
    simulator = sim.Simulator(scene.model, DT, worlds, device, contact, parameters, threads=cores)
    return Standing(simulator, simulator.state(settled.q.numpy()[0], settled.qd.numpy()[0]))


def start_pose(robots: int = 1) -> np.ndarray:
    """The start pose in MuJoCo's order."""
    scene = crowd.herd(robots, "float64")
    return np.asarray(sim.to_mujoco(scene.model, scene.q0, scene.qd0)[0])


def mjcf(robots: int, sweeps: int) -> str:
    """The same scene for MuJoCo, without the springs."""
    return to_mjcf(crowd.herd(robots, "float64").model, dt=DT, sweeps=sweeps)
