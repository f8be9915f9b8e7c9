"""Derivatives of one step as matrices: one forward pass on a tape, then one backward pass per row."""

from typing import Any

import warp as wp

from sim.arrays.launch import clear, run_backward
from sim.simulation.stepping.pipeline import Step
from warp_kernels.linearise import linearise_kernels
from warp_kernels.linearise_drift import linearise_drift_kernels
from warp_kernels.rollout.checkpoint import checkpoint_kernels


class StepRows:
    """Launches that fill the matrices (see :mod:`warp_kernels.linearise`), for worlds whose adjoint is prepared.

    Args:
        step: working arrays and stages of these worlds.
        copies: number of consecutive worlds that are copies of one world, and share out its rows.
    """

    def __init__(self, step: Step, copies: int):
        self.step = step
        self.copies = copies
        # Number of times that the adjoint has been applied.
        self.row_cursor = wp.zeros(1, dtype=wp.int32, device=step.device)
        self.qd_path_bar = step.qd_path.grad if step.bouncing else step.device_model.none(step.scalar)
        self._kernels = linearise_kernels(step.scalar)
        self._tape = wp.Tape()

    def begin(self) -> None:
        """Take the step at the cursor on a tape, up to its velocities."""
        clear(self.row_cursor)
        self.step.load()
        with wp.Tape() as self._tape:
            self.step.record_velocity(self._tape)

    def find_row(self) -> None:
        """Apply the adjoint for the next row of each world, or of each copy."""
        step = self.step
        step.clear_adjoints()
        self._launch(self._kernels.begin_row, step.num_worlds)
        run_backward(self._tape)
        self._launch(self._kernels.end_row, step.num_worlds, control_bar=step.given_control.grad)
        self._launch(checkpoint_kernels(step.scalar).move_cursor, 1, cursor=self.row_cursor, by=1)

    def end(self) -> None:
        """Compute the rows of the coordinates from the others."""
        step = self.step
        dim, drift = (step.model.num_links, step.num_worlds), {"qd_path": step.drift_velocity, "dt": step.drift_time}
        if step.drifts_first and step.bouncing:
            self._launch(linearise_drift_kernels(step.scalar).reflect_rows, step.num_worlds)
        self._launch(self._kernels.coordinate_rows, dim, **drift)
        if step.drifts_first:
            self._launch(linearise_drift_kernels(step.scalar).first_drift_rows, dim)

    def _launch(self, kernel: wp.Kernel, dim: Any, **named: Any) -> None:
        self.step.launch(kernel, dim, self, self.step.activations, **named)
