"""The working arrays of kinematics and dynamics, for which a CPU takes the worlds of a lane group at a time.

Contacts and gyroscopic forces take one world at a time. What they read is copied for each world, and their adjoints are
added up (see :mod:`warp_kernels.algebra.lane_copies`). Scalars lie in memory as both have them.
"""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.launch import active_tape, launch
from sim.arrays.structs import fill
from sim.dynamics.differentiable_op import WORTH_LANES
from sim.model.model import Model
from sim.simulation.options import ContactOptions
from sim.simulation.stepping.constraint_layout import ConstraintLayout
from sim.simulation.stepping.mujoco.law import MujocoLaw
from warp_kernels.algebra.lane_copies import lane_copy_kernels
from warp_kernels.solver.mujoco.laws import CONES, RESISTING
from warp_kernels.solver.newton.group.structs import MOST_BACK, MOST_CONSTRAINTS, group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.types import lane_types, warp_types

# What is copied, each with the name of its type.
POSES = {"pose": "transform", "origin": "vec3", "subspace": "spatial", "link_inertia": "inertia"}


class LaneGroups:
    """Arrays [item, group] of a shard's worlds. Where a group has one world, those of the worlds are the same arrays.

    Args:
        model: the model.
        num_worlds: of the shard.
        lanes: worlds of a group.
        wrenches: whether links have wrenches beside their weight.
        lifted: whether a tree's base floats, see :mod:`warp_kernels.kinematics.recentre`.
        device: where the arrays are.
        links_of_worlds: those whose inertias and wrenches worlds have to do with.

    Attributes:
        worlds: the same for each world, [item, world]: what is copied, ``velocity``, ``common_wrench`` and ``lift``.
        implicit, factor_d, ... weight: scalars of the step, in memory that worlds and groups share (:meth:`scalars`).
    """

    implicit: wp.array
    factor_d: wp.array
    factor_l: wp.array
    response: wp.array
    mass_bar: wp.array
    mass_bar_diagonal: wp.array
    own_mass_bar: wp.array
    own_mass_bar_diagonal: wp.array
    weight: wp.array
    servo_damping: wp.array
    damped_l: wp.array
    damped_d: wp.array
    damping_scratch: wp.array
    geometry_centre: wp.array
    geometry_ball: wp.array
    geometry_axis: wp.array

    def __init__(
        self,
        model: Model,
        num_worlds: int,
        lanes: int,
        wrenches: bool,
        lifted: bool,
        device: wp.Device,
        links_of_worlds: np.ndarray,
    ):
        self.lanes, self.num_groups, self.num_worlds = lanes, -(-num_worlds // lanes), num_worlds
        self.scalar, self.device = model.scalar, device
        t = self.types = lane_types(model.scalar, lanes)
        links, dofs, trees = model.num_links, model.nv, model.num_trees
        self.pose = self.of_groups(links, t.transform)
        self.origin = self.of_groups(trees, t.vec3)
        self.subspace = self.of_groups(dofs, t.spatial)
        self.link_inertia = self.of_groups(links, t.inertia)
        self.common_wrench = self.of_groups(links if wrenches else 0, t.spatial)
        self.lift = self.of_groups(trees if lifted else 0, t.vec3)
        self.turn_bar, self.shift_bar = (self.of_groups(links, t.vec3) for _ in range(2))
        self.q_bar_buffer = wp.zeros(2 * model.nq * lanes if lanes > 1 else 0, dtype=model.scalar, device=device)
        self.velocity, self.acceleration, self.bias_force = (self.of_groups(links, t.spatial) for _ in range(3))
        self.articulated = self.of_groups(links, t.articulated)
        self.factor_u = self.of_groups(dofs, t.spatial)
        self.innovation = self.of_groups(dofs, t.real)
        self.copied = {**POSES, "velocity": "spatial", "common_wrench": "spatial", "lift": "vec3"}
        few: wp.array = wp.array(links_of_worlds.astype(np.int32), dtype=wp.int32, device=device)
        self._items = {"link_inertia": few, "common_wrench": few}
        for name in self.copied:
            count = getattr(self, name).shape[0]
            self._items.setdefault(name, wp.array(np.arange(count, dtype=np.int32), dtype=wp.int32, device=device))
        self.worlds = {name: self._of_worlds(name, kind) for name, kind in self.copied.items()}

    def of_groups(self, count: int, dtype: Any) -> wp.array:
        """An array [count, group]."""
        return wp.zeros((count, self.num_groups), dtype=dtype, device=self.device)

    def scalars(self, count: int) -> tuple[wp.array, wp.array]:
        """Memory of scalars, as [count, world] and as [count, group]."""
        worlds = self.of_whole_groups(count, self.scalar)
        if self.lanes == 1:
            return worlds, worlds
        groups: Any = wp.array(
            ptr=worlds.ptr, shape=(count, self.num_groups), dtype=self.types.real, device=self.device, copy=False
        )
        groups.memory = worlds
        return worlds, groups

    def of_whole_groups(self, count: int, dtype: Any) -> wp.array:
        """An array [count, world] of numbers whose rows have room for whole lane groups."""
        if not count:
            return wp.zeros((0, self.num_worlds), dtype=dtype, device=self.device)
        padded: Any = wp.zeros((count, self.num_groups * self.lanes), dtype=dtype, device=self.device)
        return padded[:, : self.num_worlds]

    def differentiated(self) -> list[wp.array]:
        """The arrays of groups whose gradients kernels add to, beside those of the worlds."""
        return [] if self.lanes == 1 else [getattr(self, name) for name in (*POSES, "common_wrench", "lift")]

    def share_poses(self) -> None:
        """Copy what kinematics have found to the worlds, and hang the way back on the active tape."""
        if self.lanes == 1:
            return
        for name in POSES:
            self.copy_to_worlds(name)
        tape = active_tape()
        if tape is not None:
            tape.record_func(self._collect_adjoints, [self.worlds[name] for name in POSES])

    def copy_to_worlds(self, name: str) -> None:
        """Copy one array to the worlds."""
        if self.lanes > 1:
            self._launch(name, "{}_to_worlds", getattr(self, name), self.worlds[name])

    def copy_adjoint_to_worlds(self, name: str) -> None:
        """Copy the gradient of one array to the worlds."""
        if self.lanes > 1:
            self._launch(name, "{}_to_worlds", getattr(self, name).grad, self.worlds[name].grad)

    def copy_from_worlds(self, name: str) -> None:
        """Copy one array from the worlds."""
        if self.lanes > 1:
            self._launch(name, "{}_to_groups", getattr(self, name), self.worlds[name])

    def _collect_adjoints(self) -> None:
        for name in POSES:
            self._launch(name, "add_{}_to_groups", getattr(self, name).grad, self.worlds[name].grad)

    def _launch(self, name: str, kernel_name: str, groups: wp.array, worlds: wp.array) -> None:
        kernel = vars(lane_copy_kernels(self.scalar, self.lanes))[kernel_name.format(self.copied[name])]
        items = self._items[name]
        dim = (items.shape[0], groups.shape[1])
        launch(kernel, dim, device=self.device, record_tape=False, items=items, groups=groups, worlds=worlds)

    def _of_worlds(self, name: str, kind: str) -> wp.array:
        groups = getattr(self, name)
        if self.lanes == 1:
            return groups
        dtype = getattr(warp_types(self.scalar), kind)
        return wp.zeros((groups.shape[0], self.num_worlds), dtype=dtype, device=self.device)


class SolverChoice:
    """The law and the method of a step; a part of the workspace."""

    model: Model
    contact_options: ContactOptions
    law: MujocoLaw | None
    layout: ConstraintLayout
    groups: LaneGroups
    max_constraints: int
    max_contacts: int

    @property
    def newton(self) -> bool:
        """Whether the problem of a step is solved by Newton's method."""
        return self.contact_options.solver == "newton"

    @property
    def by_mujoco(self) -> bool:
        """Whether the law is MuJoCo's."""
        return self.law is not None

    @property
    def cone(self) -> str:
        """Which cone of MuJoCo's law contacts have."""
        friction = self.contact_options.friction
        return RESISTING if friction == "cone" and self.layout.resisting else CONES[friction]

    @property
    def bouncing(self) -> bool:
        """Whether contacts may bounce, so that positions may move along another velocity than the next one."""
        return self.layout.bouncing and self.max_contacts > 0


def lanes_worth(lanes: int, total_worlds: int) -> int:
    """How many worlds of a trajectory are worked on at a time: few worlds one by one, whatever their shards."""
    return lanes if total_worlds >= WORTH_LANES else 1


def shared_memory(model: Model, lanes: int, constraints: int, device: wp.Device) -> Any:
    """The struct with which Newton's method solves the worlds of a group together, one group after the other.

    Args:
        model: the model.
        lanes: worlds of a group.
        constraints: room for constraints of a world.
        device: where the worlds are.
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
        order=integers(constraints * lanes),
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
        along=numbers(2),
        answers=integers(room),
        **{name: numbers(1) for name in ("scale", "square", "least", "at_hand", "left", "left_now", "lengths")},
        fields=numbers(FIELDS * room),
        **{name: integers(lanes) for name in ("coupled", "moves", "waits", "mode", "failures", "sweeps", "number")},
    )


def path_masks(model: Model) -> np.ndarray:
    """Of each degree of freedom, those of its path from the root, itself included, as bits."""
    masks: list[int] = []
    for k, parent in enumerate(model.dof_parent):
        masks.append(1 << k | (masks[parent] if parent >= 0 else 0))
    return np.array(masks, dtype=np.uint64)
