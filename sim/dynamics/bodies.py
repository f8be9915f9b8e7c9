"""Forward kinematics in scratch arrays: poses, motions and inertias of links."""

from typing import Any, Protocol

import warp as wp

from sim.arrays.array_refs import States, for_lanes
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import active_tape, launch
from sim.arrays.scratch import scratch_array
from sim.dynamics.team_passes import TeamPasses, team_passes
from warp_kernels.kinematics.kinematics import kinematics_kernels
from warp_kernels.kinematics.kinematics_adjoint import kinematics_adjoint_kernels
from warp_kernels.types import lane_types

PARAMETERS = ("joint_placement", "mass", "com", "inertia")
NOT_CLEARED = {"pose_bar": None, "origin_bar": None, "subspace_bar": None, "link_inertia_bar": None}


class KinematicsArrays(Protocol):
    """Output of forward kinematics, and scratch of their adjoint.

    Attributes:
        pose, origin, subspace, link_inertia: [item, lane groups], with gradients while a tape records; the last two are
            skipped if they have no rows.
        turn_bar, shift_bar: scratch of vec3 [num_links, groups], for the adjoint.
        q_bar_buffer: :meth:`Poses.scratch_buffer` of the coordinates, for the adjoint.
    """

    pose: wp.array
    origin: wp.array
    subspace: wp.array
    link_inertia: wp.array
    turn_bar: wp.array
    shift_bar: wp.array
    q_bar_buffer: wp.array


def run_kinematics(
    model: DeviceModel,
    q: States,
    arrays: KinematicsArrays,
    clear_gradients: bool = False,
    frames: tuple[str, ...] | None = None,
    lanes: int = 1,
    teams: TeamPasses | None = None,
) -> None:
    """Launch forward kinematics, and record the adjoint on the active tape.

    Args:
        model: arrays of the model.
        q: coordinates [num_worlds, nq].
        arrays: output.
        clear_gradients: whether the gradients of the output become zero.
        frames: frames whose links, with their ancestors, are computed. Default: all links.
        lanes: number of worlds per lane group.
        teams: kernels and launches of teams, for one lane. Default: a thread per tree and lane group.
    """
    tape = active_tape()
    bars = {} if clear_gradients else NOT_CLEARED
    given: dict[str, Any] = {"nq": model.model.nq, **model.visits(frames)._asdict()}
    if teams is None:
        kernel = kinematics_kernels(model.types.scalar, lanes).kinematics
        adjoint = kinematics_adjoint_kernels(model.types.scalar, lanes).kinematics_adjoint
        dim = (model.model.num_trees, arrays.pose.shape[1])
    else:
        kernel, adjoint, dim, given = teams.kinematics, teams.kinematics_adjoint, teams.dim, teams.given
    parameters = model.parameter_arrays(*PARAMETERS)
    sources = (given, model, parameters, arrays)
    coordinates = for_lanes(q, lanes)
    launch(kernel, dim, *sources, device=model.device, record_tape=False, q=coordinates, **bars)
    if tape is None:
        return
    bars = {f"{name}_bar": array.grad for name, array in parameters.items()}
    bars["q_bar"] = for_lanes(q.grad, lanes)
    tape.record_func(
        lambda: launch(adjoint, dim, *sources, device=model.device, record_tape=False, q=coordinates, **bars),
        [array for array in (arrays.pose, arrays.origin, arrays.subspace, arrays.link_inertia) if array.grad],
    )


