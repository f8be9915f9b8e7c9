"""Lane groups: worlds whose kinematics and dynamics a CPU computes at a time, one per SIMD lane.

Contacts and gyroscopic forces are computed for one world at a time. Their inputs are copied per world, and their
adjoints are added up (see :mod:`warp_kernels.algebra.lane_copies`). Scalars have the same layout in memory for both.
"""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array, zeros
from sim.arrays.launch import Twin, active_tape, launch
from sim.dynamics.differentiable_op import WORTH_LANES
from sim.model.model import Model
from sim.simulation.options import ContactMethod
from sim.simulation.stepping.constraint_layout import ConstraintLayout
from sim.simulation.stepping.mujoco_law import MujocoLaw
from warp_kernels.algebra.lane_copies import lane_copy_kernels
from warp_kernels.solver.mujoco.laws import CONES, RESISTING
from warp_kernels.solver.newton.group.structs import MOST_BACK, MOST_CONSTRAINTS, group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.types import lane_types, warp_types


class LaneGroups:
    """Lane groups of a shard's worlds, and the arrays that stages allocate for them.

    Args:
        scalar: scalar type.
        num_worlds: number of worlds of the shard.
        lanes: worlds per group. With one lane, the arrays of groups are those of worlds.
        device: device of the arrays.
    """

    def __init__(self, scalar: Any, num_worlds: int, lanes: int, device: wp.Device):
        self.lanes, self.num_groups, self.num_worlds = lanes, -(-num_worlds // lanes), num_worlds
        self.scalar, self.device = scalar, device
        self.types = lane_types(scalar, lanes)

    def of_groups(self, count: int, dtype: Any) -> wp.array:
        """Return zeros [count, group]."""
        return zeros((count, self.num_groups), dtype, self.device)

    def of_whole_groups(self, count: int, dtype: Any) -> wp.array:
        """Return zeros [count, world] whose rows are padded to whole lane groups."""
        if not count:
            return zeros((0, self.num_worlds), dtype, self.device)
        padded: Any = wp.zeros((count, self.num_groups * self.lanes), dtype=dtype, device=self.device)
        return padded[:, : self.num_worlds]

    def scalars(self, count: int) -> Twin:
        """Return scalars [count, world] and [count, group] in the same memory."""
        worlds = self.of_whole_groups(count, self.scalar)
        if self.lanes == 1:
            return Twin(worlds, worlds)
        if not count:
            return Twin(worlds, self.of_groups(0, self.types.real))
        groups: Any = wp.array(
            ptr=worlds.ptr, shape=(count, self.num_groups), dtype=self.types.real, device=self.device, copy=False
        )
        groups.memory = worlds
        return Twin(worlds, groups)

    def copies(self, count: int, kind: str, items: np.ndarray | None = None) -> "Copies":
        """Return arrays of vectors, poses or inertias.

        Args:
            count: number of rows.
            kind: the name of their type, as in :func:`warp_kernels.types.warp_types`.
            items: rows that are used per world. Default: all.
        """
        return Copies(self, count, kind, np.arange(count) if items is None else items)


class Copies(Twin):
    """Array [count, group] and array [count, world], with copies of rows between them. With one lane they are the same.

    Args:
        lane_groups: lane groups of the worlds.
        count: number of rows.
        kind: the name of their type.
        items: rows that are copied.
    """

    def __init__(self, lane_groups: LaneGroups, count: int, kind: str, items: np.ndarray):
        groups = worlds = lane_groups.of_groups(count, getattr(lane_groups.types, kind))
        if lane_groups.lanes > 1:
            dtype, shape = getattr(warp_types(lane_groups.scalar), kind), (count, lane_groups.num_worlds)
            worlds = zeros(shape, dtype, lane_groups.device)
        super().__init__(worlds, groups)
        self._lane_groups, self._kind = lane_groups, kind
        self._items = integer_array(items, lane_groups.device)

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.worlds] if self.groups is self.worlds else [self.worlds, self.groups]

    def to_worlds(self) -> None:
        """Copy rows to the worlds."""
        self._copy("{}_to_worlds", self.groups, self.worlds)

    def from_worlds(self) -> None:
        """Copy rows from the worlds."""
        self._copy("{}_to_groups", self.groups, self.worlds)

    def adjoint_to_worlds(self) -> None:
        """Copy the gradient to the worlds."""
        self._copy("{}_to_worlds", self.groups.grad, self.worlds.grad)

    def add_adjoint_to_groups(self) -> None:
        """Add the gradient of the worlds to that of the groups."""
        self._copy("add_{}_to_groups", self.groups.grad, self.worlds.grad)

    def _copy(self, kernel_name: str, groups: wp.array, worlds: wp.array) -> None:
        if groups is worlds:
            return
        of = self._lane_groups
        kernel = vars(lane_copy_kernels(of.scalar, of.lanes))[kernel_name.format(self._kind)]
        dim = (self._items.shape[0], of.num_groups)
        launch(kernel, dim, device=of.device, record_tape=False, items=self._items, groups=groups, worlds=worlds)


