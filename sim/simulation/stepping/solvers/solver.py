"""Interface of solvers for the impulses of constraints."""

import warp as wp

from sim.arrays.launch import active_tape
from sim.simulation.stepping.workspace import Stage
from warp_kernels.solver.impulse import impulse_kernels


class ConstraintSolver(Stage):
    """Solver of a step without constraints, and base of all solvers.

    A solver computes impulses from the rows, right-hand sides and bounds of constraints. Its adjoint propagates the
    adjoint of the impulses and ``weight`` (M^-1 times the adjoint of the velocity) to right-hand sides, bounds,
    compliance and, by ``block_bar`` or ``coupled_response``, to the inputs of the problem's matrix.

    Args:
        step: workspace of the step.

    Attributes:
        rows_by_groups: whether it reads the rows of contacts and anchors of all worlds of a lane group.
        adjoint_by_groups: whether its adjoint continues to the inputs of these rows, and to the weights.
        constraint_response, coupled_response: responses M^-1 J^T of the trees to each constraint, and to all
            constraints coupled with it; empty if the problem's matrix has no derivative [dof of an incidence, world].
        impulse_bar, start_bar: adjoints of impulses, and of the initial guess of sweeps; without rows if nothing
            sweeps.
        distance_share: fraction of the adjoint of a contact's distance that smoothed gradients propagate; empty
            without.
    """

    constraint_response: wp.array
    coupled_response: wp.array
    impulse_bar: wp.array
    start_bar: wp.array
    distance_share: wp.array

    rows_by_groups = False
    adjoint_by_groups = False

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        step, vec3 = self._step, self._step.device_model.types.vec3
        self.constraint_response, self.coupled_response = (step.worlds_last(0, vec3) for _ in range(2))
        by_sweeps = step.max_constraints if step.constraint_stage.max_couplings else 0
        self.impulse_bar, self.start_bar = (step.worlds_last(by_sweeps, vec3) for _ in range(2))
        self.distance_share = step.worlds_last(0)

    def write_matrix(self) -> None:
        """Write the Delassus matrix, for solvers that use it."""

    def solve(self) -> None:
        """Compute the impulses, with the remaining velocities of rows and a residual."""

    def adjoint(self) -> None:
        """Run the backward pass of :meth:`solve`."""

    def find_responses(self) -> None:
        """Compute the responses of trees to constraints, for an adjoint of the problem's matrix."""
        if self.constraint_response.shape[0]:
            self._step.launch_over_constraints(impulse_kernels(self._step.scalar).constraint_response)

    @property
    def _has_backward(self) -> bool:
        """Return whether a backward pass will follow, for which solutions store more."""
        return active_tape() is not None

    def _responses(self) -> wp.array:
        """Return an array for the responses of trees to each constraint."""
        step, stage = self._step, self._step.constraint_stage
        return step.worlds_last(stage.max_incidences * stage.trees.max_tree_dofs, step.device_model.types.vec3)
