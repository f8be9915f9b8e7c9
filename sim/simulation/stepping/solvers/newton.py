"""Newton's method on the velocities of worlds, under the hard law, and its adjoint.

On a CPU it solves world by world, island by island, or all worlds of a lane group at once.
"""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, zeros
from sim.model.model import Model
from sim.simulation.options import HardContact, MujocoContact
from sim.simulation.stepping.lane_groups import LaneGroups, shared_memory
from sim.simulation.stepping.solvers.solver import ConstraintSolver
from sim.simulation.stepping.stages.constraints.hard_noslip import HardNoSlip
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.impulse_groups import impulse_group_kernels
from warp_kernels.solver.newton.adjoint.adjoint import newton_adjoint_kernels
from warp_kernels.solver.newton.adjoint.regularisation import regularisation_adjoint_kernels
from warp_kernels.solver.newton.adjoint.smoothing import smoothing_kernels
from warp_kernels.solver.newton.bounces import newton_bounce_kernels
from warp_kernels.solver.newton.group.adjoint import group_adjoint_kernels
from warp_kernels.solver.newton.group.solve import newton_group_kernels
from warp_kernels.solver.newton.group.structs import KEEPS_ALL, MOST_DOFS, group_structs
from warp_kernels.solver.newton.islands.islands import newton_island_kernels
from warp_kernels.solver.newton.one_world import work_struct
from warp_kernels.solver.newton.parts import PART_ROWS
from warp_kernels.solver.newton.solve import newton_kernels
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.types import warp_types

# Capacity for entries of the system with many trees: this, or as many per constraint if that is more.
ENTRIES = 2**22
ENTRIES_PER_CONSTRAINT = 256


