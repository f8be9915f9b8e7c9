"""Contacts of a plane with cylinders: points of the two rims.

A cylinder is the set of points within a radius of its axis z and within a half length of the plane across it. Its
deepest point lies on a rim, on the side where the normal's part across the axis points away; that point moves along the
rim as the cylinder rolls. The feature selects the formula of a rim point, 2 * formula + end, so that the contact is
smooth:

- formula 0: the deepest point of the rim;
- formulas 1 to 4: the points of the rim on the body's axes x, y, -x, -y;
- formulas 5 and 6: the points of the rim that make a triangle of equal sides with the deepest one.

The nearer a cylinder is to upright, the faster the deepest point turns with its tilt. The four fixed ones stop it where
it has come down, and the deepest one leaves their plane as the cylinder tilts, without a jump. Under MuJoCo's law there
are its points, the triangle that turns with the deepest one.
"""

import functools
import math
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

DEEPEST = 0
FIXED = 1
TRIANGLE = 5

# Features of both rims, without the triangle.
RIM_POINTS = 10

# An axis with a smaller squared sine to the normal counts as upright: rounding would choose the side that is deepest, by
# up to r * sine * (1 - cos 45 degrees) below the fixed points, 3e-6 of the radius.
UPRIGHT_SINE_SQUARED = 1.0e-10


@functools.cache
def cylinder_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. The normal is that of the plane; size is (radius, half length,
    unused).
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform

    @wp.func
    def local_normal(pose: transform, normal: vec3):
        return wp.quat_rotate_inv(wp.transform_get_rotation(pose), normal)

    @wp.func
    def upright(local: vec3):
        return local[0] * local[0] + local[1] * local[1] < scalar(UPRIGHT_SINE_SQUARED)

    @wp.func
    def lower_end(local: vec3):
        return wp.where(local[2] < scalar(0.0), 1, 0)

    @wp.func
    def lowest_feature(local: vec3):
        """Return a rim point that no other is below."""
        return wp.where(upright(local), 2 * FIXED, 2 * DEEPEST) + lower_end(local)

    @wp.func
    def can_bear(feature: int, local: vec3):
        """Return whether a rim point can support a cylinder on a plane with this normal in the body's frame.

        If it lies (axis nearer to the plane than to its normal) the deepest point of either rim can. Otherwise only
        points of the lower rim can: the fixed ones and, unless it stands upright, the deepest.
        """
        deepest = feature < 2 * FIXED
        if local[0] * local[0] + local[1] * local[1] > local[2] * local[2]:
            return deepest
        return feature % 2 == lower_end(local) and not (deepest and upright(local))

    @wp.func
    def beside_deepest(local: vec3):
        """Return the formula of the fixed point nearest to the deepest one."""
        if wp.abs(local[0]) > wp.abs(local[1]):
            return wp.where(local[0] < scalar(0.0), FIXED, FIXED + 2)
        return wp.where(local[1] < scalar(0.0), FIXED + 1, FIXED + 3)

    @wp.func
    def rim_features(pose: transform, normal: vec3):
        """Return the rim points that support a cylinder on a plane, in ascending order; -1 for none.

        The deepest replaces the fixed one next to it.
        """
        local = local_normal(pose, normal)
        left_out = -1
        if not upright(local):
            left_out = beside_deepest(local)
        features = wp.vec4i(-1, -1, -1, -1)
        count = wp.int32(0)
        for feature in range(RIM_POINTS):
            if can_bear(feature, local) and feature // 2 != left_out:
                features[count] = feature
                count += 1
        return features

    @wp.func
    def triangle_features(local: vec3):
        """Return the points of MuJoCo's law: the deepest of both rims, and two of the lower one."""
        lower = lower_end(local)
        return wp.vec4i(2 * DEEPEST + lower, 2 * DEEPEST + 1 - lower, 2 * TRIANGLE + lower, 2 * TRIANGLE + 2 + lower)

    @wp.func
    def third_turn(direction: vec3, sign: scalar):
        """Return a direction across the axis turned about it by a third, to either side."""
        x = direction[0]
        y = direction[1]
        sine = sign * scalar(wp.static(math.sqrt(0.75)))
        return vec3(-scalar(0.5) * x - sine * y, sine * x - scalar(0.5) * y, scalar(0.0))

    @wp.func
    def fixed_direction(formula: int):
        """Return axis x, y, -x or -y of the body for the formulas from ``FIXED`` on."""
        direction = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        if formula == FIXED + 1:
            direction = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
        elif formula == FIXED + 2:
            direction = vec3(scalar(-1.0), scalar(0.0), scalar(0.0))
        elif formula == FIXED + 3:
            direction = vec3(scalar(0.0), scalar(-1.0), scalar(0.0))
        return direction

    @wp.func
    def deepest_direction(local: vec3):
        """Return the unit vector across the axis, in the body's frame, to the side that is deepest; x if there is
        none.
        """
        across = vec3(local[0], local[1], scalar(0.0))
        direction = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        # Far below the threshold of upright: only a slot found at another pose gets here.
        if wp.length_sq(across) > scalar(1.0e-12):
            direction = -across / wp.length(across)
        return direction

    @wp.func
    def rim_point(feature: int, pose: transform, size: vec3, normal: vec3):
        """Return the rim point of a feature."""
        formula = feature // 2
        end = scalar(2 * (feature - 2 * formula) - 1)
        direction = fixed_direction(formula)
        if formula == DEEPEST or formula >= TRIANGLE:
            direction = deepest_direction(local_normal(pose, normal))
        if formula >= TRIANGLE:
            direction = third_turn(direction, scalar(2 * (formula - TRIANGLE) - 1))
        return wp.transform_point(pose, size[0] * direction + vec3(scalar(0.0), scalar(0.0), end * size[1]))

    return SimpleNamespace(
        local_normal=local_normal,
        lowest_feature=lowest_feature,
        can_bear=can_bear,
        rim_features=rim_features,
        triangle_features=triangle_features,
        rim_point=rim_point,
    )
