"""The adjoint stages of a step: the backward pass runs the step again on a tape, then applies these.

Kinematics, contact geometry and integration have Warp's own adjoints. Everything between them, from the free
dynamics to the impulses, has one written by hand (see :mod:`warp_kernels.solver.impulse`), which hangs on the same
tape.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

from sim.arrays.launch import clear
from sim.arrays.structs import fill, gradients_of
from sim.simulation.stepping.stages.forward import Stages
from sim.simulation.stepping.workspace import GAINS, LIMITS
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.contact_adjoints import contact_adjoint_kernels
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.dynamics.gravity_compensation import gravity_compensation_kernels
from warp_kernels.dynamics.rnea_adjoint import rnea_adjoint_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.recentre import recentre_kernels
from warp_kernels.sensors.contact_force import contact_force_kernels
from warp_kernels.sensors.contacts import contact_sensor_kernels
from warp_kernels.sensors.forces import force_sensor_kernels
from warp_kernels.sensors.wrenches import wrench_sensor_kernels
from warp_kernels.solver.actuators import actuator_kernels
from warp_kernels.solver.mujoco.integrators.damping import damping_kernels
from warp_kernels.solver.mujoco.resistance import resistance_kernels
from warp_kernels.solver.row_adjoint import row_adjoint_kernels


class AdjointStages(Stages):
    """A step with its adjoint. Arrays of the backward pass are allocated when a gradient is first asked for.

    Adjoints that kernels add to lie in one piece of memory, so that one call sets them to zero; contacts have another.

    Attributes:
        kept_stages: how many stages before the last one a trajectory keeps, see :class:`RungeKuttaStep`.
    """

    kept_stages = 0

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._goes_back = False
        self.parameter_gradients: dict[str, wp.array] = {}
        self._watched: frozenset[str] | None = None

    def prepare_backward(self) -> None:
        """Allocate the arrays of the backward pass, once; again if memory ran out the first time."""
        if self._goes_back:
            return
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        constraints, nv = self.max_constraints, m.nv

        groups = self.groups
        self.motion_scratch = [groups.of_groups(m.num_links, groups.types.spatial) for _ in range(3)]
        self.motion_weight = wp.zeros((n, nv), dtype=scalar, device=self.device)
        self._adjoint_memory = shared_gradients(self._differentiated(), self.device)
        self._contact_adjoint_memory = shared_gradients(self._of_contacts(), self.device)
        if self.joint_force is not self.tau:
            self.joint_force.grad = self.tau.grad  # what the step's adjoint finds of tau, it finds of all joint forces
        # What reaches the impulses other than by the next velocity.
        self.further_impulse_bar = self.impulse.grad if self._impulses_are_read else self.worlds_last(0, t.vec3)
        for array in (self.q_next, self.qd_next, self.qd_path, self.qd_solved):
            array.requires_grad = True
        self.activations.prepare_backward()
        self.carried_q = wp.zeros((n, m.nq), dtype=scalar, device=self.device)
        self.carried_qd = wp.zeros((n, nv), dtype=scalar, device=self.device)
        self.weight, groups.weight = groups.scalars(nv)
        swept = constraints if self.max_couplings else 0
        self.impulse_bar, self.start_bar = (self.worlds_last(swept, t.vec3) for _ in range(2))
        self.rhs_bar = self.worlds_last(constraints, t.vec3)
        self.bound_bar, self.softness_bar = (self.worlds_last(constraints, scalar) for _ in range(2))
        self.impact_times.prepare_adjoint()
        self.warm_start.prepare_adjoint()
        # Only where R has a derivative.
        own = int(self.newton and constraints > 0 and not self.by_mujoco)
        self.own_mass_bar, groups.own_mass_bar = groups.scalars(own * int(m.dof_depth.sum()))
        self.own_mass_bar_diagonal, groups.own_mass_bar_diagonal = groups.scalars(own * nv)
        self.solver.prepare_adjoint()
        self.mass_bar, groups.mass_bar = groups.scalars(int(m.dof_depth.sum()))
        self.mass_bar_diagonal, groups.mass_bar_diagonal = groups.scalars(nv)
        self.actuator_row_bar = self.worlds_last(m.nu, t.vec3)
        self.composite = groups.of_groups(m.num_links, groups.types.inertia)
        self._gather()
        self.contact_stage.gather()
        self.errors.gather()
        self.solver.gather()
        self._gather_gradients()
        self._goes_back = True

    @property
    def _impulses_are_read(self) -> bool:
        """Return whether impulses have gradients besides those through the velocities."""
        return bool(self.bouncing or self.num_sensors or (self.newton and self.warm))

    def _differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [
            self.q, self.qd, self.tau, self.control, self.pose, self.origin, self.subspace, self.link_inertia,
            self.spin, self.drag_velocity, self.common_wrench, self.lift,
            *([self.qd_path] if self.bouncing else []),
            *([self.impulse] if self._impulses_are_read else []),
            *self.errors.differentiated(), *self.groups.differentiated(),
            *self.tendons.differentiated,
            *self.transmissions.differentiated, *self.activations.differentiated,
        ]  # fmt: skip

    def _of_contacts(self) -> list[wp.array]:
        """Return those of contacts, which are cleared for present contacts alone."""
        return [*self.contact_stage.differentiated(), *self.errors.of_contacts()]

    def _gather_gradients(self) -> None:
        """Gather gradients by subject as :meth:`Workspace._gather` does their arrays."""
        self.motions_bar = gradients_of(self.motions)
        self.rows_bar = fill(self.structs.Rows, rhs=self.rhs_bar, bound=self.bound_bar, softness=self.softness_bar)

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

    @property
    def limits_bar(self) -> Any:
        """Gradients of the parameters of joint limits, without rows where none is wanted."""
        return self._parameter_gradients(self.structs.Limits, LIMITS)

    @property
    def options_bar(self) -> Any:
        """Gradients of the parameters among the contact options, likewise."""
        return self._parameter_gradients(self.structs.Options, {"recovery_time": "recovery_time"})

    @property
    def gains_bar(self) -> Any:
        """Gradients of the parameters of actuators, likewise."""
        own = {field: name for field, name in GAINS.items() if field not in self.activations.unbounded}
        return self._parameter_gradients(self.structs.Gains, own)

    def _parameter_gradients(self, struct: Any, names: Mapping[str, str]) -> Any:
        gradients = self.device_model.parameter_bars(*names.values())
        return fill(struct, **dict(zip(names, gradients, strict=True)))

    def clear_adjoints(self) -> None:
        """Clear the adjoints that kernels add to, except those of contacts, whose number isn't known yet."""
        assert self._goes_back, "prepare_backward comes first"
        clear(self._adjoint_memory)

    def readings_adjoint(self) -> None:
        """From the adjoint of the forces to those of the impulses and the frames of contacts."""
        if self.num_sensors:
            self.launch(contact_force_kernels(self.scalar).contact_force_adjoint, self.num_worlds)
        if self.force_sensors.kind.shape[0]:
            self.launch(force_sensor_kernels(self.scalar).sensor_force_adjoint, self.num_worlds)
            self.launch(wrench_sensor_kernels(self.scalar).wrench_adjoint, self.num_worlds)
        if self.contact_sensors.place.shape[0]:
            self.launch(contact_sensor_kernels(self.scalar).contact_reading_adjoint, self.num_worlds)

    def solved_adjoint(self) -> None:
        """Add to the adjoint of qd_solved what sensors read of it."""
        if self.accelerating:
            self.launch(checkpoint_kernels(self.scalar).add_solved_adjoint, self.num_worlds)

    def damping_adjoint(self) -> None:
        """From the adjoint of qd_next to that of qd_solved; damping_weight is kept for what reaches M and D."""
        if self.by_mujoco:
            groups = self.groups
            self.launch_over_groups(damping_kernels(self.scalar, groups.lanes).damping_adjoint, groups.num_groups)

    def position_adjoint(self) -> None:
        """From the adjoint of q_next to those of q and qd_path."""
        if self._bases[0]:
            self.launch(recentre_kernels(self.scalar).recentre_adjoint, self._bases)
        kernel, threads = integrate_kernels(self.scalar).integrate_adjoint, self.link_threads
        self.launch(kernel, (threads, self.num_worlds), threads=threads, qd=self.qd_path, qd_bar=self.qd_path.grad)

    def clear_contact_adjoints(self) -> None:
        """Clear the adjoints of present contacts."""
        if self.max_contacts:
            self.launch(contact_adjoint_kernels(self.scalar, self.looping).clear_contacts, self.slots)

    def start_adjoint(self) -> None:
        """Add what the next step's warm start asks of the impulses."""
        self.warm_start.add_adjoint(self.further_impulse_bar if self.newton else self.impulse_bar)

    def tendon_mass_adjoint(self) -> None:
        """From the adjoint of the mass matrix to what the armatures of tendons add to it."""
        if self.tendons.heavy.count:
            self.tendons.heavy.add_adjoint(self)

    def mass_adjoint(self) -> None:
        """From the adjoint of the mass matrix to those of inertias, motion subspaces and armatures."""
        if self.max_constraints or self.by_mujoco:
            kernel = factor_kernels(self.scalar, self.groups.lanes).mass_matrix_adjoint
            self.launch_over_groups(kernel, self._trees_of_groups)

    def actuator_adjoint(self) -> None:
        """From the adjoint of joint forces to those of states, inputs and gains of actuators."""
        if self.model.nu:
            self.launch(actuator_kernels(self.scalar).actuator_adjoint, self.num_worlds, dt=self.ahead)

    def rows_adjoint(self) -> None:
        """From the adjoints of rows to those of subspaces, contacts, anchors and whatever they are made of."""
        if not self.max_constraints:
            return
        self.launch(row_adjoint_kernels(self.scalar, not self.solver.adjoint_by_groups).row_adjoint, self.num_worlds)
        if self.errors.pyramids_resist:
            self.launch(resistance_kernels(self.scalar).resistance_row_adjoint, self.num_worlds)

    def motion_adjoint(self) -> None:
        """From the adjoint of free accelerations to those of motion, forces and inertias: an inverse dynamics' adjoint.

        Velocities, accelerations and forces of the articulated-body algorithm have served, and are scratch here.
        """
        velocity_bar, acceleration_bar, force = self.motion_scratch
        self.launch_over_groups(
            rnea_adjoint_kernels(self.scalar, self.groups.lanes).rnea_adjoint,
            self._trees_of_groups,
            direction=self.groups.bias_force,
            velocity_bar=velocity_bar,
            acceleration_bar=acceleration_bar,
            force=force,
            qdd_bar=None,
        )
        if self.common_wrench.shape[0]:
            self.groups.copy_adjoint_to_worlds("common_wrench")
        if self.lift.shape[0]:
            self.groups.copy_adjoint_to_worlds("lift")
        if self.model.compensated:
            kernel = gravity_compensation_kernels(self.scalar).compensate_gravity_adjoint
            self.launch(kernel, (self.model.num_links, self.num_worlds))


def shared_gradients(arrays: list[wp.array], device: Any) -> wp.array:
    """Give each array a gradient, all in one piece of memory that is returned."""
    alignment = 64
    sizes = [-(-array.size * wp.types.type_size_in_bytes(array.dtype) // alignment) * alignment for array in arrays]
    memory = wp.zeros(max(sum(sizes), 1), dtype=wp.uint8, device=device)
    offset = 0
    for array, size in zip(arrays, sizes, strict=True):
        array.grad = wp.array(ptr=memory.ptr + offset, shape=array.shape, dtype=array.dtype, device=device)
        offset += size
    return memory
