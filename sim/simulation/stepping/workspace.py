"""State of one time step of a shard, its sizes and options, and the launches that all stages share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array, zeros
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch, loops_over_contacts, threads_of_world
from sim.model.model import Model
from sim.model.sensors.sensors import SENSOR_KINDS
from sim.simulation.options import ContactMethod, hard_options
from sim.simulation.stepping.activations import Activations
from sim.simulation.stepping.collision import CollisionModel, free_bases
from sim.simulation.stepping.constraint_layout import ConstraintLayout
from sim.simulation.stepping.lane_groups import LaneGroups, SolverChoice, lanes_worth
from sim.simulation.stepping.mujoco_law import MujocoLaw
from sim.simulation.stepping.stages.forces.tendons import TendonStage
from sim.simulation.stepping.stages.forces.transmission import TransmissionStage
from warp_kernels.collision.broad_phase import BYTES
from warp_kernels.rollout.checkpoint import STEP
from warp_kernels.rollout.records import TABLE_SIZE
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.types import FREE, SPHERICAL

if TYPE_CHECKING:
    from sim.simulation.stepping.solvers.impulses import Impulses
    from sim.simulation.stepping.solvers.solver import ConstraintSolver
    from sim.simulation.stepping.stages.constraints.constraints import ConstraintStage
    from sim.simulation.stepping.stages.constraints.errors import ConstraintErrors
    from sim.simulation.stepping.stages.constraints.surface_motion import SurfaceMotion
    from sim.simulation.stepping.stages.constraints.warm_start import WarmStart
    from sim.simulation.stepping.stages.contacts import ContactStage
    from sim.simulation.stepping.stages.forces.actuation import Actuation
    from sim.simulation.stepping.stages.forces.damping import Damping
    from sim.simulation.stepping.stages.forces.link_forces import LinkForces
    from sim.simulation.stepping.stages.forces.pose_springs import PoseSprings
    from sim.simulation.stepping.stages.free_dynamics import FreeDynamics
    from sim.simulation.stepping.stages.impact_times import ImpactTimes
    from sim.simulation.stepping.stages.kinematics import Kinematics
    from sim.simulation.stepping.stages.tree_passes import TreePasses


class Workspace(SolverChoice):
    """Arrays that live for one step of some of the worlds of a trajectory.

    Args:
        device_model: arrays of the model, with parameters of these worlds.
        collision: collision arrays of the same model and device.
        layout: possible constraint rows.
        options: contact options.
        dt: time step [s].
        world_range: number of worlds in the trajectory's arrays, and the index of the first of these worlds there.
        max_contacts: contact capacity per world.
        law: parameters of MuJoCo's law, if that is the law.
        state_limit: maximum coordinate and velocity of a world that isn't bad, see :class:`sim.Simulator`.
        threads_per_world: threads of a GPU that share out the work of one world.
    """

    # Whether gains of actuators are weighted, see :mod:`warp_kernels.solver.midpoint.joint_weights`.
    weighted: ClassVar[bool] = False
    # Stages, made by :class:`sim.simulation.stepping.stages.stages.Stages`, through which they find each other.
    link_forces: "LinkForces"
    trees: "TreePasses"
    kinematics: "Kinematics"
    dynamics: "FreeDynamics"
    actuation: "Actuation"
    pose_springs: "PoseSprings | None"
    contact_stage: "ContactStage"
    surfaces: "SurfaceMotion | None"
    errors: "ConstraintErrors"
    constraint_stage: "ConstraintStage"
    impulses: "Impulses"
    solver: "ConstraintSolver"
    warm_start: "WarmStart"
    impact_times: "ImpactTimes"
    joint_damping: "Damping"

    def __init__(
        self,
        device_model: DeviceModel,
        collision: CollisionModel,
        layout: ConstraintLayout,
        options: ContactMethod,
        dt: float,
        world_range: tuple[int, int],
        max_contacts: int,
        law: MujocoLaw | None,
        state_limit: tuple[float, float],
        threads_per_world: int,
    ):
        self.model: Model = device_model.model
        self.device_model = device_model
        self.collision = collision
        self.contact_options = options
        self.device = device_model.device
        self.num_worlds = device_model.num_worlds
        self.total_worlds, self.first_world = world_range
        self.scalar = self.model.scalar
        self.dt = self.scalar(dt)
        most = float(np.finfo(self.model.dtype).max)
        self.largest_q, self.largest_qd = (self.scalar(min(limit, most)) for limit in state_limit)
        self.max_contacts = max_contacts
        self.threads_per_world = threads_per_world
        self.law = law
        self.layout = layout
        self.max_constraints = layout.max_constraints(max_contacts, law is not None, self.weighted)
        self.constraint_threads = threads_of_world(self.device, min(self.max_constraints, 16))
        self.looping = loops_over_contacts(self.device)
        self.link_threads = threads_of_world(self.device, self.model.num_links)
        self.structs = solver_structs(self.scalar)
        self.tolerance = self.scalar(options.tolerance)
        self.tendons: TendonStage | None = None
        dampers = layout.dampers[: None if self.weighted else 0]
        if self.model.tendons.names or len(dampers):
            self.tendons = TendonStage(device_model, layout.tendons, dampers, layout.heavy, drifts=not self.by_mujoco)
        self.transmissions: TransmissionStage | None = None
        if len(self.model.transmissions):
            self.transmissions = TransmissionStage(device_model, collision, dampers)
        self.paths = fill(
            Paths,
            dof_depth=device_model.dof_depth,
            dof_row_start=device_model.dof_row_start,
            ancestor=device_model.ancestor,
            max_depth=self.model.max_depth,
        )
        # Springs, dampers and servos act at the end of a step, under MuJoCo's law at its beginning.
        self.ahead = self.scalar(0.0 if self.by_mujoco else self.dt)
        # Time for which positions move with the velocity after a step.
        self.drift_time = self.dt
        # Teams solve world by world.
        lanes = lanes_worth(device_model.lanes, self.total_worlds) if threads_per_world == 1 else 1
        self.groups = LaneGroups(self.scalar, self.num_worlds, lanes, self.device)
        self._find_free_bases()
        self._allocate_state()
        self._allocate_reports()

    def _find_free_bases(self) -> None:
        """Find the links that turn freely, and the bases among them whose centre of mass follows a straight line."""
        model = self.model
        # Under MuJoCo's law gyroscopic forces are explicit.
        self.turning = np.flatnonzero(np.isin(model.joint_type, () if self.by_mujoco else (SPHERICAL, FREE)))
        self.floating = np.intersect1d(self.turning, free_bases(model))
        # Floating bases without a gyroscopic rule of their own.
        self.lifted = np.zeros(0, dtype=int)

    def _allocate_state(self) -> None:
        model, scalar, worlds = self.model, self.scalar, self.num_worlds
        self.table = wp.zeros(TABLE_SIZE, dtype=wp.uint64, device=self.device)
        self.cursor = wp.zeros(3, dtype=wp.int32, device=self.device)
        self.cursor_step = self.cursor[STEP : STEP + 1]
        self.q0: wp.array = wp.array(model.q0, dtype=scalar, device=self.device)
        self.q, self.q_next = (wp.zeros((worlds, model.nq), dtype=scalar, device=self.device) for _ in range(2))
        self.q.assign(np.tile(model.q0, (worlds, 1)))
        self.qd, self.qd_next, self.tau = (
            wp.zeros((worlds, model.nv), dtype=scalar, device=self.device) for _ in range(3)
        )
        # Velocity of positions: differs from the next velocity where contacts bounce.
        self.qd_path = wp.zeros_like(self.qd_next) if self.bouncing else self.qd_next
        # Inputs of the force laws of actuators: control, or states of actuators.
        self.control: wp.array = zeros((worlds, model.nu), scalar, self.device)
        self.activations = Activations(self.device_model, self.control)
        self.given_control = self.activations.given_control

    def _allocate_reports(self) -> None:
        def per_world(dtype: Any) -> wp.array:
            return wp.zeros(self.num_worlds, dtype=dtype, device=self.device)

        self.residual, self.largest_residual, self.adjoint_residual = (per_world(self.scalar) for _ in range(3))
        self.solver_iterations, self.total_overflow, self.last_bad_step = (per_world(wp.int32) for _ in range(3))

    @property
    def dof_threads(self) -> int:
        """Return the number of threads of a world in launches over degrees of freedom."""
        return threads_of_world(self.device, self.model.nv)

    @property
    def word_threads(self) -> int:
        """Return the number of threads that test the pairs of one word of the broad phase."""
        return threads_of_world(self.device, BYTES)

    @property
    def drift_velocity(self) -> wp.array:
        """The velocity along which positions move after the constraints."""
        return self.qd_path

    @property
    def equality_options(self) -> Any:
        """Return the options that rows of equality constraints read."""
        return self.options

    @property
    def slot_threads(self) -> int | tuple[int, int]:
        """Return the number of threads of kernels over contacts."""
        return self.num_worlds if self.looping else (self.max_contacts, self.num_worlds)

    @property
    def num_sensors(self) -> int:
        """Return the number of slots for measurements of contacts and constraints."""
        return self.collision.num_sensors

    @property
    def accelerating(self) -> bool:
        """Return whether the model has sensors of accelerations that differ from the change of velocity in a step."""
        return self.by_mujoco and any(SENSOR_KINDS[sensor.kind].by_acceleration for sensor in self.model.sensors)

    @property
    def stopped(self) -> bool:
        """Return whether static meshes may stop something."""
        return bool(self.max_contacts) and not self.by_mujoco and any(self.collision.on_meshes)

    @property
    def qd_unstopped(self) -> wp.array:
        """The velocity along which positions move; a stage of stops has another."""
        return self.qd_path

    @property
    def warm(self) -> bool:
        """Return whether the impulses of the previous step are the initial guess."""
        return self.contact_options.warm_start and self.max_constraints > 0

    @property
    def parameters(self) -> dict[str, wp.array]:
        """Return the parameters of the model, for these worlds."""
        return self.device_model.parameters

    @property
    def options(self) -> Any:
        """Return the contact options that rows read, including parameters; MuJoCo's law reads none."""
        options = hard_options(self.contact_options)
        max_correction, own_correction = options.corrections
        return fill(
            self.structs.Options,
            dt=self.dt,
            erp=self.scalar(options.erp),
            recovery_time=self.device_model.parameter_arrays("recovery_time")["recovery_time"],
            cfm=self.scalar(options.cfm),
            max_correction=self.scalar(max_correction),
            own_correction=self.scalar(own_correction),
            restitution_threshold=self.scalar(options.restitution_threshold),
            limit_margin=self.scalar(-1.0 if self.by_mujoco else options.margin),
        )

    @property
    def options_bar(self) -> Any:
        """Return the gradients of parameters among the contact options, without rows if none is requested."""
        return self.parameter_gradients_of(self.structs.Options, {"recovery_time": "recovery_time"})

    def parameter_gradients_of(self, struct: Any, names: Mapping[str, str]) -> Any:
        """Return a struct of the gradients of parameters, without rows if none is requested.

        Args:
            struct: the kernels' struct.
            names: names of the parameters, by field.
        """
        gradients = self.device_model.parameter_bars(*names.values())
        return fill(struct, **dict(zip(names, gradients, strict=True)))

    def worlds_last(self, count: int, dtype: Any = None) -> wp.array:
        """Return zeros [count, num_worlds], scalars by default."""
        return zeros((count, self.num_worlds), dtype or self.scalar, self.device)

    def integers(self, values: np.ndarray) -> wp.array:
        """Return whole numbers on the device."""
        return integer_array(values, self.device)

    @property
    def sources(self) -> tuple[Any, ...]:
        """Return the sources of kernel arguments by name."""
        return (self, self.tendons or TendonStage, self.law, self.device_model, self.parameters, self.collision)

    def launch(self, kernel: wp.Kernel, dim: Any, *own: Any, tape: bool = False, **named: Any) -> None:
        """Launch a kernel with the arrays that have the names of its arguments.

        Args:
            kernel: the kernel.
            dim: number of threads.
            own: sources that precede :attr:`sources`.
            tape: whether an active tape records the launch.
            named: arguments given explicitly.
        """
        launch(kernel, dim, *own, *self.sources, device=self.device, record_tape=tape, **named)

    def launch_over_dofs(self, kernel: wp.Kernel, **named: Any) -> None:
        """Launch a kernel whose threads share out the degrees of freedom of a world."""
        threads = self.dof_threads
        self.launch(kernel, (threads, self.num_worlds), threads=threads, **named)

    def launch_over_constraints(self, kernel: wp.Kernel, *own: Any, **named: Any) -> None:
        """Launch a kernel whose threads share out the constraints of a world."""
        threads = self.constraint_threads
        self.launch(kernel, (threads, self.num_worlds), *own, threads=threads, **named)


class Stage:
    """Stage of a step, which owns its arrays and launches the kernels that fill them.

    Args:
        step: workspace of the step.
    """

    def __init__(self, step: Workspace):
        self._step = step

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to, except those of contacts."""
        return []

    def of_contacts(self) -> list[wp.array]:
        """Return the arrays with a row per contact slot, of which only those in use are cleared."""
        return []

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""

    def scratch_arrays(self) -> list[Any]:
        """Return arrays, and structs of arrays, that an adjoint writes before it reads them: kept steps share them."""
        return []

    def gather(self) -> None:
        """Gather arrays in structs anew, because they now have gradients."""
