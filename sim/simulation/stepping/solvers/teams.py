"""Newton's method by a team of threads per world, the velocities that follow from it, and their adjoints."""

from typing import Any

from sim.arrays.allocation import fill, zeros
from sim.arrays.teams import by_depth
from sim.simulation.stepping.solvers.impulses import Impulses
from sim.simulation.stepping.solvers.mujoco import Mujoco
from sim.simulation.stepping.solvers.newton import Newton
from sim.simulation.stepping.teams import team_threads, team_width
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.newton.team.adjoint import team_adjoint_kernels
from warp_kernels.solver.newton.team.impulse import team_impulse_kernels
from warp_kernels.solver.newton.team.products import Levels
from warp_kernels.solver.newton.team.regularisation_adjoint import team_regularisation_kernels
from warp_kernels.solver.newton.team.solve import team_newton_kernels
from warp_kernels.solver.newton.team.system import room_of, shared_dofs, team_work_struct


class ImpulsesOfTeams(Impulses):
    """Velocities from impulses by a team of threads per world.

    Attributes:
        levels: degrees of freedom by their depth.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        start, dof = by_depth(step.model.dof_depth, step.model.max_depth)
        self.levels: Any = fill(Levels, start=step.integers(start), dof=step.integers(dof))

    def apply(self) -> None:
        """Add M^-1 J^T times the impulses to the free velocities."""
        self._step.launch(self._kernels.team_apply_impulses, team_threads(self._step))

    def begin_adjoint(self) -> None:
        """Compute ``weight``, M^-1 times the adjoint of velocities, and the adjoint of impulses."""
        self._step.launch(self._kernels.team_velocity_adjoint, team_threads(self._step))

    def _finish_weights(self) -> None:
        self._step.launch(self._kernels.team_weight_adjoint, team_threads(self._step))

    @property
    def _kernels(self) -> Any:
        return team_impulse_kernels(self._step.scalar, team_width(self._step))


class NewtonTeams(Newton):
    """Newton's method under the hard law by a team of threads per world. On a CPU one thread does the work of a team.

    Attributes:
        slope, mixed, scratch: see :func:`warp_kernels.solver.newton.team.system.team_work_struct`.
    """

    has_system = False

    def __init__(self, step: Workspace):
        super().__init__(step)
        types, nv, width = step.device_model.types, step.model.nv, team_width(step)
        dofs = 0 if step.device.is_cpu else shared_dofs(step.scalar, width, nv)
        self._variant = (step.scalar, self._cone, width, dofs)
        self.slope = step.worlds_last(step.max_constraints, types.mat33)
        self.mixed = step.worlds_last(step.max_constraints if step.layout.resisting else 0, types.mat33)
        self.scratch: Any = zeros((step.num_worlds, 0 if dofs else room_of(nv)), step.scalar, step.device)

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Solve a problem by teams, see :meth:`sim.simulation.stepping.solvers.newton.Newton.solve`."""
        kernel = team_newton_kernels(*self._variant).team_newton_solve
        self._step.launch(kernel, team_threads(self._step), work=self._team_work(problem, self.iterate), **velocities)

    def _solution_adjoint(self, iterate: Any = None, **given: Any) -> None:
        kernel = team_adjoint_kernels(*self._variant).team_solution_adjoint
        given.pop("solver_iterations", None)  # systems are factored anew
        work = self._team_work(self.problem, self.iterate if iterate is None else iterate)
        self._step.launch(kernel, team_threads(self._step), work=work, **self.with_regularisation, **given)

    def _regularisation_adjoint(self) -> None:
        step = self._step
        kernel = team_regularisation_kernels(step.scalar, team_width(step)).team_regularisation_adjoint
        step.launch(kernel, team_threads(step))

    def _team_work(self, problem: Any, iterate: Any) -> Any:
        """Return the struct of the kernels."""
        step = self._step
        return fill(
            team_work_struct(step.scalar),
            tolerance=step.tolerance,
            regularisation=self.with_regularisation["regularisation"],
            paths=step.paths,
            constraints=step.constraint_stage.constraints,
            problem=problem,
            iterate=iterate,
            slope=self.slope,
            mixed=self.mixed,
            scratch=self.scratch,
        )


class MujocoTeams(NewtonTeams, Mujoco):
    """The same under MuJoCo's law. The noslip sweeps work world by world."""
