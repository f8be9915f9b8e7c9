"""One time step of a block of worlds: its working arrays, its stages in order, and their way back.

A :class:`Step` owns everything that lives for one step only. It never sees a trajectory: kernels load the state
before the
step and store it afterwards through a table of pointers (see :mod:`warp_kernels.checkpoint`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import warp as wp

from sim.collision import CollisionModel
from sim.device_model import DeviceModel
from sim.model import Model
from sim.operation import active_tape
from sim.options import ContactOptions
from warp_kernels.checkpoint import TABLE_SIZE, checkpoint_kernels
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.constraint import constraint_kernels, row_functions
from warp_kernels.dynamics import aba_kernels, power_kernels
from warp_kernels.factor import factor_kernels
from warp_kernels.impulse import impulse_kernels
from warp_kernels.integrate import integrate_kernels
from warp_kernels.kinematics import kinematics_kernels
from warp_kernels.pgs import pgs_kernels


class Step:
    """Working arrays and launches of one step for a block of the worlds of a trajectory.

    Args:
        device_model: the model's arrays, with parameters of these worlds.
        collision: the collision arrays of the same model and device.
        constrained: see :func:`constrained_dofs`.
        options: contact options.
        dt: time step [s].
        place: number of worlds in the trajectory's arrays, and the place of this block's first world there.
        max_contacts: room for contacts per world.
    """

    def __init__(
        self,
        device_model: DeviceModel,
        collision: CollisionModel,
        constrained: tuple[np.ndarray, np.ndarray],
        options: ContactOptions,
        dt: float,
        place: tuple[int, int],
        max_contacts: int,
    ):
        self.model: Model = device_model.model
        self.device_model = device_model
        self.collision = collision
        self.options = options
        self.device = device_model.device
        self.num_worlds = device_model.num_worlds
        self.place = place
        self.scalar = self.model.scalar
        self.dt = self.scalar(dt)
        self.max_contacts = max_contacts
        limited, lossy = constrained
        self.max_blocks = max_contacts + 2 * len(limited) + len(lossy)
        # Threads that share a world's blocks and degrees of freedom: a CPU runs them one after the other anyway.
        self.block_lanes = 1 if self.device.is_cpu else min(self.max_blocks, 16)
        self.dof_lanes = 1 if self.device.is_cpu else self.model.nv
        self.kernel_options = _kernel_options(self.scalar, options, dt)
        self.limited_dof = self._integers(limited)
        self.lossy_dof = self._integers(lossy)
        self.dof_tree = self._integers(self.model.link_tree[self.model.dof_link])
        self._allocate()
        # Adjoints that kernels add to lie in one piece of memory, so that one call sets them to zero; none before a
        # gradient is asked for.
        self._adjoint_memory: wp.array | None = None
        self.parameter_gradients: dict[str, wp.array] = {}

    # ---- arrays ------------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        blocks, nv = self.max_blocks, m.nv

        def worlds_last(count: int, dtype: Any) -> wp.array:
            return wp.zeros((count, n), dtype=dtype, device=self.device)

        def per_world(dtype: Any) -> wp.array:
            return wp.zeros(n, dtype=dtype, device=self.device)

        self.table = wp.zeros(TABLE_SIZE, dtype=wp.uint64, device=self.device)
        self.cursor = wp.zeros(1, dtype=wp.int32, device=self.device)
        self.largest_residual = per_world(scalar)
        self.total_overflow = per_world(wp.int32)
        self.last_bad_step = per_world(wp.int32)
        self.q, self.q_next = (wp.zeros((n, m.nq), dtype=scalar, device=self.device) for _ in range(2))
        self.qd, self.qd_next, self.tau, self.qdd = (
            wp.zeros((n, nv), dtype=scalar, device=self.device) for _ in range(4)
        )
        self.q.assign(np.tile(m.q0, (n, 1)))
        self.no_wrench = wp.zeros((0, 0), dtype=t.spatial, device=self.device)
        self.pose = worlds_last(m.num_links, t.transform)
        self.origin = worlds_last(m.num_trees, t.vec3)
        self.subspace = worlds_last(nv, t.spatial)
        self.link_inertia = worlds_last(m.num_links, t.inertia)
        self.velocity, self.acceleration, self.bias_force = (worlds_last(m.num_links, t.spatial) for _ in range(3))
        self.articulated = [worlds_last(m.num_links, t.mat33) for _ in range(3)]
        self.factor_u = worlds_last(nv, t.spatial)
        self.factor_d = worlds_last(nv, scalar)
        self.innovation = worlds_last(nv, scalar)
        self.factor_l = worlds_last(int(m.dof_depth.sum()), scalar)
        self.slot_pair, self.slot_feature = (worlds_last(self.max_contacts, wp.int32) for _ in range(2))
        self.contact_count, self.contact_overflow, self.block_count = (per_world(wp.int32) for _ in range(3))
        self.contact_point = worlds_last(self.max_contacts, t.vec3)
        self.contact_frame = worlds_last(self.max_contacts, t.mat33)
        self.contact_distance, self.contact_friction, self.contact_restitution = (
            worlds_last(self.max_contacts, scalar) for _ in range(3)
        )
        self.block_kind, self.block_item, self.block_reference = (worlds_last(blocks, wp.int32) for _ in range(3))
        self.block_tail = worlds_last(2 * blocks, wp.int32)
        self.row = worlds_last(2 * blocks * m.max_depth, t.vec3)
        self.rhs, self.scale, self.impulse = (worlds_last(blocks, t.vec3) for _ in range(3))
        self.bound, self.approach = (worlds_last(blocks, scalar) for _ in range(2))
        self.matrix = worlds_last(blocks * blocks, t.mat33)
        self.impulse_history, self.value_history = (worlds_last(0, t.vec3) for _ in range(2))
        self.residual = per_world(scalar)
        self.response = worlds_last(nv, scalar)

    def prepare_backward(self) -> None:
        """Allocate what only the way back needs. Does nothing the second time."""
        if self._adjoint_memory is not None:
            return
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        blocks, nv = self.max_blocks, m.nv

        def worlds_last(count: int, dtype: Any) -> wp.array:
            return wp.zeros((count, n), dtype=dtype, device=self.device)

        self.power_velocity, self.power_acceleration, self.power_direction = (
            worlds_last(m.num_links, t.spatial) for _ in range(3)
        )
        self.power = worlds_last(m.num_trees, scalar)
        self.power_weight = wp.zeros((n, nv), dtype=scalar, device=self.device)
        self._adjoint_memory = _shared_gradients(
            [
                self.q, self.qd, self.tau, self.pose, self.origin, self.subspace, self.link_inertia, self.contact_point,
                self.contact_frame, self.contact_distance, self.contact_friction, self.contact_restitution,
                self.power_velocity, self.power_acceleration, self.power_direction,
            ],
            self.device,
        )  # fmt: skip
        for array in (self.q_next, self.qd_next, self.power):
            array.requires_grad = True
        self.power.grad.fill_(1.0)
        self.nothing = wp.zeros((0, 0), dtype=scalar, device=self.device)
        self.carried_q = wp.zeros((n, m.nq), dtype=scalar, device=self.device)
        self.carried_qd = wp.zeros((n, nv), dtype=scalar, device=self.device)
        sweeps = self.options.sweeps
        self.impulse_history, self.value_history, self.value_bar_history = (
            worlds_last(sweeps * blocks, t.vec3) for _ in range(3)
        )
        self.first_sweep = wp.zeros(n, dtype=wp.int32, device=self.device)
        self.own_bar = worlds_last(blocks, t.mat33)
        self.weight = worlds_last(nv, scalar)
        self.impulse_bar, self.impulse_bar_scratch, self.scale_bar, self.rhs_bar = (
            worlds_last(blocks, t.vec3) for _ in range(4)
        )
        self.bound_bar = worlds_last(blocks, scalar)
        self.matrix_bar = worlds_last(blocks * blocks, t.mat33)
        self.block_response, self.block_coupling = (worlds_last(blocks * nv, t.vec3) for _ in range(2))
        self.mass_bar = worlds_last(int(m.dof_depth.sum()), scalar)
        self.mass_bar_diagonal = worlds_last(nv, scalar)
        self.composite, self.composite_bar = (worlds_last(m.num_links, t.inertia) for _ in range(2))

    def watch_parameters(self, names: Iterable[str]) -> None:
        """Choose the parameters whose gradients the next recording of the way back adds to."""
        for name, array in self.device_model.parameters.items():
            if name in names:
                if name not in self.parameter_gradients:
                    self.parameter_gradients[name] = wp.zeros_like(array, requires_grad=False)
                array.grad = self.parameter_gradients[name]
            else:
                array.grad = None

    # ---- stages ------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the state and the control at the cursor."""
        kernels = checkpoint_kernels(self.scalar)
        self._launch(
            kernels.load_state, self.num_worlds, [*self.place, self.table, self.cursor], [self.q, self.qd, self.tau]
        )

    def store(self) -> None:
        """Write the next state and move the cursor on."""
        kernels = checkpoint_kernels(self.scalar)
        inputs = [*self.place, self.table, self.cursor, self.q_next, self.qd_next, self.residual, self.contact_overflow]
        self._launch(kernels.store_state, self.num_worlds, inputs, [self.largest_residual, self.total_overflow])
        self._launch(kernels.move_cursor, 1, [1], [self.cursor])

    def forward(self) -> None:
        """All stages from (q, qd, tau) to (q_next, qd_next), recorded on the active tape if there is one."""
        self._kinematics()
        self._free_dynamics()
        if self.max_blocks:
            self._contacts()
            self._constraints()
        self._velocity()
        tape = active_tape()
        if tape is not None:
            tape.record_func(self._dynamics_adjoint, [self.q, self.qd, self.tau, self.subspace, self.qd_next])
        d = self.device_model
        inputs = [d.joint_type, d.joint_q_start, d.joint_qd_start, self.dt, self.q, self.qd_next]
        kernel = integrate_kernels(self.scalar).integrate
        self._launch(kernel, (self.model.num_links, self.num_worlds), inputs, [self.q_next], tape=True)

    def backward_step(self) -> None:
        """Run the step at the cursor again on a tape, apply its adjoint, and move the cursor back."""
        kernels = checkpoint_kernels(self.scalar)
        assert self._adjoint_memory is not None
        self._launch(kernels.move_cursor, 1, [-1], [self.cursor])
        self._adjoint_memory.zero_()
        self.load()
        inputs = [*self.place, self.table, self.cursor, self.carried_q, self.carried_qd]
        self._launch(kernels.load_adjoint, self.num_worlds, inputs, [self.q_next.grad, self.qd_next.grad])
        with wp.Tape() as tape:
            self.forward()
        tape.backward()
        inputs = [*self.place, self.table, self.cursor, self.q.grad, self.qd.grad, self.tau.grad]
        outputs = [self.carried_q, self.carried_qd, self.last_bad_step]
        self._launch(kernels.store_adjoint, self.num_worlds, inputs, outputs)

    def _kinematics(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_type, d.joint_axis, d.joint_q_start, d.joint_qd_start,
            p["joint_placement"], p["mass"], p["com"], p["inertia"], self.q,
        ]  # fmt: skip
        outputs = [self.pose, self.origin, self.subspace, self.link_inertia]
        self._launch(kinematics_kernels(self.scalar).kinematics, self._trees, inputs, outputs, tape=True)

    def _free_dynamics(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_type, d.joint_qd_start, d.dof_q, self.dt, p["damping"],
            p["armature"],
            p["stiffness"], p["rest_position"], p["gravity"], self.q, self.qd, self.tau, self.no_wrench, self.subspace,
            self.link_inertia,
        ]  # fmt: skip
        outputs = [
            self.velocity, self.acceleration, self.bias_force, *self.articulated, self.factor_u, self.factor_d,
            self.innovation, self.qdd,
        ]  # fmt: skip
        self._launch(aba_kernels(self.scalar).aba, self._trees, inputs, outputs)
        inputs = [self.dof_lanes, *self._paths, self.factor_u, self.factor_d, self.subspace]
        kernel = factor_kernels(self.scalar).factor_mass_matrix
        self._launch(kernel, (self.dof_lanes, self.num_worlds), inputs, [self.factor_l])

    def _contacts(self) -> None:
        p = self.device_model.parameters
        if not self.max_contacts:
            return
        inputs = [
            *self.collision.arrays, p["geometry_placement"], p["geometry_size"], self.pose, self.origin, self.velocity,
            self.scalar(self.options.margin), self.dt,
        ]  # fmt: skip
        outputs = [self.slot_pair, self.slot_feature, self.contact_count, self.contact_overflow]
        self._launch(detect_kernels(self.scalar).detect, self.num_worlds, inputs, outputs)
        inputs = [
            *self.collision.arrays, p["geometry_placement"], p["geometry_size"], p["friction"], p["restitution"],
            self.pose,
            self.origin, self.slot_pair, self.slot_feature, self.contact_count,
        ]  # fmt: skip
        outputs = self._contact_arrays
        dim = (self.max_contacts, self.num_worlds)
        self._launch(evaluate_kernels(self.scalar).evaluate, dim, inputs, outputs, tape=True)

    def _constraints(self) -> None:
        d, m = self.device_model, self.model
        p = d.parameters
        kernels = constraint_kernels(self.scalar)
        c = self.collision
        inputs = [
            self.limited_dof, self.lossy_dof, d.dof_q, d.link_tail_dof, d.link_tree, c.geometry_link, c.pair_a,
            c.pair_b, self.kernel_options, p["lower_limit"], p["upper_limit"], self.q, self.qd, self.qdd,
            self.contact_count, self.slot_pair,
        ]  # fmt: skip
        outputs = [self.block_count, self.block_kind, self.block_item, self.block_tail, self.block_reference]
        self._launch(kernels.list_blocks, self.num_worlds, inputs, outputs)
        inputs = [
            self.block_lanes, *self._paths, d.dof_q, self.dof_tree, m.max_depth, self.kernel_options,
            p["lower_limit"], p["upper_limit"], p["friction_loss"], self.q, self.qd, self.qdd, self.origin,
            self.subspace, self.factor_l, *self._contact_arrays, self.block_count, self.block_kind, self.block_item,
            self.block_tail, self.block_reference,
        ]  # fmt: skip
        self._launch(kernels.block_rows, self._blocks, inputs, [self.row, self.rhs, self.bound, self.approach])
        inputs = [
            self.block_lanes, *self._paths, self.dof_tree, m.max_depth, self.max_blocks, self.kernel_options,
            self.factor_d, self.row, self.block_count, self.block_tail,
        ]  # fmt: skip
        self._launch(kernels.delassus, self._blocks, inputs, [self.matrix])
        inputs = [
            self.max_blocks, self.options.sweeps, self.matrix, self.rhs, self.bound, self.block_count, self.block_kind
        ]  # fmt: skip
        outputs = [self.scale, self.impulse, self.impulse_history, self.value_history, self.residual]
        self._launch(pgs_kernels(self.scalar, self.options.friction).pgs_solve, self.num_worlds, inputs, outputs)

    def _velocity(self) -> None:
        inputs = [
            *self._paths, self.model.max_depth, self.dt, self.qd, self.qdd, self.factor_l, self.factor_d, self.row,
            self.impulse, self.block_count, self.block_tail,
        ]  # fmt: skip
        outputs = [self.response, self.qd_next]
        self._launch(impulse_kernels(self.scalar).apply_impulses, self.num_worlds, inputs, outputs)

    # ---- the way back ------------------------------------------------------------------------------------------

    def _dynamics_adjoint(self) -> None:
        """From the adjoint of qd_next to those of q, qd, tau, the kinematics, the contacts and the parameters."""
        kernels = impulse_kernels(self.scalar)
        depth = self.model.max_depth
        inputs = [
            *self._paths, depth, self.factor_l, self.factor_d, self.row, self.block_count, self.block_tail,
            self.qd_next.grad
        ]  # fmt: skip
        self._launch(kernels.velocity_adjoint, self.num_worlds, inputs, [self.weight, self.impulse_bar])
        if self.max_blocks:
            self._solver_adjoint()
        self._free_step_adjoint()
        if self.max_blocks:
            self._row_adjoint()
            self._mass_matrix_adjoint()
        self._power_adjoint()

    def _solver_adjoint(self) -> None:
        kernels = impulse_kernels(self.scalar)
        solver = pgs_kernels(self.scalar, self.options.friction)
        sizes = [self.max_blocks, self.options.sweeps]
        inputs = [
            *sizes, self.matrix, self.bound, self.block_count, self.block_kind, self.scale, self.impulse_history,
            self.value_history, self.impulse_bar,
        ]  # fmt: skip
        outputs = [
            self.impulse_bar_scratch, self.value_bar_history, self.scale_bar, self.own_bar, self.rhs_bar,
            self.bound_bar, self.first_sweep,
        ]  # fmt: skip
        self._launch(solver.pgs_reverse, self.num_worlds, inputs, outputs)
        inputs = [
            self.block_lanes, *sizes, self.matrix, self.block_count, self.impulse_history, self.value_bar_history,
            self.scale_bar, self.own_bar, self.first_sweep,
        ]  # fmt: skip
        self._launch(solver.delassus_adjoint, self._blocks, inputs, [self.matrix_bar])
        inputs = [
            self.block_lanes, *self._paths, self.model.max_depth, self.factor_l, self.factor_d, self.row,
            self.block_count, self.block_tail,
        ]  # fmt: skip
        self._launch(kernels.block_response, self._blocks, inputs, [self.block_response])
        sizes = [self.block_lanes, self.model.nv, self.max_blocks]
        inputs = [*sizes, self.block_count, self.matrix_bar, self.block_response]
        self._launch(kernels.block_coupling, self._blocks, inputs, [self.block_coupling])

    def _free_step_adjoint(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            self.dof_lanes, *self._paths, d.dof_q, self.dt, p["damping"], p["stiffness"], p["rest_position"], self.q,
            self.qd, self.qdd, self.response, self.block_count, self.rhs_bar, self.weight, self.block_response,
            self.block_coupling, self.qd_next.grad,
        ]  # fmt: skip
        outputs = [
            self.power_weight, self.mass_bar, self.mass_bar_diagonal, self.q.grad, self.qd.grad, self.tau.grad,
            *self._parameter_adjoints("damping", "armature", "stiffness", "rest_position"),
        ]  # fmt: skip
        kernel = impulse_kernels(self.scalar).free_step_adjoint
        self._launch(kernel, (self.dof_lanes, self.num_worlds), inputs, outputs)

    def _row_adjoint(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            *self._paths, d.dof_q, self.dof_tree, self.kernel_options, p["lower_limit"], p["upper_limit"], self.q,
            self.qd,
            self.qdd, self.origin, self.subspace, self.contact_point, self.contact_frame, self.contact_distance,
            self.contact_restitution, self.block_count, self.block_kind, self.block_item, self.block_tail,
            self.block_reference, self.approach, self.impulse, self.weight, self.rhs_bar, self.bound_bar,
            self.block_coupling,
        ]  # fmt: skip
        outputs = [
            self.q.grad, self.qd.grad, self.origin.grad, self.subspace.grad,
            *(array.grad for array in self._contact_arrays),
            *self._parameter_adjoints("lower_limit", "upper_limit", "friction_loss"),
        ]  # fmt: skip
        self._launch(impulse_kernels(self.scalar).row_adjoint, self.num_worlds, inputs, outputs)

    def _mass_matrix_adjoint(self) -> None:
        d = self.device_model
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_qd_start, *self._paths, self.subspace, self.link_inertia,
            self.mass_bar, self.mass_bar_diagonal,
        ]  # fmt: skip
        outputs = [self.composite, self.composite_bar, self.subspace.grad, self.link_inertia.grad]
        self._launch(factor_kernels(self.scalar).mass_matrix_adjoint, self._trees, inputs, outputs)

    def _power_adjoint(self) -> None:
        d = self.device_model
        gravity = d.parameters["gravity"]
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_type, d.joint_qd_start, gravity, self.qd, self.qdd,
            self.power_weight,
            self.no_wrench, self.subspace, self.link_inertia,
        ]  # fmt: skip
        outputs = [self.power_velocity, self.power_acceleration, self.power_direction, self.power]
        kernel = power_kernels(self.scalar).inverse_dynamics_power
        self._launch(kernel, self._trees, inputs, outputs)
        wp.launch(
            kernel, dim=self._trees, inputs=inputs, outputs=outputs, device=self.device, record_tape=False,
            adjoint=True,
            adj_inputs=[array.grad if isinstance(array, wp.array) else None for array in inputs],
            adj_outputs=[array.grad for array in outputs],
        )  # fmt: skip

    # ---- helpers -----------------------------------------------------------------------------------------------

    @property
    def _trees(self) -> tuple[int, int]:
        return (self.model.num_trees, self.num_worlds)

    @property
    def _blocks(self) -> tuple[int, int]:
        return (self.block_lanes, self.num_worlds)

    @property
    def _paths(self) -> list[wp.array]:
        d = self.device_model
        return [d.dof_depth, d.dof_row_start, d.ancestor]

    @property
    def _contact_arrays(self) -> list[wp.array]:
        return [
            self.contact_point, self.contact_frame, self.contact_distance, self.contact_friction,
            self.contact_restitution,
        ]  # fmt: skip

    def _parameter_adjoints(self, *names: str) -> list[wp.array]:
        """Gradients of parameters, with an array of no rows for one that isn't watched."""
        arrays = [self.device_model.parameters[name].grad for name in names]
        return [self.nothing if array is None else array for array in arrays]

    def _integers(self, values: np.ndarray) -> wp.array:
        return wp.array(np.asarray(values, dtype=np.int32), dtype=wp.int32, device=self.device)

    def _launch(self, kernel: wp.Kernel, dim: Any, inputs: list, outputs: list, tape: bool = False) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self.device, record_tape=tape)


