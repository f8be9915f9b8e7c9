"""Choice of a step's solver, with its reasons."""

from sim.arrays.teams import require_width
from sim.errors import ModelError
from sim.model.model import Model
from sim.simulation.options import ContactMethod, PgsContact
from sim.simulation.stepping.solvers.impulses import Impulses, ImpulsesOfGroups
from sim.simulation.stepping.solvers.mujoco import Mujoco, MujocoLanes, MujocoLanesWithAdjoint
from sim.simulation.stepping.solvers.newton import Newton, NewtonIslands, NewtonLanes, NewtonLanesWithAdjoint
from sim.simulation.stepping.solvers.pgs import PgsOfSolutions, PgsOfSweeps
from sim.simulation.stepping.solvers.solver import ConstraintSolver
from sim.simulation.stepping.solvers.teams import ImpulsesOfTeams, MujocoTeams, NewtonTeams
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.mujoco.laws import RESISTING
from warp_kernels.solver.newton.group.structs import MOST_BACK, MOST_DOFS


def choose_impulses(step: Workspace) -> type[Impulses]:
    """Return the class that applies impulses: by teams of threads if the simulator asks for them; by lane groups,
    unless something else works world by world.
    """
    options = step.contact_options
    if step.threads_per_world > 1 and step.max_constraints:
        return ImpulsesOfTeams
    singly = step.bouncing or options.noslip or options.noslip_iterations > 0 or not step.newton
    return Impulses if singly or step.groups.lanes == 1 else ImpulsesOfGroups


def choose_solver(step: Workspace) -> type[ConstraintSolver]:
    """Return the solver of a step's constraints.

    - Without constraints there is nothing to solve.
    - Projected Gauss-Seidel has one solver, with the adjoint that the options name.
    - Newton's method solves all worlds of a lane group at once if there are groups (on a CPU, with many worlds) and
      worlds fit into the group's memory. Torsional and rolling friction couple two constraints of a contact, which
      groups support only for MuJoCo's pyramids.
    - Its adjoint does so too, unless gradients are smoothed, impulses are applied world by world, or the constraint
      capacity exceeds the group's memory.
    - Larger worlds of several trees are divided into islands, under the hard law.
    - Teams of threads solve world by world if the simulator asks for them, see :func:`require_teams`.
    """
    options = step.contact_options
    if not step.max_constraints:
        return ConstraintSolver
    if isinstance(options, PgsContact):
        return PgsOfSweeps if options.adjoint == "unrolled" else PgsOfSolutions
    if step.threads_per_world > 1:
        return MujocoTeams if step.by_mujoco else NewtonTeams
    resists_alone = step.layout.resisting and not (step.by_mujoco and step.cone != RESISTING)
    small = step.model.nv <= MOST_DOFS
    if step.groups.lanes > 1 and small and not resists_alone:
        back = options.gradient_smoothing == 0.0 and choose_impulses(step).by_groups
        if back and step.max_constraints <= MOST_BACK:
            return MujocoLanesWithAdjoint if step.by_mujoco else NewtonLanesWithAdjoint
        return MujocoLanes if step.by_mujoco else NewtonLanes
    if step.by_mujoco:
        return Mujoco
    return NewtonIslands if step.model.num_trees > 1 and not small else Newton


def require_teams(threads_per_world: int, model: Model, contact: ContactMethod) -> None:
    """Check that teams of this many threads can solve a model; raise ModelError if not.

    Args:
        threads_per_world: argument of the simulator.
        model: the model.
        contact: contact method of its steps.
    """
    require_width("Simulator", threads_per_world)
    if threads_per_world == 1:
        return
    if isinstance(contact, PgsContact):
        raise ModelError(
            f"Simulator: threads_per_world={threads_per_world} requires sim.HardContact or sim.MujocoContact, but the "
            "contact method is PgsContact; choose one of them or threads_per_world=1"
        )
    if model.num_trees > 1 and model.nv > MOST_DOFS:
        raise ModelError(
            f"Simulator: threads_per_world={threads_per_world} allows {MOST_DOFS} degrees of freedom for a model of "
            f"several trees, but this one has {model.nv}, which one thread solves faster; choose threads_per_world=1"
        )
    if contact.gradient_smoothing > 0.0:
        raise ModelError(
            f"Simulator: threads_per_world={threads_per_world} has no smoothed gradients; remove gradient_smoothing "
            "from sim.HardContact or choose threads_per_world=1"
        )
