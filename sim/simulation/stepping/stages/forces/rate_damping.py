"""Damping along rows in the middle of a step: velocity-dependent forces of tendons and frames."""

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from sim.arrays.allocation import integer_array, zeros
from sim.arrays.launch import clear
from sim.simulation.stepping.tendon_layout import damped_lines, damped_tendons
from warp_kernels.solver.midpoint.rate_damping import rate_damping_kernels, rate_gain_kernels
from warp_kernels.solver.tendons.armature import tendon_armature_kernels

if TYPE_CHECKING:
    from sim.simulation.stepping.midpoint import MidpointStep
    from sim.simulation.stepping.workspace import Workspace


class RateDamping:
    """Base of the damping along some rows; see :mod:`warp_kernels.solver.midpoint.rate_damping`.

    Its arrays have the names by which kernels for the armature of tendons know theirs.

    Args:
        step: workspace of the step.
        slopes: Jacobians of rows [row, dof, world].
        rows: the rows that damp, and the last degree of freedom that each acts on [n, 2].

    Attributes:
        rate_gain: damping d [row, world].
        mobility: sum of J_k^2 / m_k [row, world].
        tendon_armature: e [world, row].
        heavy_tendon, heavy_tail: columns of ``rows``.
        tendon_curvature: zeros; armature_scratch: scratch.
    """

    def __init__(self, step: "MidpointStep", slopes: wp.array, rows: np.ndarray):
        self._step, self.tendon_slope = step, slopes
        scalar, worlds, count = step.scalar, step.num_worlds, slopes.shape[0]
        self._kernels, self._armature = rate_damping_kernels(scalar), tendon_armature_kernels(scalar)
        self.heavy_tendon, self.heavy_tail = (integer_array(column, step.device) for column in rows.T)
        self.rate_gain, self.mobility = (zeros((count, worlds), scalar, step.device) for _ in range(2))
        self.tendon_armature = zeros((worlds, count), scalar, step.device)
        self.tendon_curvature = zeros((len(rows), worlds), scalar, step.device)
        self.armature_scratch = zeros((step.model.nv, worlds), scalar, step.device)

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.rate_gain, self.mobility, self.tendon_armature, self.tendon_curvature]

    def find_rows(self) -> None:
        """Compute d and, where no other stage has, the Jacobians; recorded on an active tape."""
        raise NotImplementedError

    def damp(self) -> None:
        """Add the damping to factors and accelerations; e is recorded on an active tape."""
        self.find_rows()
        clear(self.mobility)
        self._over_rows(self._kernels.rate_mobility)
        self._over_rows(self._kernels.rate_armature)
        self._launch(self._armature.add_tendon_armature)

    def write_masses(self, step: "Workspace") -> None:
        """Add the damping to entries of the mass matrix."""
        self._launch(self._armature.tendon_masses)

    def adjoint(self) -> None:
        """Add the adjoints of Jacobians and e."""
        self._launch(self._armature.tendon_armature_adjoint)

    def _over_rows(self, kernel: wp.Kernel, *dim: int) -> None:
        self._launch(kernel, *(dim or self.rate_gain.shape[:1]), tape=True)

    def _launch(self, kernel: wp.Kernel, *dim: int, tape: bool = False) -> None:
        self._step.launch(kernel, (*dim, self._step.num_worlds), self, *self._others(), tape=tape)

    def _others(self) -> tuple[Any, ...]:
        """Return other sources of arguments."""
        return ()


class TendonRates(RateDamping):
    """Dampers of tendons, and velocity gains of their actuators."""

    def find_rows(self) -> None:
        """Compute the damping of all tendons."""
        kernels = rate_gain_kernels(self._step.scalar)
        self._over_rows(kernels.tendon_gains)
        if (self._step.model.actuator_tendon >= 0).any():
            self._over_rows(kernels.tendon_actuator_gains)

    def _others(self) -> tuple[Any, ...]:
        return (self._step.tendons,)


class LineRates(RateDamping):
    """Velocity gains of actuators on frames."""

    def find_rows(self) -> None:
        """Compute the gains of all actuators on frames."""
        self._over_rows(rate_gain_kernels(self._step.scalar).line_gains)

    def _others(self) -> tuple[Any, ...]:
        return (self._step.transmissions,)


def rate_damping(step: "MidpointStep") -> list[RateDamping]:
    """Return the damping of the step's tendons and frames, where their joints are on one path."""
    found: list[RateDamping] = []
    if step.tendons:
        rows = damped_tendons(step.model)
        found += [TendonRates(step, step.tendons.tendon_slope, rows)] if len(rows) else []
    if step.transmissions:
        rows = damped_lines(step.model)
        found += [LineRates(step, step.transmissions.line_slope, rows)] if len(rows) else []
    return found