def constrained_dofs(model: Model, parameters: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Degrees of freedom with a limit, and those with dry friction, in any of the worlds."""
    limited = (np.isfinite(parameters["lower_limit"]) | np.isfinite(parameters["upper_limit"])).reshape(-1, model.nv)
    lossy = (parameters["friction_loss"] > 0.0).reshape(-1, model.nv)
    return np.flatnonzero((model.dof_q >= 0) & limited.any(axis=0)), np.flatnonzero(lossy.any(axis=0))


def _kernel_options(scalar: Any, options: ContactOptions, dt: float) -> Any:
    struct = row_functions(scalar).Options()
    struct.dt = scalar(dt)
    struct.erp = scalar(options.erp)
    struct.cfm = scalar(options.cfm)
    struct.max_correction = scalar(options.max_correction)
    struct.restitution_threshold = scalar(options.restitution_threshold)
    struct.limit_margin = scalar(options.margin)
    return struct


def _shared_gradients(arrays: list[wp.array], device: Any) -> wp.array:
    """Give each array a gradient, all in one piece of memory that is returned."""
    alignment = 64
    sizes = [-(-array.size * wp.types.type_size_in_bytes(array.dtype) // alignment) * alignment for array in arrays]
    memory = wp.zeros(max(sum(sizes), 1), dtype=wp.uint8, device=device)
    offset = 0
    for array, size in zip(arrays, sizes, strict=True):
        array.grad = wp.array(ptr=memory.ptr + offset, shape=array.shape, dtype=array.dtype, device=device)
        offset += size
    return memory