class NewtonArrays:
    """Arrays of a shard's worlds, see :func:`warp_kernels.solver.newton.structs.newton_structs`.

    Args:
        model: the model.
        groups: its lane groups.
        constraints: constraint capacity of a world.
        room: capacity for entries of a world's system on and below the diagonal.
        divided: whether worlds are divided into islands.

    Attributes:
        row_stiffness: one of the arrays of ``Problem``.
        iterate, islands, system: the structs.
    """

    def __init__(self, model: Model, groups: LaneGroups, constraints: int, room: int, divided: bool):
        self._worlds, self._device = groups.num_worlds, groups.device
        t, structs = warp_types(model.scalar), newton_structs(model.scalar)
        nv, worlds_last, whole = model.nv, self._worlds_last, groups.of_whole_groups
        trees, parts = (model.num_trees, constraints) if divided else (0, 0)
        self.row_stiffness = worlds_last(constraints, t.vec2)
        self.iterate: Any = fill(
            structs.Iterate,
            **{name: whole(nv, model.scalar) for name in ("z", "z_before", "residual", "step", "work")},
            **{name: worlds_last(constraints, t.vec3) for name in ("value", "slip", "sweep_impulse", "step_length")},
            block=worlds_last(constraints, t.mat33),
            row_compliance=worlds_last(constraints, t.vec2),
            held=worlds_last(constraints, model.scalar),
            part=worlds_last(PART_ROWS if divided else 0, wp.int32),
            part_constraint=worlds_last(parts, wp.int32),
            part_dof=worlds_last(nv if divided else 0, wp.int32),
            part_tree=worlds_last(trees, wp.int32),
        )
        self.islands: Any = fill(
            structs.Islands,
            connects=worlds_last(parts, wp.int32),
            **{name: worlds_last(trees, wp.int32) for name in ("island", "changed")},
            **{name: worlds_last(trees, model.scalar) for name in ("scale", "left")},
            start=worlds_last(3 * (trees + 1), wp.int32),
        )
        self.system: Any = fill(
            structs.System,
            active=worlds_last(constraints, wp.int32),
            **{name: whole(nv, wp.int32) for name in ("permutation", "first")},
            **{name: worlds_last(model.num_trees, wp.int32) for name in ("queue", "tree_mark")},
            row_start=self._row_starts(nv),
            is_packed=wp.ones(self._worlds, dtype=wp.int32, device=self._device),
            **{name: whole(room, model.scalar) for name in ("lower", "upper")},
        )

    def _worlds_last(self, count: int, dtype: Any) -> wp.array:
        return zeros((count, self._worlds), dtype, self._device)

    def _row_starts(self, nv: int) -> wp.array:
        """Return the first entry of each row: that of a triangle, until a large system packs its own."""
        indices = np.arange(nv if nv <= MOST_DOFS else 0)
        starts = np.zeros((nv, self._worlds), dtype=np.int32)
        starts[: len(indices)] = (indices * (indices + 1) // 2)[:, None]
        return wp.array(starts, dtype=wp.int32, device=self._device)


def system_room(model: Model, constraints: int, divided: bool) -> int:
    """Return the capacity for entries of a world's system: all, or with many trees those that constraints couple."""
    entries = model.nv * (model.nv + 1) // 2
    if not divided:
        return entries
    return min(entries, max(ENTRIES, ENTRIES_PER_CONSTRAINT * constraints))


class Newton(ConstraintSolver):
    """Newton's method world by world, and the base of its other forms.

    Attributes:
        iterations: maximum number of linear systems of a step.
        row_stiffness, iterate, islands, system: see :mod:`warp_kernels.solver.newton.structs`.
        problem: rows, right-hand sides, bounds and compliance.
        stage: progress of each world in the search by lane groups; empty without.
        shared: scratch memory that lane groups use one after the other; absent without.
        held_share, row_inverse_mass: for smoothed gradients; empty without.
        further_value_bar: additional adjoint of row values; empty without noslip sweeps.
        block_bar: adjoint of the inverse masses of each constraint's rows, from which R is computed.
        second: second solution of a step, or None.
    """

    # Whether worlds are divided into islands of bodies that constraints couple.
    has_islands = False
    # Whether systems are stored in ``system``.
    has_system = True
    shared: Any
    block_bar: wp.array
    further_value_bar: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        assert isinstance(step.contact_options, HardContact | MujocoContact)
        self.iterations = step.contact_options.iterations
        self.held_share, self.row_inverse_mass = (step.worlds_last(0) for _ in range(2))
        constraints = step.max_constraints
        room = system_room(step.model, constraints, self.has_islands) if self.has_system else 0
        arrays = NewtonArrays(step.model, step.groups, constraints, room, self.has_islands)
        self.row_stiffness, self.iterate = arrays.row_stiffness, arrays.iterate
        self.islands, self.system = arrays.islands, arrays.system
        in_groups = step.num_worlds if self.rows_by_groups else 0
        self.stage: wp.array = zeros((in_groups,), wp.int32, step.device)
        if self.rows_by_groups:
            self.shared = shared_memory(step.model, step.groups.lanes, step.max_constraints, step.device)
        self.second = HardNoSlip(step, self) if step.contact_options.noslip else None

    def gather(self) -> None:
        """Gather the problem in a struct."""
        step, rows = self._step, self._step.constraint_stage
        self.iterate.impulse = rows.impulse
        self.problem: Any = fill(
            newton_structs(step.scalar).Problem,
            row=rows.row,
            rhs=rows.rhs,
            value_before=rows.row_value_before,
            bound=rows.bound,
            row_stiffness=self.row_stiffness,
            size=rows.row_size,
            size_before=rows.row_size_before,
            bias_change=rows.row_bias_change,
            resistance=step.contact_stage.contact_resistance,
            inverse_mass=step.dynamics.factor_d.worlds,
            least_inverse_mass=rows.least_inverse_mass,
            held_share=self.held_share,
            row_inverse_mass=self.row_inverse_mass,
            smoothing_velocity=step.scalar(step.contact_options.gradient_smoothing / float(step.dt)),
            start=step.warm_start.start,
        )
        if self.second:
            self.second.gather(self.problem)

    def prepare_adjoint(self) -> None:
        """Allocate the adjoint of R, and responses of coupled constraints for it."""
        super().prepare_adjoint()
        if self.second:
            self.second.prepare_adjoint()
        self.further_value_bar = self._step.worlds_last(0, self._step.device_model.types.vec3)
        if self._step.contact_options.gradient_smoothing > 0.0:
            self.held_share, self.row_inverse_mass, self.distance_share = (
                self._step.worlds_last(self._step.max_constraints) for _ in range(3)
            )
        own = 0 if self.adjoint_by_groups else self._step.max_constraints
        self.block_bar = self._step.worlds_last(own, self._step.device_model.types.mat33)
        if self._rows_respond:
            self.coupled_response = self._responses()

    def scratch_arrays(self) -> list[Any]:
        """Return the memory of lane groups, which one group uses after the other."""
        return [vars(self.shared)] if self.rows_by_groups else []

    def solve(self) -> None:
        """Solve for the velocities that are consistent with the impulses of the constraint laws."""
        self._regularise()
        self._search(self.problem)
        if self.second:
            self.second.run(self._search)

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Solve a problem by Newton's method.

        Args:
            problem: its struct.
            velocities: velocity from which it is measured, ``qd``, with the change without impulses ``dt * qdd``, if
                not that before the step.
        """
        self._step.launch(self._kernels.newton_solve, self._step.num_worlds, work=self._work(problem), **velocities)

    def adjoint(self) -> None:
        """Solve the transposed system of the solution; propagate from R to the rows and the mass matrix."""
        step = self._step
        self._solution_adjoint()
        if self.second:
            self.second.adjoint(self._solution_adjoint)
        if step.bouncing:
            step.launch_over_constraints(newton_bounce_kernels(step.scalar).hardening_adjoint)
        if step.impulses.by_groups:
            along = impulse_group_kernels(step.scalar, step.groups.lanes)
            step.launch(along.clear_mass_bars, step.groups.num_groups)
            step.launch(regularisation_adjoint_kernels(step.scalar, False).regularisation_adjoint, step.num_worlds)
            step.launch(along.factorisation_adjoints, step.groups.num_groups)
        else:
            self._regularisation_adjoint()
        if self.second:
            self.second.add_products()

    def _work(self, problem: Any) -> Any:
        """Return the struct of kernels that take one world each."""
        step, stage = self._step, self._step.constraint_stage
        return fill(
            work_struct(step.scalar),
            tolerance=step.tolerance,
            regularisation=self.with_regularisation["regularisation"],
            paths=step.paths,
            trees=stage.trees,
            constraints=stage.constraints,
            couplings=stage.couplings,
            problem=problem,
            system=self.system,
            iterate=self.iterate,
        )

    def _group_work(self, problem: Any, keeps: int = 0) -> Any:
        """Return the struct of kernels that take all worlds of a lane group.

        Args:
            problem: struct of the problem.
            keeps: parts of a solution that are stored for the adjoint.
        """
        step, stage = self._step, self._step.constraint_stage
        return fill(
            group_structs(step.scalar).Work,
            tolerance=step.tolerance,
            keeps=keeps,
            regularisation=self.with_regularisation["regularisation"],
            constraints=stage.constraints,
            problem=problem,
            shared=self.shared,
            system=self.system,
            iterate=self.iterate,
            residual=step.residual,
            solver_iterations=step.solver_iterations,
            stage=self.stage,
        )

    def _regularise(self) -> None:
        step = self._step
        self._step.warm_start.match()
        step.launch_over_constraints(self._kernels.regularise)
        if step.bouncing:
            step.launch_over_constraints(newton_bounce_kernels(step.scalar).harden_bounces)

    def _solution_adjoint(self, **given: Any) -> None:
        step, smoothed = self._step, self._step.contact_options.gradient_smoothing > 0.0
        if smoothed:
            step.launch(smoothing_kernels(step.scalar).held_shares, step.num_worlds)
        kernel = newton_adjoint_kernels(step.scalar, self._cone, smoothed).solution_adjoint
        step.launch(kernel, step.num_worlds, **self.with_regularisation, **given)

    def _regularisation_adjoint(self) -> None:
        """Propagate from R to the rows and the mass matrix."""
        step = self._step
        step.launch(regularisation_adjoint_kernels(step.scalar).regularisation_adjoint, step.num_worlds)

    @property
    def _rows_respond(self) -> bool:
        """Return whether R propagates adjoints to rows, world by world."""
        return self._step.max_constraints > 0

    @property
    def _cone(self) -> str:
        """Return the friction model, or the cone of MuJoCo's law."""
        return self._step.contact_options.friction

    @property
    def _kernels(self) -> Any:
        return newton_kernels(self._step.scalar, self._cone)

    @property
    def with_regularisation(self) -> dict[str, Any]:
        """Return the regularisation, and its adjoint if it is watched."""
        model = self._step.device_model
        (bar,) = model.parameter_bars("regularisation")
        return {"regularisation": model.parameter_arrays("regularisation")["regularisation"], "regularisation_bar": bar}


class NewtonIslands(Newton):
    """Newton's method on islands of coupled bodies, for worlds of many bodies."""

    has_islands = True

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Divide each world into islands, and solve one after the other."""
        step = self._step
        kernel = newton_island_kernels(step.scalar, self._cone).newton_islands
        keeps = int(self._has_backward)
        step.launch(kernel, step.num_worlds, work=self._work(problem), keeps=keeps, **velocities)


class NewtonLanes(Newton):
    """Newton's method on all worlds of a lane group; unfinished worlds, and the adjoint, world by world."""

    rows_by_groups = True

    def _search(self, problem: Any, **velocities: Any) -> None:
        """Solve for the velocities of all worlds of a group, then of unfinished ones."""
        step = self._step
        kernel = newton_group_kernels(step.scalar, self._cone, step.groups.lanes).solve
        work = self._group_work(problem, KEEPS_ALL if self._has_backward else 0)
        step.launch(kernel, step.groups.num_groups, work=work, **velocities)
        super()._search(problem, **velocities)


class NewtonLanesWithAdjoint(NewtonLanes):
    """Newton's method whose adjoint is computed by lane groups, too, up to the constraints that fit into memory."""

    adjoint_by_groups = True

    def adjoint(self) -> None:
        """Run the backward pass, except through right-hand sides and through the rows of joints."""
        step, groups = self._step, self._step.groups
        kernel = group_adjoint_kernels(step.scalar, self._cone, groups.lanes).group_adjoint
        bar = self.with_regularisation["regularisation_bar"]
        step.launch(kernel, groups.num_groups, work=self._group_work(self.problem), regularisation_bar=bar)
        step.launch(impulse_group_kernels(step.scalar, groups.lanes).factorisation_adjoints, groups.num_groups)

    @property
    def _rows_respond(self) -> bool:
        """Return whether there are rows of joints or tendons, whose adjoints are computed world by world."""
        step = self._step
        return bool(len(step.layout.cones) or step.model.counts["coupling"] or (step.tendons and step.tendons.num_rows))
