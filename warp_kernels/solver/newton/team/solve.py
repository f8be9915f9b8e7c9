"""Newton's method by a team of threads per world, under either law."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.laws import RESISTING
from warp_kernels.solver.newton.structs import WORLD_HEADERS
from warp_kernels.solver.newton.team.steps import team_step_functions
from warp_kernels.solver.newton.team.system import team_work_struct
from warp_kernels.team import team_module

# Arguments of factories beyond the scalar type, for checks over all kernels: friction model or cone of MuJoCo's, threads
# of a team, degrees of freedom for which there is shared memory.
VARIANTS = {
    "team_newton_kernels": [
        ("cone", 32, 0), ("pyramid", 32, 0), ("cone", 32, 24), ("cone", 16, 24), ("cone", 8, 24),
        ("elliptic", 32, 0), ("pyramidal", 32, 0), (RESISTING, 32, 0), ("pyramidal", 32, 40),
    ],
}  # fmt: skip


def solver_module(name: str, scalar: Any, *variant: str | int, headers: tuple[str, ...] = WORLD_HEADERS) -> wp.Module:
    """Return the module of kernels of the solver, with the options of all of them."""
    module = team_module(name, scalar, *variant, headers=headers)
    # Unrolled loops over sides and attempts make the code twice as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, module)
    return module


@functools.cache
def team_newton_kernels(scalar: Any, friction: str, width: int, dofs: int) -> SimpleNamespace:
    """Return the solver for one precision and law.

    Args:
        scalar: precision.
        friction: friction model of the hard law, or cone of MuJoCo's.
        width: threads of a team on a GPU.
        dofs: degrees of freedom for which shared memory is reserved; 0 for none.
    """
    f = team_step_functions(scalar, friction, width, dofs)
    team, descent = f.team, f.descent
    Work = team_work_struct(scalar)
    module = solver_module("team_newton", scalar, friction, width, dofs)
    zero = scalar(0.0)

    @wp.kernel(module=module, enable_backward=False)
    def team_newton_solve(
        # Model
        dt: scalar,
        iterations: int,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        # Data out
        work: Work,
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
    ):
        """Solve all worlds.

        residual: as the largest velocity, by the pivots of the last system [m/s or rad/s].
        work: ``row_stiffness`` of its problem changes during the solve under the hard law, and keeps the value of the
            end.
        solver_iterations: systems solved.
        """
        world, _lane = wp.tid()
        team.begin(work.scratch, world)
        left = zero
        solved = int(0)
        work.world = world
        work.count = work.constraints.count[world]
        work.nv = work.paths.dof_depth.shape[0]
        if work.count > 0:
            scale = zero
            for n in range(team.lane(), work.nv, team.size()):
                k = team.item(n, work.nv)
                scale += descent.initial_guess(
                    k, k + 1, dt, qd, qdd, work.paths, factor_l, work.problem.inverse_mass, work.iterate.z_before, world
                )
            work.scale = team.total(scale)
            work.epsilon = f.share_of(work)
            left, solved = f.solve(work, iterations)
        if team.is_first():
            residual[world] = left
            solver_iterations[world] = solved

    return SimpleNamespace(module=module, team_newton_solve=team_newton_solve)
