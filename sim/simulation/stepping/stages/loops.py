"""Stage of loops: points, welds, couplings and dampers on two paths in the free dynamics of a step from the middle."""

from typing import Any

import numpy as np

from sim.arrays.allocation import fill
from sim.model.model import Model
from sim.simulation.stepping.stages.forces.transmission import moved_links
from sim.simulation.stepping.tendon_layout import dofs_above
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.constraints.kinds import COUPLING, KINDS, ORIENTATION, POINT, TENDON
from warp_kernels.rollout.switches import switch_kernels
from warp_kernels.solver.midpoint.loops import Loops, loop_kernels, loop_row_kernels
from warp_kernels.solver.midpoint.rate_damping import damper_row_kernels


class LoopStage(Stage):
    """Stage of the rows of loops and their impulses, see :mod:`warp_kernels.solver.midpoint.loops`.

    Args:
        step: workspace of the step.
        looped_trees: mask of the trees that they act on.

    Attributes:
        loops: struct of the rows.
        loop_row, loop_rhs, loop_compliance: entries, right-hand sides and R of dampers [entry or row, ...].
        loop_matrix, loop_impulse, loop_push: factors, impulses and their effect.
        loop_row_bar, loop_rhs_bar, loop_compliance_bar: their adjoints.
        loop_weight, loop_force: scratch of the adjoint.
    """

    def __init__(self, step: Workspace, looped_trees: np.ndarray):
        super().__init__(step)
        dampers = step.tendons.dampers if step.tendons else np.zeros((0, 4), dtype=np.int32)
        blocks, starts, entries = loop_entries(step.model, dampers)
        self.loops: Any = fill(
            Loops,
            tree=step.integers(np.flatnonzero(looped_trees)),
            **{name: step.integers(column) for name, column in zip(("kind", "item", "input"), blocks.T, strict=True)},
            block_start=step.integers(np.cumsum([0, *(KINDS[kind].rows for kind in blocks[:, 0])])),
            row_start=step.integers(starts),
            **{name: step.integers(column) for name, column in zip(("dof", "side"), entries.T, strict=True)},
        )
        groups, real = step.groups, step.groups.types.real
        rows, self._blocks, self._dampers = len(starts) - 1, len(blocks) - len(dampers), len(dampers)
        self.loop_row = groups.scalars(len(entries))
        self.loop_rhs, self.loop_compliance = groups.scalars(rows), groups.scalars(rows)
        self.first_block, self.first_damper = self._blocks, step.tendons.num_constraints if step.tendons else 0
        self.loop_matrix, self.loop_impulse = groups.of_groups(rows**2, real), groups.of_groups(rows, real)
        self.loop_push = groups.of_groups(step.model.nv, real)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        groups, real, rows = self._step.groups, self._step.groups.types.real, self.loop_rhs.worlds.shape[0]
        self.loop_row_bar = groups.scalars(self.loop_row.worlds.shape[0])
        self.loop_rhs_bar, self.loop_compliance_bar = groups.scalars(rows), groups.scalars(rows)
        for name in ("row", "rhs", "compliance"):
            getattr(self, f"loop_{name}").worlds.grad = getattr(self, f"loop_{name}_bar").worlds
        self.loop_weight, self.loop_force = groups.of_groups(self._step.model.nv, real), groups.of_groups(rows, real)

    def couple(self) -> None:
        """Change accelerations by the impulses of loops; rows are recorded on an active tape."""
        step = self._step
        if step.constraint_stage.switch_on.shape[0]:
            step.launch(switch_kernels(step.scalar).read_switches, step.num_worlds)
        if self._blocks:
            step.launch(loop_row_kernels(step.scalar).loop_rows, (self._blocks, step.num_worlds), self, tape=True)
        if self._dampers:
            kernel = damper_row_kernels(step.scalar).damper_loops
            step.launch(kernel, (self._dampers, step.num_worlds), self, tape=True)
        step.launch(self._kernels.couple_loops, step.groups.num_groups, self)

    def adjoint(self) -> None:
        """Propagate the adjoint of accelerations to the rows, the mass matrix and that of trees without loops."""
        self._step.launch(self._kernels.loop_adjoint, self._step.groups.num_groups, self)

    @property
    def _kernels(self) -> Any:
        return loop_kernels(self._step.scalar, self._step.groups.lanes)


def loop_links(model: Model) -> np.ndarray:
    """Return the links of points, welds and couplings."""
    e = model.equalities
    anchored = np.concatenate([e.anchor_link_a, e.anchor_link_b]).astype(int)
    coupled = model.dof_link[np.concatenate([e.coupling_dof, e.coupling_other]).astype(int)]
    return np.concatenate([anchored[anchored >= 0], coupled])


def loop_entries(model: Model, dampers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return kind, item and switch of each block of rows [blocks, 3], the first entry of each row and their number
    [rows + 1], and degree of freedom and side of each entry [entries, 2].

    See :class:`warp_kernels.solver.midpoint.loops.Loops`. dampers: see
    :func:`sim.simulation.stepping.tendon_layout.damper_rows` [n, 4].
    """
    e, moved = model.equalities, moved_links(model)
    blocks, rows = [], []
    for item, (a, b) in enumerate(zip(e.anchor_link_a.tolist(), e.anchor_link_b.tolist(), strict=True)):
        side = (moved[b] if b >= 0 else 0) - (moved[a] if a >= 0 else np.zeros(model.nv, dtype=int))
        entries = [(k, side[k]) for k in np.flatnonzero(side).tolist()]
        for kind in (POINT, ORIENTATION)[: 1 + e.anchor_welded[item]]:
            blocks.append((kind, item, item))
            rows += 3 * [entries]
    for item, (dof, other) in enumerate(zip(e.coupling_dof.tolist(), e.coupling_other.tolist(), strict=True)):
        blocks.append((COUPLING, item, len(e.anchor_link_a) + item))
        rows.append([(dof, 1), (other, -1)])
    for item, (one, two) in enumerate(dampers[:, 2:].tolist()):
        blocks.append((TENDON, item, -1))
        rows.append([(k, 1) for k in sorted(dofs_above(model, one) | dofs_above(model, two))])
    starts = np.cumsum([0, *map(len, rows)])
    return np.array(blocks), starts, np.array([entry for row in rows for entry in row]).reshape(-1, 2)
