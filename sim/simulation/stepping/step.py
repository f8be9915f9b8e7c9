"""One time step of a shard: its stages in order.

A step never sees a trajectory: kernels load the state before it and store that after it through a table of pointers
(see :mod:`warp_kernels.checkpoint`).
"""

from typing import Any

import warp as wp

from sim.arrays.launch import active_tape, clear
from sim.dynamics.bodies import run_kinematics
from sim.simulation.stepping.contact_stage import contact_identity, run_contacts
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.drag import drag_kernels
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.dynamics.gravity_compensation import gravity_compensation_kernels
from warp_kernels.dynamics.gyroscopic import gyroscopic_kernels
from warp_kernels.kinematics.acceleration import acceleration_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.recentre import recentre_kernels
from warp_kernels.sensors.contact_force import contact_force_kernels
from warp_kernels.sensors.contacts import contact_sensor_kernels
from warp_kernels.sensors.forces import force_sensor_kernels
from warp_kernels.sensors.wrenches import wrench_sensor_kernels
from warp_kernels.solver.actuators import actuator_kernels
from warp_kernels.solver.constraint import constraint_kernels
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.impact_time import impact_time_kernels
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.impulse_groups import impulse_group_kernels
from warp_kernels.solver.mujoco.equality_references import equality_reference_kernels
from warp_kernels.solver.mujoco.group import KEEPS_ALL, KEEPS_HALF, mujoco_group_kernels
from warp_kernels.solver.mujoco.integrators.damping import damping_kernels
from warp_kernels.solver.mujoco.references import contact_reference_kernels, reference_kernels
from warp_kernels.solver.mujoco.resistance import resistance_kernels
from warp_kernels.solver.mujoco.solve import mujoco_kernels
from warp_kernels.solver.newton.bounces import newton_bounce_kernels
from warp_kernels.solver.newton.group.rows import group_row_kernels
from warp_kernels.solver.newton.group.solve import newton_group_kernels
from warp_kernels.solver.newton.islands.solve import newton_island_kernels
from warp_kernels.solver.newton.solve import newton_kernels
from warp_kernels.solver.pgs import pgs_kernels
from warp_kernels.solver.rows.cones import cone_kernels
from warp_kernels.solver.rows.constraint_rows import constraint_row_kernels
from warp_kernels.solver.rows.equalities import equality_kernels
from warp_kernels.solver.tendons.constraint_rows import tendon_constraint_kernels
from warp_kernels.solver.warm_start import warm_start_kernels


