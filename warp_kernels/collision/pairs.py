"""The pairs of geometry types that can touch: which features each may have, and the contact of one feature.

A new pair gets an entry in :data:`MAX_CONTACTS` and a branch in each of the two functions below.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.plane import plane_functions
from warp_kernels.types import CONVEX, PLANE, SPHERE, warp_types

# The most contacts that a pair of types (first <= second) can have at once.
MAX_CONTACTS = {
    (PLANE, SPHERE): 1,
}

NUM_TYPES = CONVEX + 1
PLANE_SPHERE = PLANE * NUM_TYPES + SPHERE


@functools.cache
def pair_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision.

    ``kind`` is type_a * NUM_TYPES + type_b; ``hull`` the packed vertices of all hulls, of which b owns those from
    ``start`` to before ``end``. Poses are relative to the reference of the pair.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    plane = plane_functions(scalar)

    @wp.func
    def candidate_features(
        kind: int,
        pose_a: transform,
        size_a: vec3,
        pose_b: transform,
        size_b: vec3,
        hull: wp.array(dtype=vec3),
        start: int,
        end: int,
        margin: scalar,
    ):
        """Up to four features of a pair that may be within the margin, in ascending order; -1 fills the rest."""
        return wp.vec4i(0, -1, -1, -1)

    @wp.func
    def feature_contact(
        kind: int,
        feature: int,
        pose_a: transform,
        size_a: vec3,
        pose_b: transform,
        size_b: vec3,
        hull: wp.array(dtype=vec3),
        start: int,
    ):
        """Distance, point and normal (from a to b) of one feature of a pair; smooth as long as the feature stays."""
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if kind == wp.static(PLANE_SPHERE):
            distance, point, normal = plane.plane_ball(pose_a, wp.transform_get_translation(pose_b), size_b[0])
        return distance, point, normal

    return SimpleNamespace(candidate_features=candidate_features, feature_contact=feature_contact)
