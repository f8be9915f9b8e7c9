"""The stages of a step: what each launches. Their order stands in :mod:`sim.simulation.stepping.pipeline`."""

from typing import Any

from sim.arrays.launch import clear
from sim.dynamics.bodies import run_kinematics
from sim.simulation.stepping.solvers.choose import choose_impulses, choose_solver
from sim.simulation.stepping.solvers.impulses import Impulses
from sim.simulation.stepping.solvers.solver import ConstraintSolver
from sim.simulation.stepping.stages.contacts import ContactStage
from sim.simulation.stepping.stages.errors import ConstraintErrors
from sim.simulation.stepping.stages.impact_times import ImpactTimes
from sim.simulation.stepping.stages.warm_start import WarmStart
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.drag import drag_kernels
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.dynamics.gravity_compensation import gravity_compensation_kernels
from warp_kernels.dynamics.gyroscopic import gyroscopic_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.recentre import recentre_kernels
from warp_kernels.sensors.contact_force import contact_force_kernels
from warp_kernels.sensors.contacts import contact_sensor_kernels
from warp_kernels.sensors.forces import force_sensor_kernels
from warp_kernels.sensors.wrenches import wrench_sensor_kernels
from warp_kernels.solver.actuators import actuator_kernels
from warp_kernels.solver.constraint import constraint_kernels
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.mujoco.integrators.damping import damping_kernels
from warp_kernels.solver.mujoco.resistance import resistance_kernels
from warp_kernels.solver.newton.group.rows import group_row_kernels
from warp_kernels.solver.rows.constraint_rows import constraint_row_kernels
from warp_kernels.solver.tendons.constraint_rows import tendon_constraint_kernels


class Stages(Workspace):
    """The stages of a step. See :class:`sim.simulation.stepping.workspace.Workspace` for the arguments.

    Attributes:
        contact_stage: what finds contacts.
        errors: what finds the errors of constraints.
        impact_times: what finds when contacts bounce.
        warm_start: what keeps impulses from one step to the next.
        impulses: what impulses do to velocities.
        solver: what finds the impulses of constraints.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.contact_stage: ContactStage = ContactStage(self)
        self.errors: ConstraintErrors = ConstraintErrors(self)
        self.impact_times: ImpactTimes = ImpactTimes(self)
        self.warm_start: WarmStart = WarmStart(self)
        self.impulses: Impulses = choose_impulses(self)(self)
        self.solver: ConstraintSolver = choose_solver(self)(self)
        self.solver.gather()

    def store_readings(self) -> None:
        """Write the forces of the step at the cursor, and the velocities that sensors take their accelerations from."""
        if self.accelerating:
            self.launch(checkpoint_kernels(self.scalar).store_solved, self.num_worlds)
        if self.num_sensors:
            self.launch(contact_force_kernels(self.scalar).store_contact_forces, self.num_worlds)
        if self.force_sensors.kind.shape[0]:
            self.launch(force_sensor_kernels(self.scalar).store_sensor_forces, self.num_worlds)
            self.launch(wrench_sensor_kernels(self.scalar).store_wrenches, self.num_worlds)
        if self.contact_sensors.place.shape[0]:
            self.launch(contact_sensor_kernels(self.scalar).store_contact_readings, self.num_worlds)

    def find_kinematics(self) -> None:
        """Poses, motion subspaces and inertias of links, along world axes."""
        run_kinematics(self.device_model, self.q, self.groups, lanes=self.groups.lanes)
        self.groups.share_poses()

    def find_actuator_forces(self) -> None:
        """Joint forces of actuators, with their implicit share on the mass matrix's diagonal."""
        if self.model.nu:
            self.launch(actuator_kernels(self.scalar).actuate, self.num_worlds, dt=self.ahead)

    def find_free_accelerations(self) -> None:
        """Accelerations without constraints, and the factors of the mass matrix."""
        turning = self.turning_link.shape[0]
        if self.model.compensated or self.num_drag_boxes:
            clear(self.common_wrench)
        if turning:
            kernel = gyroscopic_kernels(self.scalar).gyroscopic_wrench
            self.launch(kernel, (turning, self.num_worlds), tape=True)
        if self.model.compensated:
            kernel = gravity_compensation_kernels(self.scalar).compensate_gravity
            self.launch(kernel, (self.model.num_links, self.num_worlds))
        if self.num_drag_boxes:
            kernel = drag_kernels(self.scalar).drag_wrench
            self.launch(kernel, (self.num_drag_boxes, self.num_worlds), tape=True)
        groups = self.groups
        if self.common_wrench.shape[0]:
            groups.copy_from_worlds("common_wrench")
        if self.lift.shape[0]:
            groups.copy_from_worlds("lift")
        self.launch_over_groups(
            aba_kernels(self.scalar, groups.lanes).aba,
            self._trees_of_groups,
            tau=self.joint_force,
            dt=self.ahead,
            friction_loss=self.device_model.none(self.scalar),  # dry friction is a constraint here
        )
        groups.copy_to_worlds("velocity")
        kernel = factor_kernels(self.scalar, groups.lanes).factor_mass_matrix
        self.launch_over_groups(kernel, (self.dof_threads, groups.num_groups), threads=self.dof_threads)
        if self.tendons.heavy.count:
            self.tendons.heavy.add(self)

    def list_constraints(self) -> None:
        """Which constraints there are in each world, which of them act on each other, and their rows."""
        if not self.max_constraints:
            return
        kernels = constraint_kernels(self.scalar)
        self.launch(kernels.list_constraints, self.num_worlds)
        if self.max_couplings:
            self.launch(delassus_kernels(self.scalar).list_couplings, self.num_worlds)
        self._constraint_rows()
        self.solver.write_matrix()

    def _constraint_rows(self) -> None:
        if self.solver.rows_by_groups:
            kernel, motions = group_row_kernels(self.scalar, self.groups.lanes).group_rows, self.groups.subspace
            self.launch(kernel, self.groups.num_groups, subspace=motions)
        kernels = constraint_row_kernels(self.scalar, not self.solver.rows_by_groups)
        self.launch_over_constraints(kernels.constraint_rows)
        if self.errors.pyramids_resist:
            self.launch_over_constraints(resistance_kernels(self.scalar).resistance_rows)
        if self.tendons.num_rows:
            self.launch_over_constraints(tendon_constraint_kernels(self.scalar).tendon_constraint_rows)

    def damp(self) -> None:
        """Implicit joint damping by MuJoCo's law, from qd_solved to qd_next; by the hard law it is among the forces."""
        if self.by_mujoco:
            groups = self.groups
            self.launch_over_groups(damping_kernels(self.scalar, groups.lanes).damp, groups.num_groups)

    def integrate(self) -> None:
        """From q and qd_path to q_next; floating bases turn about their centres of mass."""
        kernel, threads = integrate_kernels(self.scalar).integrate, self.link_threads
        self.launch(kernel, (threads, self.num_worlds), threads=threads, qd=self.qd_path)
        if self._bases[0]:
            self.launch(recentre_kernels(self.scalar).recentre, self._bases)

    @property
    def _bases(self) -> tuple[int, int]:
        return (self.floating_link.shape[0], self.num_worlds)

    @property
    def _trees_of_worlds(self) -> tuple[int, int]:
        return (self.model.num_trees, self.num_worlds)

    @property
    def _trees_of_groups(self) -> tuple[int, int]:
        return (self.model.num_trees, self.groups.num_groups)

    @property
    def _every_constraint(self) -> tuple[int, int]:
        return (self.max_constraints, self.num_worlds)
