"""The working arrays of one time step of a shard, and what its launches share."""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch, loops_over_contacts, threads_of_world
from sim.arrays.shape_arrays import integer_array
from sim.arrays.structs import fill
from sim.model.model import Model
from sim.model.sensors.kinds import SENSOR_KINDS
from sim.simulation.options import ContactOptions
from sim.simulation.stepping.activations import Activations
from sim.simulation.stepping.collision import CollisionModel
from sim.simulation.stepping.constraint_layout import ConstraintLayout, least_inverse_masses
from sim.simulation.stepping.lane_groups import POSES, LaneGroups, SolverChoice, lanes_worth
from sim.simulation.stepping.mujoco.law import MujocoLaw
from sim.simulation.stepping.tendons.stage import TendonStage
from sim.simulation.stepping.transmission.stage import TransmissionStage
from warp_kernels.checkpoint import STEP, TABLE_SIZE
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import FREE, SPHERICAL

# Fields of the kernels' structs, and the parameters that they hold.
LIMITS = {
    "lower": "lower_limit",
    "upper": "upper_limit",
    "margin": "limit_margin",
    "stiffness": "limit_stiffness",
    "damping": "limit_damping",
}
GAINS = {
    "gear": "actuator_gear",
    "kp": "actuator_kp",
    "kd": "actuator_kd",
    "gain": "actuator_gain",
    "offset": "actuator_offset",
    "kp_per_input": "actuator_kp_per_input",
    "kd_per_input": "actuator_kd_per_input",
    "force_centre": "actuator_force_centre",
    "force_limit": "actuator_force_limit",
    "control_lower": "actuator_control_lower",
    "control_upper": "actuator_control_upper",
}

# With several trees: room for the constraints that act on a constraint, itself included, on average over a world.
COUPLINGS_PER_CONSTRAINT = 128


