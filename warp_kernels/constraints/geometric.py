"""Rows that come from the motion of links: of a contact, of its spinning and rolling, of two anchors that coincide."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.kinds import POINT, is_angular, is_of_contact_frame
from warp_kernels.constraints.shared import row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def geometric_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of geometric rows for one precision: three rows are a frame times a velocity, linear or angular."""
    t = warp_types(scalar)
    sp, common, contact_rows = spatial_functions(scalar), row_functions(scalar), contact_row_functions(scalar)
    RowInputs = solver_structs(scalar).RowInputs
    vec2, vec3, mat33, spatial = t.vec2, t.vec3, t.mat33, t.spatial

    @wp.func
    def frame_of(kind: int, item: int):
        """Index of the frame of a constraint of an anchor, those of points and of orientations in turn."""
        return 2 * item + kind - POINT

    @wp.func
    def point_and_frame(kind: int, side: int, item: int, world: int, inputs: RowInputs):
        """Return where a constraint acts on a side, and the frame that multiplies the velocity there, sign included."""
        sign = common.side_sign(side)
        point = vec3()
        frame = sign * wp.identity(n=3, dtype=scalar)
        if is_of_contact_frame(kind):
            point = contact_rows.point_on_side(inputs.contacts.point, inputs.contacts.apart, side, item, world)
            frame = inputs.contacts.frame[item, world] * sign
        else:
            frame = inputs.equalities.anchor_frame[frame_of(kind, item), world] * sign
            if not is_angular(kind):
                point = contact_rows.point_on_side(
                    inputs.equalities.anchor_point, inputs.equalities.anchor_apart, side, item, world
                )
        return point, frame

    @wp.func
    def motion(kind: int, column: spatial, lever: vec3):
        """Velocity that a unit rate of one degree of freedom gives: of the point, or of the orientation."""
        if is_angular(kind):
            return sp.angular(column)
        return sp.point_velocity(column, lever)

    @Native(scalar, 1, "rows").func_native()
    def write_rows(
        row: wp.array2d(dtype=vec3),
        here: int,
        paths: Paths,
        tail: int,
        turns: bool,
        frame: mat33,
        lever: vec3,
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        weights: vec2,
        world: int,
    ) -> mat33:
        """Write the rows along the path to ``tail`` from ``here`` on: the frame times the motion of each degree of freedom.

        Returns the rows times ``weights[0] qd + weights[1] qdd``, the sums of the sizes that these are made of, and the first row
        times qd.
        """

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
        point_and_frame=point_and_frame,
        motion=motion,
        write_rows=write_rows,
        column_adjoint=column_adjoint,
        lever_adjoint=lever_adjoint,
    )
