"""Stages of a step for tendons: lengths, forces, constraints and armature."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array, zeros
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import clear
from sim.model.model import Model
from sim.simulation.stepping.mujoco_law import MujocoLaw
from sim.simulation.stepping.tendon_layout import (
    DAMPED_TENDON,
    deferred_rows,
    moving_dofs,
    path_sides,
    point_moves,
    tendon_paths,
)
from warp_kernels.actuators.joint_force import joint_force_kernels
from warp_kernels.actuators.tendon_sums import tendon_sum_kernels
from warp_kernels.constraints.kinds import TENDON, TENDON_LIMIT
from warp_kernels.kinematics.motion import acceleration_kernels
from warp_kernels.solver.mujoco.references import tendon_reference_kernels
from warp_kernels.solver.structs import TendonRows, TendonWraps
from warp_kernels.solver.tendons.armature import tendon_armature_kernels
from warp_kernels.solver.tendons.forces import tendon_force_kernels
from warp_kernels.solver.tendons.geometry import tendon_geometry_kernels
from warp_kernels.solver.tendons.rows import UPPER, hard_tendon_kernels, tendon_row_kernels
from warp_kernels.solver.tendons.wrapping import wrapping_kernels

if TYPE_CHECKING:
    from sim.simulation.stepping.workspace import Workspace


class HeavyTendons:
    """Arrays of the tendons with armature for one step; they have no rows without such tendons.

    Args:
        device_model: arrays of the model, with parameters of these worlds.
        heavy: tendons with armature, and the last degrees of freedom that they act on, see
            :func:`sim.simulation.stepping.tendon_layout.heavy_tendons` [n, 2].
    """

    def __init__(self, device_model: DeviceModel, heavy: np.ndarray):
        model, t, scalar = device_model.model, device_model.types, device_model.model.scalar
        self._device, self.num_worlds = device_model.device, device_model.num_worlds
        self._kernels = tendon_armature_kernels(scalar)
        self.count = len(heavy)
        tendons, tails = np.ascontiguousarray(heavy.T, dtype=np.int32)
        self.heavy_tendon: wp.array = wp.array(tendons, dtype=wp.int32, device=self._device)
        self.heavy_tail: wp.array = wp.array(tails, dtype=wp.int32, device=self._device)

        def worlds_last(count: int, dtype: Any = scalar) -> wp.array:
            return zeros((count if self.count else 0, self.num_worlds), dtype, self._device)

        # Motion of links whose coordinates don't accelerate, for tendons through points.
        spatial = any(len(model.tendons.segments(tendon)) for tendon in heavy[:, 0].tolist())
        links = model.num_links if spatial else 0
        self.velocity, self.acceleration = worlds_last(links, t.spatial), worlds_last(links, t.spatial)
        self.no_acceleration = zeros((self.num_worlds, model.nv if links else 0), scalar, self._device)
        self.tendon_curvature = worlds_last(self.count)
        self.armature_scratch = worlds_last(model.nv)

    @property
    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.velocity, self.acceleration, self.tendon_curvature]

    def curve(self, step: "Workspace") -> None:
        """Compute second derivatives of lengths at constant velocities; recorded on an active tape."""
        clear(self.tendon_curvature)
        if self.velocity.shape[0]:
            kernel, dim = acceleration_kernels(step.scalar).link_motion, (step.model.num_trees, self.num_worlds)
            step.launch(kernel, dim, self, tape=True, qdd=self.no_acceleration)
            self._launch(
                step,
                self._kernels.tendon_curvatures,
                self.count,
                self.num_worlds,
                tape=True,
                curved_tendon=self.heavy_tendon,
            )

    def add(self, step: "Workspace") -> None:
        """Add the armature of tendons to factors and accelerations."""
        self._launch(step, self._kernels.add_tendon_armature, self.num_worlds)

    def write_masses(self, step: "Workspace") -> None:
        """Add the armature of tendons to entries of the mass matrix, for the dynamics of the midpoint step."""
        self._launch(step, self._kernels.tendon_masses, self.num_worlds)

    def add_adjoint(self, step: "Workspace") -> None:
        """Add the adjoints of slopes, curvatures and armature."""
        self._launch(step, self._kernels.tendon_armature_adjoint, self.num_worlds)

    def _launch(self, step: "Workspace", kernel: wp.Kernel, *dim: int, tape: bool = False, **named: wp.array) -> None:
        step.launch(kernel, dim, self, tape=tape, **named)


# Arrays whose gradients kernels add to.
DIFFERENTIATED = (
    "point_position", "wrap_centre", "wrap_first", "wrap_last", "wrap_normal", "wrap_arc", "segment_length",
    "segment_pull", "tendon_length", "tendon_slope", "tendon_rate", "tendon_force", "tendon_position", "tendon_row",
    "tendon_bound", "tendon_reference", "tendon_drift", "unbounded_force", "tendon_sum",
)  # fmt: skip


class TendonStage:
    """Arrays of tendons, and of the rows of dampers, for one step; a model without both has no such stage.

    Args:
        device_model: arrays of the model, with parameters of these worlds.
        rows: possible constraints, see :func:`sim.simulation.stepping.tendon_layout.tendon_rows`.
        dampers: dampers on two paths, whose rows follow those of constraints and belong to
            :mod:`sim.simulation.stepping.stages.forces.rate_damping`; see
            :func:`sim.simulation.stepping.tendon_layout.damper_rows` [n, 4].
        heavy: tendons with armature, see :class:`HeavyTendons`.
        drifts: whether constraints compensate for the curvature of tendons through points in a step.
    """

    # Argument of kernels of other stages.
    tendon_rows: Any
    tendon_slope: wp.array
    tendon_row: wp.array
    tendon_bound: wp.array
    tendon_active: wp.array
    tendon_switch: wp.array

    def __init__(
        self, device_model: DeviceModel, rows: np.ndarray, dampers: np.ndarray, heavy: np.ndarray, drifts: bool
    ):
        model = device_model.model
        self._device_model, self._device = device_model, device_model.device
        self._scalar, t = model.scalar, device_model.types
        tendons = model.tendons
        self.num_tendons, self.num_constraints = len(tendons.names), len(rows)
        self.dampers, self.num_rows = dampers, len(rows) + len(dampers)
        self.nv, self.num_worlds = model.nv, device_model.num_worlds
        names = ("term_start", "term_dof", "segment_start", "segment_wrap", "point_link", "path_link")
        self.term_start, self.term_dof, self.segment_start, self.segment_wrap, self.point_link, self.path_link = (
            self._integers(getattr(tendons, name)) for name in names
        )
        self.segment_ends = self._integers(tendons.segment_ends.reshape(-1))
        self.num_points, self.num_wraps = len(tendons.point_link), len(tendons.wrap_link)
        self.segment_share: wp.array = wp.array(tendons.segment_share, dtype=model.scalar, device=self._device)
        self.point_moves = self._integers(point_moves(model))
        self._list_moving(model)
        references = tendons.coupling_reference
        self.tied_reference: wp.array = wp.array(references, dtype=t.vec2, device=self._device)
        self.actuator_tendon = self._integers(model.actuator_tendon)
        self._actuated = bool((model.actuator_tendon >= 0).any())
        self.bounds_sums = model.bounds_sums
        self.unbounded_force = self._worlds_last(model.scalar, model.nu if self.bounds_sums else 0)
        self.tendon_sum = self._worlds_last(model.scalar, self.num_tendons if self.bounds_sums else 0)
        columns = dict(zip(("kind", "tendon", "other", "coupling"), rows.T, strict=True))
        self.tendon_rows = fill(TendonRows, **{name: self._integers(column) for name, column in columns.items()})
        tails, sides = tendon_paths(model, rows)
        tails = np.concatenate([tails, dampers[:, 2:]])
        sides = np.concatenate([sides, path_sides(model, dampers[:, 2:])])
        kinds = np.where(columns["kind"] <= UPPER, TENDON_LIMIT, TENDON)
        self.constrained = {
            "tendon_kind": self._integers(np.append(kinds, np.full(len(dampers), TENDON))),
            "tendon_tail": self._integers(tails.reshape(-1)),
            "tendon_side": self._integers(sides),
        }
        self.point_position = self._worlds_last(t.vec3, self.path_link.shape[0])
        self.wraps = fill(
            TendonWraps, link=self._integers(tendons.wrap_link), is_cylinder=self._integers(tendons.wrap_is_cylinder),
            ends=self._integers(tendons.wrap_ends.reshape(-1)), side_link=self._integers(tendons.wrap_side_link),
        )  # fmt: skip
        self.wrap_side: wp.array = wp.array(tendons.wrap_side, dtype=t.vec3, device=self._device)
        self.wrap_centre, self.wrap_first, self.wrap_last, self.wrap_normal = (
            self._worlds_last(t.vec3, self.num_wraps) for _ in range(4)
        )
        self.wrap_root, self.wrap_arc = (self._worlds_last(model.scalar, self.num_wraps) for _ in range(2))
        self.wrap_winding = self._worlds_last(wp.int32, self.num_wraps)
        self.segment_length = self._worlds_last(model.scalar, len(tendons.segment_wrap))
        self.segment_pull = self._worlds_last(t.vec3, len(tendons.segment_wrap))
        self.tendon_length, self.tendon_rate, self.tendon_force = (
            self._worlds_last(model.scalar, self.num_tendons) for _ in range(3)
        )
        self.tendon_slope = self._worlds_last(model.scalar, self.num_tendons, model.nv)
        self.tendon_position = self._worlds_last(t.vec2, self.num_constraints)
        self.tendon_row = self._worlds_last(model.scalar, self.num_rows, model.nv)
        self.tendon_bound = self._worlds_last(model.scalar, self.num_rows)
        self.tendon_reference = self._worlds_last(t.vec3, self.num_rows)
        self.drifts = drifts and self.num_constraints > 0 and self.num_points > 0
        self.curved_tendon = self._integers(np.arange(self.num_tendons if self.drifts else 0))
        self.tendon_drift = self._worlds_last(model.scalar, self.num_tendons)
        self.tendon_active = self._worlds_last(wp.int32, self.num_rows)
        first = len(model.equalities.anchor_names) + len(model.equalities.coupling_names)
        switches = np.where(columns["coupling"] < 0, -1, first + columns["coupling"])
        self.tendon_switch = self._integers(np.append(switches, np.full(len(dampers), -1)))
        self.tendon_deferred = self._integers(deferred_rows(dampers, DAMPED_TENDON, self.num_tendons))
        self.heavy = HeavyTendons(device_model, heavy)

    def _list_moving(self, model: Model) -> None:
        """List the degrees of freedom that move each tendon, and the tendons that each of these moves."""
        moving = [sorted(moving_dofs(model, tendon)) for tendon in range(self.num_tendons)]
        moved = sorted(set().union(*moving))
        tendons = [[tendon for tendon, dofs in enumerate(moving) if k in dofs] for k in moved]
        self.moved_dof = self._integers(np.array(moved))
        self.moving_start, self.moving_dof = self._list_of_lists(moving)
        self.moved_start, self.moved_tendon = self._list_of_lists(tendons)

    @property
    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [*(getattr(self, name) for name in DIFFERENTIATED), *self.heavy.differentiated]

    def pull(self, step: "Workspace") -> None:
        """Compute lengths and their derivatives, and add forces to the joint forces; recorded on an active tape."""
        if not self.num_tendons:
            return
        geometry, forces = tendon_geometry_kernels(self._scalar), tendon_force_kernels(self._scalar)
        for array in (self.tendon_length, self.tendon_slope, self.tendon_rate):
            clear(array)
        if self.num_points:
            self._launch(step, geometry.tendon_points, self.num_points)
            self._wrap(step)
            self._launch(step, geometry.tendon_segments, self.segment_wrap.shape[0])
        self._launch(step, geometry.tendon_lengths, self.num_tendons)
        self._launch(step, geometry.term_slopes, self.num_tendons)
        if self.num_points:
            self._launch(step, geometry.segment_slopes, self.num_tendons, self.nv)
        self._launch(step, forces.tendon_rates, self.num_tendons)
        self._launch(step, forces.tendon_forces, self.num_tendons)
        if self._actuated:
            step.activations.pull_tendons(step)
            self._actuate(step)
        if not step.model.nu:
            self._launch(step, joint_force_kernels(self._scalar).begin_joint_force, self.nv, tape=False)
        self._launch(step, forces.add_tendon_forces, self.moved_dof.shape[0])
        if self.heavy.count:
            self.heavy.curve(step)

    def _actuate(self, step: "Workspace") -> None:
        """Add the forces of actuators, with bounds on their sums if tendons have some."""
        if not self.bounds_sums:
            self._launch(step, tendon_force_kernels(self._scalar).actuate_tendons, self.num_tendons)
            return
        kernels = tendon_sum_kernels(self._scalar)
        clear(self.tendon_sum)
        self._launch(step, kernels.sum_forces, self.num_tendons)
        self._launch(step, kernels.add_bounded_forces, self.num_tendons)

    def _wrap(self, step: "Workspace") -> None:
        """Compute the points where tendons touch their wraps."""
        if self.num_wraps:
            kernels = wrapping_kernels(self._scalar)
            self._launch(step, kernels.locate_wraps, self.num_wraps)
            self._launch(step, kernels.choose_windings, self.num_wraps, tape=False)
            self._launch(step, kernels.touch_wraps, self.num_wraps)

    def add_armature(self, step: "Workspace") -> None:
        """Add the armature of tendons to factors and accelerations."""
        if self.heavy.count:
            self.heavy.add(step)

    def armature_adjoint(self, step: "Workspace") -> None:
        """Propagate the adjoint of the mass matrix to the armatures of tendons."""
        if self.heavy.count:
            self.heavy.add_adjoint(step)

    def constrain(self, step: "Workspace", law: MujocoLaw | None) -> None:
        """Compute the rows of tendon constraints and their active set; recorded on an active tape."""
        if not self.num_constraints:
            return
        rows = tendon_row_kernels(self._scalar)
        if law is None:
            if self.drifts:
                clear(self.tendon_drift)
                kernel = tendon_armature_kernels(self._scalar).tendon_curvatures
                motion = {"velocity": step.errors.bias_velocity, "acceleration": step.errors.bias_acceleration}
                self._launch(step, kernel, self.num_tendons, named={**motion, "tendon_curvature": self.tendon_drift})
            self._launch(step, hard_tendon_kernels(self._scalar).tendon_constraints, self.num_constraints)
        else:
            given = self._device_model.parameter_arrays("solref", "solimp")
            kernel = tendon_reference_kernels(self._scalar).tendon_references
            self._launch(step, kernel, self.num_constraints, named=given)
        self._launch(step, rows.tendon_rows, self.num_constraints, self.nv)
        self._launch(step, rows.tendon_activity, self.num_constraints, tape=False)

    def _launch(
        self,
        step: "Workspace",
        kernel: wp.Kernel,
        *dim: int,
        tape: bool = True,
        named: Mapping[str, wp.array] | None = None,
    ) -> None:
        step.launch(kernel, (*dim, self.num_worlds), self, tape=tape, **(named or {}))

    def _worlds_last(self, dtype: Any, *counts: int) -> wp.array:
        return zeros((*counts, self.num_worlds), dtype, self._device)

    def _list_of_lists(self, lists: list[list[int]]) -> tuple[wp.array, wp.array]:
        """Return the start of each list and the end of the last, and the concatenated entries."""
        starts = np.cumsum([0, *map(len, lists)])
        return self._integers(starts), self._integers(np.array([each for one in lists for each in one]))

    def _integers(self, values: np.ndarray) -> wp.array:
        return integer_array(values, self._device)
