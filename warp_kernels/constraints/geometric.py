"""Rows that come from the motion of links: of a contact, of its spinning and rolling, of two anchors that coincide."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.kinds import POINT, is_angular
from warp_kernels.solver.structs import Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the products.
_ROWS = """
    using number = wp::{scalar};
    using triple = wp::vec_t<3, number>;
    const wp::int64 row_step = row.strides[0], column_step = subspace.strides[0];
    char* rows = reinterpret_cast<char*>(row.data) + here * row_step + world * wp::int64(row.strides[1]);
    const char* columns = reinterpret_cast<const char*>(subspace.data) + world * wp::int64(subspace.strides[1]);
    const char* velocities = reinterpret_cast<const char*>(qd.data) + world * wp::int64(qd.strides[0]);
    const char* accelerations = reinterpret_cast<const char*>(qdd.data) + world * wp::int64(qdd.strides[0]);
    const int* above = reinterpret_cast<const int*>(ancestor.data) + start;
    wp::mat_t<3, 3, number> sums;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int d = 0; d <= depth; ++d) {{
        const int k = d < depth ? above[d] : tail;
        const number* column = reinterpret_cast<const number*>(columns + k * column_step);
        triple motion(column[0], column[1], column[2]);
        if (!turns) motion = triple(column[3], column[4], column[5]) + wp::cross(motion, lever);
        const triple value = wp::mul(frame, motion);
        *reinterpret_cast<triple*>(rows + d * row_step) = value;
        const number velocity = *reinterpret_cast<const number*>(velocities + k * wp::int64(qd.strides[1]));
        const number change = dt * *reinterpret_cast<const number*>(accelerations + k * wp::int64(qdd.strides[1]));
        const number after = share * velocity + change, size = wp::abs(velocity) + wp::abs(change);
        for (int i = 0; i < 3; ++i) {{
            sums.data[0][i] += value[i] * after;
            sums.data[1][i] += wp::abs(value[i]) * size;
        }}
        sums.data[2][0] += value[0] * velocity;
    }}
    return sums;
"""


@functools.cache
def geometric_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of geometric rows for one precision: three rows are a frame times a velocity, linear or angular."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, mat33, spatial = t.vec3, t.mat33, t.spatial

    @wp.func
    def frame_of(kind: int, item: int):
        """Index of the frame of a constraint of an anchor, those of points and of orientations in turn."""
        return 2 * item + kind - POINT

    @wp.func
    def motion(kind: int, column: spatial, lever: vec3):
        """Velocity that a unit rate of one degree of freedom gives: of the point, or of the orientation."""
        if is_angular(kind):
            return sp.angular(column)
        return sp.point_velocity(column, lever)

    @wp.func_native(_ROWS.format(scalar=scalar.__name__))
    def path_rows(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        turns: bool,
        frame: mat33,
        lever: vec3,
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        dt: scalar,
        share: scalar,
        world: int,
    ) -> mat33: ...

    @wp.func
    def write_rows(
        at: int,
        kind: int,
        tail: int,
        world: int,
        frame: mat33,
        lever: vec3,
        dt: scalar,
        share: scalar,
        paths: Paths,
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
    ):
        """Write the rows along the path to ``tail`` from ``at`` on: the frame times the motion of each degree of freedom.

        Returns the rows times ``share qd + dt qdd``, the sums of the sizes that these are made of, and the first row times qd.
        """
        return path_rows(
            row, at, paths.ancestor, paths.dof_row_start[tail], paths.dof_depth[tail], tail, is_angular(kind), frame,
            lever, subspace, qd, qdd, dt, share, world,
        )  # fmt: skip

    @wp.func
    def column_adjoint(kind: int, push: vec3, lever: vec3):
        """Adjoint of the column in ``push . motion(kind, column, lever)``."""
        if is_angular(kind):
            return sp.join(push, vec3())
        return sp.join(wp.cross(lever, push), push)

    @wp.func
    def lever_adjoint(kind: int, push: vec3, column: spatial):
        """Adjoint of the lever in the same."""
        if is_angular(kind):
            return vec3()
        return wp.cross(push, sp.angular(column))

    return SimpleNamespace(
        frame_of=frame_of,
        motion=motion,
        write_rows=write_rows,
        column_adjoint=column_adjoint,
        lever_adjoint=lever_adjoint,
    )
