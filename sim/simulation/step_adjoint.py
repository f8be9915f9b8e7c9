"""The way back through one time step: it is run again on a tape, then its adjoint is applied.

Kinematics, contact geometry and integration have Warp's own adjoints. Everything between them, from the free
dynamics to the impulses, has one written by hand (see :mod:`warp_kernels.solver.impulse`), which hangs on the same
tape.
"""

from collections.abc import Iterable
from typing import Any

import warp as wp

from sim.simulation.step import Step
from sim.simulation.workspace import ACTUATORS, LIMITS
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.dynamics.rnea_adjoint import rnea_adjoint_kernels
from warp_kernels.solver.actuators import actuator_kernels
from warp_kernels.solver.implicit import implicit_kernels
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.pgs import pgs_kernels
from warp_kernels.solver.row_adjoint import row_adjoint_kernels
from warp_kernels.solver.warm_start import warm_start_kernels


class DifferentiableStep(Step):
    """A step with its adjoint. What only the way back needs is allocated when a gradient is first asked for.

    Adjoints that kernels add to lie in one piece of memory, so that one call sets them to zero.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._adjoint_memory: wp.array | None = None
        self.parameter_gradients: dict[str, wp.array] = {}

    def prepare_backward(self) -> None:
        """Allocate what only the way back needs. Does nothing the second time."""
        if self._adjoint_memory is not None:
            return
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        blocks, nv = self.max_blocks, m.nv

        def worlds_last(count: int, dtype: Any) -> wp.array:
            return wp.zeros((count, n), dtype=dtype, device=self.device)

        self.motion_scratch = [worlds_last(m.num_links, t.spatial) for _ in range(3)]
        self.motion_weight = wp.zeros((n, nv), dtype=scalar, device=self.device)
        self._adjoint_memory = _shared_gradients(
            [
                self.q, self.qd, self.tau, self.control, self.pose, self.origin, self.subspace, self.link_inertia,
                self.contact_point, self.contact_frame, self.contact_distance, self.contact_friction,
                self.contact_restitution, self.contact_spring, self.contact_resistance, *self._equality_arrays,
                *self._cone_arrays,
            ],
            self.device,
        )  # fmt: skip
        for array in (self.q_next, self.qd_next):
            array.requires_grad = True
        self.carried_q = wp.zeros((n, m.nq), dtype=scalar, device=self.device)
        self.carried_qd = wp.zeros((n, nv), dtype=scalar, device=self.device)
        self.carried_impulse = worlds_last(blocks if self.warm else 0, t.vec3)
        self.weight = worlds_last(nv, scalar)
        self.impulse_bar, self.impulse_bar_scratch, self.rhs_bar = (worlds_last(blocks, t.vec3) for _ in range(3))
        self.bound_bar, self.softness_bar = (worlds_last(blocks, scalar) for _ in range(2))
        if self.options.adjoint == "unrolled":
            self._allocate_unrolled()
        else:
            self.value = worlds_last(blocks, t.vec3)
            self.block_response, self.block_coupling = (worlds_last(0, t.vec3) for _ in range(2))
        self.mass_bar = worlds_last(int(m.dof_depth.sum()), scalar)
        self.mass_bar_diagonal = worlds_last(nv, scalar)
        self.actuator_row_bar = worlds_last(m.nu, t.vec3)
        self.composite = worlds_last(m.num_links, t.inertia)

    def _allocate_unrolled(self) -> None:
        t, blocks, histories = self.device_model.types, self.max_blocks, self.options.sweeps * self.max_blocks

        def worlds_last(count: int, dtype: Any) -> wp.array:
            return wp.zeros((count, self.num_worlds), dtype=dtype, device=self.device)

        self.impulse_history, self.value_history, self.value_bar_history = (
            worlds_last(histories, t.vec3) for _ in range(3)
        )
        self.first_sweep = wp.zeros(self.num_worlds, dtype=wp.int32, device=self.device)
        self.own_bar = worlds_last(blocks, t.mat33)
        self.scale_bar = worlds_last(blocks, t.vec3)
        self.matrix_bar = worlds_last(self.max_couplings, t.mat33)
        self.block_response, self.block_coupling = (
            worlds_last(self.max_incidences * self.max_tree_dofs, t.vec3) for _ in range(2)
        )

    def watch_parameters(self, names: Iterable[str]) -> None:
        """Choose the parameters whose gradients the next recording of the way back adds to."""
        for name, array in self.device_model.parameters.items():
            if name in names:
                if name not in self.parameter_gradients:
                    self.parameter_gradients[name] = wp.zeros_like(array, requires_grad=False)
                array.grad = self.parameter_gradients[name]
            else:
                array.grad = None

    def backward_step(self) -> None:
        """Run the step at the cursor again on a tape, apply its adjoint, and move the cursor back."""
        kernels = checkpoint_kernels(self.scalar)
        assert self._adjoint_memory is not None
        self._launch(kernels.move_cursor, 1, [-1], [self.cursor])
        self._adjoint_memory.zero_()
        self.load()
        inputs = [*self.place, self.table, self.cursor, self.carried_q, self.carried_qd]
        self._launch(kernels.load_adjoint, self.num_worlds, inputs, [self.q_next.grad, self.qd_next.grad])
        self.run_adjoint()
        inputs = [*self.place, self.table, self.cursor, self.q.grad, self.qd.grad, self.tau.grad, self.control.grad]
        outputs = [self.carried_q, self.carried_qd, self.last_bad_step]
        self._launch(kernels.store_adjoint, self.num_worlds, inputs, outputs)

    def store_carried_impulses(self, total: wp.array) -> None:
        """Write the adjoint of the first impulses to these worlds' part of ``total`` [num_worlds, max_blocks, 3]."""
        if self.warm:
            blocks: wp.array = wp.array(
                ptr=total.ptr, shape=total.shape[:2], dtype=self.device_model.types.vec3, device=self.device, copy=False
            )
            kernel = warm_start_kernels(self.scalar).store_impulse_adjoint
            self._launch(kernel, self._warm_blocks, [self.place[1], self.carried_impulse], [blocks])

    def run_adjoint(self) -> None:
        """Run the step on a tape and walk back, from the gradients of q_next and qd_next to those of its inputs."""
        with wp.Tape() as tape:
            self.record(tape)
        tape.backward()

    def record(self, tape: wp.Tape) -> None:
        """Run the step on the active tape, with its adjoint."""
        self.to_next_velocity()
        tape.record_func(self._dynamics_adjoint, [self.q, self.qd, self.tau, self.subspace, self.qd_next])
        self.to_next_position()

    def _dynamics_adjoint(self) -> None:
        """From the adjoint of qd_next to those of q, qd, tau, the kinematics, the contacts and the parameters."""
        kernels = impulse_kernels(self.scalar)
        paths = [
            *self._paths, self.model.max_depth, self.factor_l, self.factor_d, self.row, self.block_count,
            self.block_tail,
        ]  # fmt: skip
        inputs = [*paths, self.qd_next.grad]
        self._launch(kernels.velocity_adjoint, self.num_worlds, inputs, [self.weight, self.impulse_bar])
        if self.warm:
            inputs = [*self.place, self.table, self.cursor, self.carried_impulse]
            kernel = checkpoint_kernels(self.scalar).add_impulse_adjoint
            self._launch(kernel, self._warm_blocks, inputs, [self.impulse_bar])
        if self.max_blocks:
            if self.options.adjoint == "unrolled":
                self._sweeps_adjoint()
            else:
                self._solution_adjoint()
        self._launch(kernels.weight_adjoint, self.num_worlds, [*paths, self.rhs_bar], [self.weight])
        self._free_step_adjoint()
        if self.max_blocks:
            self._row_adjoint()
            self._mass_matrix_adjoint()
        if self.model.nu:
            self._actuator_adjoint()
        self._motion_adjoint()

    def _solution_adjoint(self) -> None:
        """Of a warm start nothing: the solution doesn't depend on where the sweeps begin."""
        inputs = [
            self.options.sweeps, self.couplings, self.matrix, self.rhs, self.bound, self.block_count, self.block_kind,
            self.block_item, self.contact_resistance, self.scale, self.impulse, self.impulse_bar,
        ]  # fmt: skip
        outputs = [
            self.value, self.impulse_bar_scratch, self.rhs_bar, self.bound_bar, self.softness_bar,
            self.contact_resistance.grad, self.adjoint_residual,
        ]  # fmt: skip
        kernel = implicit_kernels(self.scalar, self.options.friction).solution_adjoint
        self._launch(kernel, self.num_worlds, inputs, outputs)

    def _sweeps_adjoint(self) -> None:
        kernels = impulse_kernels(self.scalar)
        solver = pgs_kernels(self.scalar, self.options.friction)
        sizes = [self.max_blocks, self.sweep_count]
        inputs = [
            *sizes, self.couplings, self.matrix, self.bound, self.block_count, self.block_kind, self.block_item,
            self.contact_resistance, self.start, self.scale, self.impulse_history, self.value_history, self.impulse_bar,
        ]  # fmt: skip
        outputs = [
            self.impulse_bar_scratch, self.value_bar_history, self.scale_bar, self.own_bar, self.rhs_bar,
            self.bound_bar, self.contact_resistance.grad, self.first_sweep,
        ]  # fmt: skip
        self._launch(solver.pgs_reverse, self.num_worlds, inputs, outputs)
        if self.warm:
            inputs = [self.block_count, self.start_source, self.impulse_bar_scratch]
            kernel = warm_start_kernels(self.scalar).start_adjoint
            self._launch(kernel, self.num_worlds, inputs, [self.carried_impulse])
        inputs = [
            self.block_threads, *sizes, self.couplings, self.matrix, self.block_count, self.start, self.impulse_history,
            self.first_sweep, self.impulse, self.value_bar_history, self.scale_bar, self.own_bar, self.rhs_bar,
        ]  # fmt: skip
        self._launch(solver.delassus_adjoint, self._blocks, inputs, [self.matrix_bar, self.softness_bar])
        inputs = [
            self.block_threads, *self._paths, self.dof_tree, self.tree_dof_start, self.model.max_depth,
            self.max_tree_dofs, self.factor_l, self.factor_d, self.row, self.block_count, self.block_tail,
            self.couplings,
        ]  # fmt: skip
        self._launch(kernels.block_response, self._blocks, inputs, [self.block_response])
        inputs = [
            self.block_threads, *self._trees_of_dofs, self.block_count, self.block_tail, self.couplings,
            self.block_response, self.matrix_bar,
        ]  # fmt: skip
        self._launch(kernels.block_coupling, self._blocks, inputs, [self.block_coupling])

    @property
    def _trees_of_dofs(self) -> list:
        return [self.dof_tree, self.tree_dof_start, self.max_tree_dofs]

    def _free_step_adjoint(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            self.dof_threads, *self._paths, d.dof_q, *self._trees_of_dofs, self.dt, p["damping"], p["stiffness"],
            p["rest_position"], self.q, self.qd, self.qdd, self.response, self.couplings, self.weight,
            self.block_response, self.block_coupling, self.qd_next.grad,
        ]  # fmt: skip
        outputs = [
            self.motion_weight, self.mass_bar, self.mass_bar_diagonal, self.q.grad, self.qd.grad, self.tau.grad,
            *self.device_model.parameter_bars("damping", "armature", "stiffness", "rest_position"),
        ]  # fmt: skip
        kernel = impulse_kernels(self.scalar).free_step_adjoint
        self._launch(kernel, (self.dof_threads, self.num_worlds), inputs, outputs)

    def _row_adjoint(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            *self._paths, d.dof_q, *self._trees_of_dofs, self.kernel_options, self._limits(p), p["coupling_ratio"],
            self.q, self.qd, self.qd_next, self.origin, self.subspace, self.contact_point, self.contact_frame,
            self.contact_distance, self.contact_restitution, self.contact_spring, self.anchor_point, *self._cone_arrays,
            self.block_count, self.block_kind, self.block_item, self.block_tail, self.block_reference, self.approach,
            self.impulse, self.weight, self.couplings, self.block_coupling, self.rhs_bar, self.bound_bar,
            self.softness_bar,
        ]  # fmt: skip
        limit_bars = dict(zip(LIMITS.values(), d.parameter_bars(*LIMITS.values()), strict=True))
        outputs = [
            self.q.grad, self.qd.grad, self.origin.grad, self.subspace.grad,
            *(array.grad for array in self._contact_arrays), *(array.grad for array in self._equality_arrays),
            *(array.grad for array in self._cone_arrays), self._limits(limit_bars),
            *d.parameter_bars("friction_loss", "coupling_ratio"), self.actuator_row_bar,
        ]  # fmt: skip
        self._launch(row_adjoint_kernels(self.scalar).row_adjoint, self.num_worlds, inputs, outputs)

    def _mass_matrix_adjoint(self) -> None:
        d = self.device_model
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_qd_start, *self._paths, self.subspace, self.link_inertia,
            self.mass_bar, self.mass_bar_diagonal,
        ]  # fmt: skip
        outputs = [self.composite, self.subspace.grad, self.link_inertia.grad]
        self._launch(factor_kernels(self.scalar).mass_matrix_adjoint, self._trees, inputs, outputs)

    def _actuator_adjoint(self) -> None:
        inputs = [
            *self._actuator_arrays, self.q, self.qd, self.qdd, self.control, self.actuator_row, self.tau.grad,
            self.mass_bar_diagonal, self.actuator_row_bar,
        ]  # fmt: skip
        outputs = [self.q.grad, self.qd.grad, self.control.grad, *self.device_model.parameter_bars(*ACTUATORS)]
        self._launch(actuator_kernels(self.scalar).actuator_adjoint, self.num_worlds, inputs, outputs)

    def _motion_adjoint(self) -> None:
        """Velocities, accelerations and forces of the articulated-body algorithm have served, and are scratch here."""
        d = self.device_model
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_type, d.joint_qd_start, d.parameters["gravity"], self.qd,
            self.qdd, d.none(d.types.spatial), self.subspace, self.link_inertia, self.motion_weight,
        ]  # fmt: skip
        outputs = [
            self.velocity, self.acceleration, self.bias_force, *self.motion_scratch, *d.parameter_bars("gravity"),
            self.qd.grad, None, None, self.subspace.grad, self.link_inertia.grad,
        ]  # fmt: skip
        self._launch(rnea_adjoint_kernels(self.scalar).rnea_adjoint, self._trees, inputs, outputs)


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
