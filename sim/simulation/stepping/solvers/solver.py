"""The interface of solvers for the impulses of constraints."""

import warp as wp

from sim.arrays.launch import active_tape
from sim.simulation.stepping.workspace import Stage
from warp_kernels.solver.impulse import impulse_kernels


class ConstraintSolver(Stage):
    """The solver of a step without constraints, and what all solvers share.

    A solver goes from the rows, the right-hand sides and the bounds of constraints to their impulses; its adjoint goes
    from those of the impulses and of ``weight`` (the adjoint of the velocity, times M^-1) to those of right-hand sides,
    bounds, softness and, by ``own_bar`` or ``coupled_response``, of what the problem's matrix is made of.

    Args:
        step: the arrays of the step.

    Attributes:
        rows_by_groups: whether it reads the rows of contacts and anchors by lane groups, for all worlds of a group.
        adjoint_by_groups: whether its adjoint goes on to what these rows are made of, and to the weights.
        constraint_response, coupled_response: what each constraint does to the trees that it acts on, and what all do
            that act with it; empty where the problem's matrix has no derivative [dof of an incidence, world].
        impulse_bar, start_bar: adjoints of impulses and of those that sweeps begin with; without rows where nothing
            sweeps.
        distance_share: of the adjoint of a contact's distance, what smoothed gradients pass on; empty without.
    """

    constraint_response: wp.array
    coupled_response: wp.array
    impulse_bar: wp.array
    start_bar: wp.array
    distance_share: wp.array

    rows_by_groups = False
    adjoint_by_groups = False

    def prepare_adjoint(self) -> None:
        """Allocate what only the adjoint needs."""
        step, vec3 = self._step, self._step.device_model.types.vec3
        self.constraint_response, self.coupled_response = (step.worlds_last(0, vec3) for _ in range(2))
        swept = step.max_constraints if step.constraint_stage.max_couplings else 0
        self.impulse_bar, self.start_bar = (step.worlds_last(swept, vec3) for _ in range(2))
        self.distance_share = step.worlds_last(0)

    def write_matrix(self) -> None:
        """Write the Delassus matrix, for solvers that go by it."""

    def solve(self) -> None:
        """Find the impulses, with the velocities that are left of rows and a residual."""

    def adjoint(self) -> None:
        """Walk back through :meth:`solve`."""

    def find_responses(self) -> None:
        """Find what constraints do to trees, for an adjoint of the problem's matrix."""
        if self.constraint_response.shape[0]:
            self._step.launch_over_constraints(impulse_kernels(self._step.scalar).constraint_response)

    @property
    def _goes_back(self) -> bool:
        """Return whether the adjoint will follow; solutions keep more for it."""
        return active_tape() is not None

    def _responses(self) -> wp.array:
        """Room for what each constraint does to the trees that it acts on."""
        step, stage = self._step, self._step.constraint_stage
        return step.worlds_last(stage.max_incidences * stage.trees.max_tree_dofs, step.device_model.types.vec3)
