"""Newton's method by a team of threads per world, and its adjoint."""

from typing import Any

from sim.arrays.allocation import fill, zeros
from sim.simulation.stepping.solvers.mujoco import Mujoco
from sim.simulation.stepping.solvers.newton import Newton
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.newton.team.adjoint import team_adjoint_kernels
from warp_kernels.solver.newton.team.solve import team_newton_kernels
from warp_kernels.solver.newton.team.system import room_of, shared_dofs, team_work_struct
from warp_kernels.team import WIDTHS, lanes_of_team


class NewtonTeams(Newton):
    """Newton's method under the hard law by a team of threads per world. On a CPU one thread does the work of a team.

    Attributes:
        slope, mixed, scratch: see :func:`warp_kernels.solver.newton.team.system.team_work_struct`.
    """

    has_system = False

    def __init__(self, step: Workspace):
        super().__init__(step)
        types, nv = step.device_model.types, step.model.nv
        # The width of a team and shared memory make no difference on a CPU: it has one kernel for all of them.
        width = max(WIDTHS) if step.device.is_cpu else step.threads_per_world
        dofs = 0 if step.device.is_cpu else shared_dofs(step.scalar, width, nv)
        self._variant = (step.scalar, self._cone, width, dofs)
        self._threads = (step.num_worlds, lanes_of_team(step.device, width))
        self.slope = step.worlds_last(step.max_constraints, types.mat33)
        self.mixed = step.worlds_last(step.max_constraints if step.layout.resisting else 0, types.mat33)
        self.scratch: Any = zeros((step.num_worlds, 0 if dofs else room_of(nv)), step.scalar, step.device)

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Solve a problem by teams, see :meth:`sim.simulation.stepping.solvers.newton.Newton.solve`."""
        kernel = team_newton_kernels(*self._variant).team_newton_solve
        self._step.launch(kernel, self._threads, work=self._team_work(problem, self.iterate), **velocities)

    def _solution_adjoint(self, iterate: Any = None, **given: Any) -> None:
        kernel = team_adjoint_kernels(*self._variant).team_solution_adjoint
        given.pop("solver_iterations", None)  # systems are factored anew
        work = self._team_work(self.problem, self.iterate if iterate is None else iterate)
        self._step.launch(kernel, self._threads, work=work, **self.with_regularisation, **given)

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
