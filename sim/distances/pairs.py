"""Pairs of geometries to measure, and their arrays on a device."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.arrays.allocation import fill, integer_array
from sim.arrays.device_model import DeviceModel
from sim.arrays.shape_arrays import geometry_struct, packed_struct
from sim.errors import ModelError
from sim.model.checks import items_of
from sim.model.geometries import Geometry, Mesh
from sim.model.model import GEOMETRY_TYPE_NAMES, Model
from sim.model.shapes.hulls import PackedShapes, convex_hull
from warp_kernels import types as codes
from warp_kernels.collision.pairs import DISTANCE_FAMILIES, distance_family
from warp_kernels.distances import DistancePairs

GeometryPair = tuple[str | int, str | int]
# Squared sine of the angle between the axes of capsules below which they count as parallel, since crossing lines lose
# digits there. The distance is then too large by at most 1e-5 of the length, or 1e-3 in single precision.
PARALLEL = {"float64": 1e-10, "float32": 1e-6}


def numbered_pairs(model: Model, pairs: Sequence[GeometryPair]) -> tuple[tuple[int, int], ...]:
    """Return the pairs as indices in ``model.geometries``.

    Raises:
        ModelError: for an empty list, an unknown geometry, a geometry paired with itself, and two shapes without a
            distance.
    """
    listed = items_of("geometry_distances: pairs", pairs, "a list of pairs of geometries")
    if not listed:
        raise ModelError("geometry_distances: pairs is empty; give at least one")
    numbered = []
    for pair in listed:
        is_list = isinstance(pair, Iterable) and not isinstance(pair, str)
        ends = items_of("geometry_distances: a pair", pair, "two geometries") if is_list else []
        if len(ends) != 2:
            raise ModelError(f"geometry_distances: {pair!r} is not a pair of geometries, such as ('hand', 'cup')")
        a, b = (_number(model, each) for each in ends)
        if a == b:
            raise ModelError(f"geometry_distances: {_describe(model, a)} is paired with itself; give two geometries")
        if _family_of(model, a, b) is None:
            raise ModelError(
                f"geometry_distances: {_describe(model, a)} and {_describe(model, b)} have no distance. "
                "Supported are spheres, capsules, cylinders, ellipsoids, boxes and convex meshes, and each of these "
                "with a plane; use other shapes or cast_rays"
            )
        numbered.append((a, b))
    return tuple(numbered)


def _family_of(model: Model, a: int, b: int) -> str | None:
    return distance_family(model.geometries[a].type, model.geometries[b].type)


class DistanceArrays:
    """Pairs of geometries as arrays on a device.

    Attributes:
        families: for each family with pairs, their number and the arguments that its kernels share.
    """

    def __init__(self, m: DeviceModel, pairs: Sequence[tuple[int, int]]):
        model = m.model
        shown = {index for pair in pairs for index in pair}
        hulls: dict[int, Mesh] = {}
        shapes, vertices = PackedShapes(), []
        for index, geometry in enumerate(model.geometries):
            convex = index in shown and geometry.type == codes.CONVEX
            shape = _as_hull(geometry, hulls) if convex else geometry
            vertices.append(np.asarray(shape.mesh.vertices) if convex and shape.mesh else np.zeros((0, 3)))
            if index in shown and geometry.type != codes.PLANE:
                shapes.add(shape)
            else:
                shapes.add_nothing()
        shared = {
            "geometries": geometry_struct(model, vertices, PARALLEL[model.dtype], m.device),
            "packed": packed_struct(model, shapes, m.device),
        }
        self.families: dict[str, tuple[int, dict[str, Any]]] = {}
        for family in DISTANCE_FAMILIES:
            slots = [slot for slot, pair in enumerate(pairs) if _family_of(model, *pair) == family]
            if not slots:
                continue
            a, b = np.array([pairs[slot] for slot in slots]).T
            types = np.array([geometry.type for geometry in model.geometries])
            swapped = types[a] > types[b]
            columns = {"a": np.where(swapped, b, a), "b": np.where(swapped, a, b), "slot": slots, "swapped": swapped}
            arrays = {name: integer_array(column, m.device) for name, column in columns.items()}
            self.families[family] = len(slots), {**shared, "distance_pairs": fill(DistancePairs, **arrays)}


def _as_hull(geometry: Geometry, hulls: dict[int, Mesh]) -> Geometry:
    """Return a convex mesh; a visual mesh is replaced by its convex hull."""
    mesh = geometry.mesh
    if geometry.collides or mesh is None:
        return geometry
    if id(mesh) not in hulls:
        try:
            hulls[id(mesh)] = convex_hull(np.asarray(mesh.vertices, dtype=np.float64))
        except ModelError as error:
            raise ModelError(f"geometry_distances: the mesh of geometry '{geometry.name}' {error}") from None
    return replace(geometry, mesh=hulls[id(mesh)])


def _number(model: Model, given: str | int) -> int:
    if isinstance(given, str):
        return model.geometry(given)
    number = int(given)
    if not 0 <= number < model.num_geometries:
        raise ModelError(f"geometry_distances: there is no geometry {number}; the model has {model.num_geometries}")
    return number


def _describe(model: Model, index: int) -> str:
    geometry = model.geometries[index]
    return f"geometry '{geometry.name}' ({GEOMETRY_TYPE_NAMES[geometry.type]})"