class Poses:
    """Scratch arrays of forward kinematics [item, group], filled on construction, with gradients while a tape records.

    Args:
        model: arrays of the model.
        q: coordinates [num_worlds, nq].
        frames: frames whose poses and motions are computed. Default: all.
        lanes: lanes of a group, see :mod:`warp_kernels.algebra`; with one lane an entry of the arrays is one world.

    Attributes:
        pose: pose of each link relative to its tree's origin, along world axes; origin: of each tree in the world.
        types: types of the entries, see :func:`warp_kernels.types.lane_types`.
        groups: number of lane groups; some lanes of the last one may have no world.
        teams: kernels and launches of teams of threads that process the links; None for a thread per tree.
    """

    def __init__(self, model: DeviceModel, q: States, frames: tuple[str, ...] | None = None, lanes: int = 1):
        self.model = model
        self.worlds, self.lanes = q.shape[0], lanes
        self.groups = -(-self.worlds // lanes)
        size, t = model.model, lane_types(model.types.scalar, lanes)
        self.types = t
        self.teams: TeamPasses | None = None
        if model.threads_per_world > 1:
            levels, scalar = model.levels(frames), model.types.scalar
            self.teams = team_passes(levels, model.threads_per_world, scalar, model.device, self.worlds)
        self.pose = self._output(size.num_links, t.transform)
        self.origin = self._output(size.num_trees, t.vec3)
        self.subspace, self.link_inertia = self._further()
        if active_tape() is not None:
            self.turn_bar, self.shift_bar = (self._of_one_group(size.num_links, t.vec3) for _ in range(2))
            self.q_bar_buffer = self.scratch_buffer(size.nq)
        run_kinematics(model, q, self, True, frames, lanes, self.teams)

    def _output(self, items: int, dtype: type) -> wp.array:
        """Return an output array; kinematics set its gradient to zero where they fill it, while a tape records."""
        return scratch_array((items, self.groups), dtype, self.model.device, gradient=active_tape() is not None)

    def _further(self) -> tuple[wp.array, wp.array]:
        """Return motion subspace and inertias, without rows if they are skipped."""
        return self.model.none(self.types.spatial), self.model.none(self.types.inertia)

    def _of_one_group(self, items: int, dtype: type) -> wp.array:
        """Return scratch [items, groups] within a launch; with lanes that of one group, since a CPU runs them in
        turn.
        """
        if self.lanes == 1:
            return scratch_array((items, self.groups), dtype, self.model.device)
        one = scratch_array((items, 1), dtype, self.model.device)
        shape, strides = (items, self.groups), (one.strides[0], 0)
        every: Any = wp.array(ptr=one.ptr, dtype=dtype, shape=shape, strides=strides, device=one.device, copy=False)
        every.memory = one
        return every

    def launch_teams(self, kernel: wp.Kernel, *sources: object, **named: Any) -> None:
        """Launch a kernel of teams, with arguments from these sources, these arrays and the model."""
        assert self.teams is not None
        m = self.model
        further = (self.teams.given, self, m, m.parameters)
        launch(kernel, self.teams.dim, *sources, *further, device=m.device, record_tape=False, **named)

    def states(self, array: States | None) -> Any:
        """Return an array of states in the form for kernels of these groups."""
        return for_lanes(array, self.lanes)

    def scratch_buffer(self, count: int) -> wp.array:
        """Return a buffer of ``count`` entries of a world (:mod:`warp_kernels.algebra.entries`); empty for one lane."""
        size = 2 * count * self.lanes if self.lanes > 1 else 0
        return scratch_array((size,), self.model.types.scalar, self.model.device)

    def scratch(self, items: int, dtype: type) -> wp.array:
        """Return an uninitialised array ``[items, groups]``; its gradient, while a tape records, is zero."""
        array = scratch_array((items, self.groups), dtype, self.model.device, gradient=active_tape() is not None)
        if array.grad is not None:
            array.grad.zero_()
        return array


class Motions(Poses):
    """Poses and motions.

    Attributes:
        subspace: motion of each degree of freedom about the tree's origin along world axes.
    """

    def _further(self) -> tuple[wp.array, wp.array]:
        return self._output(self.model.model.nv, self.types.spatial), self.model.none(self.types.inertia)


class Bodies(Motions):
    """Poses, motions and inertias.

    Attributes:
        link_inertia: spatial inertia of each link about the tree's origin along world axes.
    """

    def _further(self) -> tuple[wp.array, wp.array]:
        size = self.model.model
        return self._output(size.nv, self.types.spatial), self._output(size.num_links, self.types.inertia)
