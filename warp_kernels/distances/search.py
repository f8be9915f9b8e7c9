"""The search for the features with which two geometries are nearest. Nothing here is differentiated."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.capsules import LOWER
from warp_kernels.collision.closed import closed_form_functions
from warp_kernels.collision.convex.detect import convex_detection_functions
from warp_kernels.collision.convex.shapes import shape_functions
from warp_kernels.collision.pairs import CLOSED_FORM, CONVEX_SHAPES, DISTANCE_FAMILIES, ON_PLANE
from warp_kernels.collision.plane.contact import plane_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.distances.structs import DistancePairs, distance_pose_functions
from warp_kernels.types import CAPSULE, kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

VARIANTS = {"search_distance_kernels": [(family,) for family in DISTANCE_FAMILIES]}


@functools.cache
def search_distance_kernels(scalar: Any, family: str) -> SimpleNamespace:
    """Kernel ``search_pairs`` of one precision and family, launched over (world, pair of the family)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    poses = distance_pose_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    shapes, plane = shape_functions(scalar), plane_functions(scalar)
    # Only what the family needs, as in collision/detect.py.
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
        """The feature of each pair with the smallest distance; -1 where that is not below ``max_distance``.

        On a plane the feature is found at any distance: its formula is cheap.
        """
        world, pair = wp.tid()
        a = distance_pairs.a[pair]
        b = distance_pairs.b[pair]
        place = distance_pairs.place[pair]
        row = wp.min(world, geometry_size.shape[0] - 1)
        size_a = geometry_size[row, a]
        size_b = geometry_size[row, b]
        pose_a = poses.geometry_pose(a, geometries.link[a], geometry_placement, link_pose, world)
        pose_b = poses.geometry_pose(b, geometries.link[b], geometry_placement, link_pose, world)
        if wp.static(family == ON_PLANE):
            shape = shapes.make_shape(geometries.type[b], size_b, packed.extent[b])
            down = wp.quat_rotate_inv(wp.transform_get_rotation(pose_b), -plane.plane_normal(pose_a))
            _lowest, code = shapes.core_support(shape, packed.vertices, down)
            # The ends of a capsule are numbered as its features, corners and vertices are them.
            found_feature[world, place] = wp.where(geometries.type[b] == CAPSULE, LOWER + code, code)
        elif wp.static(family == CLOSED_FORM):
            features, nearest, _distance, _point, _normal = closed.near_features(
                geometries, a, b, pose_a, size_a, pose_b, size_b, max_distance
            )
            found_feature[world, place] = features[nearest]
        else:
            mode, codes_a, codes_b, witness = convex.nearest_feature(
                geometries, packed, a, b, pose_a, size_a, pose_b, size_b, max_distance
            )
            found_feature[world, place] = mode
            found_codes_a[world, place] = codes_a
            found_codes_b[world, place] = codes_b
            found_witness[world, place] = witness

    return SimpleNamespace(module=module, search_pairs=search_pairs)
