"""Time of touch within a step of a body separated from a heightfield.

A body may rest on one point of the field while others approach, so the search finds the candidate that touches first:
the one whose distance would reach zero soonest at its present rate, of all local minima of the distance. Resting or
sliding contacts have no such rate. Each candidate is a part of a convex body against a convex element, whose distance
is a convex function of time, so that Newton's method doesn't overshoot its touch. But new candidates appear during the
motion: the foot of a ramp has none on the ramp. A step that ends inside of the field therefore goes back, by Newton's
method or by bisection. A fast body is also tested at the end of its step.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.field.candidates import candidate_functions
from warp_kernels.collision.field.hull.candidates import field_hull_functions
from warp_kernels.collision.pairs import ROUND, ground_of
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.search import ARRIVED, DONE, MAX_EVALUATIONS, SLOP, START, touch_functions
from warp_kernels.types import warp_types

# Stages of the search: purpose of the evaluation at the present time.
APPROACH, LOOK_AHEAD, END = 11, 12, 13
# Largest penetration at which a body is found to sink in at its contact [m]. It is evaluated after three times as much:
# behind a thinner wall it would be free again.
THIN = {wp.float32: 6.0e-5, wp.float64: 2.0e-5}


@functools.cache
def field_touch_functions(scalar: Any, family: str) -> SimpleNamespace:
    """Return the Warp functions for one precision and family of bodies on heightfields."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    sp = spatial_functions(scalar)
    touch = touch_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    if family in ROUND:
        bodies = candidate_functions(scalar, ground_of(family))
    else:
        bodies = field_hull_functions(scalar, ground_of(family))
    Data = bodies.Data
    Drift, soonest, features_of = bodies.Drift, bodies.soonest, bodies.features
    zero, one, half = scalar(0.0), scalar(1.0), scalar(0.5)
    thin = scalar(THIN[scalar])
    arrived = scalar(ARRIVED[scalar])
    never = scalar(2.0)

    @wp.struct
    class Search:
        """Search for the touch, with times as fractions of the step.

        time: to evaluate next; free: the last one at which the body was separated; sunk: the first known one at which
        it was inside; lead: the feature that touches at ``free``, or -1; least: distance below which the body sinks in
        there.
        """

        stage: int
        time: scalar
        free: scalar
        sunk: scalar
        lead: int
        least: scalar

    @wp.func
    def onward(search: Search, feature: int, distance: scalar, closing: scalar, slop: scalar):
        """Return the next evaluation after one at which the body is free."""
        search.free = search.time
        search.lead = feature
        after = never
        if feature >= 0:
            after = search.time + wp.max(distance, zero) / closing
        if feature >= 0 and distance <= arrived * slop and search.time < one:
            search.stage = LOOK_AHEAD
            ahead = wp.min(slop, thin)
            search.least = wp.max(wp.min(distance, zero) - ahead, -slop)
            search.time = wp.min(search.time + (wp.max(distance, zero) + scalar(3.0) * ahead) / closing, one)
        elif after < wp.min(search.sunk, one):
            search.stage = APPROACH
            search.time = after
        elif search.sunk <= one:
            search.stage = APPROACH
            search.time = half * (search.free + search.sunk)
        elif search.time < one:
            search.stage = APPROACH
            search.time = one
        else:
            search.stage = DONE
            search.lead = -1
        return search

    @wp.func
    def backward(search: Search, distance: scalar, closing: scalar, slop: scalar):
        """Return the next evaluation after one at which the body is inside of the field."""
        search.stage = APPROACH
        search.sunk = search.time
        search.time += distance / wp.max(closing, slop)
        if search.time <= search.free:
            search.time = half * (search.free + search.sunk)
        return search

    @wp.func
    def advance(search: Search, feature: int, distance: scalar, closing: scalar, slop: scalar, fast: bool):
        """Return the search after an evaluation. feature: the one that touches first, -1 for none; closing: its
        rate.
        """
        if search.stage == START:
            search.stage = DONE
            if feature >= 0 and distance < closing:
                if distance >= -slop:
                    search = onward(search, feature, distance, closing, slop)
            elif fast and distance >= -slop:
                search.stage = END
                search.time = one
        elif search.stage == LOOK_AHEAD and feature >= 0 and distance < search.least:
            # A sliding body doesn't sink in.
            search.stage = DONE
            search.time = search.free
        elif search.stage != LOOK_AHEAD and feature >= 0 and distance < -arrived * slop:
            search = backward(search, distance, closing, slop)
        elif search.stage == END:
            search.stage = DONE
            search.time = zero
        else:
            search = onward(search, feature, distance, closing, slop)
        return search

    @wp.func
    def drift_of(
        pose_a: transform, pose_b: transform, start_a: transform, start_b: transform, motion_a: spatial,
        motion_b: spatial, offset_a: vec3, offset_b: vec3, slop: scalar,
    ):  # fmt: skip
        """Return the motion of the body over the field in a step at its present rate, in the field's frame."""
        centre = wp.transform_get_translation(pose_a)
        displacement = touch.displacement_of(motion_a, start_a, pose_a, centre, offset_a)
        displacement -= touch.displacement_of(motion_b, start_b, pose_b, centre, offset_b)
        q = wp.transform_get_rotation(pose_b)
        drift = Drift()
        drift.centre = wp.quat_rotate_inv(q, centre - wp.transform_get_translation(pose_b))
        drift.displacement = wp.quat_rotate_inv(q, displacement)
        drift.turn = wp.quat_rotate_inv(q, sp.angular(motion_a) - sp.angular(motion_b))
        drift.slop = slop
        return drift

    @wp.func
    def touch_time(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, start_a: transform, size_a: vec3,
        start_b: transform, size_b: vec3, data: Data, world: int, motion_a: spatial,
        motion_b: spatial, offset_a: vec3, offset_b: vec3, cutoff: scalar, margin: scalar,
    ):  # fmt: skip
        """Return the fraction of the step at which the contacts of a body and a field are, and the feature that touches
        then.

        0 if nothing approaches, 1 if nothing touches; then, and if the search fails, there is no such feature, -1.
        """
        search = Search()
        search.stage = START
        search.sunk = never
        search.lead = -1
        slop = scalar(SLOP) * cutoff
        approach = cutoff - margin
        if approach <= slop:
            search.stage = DONE
        count = wp.int32(0)
        while search.stage != DONE:
            time = search.time
            pose_a = touch.moved(start_a, time * motion_a, offset_a)
            pose_b = touch.moved(start_b, time * motion_b, offset_b)
            drift = drift_of(pose_a, pose_b, start_a, start_b, motion_a, motion_b, offset_a, offset_b, slop)
            within = wp.max(one - time, zero) * approach + slop
            feature, distance, closing = soonest(
                geometries, packed, a, b, pose_a, size_a, pose_b, size_b, data, world, within, drift
            )
            search = advance(search, feature, distance, closing, slop, approach > margin)
            count += 1
            if count > MAX_EVALUATIONS and search.stage != DONE:
                search.stage = DONE
                search.time = zero
                search.lead = -1
        if search.time == zero:
            search.lead = -1
        return search.time, search.lead

    @wp.func
    def touching_features(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, start_a: transform, size_a: vec3,
        start_b: transform, size_b: vec3, data: Data, world: int, motion_a: spatial,
        motion_b: spatial, offset_a: vec3, offset_b: vec3, cutoff: scalar, margin: scalar,
    ):  # fmt: skip
        """Return up to four features of a body and a field, which of the four touches, the fraction of the step at
        which they are, and the least distance.
        """
        time, lead = touch_time(
            geometries, packed, a, b, start_a, size_a, start_b, size_b, data, world, motion_a, motion_b, offset_a,
            offset_b, cutoff, margin,
        )  # fmt: skip
        pose_a = start_a
        pose_b = start_b
        if time > zero:
            pose_a = touch.moved(start_a, time * motion_a, offset_a)
            pose_b = touch.moved(start_b, time * motion_b, offset_b)
        fast = cutoff - margin > margin
        features, least = features_of(
            geometries, packed, a, b, pose_a, size_a, pose_b, size_b, data, world, cutoff, lead, fast
        )
        nearest = wp.int32(0)
        for k in range(4):
            if lead >= 0 and features[k] == lead:
                nearest = k
        return features, nearest, time, least

    return SimpleNamespace(touching_features=touching_features, element_of=bodies.element_of)
