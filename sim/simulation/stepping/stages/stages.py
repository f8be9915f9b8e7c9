"""Stages of a step, constructed in the order of their dependencies, and the memory of their gradients."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import warp as wp

from sim.arrays.launch import clear
from sim.arrays.moved_arrays import arrays_of
from sim.simulation.stepping.solvers.choose import choose_impulses, choose_solver
from sim.simulation.stepping.solvers.impulses import Impulses
from sim.simulation.stepping.solvers.solver import ConstraintSolver
from sim.simulation.stepping.stages.constraints.constraints import ConstraintStage
from sim.simulation.stepping.stages.constraints.errors import ConstraintErrors
from sim.simulation.stepping.stages.constraints.surface_motion import SurfaceMotion, surface_motion
from sim.simulation.stepping.stages.constraints.teams import ConstraintStageOfTeams
from sim.simulation.stepping.stages.constraints.warm_start import WarmStart
from sim.simulation.stepping.stages.contacts import ContactStage
from sim.simulation.stepping.stages.forces.actuation import Actuation
from sim.simulation.stepping.stages.forces.damping import Damping, damping_of_euler
from sim.simulation.stepping.stages.forces.link_forces import LinkForces
from sim.simulation.stepping.stages.forces.pose_springs import PoseSprings
from sim.simulation.stepping.stages.free_dynamics import FreeDynamics
from sim.simulation.stepping.stages.impact_times import ImpactTimes
from sim.simulation.stepping.stages.kinematics import Kinematics
from sim.simulation.stepping.stages.sensors import SensorStage, sensor_stage
from sim.simulation.stepping.stages.stops import Stops
from sim.simulation.stepping.stages.tree_passes import TeamTreePasses, TreePasses
from sim.simulation.stepping.workspace import Stage, Workspace


class Stages(Workspace):
    """Stages of a step, each with its arrays. See :class:`Workspace` for the arguments.

    Arrays of the backward pass are allocated when a gradient is first requested. Adjoints that kernels add to are in
    one piece of memory, so that one call sets them to zero; contacts have another.

    Attributes:
        link_forces: forces on links besides weight.
        trees: passes over trees.
        kinematics: poses of links, and their integration.
        dynamics: accelerations without constraints, and the mass matrix.
        actuation: forces of actuators.
        pose_springs: springs of spherical and free joints; None in models without these.
        contact_stage: contact generation.
        surfaces: velocities of surfaces; None in models without them.
        errors: errors of constraints.
        constraint_stage: list of constraints, and their rows.
        impact_times: times at which contacts bounce.
        warm_start: impulses from one step to the next.
        impulses: velocities from impulses.
        solver: impulses of constraints.
        joint_damping: damping after the constraints.
        stops: stops of free bodies and limbs at static meshes; None in models without these.
        sensors: forces and accelerations for sensors; None without such sensors.
        accumulated_q_bar, accumulated_qd_bar: adjoint of the state that the backward pass has reached.
        q_aside, qd_aside: next state as the adjoint reads it, while a kept step stores another.
        parameter_gradients: gradients of parameters by name.
    """

    # Damping after the constraints and free dynamics, by the integrator.
    damping_of: ClassVar[Callable[..., Damping]] = staticmethod(damping_of_euler)
    dynamics_of: ClassVar[Callable[..., FreeDynamics]] = FreeDynamics
    accumulated_q_bar: wp.array
    accumulated_qd_bar: wp.array
    q_aside: wp.array
    qd_aside: wp.array

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.link_forces: LinkForces = LinkForces(self)
        by_teams = self.threads_per_world > 1
        self.trees: TreePasses = (TeamTreePasses if by_teams else TreePasses)(self)
        self.kinematics: Kinematics = Kinematics(self, self.link_forces.links_of_worlds)
        self.dynamics: FreeDynamics = type(self).dynamics_of(self)
        self.actuation: Actuation = Actuation(self)
        self.pose_springs: PoseSprings | None = PoseSprings(self) if len(self.model.sprung_links) else None
        self.contact_stage: ContactStage = ContactStage(self)
        self.surfaces: SurfaceMotion | None = surface_motion(self)
        self.errors: ConstraintErrors = ConstraintErrors(self)
        self.constraint_stage: ConstraintStage = (ConstraintStageOfTeams if by_teams else ConstraintStage)(self)
        self.impact_times: ImpactTimes = ImpactTimes(self)
        self.warm_start: WarmStart = WarmStart(self)
        self.impulses: Impulses = choose_impulses(self)(self)
        self.solver: ConstraintSolver = choose_solver(self)(self)
        self.joint_damping: Damping = type(self).damping_of(self)
        self.stops: Stops | None = Stops(self) if self.stopped else None
        self.sensors: SensorStage | None = sensor_stage(self)
        self.solver.gather()
        self._stages = tuple(part for part in vars(self).values() if isinstance(part, Stage))
        self.parameter_gradients: dict[str, wp.array] = {}
        self._watched: frozenset[str] | None = None
        self._has_backward = False

    @property
    def sources(self) -> tuple[Any, ...]:
        """Return the sources of kernel arguments by name: stages, model, parameters."""
        return (*self._stages, *super().sources)

    def prepare_backward(self) -> None:
        """Allocate the arrays of the backward pass, once; retry if memory ran out the first time."""
        if self._has_backward:
            return
        self._adjoint_memory = shared_gradients(self._differentiated(), self.device)
        of_contacts = [array for stage in self._stages for array in stage.of_contacts()]
        self._contact_adjoint_memory = shared_gradients(of_contacts, self.device)
        for array in (self.q_next, self.qd_next, self.qd_path, self.joint_damping.qd_solved):
            array.requires_grad = True
        self.q_aside, self.qd_aside = wp.zeros_like(self.q), wp.zeros_like(self.qd)
        self.accumulated_q_bar, self.accumulated_qd_bar = (
            wp.zeros_like(x, requires_grad=False) for x in (self.q, self.qd)
        )
        self.activations.prepare_adjoint()
        for stage in self._stages:
            stage.prepare_adjoint()
        for stage in self._stages:
            stage.gather()
        self._has_backward = True

    def _differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        of_stages = [array for stage in self._stages for array in stage.differentiated()]
        return [
            self.q, self.qd, self.tau, self.control, *([self.qd_path] if self.bouncing else []), *of_stages,
            *self.activations.differentiated, *(self.tendons.differentiated if self.tendons else []),
            *(self.transmissions.differentiated if self.transmissions else []),
        ]  # fmt: skip

    @property
    def not_kept(self) -> list[Any]:
        """Return what kept steps share: the model, its parameters, reports, accumulated adjoints and scratch memory."""
        found = {array.ptr for array in arrays_of(self.collision.found)}
        fixed = [array for array in arrays_of(self.collision) if array.ptr not in found]
        model = [self.device_model, fixed, self.law, self.parameter_gradients]
        engine = [self.table, self.cursor, self.accumulated_q_bar, self.accumulated_qd_bar]
        reports = [self.largest_residual, self.adjoint_residual, self.total_overflow, self.last_bad_step]
        reports.append(self.kinematics.q_low_next)
        return [*model, *engine, *reports, *(each for stage in self._stages for each in stage.scratch_arrays())]

    def watch_parameters(self, names: Iterable[str]) -> None:
        """Choose the parameters whose gradients the next recorded backward pass adds to."""
        names = frozenset(names)
        if names == self._watched:
            return
        for name, array in self.device_model.parameters.items():
            if name in names:
                if name not in self.parameter_gradients:
                    self.parameter_gradients[name] = wp.zeros_like(array, requires_grad=False)
                array.grad = self.parameter_gradients[name]
            else:
                array.grad = None
        self._watched = names

    def clear_adjoints(self) -> None:
        """Clear the adjoints that kernels add to, except those of contacts, whose number isn't known yet."""
        assert self._has_backward, "prepare_backward comes first"
        clear(self._adjoint_memory)


def shared_gradients(arrays: list[wp.array], device: Any) -> wp.array:
    """Give each array with rows a gradient, all in one piece of memory, and return it."""
    alignment = 64
    arrays = [array for array in arrays if array.size]
    sizes = [-(-array.size * wp.types.type_size_in_bytes(array.dtype) // alignment) * alignment for array in arrays]
    memory = wp.zeros(max(sum(sizes), 1), dtype=wp.uint8, device=device)
    offset = 0
    for array, size in zip(arrays, sizes, strict=True):
        array.grad = wp.array(ptr=memory.ptr + offset, shape=array.shape, dtype=array.dtype, device=device)
        offset += size
    return memory
