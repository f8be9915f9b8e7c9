"""Newton's method on the convex problem of MuJoCo's law, and its adjoint."""

from typing import Any

from sim.simulation.options import MujocoContact
from sim.simulation.stepping.solvers.newton import Newton
from sim.simulation.stepping.stages.constraints.noslip import NoSlipStage
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.mujoco.group_adjoint import mujoco_group_adjoint_kernels
from warp_kernels.solver.mujoco.solve import mujoco_kernels
from warp_kernels.solver.newton.group.solve import newton_group_kernels
from warp_kernels.solver.newton.group.structs import KEEPS_ALL, KEEPS_HALF


class Mujoco(Newton):
    """Newton's method world by world, followed by MuJoCo's noslip sweeps if the options request them.

    Attributes:
        noslip: the sweeps, or None.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.noslip = NoSlipStage(step, self) if step.constraint_stage.max_couplings else None

    def prepare_adjoint(self) -> None:
        """Allocate the adjoint of bounds and compliance, and that of the noslip sweeps."""
        super().prepare_adjoint()
        if self.noslip:
            self.noslip.prepare_backward()
            self.constraint_response, self.coupled_response = (self._responses() for _ in range(2))

    def solve(self) -> None:
        """Minimise the cost of accelerations, and sweep."""
        options = self._step.contact_options
        assert isinstance(options, MujocoContact)
        impedance_ratio = self._step.scalar(options.impratio)
        self._step.launch_over_constraints(self._convex_kernels.soften, impedance_ratio=impedance_ratio)
        self._search(self.problem)
        if self.noslip:
            self.noslip.run()

    def adjoint(self) -> None:
        """Run the backward pass of the sweeps, and solve the transposed system of the solution."""
        step = self._step
        self._solution_adjoint(**(self.noslip.unwind() if self.noslip else {}))
        if self.noslip:
            self.noslip.add_adjoints()
            kernel, matrix_bar = impulse_kernels(step.scalar).coupled_response, self.noslip.matrix_bar
            step.launch_over_constraints(kernel, matrix_bar=matrix_bar)

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Minimise the cost of a problem, see :meth:`sim.simulation.stepping.solvers.newton.Newton._search`."""
        kernel = self._convex_kernels.convex_solve
        self._step.launch(kernel, self._step.num_worlds, work=self._work(problem), **velocities)

    @property
    def _cone(self) -> str:
        return self._step.cone

    @property
    def _rows_respond(self) -> bool:
        """Return False: R is of the initial configuration and independent of the rows."""
        return False

    @property
    def _convex_kernels(self) -> Any:
        return mujoco_kernels(self._step.scalar, self._step.cone)


class MujocoLanes(Mujoco):
    """Newton's method on all worlds of a lane group at once; unfinished worlds, and the adjoint, world by world."""

    rows_by_groups = True
    # Parts of a solution that the group stores for the adjoint.
    keeps = KEEPS_ALL

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Minimise the cost of all worlds of a group, then of unfinished ones."""
        step = self._step
        kernel = newton_group_kernels(step.scalar, step.cone, step.groups.lanes).solve
        work = self._group_work(problem, self.keeps if self._has_backward else 0)
        step.launch(kernel, step.groups.num_groups, work=work, **velocities)
        super()._search(problem, **velocities)


class MujocoLanesWithAdjoint(MujocoLanes):
    """Newton's method whose adjoint is computed for all worlds of a lane group at once, too."""

    adjoint_by_groups = True
    keeps = KEEPS_HALF

    def adjoint(self) -> None:
        """Run the backward pass, except through right-hand sides and through the rows of joints."""
        step, groups = self._step, self._step.groups
        kernels = mujoco_group_adjoint_kernels(step.scalar, step.cone, groups.lanes)
        step.launch(kernels.convex_group_adjoint, groups.num_groups, work=self._group_work(self.problem))
