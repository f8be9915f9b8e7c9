"""Candidate contacts of a round body with a heightfield, and the selection of up to four."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.capsules import field_ball_functions, segment_functions
from warp_kernels.collision.field.choice import TIE, choice_functions
from warp_kernels.collision.field.contact import PARTS, field_contact_functions
from warp_kernels.collision.field.cylinders import field_cylinder_functions
from warp_kernels.collision.field.ellipsoids import field_ellipsoid_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID, warp_types


@functools.cache
def candidate_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    mat33, transform, vec3 = t.mat33, t.transform, t.vec3
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    bodies = body_functions(scalar)
    contacts = field_contact_functions(scalar, ground)
    balls = field_ball_functions(scalar, ground)
    segments = segment_functions(scalar, ground)
    cylinders = field_cylinder_functions(scalar, ground)
    ellipsoids = field_ellipsoid_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    surface = surface_functions(scalar, ground)
    Data, Field = surface.Data, surface.Field
    Body, Choice, Drift = bodies.Body, choices.Choice, choices.Drift

    @wp.func
    def best_point(choice: Choice, data: Data, field: Field, body: Body):
        """Return the best of all candidates of a body in one stage."""
        if body.type == CAPSULE:
            for end in range(2):
                choice = balls.with_ball(choice, data, field, body, end, contacts.end_of(end, body.pose, body.size))
            choice = segments.with_capsule_segment(choice, data, field, body)
            if wp.static(ground == TRIANGLES):
                if choice.stage == 0 and (choice.feature < 0 or choice.score < -scalar(TIE)):
                    choice = segments.with_pierced(choice, data, field, body)
        elif body.type == CYLINDER:
            choice = cylinders.with_cylinder(choice, data, field, body)
        elif body.type == ELLIPSOID:
            choice = ellipsoids.with_ellipsoid(choice, data, field, body)
        else:
            choice = balls.with_ball(choice, data, field, body, 0, wp.transform_get_translation(body.pose))
        return choice

    @wp.func
    def soonest(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Data, world: int, cutoff: scalar, drift: Drift,
    ):  # fmt: skip
        """Return the feature within the cutoff that touches first, -1 for none, its distance, and the decrease of that in a
        step.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        body = bodies.make_body(geometries.type[a], local, size_a, cutoff)
        choice = best_point(choices.soonest(drift), data, surface.field_of(geometries, b, size_b, data, world), body)
        return choice.feature, choice.point[0], choice.point[1]

    @wp.func
    def features(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3,
        data: Data, world: int, cutoff: scalar, lead: int,
        fast: bool,
    ):  # fmt: skip
        """Return up to four features within the cutoff in ascending order, with -1 for missing ones, and the least distance.

        The deepest, then those that span most area, seen from above. lead: a feature that is always one of them, or -1.
        fast: whether the body moves fast, see :mod:`warp_kernels.collision.field.choice`.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        body = bodies.make_body(geometries.type[a], local, size_a, cutoff)
        field = surface.field_of(geometries, b, size_b, data, world)
        found = wp.vec4i(-1, -1, -1, -1)
        chosen = mat33()
        deepest = scalar(0.0)
        for stage in range(4):
            choice = best_point(choices.in_stage(stage, chosen, deepest, fast), data, field, body)
            if choice.feature < 0:
                return choices.with_lead(found, stage, lead), deepest
            found[stage] = choice.feature
            if stage == 0:
                deepest = -choice.score
            if stage < 3:
                chosen[stage] = choice.point
        return choices.with_lead(found, 4, lead), deepest

    @wp.func
    def element_of(packed: PackedShapes, a: int, field: Field, feature: int):
        """Return the element of a feature."""
        return feature // PARTS

    return SimpleNamespace(Data=Data, Drift=Drift, soonest=soonest, features=features, element_of=element_of)
