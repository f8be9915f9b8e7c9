"""Contacts of a plane with cylinders: points of the two rims.

A cylinder is the set of points within a radius of its axis z and within a half length of the plane across it. Its
deepest point lies on a rim, on the side where the normal's part across the axis points away; that place moves along the
rim as the cylinder rolls. The feature says how a rim point follows from the pose, 2 * formula + end, so that the contact
is smooth:

- formula 0: the deepest point of the rim;
- formulas 1 and 2: a third of a turn to either side of it, so that the three span the disc;
- formulas 3 to 6: the points of the rim on the body's axes x, y, -x, -y, where no side is deepest.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.types import warp_types

DEEPEST = 0
FIXED = 3

# An axis with a smaller squared sine to the normal (0.06 degrees) counts as upright and stands on four points fixed to the
# body. The deepest of them is then up to r * sine * (1 - cos 45 degrees) higher than the rim, 3e-4 of the radius. Points
# that follow the deepest side would turn as 1 / sine times the tilt, and rounding would choose their places at rest.
UPRIGHT_SINE_SQUARED = 1.0e-6


@functools.cache
def cylinder_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. The normal is that of the plane; size is (radius, half length, unused)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    third_sine = float(np.sqrt(0.75))

    @wp.func
    def rim_features(pose: transform, normal: vec3):
        """The rim points that can bear a cylinder, in ascending order; -1 stands for none.

        Lying (axis nearer to the plane than to its normal): the deepest of both rims, whichever is lower. Else points of
        the lower rim alone: the deepest and two more, or upright the four fixed ones.
        """
        local = wp.quat_rotate_inv(wp.transform_get_rotation(pose), normal)
        sine_squared = local[0] * local[0] + local[1] * local[1]
        lower = 0
        if local[2] < scalar(0.0):
            lower = 1
        features = wp.vec4i(lower, 2 + lower, 4 + lower, -1)
        if sine_squared > local[2] * local[2]:
            features = wp.vec4i(0, 1, -1, -1)
        elif sine_squared < scalar(UPRIGHT_SINE_SQUARED):
            features = wp.vec4i(6 + lower, 8 + lower, 10 + lower, 12 + lower)
        return features

    @wp.func
    def fixed_direction(formula: int):
        """Axis x, y, -x or -y of the body for the formulas from ``FIXED`` on."""
        direction = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        if formula == FIXED + 1:
            direction = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
        elif formula == FIXED + 2:
            direction = vec3(scalar(-1.0), scalar(0.0), scalar(0.0))
        elif formula == FIXED + 3:
            direction = vec3(scalar(0.0), scalar(-1.0), scalar(0.0))
        return direction

    @wp.func
    def deepest_direction(local_normal: vec3):
        """Unit vector across the axis, in the body's frame, to the side that is deepest; x where there is none."""
        across = vec3(local_normal[0], local_normal[1], scalar(0.0))
        direction = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        # Far below what counts as upright: only a slot found at another pose gets here.
        if wp.length_sq(across) > scalar(1.0e-12):
            direction = -across / wp.length(across)
        return direction

    @wp.func
    def rim_point(feature: int, pose: transform, size: vec3, normal: vec3):
        """The point of a rim that a feature stands for."""
        formula = feature // 2
        end = scalar(2 * (feature - 2 * formula) - 1)
        direction = fixed_direction(formula)
        if formula < FIXED:
            deepest = deepest_direction(wp.quat_rotate_inv(wp.transform_get_rotation(pose), normal))
            direction = deepest
            if formula != DEEPEST:
                side = scalar(2 * formula - 3)
                beside = vec3(-deepest[1], deepest[0], scalar(0.0))
                direction = scalar(-0.5) * deepest + side * scalar(third_sine) * beside
        return wp.transform_point(pose, size[0] * direction + vec3(scalar(0.0), scalar(0.0), end * size[1]))

    return SimpleNamespace(rim_features=rim_features, rim_point=rim_point)
