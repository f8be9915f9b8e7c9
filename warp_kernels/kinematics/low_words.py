"""Low words of positions: what single precision loses of them far from the world's origin.

A position of 1 km is a multiple of 0.06 mm in single precision, and a step of 1 ms at 1 m/s is 1 mm: rounded alike in
every step, it is wrong by up to 3 %. The part that rounding cuts off is therefore kept and added in the next step
(Kahan, *Further remarks on reducing truncation errors*, 1965). Within FAR of the origin steps are fine enough, and
coordinates alone determine the motion, bit for bit.

Origins of trees have low words, too, from which gaps of contacts and errors of anchors are computed: rounding of
coordinates, divided by the time step, would be a noise of velocities.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.kinematics.propagation import Links
from warp_kernels.types import FREE, warp_types

# Distance along a world axis from which low words are kept [m].
FAR = 8.0


@functools.cache
def low_word_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec2, vec3, quat, transform = t.vec2, t.vec3, t.quat, t.transform

    @wp.func
    def is_far(position: scalar):
        """Return whether a position has a low word."""
        return wp.abs(position) > scalar(FAR)

    @wp.func
    def add_far(high: scalar, low: scalar, change: scalar):
        """Return the sum of a position of two words and a change, as two words."""
        whole = change + low
        total = high + whole
        return vec2(total, whole - (total - high))

    @wp.func
    def origin_low_words(
        links: Links,
        low_start: wp.array(dtype=int),
        joint_axis: wp.array(dtype=vec3),
        joint_placement: wp.array2d(dtype=transform),
        q_low: wp.array2d(dtype=scalar),
        world: int,
        origin_low: wp.array2d(dtype=vec3),
    ):
        """Write the low words of the origins of trees, along world axes, from those of the coordinates."""
        size = scalar(0.0)
        for k in range(q_low.shape[1]):
            size += wp.abs(q_low[world, k])
        if size == scalar(0.0):
            for tree in range(origin_low.shape[0]):
                origin_low[tree, world] = vec3()
            return
        for tree in range(origin_low.shape[0]):
            turn = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
            total = vec3()
            for link in range(links.tree_start[tree], links.last_slide[tree] + 1):
                placement = joint_placement[wp.min(world, joint_placement.shape[0] - 1), link]
                turn = turn * wp.transform_get_rotation(placement)
                low = low_start[link]
                if low >= 0:
                    part = q_low[world, low] * joint_axis[link]
                    if links.joint_type[link] == FREE:
                        part = vec3(q_low[world, low], q_low[world, low + 1], q_low[world, low + 2])
                    total += wp.quat_rotate(turn, part)
            origin_low[tree, world] = total

    return SimpleNamespace(is_far=is_far, add_far=add_far, origin_low_words=origin_low_words)
