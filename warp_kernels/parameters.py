"""Conversion of the caller's parameters to the inputs of other kernels.

Parameters on the device are checked there; values of some worlds are selected, and gradients of poses passed back.
"""

import functools
import math
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import kernel_module, warp_types

# Tolerance on the length of a unit quaternion. In float32 all are normalised: errors accumulate along a chain of links,
# and a pose has few digits to spare.
UNIT_TO_ROUNDING = {"float32": 0.0, "float64": 1e-15}


@functools.cache
def parameter_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, launched over (row, item)."""
    t, a = warp_types(scalar), algebra(scalar)
    mat33, transform = t.mat33, t.transform
    module = kernel_module("parameters", scalar)
    rounding = scalar(UNIT_TO_ROUNDING[scalar.__name__])

    @wp.kernel(module=module, enable_backward=False)
    def unit_poses(
        # Data in
        given: wp.array2d(dtype=transform),
        # Data out
        pose: wp.array2d(dtype=transform),
    ):
        """Normalise the quaternions of poses; one whose length is one to rounding is unchanged."""
        row, item = wp.tid()
        placement = given[row, item]
        q = wp.transform_get_rotation(placement)
        if wp.abs(wp.length(q) - scalar(1.0)) > rounding:
            q = a.unit(q)
        pose[row, item] = transform(wp.transform_get_translation(placement), q)

    @wp.kernel(module=module, enable_backward=False)
    def symmetric_parts(
        # Data in
        given: wp.array2d(dtype=mat33),
        # Data out
        matrix: wp.array2d(dtype=mat33),
    ):
        """Compute the symmetric part of each matrix."""
        row, item = wp.tid()
        matrix[row, item] = scalar(0.5) * (given[row, item] + wp.transpose(given[row, item]))

    @wp.kernel(module=module, enable_backward=False)
    def given_pose_gradients(
        # Data in
        given: wp.array2d(dtype=transform),
        # Adjoint out
        gradient: wp.array2d(dtype=transform),
    ):
        """Convert gradients in unit poses to those in the original poses: tangent to the sphere.

        For a zero quaternion, which means no rotation, it is zero.
        """
        row, item = wp.tid()
        pose_bar = gradient[row, item]
        share = a.over_length(wp.transform_get_rotation(given[row, item]))
        turn = share * wp.transform_get_rotation(given[row, item])
        turn_bar = wp.transform_get_rotation(pose_bar)
        turn_bar = share * (turn_bar - wp.dot(turn_bar, turn) * turn)
        gradient[row, item] = transform(wp.transform_get_translation(pose_bar), turn_bar)

    return SimpleNamespace(
        module=module,
        unit_poses=unit_poses,
        symmetric_parts=symmetric_parts,
        given_pose_gradients=given_pose_gradients,
    )


# Share of the largest entry of a model's inertias that a moment may be below zero, as from differences, and moments
# that are rounding [kg m^2].
INDEFINITE, NEGLIGIBLE = 5e-3, 1e-16


@functools.cache
def parameter_value_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, none with an adjoint."""
    transform = warp_types(scalar).transform
    module = kernel_module("parameter_values", scalar)
    missing, zero, short, half = scalar(math.nan), scalar(0.0), scalar(1e-18), scalar(0.5)
    slack, negligible = scalar(INDEFINITE), scalar(NEGLIGIBLE)

    @wp.func
    def is_indefinite(values: wp.array2d(dtype=scalar), row: int, first: int, least: scalar):
        """Return whether the symmetric part of an inertia has a negative moment, beyond ``slack`` of its largest
        entry.
        """
        largest = wp.max(least, negligible)
        for k in range(9):
            largest = wp.max(largest, wp.abs(values[row, first + k]))
        xx = values[row, first] / largest + slack
        yy = values[row, first + 4] / largest + slack
        zz = values[row, first + 8] / largest + slack
        xy = half * (values[row, first + 1] + values[row, first + 3]) / largest
        xz = half * (values[row, first + 2] + values[row, first + 6]) / largest
        yz = half * (values[row, first + 5] + values[row, first + 7]) / largest
        minor = xx * yy - xy * xy
        determinant = zz * minor + xy * yz * xz + xz * xy * yz - yy * xz * xz - xx * yz * yz
        return xx <= zero or minor <= zero or determinant <= zero

    @wp.kernel(module=module, enable_backward=False)
    def check_values(
        # Model
        lower: wp.array(dtype=scalar),
        upper: wp.array(dtype=scalar),
        instead: wp.array(dtype=scalar),
        size: int,
        turn: int,
        least_scale: wp.array(dtype=scalar),
        # Data in
        given: wp.array2d(dtype=scalar),
        # Data out
        values: wp.array2d(dtype=scalar),
        bad: wp.array(dtype=int),
        outside: wp.array(dtype=int),
    ):
        """Copy the numbers [rows, n size], over (row, n). Those out of their range are counted, their row is bad, and
        they are replaced, so that results computed from them stay finite.

        A quaternion, from number ``turn`` of an entry on, must not be zero; -1 if there is none. Entries with a finite
        ``least_scale``, which has no rows for other parameters, are inertias, and must not be indefinite.
        """
        row, item = wp.tid()
        first = item * size
        for k in range(size):
            x = given[row, first + k]
            if not (x >= lower[first + k] and x <= upper[first + k]):
                x = instead[first + k]
                wp.atomic_add(bad, row, 1)
                wp.atomic_add(outside, 0, 1)
            values[row, first + k] = x
        if turn >= 0:
            square = zero
            for k in range(4):
                square += values[row, first + turn + k] * values[row, first + turn + k]
            if square < short:
                for k in range(4):
                    values[row, first + turn + k] = instead[first + turn + k]
                wp.atomic_add(bad, row, 1)
                wp.atomic_add(outside, 0, 1)

        judged = least_scale.shape[0] > 0
        if judged:
            judged = wp.isfinite(least_scale[item]) and is_indefinite(values, row, first, least_scale[item])
        if judged:
            for k in range(size):
                values[row, first + k] = instead[first + k]
            wp.atomic_add(bad, row, 1)
            wp.atomic_add(outside, 0, 1)

    @wp.kernel(module=module, enable_backward=False)
    def spoil_worlds(
        # Data in
        bad: wp.array(dtype=int),
        # Data out
        q: wp.array2d(dtype=scalar),
    ):
        """Set the coordinates of worlds with a bad row to NaN, or of all if they share one."""
        world = wp.tid()
        row = world
        if bad.shape[0] == 1:
            row = 0
        if bad[row] > 0:
            for k in range(q.shape[1]):
                q[world, k] = missing

    @wp.kernel(module=module, enable_backward=False)
    def count_mask(
        # Data in
        mask: wp.array(dtype=wp.bool),
        # Data out
        ones: wp.array(dtype=int),
    ):
        """Mark selected worlds with 1."""
        world = wp.tid()
        ones[world] = wp.where(mask[world], 1, 0)

    @wp.kernel(module=module, enable_backward=False)
    def rank_mask(
        # Data in
        mask: wp.array(dtype=wp.bool),
        until: wp.array(dtype=int),
        # Data out
        rank: wp.array(dtype=int),
    ):
        """Compute the rank of each selected world, from the number of selected ones up to it; -1 for the others."""
        world = wp.tid()
        rank[world] = wp.where(mask[world], until[world] - 1, -1)

    @wp.kernel(module=module, enable_backward=False)
    def rank_numbers(
        # Data in
        numbers: wp.array(dtype=wp.int64),
        # Data out
        rank: wp.array(dtype=int),
        outside: wp.array(dtype=int),
    ):
        """Compute the rank of each selected world from the list of indices; out-of-range ones are counted."""
        i = wp.tid()
        world = int(numbers[i])
        if world < 0:
            world += rank.shape[0]
        if world >= 0 and world < rank.shape[0]:
            # Of duplicates the last wins, as on the host.
            wp.atomic_max(rank, world, i)
        else:
            wp.atomic_add(outside, 0, 1)

    @wp.kernel(module=module, enable_backward=False)
    def merge_rows(
        # Data in
        before: wp.array2d(dtype=scalar),
        given: wp.array2d(dtype=scalar),
        rank: wp.array(dtype=int),
        # Data out
        values: wp.array2d(dtype=scalar),
    ):
        """Copy, for the selected worlds, the row of their rank or the only one, NaN if that is missing; else the
        previous row.
        """
        world = wp.tid()
        row = rank[world]
        chosen = row >= 0
        if chosen and given.shape[0] == 1:
            row = 0
        own = world
        if before.shape[0] == 1:
            own = 0
        for k in range(values.shape[1]):
            if not chosen:
                values[world, k] = before[own, k]
            elif row < given.shape[0]:
                values[world, k] = given[row, k]
            else:
                values[world, k] = missing

    @wp.kernel(module=module, enable_backward=False)
    def project_pose_gradients(
        # Data in
        given: wp.array2d(dtype=transform),
        # Adjoint out
        gradient: wp.array2d(dtype=transform),
    ):
        """Convert gradients in unit poses to those in the original poses, tangent to the sphere."""
        row, item = wp.tid()
        q = wp.transform_get_rotation(given[row, item])
        unit_bar = gradient[row, item]
        turn_bar = wp.transform_get_rotation(unit_bar)
        length = wp.length(q)
        unit = q / length
        tangent = (turn_bar - wp.dot(unit, turn_bar) * unit) / length
        gradient[row, item] = transform(wp.transform_get_translation(unit_bar), tangent)

    return SimpleNamespace(
        module=module,
        check_values=check_values,
        spoil_worlds=spoil_worlds,
        count_mask=count_mask,
        rank_mask=rank_mask,
        rank_numbers=rank_numbers,
        merge_rows=merge_rows,
        project_pose_gradients=project_pose_gradients,
    )