class Step(Workspace):
    """The launches of one step. See :class:`sim.simulation.stepping.workspace.Workspace` for the arguments."""

    def load(self) -> None:
        """Read the state and the control at the cursor."""
        kernels = checkpoint_kernels(self.scalar)
        self._launch(kernels.load_state, self.num_worlds, control=self.given_control)
        self.activations.load(self)
        if self.warm:
            self._launch(kernels.load_impulses, self._every_constraint)

    def store(self, **reports: Any) -> None:
        """Write the next state and move the cursor on.

        Args:
            reports: ``largest_residual`` and ``total_overflow``, where the residual and the contacts beyond
                max_contacts are added; by default those of this step.
        """
        kernels = checkpoint_kernels(self.scalar)
        self._launch(kernels.store_state, self.num_worlds, **reports)
        self.activations.store(self)
        if self.warm:
            self._launch(kernels.store_impulses, self._every_constraint)
        self._store_readings()
        self._launch(kernels.move_cursor, 1, by=1)

    def _store_readings(self) -> None:
        """Write the forces of the step at the cursor, and the velocities that sensors take their accelerations from."""
        if self.accelerating:
            self._launch(checkpoint_kernels(self.scalar).store_solved, self.num_worlds)
        if self.num_sensors:
            self._launch(contact_force_kernels(self.scalar).store_contact_forces, self.num_worlds)
        if self.force_sensors.kind.shape[0]:
            self._launch(force_sensor_kernels(self.scalar).store_sensor_forces, self.num_worlds)
            self._launch(wrench_sensor_kernels(self.scalar).store_wrenches, self.num_worlds)
        if self.contact_sensors.place.shape[0]:
            self._launch(contact_sensor_kernels(self.scalar).store_contact_readings, self.num_worlds)

    def forward(self) -> None:
        """All stages from (q, qd, tau, control) to (q_next, qd_next)."""
        self.to_next_velocity()
        self.to_next_position()

    def to_next_velocity(self) -> None:
        """The stages up to qd_next. Kernels with Warp's own adjoint are recorded on an active tape."""
        self.activations.activate(self)
        self._kinematics()
        if self.model.nu:
            self._launch(actuator_kernels(self.scalar).actuate, self.num_worlds, dt=self.ahead)
        self.tendons.pull(self)
        self._free_dynamics()
        if self.max_constraints:
            run_contacts(self)
        self.transmissions.push(self)
        if self.max_constraints:
            self._cones()
            if self.bias_velocity.shape[0]:
                self._bias_motion()
            self.tendons.constrain(self, self.law)
            if self.by_mujoco:
                self._references()
            else:
                self._equalities()
            self._list_constraints()
            self._solve_constraints()
        self._apply_impulses()
        if self.by_mujoco:
            self._damp()
        if self.bouncing:
            self._launch(impact_time_kernels(self.scalar).path_velocity, self.num_worlds)

    def to_next_position(self) -> None:
        """The last stages, from q and qd_path to q_next, and to the velocity after the turn."""
        kernel, threads = integrate_kernels(self.scalar).integrate, self.link_threads
        self._launch(kernel, (threads, self.num_worlds), threads=threads, qd=self.qd_path)
        if self._bases[0]:
            self._launch(recentre_kernels(self.scalar).recentre, self._bases)

    def show_contacts(self) -> None:
        """See to it that the working arrays hold the contacts at the state before the last step, as they do here."""

    def _kinematics(self) -> None:
        run_kinematics(self.device_model, self.q, self.groups, lanes=self.groups.lanes)
        self.groups.share_poses()

    def _free_dynamics(self) -> None:
        """Accelerations without constraints, and the factors of the mass matrix."""
        turning = self.turning_link.shape[0]
        if self.model.compensated or self.num_drag_boxes:
            clear(self.common_wrench)
        if turning:
            kernel = gyroscopic_kernels(self.scalar).gyroscopic_wrench
            self._launch(kernel, (turning, self.num_worlds), tape=True)
        if self.model.compensated:
            kernel = gravity_compensation_kernels(self.scalar).compensate_gravity
            self._launch(kernel, (self.model.num_links, self.num_worlds))
        if self.num_drag_boxes:
            kernel = drag_kernels(self.scalar).drag_wrench
            self._launch(kernel, (self.num_drag_boxes, self.num_worlds), tape=True)
        groups = self.groups
        if self.common_wrench.shape[0]:
            groups.copy_from_worlds("common_wrench")
        if self.lift.shape[0]:
            groups.copy_from_worlds("lift")
        self._launch_groups(
            aba_kernels(self.scalar, groups.lanes).aba,
            self._trees_of_groups,
            tau=self.joint_force,
            dt=self.ahead,
            friction_loss=self.device_model.none(self.scalar),  # dry friction is a constraint here
        )
        groups.copy_to_worlds("velocity")
        kernel = factor_kernels(self.scalar, groups.lanes).factor_mass_matrix
        self._launch_groups(kernel, (self.dof_threads, groups.num_groups), threads=self.dof_threads)
        if self.tendons.heavy.count:
            self.tendons.heavy.add(self)

    def _equalities(self) -> None:
        kernels, counts = equality_kernels(self.scalar), self.model.counts
        if counts["anchor"]:
            self._launch(kernels.evaluate_anchors, (counts["anchor"], self.num_worlds), tape=True)
        if counts["coupling"]:
            self._launch(kernels.evaluate_couplings, (counts["coupling"], self.num_worlds), tape=True)

    def _bias_motion(self) -> None:
        """Motion of links whose coordinates don't accelerate: with it constraints between them drift."""
        motion = {"velocity": self.bias_velocity, "acceleration": self.bias_acceleration}
        if self._bases[0]:
            kernel = recentre_kernels(self.scalar).path_acceleration
            self._launch(kernel, self._bases, tape=True, qdd=self.path_acceleration)
        kernel = acceleration_kernels(self.scalar).link_motion
        self._launch(kernel, self._trees_of_worlds, tape=True, qdd=self.path_acceleration, **motion)

    def _cones(self) -> None:
        count = len(self.layout.cones)
        if count:
            self._launch(cone_kernels(self.scalar).evaluate_cones, (count, self.num_worlds), tape=True)

    def _references(self) -> None:
        """What MuJoCo's law asks of the rows."""
        kernels, given = reference_kernels(self.scalar), self.device_model.parameter_arrays("solref", "solimp")
        if self.max_contacts:
            kernel = contact_reference_kernels(self.scalar, self.looping).contact_references
            pyramidal = int(self.contact_options.friction == "pyramid")
            self._launch(kernel, self.slots, tape=True, pyramidal=pyramidal, **given)
            if self.pyramids_resist:
                dim = (self.max_contacts, self.num_worlds)
                self._launch(resistance_kernels(self.scalar).resistance_references, dim, tape=True)
        names = ("limited_dof", "friction_dof")
        joints: dict[str, Any] = {name: getattr(self.constrained, name) for name in names}
        self._launch_over_dofs(kernels.joint_references, tape=True, **joints, **given)
        if len(self.layout.cones):
            dim = (len(self.layout.cones), self.num_worlds)
            cone_dof = self.constrained.cone_dof
            self._launch(kernels.cone_references, dim, tape=True, cone_dof=cone_dof, **given)
        kernels, counts = equality_reference_kernels(self.scalar), self.model.counts
        if counts["anchor"]:
            self._launch(kernels.anchor_references, (counts["anchor"], self.num_worlds), tape=True, **given)
        if counts["coupling"]:
            self._launch(kernels.coupling_references, (counts["coupling"], self.num_worlds), tape=True, **given)

    def _list_constraints(self) -> None:
        """Which constraints there are in each world, which of them act on each other, and their rows."""
        kernels = constraint_kernels(self.scalar)
        self._launch(kernels.list_constraints, self.num_worlds)
        if self.max_couplings:
            self._launch(delassus_kernels(self.scalar).list_couplings, self.num_worlds)
        self._constraint_rows()
        if not self.newton:
            self._launch_over_constraints(delassus_kernels(self.scalar).delassus)

    def _constraint_rows(self) -> None:
        if self.together:
            kernel, motions = group_row_kernels(self.scalar, self.groups.lanes).group_rows, self.groups.subspace
            self._launch(kernel, self.groups.num_groups, subspace=motions)
        self._launch_over_constraints(constraint_row_kernels(self.scalar, not self.together).constraint_rows)
        if self.pyramids_resist:
            self._launch_over_constraints(resistance_kernels(self.scalar).resistance_rows)
        if self.tendons.num_rows:
            self._launch_over_constraints(tendon_constraint_kernels(self.scalar).tendon_constraint_rows)

    def _solve_constraints(self) -> None:
        if self.by_mujoco:
            self._solve_by_mujoco()
        elif self.newton:
            self._solve_by_newton()
        else:
            self._sweep()

    def _solve_by_newton(self) -> None:
        self._match_constraints()
        kernels = newton_kernels(self.scalar, self.contact_options.friction)
        self._launch_over_constraints(kernels.regularise)
        if self.bouncing:
            self._launch_over_constraints(newton_bounce_kernels(self.scalar).harden_bounces)
        if self.together:
            groups = self.groups
            kernel = newton_group_kernels(self.scalar, self.contact_options.friction, groups.lanes).newton_group
            self._launch(kernel, groups.num_groups, keeps=int(active_tape() is not None))
        if self.divided:
            islands = newton_island_kernels(self.scalar, self.contact_options.friction)
            self._launch(islands.newton_islands, self.num_worlds, keeps=int(active_tape() is not None))
        else:
            self._launch(kernels.newton_solve, self.num_worlds)

    def _solve_by_mujoco(self) -> None:
        kernels = mujoco_kernels(self.scalar, self.cone)
        impedance_ratio = self.scalar(self.contact_options.impratio)
        self._launch_over_constraints(kernels.soften, impedance_ratio=impedance_ratio)
        if self.together:
            groups = self.groups
            kernel = mujoco_group_kernels(self.scalar, self.cone, groups.lanes).convex_group
            keeps = 0 if active_tape() is None else KEEPS_HALF if self.back_together else KEEPS_ALL
            self._launch(kernel, groups.num_groups, keeps=keeps)
        self._launch(kernels.convex_solve, self.num_worlds)
        if self.noslip:
            self.noslip.run()

    def _apply_impulses(self) -> None:
        kernels = impulse_kernels(self.scalar)
        if self.factored_together:
            groups = self.groups
            self._launch(kernels.push_impulses, self.num_worlds)
            self._launch_groups(impulse_group_kernels(self.scalar, groups.lanes).apply_pushes, groups.num_groups)
        else:
            self._launch(kernels.apply_impulses, self.num_worlds)

    def _damp(self) -> None:
        """MuJoCo's implicit joint damping, from qd_solved to qd_next."""
        groups = self.groups
        self._launch_groups(damping_kernels(self.scalar, groups.lanes).damp, groups.num_groups)

    def _match_constraints(self) -> None:
        """Find the impulses that a warm start begins with."""
        if self.warm:
            identity = contact_identity(self)
            kernel = warm_start_kernels(self.scalar).match_constraints
            self._launch(kernel, self.num_worlds, slot_identity=identity)

    def _sweep(self) -> None:
        self._match_constraints()
        self._launch(pgs_kernels(self.scalar, self.contact_options.friction).pgs_solve, self.num_worlds)

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

    def _launch_over_dofs(self, kernel: wp.Kernel, **named: Any) -> None:
        """Launch a kernel whose threads share out the degrees of freedom of a world."""
        threads = self.dof_threads
        self._launch(kernel, (threads, self.num_worlds), threads=threads, **named)

    def _launch_over_constraints(self, kernel: wp.Kernel, **named: Any) -> None:
        """Launch a kernel whose threads share out the constraints of a world."""
        threads = self.constraint_threads
        self._launch(kernel, (threads, self.num_worlds), threads=threads, **named)