class Workspace(SolverChoice):
    """Arrays that live for one step of some of the worlds of a trajectory.

    Args:
        device_model: the model's arrays, with parameters of these worlds.
        collision: the collision arrays of the same model and device.
        layout: which rows there may be.
        options: contact options.
        dt: time step [s].
        world_range: number of worlds in the trajectory's arrays, and the place of their first world there.
        max_contacts: room for contacts per world.
        law: what MuJoCo's law takes from the model, where that is the law.
        state_limit: largest coordinate and largest velocity of a world that isn't bad, see :class:`sim.Simulator`.
    """

    # Stages with arrays of their own, which kernels read by name as those of the step.
    contact_stage: Any
    errors: Any
    impact_times: Any
    warm_start: Any
    solver: Any
    impulses: Any
    # Of the way back.
    start_bar: wp.array

    def __init__(
        self,
        device_model: DeviceModel,
        collision: CollisionModel,
        layout: ConstraintLayout,
        options: ContactOptions,
        dt: float,
        world_range: tuple[int, int],
        max_contacts: int,
        law: MujocoLaw | None,
        state_limit: tuple[float, float],
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
        self.law = law
        self.layout = layout
        self.max_constraints = layout.max_constraints(max_contacts, law is not None)
        self.constraint_threads = threads_of_world(self.device, min(self.max_constraints, 16))
        self.looping = loops_over_contacts(self.device)
        self.link_threads = threads_of_world(self.device, self.model.num_links)
        self.dof_threads = threads_of_world(self.device, self.model.nv)
        self.structs = solver_structs(self.scalar)
        self.sweeps, self.iterations = options.sweeps, options.iterations
        self.tolerance = self.scalar(options.tolerance)
        self.cone_link, self.cone_kind = (self._integers(column) for column in layout.cones.T)
        self.tendons = TendonStage(device_model, layout.tendons, layout.heavy, drifts=not self.by_mujoco)
        self.transmissions = TransmissionStage(device_model, collision)
        self.constrained = self._constrained()
        self.paths = fill(
            Paths,
            dof_depth=device_model.dof_depth,
            dof_row_start=device_model.dof_row_start,
            ancestor=device_model.ancestor,
            max_depth=self.model.max_depth,
        )
        self.trees = self._tree_dofs()
        # A constraint touches one tree or two, and where there is one, all of them.
        trees = self.model.num_trees
        self.max_incidences = min(trees, 2) * self.max_constraints
        by_matrix = not self.newton or options.noslip_iterations > 0
        self.max_couplings = self.max_constraints**2 if by_matrix else 0
        if trees > 1:
            self.max_couplings = min(self.max_couplings, COUPLINGS_PER_CONSTRAINT * self.max_constraints)
        self._allocate()

    def _allocate(self) -> None:
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        constraints, nv = self.max_constraints, m.nv

        def per_world(dtype: Any) -> wp.array:
            return wp.zeros(n, dtype=dtype, device=self.device)

        self.table = wp.zeros(TABLE_SIZE, dtype=wp.uint64, device=self.device)
        self.cursor = wp.zeros(3, dtype=wp.int32, device=self.device)
        self.cursor_step = self.cursor[STEP : STEP + 1]
        self.largest_residual, self.adjoint_residual = (per_world(scalar) for _ in range(2))
        self.total_overflow = per_world(wp.int32)
        self.last_bad_step = per_world(wp.int32)
        self.q0: wp.array = wp.array(m.q0, dtype=scalar, device=self.device)
        self.q, self.q_next = (wp.zeros((n, m.nq), dtype=scalar, device=self.device) for _ in range(2))
        velocities = (wp.zeros((n, nv), dtype=scalar, device=self.device) for _ in range(4))
        self.qd, self.qd_next, self.tau, self.qdd = velocities
        # What goes into the laws of actuators: their inputs, or their states.
        self.control: wp.array = wp.zeros((n, m.nu), dtype=scalar, device=self.device)
        self.activations = Activations(self.device_model, self.control)
        self.given_control = self.activations.given_control
        # What the midpoint rule makes of gyroscopic forces, zero for other links, and the forces against gravity. By
        # MuJoCo's law gyroscopic forces are explicit.
        turning = np.isin(m.joint_type, () if self.by_mujoco else (SPHERICAL, FREE))
        self.turning_link = self._integers(np.flatnonzero(turning))
        self.spin = self.worlds_last(self.turning_link.shape[0], t.vec3)
        # Bases whose centre of mass moves straight in a step.
        free = np.flatnonzero(turning & (m.joint_type == FREE))
        floating = [link for link in free if not m.prescribed[m.joint_qd_start[link]]]
        self.floating_link = self._integers(np.array(floating, dtype=int))
        self.floating = self._integers(np.isin(np.arange(m.num_links), floating))
        boxes = m.drag_boxes
        self.num_drag_boxes = len(boxes.link)
        self.drag_link = self._integers(boxes.link)
        self.drag_size: wp.array = wp.array(boxes.size, dtype=t.vec3, device=self.device)
        self.drag_placement: wp.array = wp.array(boxes.placement, dtype=t.transform, device=self.device)
        self.drag_velocity = self.worlds_last(self.num_drag_boxes, t.spatial)
        wrenches = bool(turning.any() or m.compensated or self.num_drag_boxes)
        lanes = lanes_worth(self.device_model.lanes, self.total_worlds)
        every = self.by_mujoco or m.compensated or self.num_drag_boxes
        links = np.arange(m.num_links) if every else np.flatnonzero(turning)
        groups = self.groups = LaneGroups(m, n, lanes, wrenches, bool(floating), self.device, links)
        # Without actuators and tendons the joint forces are tau itself; without the former nothing else stands on the
        # mass matrix's diagonal.
        self.joint_force = wp.zeros_like(self.tau) if m.nu or self.tendons.num_tendons else self.tau
        self.implicit, groups.implicit = groups.scalars(nv if m.nu else 0)
        self.actuator_row = self.worlds_last(m.nu, t.vec3)
        self.q.assign(np.tile(m.q0, (n, 1)))
        self.pose, self.origin, self.subspace, self.link_inertia = (groups.worlds[name] for name in POSES)
        own = ("velocity", "common_wrench", "lift")
        self.velocity, self.common_wrench, self.lift = (groups.worlds[name] for name in own)
        self.least_inverse_mass: wp.array = wp.array(least_inverse_masses(m), dtype=scalar, device=self.device)
        self.factor_d, groups.factor_d = groups.scalars(nv)
        self.factor_l, groups.factor_l = groups.scalars(int(m.dof_depth.sum()))
        self.constraint_overflow = per_world(wp.int32)
        self._allocate_damping()
        self.constraints = self._empty_constraints()
        self.row = self._rows_of_worlds(2 * constraints * m.max_depth)
        self.rhs, self.scale, self.impulse = (self.worlds_last(constraints, t.vec3) for _ in range(3))
        self.bound, self.softness = (self.worlds_last(constraints, scalar) for _ in range(2))
        self.row_size = self.worlds_last(constraints if self.newton else 0, t.vec2)
        self.qd_path = wp.zeros_like(self.qd_next) if self.bouncing else self.qd_next
        self.matrix = self.worlds_last(self.max_couplings, t.mat33)
        self.couplings = self._couplings()
        self.residual = per_world(scalar)
        self.sweep_count = per_world(wp.int32)
        self.response, groups.response = groups.scalars(nv)
        self._gather()

    def _allocate_damping(self) -> None:
        """What implicit damping by MuJoCo's law needs; empty where the law is another."""
        groups, nv = self.groups, self.model.nv if self.by_mujoco else 0
        # Springs, dampers and servos act at the end of a step; under MuJoCo's law at its beginning.
        self.ahead = self.scalar(0.0 if self.by_mujoco else self.dt)
        self.qd_solved = wp.zeros_like(self.qd_next) if self.by_mujoco else self.qd_next
        self.damping_loss = wp.zeros_like(self.qd_next) if self.by_mujoco else self.device_model.none(self.scalar)
        self.damping_weight = wp.zeros_like(self.damping_loss)
        self.servo_damping, groups.servo_damping = groups.scalars(0)
        self.damped_l, groups.damped_l = groups.scalars(int(self.model.dof_depth.sum()) if self.by_mujoco else 0)
        self.damped_d, groups.damped_d = groups.scalars(nv)
        self.damping_scratch, groups.damping_scratch = groups.scalars(nv)

    def _rows_of_worlds(self, count: int) -> wp.array:
        """Room for rows [count, world]; those of a world lie beside each other on a CPU, which goes world by world."""
        t, n = self.device_model.types, self.num_worlds
        if not self.looping:
            return wp.zeros((count, n), dtype=t.vec3, device=self.device)
        return wp.zeros((n, count), dtype=t.vec3, device=self.device).transpose()

    @property
    def slots(self) -> int | tuple[int, int]:
        """Threads of kernels over contacts."""
        return self.num_worlds if self.looping else (self.max_contacts, self.num_worlds)

    @property
    def num_sensors(self) -> int:
        """How many places there are for what is measured of contacts and constraints."""
        return self.collision.num_sensors

    @property
    def force_sensors(self) -> Any:
        """The sensors among those that measure them."""
        return self.collision.force_sensors

    @property
    def contact_sensors(self) -> Any:
        """The sensors of contacts."""
        return self.collision.contact_sensors

    @property
    def accelerating(self) -> bool:
        """Whether the model has sensors of accelerations that differ from the change of velocity in a step."""
        return self.by_mujoco and any(SENSOR_KINDS[sensor.kind].by_acceleration for sensor in self.model.sensors)

    @property
    def warm(self) -> bool:
        """Whether a step begins with the impulses of the one before."""
        return self.contact_options.warm_start and self.max_constraints > 0

    @property
    def limits(self) -> Any:
        """Parameters of the joint limits."""
        return fill(self.structs.Limits, **{field: self.parameters[name] for field, name in LIMITS.items()})

    @property
    def gains(self) -> Any:
        """Parameters of the actuators."""
        arrays = {field: self.parameters[name] for field, name in GAINS.items()}
        return fill(self.structs.Gains, **{**arrays, **self.activations.unbounded})

    @property
    def parameters(self) -> dict[str, wp.array]:
        """The parameters of the model, for these worlds."""
        return self.device_model.parameters

    def _gather(self) -> None:
        """Gather arrays by subject for kernels that take many; once more when arrays get a gradient."""
        s = self.structs
        self.motions = fill(s.Motions, origin=self.origin, subspace=self.subspace)
        self.rows = fill(s.Rows, rhs=self.rhs, bound=self.bound, softness=self.softness, size=self.row_size)

    @property
    def options(self) -> Any:
        """Numbers of the contact options, and the parameter among them."""
        options = self.contact_options
        return fill(
            self.structs.Options,
            dt=self.dt,
            erp=self.scalar(options.erp),
            recovery_time=self.device_model.parameter_arrays("recovery_time")["recovery_time"],
            cfm=self.scalar(0.0 if self.newton else options.cfm),
            max_correction=self.scalar(options.largest_correction),
            own_correction=self.scalar(options.largest_own_correction),
            restitution_threshold=self.scalar(options.restitution_threshold),
            limit_margin=self.scalar(-1.0 if self.by_mujoco else options.margin),
        )

    def _constrained(self) -> Any:
        equalities = self.model.equalities
        names = ("coupling_dof", "coupling_other", "anchor_link_a", "anchor_link_b", "anchor_welded")
        return fill(
            Constrained,
            limited_dof=self._integers(self.layout.limited),
            friction_dof=self._integers(self.layout.friction),
            cone_dof=self._integers(self.model.joint_qd_start[self.layout.cones[:, 0]]),
            **{name: self._integers(getattr(equalities, name)) for name in names},
            **self.tendons.constrained,
        )

    def _tree_dofs(self) -> Any:
        tree_dof_start = np.append(self.model.joint_qd_start, self.model.nv)[self.model.tree_link_start]
        return fill(
            TreeDofs,
            dof_tree=self._integers(self.model.link_tree[self.model.dof_link]),
            tree_dof_start=self._integers(tree_dof_start),
            max_tree_dofs=int(np.diff(tree_dof_start).max()),
        )

    def _empty_constraints(self) -> Any:
        room, worlds = self.max_constraints, self.num_worlds

        def integers(*shape: int) -> wp.array:
            return wp.zeros(shape, dtype=wp.int32, device=self.device)

        return fill(
            Constraints,
            count=integers(worlds),
            kind=integers(room, worlds),
            item=integers(room, worlds),
            tail=integers(2 * room, worlds),
            reference=integers(room, worlds),
        )

    def _couplings(self) -> Any:
        c = Couplings()

        def integers(count: int, dtype: Any = wp.int32) -> wp.array:
            return wp.zeros((count, self.num_worlds), dtype=dtype, device=self.device)

        constraints, trees = self.max_constraints, self.model.num_trees
        c.tree_start = integers(trees + 1)
        c.incidence_constraint = integers(self.max_incidences)
        c.constraint_incidence = integers(2 * constraints)
        c.row = integers(constraints, wp.vec4i)
        c.run = integers(constraints if trees == 1 else self.max_couplings, wp.vec2i)
        c.mirror = integers(self.max_couplings)
        c.cursor = integers(constraints)
        return c

    def worlds_last(self, count: int, dtype: Any = None) -> wp.array:
        """Zeros [count, num_worlds], scalars where nothing else is said."""
        return wp.zeros((count, self.num_worlds), dtype=dtype or self.scalar, device=self.device)

    def _integers(self, values: np.ndarray) -> wp.array:
        return integer_array(values, self.device)

    def launch(self, kernel: wp.Kernel, dim: Any, *, tape: bool = False, **named: Any) -> None:
        """Launch a kernel over this workspace, the model's arrays, its parameters and its collision arrays, by name."""
        stages = (
            self.contact_stage,
            self.errors,
            self.impact_times,
            self.warm_start,
            self.solver,
            self.tendons,
            self.law,
        )
        sources = (self, *stages, self.device_model, self.parameters, self.collision)
        launch(kernel, dim, *sources, device=self.device, record_tape=tape, **named)

    def launch_over_groups(self, kernel: wp.Kernel, dim: Any, **named: Any) -> None:
        """Launch a kernel that works on lane groups."""
        sources = (self.groups, self, self.device_model, self.parameters)
        launch(kernel, dim, *sources, device=self.device, record_tape=False, **named)

    def launch_over_dofs(self, kernel: wp.Kernel, **named: Any) -> None:
        """Launch a kernel whose threads share out the degrees of freedom of a world."""
        threads = self.dof_threads
        self.launch(kernel, (threads, self.num_worlds), threads=threads, **named)

    def launch_over_constraints(self, kernel: wp.Kernel, **named: Any) -> None:
        """Launch a kernel whose threads share out the constraints of a world."""
        threads = self.constraint_threads
        self.launch(kernel, (threads, self.num_worlds), threads=threads, **named)
