"""The common benchmark case: hand-written quadrupeds standing on four feet, held by joint springs."""

from dataclasses import dataclass

import numpy as np
import warp as wp

import sim
from scenes import crowd
from scenes.mjcf import to_mjcf
from scenes.quadruped import LEGS

DT = 1.0e-3  # [s]
STIFFNESS = 200.0  # stiffness of every joint spring [N m/rad]
DAMPING = 5.0  # damping of every joint [N m s/rad]
SETTLE_STEPS = 1000


@dataclass(frozen=True)
class Standing:
    """A simulator whose robots stand at rest on four feet.

    Attributes:
        simulator: the simulator.
        state: the settled state, the same in every world.
    """

    simulator: sim.Simulator
    state: sim.State

    def check_contacts(self) -> None:
        """Check that every robot had four contacts in the last step.

        Raises:
            RuntimeError: if not, since the robots then do not stand.
        """
        counts = np.concatenate(
            [shard.step.contact_stage.contact_count.numpy() for shard in self.simulator.engine.shards]
        )
        expected = len(LEGS) * self.simulator.model.num_trees
        if (counts != expected).any():
            raise RuntimeError(f"standing robots have {expected} contacts, but there are {np.unique(counts)}")

    def control(self, steps: int) -> wp.array:
        """Return zero joint forces [steps, num_worlds, nv]; the springs hold the robots."""
        model = self.simulator.model
        shape = (steps, self.simulator.num_worlds, model.nv)
        return wp.zeros(shape, dtype=model.scalar, device=self.simulator.device)


def standing(
    worlds: int,
    *,
    device: str,
    dtype: str,
    cores: int,
    contact: sim.ContactMethod | None = None,
    robots: int = 1,
    threads_per_world: int = 1,
) -> Standing:
    """Settle one world with ``robots`` robots, then copy its state to all worlds."""
    scene = crowd.herd(robots, dtype)
    parameters = crowd.springs(scene, STIFFNESS, DAMPING)
    one = sim.Simulator(scene.model, DT, 1, device, contact, parameters, threads=1)
    settled = one.rollout(one.state(scene.q0), steps=SETTLE_STEPS).final_state
    simulator = one.replace(worlds, threads=cores, threads_per_world=threads_per_world)
    return Standing(simulator, simulator.state(settled.q.numpy()[0], settled.qd.numpy()[0]))


def start_pose(robots: int = 1) -> np.ndarray:
    """Return the start pose in MuJoCo's order."""
    scene = crowd.herd(robots, "float64")
    return np.asarray(sim.to_mujoco(scene.model, scene.q0, scene.qd0)[0])


def mjcf(robots: int, sweeps: int) -> str:
    """Return the same scene for MuJoCo, without the springs."""
    return to_mjcf(crowd.herd(robots, "float64").model, dt=DT, sweeps=sweeps)
