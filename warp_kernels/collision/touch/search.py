"""Time of touch within a step of a separated pair, its poses and contacts at that time, and the contacts to keep.

A contact found ahead of its touch acts along a normal. That of the present pose is wrong for a sliding body: a box on
flush tiles has the side of the next tile ahead of it, a ball that passes an edge has the edge. So the pair is moved by
its present velocity, which includes the effect of all contacts of the previous step, to its touch, or to the end of the
step.

For straight motion, the signed distance of two convex shapes is a convex function of time. Newton's method from the
present pose therefore doesn't overshoot the first touch, and once the distance begins to grow there is none
(conservative advancement: Mirtich, *Impulse-based Dynamic Simulation of Rigid Body Systems*, 1996).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import warp_types


@functools.cache
def slot_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""

    @wp.func
    def nearest_first(features: wp.vec4i, nearest: int):
        """Return a pair's features, the nearest before the others."""
        ordered = features
        ordered[0] = features[nearest]
        for k in range(nearest):
            ordered[k + 1] = features[k]
        return ordered

    @wp.func
    def farthest(slot_gap: wp.array2d(dtype=scalar), slot_lead: wp.array2d(dtype=wp.int32), gap: scalar, world: int):
        """Return the slot of the largest gap that is larger than ``gap``, -1 for none.

        Of equal gaps, which all contacts of a pair have, the last slot whose contact isn't its pair's nearest.
        """
        largest = gap
        chosen = wp.int32(-1)
        leads = bool(False)
        slot = slot_gap.shape[0] - 1
        while slot >= 0:
            other = slot_gap[slot, world]
            is_lead = bool(False)
            if slot_lead.shape[0] > 0:
                is_lead = slot_lead[slot, world] == slot
            if other > largest or (other == largest and chosen >= 0 and leads and not is_lead):
                largest = other
                chosen = slot
                leads = is_lead
            slot -= 1
        return chosen

    return SimpleNamespace(nearest_first=nearest_first, farthest=farthest)


# Stages of the search: purpose of the evaluation at the present time.
START, APPROACH, LOOK_AHEAD, GENERATE, DONE = range(5)
MAX_EVALUATIONS = 24
# Negligible penetration, as a share of the distance within which contacts are searched: resting bodies penetrate less.
SLOP = 1.0e-3
# Tolerance of Newton's method at a touch, as a share of the slop: about 1e-9 m, plus rounding.
ARRIVED = {wp.float32: 0.05, wp.float64: 5.0e-5}


@functools.cache
def touch_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    sp = spatial_functions(scalar)
    rotation_exp = rotation_vector_functions(scalar).rotation_exp
    zero, one = scalar(0.0), scalar(1.0)
    arrived = scalar(ARRIVED[scalar])

    @wp.func
    def moved(pose: transform, motion: spatial, offset: vec3):
        """Return a geometry's pose after a straight motion of its centre, and a rotation about that. offset: origin of
        its tree.
        """
        centre = wp.transform_get_translation(pose)
        turn = rotation_exp(sp.angular(motion))
        return transform(centre + sp.point_velocity(motion, centre - offset), turn * wp.transform_get_rotation(pose))

    @wp.func
    def displacement_of(motion: spatial, start: transform, pose: transform, point: vec3, offset: vec3):
        """Return the displacement in a whole step of the material point that is at ``point`` once a geometry came from
        start to pose.
        """
        gone = wp.transform_get_translation(pose) - wp.transform_get_translation(start)
        return sp.point_velocity(motion, point - gone - offset)

    @wp.func
    def taken_back(
        point: vec3,
        distance: scalar,
        normal: vec3,
        motion_a: spatial,
        motion_b: spatial,
        start_a: transform,
        start_b: transform,
        pose_a: transform,
        pose_b: transform,
        offset_a: vec3,
        offset_b: vec3,
    ):
        """Return point, displacement apart and distance before both moved: with these, a row's velocity moves the pair
        to its present pose.

        Each side is acted on at its touching point relative to its centre, so that the lever is that of the touch.
        Displacement apart: from the point on a to that on b; the point is midway.
        """
        gone_a = wp.transform_get_translation(pose_a) - wp.transform_get_translation(start_a)
        gone_b = wp.transform_get_translation(pose_b) - wp.transform_get_translation(start_b)
        displacement = sp.point_velocity(motion_b, point - gone_b - offset_b)
        displacement -= sp.point_velocity(motion_a, point - gone_a - offset_a)
        return point - scalar(0.5) * (gone_a + gone_b), gone_a - gone_b, distance - wp.dot(normal, displacement)

    @wp.func
    def after_approach(count: int, time: scalar, touch: scalar, distance: scalar, closing: scalar, slop: scalar):
        """Return the stage after an evaluation before the touch, where ``touch`` is the last time at which the pair was
        apart.
        """
        stage = int(APPROACH)
        if count > MAX_EVALUATIONS:
            stage = GENERATE
            time = touch
        elif distance < -slop:
            # They turned into each other.
            time = scalar(0.5) * (touch + time)
        elif not closing > zero:
            stage = GENERATE
            time = one
        elif wp.abs(distance) <= arrived * slop or (time == zero and distance < zero):
            # If they penetrate at present they touch now, and not before.
            stage = LOOK_AHEAD
            touch = time
            time = wp.min(time + scalar(3.0) * slop / closing, one)
        else:
            if distance > zero:
                touch = time
            time = wp.max(time + distance / closing, zero)
            if time >= one:
                stage = GENERATE
                time = one
        return stage, time, touch

    @wp.func
    def advance(stage: int, count: int, time: scalar, touch: scalar, distance: scalar, closing: scalar, slop: scalar):
        """Return the next stage, its time of evaluation, and a time before the touch, all as fractions of the step.

        distance: of the pair, moved to ``time``. closing: its decrease in a whole step at this rate. The last
        evaluation, at GENERATE, is where the contacts are.
        """
        following = int(DONE)
        if stage == START or stage == APPROACH:
            if stage == APPROACH or (distance >= -slop and closing > wp.max(distance, slop)):
                following, time, touch = after_approach(count, time, touch, distance, closing, slop)
        elif stage == LOOK_AHEAD:
            following = GENERATE
            time = one
            # A body that only slides along the other doesn't sink in.
            if distance < -slop:
                time = touch
        return following, time, touch

    return SimpleNamespace(moved=moved, taken_back=taken_back, displacement_of=displacement_of, advance=advance)
