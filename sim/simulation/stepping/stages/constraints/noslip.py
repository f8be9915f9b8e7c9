"""MuJoCo's noslip solver as a stage of a step, with its backward pass."""

from typing import TYPE_CHECKING, Any

import warp as wp

from sim.arrays.allocation import fill
from sim.simulation.options import MujocoContact
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.mujoco.noslip import Islands, noslip_kernels, noslip_structs
from warp_kernels.solver.mujoco.noslip_adjoint import noslip_adjoint_kernels

if TYPE_CHECKING:
    from sim.simulation.stepping.solvers.mujoco import Mujoco
    from sim.simulation.stepping.workspace import Workspace


class NoSlipStage:
    """Arrays of the noslip sweeps of one step; see :mod:`warp_kernels.solver.mujoco.noslip`.

    Args:
        step: workspace of the step, whose options request the sweeps.
        solution: solution of the solver, from which the sweeps start.
    """

    def __init__(self, step: "Workspace", solution: "Mujoco"):
        self._solution = solution
        t, options = step.device_model.types, step.contact_options
        assert isinstance(options, MujocoContact)
        self._step, self._kernels = step, noslip_kernels(step.scalar, step.cone)
        self.noslip_iterations = options.noslip_iterations
        self.noslip_tolerance = step.scalar(options.noslip_tolerance)
        constraints, trees = step.max_constraints, step.model.num_trees
        self.islands = fill(
            Islands,
            count=wp.zeros(step.num_worlds, dtype=wp.int32, device=step.device),
            **{name: self._step.worlds_last(constraints, wp.int32) for name in ("sequence", "turn", "mate")},
            **{name: self._step.worlds_last(trees, wp.int32) for name in ("island", "sweeps")},
        )
        self.gain, self.enough = (self._step.worlds_last(trees, step.scalar) for _ in range(2))
        self.start = self._step.worlds_last(constraints, t.vec3)
        # Regularisation R in the Delassus matrix of the sweeps.
        self.compliance = self._step.worlds_last(constraints, step.scalar)
        self.impulse_history, self.value_history = (self._step.worlds_last(0, t.vec3) for _ in range(2))

    def run(self) -> None:
        """Sweep from the impulses of the solution."""
        step = self._step
        self._launch_over_constraints(delassus_kernels(step.scalar).delassus)
        self._launch(self._kernels.noslip, step.num_worlds)

    def prepare_backward(self) -> None:
        """Allocate arrays of the backward pass."""
        step, t = self._step, self._step.device_model.types
        constraints, kernels = step.max_constraints, self._adjoint_kernels
        self.impulse_history, self.value_history = (
            self._step.worlds_last(self.noslip_iterations * constraints, t.vec3) for _ in range(2)
        )
        self.bars = fill(
            kernels.Bars,
            value=self._step.worlds_last(self.noslip_iterations * constraints, t.vec3),
            bound=self._step.worlds_last(constraints, step.scalar),
            pair=self._step.worlds_last(constraints, t.vec2),
            **{name: self._step.worlds_last(constraints, t.vec3) for name in ("start", "rhs")},
            **{name: self._step.worlds_last(constraints, t.mat33) for name in ("own", "mixed")},
        )
        pyramids = step.contact_options.friction == "pyramid"
        self.further_value_bar = self._step.worlds_last(constraints if pyramids else 0, t.vec3)
        # The velocity after the step depends on the solution only through the sweeps.
        self.no_weight = wp.zeros_like(step.impulses.weight.worlds)
        self.matrix_bar = self._step.worlds_last(step.constraint_stage.max_couplings, t.mat33)

    def unwind(self) -> dict[str, wp.array]:
        """Propagate the adjoint of the impulses to the solution; return the arrays with which its adjoint starts."""
        self._launch(self._adjoint_kernels.noslip_reverse, self._step.num_worlds)
        return {
            "weight": self.no_weight,
            "further_impulse_bar": self.bars.start,
            "further_value_bar": self.further_value_bar,
        }

    def add_adjoints(self) -> None:
        """Add the contributions of the sweeps to the adjoints of the rows, after those of the solution, and of the
        matrix.
        """
        kernels, step = self._adjoint_kernels, self._step
        self._launch_over_constraints(kernels.noslip_matrix_adjoint)
        self._launch(kernels.add_noslip_bars, (step.max_constraints, step.num_worlds))

    @property
    def friction(self) -> Any:
        """Return the problem of the sweeps."""
        step, rows = self._step, self._step.constraint_stage
        return fill(
            noslip_structs(step.scalar).Friction,
            rhs=rows.rhs,
            bound=rows.bound,
            resistance=step.contact_stage.contact_resistance,
            matrix=rows.matrix,
            row_stiffness=self._solution.row_stiffness,
            value=self._solution.iterate.value,
            start=self.start,
        )

    @property
    def _adjoint_kernels(self) -> Any:
        return noslip_adjoint_kernels(self._step.scalar, self._step.cone)

    def _launch(self, kernel: wp.Kernel, dim: Any, **named: Any) -> None:
        self._step.launch(kernel, dim, self, **named)

    def _launch_over_constraints(self, kernel: wp.Kernel) -> None:
        threads = self._step.constraint_threads
        self._launch(kernel, (threads, self._step.num_worlds), threads=threads)
