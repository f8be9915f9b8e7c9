"""The stage of times of impact: where contacts bounce, positions move along the old velocity until then."""

from typing import Any

import warp as wp

from sim.arrays.allocation import fill
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.solver.impact_time import impact_time_kernels


class ImpactTimes(Stage):
    """Finds the velocity along which positions move; see :mod:`warp_kernels.solver.impact_time`.

    Args:
        step: the step's workspace.

    Attributes:
        bounces: struct of what rows of bouncing contacts are made of; without rows where nothing bounces.
        lag: what positions lag behind by, as a velocity [dof, world].
        hardening: by how much Newton's method takes softness back in a bounce.
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
        """Allocate what only the adjoint needs."""
        self.bounces_bar = self._rows(self.bounces.free.shape[0])
        self.lag_weight, self.free_weight = (self._step.worlds_last(self.lag.shape[0]) for _ in range(2))

    def find_path(self) -> None:
        """Find qd_path from the velocities before and after the impacts."""
        if self._step.bouncing:
            self._step.launch(self._kernels.path_velocity, self._step.num_worlds)

    def path_adjoint(self) -> None:
        """From the adjoint of qd_path to that of qd_next, and to what the times of impact are made of."""
        if self._step.bouncing:
            self._step.launch(self._kernels.path_adjoint, self._step.num_worlds)

    def bounce_adjoint(self) -> None:
        """From the adjoints of right-hand sides to those of the times of impact."""
        if self._step.bouncing:
            self._step.launch(self._kernels.bounce_adjoint, self._step.num_worlds)

    def _rows(self, constraints: int) -> Any:
        arrays = {name: self._step.worlds_last(constraints) for name in ("before", "free", "late")}
        return fill(self._step.structs.Bounces, **arrays)

    @property
    def _kernels(self) -> Any:
        return impact_time_kernels(self._step.scalar)
