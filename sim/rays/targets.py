"""Geometries that rays can hit, and their arrays on a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.arrays.device_model import DeviceModel
from sim.arrays.shape_arrays import field_shapes
from sim.errors import ModelError
from sim.model.checks import names_in, require_choice, require_type
from sim.model.geometries import Geometry, Mesh
from sim.model.model import Model
from warp_kernels import types as codes
from warp_kernels.collision.field.grid import KINDS
from warp_kernels.rays.pieces import ray_structs

SHAPES = ("collision", "visual", "all")
# Feature counts are stored in the model's precision: float32 counts exactly up to this number.
MOST_FEATURES = 2**24


@dataclass(frozen=True)
class RayTargets:
    """Choice of the geometries that rays can hit.

    Attributes:
        shapes: "collision" for those that take part in contact, "visual" for those that are drawn, or "all".
        exclude: name or names of links or other frames; geometries fixed to their links are excluded.
        static: whether rays hit geometries that can't move, such as the ground.
        groups: bit mask of collision groups; rays hit a geometry that is in one of them.

    Raises:
        ModelError: for another value of shapes.

    Example:
        >>> import sim
        >>> sim.RayTargets(exclude=["base"], static=False)
        RayTargets(shapes='collision', exclude=('base',), static=False, groups=-1)
    """

    shapes: str = "collision"
    exclude: str | Sequence[str] = ()
    static: bool = True
    groups: int = -1

    def __post_init__(self) -> None:
        require_choice("RayTargets: shapes", self.shapes, SHAPES)
        object.__setattr__(self, "exclude", names_in("RayTargets: exclude", self.exclude))

    def geometries(self, model: Model) -> list[int]:
        """Return indices in ``model.geometries``. Raise ModelError for an unknown frame."""
        require_type("RayTargets: model", model, Model, "a sim.Model")
        excluded = {model.frame(name).link for name in self.exclude}

        def met(geometry: Geometry) -> bool:
            if geometry.link in excluded or not geometry.group & self.groups:
                return False
            if not self.static and model.is_static(geometry):
                return False
            return self.shapes == "all" or (geometry.collides if self.shapes == "collision" else geometry.visible)

        return [index for index, geometry in enumerate(model.geometries) if met(geometry)]


class TargetArrays:
    """Geometries that rays can hit, as arrays on a device.

    Attributes:
        count: number of geometries.
        targets: see :func:`warp_kernels.rays.pieces.ray_structs`.
    """

    def __init__(self, m: DeviceModel, selected: list[int]):
        model, device, types = m.model, m.device, m.types
        geometries = [model.geometries[index] for index in selected]
        self.count = len(selected)
        meshes = [geometry.mesh if geometry.type in (codes.CONVEX, codes.MESH) else None for geometry in geometries]
        shapes = field_shapes(model)
        for geometry, mesh in zip(geometries, meshes, strict=True):
            features = 0 if mesh is None else len(mesh.faces)
            features = max(features, 0 if geometry.heights is None else KINDS * geometry.heights.size)
            if features > MOST_FEATURES:
                raise ModelError(
                    f"geometry '{geometry.name}' has too many triangles for rays ({features} "
                    f"entries); simplify the mesh"
                )
        self._meshes: dict[int, wp.Mesh] = {}
        handles, first_face, faces, vertices = [], [], [np.zeros(0, dtype=np.int32)], [np.zeros((0, 3))]
        starts: dict[int, int] = {}
        corners = points = 0
        for mesh in meshes:
            if mesh is None:
                handles.append(0)
                first_face.append(0)
                continue
            key = id(mesh)
            if key not in starts:
                starts[key] = corners // 3
                faces.append(np.asarray(mesh.faces, dtype=np.int32).ravel() + points)
                vertices.append(np.asarray(mesh.vertices, dtype=np.float64))
                corners, points = corners + faces[-1].size, points + len(mesh.vertices)
                self._meshes[key] = _warp_mesh(mesh, device)
            handles.append(int(self._meshes[key].id))
            first_face.append(starts[key])
        balls = [_ball(mesh) for mesh in meshes]

        def numbers(values: Any, dtype: Any = wp.int32) -> wp.array:
            return wp.array(np.asarray(values, dtype=np.int32), dtype=dtype, device=device)

        self.targets = fill(
            ray_structs(types.scalar).Targets,
            geometry=numbers(selected),
            link=numbers([geometry.link for geometry in geometries]),
            type=numbers([_met_as(geometry) for geometry in geometries]),
            field_shape=numbers(np.reshape([shapes[index] for index in selected], (-1, 3)), wp.vec3i),
            centre=wp.array(np.reshape([b[0] for b in balls], (-1, 3)), dtype=types.vec3, device=device),
            radius=wp.array([b[1] for b in balls], dtype=types.scalar, device=device),
            mesh=wp.array(np.array(handles, dtype=np.uint64), dtype=wp.uint64, device=device),
            first_face=numbers(first_face),
            face_corner=numbers(np.concatenate(faces)),
            vertices=wp.array(np.concatenate(vertices), dtype=types.vec3, device=device),
        )


def _met_as(geometry: Geometry) -> int:
    """Return the type as which rays treat a geometry: all meshes are triangles."""
    return codes.CONVEX if geometry.type == codes.MESH else geometry.type


def _warp_mesh(mesh: Mesh, device: wp.Device) -> wp.Mesh:
    points: wp.array = wp.array(np.asarray(mesh.vertices, dtype=np.float32), dtype=wp.vec3, device=device)
    return wp.Mesh(points, wp.array(np.asarray(mesh.faces, dtype=np.int32).ravel(), dtype=wp.int32, device=device))


def _ball(mesh: Mesh | None) -> tuple[np.ndarray, float]:
    """Return centre and radius of a ball around a mesh."""
    if mesh is None or not len(mesh.vertices):
        return np.zeros(3), 0.0
    centre = 0.5 * (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0))
    return centre, float(np.linalg.norm(mesh.vertices - centre, axis=1).max())
