"""The stage of stops: centres of free bodies are not carried through static triangle meshes."""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.arrays.launch import active_tape
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.stops import STOPS, StopPairs, stop_kernels


class Stops(Stage):
    """Reduces velocities that would carry a body through a mesh; see :mod:`warp_kernels.stops`.

    Args:
        step: the step's workspace.

    Attributes:
        stop_pairs: struct of the bodies and the meshes that they may touch.
        stop_pair, stop_triangle: pair and triangle of each stop of a body, in order [STOPS * bodies, world].
        stop_shift: change of each body's displacement [bodies, world], m.
        qd_unstopped: the velocity along which positions would move without stops [world, dof].
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        bodies = step.stopped
        self.stop_pairs = self._pairs(bodies)
        self._bodies = (len(bodies), step.num_worlds)
        self.stop_pair, self.stop_triangle = (step.worlds_last(STOPS * len(bodies), wp.int32) for _ in range(2))
        self.stop_shift = step.worlds_last(len(bodies), step.device_model.types.vec3)
        self._solved = step.joint_damping.qd_solved
        self.qd_unstopped = wp.zeros_like(self._solved) if step.bouncing else self._solved

    def _pairs(self, bodies: dict[int, list[tuple[int, int]]]) -> Any:
        step = self._step
        pairs = np.array([pair for body in bodies.values() for pair in body]).reshape(-1, 2)
        dof = np.full(step.model.nv, -1)
        for number, link in enumerate(bodies):
            start = step.model.joint_qd_start[link]
            dof[start : start + 3] = 3 * number + np.arange(3)
        numbers = {
            "link": np.array(list(bodies)),
            "start": np.cumsum([0, *map(len, bodies.values())]),
            "body": pairs[:, 0],
            "mesh": pairs[:, 1],
            "dof": dof,
        }
        return fill(StopPairs, **{name: step.integers(each) for name, each in numbers.items()})

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.stop_shift, self._solved, *([self.qd_unstopped] if self._step.bouncing else [])]

    def find(self) -> None:
        """Compute qd_next and qd_path from qd_solved and qd_unstopped; recorded on an active tape."""
        step, kernels = self._step, stop_kernels(self._step.scalar)
        step.launch(kernels.find_stops, self._bodies)
        if active_tape() is not None:
            step.launch(kernels.stop_shifts, self._bodies, tape=True)
        dofs = (step.model.nv, step.num_worlds)
        step.launch(kernels.apply_stops, dofs, tape=True, bouncing=int(step.bouncing))
