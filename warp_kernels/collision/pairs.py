"""The pairs of geometry types that can touch: which features each may have, and the contact of one feature.

A feature is what touches what (which corner, which end, which face); as long as it stays the same the contact is a
smooth function of poses and sizes. A new pair with a closed form gets an entry in :data:`CLOSED_PAIRS` and a branch in
each of the two functions below; a convex one an entry in :data:`CONVEX_PAIRS`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.balls import ball_functions
from warp_kernels.collision.boxes import box_functions
from warp_kernels.collision.capsules import LOWER, UPPER, capsule_functions
from warp_kernels.collision.cylinders import cylinder_functions
from warp_kernels.collision.ellipsoids import ellipsoid_functions
from warp_kernels.collision.hulls import hull_functions
from warp_kernels.collision.plane import plane_functions
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, PLANE, SPHERE, warp_types

# Families of pairs, in the order in which their kernels run: closed forms below; by support functions
# (warp_kernels/collision/convex); round bodies, and bodies of vertices, edges and faces, on heightfields
# (warp_kernels/collision/field).
CLOSED_FORM = "closed_form"
CONVEX_SHAPES = "convex_shapes"
ROUND_ON_FIELD = "round_on_field"
HULL_ON_FIELD = "hull_on_field"
FAMILIES = (CLOSED_FORM, CONVEX_SHAPES, ROUND_ON_FIELD, HULL_ON_FIELD)

# The family of each pair of types (first <= second) that can touch, and the most contacts that it can have at once.
COLLISION_PAIRS = {
    (PLANE, SPHERE): (CLOSED_FORM, 1),
    (PLANE, CAPSULE): (CLOSED_FORM, 2),
    (PLANE, BOX): (CLOSED_FORM, 4),
    (PLANE, CONVEX): (CLOSED_FORM, 4),
    (PLANE, CYLINDER): (CLOSED_FORM, 4),
    (PLANE, ELLIPSOID): (CLOSED_FORM, 1),
    (SPHERE, SPHERE): (CLOSED_FORM, 1),
    (SPHERE, CAPSULE): (CLOSED_FORM, 1),
    (SPHERE, BOX): (CLOSED_FORM, 1),
    (SPHERE, CONVEX): (CONVEX_SHAPES, 1),
    (SPHERE, CYLINDER): (CONVEX_SHAPES, 1),
    (SPHERE, ELLIPSOID): (CLOSED_FORM, 1),
    (SPHERE, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (CAPSULE, CAPSULE): (CLOSED_FORM, 2),
    (CAPSULE, BOX): (CONVEX_SHAPES, 4),
    (CAPSULE, CONVEX): (CONVEX_SHAPES, 4),
    (CAPSULE, CYLINDER): (CONVEX_SHAPES, 4),
    (CAPSULE, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CAPSULE, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (BOX, BOX): (CONVEX_SHAPES, 4),
    (BOX, CONVEX): (CONVEX_SHAPES, 4),
    (BOX, CYLINDER): (CONVEX_SHAPES, 4),
    (BOX, ELLIPSOID): (CONVEX_SHAPES, 1),
    (BOX, HEIGHTFIELD): (HULL_ON_FIELD, 4),
    (CONVEX, CONVEX): (CONVEX_SHAPES, 4),
    (CONVEX, CYLINDER): (CONVEX_SHAPES, 4),
    (CONVEX, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CONVEX, HEIGHTFIELD): (HULL_ON_FIELD, 4),
    (CYLINDER, CYLINDER): (CONVEX_SHAPES, 4),
    (CYLINDER, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CYLINDER, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (ELLIPSOID, ELLIPSOID): (CONVEX_SHAPES, 1),
    (ELLIPSOID, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
}

NUM_TYPES = ELLIPSOID + 1


def pair_kind(type_a: int, type_b: int) -> int:
    """One number for a pair of types."""
    return type_a * NUM_TYPES + type_b


@functools.cache
def pair_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision.

    ``kind`` is that of :func:`pair_kind`; ``hull`` holds the packed vertices of all hulls, of which b owns those from
    ``start`` to before ``end``; ``vertex`` is the one of the feature. Poses are relative to the reference of the pair.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    balls = ball_functions(scalar)
    boxes = box_functions(scalar)
    capsules = capsule_functions(scalar)
    cylinders = cylinder_functions(scalar)
    ellipsoids = ellipsoid_functions(scalar)
    hulls = hull_functions(scalar)
    plane = plane_functions(scalar)

    @wp.func
    def bounding_radius(type: int, size: vec3):
        """Radius of a ball about the origin that holds a geometry; negative where none is known."""
        radius = scalar(-1.0)
        if type == SPHERE:
            radius = size[0]
        elif type == CAPSULE:
            radius = size[0] + size[1]
        elif type == BOX:
            radius = wp.length(size)
        elif type == CYLINDER:
            radius = wp.length(vec3(size[0], size[1], scalar(0.0)))
        elif type == ELLIPSOID:
            radius = wp.max(size[0], wp.max(size[1], size[2]))
        return radius

    @wp.func
    def far_apart(radius_a: scalar, radius_b: scalar, delta: vec3, margin: scalar):
        """Whether two balls, ``delta`` between their centres, are further apart than the margin; not where a radius is
        negative.
        """
        reach = radius_a + radius_b + margin
        return radius_a >= scalar(0.0) and radius_b >= scalar(0.0) and wp.length_sq(delta) > reach * reach

    @wp.func
    def hull_features(
        pose_a: transform,
        pose_b: transform,
        scale: vec3,
        hull: wp.array(dtype=vec3),
        start: int,
        end: int,
        margin: scalar,
    ):
        normal = plane.plane_normal(pose_a)
        height = wp.dot(normal, wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a))
        local = wp.quat_rotate_inv(wp.transform_get_rotation(pose_b), normal)
        return hulls.lowest_vertices(hull, start, end, scale, local, height, margin)

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
        """Up to four features of a pair that may be within the margin, in ascending order; -1 stands for none."""
        features = wp.vec4i(0, -1, -1, -1)
        if kind == wp.static(pair_kind(PLANE, CAPSULE)):
            features = wp.vec4i(LOWER, UPPER, -1, -1)
        elif kind == wp.static(pair_kind(PLANE, BOX)):
            features = boxes.face_corners(pose_b, plane.plane_normal(pose_a))
        elif kind == wp.static(pair_kind(PLANE, CONVEX)):
            features = hull_features(pose_a, pose_b, size_b, hull, start, end, margin)
        elif kind == wp.static(pair_kind(PLANE, CYLINDER)):
            features = cylinders.rim_features(pose_b, plane.plane_normal(pose_a))
        elif kind == wp.static(pair_kind(SPHERE, CAPSULE)):
            features = wp.vec4i(capsules.sphere_capsule_feature(pose_a, pose_b, size_b), -1, -1, -1)
        elif kind == wp.static(pair_kind(SPHERE, BOX)):
            features = wp.vec4i(boxes.sphere_box_feature(pose_a, pose_b, size_b), -1, -1, -1)
        elif kind == wp.static(pair_kind(CAPSULE, CAPSULE)):
            both = capsules.capsule_capsule_features(pose_a, size_a, pose_b, size_b)
            features = wp.vec4i(both[0], both[1], -1, -1)
        return features

    @wp.func
    def pair_contact(
        kind: int, feature: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
        hull: wp.array(dtype=vec3), start: int,
    ):  # fmt: skip
        """Distance, point midway between the surfaces and normal (from a to b) of one feature of a pair."""
        centre_a = wp.transform_get_translation(pose_a)
        centre_b = wp.transform_get_translation(pose_b)
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if kind == wp.static(pair_kind(PLANE, SPHERE)):
            distance, point, normal = plane.plane_ball(pose_a, centre_b, size_b[0])
        elif kind == wp.static(pair_kind(PLANE, CAPSULE)):
            end = capsules.end_centre(pose_b, size_b[1], feature)
            distance, point, normal = plane.plane_ball(pose_a, end, size_b[0])
        elif kind == wp.static(pair_kind(PLANE, BOX)):
            corner = boxes.corner(pose_b, size_b, feature)
            distance, point, normal = plane.plane_ball(pose_a, corner, scalar(0.0))
        elif kind == wp.static(pair_kind(PLANE, CONVEX)):
            corner = wp.transform_point(pose_b, wp.cw_mul(hull[start + feature], size_b))
            distance, point, normal = plane.plane_ball(pose_a, corner, scalar(0.0))
        elif kind == wp.static(pair_kind(PLANE, CYLINDER)):
            rim = cylinders.rim_point(feature, pose_b, size_b, plane.plane_normal(pose_a))
            distance, point, normal = plane.plane_ball(pose_a, rim, scalar(0.0))
        elif kind == wp.static(pair_kind(PLANE, ELLIPSOID)):
            lowest = ellipsoids.lowest_point(pose_b, size_b, plane.plane_normal(pose_a))
            distance, point, normal = plane.plane_ball(pose_a, lowest, scalar(0.0))
        elif kind == wp.static(pair_kind(SPHERE, SPHERE)):
            distance, point, normal = balls.ball_ball(centre_a, size_a[0], centre_b, size_b[0])
        elif kind == wp.static(pair_kind(SPHERE, CAPSULE)):
            distance, point, normal = capsules.sphere_capsule(feature, pose_a, size_a, pose_b, size_b)
        elif kind == wp.static(pair_kind(SPHERE, BOX)):
            distance, point, normal = boxes.sphere_box(feature, pose_a, size_a, pose_b, size_b)
        elif kind == wp.static(pair_kind(SPHERE, ELLIPSOID)):
            distance, point, normal = ellipsoids.sphere_ellipsoid(pose_a, size_a[0], pose_b, size_b)
        elif kind == wp.static(pair_kind(CAPSULE, CAPSULE)):
            distance, point, normal = capsules.capsule_capsule(feature, pose_a, size_a, pose_b, size_b)
        return distance, point, normal

    return SimpleNamespace(
        bounding_radius=bounding_radius,
        far_apart=far_apart,
        candidate_features=candidate_features,
        pair_contact=pair_contact,
    )
