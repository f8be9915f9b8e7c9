"""Distances between geometries: the search for nearest features, which is not differentiated, and their formulas.

Distance, points and normal of the features found have Warp's own adjoint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.closed import closed_form_functions
from warp_kernels.collision.convex.contact import convex_contact_functions
from warp_kernels.collision.convex.detect import convex_detection_functions
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.collision.pairs import CLOSED_FORM, CONVEX_SHAPES, DISTANCE_FAMILIES, ON_PLANE
from warp_kernels.collision.plane.contact import plane_functions
from warp_kernels.collision.shapes.capsules import LOWER
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Numbers of a pair: distance, both points and normal; then, for the gradient, the feature, the vertices of either side
# and the normal that the search has found, see :mod:`warp_kernels.collision.convex.contact`.
RESULTS = 10
DISTANCE_NUMBERS = RESULTS + 10


@wp.struct
class DistancePairs:
    """Requested pairs of one family.

    Attributes:
        a: geometry of the lower type [pairs of the family].
        b: the other one.
        slot: index of each pair among all requested ones.
        swapped: 1 if b is the pair's first geometry.
    """

    a: wp.array(dtype=wp.int32)
    b: wp.array(dtype=wp.int32)
    slot: wp.array(dtype=wp.int32)
    swapped: wp.array(dtype=wp.int32)


@functools.cache
def distance_pose_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, quat, transform = t.vec3, t.quat, t.transform

    @wp.func
    def geometry_pose(
        geometry: int,
        link: int,
        geometry_placement: wp.array2d(dtype=transform),
        link_pose: wp.array3d(dtype=scalar),
        world: int,
    ):
        """Return the pose of a geometry in the world; the quaternion of its placement need not be of unit length."""
        placement = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), geometry]
        pose = transform(wp.transform_get_translation(placement), wp.normalize(wp.transform_get_rotation(placement)))
        if link >= 0:
            position = vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2])
            turn = quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            )
            pose = wp.transform_multiply(transform(position, turn), pose)
        return pose

    return SimpleNamespace(geometry_pose=geometry_pose)


VARIANTS = {
    name: [(family,) for family in DISTANCE_FAMILIES]
    for name in ("search_distance_kernels", "evaluate_distance_kernels")
}


@functools.cache
def search_distance_kernels(scalar: Any, family: str) -> SimpleNamespace:
    """Return the kernel ``search_pairs`` for one precision and family, launched over (world, pair of the family)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    poses = distance_pose_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    shapes, plane = shape_functions(scalar), plane_functions(scalar)
    # Only the functions that the family needs, as in collision/detect.py.
    nothing = SimpleNamespace()
    convex = convex_detection_functions(scalar) if family == CONVEX_SHAPES else nothing
    closed = closed_form_functions(scalar, family) if family == CLOSED_FORM else nothing
    module = kernel_module(f"distances.search_{family}", scalar)

    @wp.kernel(name=f"search_{family}", module=module, enable_backward=False)
    @used_arguments_only
    def search_pairs(
        # Model
        distance_pairs: DistancePairs,
        geometries: Geometries,
        packed: PackedShapes,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        max_distance: scalar,
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        # Data out
        found_feature: wp.array2d(dtype=wp.int32),
        found_codes_a: wp.array2d(dtype=wp.vec3i),
        found_codes_b: wp.array2d(dtype=wp.vec3i),
        found_witness: wp.array2d(dtype=vec3),
    ):
        """Find the feature of each pair with the smallest distance; -1 if that is not below ``max_distance``.

        On a plane the feature is found at any distance: its formula is cheap.
        """
        world, pair = wp.tid()
        a = distance_pairs.a[pair]
        b = distance_pairs.b[pair]
        slot = distance_pairs.slot[pair]
        row = wp.min(world, geometry_size.shape[0] - 1)
        size_a = geometry_size[row, a]
        size_b = geometry_size[row, b]
        pose_a = poses.geometry_pose(a, geometries.link[a], geometry_placement, link_pose, world)
        pose_b = poses.geometry_pose(b, geometries.link[b], geometry_placement, link_pose, world)
        if wp.static(family == ON_PLANE):
            shape = shapes.make_shape(geometries.type[b], size_b, packed.extent[b])
            down = wp.quat_rotate_inv(wp.transform_get_rotation(pose_b), -plane.plane_normal(pose_a))
            _lowest, code = shapes.core_support(shape, packed.vertices, down)
            # The ends of a capsule have the indices of its features, corners and vertices their own.
            found_feature[world, slot] = wp.where(geometries.type[b] == CAPSULE, LOWER + code, code)
        elif wp.static(family == CLOSED_FORM):
            features, nearest, _distance, _point, _normal = closed.contact_features(
                geometries, a, b, pose_a, size_a, pose_b, size_b, max_distance
            )
            found_feature[world, slot] = features[nearest]
        else:
            mode, codes_a, codes_b, witness = convex.nearest_feature(
                geometries, packed, a, b, pose_a, size_a, pose_b, size_b, max_distance
            )
            found_feature[world, slot] = mode
            found_codes_a[world, slot] = codes_a
            found_codes_b[world, slot] = codes_b
            found_witness[world, slot] = witness

    return SimpleNamespace(module=module, search_pairs=search_pairs)


