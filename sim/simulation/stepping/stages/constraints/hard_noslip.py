"""Second solution of a step under the hard law, against the creep of sticking friction, with its backward pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import warp as wp

from sim.arrays.allocation import fill
from warp_kernels.solver.newton.noslip import newton_noslip_kernels
from warp_kernels.solver.newton.structs import newton_structs

if TYPE_CHECKING:
    from sim.simulation.stepping.solvers.newton import Newton
    from sim.simulation.stepping.workspace import Workspace


class HardNoSlip:
    """Arrays of the second solution of one step; see :mod:`warp_kernels.solver.newton.noslip`.

    Args:
        step: workspace of the step.
        solver: solver of both solutions.

    Attributes:
        problem: problem of the second solution.
        first_value, first_impulse, first_qd, first_loss: the first solution.
        first_residual, first_iterations: its report.
        shifted_value, shifted_rhs: shifted row values.
        first_impulse_bar, first_rhs_bar, first_bound_bar, first_compliance_bar, first_block_bar, first_weight: of the
            adjoint of the first solution.
    """

    problem: Any
    first_impulse_bar: wp.array

    def __init__(self, step: "Workspace", solver: "Newton"):
        self._step, self._solver = step, solver
        room, vec3 = step.max_constraints, step.device_model.types.vec3
        self.first_value, self.first_impulse, self.shifted_value, self.shifted_rhs = (
            step.worlds_last(room, vec3) for _ in range(4)
        )
        self.first_qd, self.first_loss = (wp.zeros_like(step.qd, requires_grad=False) for _ in range(2))
        # The second solution begins with the first.
        self._not_recalled = step.worlds_last(0)
        self.first_residual = wp.zeros_like(step.residual)
        self.first_iterations = wp.zeros_like(step.solver_iterations)
        self._kernels = newton_noslip_kernels(step.scalar)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        step, t = self._step, self._step.device_model.types
        room, nv = step.max_constraints, step.model.nv
        self.first_impulse_bar, self.first_rhs_bar = (step.worlds_last(room, t.vec3) for _ in range(2))
        self.first_bound_bar, self.first_compliance_bar = (step.worlds_last(room) for _ in range(2))
        self.first_block_bar = step.worlds_last(room, t.mat33)
        self.first_weight, self._no_weight = (step.worlds_last(nv) for _ in range(2))
        self._no_iterations = wp.zeros_like(step.solver_iterations)

    def gather(self, problem: Any) -> None:
        """Gather the problem of the second solution from that of the first."""
        given = {name: getattr(problem, name) for name in newton_structs(self._step.scalar).Problem.vars}
        shifted = {"rhs": self.shifted_rhs, "value_before": self.shifted_value, "bias_change": self._not_recalled}
        self.problem = fill(newton_structs(self._step.scalar).Problem, **{**given, **shifted})

    def run(self, search: Callable[..., None]) -> None:
        """Solve again from the first solution.

        Args:
            search: solves a problem from a velocity; see :meth:`sim.simulation.stepping.solvers.newton.Newton.solve`.
        """
        step = self._step
        step.impulses.apply()
        self._launch(self._kernels.shift_friction, problem=self._solver.problem)
        search(self.problem, qd=self.first_qd, qdd=self.first_loss, dt=step.scalar(1.0))
        self._launch(self._kernels.report_both)

    def adjoint(self, solution_adjoint: Callable[..., None]) -> None:
        """Run the backward pass of the first solution, after that of the second, and add it.

        Args:
            solution_adjoint: launches the adjoint of a solution with some arguments.
        """
        self._launch(self._kernels.shift_adjoint, problem=self._solver.problem, **self._solver.with_regularisation)
        iterate = self._solver.iterate
        given = {name: getattr(iterate, name) for name in newton_structs(self._step.scalar).Iterate.vars}
        solution_adjoint(
            iterate=fill(newton_structs(self._step.scalar).Iterate, **{**given, "value": self.first_value}),
            weight=self._no_weight,
            solver_iterations=self._no_iterations,
            further_impulse_bar=self.first_impulse_bar,
            **{f"{name}_bar": getattr(self, f"first_{name}_bar") for name in ("rhs", "bound", "compliance", "block")},
        )
        self._launch(self._kernels.add_first_adjoints)

    def add_products(self) -> None:
        """Add the rest of the adjoints of rows and the mass matrix."""
        self._launch(self._kernels.add_first_products)

    def _launch(self, kernel: wp.Kernel, **named: Any) -> None:
        self._step.launch(kernel, self._step.num_worlds, self, **named)
