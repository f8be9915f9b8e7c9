"""A few of many places: the deepest, then those that span most area, one stage after the other.

A body at rest stands on several places. At each of them, the surfaces are no longer nearest to each other as soon as the
body tilts away by a rounding. So only the deepest place has to be a nearest one exactly. The others may nearly be one: their
contacts are apart then, and bear when the body tilts back.

Before these stages comes another one, for a body that moves: which place touches first, see
:mod:`warp_kernels.collision.field.touch`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.ground.sides import side_functions
from warp_kernels.collision.hulls import hull_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types

# Distance for which perpendicular normals of one place stand when places are spread [m], over the root of two.
NORMALS_APART = 0.01

# The stage that looks for the place that touches first.
SOONEST = -1

# Depths that differ by less are equal, and so are places [m].
TIE = 1.0e-6

# A place this much farther than the deepest counts half [m], so that of more than four near places those that touch come
# first.
HALF_AS_GOOD = 3.0e-4

# Sine by which the normals at other places than the deepest may miss those of the surfaces that meet there.
NEARLY_FLAT = 0.05


@functools.cache
def choice_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """The struct Choice and Warp functions of one precision. Places are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    hulls = hull_functions(scalar)
    angle = side_functions(scalar).angle

    @wp.struct
    class Drift:
        """How a body moves over the field in a whole step: the way of its centre, and its rotation vector.

        slop: overlap that is taken for none [m].
        """

        centre: vec3
        way: vec3
        turn: vec3
        slop: scalar

    @wp.struct
    class Choice:
        """The best place so far in one stage of the choice, beside those chosen before; ``feature`` is -1 for none.

        least: distance that no place may be below; slack: sine by which its normal may miss those of the surfaces that
        meet there. In the stage SOONEST ``chosen`` has the centre, way and turn of the drift, ``least`` its slop, and
        ``place`` is (distance, by how much that would shrink in a whole step, 0): a larger struct takes a third more time.
        """

        stage: int
        chosen: mat33
        score: scalar
        least: scalar
        slack: scalar
        feature: int
        place: vec3

    @wp.func
    def in_stage(stage: int, chosen: mat33, deepest: scalar, fast: bool):
        """The choice before any place is considered. deepest: least distance that the first stage found.

        fast: of a body that doesn't rest. Normals that miss those of the surfaces would hold up its motion along them.
        """
        choice = Choice()
        choice.stage = stage
        choice.chosen = chosen
        choice.feature = -1
        choice.least = scalar(-1.0e30)
        choice.slack = scalar(angle)
        if stage > 0:
            choice.least = deepest - scalar(TIE)
            if not fast:
                choice.slack = scalar(NEARLY_FLAT)
        return choice

    @wp.func
    def soonest(drift: Drift):
        """The choice of the place that touches first, before any place is considered."""
        choice = Choice()
        choice.stage = SOONEST
        choice.feature = -1
        choice.slack = scalar(angle)
        choice.chosen = wp.matrix_from_rows(drift.centre, drift.way, drift.turn)
        choice.least = drift.slop
        return choice

    @wp.func
    def with_sooner(choice: Choice, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a place if its distance is gone before that of the others at the present rate, or was so long before.

        What doesn't close by more than the slop is at rest there, or slides along.
        """
        slop = choice.least
        middle = surface + (scalar(0.5) * distance) * normal
        way = choice.chosen[1] + wp.cross(choice.chosen[2], middle - choice.chosen[0])
        closing = -wp.dot(normal, way)
        if closing > slop or distance < -slop:
            score = -distance / wp.max(closing, slop)
            if choice.feature < 0 or score > choice.score:
                choice.score = score
                choice.feature = feature
                choice.place = vec3(distance, closing, scalar(0.0))
        return choice

    @wp.func
    def consider(choice: Choice, reach: scalar, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a place if it is better than the best so far; of places that are equal up to rounding, the first stays.

        Two normals of one place, such as those of a corner in a groove, count as places apart.
        """
        if choice.stage == SOONEST:
            if distance < reach:
                choice = with_sooner(choice, feature, distance, surface, normal)
        elif distance < reach and distance >= choice.least:
            place = surface + scalar(NORMALS_APART) * normal
            score = -distance
            enough = choice.score + scalar(TIE)
            if choice.stage > 0:
                up = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
                if wp.static(ground == TRIANGLES):
                    up = normal
                share = scalar(1.0) + (distance - choice.least) / scalar(HALF_AS_GOOD)
                score = hulls.score(choice.stage, place, choice.chosen, up, scalar(0.0)) / share
                # Less far from those before is none but rounding; the last stage compares areas.
                least = scalar(TIE * TIE)
                if choice.stage == 3:
                    least = scalar(TIE) * wp.length(choice.chosen[1] - choice.chosen[0])
                enough = wp.max(scalar(1.001) * choice.score, least)
            if (choice.feature < 0 and choice.stage == 0) or score > enough:
                choice.score = score
                choice.feature = feature
                choice.place = place
        return choice

    @wp.func
    def with_lead(features: wp.vec4i, count: int, lead: int):
        """The first ``count`` features in ascending order; a lead that is not among them takes the place of the last."""
        lacking = lead >= 0
        for k in range(4):
            if features[k] == lead:
                lacking = False
        if lacking:
            features[wp.min(count, 3)] = lead
        return hulls.ascending(features)

    return SimpleNamespace(
        Drift=Drift, Choice=Choice, in_stage=in_stage, soonest=soonest, consider=consider, with_lead=with_lead
    )
