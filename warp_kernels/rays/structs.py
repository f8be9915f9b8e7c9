"""What the kernels of rays share."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def ray_structs(scalar: Any) -> SimpleNamespace:
    """The structs of one precision."""
    vec3 = warp_types(scalar).vec3

    @wp.struct
    class Targets:
        """The geometries that rays may meet.

        Attributes:
            geometry: index of each in the model [num_targets].
            link: its link, -1 for the world [num_targets].
            type: its type code [num_targets].
            field_shape: of a heightfield the place of its first height, its rows and its columns [num_targets].
            centre: of the ball around an unscaled mesh, in its geometry's frame [num_targets], m.
            radius: of that ball [num_targets], m.
            mesh: handles of unscaled meshes in single precision, 0 for what has none [num_targets].
            first_face: where the triangles of each start in ``face_corner``, in triangles [num_targets].
            face_corner: the corners of triangles in ``vertices``, three for each.
            vertices: of all meshes, unscaled, in their geometry's frame [m].
        """

        geometry: wp.array(dtype=wp.int32)
        link: wp.array(dtype=wp.int32)
        type: wp.array(dtype=wp.int32)
        field_shape: wp.array(dtype=wp.vec3i)
        centre: wp.array(dtype=vec3)
        radius: wp.array(dtype=scalar)
        mesh: wp.array(dtype=wp.uint64)
        first_face: wp.array(dtype=wp.int32)
        face_corner: wp.array(dtype=wp.int32)
        vertices: wp.array(dtype=vec3)

    return SimpleNamespace(Targets=Targets)
