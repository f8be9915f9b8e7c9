"""Constraints listed by a team of threads per world, with the adjoint of rows over (item, world)."""

from typing import Any

import warp as wp

from sim.arrays.allocation import zeros
from sim.simulation.stepping.stages.constraints.constraints import ConstraintStage
from sim.simulation.stepping.teams import team_threads, team_width
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.constraints.item_adjoint import item_adjoint_kernels
from warp_kernels.constraints.team.listing import team_constraint_kernels


class ConstraintStageOfTeams(ConstraintStage):
    """Constraint stage by teams of threads, see :mod:`warp_kernels.constraints.team`, and by threads for items of a
    world, see :mod:`warp_kernels.constraints.item_adjoint`.

    Args:
        step: workspace of the step.

    Attributes:
        constraint_bits: constraints of each joint, actuator and all else that may have some [world, candidate].
        lever_bar: adjoint of the point of each side of a constraint [2 constraint, world]; no rows with one tree.
    """

    lever_bar: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.constraint_bits = zeros((step.num_worlds, self._num_candidates()), wp.int32, step.device)
        self._scratch: Any = zeros((step.num_worlds, 0), step.scalar, step.device)

    def prepare_adjoint(self) -> None:
        """Allocate the adjoints of rows and levers."""
        super().prepare_adjoint()
        step = self._step
        sides = 2 * step.max_constraints if step.model.num_trees > 1 else 0
        self.lever_bar = step.worlds_last(sides, step.device_model.types.vec3)

    def _list(self) -> None:
        step = self._step
        kernel = team_constraint_kernels(step.scalar, team_width(step)).team_list_constraints
        step.launch(kernel, team_threads(step), scratch=self._scratch)

    def _row_adjoint(self) -> None:
        step, kernels = self._step, item_adjoint_kernels(self._step.scalar)
        threads = step.constraint_threads
        items = 2 * threads + step.model.nv
        step.launch(kernels.item_row_adjoint, (items, step.num_worlds), threads=threads, later=0)
        if step.layout.resisting:
            step.launch(kernels.item_row_adjoint, (2 * threads, step.num_worlds), threads=threads, later=1)
        if self.lever_bar.shape[0]:
            step.launch(kernels.origin_adjoint, (step.model.num_trees, step.num_worlds))

    def _num_candidates(self) -> int:
        """Return how many candidates a world has at most."""
        step, listed = self._step, self.constrained
        arrays = [
            listed.limited_dof, listed.cone_dof, listed.friction_dof, step.actuation.actuator_row, listed.tendon_kind,
            listed.coupling_dof, listed.anchor_link_a,
        ]  # fmt: skip
        contacts = step.max_contacts if step.layout.resisting else 0
        return contacts + sum(array.shape[0] for array in arrays)
