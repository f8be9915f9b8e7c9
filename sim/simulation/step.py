"""One time step of a block of worlds: its stages in order.

A step never sees a trajectory: kernels load the state before it and store that after it through a table of pointers
(see :mod:`warp_kernels.checkpoint`).
"""

import warp as wp

from sim.dynamics.differentiable_op import run_kinematics
from sim.simulation.workspace import Workspace
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.collision.convex.detect import detect_convex_kernels
from warp_kernels.collision.convex.evaluate import evaluate_convex_kernels
from warp_kernels.collision.convex.identity import identity_kernels
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.field.detect import detect_field_kernels
from warp_kernels.collision.field.detect_hull import detect_field_hull_kernels
from warp_kernels.collision.field.evaluate import evaluate_field_kernels
from warp_kernels.collision.field.evaluate_hull import evaluate_field_hull_kernels
from warp_kernels.collision.materials import material_kernels
from warp_kernels.collision.near import near_kernels
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.solver.actuators import actuator_kernels
from warp_kernels.solver.constraint import constraint_kernels
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.pgs import pgs_kernels
from warp_kernels.solver.rows.cones import cone_kernels
from warp_kernels.solver.rows.equalities import equality_kernels
from warp_kernels.solver.warm_start import warm_start_kernels


class Step(Workspace):
    """The launches of one step. See :class:`sim.simulation.workspace.Workspace` for the arguments."""

    def load(self) -> None:
        """Read the state and the control at the cursor."""
        kernels = checkpoint_kernels(self.scalar)
        outputs = [self.q, self.qd, self.tau, self.control]
        inputs = [*self.place, self.table, self.cursor]
        self._launch(kernels.load_state, self.num_worlds, inputs, outputs)
        if self.warm:
            self._launch(kernels.load_impulses, self._warm_blocks, inputs, [self.previous_impulse, self.previous_key])

    def store(self, reports: list[wp.array]) -> None:
        """Write the next state and move the cursor on. reports: where the residual and what found no room are added."""
        kernels = checkpoint_kernels(self.scalar)
        inputs = [
            *self.place, self.table, self.cursor, self.q_next, self.qd_next, self.residual, self.contact_overflow,
            self.block_overflow,
        ]  # fmt: skip
        self._launch(kernels.store_state, self.num_worlds, inputs, reports)
        if self.warm:
            inputs = [*self.place, self.table, self.cursor, self.block_count, self.impulse, self.block_key]
            self._launch(kernels.store_impulses, self._warm_blocks, inputs, [])
        self._launch(kernels.move_cursor, 1, [1], [self.cursor])

    def forward(self) -> None:
        """All stages from (q, qd, tau, control) to (q_next, qd_next)."""
        self.to_next_velocity()
        self.to_next_position()

    def to_next_velocity(self) -> None:
        """The stages up to qd_next. Kernels with Warp's own adjoint are recorded on an active tape."""
        self._kinematics()
        if self.model.nu:
            self._actuators()
        self._free_dynamics()
        if self.max_blocks:
            self._contacts()
            self._equalities()
            self._cones()
            self._constraints()
        self._velocity()

    def to_next_position(self) -> None:
        """The last stage, from q and qd_next to q_next; recorded on an active tape."""
        d = self.device_model
        inputs = [d.joint_type, d.joint_q_start, d.joint_qd_start, self.dt, self.q, self.qd_next]
        kernel = integrate_kernels(self.scalar).integrate
        self._launch(kernel, (self.model.num_links, self.num_worlds), inputs, [self.q_next], tape=True)

    def _kinematics(self) -> None:
        outputs = [self.pose, self.origin, self.subspace, self.link_inertia]
        run_kinematics(self.device_model, self.q, outputs, self.kinematics_scratch)

    def _actuators(self) -> None:
        inputs = [*self._actuator_arrays, self.q, self.qd, self.tau, self.control]
        outputs = [self.joint_force, self.implicit, self.actuator_row]
        self._launch(actuator_kernels(self.scalar).actuate, self.num_worlds, inputs, outputs)

    def _free_dynamics(self) -> None:
        d = self.device_model
        p = d.parameters
        inputs = [
            d.tree_link_start, d.link_parent, d.joint_type, d.joint_qd_start, d.dof_q, self.dt, p["damping"],
            p["armature"], p["stiffness"], p["rest_position"], d.none(self.scalar), p["gravity"], self.q, self.qd,
            self.joint_force, self.implicit, d.none(d.types.spatial), self.subspace, self.link_inertia,
        ]  # fmt: skip
        outputs = [
            self.velocity, self.acceleration, self.bias_force, self.articulated, self.factor_u, self.factor_d,
            self.innovation, self.qdd,
        ]  # fmt: skip
        self._launch(aba_kernels(self.scalar).aba, self._trees, inputs, outputs)
        inputs = [self.dof_threads, *self._paths, self.factor_u, self.factor_d, self.subspace]
        kernel = factor_kernels(self.scalar).factor_mass_matrix
        self._launch(kernel, (self.dof_threads, self.num_worlds), inputs, [self.factor_l])

    def _contacts(self) -> None:
        if not self.max_contacts:
            return
        if self.many_pairs:
            self._near_pairs()
        self._find_contacts()
        self._evaluate_contacts()
        self._contact_materials()

    def _find_contacts(self) -> None:
        p, c = self.device_model.parameters, self.collision
        placed = [p["geometry_placement"], p["geometry_size"]]
        motion = [self.pose, self.origin, self.velocity]
        reach = [self.scalar(self.options.margin), self.dt]
        outputs = [self.slot_pair, self.slot_feature, self.contact_count, self.contact_overflow]
        inputs = [*c.arrays, *placed, *motion, self.near, *reach]
        self._launch(detect_kernels(self.scalar).detect, self.num_worlds, inputs, outputs)
        if c.has_convex_pairs:
            kernel = detect_convex_kernels(self.scalar).detect_convex
            inputs = [*c.convex_detection, *placed, *motion, self.near, *reach]
            self._launch(kernel, self.num_worlds, inputs, [*outputs[:2], *self.slot_details, *outputs[2:]])
        over_field = [*placed, p["height"], *motion, *reach]
        if c.has_round_field_pairs:
            kernel = detect_field_kernels(self.scalar).detect_field
            self._launch(kernel, self.num_worlds, [*c.field_detection, *over_field], outputs)
        if c.has_hull_field_pairs:
            kernel = detect_field_hull_kernels(self.scalar).detect_field_hull
            self._launch(kernel, self.num_worlds, [*c.field_hull_detection, *over_field], outputs)

    def _evaluate_contacts(self) -> None:
        p, c = self.device_model.parameters, self.collision
        placed, material = [p["geometry_placement"], p["geometry_size"]], [p["friction"], p["restitution"]]
        state = [self.pose, self.origin, self.slot_pair, self.slot_feature, self.contact_count]
        outputs, dim = self._contact_arrays[:5], (self.max_contacts, self.num_worlds)
        inputs = [*c.arrays, *placed, *material, *state]
        self._launch(evaluate_kernels(self.scalar).evaluate, dim, inputs, outputs, tape=True)
        if c.has_convex_pairs:
            kernel = evaluate_convex_kernels(self.scalar).evaluate_convex
            inputs = [*c.convex_evaluation, *placed, *material, *state[:-1], *self.slot_details, state[-1]]
            self._launch(kernel, dim, inputs, outputs, tape=True)
        over_field = [*placed, p["height"], *material, *state]
        if c.has_round_field_pairs:
            kernel = evaluate_field_kernels(self.scalar).evaluate_field
            self._launch(kernel, dim, [*c.field_evaluation, *over_field], outputs, tape=True)
        if c.has_hull_field_pairs:
            kernel = evaluate_field_hull_kernels(self.scalar).evaluate_field_hull
            self._launch(kernel, dim, [*c.field_hull_evaluation, *over_field], outputs, tape=True)

    def _contact_materials(self) -> None:
        p, dim = self.device_model.parameters, (self.max_contacts, self.num_worlds)
        if self.layout.compliant:
            inputs = [
                self.collision.pair_a, self.collision.pair_b, p["contact_stiffness"], p["contact_damping"],
                self.slot_pair, self.contact_count,
            ]  # fmt: skip
            kernel = material_kernels(self.scalar).pair_spring
            self._launch(kernel, dim, inputs, [self.contact_spring], tape=True)
        if self.layout.resisting:
            inputs = [
                self.collision.pair_a, self.collision.pair_b, p["torsional_friction"], p["rolling_friction"],
                self.slot_pair, self.contact_count,
            ]  # fmt: skip
            kernel = material_kernels(self.scalar).pair_resistance
            self._launch(kernel, dim, inputs, [self.contact_resistance], tape=True)

    def _near_pairs(self) -> None:
        p, c = self.device_model.parameters, self.collision
        kernels = near_kernels(self.scalar)
        inputs = [
            c.colliding, c.geometry_link, c.geometry_type, c.link_tree, c.hull_radius, p["geometry_placement"],
            p["geometry_size"], self.pose, self.origin, self.velocity, self.scalar(self.options.margin), self.dt,
        ]  # fmt: skip
        outputs = [self.geometry_centre, self.geometry_ball]
        self._launch(kernels.bound_geometries, (c.colliding.shape[0], self.num_worlds), inputs, outputs)
        inputs = [
            c.pair_a, c.pair_b, c.geometry_link, c.geometry_type, p["geometry_placement"], self.pose, *outputs
        ]  # fmt: skip
        self._launch(kernels.near_pairs, self.near.shape, inputs, [self.near])

    def _equalities(self) -> None:
        d, counts = self.device_model, self.model.counts
        p = d.parameters
        kernels = equality_kernels(self.scalar)
        if counts["anchor"]:
            inputs = [
                d.link_tree, self.anchor_link_a, self.anchor_link_b, self.kernel_options, p["anchor_a"], p["anchor_b"],
                self.pose, self.origin,
            ]  # fmt: skip
            outputs = [self.anchor_point, self.anchor_bias, self.anchor_turn]
            self._launch(kernels.evaluate_anchors, (counts["anchor"], self.num_worlds), inputs, outputs, tape=True)
        if counts["coupling"]:
            inputs = [
                d.dof_q, self.coupling_dof, self.coupling_other, self.kernel_options, p["coupling_ratio"],
                p["coupling_offset"], self.q,
            ]  # fmt: skip
            dim = (counts["coupling"], self.num_worlds)
            self._launch(kernels.evaluate_couplings, dim, inputs, [self.coupling_bias], tape=True)

    def _cones(self) -> None:
        d = self.device_model
        p = d.parameters
        if len(self.layout.cones) == 0:
            return
        inputs = [
            d.joint_axis, d.joint_q_start, self.cone_link, self.cone_twists, p["swing_limit"], p["twist_limit"], self.q
        ]  # fmt: skip
        dim = (len(self.layout.cones), self.num_worlds)
        self._launch(cone_kernels(self.scalar).evaluate_cones, dim, inputs, self._cone_arrays, tape=True)

    def _constraints(self) -> None:
        d, m = self.device_model, self.model
        p = d.parameters
        kernels = constraint_kernels(self.scalar)
        c = self.collision
        inputs = [
            self.limited_dof, self.lossy_dof, d.actuator_dof, d.dof_q, d.link_tail_dof, d.link_tree, c.geometry_link,
            c.pair_a, c.pair_b, self.coupling_dof, self.coupling_other, self.anchor_link_a, self.anchor_link_b,
            self.anchor_welded, self.cone_dof, self.kernel_options, self._limits(p), self.q, self.qd, self.qdd,
            self.contact_count, self.slot_pair, self.contact_resistance, self.actuator_row, *self._cone_arrays,
        ]  # fmt: skip
        blocks = [self.block_kind, self.block_item, self.block_tail, self.block_reference]
        self._launch(kernels.list_blocks, self.num_worlds, inputs, [self.block_count, *blocks])
        matrix = delassus_kernels(self.scalar)
        outputs = [self.block_count, self.block_overflow, *blocks, self.couplings]
        self._launch(matrix.list_couplings, self.num_worlds, [self.dof_tree, self.contact_count], outputs)
        inputs = [
            self.block_threads, *self._paths, d.dof_q, self.dof_tree, m.max_depth, self.kernel_options,
            self._limits(p), p["friction_loss"], p["coupling_ratio"], self.q, self.qd, self.qdd, self.origin,
            self.subspace, self.factor_l, self.actuator_row, *self._contact_arrays, *self._equality_arrays,
            *self._cone_arrays,
            self.block_count, self.block_kind, self.block_item, self.block_tail, self.block_reference,
        ]  # fmt: skip
        self._launch(
            kernels.block_rows, self._blocks, inputs, [self.row, self.rhs, self.bound, self.softness, self.approach]
        )
        inputs = [
            self.block_threads, *self._paths, m.max_depth, self.kernel_options, self.factor_d, self.row, self.softness,
            self.block_count, self.block_tail, self.couplings,
        ]  # fmt: skip
        self._launch(matrix.delassus, self._blocks, inputs, [self.matrix])
        if self.warm:
            self._match_blocks()
        inputs = [
            self.max_blocks, self.options.sweeps, self.scalar(self.options.tolerance), self.couplings, self.matrix,
            self.rhs, self.bound, self.block_count,
            self.block_kind, self.block_item, self.contact_resistance, self.start,
        ]  # fmt: skip
        outputs = [self.scale, self.impulse, self.impulse_history, self.value_history, self.residual, self.sweep_count]
        self._launch(pgs_kernels(self.scalar, self.options.friction).pgs_solve, self.num_worlds, inputs, outputs)

    def _match_blocks(self) -> None:
        """The impulses that the solver begins with, from those of the step before."""
        c = self.collision
        identity = self.slot_feature
        if c.has_convex_pairs:
            identity = self.slot_identity
            inputs = [
                *c.convex_identity, self.device_model.parameters["geometry_placement"], self.pose, self.origin,
                self.slot_pair, self.slot_feature, self.contact_point, self.contact_count,
            ]  # fmt: skip
            kernel = identity_kernels(self.scalar).contact_identity
            self._launch(kernel, (self.max_contacts, self.num_worlds), inputs, [identity])
        inputs = [
            self.block_count, self.block_kind, self.block_item, self.slot_pair, identity, self.previous_key,
            self.previous_impulse,
        ]  # fmt: skip
        outputs = [self.block_key, self.start_source, self.start]
        self._launch(warm_start_kernels(self.scalar).match_blocks, self.num_worlds, inputs, outputs)

    def _velocity(self) -> None:
        inputs = [
            *self._paths, self.model.max_depth, self.dt, self.qd, self.qdd, self.factor_l, self.factor_d, self.row,
            self.impulse, self.block_count, self.block_tail,
        ]  # fmt: skip
        outputs = [self.response, self.qd_next]
        self._launch(impulse_kernels(self.scalar).apply_impulses, self.num_worlds, inputs, outputs)