@functools.cache
def evaluate_distance_kernels(scalar: Any, family: str) -> SimpleNamespace:
    """Return the kernel ``evaluate_pairs`` for one precision and family, launched over (world, pair of the family)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    poses = distance_pose_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    nothing = SimpleNamespace()
    convex = convex_contact_functions(scalar) if family == CONVEX_SHAPES else nothing
    closed = nothing if family == CONVEX_SHAPES else closed_form_functions(scalar, family)
    module = kernel_module(f"distances.evaluate_{family}", scalar, inlined=True)

    @wp.func
    def write_vec3(results: wp.array3d(dtype=scalar), world: int, slot: int, first: int, value: vec3):
        results[world, slot, first] = value[0]
        results[world, slot, first + 1] = value[1]
        results[world, slot, first + 2] = value[2]

    @wp.func
    def write_codes(results: wp.array3d(dtype=scalar), world: int, slot: int, first: int, codes: wp.vec3i):
        results[world, slot, first] = scalar(codes[0])
        results[world, slot, first + 1] = scalar(codes[1])
        results[world, slot, first + 2] = scalar(codes[2])

    @wp.kernel(name=f"evaluate_{family}", module=module)
    @used_arguments_only
    def evaluate_pairs(
        # Model
        distance_pairs: DistancePairs,
        geometries: Geometries,
        packed: PackedShapes,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        max_distance: scalar,
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        found_feature: wp.array2d(dtype=wp.int32),
        found_codes_a: wp.array2d(dtype=wp.vec3i),
        found_codes_b: wp.array2d(dtype=wp.vec3i),
        found_witness: wp.array2d(dtype=vec3),
        # Data out
        measured: wp.array3d(dtype=scalar),
    ):
        """Compute all numbers of a pair, see :data:`warp_kernels.distances.DISTANCE_NUMBERS`."""
        world, pair = wp.tid()
        slot = distance_pairs.slot[pair]
        feature = found_feature[world, slot]
        distance = max_distance
        point = vec3()
        normal = vec3()
        if feature >= 0:
            a = distance_pairs.a[pair]
            b = distance_pairs.b[pair]
            row = wp.min(world, geometry_size.shape[0] - 1)
            size_a = geometry_size[row, a]
            size_b = geometry_size[row, b]
            pose_a = poses.geometry_pose(a, geometries.link[a], geometry_placement, link_pose, world)
            pose_b = poses.geometry_pose(b, geometries.link[b], geometry_placement, link_pose, world)
            if wp.static(family == CONVEX_SHAPES):
                distance, point, normal = convex.convex_contact(
                    geometries, packed, a, b, feature, pose_a, size_a, pose_b, size_b, found_codes_a[world, slot],
                    found_codes_b[world, slot], found_witness[world, slot],
                )  # fmt: skip
            else:
                distance, point, normal = closed.closed_contact(
                    geometries, a, b, feature, pose_a, size_a, pose_b, size_b
                )
        if distance >= max_distance:
            measured[world, slot, 0] = max_distance
        else:
            if distance_pairs.swapped[pair] == 1:
                normal = -normal
            half_gap = (scalar(0.5) * distance) * normal
            measured[world, slot, 0] = distance
            write_vec3(measured, world, slot, 1, point - half_gap)
            write_vec3(measured, world, slot, 4, point + half_gap)
            write_vec3(measured, world, slot, 7, normal)
        measured[world, slot, RESULTS] = scalar(feature)
        if wp.static(family == CONVEX_SHAPES):
            write_codes(measured, world, slot, RESULTS + 1, found_codes_a[world, slot])
            write_codes(measured, world, slot, RESULTS + 4, found_codes_b[world, slot])
            write_vec3(measured, world, slot, RESULTS + 7, found_witness[world, slot])

    return SimpleNamespace(module=module, evaluate_pairs=evaluate_pairs)


@functools.cache
def found_distance_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel ``read_found_pairs`` for one precision, launched over (world, pair)."""
    vec3 = warp_types(scalar).vec3
    module = kernel_module("distances.found", scalar)

    @wp.func
    def read_codes(measured: wp.array3d(dtype=scalar), world: int, slot: int, first: int):
        return wp.vec3i(
            int(measured[world, slot, first]),
            int(measured[world, slot, first + 1]),
            int(measured[world, slot, first + 2]),
        )

    @wp.kernel(module=module, enable_backward=False)
    def read_found_pairs(
        # Data in
        measured: wp.array3d(dtype=scalar),
        # Data out
        found_feature: wp.array2d(dtype=wp.int32),
        found_codes_a: wp.array2d(dtype=wp.vec3i),
        found_codes_b: wp.array2d(dtype=wp.vec3i),
        found_witness: wp.array2d(dtype=vec3),
    ):
        """Read the results of the search out of the numbers of each pair."""
        world, slot = wp.tid()
        found_feature[world, slot] = int(measured[world, slot, RESULTS])
        found_codes_a[world, slot] = read_codes(measured, world, slot, RESULTS + 1)
        found_codes_b[world, slot] = read_codes(measured, world, slot, RESULTS + 4)
        found_witness[world, slot] = vec3(
            measured[world, slot, RESULTS + 7],
            measured[world, slot, RESULTS + 8],
            measured[world, slot, RESULTS + 9],
        )

    return SimpleNamespace(module=module, read_found_pairs=read_found_pairs)
