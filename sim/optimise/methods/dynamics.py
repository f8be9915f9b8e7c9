"""Motions of a batch under feedback, and their linearisation stage by stage."""

from dataclasses import dataclass

import numpy as np
import torch

from sim.arrays.critical_sections import sole_use
from sim.optimise.motion import Motion
from sim.optimise.problem import Problem, arrays_of, quiet
from sim.simulation.rollout import unguarded_rollout
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory

CHUNK = 4096  # states that are linearised at a time
Start = tuple[np.ndarray, np.ndarray, np.ndarray]  # q, qd and act


@dataclass
class States:
    """Motions with the states of every step.

    Attributes:
        q: coordinates [steps + 1, worlds, nq].
        qd: velocities [steps + 1, worlds, nv].
        act: states of actuators that have one [steps + 1, worlds, na].
        controls: controls [stages, worlds, size].
        force: contact forces that costs ask for, averaged over each stage [stages, worlds, measures, 3].
    """

    q: np.ndarray
    qd: np.ndarray
    act: np.ndarray
    controls: np.ndarray
    force: np.ndarray

    def of(self, worlds: np.ndarray) -> "States":
        """Return some of the worlds, by their indices."""
        return States(*(x[:, worlds] for x in self.arrays))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return all arrays, in their order."""
        return self.q, self.qd, self.act, self.controls, self.force


@dataclass
class Law:
    """Affine feedback law: controls are ``controls + step * feedforward + gains (x - nominal x)``.

    Attributes:
        nominal: the motion about which it is linear [.., worlds, ..].
        feedforward: change of the controls [stages, worlds, size].
        gains: feedback gains [stages, worlds, size, 2 nv + na].
    """

    nominal: States
    feedforward: np.ndarray
    gains: np.ndarray


class Dynamics:
    """The steps of a problem's simulator, for batches of motions.

    Args:
        problem: the problem.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.rollouts = 0

    def run(self, controls: np.ndarray, start: Start, first: int = 0) -> States:
        """Simulate given controls [stages, worlds, size], from q [nq] or [worlds, nq], qd and act likewise, from the
        first of these stages on.
        """
        problem, worlds = self.problem, controls.shape[1]
        simulator = problem.worlds(worlds)
        inputs = problem.inputs_of_arrays(controls, first)
        with quiet():
            trajectory = simulator.rollout(problem.start(simulator, *start), **inputs)
        self.rollouts += worlds
        q, qd, act = (x.copy() for x in arrays_of(trajectory))
        return States(q, qd, act, controls, self._force(simulator, trajectory))

    def follow(self, law: Law, steps: np.ndarray, start: Start) -> States:
        """Simulate a law, each of its worlds with every step length [k].

        Returns:
            motions of worlds * k worlds, the step lengths of a world adjacent.
        """
        problem, space = self.problem, self.problem.space
        stages, own, _ = law.feedforward.shape
        lengths, worlds = np.tile(steps, own), own * len(steps)
        which = np.repeat(np.arange(own), len(steps))
        nominal = law.nominal.of(which)
        forward = lengths[:, None] * law.feedforward[:, which]
        gains = law.gains[:, which]
        simulator = problem.worlds(worlds)
        state = problem.start(simulator, *start)
        states, controls = [tuple(x[None].copy() for x in arrays_of(state))], np.empty_like(nominal.controls)
        force = np.empty_like(nominal.force)
        for stage in range(stages):
            step = stage * problem.hold
            q, qd, act = (x[-1] for x in states[-1])
            turned = problem.tangent.difference_of_arrays(nominal.q[step], q)
            change = np.concatenate([turned, qd - nominal.qd[step], act - nominal.act[step]], axis=1)
            control = nominal.controls[stage] + forward[stage] + (gains[stage] @ change[:, :, None])[:, :, 0]
            # A diverged motion may contain anything; it is never chosen.
            controls[stage] = np.clip(np.where(np.isfinite(control), control, 0.0), space.low, space.high)
            trajectory = self._steps(simulator, state, controls[stage], stage)
            state = trajectory.final_state
            force[stage] = self._force(simulator, trajectory)[0]
            states.append(tuple(x[1:] for x in arrays_of(trajectory)))
        self.rollouts += worlds
        whole_q, whole_qd, whole_act = (np.concatenate(parts) for parts in zip(*states, strict=True))
        return States(whole_q, whole_qd, whole_act, controls, force)

    def _force(self, simulator: Simulator, trajectory: Trajectory) -> np.ndarray:
        """Return the measured forces of a trajectory's stages [stages, worlds, measures, 3]."""
        problem, raw = self.problem, trajectory.contact_force
        steps, worlds = trajectory.steps, simulator.num_worlds
        if raw is None:
            return np.zeros((steps // problem.hold, worlds, 0, 3))
        return problem.forces(simulator, torch.from_numpy(raw.numpy()), problem.hold).numpy().copy()

    def _steps(self, simulator: Simulator, state: State, controls: np.ndarray, stage: int) -> Trajectory:
        """Take the steps of a stage with controls [worlds, size]. Its states aren't modified, so no fingerprint is
        needed.
        """
        inputs = self.problem.inputs_of_arrays(controls[None], stage)
        with sole_use(), quiet():
            return unguarded_rollout(
                simulator, state, inputs.get("tau"), self.problem.hold, inputs.get("control"),
                kinematic_qd=inputs.get("kinematic_qd"), active=inputs.get("active"),
            )  # fmt: skip

    def linearise(self, states: States) -> tuple[np.ndarray, np.ndarray]:
        """Linearise the dynamics: ``dx+ = A dx + B du`` from each stage to the next.

        Returns:
            A [stages, worlds, n, n] and B [stages, worlds, n, size], where n is 2 nv + na.
        """
        problem, space = self.problem, self.problem.space
        stages, worlds, size = states.controls.shape
        hold = problem.hold
        every = {name: x.reshape(-1, x.shape[2]) for name, x in problem.inputs_of_arrays(states.controls).items()}
        q, qd, act = (x[:-1].reshape(stages * hold * worlds, x.shape[2]) for x in states.arrays[:3])
        found_A, found_B = [], []
        for first in range(0, len(q), CHUNK):
            part = slice(first, first + CHUNK)
            simulator = problem.worlds(len(q[part]))
            batches = simulator.engine.batches
            activations = batches.array(act[part], 2, "act") if problem.model.na else None
            state = State(batches.array(q[part], 2, "q"), batches.array(qd[part], 2, "qd"), act=activations)
            linear = simulator.linearise(state, **{name: x[part] for name, x in every.items()})
            found_A.append(linear.A)
            found_B.append(space.matrix(linear))
        n = 2 * problem.model.nv + problem.model.na
        A = np.concatenate(found_A).astype(np.float64).reshape(stages, hold, worlds, n, n)
        B = np.concatenate(found_B).astype(np.float64).reshape(stages, hold, worlds, n, size)
        whole_A, whole_B = A[:, 0], B[:, 0]
        for step in range(1, hold):
            whole_A, whole_B = A[:, step] @ whole_A, A[:, step] @ whole_B + B[:, step]
        return whole_A, whole_B

    def motion(self, states: States) -> Motion:
        """Return the motion that costs are evaluated on."""
        problem = self.problem
        q, qd, act, controls, force = (
            torch.as_tensor(np.ascontiguousarray(x), dtype=problem.dtype, device=problem.device)
            for x in (*(x[:: problem.hold] for x in states.arrays[:3]), states.controls, states.force)
        )
        return problem.seen(q, qd, act, controls, force if force.shape[2] else None)

    def forces(self, motion: Motion) -> torch.Tensor:
        """Return the contact forces of a motion's stages [stages, worlds, measures, 3], differentiable in the state and
        the controls of each stage, from which it is simulated again.
        """
        problem, shape = self.problem, motion.controls.shape[:2]
        state = [x[:-1].flatten(0, 1) for x in (motion.q, motion.qd, motion.act)]
        controls = motion.controls.flatten(0, 1)[None]
        active = None if problem.active is None else np.repeat(problem.active, shape[1], axis=0)[None]
        found = []
        for first in range(0, controls.shape[1], CHUNK):
            part = slice(first, first + CHUNK)
            on = None if active is None else active[:, part]
            here = controls[:, part]
            _, force = problem.simulate(problem.worlds(here.shape[1]), [x[part] for x in state], here, on)
            assert force is not None, "some cost asks for it"
            found.append(force[0])
        return torch.cat(found).unflatten(0, shape)

    def costs(self, states: States) -> np.ndarray:
        """Return costs [worlds]; infinite where a motion diverges."""
        with torch.no_grad():
            cost = self.problem.cost(self.motion(states)).cpu().numpy().astype(np.float64)
        return np.where(np.isfinite(cost), cost, np.inf)
