"""Pairs of geometries with a closed form: possible features of each, and the contact of one feature.

A feature selects the touching parts (corner, end, face). As long as it stays the same the contact is a smooth function
of poses and sizes.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.pairs import BALLS, CAPSULE_BOX, ON_PLANE
from warp_kernels.collision.plane.contact import plane_functions
from warp_kernels.collision.shapes.boxes import box_functions
from warp_kernels.collision.shapes.capsule_box import capsule_box_functions
from warp_kernels.collision.shapes.capsules import LOWER, UPPER, ball_functions, capsule_functions
from warp_kernels.collision.shapes.cylinders import cylinder_functions
from warp_kernels.collision.shapes.ellipsoids import ellipsoid_functions
from warp_kernels.collision.shapes.hulls import hull_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, NUM_GEOMETRY_TYPES, PLANE, SPHERE, warp_types


def pair_kind(type_a: int, type_b: int) -> int:
    """Return one number for a pair of types."""
    return type_a * NUM_GEOMETRY_TYPES + type_b


@functools.cache
def closed_form_functions(scalar: Any, kernels: str) -> SimpleNamespace:
    """Return the Warp functions for one precision, for ON_PLANE, CLOSED_FORM, BALLS or CAPSULE_BOX. Poses are relative to the
    reference of the pair.

    The pairs are branches and no loop over a table of functions, which makes the adjoint of ``evaluate`` 1.2x slower.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    Geometries = collision_structs(scalar).Geometries
    balls = ball_functions(scalar)
    boxes = box_functions(scalar)
    capsules = capsule_functions(scalar)
    nothing = SimpleNamespace()
    cylinders = nothing if kernels in (ON_PLANE, BALLS) else cylinder_functions(scalar)
    ellipsoids = nothing if kernels in (ON_PLANE, BALLS) else ellipsoid_functions(scalar)
    hulls = hull_functions(scalar)
    plane = plane_functions(scalar)

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
    def ball_radius(kind: int, size: vec3):
        """Return the radius of the part that touches a plane: of a ball, or zero for a point."""
        if kind == SPHERE or kind == CAPSULE:
            return size[0]
        return scalar(0.0)

    @wp.func
    def point_slope(geometries: Geometries, b: int, feature: int):
        """Return the position of a feature's ball or point in its geometry's frame, per size along each axis: half its
        length for a capsule.
        """
        kind = geometries.type[b]
        point = vec3()
        if kind == CAPSULE:
            point = vec3(scalar(0.0), scalar(0.0), capsules.end_coordinate(feature, scalar(1.0)))
        elif kind == BOX:
            point = boxes.corner_signs(feature)
        elif kind == CONVEX:
            point = geometries.hull_vertices[geometries.vertex_start[b] + feature]
        return point

    if kernels == ON_PLANE:

        @wp.func
        def closed_features(
            geometries: Geometries, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
            margin: scalar,
        ):  # fmt: skip
            """Return up to four features of a pair that may be within the margin, in ascending order; -1 for none."""
            kind = geometries.type[b]
            features = wp.vec4i(0, -1, -1, -1)
            if kind == CAPSULE:
                features = wp.vec4i(LOWER, UPPER, -1, -1)
            elif kind == BOX:
                features = boxes.face_corners(pose_b, plane.plane_normal(pose_a))
            elif kind == CONVEX:
                start = geometries.vertex_start[b]
                end = geometries.vertex_start[b + 1]
                features = hull_features(pose_a, pose_b, size_b, geometries.hull_vertices, start, end, margin)
            return features

        @wp.func
        def closed_contact(
            geometries: Geometries, a: int, b: int, feature: int, pose_a: transform, size_a: vec3, pose_b: transform,
            size_b: vec3,
        ):  # fmt: skip
            """Return the distance, the point midway between the surfaces and the normal (from a to b) of one feature of
            a pair.
            """
            centre = wp.transform_get_translation(pose_b)
            if geometries.type[b] != SPHERE:
                extent = size_b
                if geometries.type[b] == CAPSULE:
                    extent = vec3(scalar(0.0), scalar(0.0), size_b[1])
                centre = wp.transform_point(pose_b, wp.cw_mul(point_slope(geometries, b, feature), extent))
            return plane.plane_ball(pose_a, centre, ball_radius(geometries.type[b], size_b))

    elif kernels == CAPSULE_BOX:
        on_box = capsule_box_functions(scalar)

        @wp.func
        def closed_features(
            geometries: Geometries, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
            margin: scalar,
        ):  # fmt: skip
            """Return the features of a capsule and a box, -1 for none."""
            return on_box.capsule_box_features(pose_a, size_a, pose_b, size_b)

        @wp.func
        def closed_contact(
            geometries: Geometries, a: int, b: int, feature: int, pose_a: transform, size_a: vec3, pose_b: transform,
            size_b: vec3,
        ):  # fmt: skip
            """Return the distance, the point midway between the surfaces and the normal (from a to b) of one feature."""
            return on_box.capsule_box(feature, pose_a, size_a, pose_b, size_b)

    else:

        @wp.func
        def closed_features(
            geometries: Geometries, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
            margin: scalar,
        ):  # fmt: skip
            """Return up to four features of a pair that may be within the margin, in ascending order; -1 for none."""
            kind = geometries.type[a] * NUM_GEOMETRY_TYPES + geometries.type[b]
            features = wp.vec4i(0, -1, -1, -1)
            if kind == wp.static(pair_kind(SPHERE, CAPSULE)):
                features = wp.vec4i(capsules.sphere_capsule_feature(pose_a, pose_b, size_b), -1, -1, -1)
            elif kind == wp.static(pair_kind(SPHERE, BOX)):
                features = wp.vec4i(boxes.sphere_box_feature(pose_a, pose_b, size_b), -1, -1, -1)
            elif wp.static(kernels != BALLS):
                if kind == wp.static(pair_kind(PLANE, CYLINDER)):
                    features = cylinders.rim_features(pose_b, plane.plane_normal(pose_a))
                elif kind == wp.static(pair_kind(CAPSULE, CAPSULE)):
                    both = capsules.capsule_capsule_features(pose_a, size_a, pose_b, size_b, geometries.parallel)
                    features = wp.vec4i(both[0], both[1], -1, -1)
            return features

        @wp.func
        def closed_contact(
            geometries: Geometries, a: int, b: int, feature: int, pose_a: transform, size_a: vec3, pose_b: transform,
            size_b: vec3,
        ):  # fmt: skip
            """Return the distance, the point midway between the surfaces and the normal (from a to b) of one feature of
            a pair.
            """
            kind = geometries.type[a] * NUM_GEOMETRY_TYPES + geometries.type[b]
            centre_a = wp.transform_get_translation(pose_a)
            centre_b = wp.transform_get_translation(pose_b)
            distance = scalar(0.0)
            point = vec3()
            normal = vec3()
            if kind == wp.static(pair_kind(SPHERE, SPHERE)):
                distance, point, normal = balls.ball_ball(centre_a, size_a[0], centre_b, size_b[0])
            elif kind == wp.static(pair_kind(SPHERE, CAPSULE)):
                distance, point, normal = capsules.sphere_capsule(feature, pose_a, size_a, pose_b, size_b)
            elif kind == wp.static(pair_kind(SPHERE, BOX)):
                distance, point, normal = boxes.sphere_box(feature, pose_a, size_a, pose_b, size_b)
            elif wp.static(kernels != BALLS):
                if kind == wp.static(pair_kind(PLANE, CYLINDER)):
                    rim = cylinders.rim_point(feature, pose_b, size_b, plane.plane_normal(pose_a))
                    distance, point, normal = plane.plane_ball(pose_a, rim, scalar(0.0))
                elif kind == wp.static(pair_kind(PLANE, ELLIPSOID)):
                    lowest = ellipsoids.lowest_point(pose_b, size_b, plane.plane_normal(pose_a))
                    distance, point, normal = plane.plane_ball(pose_a, lowest, scalar(0.0))
                elif kind == wp.static(pair_kind(SPHERE, ELLIPSOID)):
                    distance, point, normal = ellipsoids.sphere_ellipsoid(pose_a, size_a[0], pose_b, size_b)
                elif kind == wp.static(pair_kind(CAPSULE, CAPSULE)):
                    distance, point, normal = capsules.capsule_capsule(feature, pose_a, size_a, pose_b, size_b)
            return distance, point, normal

    @wp.func
    def within_cutoff(
        geometries: Geometries, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
        cutoff: scalar, candidates: wp.vec4i,
    ):  # fmt: skip
        """Return the candidates within the cutoff, -1 for the others; the index of the nearest among them, and its contact."""
        features = candidates
        nearest = wp.int32(0)
        distance = cutoff
        point = vec3()
        normal = vec3()
        k = wp.int32(0)
        while k < 4:
            if features[k] >= 0:
                gap, contact_point, direction = closed_contact(
                    geometries, a, b, features[k], pose_a, size_a, pose_b, size_b
                )
                if gap < distance:
                    nearest = k
                    distance = gap
                    point = contact_point
                    normal = direction
                elif not gap < cutoff:
                    features[k] = -1
            k += 1
        return features, nearest, distance, point, normal

    @wp.func
    def contact_features(
        geometries: Geometries, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
        cutoff: scalar,
    ):  # fmt: skip
        """Return :func:`within_cutoff` of the features of a pair."""
        features = closed_features(geometries, a, b, pose_a, size_a, pose_b, size_b, cutoff)
        return within_cutoff(geometries, a, b, pose_a, size_a, pose_b, size_b, cutoff, features)

    return SimpleNamespace(
        closed_features=closed_features,
        within_cutoff=within_cutoff,
        contact_features=contact_features,
        closed_contact=closed_contact,
        ball_radius=ball_radius,
        point_slope=point_slope,
    )
