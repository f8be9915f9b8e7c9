"""Few of many places: the deepest, then those that span most area, one stage after the other."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.hulls import hull_functions
from warp_kernels.types import warp_types

# Distance for which perpendicular normals of one place stand when places are spread [m], over the root of two.
NORMALS_APART = 0.01


@functools.cache
def choice_functions(scalar: Any) -> SimpleNamespace:
    """The struct Choice and Warp functions of one precision. Places are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    hulls = hull_functions(scalar)

    @wp.struct
    class Choice:
        """The best place so far in one stage of the choice, of those chosen before; ``feature`` is -1 for none."""

        stage: int
        chosen: mat33
        score: scalar
        feature: int
        place: vec3

    @wp.func
    def in_stage(stage: int, chosen: mat33):
        choice = Choice()
        choice.stage = stage
        choice.chosen = chosen
        choice.feature = -1
        return choice

    @wp.func
    def consider(choice: Choice, reach: scalar, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a place if it is better; the first of those that are equal but for rounding.

        Two normals of one place, such as those of a corner in a groove, count as places apart.
        """
        if distance < reach:
            place = surface + scalar(NORMALS_APART) * normal
            score = -distance
            enough = choice.score + scalar(1.0e-6)
            if choice.stage > 0:
                up = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
                # What is apart counts the less the farther it is, or it would stand in for what bears the body.
                share = wp.min(scalar(1.0) - distance / reach, scalar(1.0))
                share = share * share
                score = share * share * hulls.score(choice.stage, place, choice.chosen, up, scalar(0.0))
                enough = wp.max(scalar(1.001) * choice.score, scalar(1.0e-12))
            if (choice.feature < 0 and choice.stage == 0) or score > enough:
                choice.score = score
                choice.feature = feature
                choice.place = place
        return choice

    return SimpleNamespace(Choice=Choice, in_stage=in_stage, consider=consider, ascending=hulls.ascending)
