"""Jacobians of frames by a team of threads per world, see :mod:`warp_kernels.kinematics.jacobian`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.team.levels import TREE_WIDTHS, tree_module
from warp_kernels.kinematics.frames import frame_functions
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_jacobian_kernels": TREE_WIDTHS}


@functools.cache
def team_jacobian_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t, frames, team = warp_types(scalar), frame_functions(scalar, 1), team_functions(scalar, width)
    module = tree_module("team_jacobian", scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_frame_jacobian(
        # Model
        link_tree: wp.array(dtype=int),
        path_frame: wp.array(dtype=int),
        path_dof: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=t.transform),
        reference: int,
        # Data in
        pose: wp.array2d(dtype=t.transform),
        origin: wp.array2d(dtype=t.vec3),
        subspace: wp.array2d(dtype=t.spatial),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        jacobian: wp.array4d(dtype=scalar),
    ):
        """Compute the columns of the degrees of freedom on the paths to frames, as the kernel ``frame_jacobian``: a
        column is an item.
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        count = path_dof.shape[0]
        for n in range(team.lane(), count, team.size()):
            at = team.item(n, count)
            frame = path_frame[at]
            k = path_dof[at]
            link = frame_link[frame]
            placed = frames.frame_pose(pose[link, world], frame_placement[frame])
            point = frames.reference_point(reference, placed, link_tree[link], world, origin)
            column = frames.in_reference(reference, subspace[k, world], placed, point)
            for i in range(wp.static(6)):
                jacobian[world, frame, i, k] = column[i]

    return SimpleNamespace(module=module, team_frame_jacobian=team_frame_jacobian)
