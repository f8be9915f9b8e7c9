"""Rows of constraints for the worlds of a lane group, with their velocities without impulses; their adjoint.

The same as the first loop of :mod:`warp_kernels.constraints.rows`, and for geometric rows
:mod:`warp_kernels.constraints.row_adjoint`, for one world. Under MuJoCo's law rows contain a share of the velocity
before the step, which has an adjoint as well; under the hard law all of it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import has_own_kernels
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.structs import (
    GROUP_ROW_HEADERS,
    group_slot_functions,
    group_structs,
    side_structs,
)
from warp_kernels.solver.structs import Constraints, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def group_geometry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for one precision and number of lanes."""
    of_worlds, vectors = wp.array2d(dtype=scalar), wp.array2d(dtype=warp_types(scalar).vec3)
    Group, Geometry = group_structs(scalar).Group, side_structs(scalar, lanes).Geometry
    native = Native(scalar, lanes, "newton::geometry")

    @native.func_native()
    def begin_rows(group: int, nv: int, qd: of_worlds, qd_solved: of_worlds, shared: Group):
        """Interleave v+ and qd of all worlds, with zeros for the adjoint of qd between them: ``velocity``."""

    @native.func_native()
    def rows_adjoint(
        slot: int,
        group: int,
        nv: int,
        trees: TreeDofs,
        constraints: Constraints,
        geometry: Geometry,
        impulse: vectors,
        weight: of_worlds,
        shared: Group,
        geometry_bar: Geometry,
    ):
        """Propagate the adjoint of the rows in one slot to their inputs."""

    @native.func_native()
    def end_rows(group: int, nv: int, shared: Group, qd_bar: of_worlds):
        """Add the adjoint of qd."""

    return SimpleNamespace(begin_rows=begin_rows, rows_adjoint=rows_adjoint, end_rows=end_rows)


@functools.cache
def group_row_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernel for one precision and number of worlds in a lane group; empty with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    of_worlds, vectors = wp.array2d(dtype=scalar), wp.array2d(dtype=warp_types(scalar).vec3)
    slots, reference_rows = group_slot_functions(scalar, lanes), reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Cones, Rows, Bounces = structs.Cones, structs.Rows, structs.Bounces
    Group, sides = group_structs(scalar).Group, side_structs(scalar, lanes)
    Geometry, Joints = sides.Geometry, sides.Joints
    module = kernel_module("group_rows", scalar, lanes, headers=GROUP_ROW_HEADERS)
    native = Native(scalar, lanes, "newton::rows")

    @native.func_native()
    def load_speeds(group: int, nv: int, dt: scalar, qd: of_worlds, qdd: of_worlds, shared: Group):
        """Interleave the velocities that multiply the rows: ``velocity``."""

    @native.func_native()
    def make_rows(
        slot: int,
        group: int,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        geometry: Geometry,
        joints: Joints,
        factor_l: of_worlds,
        shared: Group,
        row: vectors,
        rows: Rows,
        bounces: Bounces,
    ):
        """Compute the rows of the constraints in one slot, and their velocities without impulses."""

    @wp.kernel(module=module, enable_backward=False)
    def group_rows(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dt: scalar,
        # Parameters
        coupling_ratio: of_worlds,
        # Data in
        qd: of_worlds,
        qdd: of_worlds,
        factor_l: of_worlds,
        row_geometry: Geometry,
        cones: Cones,
        constraints: Constraints,
        # Data out
        shared: Group,
        row: vectors,
        rows: Rows,
        bounces: Bounces,
    ):
        """Compute rows along both paths. rows: ``rhs`` without biases, which come after, and ``size``. Kinds of rows
        with separate kernels are omitted.
        """
        group = wp.tid()
        nv = paths.dof_depth.shape[0]
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        most = int(0)
        for n in range(worlds):
            most = wp.max(most, constraints.count[group * lanes + n])
        if most == 0:
            return
        load_speeds(group, nv, dt, qd, qdd, shared)
        references = row_geometry.references
        joints = Joints()
        joints.cones = cones
        joints.coupling_ratio = coupling_ratio
        for slot in range(slots.assign(group, most, constraints, shared)):
            for n in range(lanes):
                i = shared.slot_constraint[slot * lanes + n]
                if i >= 0:
                    world = group * lanes + n
                    kind = constraints.kind[i, world]
                    if has_own_kernels(kind):
                        shared.slot_constraint[slot * lanes + n] = -1
                    else:
                        own = reference_rows.reference(references, kind, constraints.item[i, world], world)
                        shared.three[n] = own[2]
            make_rows(
                slot, group, paths, trees, constraints, row_geometry, joints, factor_l, shared, row, rows, bounces
            )  # fmt: skip

    return SimpleNamespace(module=module, group_rows=group_rows)
