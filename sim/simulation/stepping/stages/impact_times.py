"""Stage of impact times: until a contact bounces, positions follow the old velocity."""

from typing import Any

import warp as wp

from sim.arrays.allocation import fill
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.solver.impact_time import impact_time_kernels


class ImpactTimes(Stage):
    """Stage that computes the velocity of positions; see :mod:`warp_kernels.solver.impact_time`.

    Args:
        step: workspace of the step.

    Attributes:
        bounces: struct of the inputs of bouncing contacts' rows; without rows if nothing bounces.
        lag: lag of positions behind the next velocity, as a velocity [dof, world].
        hardening: compensation of Newton's compliance in a bounce.
        bounces_bar, lag_weight, free_weight: of the adjoint.
    """

    lag_weight: wp.array
    free_weight: wp.array
    bounces_bar: Any

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.bounces: Any = self._rows(step.max_constraints if step.bouncing else 0)
        self.lag = step.worlds_last(step.model.nv if step.bouncing else 0)
        self.hardening = step.worlds_last(step.max_constraints if step.bouncing and step.newton else 0)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        self.bounces_bar = self._rows(self.bounces.free.shape[0])
        self.lag_weight, self.free_weight = (self._step.worlds_last(self.lag.shape[0]) for _ in range(2))

    def find_path(self) -> None:
        """Compute qd_path from the velocities before and after the impacts."""
        if self._step.bouncing:
            self._step.launch(self._kernels.path_velocity, self._step.num_worlds)

    def path_adjoint(self) -> None:
        """Propagate the adjoint of qd_path to qd_next and to the inputs of impact times."""
        if self._step.bouncing:
            self._step.launch(self._kernels.path_adjoint, self._step.num_worlds)

    def bounce_adjoint(self) -> None:
        """Propagate the adjoints of right-hand sides to the impact times."""
        if self._step.bouncing:
            self._step.launch(self._kernels.bounce_adjoint, self._step.num_worlds)

    def _rows(self, constraints: int) -> Any:
        arrays = {name: self._step.worlds_last(constraints) for name in ("before", "free", "late")}
        return fill(self._step.structs.Bounces, **arrays)

    @property
    def _kernels(self) -> Any:
        return impact_time_kernels(self._step.scalar)
