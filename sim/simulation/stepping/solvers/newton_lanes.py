"""Newton's method on all worlds of a lane group at once, on a CPU."""

from sim.simulation.stepping.solvers.newton import Newton
from warp_kernels.solver.impulse_groups import impulse_group_kernels
from warp_kernels.solver.newton.group.adjoint import group_adjoint_kernels
from warp_kernels.solver.newton.group.solve import newton_group_kernels
from warp_kernels.solver.newton.group.structs import KEEPS_ALL


class NewtonLanes(Newton):
    """Worlds that the group's search doesn't finish are solved one by one. The adjoint takes them one by one."""

    rows_by_groups = True

    def solve(self) -> None:
        """Search the velocities of the worlds of a group, then of those that are left."""
        self._regularise()
        step = self._step
        kernel = newton_group_kernels(step.scalar, step.contact_options.friction, step.groups.lanes).solve
        step.launch(kernel, step.groups.num_groups, work=self._work(KEEPS_ALL if self._goes_back else 0))
        step.launch(self._kernels.newton_solve, step.num_worlds)


class NewtonLanesBothWays(NewtonLanes):
    """The adjoint takes the worlds of a group together, too: up to as many constraints as its memory holds."""

    adjoint_by_groups = True

    def adjoint(self) -> None:
        """Walk back to all but what comes of the right-hand sides and of the rows of joints."""
        step, groups = self._step, self._step.groups
        kernel = group_adjoint_kernels(step.scalar, step.contact_options.friction, groups.lanes).group_adjoint
        bar = self._regularisation["regularisation_bar"]
        step.launch(kernel, groups.num_groups, work=self._work(), regularisation_bar=bar)
        step.launch(impulse_group_kernels(step.scalar, groups.lanes).factorisation_adjoints, groups.num_groups)

    @property
    def _rows_respond(self) -> bool:
        """Return whether there are rows of joints or tendons, which have adjoints world by world."""
        step = self._step
        return bool(len(step.layout.cones) or step.model.counts["coupling"] or (step.tendons and step.tendons.num_rows))
