"""Stage of constraint errors: position errors, drift, and the references of MuJoCo's law."""

from typing import Any

import warp as wp

from sim.arrays.allocation import fill, gradients_of
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.constraints.equalities import equality_kernels
from warp_kernels.constraints.limits import cone_kernels
from warp_kernels.kinematics.motion import acceleration_kernels
from warp_kernels.solver.mujoco.equality_references import equality_reference_kernels
from warp_kernels.solver.mujoco.references import contact_reference_kernels, reference_kernels
from warp_kernels.solver.mujoco.resistance import resistance_kernels


class ConstraintErrors(Stage):
    """Errors of all constraints but contacts, and references of MuJoCo's law. All kernels have Warp's own adjoint.

    Args:
        step: workspace of the step.

    Attributes:
        anchor_point, anchor_bias ..., coupling_bias: see ``Equalities`` in :mod:`warp_kernels.solver.structs`.
        cone_gap, cone_row: of limits of spherical joints [cone, world].
        contact_reference, limit_reference ...: reference accelerations of rows by MuJoCo's law; no rows under the hard
            law.
        resistance_reference: of contacts with torsional or rolling friction, by pyramids.
        pyramids_resist: whether there are such contacts.
        bias_velocity, bias_acceleration: motion of links whose coordinates don't accelerate, which makes points, welds
            and tendons drift in a step [link, world]; no rows without them.
        path_acceleration: acceleration of coordinates with which the centres of floating bases don't accelerate
            [world, dof].
        equalities, cones, references: structs of these, and with ``_bar`` those of their gradients.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        worlds, counts, t = step.worlds_last, step.model.counts, step.device_model.types
        anchors, cones, by_mujoco = counts["anchor"], len(step.layout.cones), step.by_mujoco
        self.coupling_bias = worlds(counts["coupling"])
        self.anchor_point, self.anchor_bias, self.anchor_turn = (worlds(anchors, t.vec3) for _ in range(3))
        self.anchor_apart = worlds(anchors if by_mujoco else 0, t.vec3)
        self.anchor_frame = worlds(2 * anchors, t.mat33)
        self.anchor_error = worlds(0 if by_mujoco else 2 * anchors, t.vec3)
        self.cone_gap, self.cone_row = worlds(cones), worlds(cones, t.vec3)
        self._allocate_references()
        moving = step.model.num_links if anchors or (step.tendons and step.tendons.drifts) else 0
        self.bias_velocity, self.bias_acceleration = (worlds(moving, t.spatial) for _ in range(2))
        self.path_acceleration = wp.zeros_like(step.qd) if moving else step.device_model.none(step.scalar)
        self._gather()
        self.equalities_bar: Any = None
        self.cones_bar: Any = None
        self.references_bar: Any = None

    def _allocate_references(self) -> None:
        step = self._step
        worlds, counts, vec3 = step.worlds_last, step.model.counts, step.device_model.types.vec3
        asked = int(step.by_mujoco)  # no rows otherwise
        resisting = step.layout.resisting and step.contact_options.friction == "pyramid"
        self.pyramids_resist = int(step.by_mujoco and resisting and step.max_contacts > 0)
        self.contact_reference = worlds(asked * step.max_contacts, vec3)
        self.resistance_reference = worlds(2 * self.pyramids_resist * step.max_contacts, vec3)
        self.limit_reference = worlds(2 * asked * step.model.nv, vec3)
        self.loss_reference = worlds(asked * step.model.nv, vec3)
        self.anchor_reference = worlds(2 * asked * counts["anchor"], vec3)
        self.coupling_reference = worlds(asked * counts["coupling"], vec3)
        self.cone_reference = worlds(asked * len(step.layout.cones), vec3)

    def find(self) -> None:
        """Compute all errors, and the rows of tendons; recorded on an active tape."""
        step = self._step
        if not step.max_constraints:
            return
        if len(step.layout.cones):
            kernel = cone_kernels(step.scalar).evaluate_cones
            step.launch(kernel, (len(step.layout.cones), step.num_worlds), tape=True)
        if self.bias_velocity.shape[0]:
            self._find_bias_motion()
        if step.tendons:
            step.tendons.constrain(step, step.law)
        if step.by_mujoco:
            self._find_references()
        else:
            self._find_equalities()

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to, except those of contacts."""
        equalities = [getattr(self, field) for field in self._step.structs.Equalities.vars]
        return [
            *equalities, self.cone_gap, self.cone_row, self.limit_reference, self.loss_reference,
            self.anchor_reference, self.coupling_reference, self.cone_reference, self.bias_velocity,
            self.bias_acceleration, self.path_acceleration,
        ]  # fmt: skip

    def of_contacts(self) -> list[wp.array]:
        """Return the arrays per contact slot, of which only those in use have gradients."""
        return [self.contact_reference, self.resistance_reference]

    def gather(self) -> None:
        """Gather the structs anew, because the arrays now have gradients."""
        self._gather()
        self.equalities_bar = gradients_of(self.equalities)
        self.cones_bar = gradients_of(self.cones)
        self.references_bar = gradients_of(self.references)

    def _gather(self) -> None:
        step, s = self._step, self._step.structs
        self.equalities: Any = fill(s.Equalities, **{field: getattr(self, field) for field in s.Equalities.vars})
        self.cones: Any = fill(s.Cones, gap=self.cone_gap, row=self.cone_row)
        self.references: Any = fill(
            s.References,
            contact=self.contact_reference,
            limit=self.limit_reference,
            loss=self.loss_reference,
            anchor=self.anchor_reference,
            coupling=self.coupling_reference,
            cone=self.cone_reference,
            tendon=step.tendons.tendon_reference if step.tendons else step.worlds_last(0, step.device_model.types.vec3),
        )

    def _find_bias_motion(self) -> None:
        step = self._step
        step.kinematics.accelerate_centres(self.path_acceleration)
        motion = {"velocity": self.bias_velocity, "acceleration": self.bias_acceleration}
        kernel = acceleration_kernels(step.scalar).link_motion
        dim = (step.model.num_trees, step.num_worlds)
        step.launch(kernel, dim, tape=True, qdd=self.path_acceleration, **motion)

    def _find_equalities(self) -> None:
        step, kernels = self._step, equality_kernels(self._step.scalar)
        for name, kernel in (("anchor", kernels.evaluate_anchors), ("coupling", kernels.evaluate_couplings)):
            if step.model.counts[name]:
                dim = (step.model.counts[name], step.num_worlds)
                step.launch(kernel, dim, tape=True, options=step.equality_options)

    def _find_references(self) -> None:
        step, given = self._step, self._step.device_model.parameter_arrays("solref", "solimp")
        if step.max_contacts:
            kernel = contact_reference_kernels(step.scalar, step.looping).contact_references
            pyramidal = int(step.contact_options.friction == "pyramid")
            step.launch(kernel, step.slot_threads, tape=True, pyramidal=pyramidal, **given)
            if self.pyramids_resist:
                kernel = resistance_kernels(step.scalar).resistance_references
                step.launch(kernel, (step.max_contacts, step.num_worlds), tape=True)
        kernels = reference_kernels(step.scalar)
        joints: dict[str, Any] = {
            name: getattr(step.constraint_stage.constrained, name) for name in ("limited_dof", "friction_dof")
        }
        step.launch_over_dofs(kernels.joint_references, tape=True, **joints, **given)
        if len(step.layout.cones):
            dim, cone_dof = (len(step.layout.cones), step.num_worlds), step.constraint_stage.constrained.cone_dof
            step.launch(kernels.cone_references, dim, tape=True, cone_dof=cone_dof, **given)
        of_equalities = equality_reference_kernels(step.scalar)
        for name, kernel in (
            ("anchor", of_equalities.anchor_references),
            ("coupling", of_equalities.coupling_references),
        ):
            if step.model.counts[name]:
                step.launch(kernel, (step.model.counts[name], step.num_worlds), tape=True, **given)
