"""Damping along rows in the middle of a step: velocity-dependent forces of tendons and frames."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from sim.arrays.allocation import integer_array, zeros
from sim.arrays.launch import clear
from sim.simulation.stepping.tendon_layout import DAMPED_LINE, DAMPED_TENDON, damped_lines, damped_tendons
from warp_kernels.actuators.tendon_sums import tendon_sum_kernels
from warp_kernels.solver.midpoint.rate_damping import damper_row_kernels, rate_damping_kernels, rate_gain_kernels
from warp_kernels.solver.tendons.armature import tendon_armature_kernels

if TYPE_CHECKING:
    from sim.simulation.stepping.midpoint import MidpointStep
    from sim.simulation.stepping.workspace import Workspace


class RateDamping(ABC):
    """Base of the damping along some rows; see :mod:`warp_kernels.solver.midpoint.rate_damping`.

    Its arrays have the names by which kernels for the armature of tendons know theirs.

    Args:
        step: workspace of the step.
        slopes: Jacobians of rows [row, dof, world].
        rows: the rows that damp on one path, and the last degree of freedom that each acts on [n, 2].
        kind: DAMPED_TENDON or DAMPED_LINE, for those that damp on two.

    Attributes:
        rate_gain, rate_secant: dampings d and D [row, world].
        mobility: sum of J_k^2 / m_k [row, world].
        tendon_armature: e [world, row].
        heavy_tendon, heavy_tail: columns of ``rows``.
        damper: index of each damper on two paths among the rows of tendons; damper_row: its row here [n].
        tendon_curvature: zeros; armature_scratch: scratch.
    """

    def __init__(self, step: "MidpointStep", slopes: wp.array, rows: np.ndarray, kind: int):
        self._step, self.tendon_slope = step, slopes
        scalar, worlds, count = step.scalar, step.num_worlds, slopes.shape[0]
        self._kernels, self._armature = rate_damping_kernels(scalar), tendon_armature_kernels(scalar)
        self.heavy_tendon, self.heavy_tail = (integer_array(column, step.device) for column in rows.T)
        self.rate_gain, self.rate_secant, self.mobility = (
            zeros((count, worlds), scalar, step.device) for _ in range(3)
        )
        self.tendon_armature = zeros((worlds, count), scalar, step.device)
        self.tendon_curvature = zeros((len(rows), worlds), scalar, step.device)
        self.armature_scratch = zeros((step.model.nv, worlds), scalar, step.device)
        self.on_one_path = len(rows) > 0
        tendons = step.tendons
        dampers = tendons.dampers if tendons else np.zeros((0, 4), dtype=np.int32)
        chosen = np.flatnonzero(dampers[:, 0] == kind)
        self.damper = step.integers(chosen + (tendons.num_constraints if tendons else 0))
        self.damper_row = step.integers(dampers[chosen, 1])
        self._count = len(chosen)

    @property
    def damps(self) -> bool:
        """Return whether there is such damping."""
        return self.on_one_path or self._count > 0

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.rate_gain, self.rate_secant, self.mobility, self.tendon_armature, self.tendon_curvature]

    @abstractmethod
    def find_rows(self) -> None:
        """Compute d and, where no other stage has, the Jacobians; recorded on an active tape."""

    def damp(self) -> None:
        """Add the damping on one path to factors and accelerations, and write the rows of that on two; e and the rows
        are recorded on an active tape.
        """
        self.find_rows()
        clear(self.mobility)
        self._over_rows(self._kernels.rate_mobility)
        self._over_rows(self._kernels.rate_armature)
        if self.on_one_path:
            self._launch(self._armature.add_tendon_armature)
        if self._count:
            kernels = damper_row_kernels(self._step.scalar)
            self._over_rows(kernels.damper_rows, self._count, self._step.model.nv)
            self._over_rows(kernels.damper_references, self._count)
            self._launch(kernels.damper_activity, self._count)

    def write_masses(self, step: "Workspace") -> None:
        """Add the damping to entries of the mass matrix."""
        self._launch(self._armature.tendon_masses)

    def adjoint(self) -> None:
        """Add the adjoints of Jacobians and e of the damping on one path."""
        if self.on_one_path:
            self._launch(self._armature.tendon_armature_adjoint)

    def _over_rows(self, kernel: wp.Kernel, *dim: int, **named: Any) -> None:
        self._launch(kernel, *(dim or self.rate_gain.shape[:1]), tape=True, **named)

    def _launch(self, kernel: wp.Kernel, *dim: int, tape: bool = False, **named: Any) -> None:
        self._step.launch(kernel, (*dim, self._step.num_worlds), self, *self._others(), tape=tape, **named)

    def _others(self) -> tuple[Any, ...]:
        """Return other sources of arguments."""
        return ()


class TendonRates(RateDamping):
    """Dampers of tendons, and velocity gains of their actuators.

    Attributes:
        sum_limit: force limits of actuators [world, actuator], zero where the sum of a tendon's forces is bounded.
    """

    def __init__(self, step: "MidpointStep", slopes: wp.array, rows: np.ndarray, kind: int):
        super().__init__(step, slopes, rows, kind)
        count = step.model.nu if step.model.bounds_sums else 0
        self.sum_limit = zeros((step.num_worlds, count), step.scalar, step.device)

    def find_rows(self) -> None:
        """Compute the damping of all tendons."""
        kernels = rate_gain_kernels(self._step.scalar)
        self._over_rows(kernels.tendon_gains)
        if (self._step.model.actuator_tendon >= 0).any():
            self._over_rows(kernels.tendon_actuator_gains, **self._limits())

    def _limits(self) -> dict[str, Any]:
        """Return gains of actuators whose force limits are zero where the sum of a tendon's forces is bounded."""
        step = self._step
        if not step.model.bounds_sums:
            return {}
        self._launch(tendon_sum_kernels(step.scalar).limits_of_sums, step.model.nu)
        gains = step.actuation.gains
        gains.force_limit = self.sum_limit
        return {"gains": gains}

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
    """Return the damping of the step's tendons and frames, where their joints are on one path or two."""
    model, found = step.model, list[RateDamping]()
    if step.tendons:
        found.append(TendonRates(step, step.tendons.tendon_slope, damped_tendons(model), DAMPED_TENDON))
    if step.transmissions:
        found.append(LineRates(step, step.transmissions.line_slope, damped_lines(model), DAMPED_LINE))
    return [rates for rates in found if rates.damps]
