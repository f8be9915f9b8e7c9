"""Projected Gauss-Seidel, with the adjoint of its solution or of its sweeps."""

from typing import Any

import warp as wp

from sim.simulation.options import PgsContact
from sim.simulation.stepping.solvers.solver import ConstraintSolver
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.implicit import implicit_kernels
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.pgs import pgs_kernels
from warp_kernels.solver.warm_start import warm_start_kernels


class Pgs(ConstraintSolver):
    """Sweeps over the constraints of a world, see :mod:`warp_kernels.solver.pgs`.

    Attributes:
        sweeps: maximum number of sweeps of a step.
        scale: step lengths of sweeps [constraint, world].
        impulse_history, value_history: stored sweeps for the backward pass; otherwise empty.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        assert isinstance(step.contact_options, PgsContact)
        self.sweeps = step.contact_options.sweeps
        vec3 = step.device_model.types.vec3
        self.scale = step.worlds_last(step.max_constraints, vec3)
        self.impulse_history, self.value_history = (step.worlds_last(0, vec3) for _ in range(2))

    def write_matrix(self) -> None:
        """Write the Delassus matrix."""
        self._step.launch_over_constraints(delassus_kernels(self._step.scalar).delassus)

    def solve(self) -> None:
        """Sweep until converged, or as often as the options say."""
        self._step.warm_start.match()
        self._step.launch(self._kernels.pgs_solve, self._step.num_worlds)

    @property
    def _kernels(self) -> Any:
        return pgs_kernels(self._step.scalar, self._step.contact_options.friction)


class PgsOfSolutions(Pgs):
    """PGS with the adjoint of the solution, by the implicit function theorem, independent of the initial guess.

    Attributes:
        value: velocities of rows at the solution.
    """

    value: wp.array

    def prepare_adjoint(self) -> None:
        """Allocate the velocities of rows."""
        super().prepare_adjoint()
        self.value = self._step.worlds_last(self._step.max_constraints, self._step.device_model.types.vec3)

    def adjoint(self) -> None:
        """Solve the transposed problem of the active rows."""
        step = self._step
        kernel = implicit_kernels(step.scalar, step.contact_options.friction).solution_adjoint
        step.launch(kernel, step.num_worlds, impulse_bar_scratch=self.start_bar)


class PgsOfSweeps(Pgs):
    """PGS with the adjoint of every sweep.

    Attributes:
        first_sweep: first sweep of the backward pass.
        value_bar_history: scratch.
        block_bar, matrix_bar: adjoints of the matrix's diagonal blocks, and of all blocks.
        scale_bar: adjoints of the step lengths.
    """

    first_sweep: wp.array
    value_bar_history: wp.array
    block_bar: wp.array
    scale_bar: wp.array
    matrix_bar: wp.array

    def prepare_adjoint(self) -> None:
        """Allocate the history of sweeps."""
        super().prepare_adjoint()
        step, t = self._step, self._step.device_model.types
        histories = self.sweeps * step.max_constraints
        self.impulse_history, self.value_history, self.value_bar_history = (
            step.worlds_last(histories, t.vec3) for _ in range(3)
        )
        self.first_sweep = wp.zeros(step.num_worlds, dtype=wp.int32, device=step.device)
        self.block_bar = step.worlds_last(step.max_constraints, t.mat33)
        self.scale_bar = step.worlds_last(step.max_constraints, t.vec3)
        self.matrix_bar = step.worlds_last(step.constraint_stage.max_couplings, t.mat33)
        self.constraint_response, self.coupled_response = (self._responses() for _ in range(2))

    def adjoint(self) -> None:
        """Run the backward pass through the sweeps, and from the matrix to rows."""
        step = self._step
        step.launch(self._kernels.pgs_reverse, step.num_worlds)
        if step.warm:
            kernel = warm_start_kernels(step.scalar).start_adjoint
            step.launch(kernel, step.num_worlds, previous_impulse_bar=step.warm_start.accumulated_impulse_bar)
        step.launch_over_constraints(self._kernels.delassus_adjoint)
        step.launch_over_constraints(impulse_kernels(step.scalar).coupled_response)
