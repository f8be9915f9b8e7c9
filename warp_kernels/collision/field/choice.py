"""Selection of a few of many candidates: the deepest, then those that span most area, one stage after the other.

A body at rest has several contacts. At each of them, the surfaces are no longer nearest to each other as soon as the
body tilts away by rounding. So only the deepest candidate has to be an exact local minimum of the distance. The others
may nearly be one: their contacts are separated then, and become active when the body tilts back.

Another stage precedes these for a moving body: the candidate that touches first, see
:mod:`warp_kernels.collision.field.touch`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.ground.sides import side_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.shapes.hulls import hull_functions
from warp_kernels.types import warp_types

# Distance that perpendicular normals of one point count as when candidates are spread [m], over the root of two.
NORMALS_APART = 0.01

# Stage that searches for the candidate that touches first.
SOONEST = -1

# Depths that differ by less are equal, and so are points [m].
TIE = 1.0e-6

# A candidate this much farther than the deepest counts half [m], so that of more than four near ones the touching ones
# come first.
HALF_AS_GOOD = 3.0e-4

# Sine by which the normals of candidates other than the deepest may be outside of those of the surfaces that meet
# there.
NEARLY_FLAT = 0.05


@functools.cache
def choice_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the struct Choice and Warp functions for one precision. Points are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    hulls = hull_functions(scalar)
    angle = side_functions(scalar).angle

    @wp.struct
    class Drift:
        """Motion of a body over the field in a whole step: displacement of its centre, and rotation vector.

        slop: negligible penetration [m].
        """

        centre: vec3
        displacement: vec3
        turn: vec3
        slop: scalar

    @wp.struct
    class Choice:
        """Best candidate so far in one stage of the choice, and those chosen before; ``feature`` is -1 for none.

        least: lower bound on the distance of candidates; slack: sine by which a normal may be outside of those of the
        surfaces that meet there. In the stage SOONEST ``chosen`` has the centre, displacement and turn of the drift,
        ``least`` its slop, and ``point`` is (distance, its decrease in a whole step, 0): a larger struct takes a third
        more time.
        """

        stage: int
        chosen: mat33
        score: scalar
        least: scalar
        slack: scalar
        feature: int
        point: vec3

    @wp.func
    def in_stage(stage: int, chosen: mat33, deepest: scalar, fast: bool):
        """Return the choice before any candidate is considered. deepest: least distance that the first stage found.

        fast: of a moving body. Normals outside of those of the surfaces would obstruct its motion along them.
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
        """Return the choice of the candidate that touches first, before any is considered."""
        choice = Choice()
        choice.stage = SOONEST
        choice.feature = -1
        choice.slack = scalar(angle)
        choice.chosen = wp.matrix_from_rows(drift.centre, drift.displacement, drift.turn)
        choice.least = drift.slop
        return choice

    @wp.func
    def with_sooner(choice: Choice, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a candidate if its distance reaches zero before that of the others at the present rate, or did so long
        before.

        A candidate that doesn't close by more than the slop is at rest, or slides.
        """
        slop = choice.least
        middle = surface + (scalar(0.5) * distance) * normal
        displacement = choice.chosen[1] + wp.cross(choice.chosen[2], middle - choice.chosen[0])
        closing = -wp.dot(normal, displacement)
        if closing > slop or distance < -slop:
            score = -distance / wp.max(closing, slop)
            if choice.feature < 0 or score > choice.score:
                choice.score = score
                choice.feature = feature
                choice.point = vec3(distance, closing, scalar(0.0))
        return choice

    @wp.func
    def consider(choice: Choice, cutoff: scalar, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a candidate if it is better than the best so far; of those equal up to rounding, the first stays.

        Two normals of one point, such as those of a corner in a groove, count as separate candidates.
        """
        if choice.stage == SOONEST:
            if distance < cutoff:
                choice = with_sooner(choice, feature, distance, surface, normal)
        elif distance < cutoff and distance >= choice.least:
            point = surface + scalar(NORMALS_APART) * normal
            score = -distance
            enough = choice.score + scalar(TIE)
            if choice.stage > 0:
                up = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
                if wp.static(ground == TRIANGLES):
                    up = normal
                share = scalar(1.0) + (distance - choice.least) / scalar(HALF_AS_GOOD)
                score = hulls.score(choice.stage, point, choice.chosen, up, scalar(0.0)) / share
                # A smaller distance from those before counts as zero up to rounding; the last stage compares areas.
                least = scalar(TIE * TIE)
                if choice.stage == 3:
                    least = scalar(TIE) * wp.length(choice.chosen[1] - choice.chosen[0])
                enough = wp.max(scalar(1.001) * choice.score, least)
            if (choice.feature < 0 and choice.stage == 0) or score > enough:
                choice.score = score
                choice.feature = feature
                choice.point = point
        return choice

    @wp.func
    def with_lead(features: wp.vec4i, count: int, lead: int):
        """Sort the first ``count`` features in ascending order; a lead that is not among them replaces the last."""
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
