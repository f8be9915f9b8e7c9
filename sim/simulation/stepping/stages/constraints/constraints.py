"""Constraint stage of a step: active constraints, their couplings, and their rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.simulation.stepping.constraint_layout import least_inverse_masses
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.constraints.listing import constraint_kernels
from warp_kernels.constraints.row_adjoint import row_adjoint_kernels
from warp_kernels.constraints.rows import constraint_row_kernels
from warp_kernels.constraints.tendon_rows import tendon_constraint_kernels
from warp_kernels.rollout.switches import switch_kernels
from warp_kernels.solver.delassus import delassus_kernels
from warp_kernels.solver.mujoco.resistance import resistance_kernels
from warp_kernels.solver.newton.group.rows import group_row_kernels
from warp_kernels.solver.newton.group.structs import side_structs
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, TreeDofs

# Fields of the kernels' struct, with the parameters that they hold.
LIMITS = {
    "lower": "lower_limit",
    "upper": "upper_limit",
    "margin": "limit_margin",
    "stiffness": "limit_stiffness",
    "damping": "limit_damping",
}
# Parameters of rows, besides those of limits.
ROW_PARAMETERS = ("friction_loss", "coupling_ratio")
# Tendon arrays of rows, if there are tendons.
OF_TENDONS = ("tendon_row", "tendon_bound")
# With several trees: capacity for couplings per constraint, itself included, averaged over a world.
COUPLINGS_PER_CONSTRAINT = 128


class ConstraintStage(Stage):
    """Stage that lists the constraints of each world, and writes their rows.

    Args:
        step: workspace of the step.

    Attributes:
        constrained, trees: structs of all that constraints can act on.
        cone_link, cone_kind: of limits of spherical joints.
        constraints: struct of the listed constraints.
        switch_on: 1 for each point, weld and coupling that is on [constraint, world]; no rows if none switches.
        max_incidences, max_couplings: maximum number of pairs of a constraint and a tree, and of two constraints. The
            latter is zero for solvers that don't use the Delassus matrix.
        couplings: struct of the constraints that act on each other.
        matrix: blocks of the Delassus matrix [coupling, world].
        row: rows of constraints along their paths [entry, world].
        rhs, bound, compliance: right-hand sides, bounds and compliance of rows [constraint, world].
        row_size, row_size_before, row_value_before: see :class:`warp_kernels.solver.structs.Rows`; no rows for PGS.
        row_bias_change: see there; no rows unless Newton's method solves the hard law.
        impulse: impulses that the solver finds [constraint, world].
        constraint_overflow: dropped constraints [world].
        least_inverse_mass: lower bound of the inverse mass, by degree of freedom.
        rows: struct of right-hand sides, bounds and compliance; ``rows_bar`` that of their adjoints.
        further_impulse_bar: adjoint of impulses other than by the next velocity; without rows if there is none.
    """

    rhs_bar: wp.array
    bound_bar: wp.array
    compliance_bar: wp.array
    rows_bar: Any
    further_impulse_bar: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        t, room = step.device_model.types, step.max_constraints
        self.constrained: Any = self._constrained()
        self.trees: Any = self._tree_dofs()
        self.cone_link, self.cone_kind = (step.integers(column) for column in step.layout.cones.T)
        self.max_incidences, self.max_couplings = self._most_couplings()
        self.constraints: Any = self._empty_constraints()
        self.switch_on = step.worlds_last(len(step.model.switch_names), wp.int32)
        self.couplings: Any = self._empty_couplings()
        self.matrix = step.worlds_last(self.max_couplings, t.mat33)
        self.row = self._rows_of_worlds(2 * room * step.model.max_depth)
        self.rhs, self.impulse = (step.worlds_last(room, t.vec3) for _ in range(2))
        self.bound, self.compliance = (step.worlds_last(room) for _ in range(2))
        of_newton = room if step.newton else 0
        self.row_size, self.row_size_before = (step.worlds_last(of_newton, t.vec2) for _ in range(2))
        self.row_value_before = step.worlds_last(of_newton, t.vec3)
        self.row_bias_change = step.worlds_last(0 if step.by_mujoco else of_newton)
        self.constraint_overflow: wp.array = wp.zeros(step.num_worlds, dtype=wp.int32, device=step.device)
        least = least_inverse_masses(step.model)
        self.least_inverse_mass: wp.array = wp.array(least, dtype=step.scalar, device=step.device)
        self.rows: Any = self._gathered()

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to: impulses, if something besides velocities depends on
        them.
        """
        step = self._step
        read = step.bouncing or step.collision.num_sensors or (step.newton and step.warm)
        return [self.impulse] if read else []

    def prepare_adjoint(self) -> None:
        """Allocate the adjoints of rows, and gather the structs anew, because arrays now have gradients."""
        step, vec3 = self._step, self._step.device_model.types.vec3
        self.further_impulse_bar = self.impulse.grad if self.differentiated() else step.worlds_last(0, vec3)
        self.rhs_bar = step.worlds_last(step.max_constraints, vec3)
        self.bound_bar, self.compliance_bar = (step.worlds_last(step.max_constraints) for _ in range(2))
        self.rows = self._gathered()
        self.rows_bar = fill(step.structs.Rows, rhs=self.rhs_bar, bound=self.bound_bar, compliance=self.compliance_bar)

    def find(self) -> None:
        """List constraints and couplings, and write the rows."""
        step = self._step
        if not step.max_constraints:
            return
        if self.switch_on.shape[0]:
            step.launch(switch_kernels(step.scalar).read_switches, step.num_worlds)
        self._list()
        if self.max_couplings:
            step.launch(delassus_kernels(step.scalar).list_couplings, step.num_worlds)
        if step.solver.rows_by_groups:
            groups = step.groups
            step.launch(group_row_kernels(step.scalar, groups.lanes).group_rows, groups.num_groups)
        kernels = constraint_row_kernels(step.scalar, not step.solver.rows_by_groups)
        step.launch_over_constraints(kernels.constraint_rows)
        if step.errors.pyramids_resist:
            step.launch_over_constraints(resistance_kernels(step.scalar).resistance_rows)
        if step.surfaces:
            step.surfaces.add_to_rows()
        if step.tendons and step.tendons.num_rows:
            step.launch_over_constraints(tendon_constraint_kernels(step.scalar).tendon_constraint_rows)
        step.solver.write_matrix()

    def _list(self) -> None:
        """List the active constraints."""
        self._step.launch(constraint_kernels(self._step.scalar).list_constraints, self._step.num_worlds)

    def _row_adjoint(self) -> None:
        """Propagate the adjoints of all rows but those of pyramids."""
        step = self._step
        kernels = row_adjoint_kernels(step.scalar, not step.solver.adjoint_by_groups)
        step.launch(kernels.row_adjoint, step.num_worlds)

    def break_loaded(self) -> None:
        """Write which points, welds and couplings are broken after the step, if they may break."""
        step = self._step
        if step.model.breaks:
            step.launch(switch_kernels(step.scalar).break_constraints, step.num_worlds)

    def adjoint(self) -> None:
        """Propagate the adjoints of rows to subspaces, contacts, anchors and all other inputs."""
        step = self._step
        if not step.max_constraints:
            return
        self._row_adjoint()
        if step.errors.pyramids_resist:
            step.launch(resistance_kernels(step.scalar).resistance_row_adjoint, step.num_worlds)
        if step.surfaces:
            step.surfaces.rows_adjoint()

    @property
    def limits(self) -> Any:
        """Return the parameters of the joint limits."""
        step = self._step
        return fill(step.structs.Limits, **{field: step.parameters[name] for field, name in LIMITS.items()})

    @property
    def limits_bar(self) -> Any:
        """Return the gradients of these parameters, without rows if none is requested."""
        return self._step.parameter_gradients_of(self._step.structs.Limits, LIMITS)

    @property
    def inputs(self) -> Any:
        """Return the inputs of rows."""
        step, errors, tendons = self._step, self._step.errors, self._step.tendons
        return fill(
            step.structs.RowInputs,
            options=step.options,
            limits=self.limits,
            **step.device_model.parameter_arrays(*ROW_PARAMETERS),
            q=step.q,
            qd=step.qd,
            motions=step.kinematics.motions,
            contacts=step.contact_stage.contacts,
            **{name: getattr(errors, name) for name in ("equalities", "cones", "references")},
            actuator_row=step.actuation.actuator_row,
            **({name: getattr(tendons, name) for name in OF_TENDONS} if tendons else {}),
        )

    @property
    def inputs_bar(self) -> Any:
        """Return the adjoints of the inputs of rows; those of parameters have no rows if none is requested."""
        step, errors, tendons = self._step, self._step.errors, self._step.tendons
        gradients = step.device_model.parameter_bars(*ROW_PARAMETERS)
        return fill(
            step.structs.RowInputs,
            options=step.options_bar,
            limits=self.limits_bar,
            **dict(zip(ROW_PARAMETERS, gradients, strict=True)),
            q=step.q.grad,
            qd=step.qd.grad,
            motions=step.kinematics.motions_bar,
            contacts=step.contact_stage.contacts_bar,
            **{name: getattr(errors, f"{name}_bar") for name in ("equalities", "cones", "references")},
            actuator_row=step.actuation.actuator_row_bar,
            **({name: getattr(tendons, name).grad for name in OF_TENDONS} if tendons else {}),
        )

    @property
    def row_geometry(self) -> Any:
        """Return the inputs of rows of lane groups."""
        return self._row_geometry(lambda array: array)

    @property
    def row_geometry_bar(self) -> Any:
        """Return the adjoints of the inputs of rows of lane groups."""
        return self._row_geometry(lambda array: array.grad, "_bar")

    @property
    def solved(self) -> Any:
        """Return the parts of the solution that adjoints need."""
        step = self._step
        return fill(
            step.structs.Solved,
            qd=step.joint_damping.qd_solved,
            qdd=step.dynamics.qdd,
            impulse=self.impulse,
            weight=step.impulses.weight.worlds,
            **{name: getattr(step.impact_times, name) for name in ("lag", "lag_weight", "free_weight")},
            **{name: getattr(step.joint_damping, name) for name in ("damping_loss", "damping_weight")},
            response=step.solver.coupled_response,
            distance_share=step.solver.distance_share,
        )

    def _gathered(self) -> Any:
        return fill(
            self._step.structs.Rows,
            **{name: getattr(self, name) for name in ("rhs", "bound", "compliance")},
            **{name: getattr(self, f"row_{name}") for name in ("size", "size_before", "value_before", "bias_change")},
        )

    def _row_geometry(self, array_of: Callable[[wp.array], wp.array], suffix: str = "") -> Any:
        step = self._step
        return fill(
            side_structs(step.scalar, step.groups.lanes).Geometry,
            contacts=getattr(step.contact_stage, f"contacts{suffix}"),
            **{name: getattr(step.errors, f"{name}{suffix}") for name in ("equalities", "references")},
            origin=array_of(step.kinematics.origin.worlds),
            subspace=array_of(step.kinematics.subspace.groups),
        )

    def _rows_of_worlds(self, count: int) -> wp.array:
        """Return an array for rows [count, world]; on a CPU, which works world by world, those of a world are
        contiguous.
        """
        step, vec3 = self._step, self._step.device_model.types.vec3
        if not step.looping:
            return step.worlds_last(count, vec3)
        return wp.zeros((step.num_worlds, count), dtype=vec3, device=step.device).transpose()

    def _most_couplings(self) -> tuple[int, int]:
        """Return the maximum number of incidences and couplings: a constraint acts on one tree or two."""
        step, room, trees = self._step, self._step.max_constraints, self._step.model.num_trees
        by_matrix = not step.newton or step.contact_options.noslip_iterations > 0
        couplings = room**2 if by_matrix else 0
        if trees > 1:
            couplings = min(couplings, COUPLINGS_PER_CONSTRAINT * room)
        return min(trees, 2) * room, couplings

    def _constrained(self) -> Any:
        step, equalities = self._step, self._step.model.equalities
        names = ("coupling_dof", "coupling_other", "anchor_link_a", "anchor_link_b", "anchor_welded")
        # Without tendons these have no rows, but must exist: a tape visits all arrays of a struct.
        tendons = {"tendon_kind": step.integers(np.zeros(0)), "tendon_tail": step.integers(np.zeros(0))}
        tendons["tendon_side"] = step.integers(np.zeros((0, 0)))
        return fill(
            Constrained,
            limited_dof=step.integers(step.layout.limited),
            friction_dof=step.integers(step.layout.friction),
            cone_dof=step.integers(step.model.joint_qd_start[step.layout.cones[:, 0]]),
            **{name: step.integers(getattr(equalities, name)) for name in names},
            **(step.tendons.constrained if step.tendons else tendons),
        )

    def _tree_dofs(self) -> Any:
        step, model = self._step, self._step.model
        tree_dof_start = np.append(model.joint_qd_start, model.nv)[model.tree_link_start]
        return fill(
            TreeDofs,
            dof_tree=step.integers(model.link_tree[model.dof_link]),
            tree_dof_start=step.integers(tree_dof_start),
            max_tree_dofs=int(np.diff(tree_dof_start).max()),
        )

    def _empty_constraints(self) -> Any:
        step, room = self._step, self._step.max_constraints
        return fill(
            Constraints,
            count=wp.zeros(step.num_worlds, dtype=wp.int32, device=step.device),
            kind=step.worlds_last(room, wp.int32),
            item=step.worlds_last(room, wp.int32),
            tail=step.worlds_last(2 * room, wp.int32),
            reference=step.worlds_last(room, wp.int32),
        )

    def _empty_couplings(self) -> Any:
        worlds, room, trees = self._step.worlds_last, self._step.max_constraints, self._step.model.num_trees
        return fill(
            Couplings,
            tree_start=worlds(trees + 1, wp.int32),
            incidence_constraint=worlds(self.max_incidences, wp.int32),
            constraint_incidence=worlds(2 * room, wp.int32),
            row=worlds(room, wp.vec4i),
            run=worlds(room if trees == 1 else self.max_couplings, wp.vec2i),
            mirror=worlds(self.max_couplings, wp.int32),
            cursor=worlds(room, wp.int32),
        )