def share(copies: list[Copies]) -> None:
    """Copy results of lane groups to the worlds, and record the copy on the active tape."""
    shared = [each for each in copies if each.groups is not each.worlds]
    for each in shared:
        each.to_worlds()

    def add_adjoints() -> None:
        for each in shared:
            each.add_adjoint_to_groups()

    tape = active_tape()
    if tape is not None and shared:
        tape.record_func(add_adjoints, [each.worlds for each in shared if each.worlds.size])


class SolverChoice:
    """Contact law and solver of a step; a part of the workspace."""

    model: Model
    contact_options: ContactMethod
    law: MujocoLaw | None
    layout: ConstraintLayout
    groups: LaneGroups
    max_constraints: int
    max_contacts: int

    @property
    def newton(self) -> bool:
        """Return whether the solver is Newton's method."""
        return not self.contact_options.by_matrix

    @property
    def by_mujoco(self) -> bool:
        """Return whether the contact law is MuJoCo's."""
        return self.law is not None

    @property
    def cone(self) -> str:
        """Return the name of the friction cone under MuJoCo's law."""
        friction = self.contact_options.friction
        return RESISTING if friction == "cone" and self.layout.resisting else CONES[friction]

    @property
    def bouncing(self) -> bool:
        """Return whether contacts may bounce, so that positions may follow another velocity than the next one."""
        return self.layout.bouncing and self.max_contacts > 0


def lanes_worth(lanes: int, total_worlds: int) -> int:
    """Return the number of worlds per lane group: one for few worlds, whatever their shards."""
    return lanes if total_worlds >= WORTH_LANES else 1


def shared_memory(model: Model, lanes: int, constraints: int, device: wp.Device) -> Any:
    """Return the scratch struct with which Newton's method solves all worlds of a lane group, one group after the
    other.

    Args:
        model: the model.
        lanes: worlds per group.
        constraints: constraint capacity of a world.
        device: device of the worlds.
    """
    nv, scalar = model.nv, model.scalar
    room = constraints if constraints <= MOST_BACK else MOST_CONSTRAINTS

    def numbers(count: int) -> wp.array:
        return wp.zeros(count * lanes, dtype=scalar, device=device)

    def integers(count: int) -> wp.array:
        return wp.zeros(count, dtype=wp.int32, device=device)

    entries = nv * (nv + 1) // 2
    return fill(
        group_structs(scalar).Group,
        path=wp.array(path_masks(model), dtype=wp.uint64, device=device),
        slot_constraint=integers(constraints * lanes),
        dofs=integers(room * nv),
        length=integers(room),
        rows=numbers(room * nv * 3),
        first=integers(nv),
        lower=numbers(entries),
        upper=numbers(entries),
        velocity=numbers(3 * nv),
        three=numbers(3),
        response=numbers(3 * nv),
        slope=numbers(9 * room),
        **{name: numbers(2) for name in ("magnitude", "along")},
        active=integers(room),
        **{name: numbers(1) for name in ("scale", "square", "least", "left", "left_now", "lengths")},
        fields=numbers(FIELDS * room),
        state=wp.zeros(lanes, dtype=newton_structs(scalar).State, device=device),
        **{name: integers(lanes) for name in ("recalled", "coupled", "moves", "waits", "number")},
    )


def path_masks(model: Model) -> np.ndarray:
    """Return, for each degree of freedom, the bits of those on its path from the root, itself included."""
    masks: list[int] = []
    for k, parent in enumerate(model.dof_parent):
        masks.append(1 << k | (masks[parent] if parent >= 0 else 0))
    return np.array(masks, dtype=np.uint64)
