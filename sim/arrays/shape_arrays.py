"""Shapes of a model as arrays on a device, for the kernels of collision and distances."""

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.model.model import Model
from sim.model.shapes.hulls import PackedShapes
from warp_kernels import types as codes
from warp_kernels.collision.structs import collision_structs


def row_array(values: npt.ArrayLike, dtype: Any, device: wp.DeviceLike) -> wp.array:
    """Return an array of numbers, or of rows if ``dtype`` is a vector."""
    rows = np.array(values)
    if wp.types.type_is_vector(dtype):
        rows = rows.reshape(-1, dtype._length_)
    return wp.array(rows, dtype=dtype, device=device)


def starts(parts: Sequence[Sized]) -> np.ndarray:
    """Return the start of each part in their concatenation, and its end."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])])


def geometry_struct(model: Model, hulls: Sequence[np.ndarray], parallel: float, device: wp.DeviceLike) -> Any:
    """Return the struct ``Geometries`` of :func:`warp_kernels.collision.structs.collision_structs`.

    Args:
        model: the model.
        hulls: hull vertices of each geometry [n, 3]; none unless it is a convex mesh.
        parallel: squared sine of the angle between capsule axes below which they count as parallel.
        device: device of the arrays.
    """
    radii = [np.linalg.norm(hull, axis=1).max(initial=0.0) for hull in hulls]
    vertices = np.concatenate([np.zeros((0, 3)), *hulls])
    return fill(
        collision_structs(model.scalar).Geometries,
        link=integer_array([geometry.link for geometry in model.geometries], device),
        type=integer_array([geometry.type for geometry in model.geometries], device),
        link_tree=integer_array(model.link_tree, device),
        vertex_start=integer_array(starts(hulls), device),
        hull_vertices=row_array(vertices, codes.warp_types(model.scalar).vec3, device),
        hull_radius=row_array(radii, model.scalar, device),
        field_shape=row_array(field_shapes(model), wp.vec3i, device),
        parallel=model.scalar(parallel),
    )


def packed_struct(model: Model, shapes: PackedShapes, device: wp.DeviceLike) -> Any:
    """Return the struct ``PackedShapes`` of :func:`warp_kernels.collision.structs.collision_structs`."""
    vec3 = codes.warp_types(model.scalar).vec3
    return fill(
        collision_structs(model.scalar).PackedShapes,
        extent=row_array(shapes.extent, wp.vec4i, device),
        edge_extent=row_array(shapes.edge_extent, wp.vec2i, device),
        vertices=row_array(shapes.vertices, vec3, device),
        face_start=integer_array(starts(shapes.corners), device),
        face_corner=integer_array([corner for face in shapes.corners for corner in face], device),
        face_normal=row_array(shapes.normals, vec3, device),
        edges=row_array(shapes.edges, wp.vec4i, device),
        ball_centre=row_array([bounds.ball_centre for bounds in shapes.bounds], vec3, device),
        ball_radius=row_array([bounds.ball_radius for bounds in shapes.bounds], model.scalar, device),
        box_centre=row_array([bounds.box_centre for bounds in shapes.bounds], vec3, device),
        box_extents=row_array([bounds.box_extents for bounds in shapes.bounds], vec3, device),
    )


def field_shapes(model: Model) -> np.ndarray:
    """Return the offset of each geometry's first height among all, and its rows and columns; zeros for others."""
    shapes = np.zeros((model.num_geometries, 3), dtype=np.int32)
    first = 0
    for index, geometry in enumerate(model.geometries):
        if geometry.heights is not None:
            shapes[index] = first, *geometry.heights.shape
            first += geometry.heights.size
    return shapes
