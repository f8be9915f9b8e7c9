"""The case that everything here measures: the hand-written quadruped on four feet, held by springs in its joints."""

from dataclasses import dataclass

import numpy as np
import warp as wp

import sim
from scenes import quadruped

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
        if (counts != len(quadruped.LEGS)).any():
            raise RuntimeError(f"a standing robot has {len(quadruped.LEGS)} contacts; there are {np.unique(counts)}")

    def control(self, steps: int) -> wp.array:
        """Joint forces of zero [steps, num_worlds, nv]; the springs do the work."""
        model = self.simulator.model
        shape = (steps, self.simulator.num_worlds, model.nv)
        return wp.zeros(shape, dtype=model.scalar, device=self.simulator.device)


def standing(worlds: int, *, device: str, dtype: str, sweeps: int, cores: int, adjoint: str = "unrolled") -> Standing:
    """Settle one world, then copy its state to all."""
    scene = quadruped.build(dtype)
    contact = sim.ContactOptions(sweeps=sweeps, adjoint=adjoint)
    parameters = _springs(scene)
    one = sim.Simulator(scene.model, DT, 1, device, contact, parameters, threads=1)
    settled = one.rollout(one.state(scene.q0), steps=SETTLE_STEPS).final_state
    simulator = sim.Simulator(scene.model, DT, worlds, device, contact, parameters, threads=cores)
    return Standing(simulator, simulator.state(settled.q.numpy()[0], settled.qd.numpy()[0]))


def start_pose() -> np.ndarray:
    """The start pose in MuJoCo's order."""
    scene = quadruped.build("float64")
    return np.asarray(sim.to_mujoco(scene.model, scene.q0, scene.qd0)[0])


def _springs(scene: quadruped.QuadrupedScene) -> dict[str, np.ndarray]:
    model = scene.model
    joints = model.dof_q >= 0
    rest = np.where(joints, scene.q0[model.dof_q], 0.0)
    return {"stiffness": STIFFNESS * joints, "damping": DAMPING * joints, "rest_position": rest}
