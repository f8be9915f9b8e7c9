"""Colliders and visible prims of a USD file as shapes, in metres and in the frame of their body."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import trimesh
from pxr import Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.importers.decomposition import convex_pieces, is_convex, is_convex_solid
from sim.importers.usd.looks import Coordinates, corner_uv
from sim.importers.usd.stage import Scene
from sim.model.geometries import Mesh
from sim.model.model import GEOMETRY_TYPE_NAMES
from sim.model.poses import compose
from sim.model.shapes.hulls import convex_hull
from sim.model.specs import GEOMETRY_CODES
from sim.usd.annotations import agreed, kept, kept_text
from warp_kernels import types as codes

# Rotations from z to the axis of a shape
TO_AXIS = {
    "X": Rotation.from_euler("y", 90.0, degrees=True),
    "Y": Rotation.from_euler("x", -90.0, degrees=True),
    "Z": Rotation.identity(),
}
CONE_SIDES = 32
# Radius of the corners of a cone's base with the area of the circle, which gives the pyramid the mass of the cone.
CONE_CORNERS = float(np.sqrt(2.0 * np.pi / (CONE_SIDES * np.sin(2.0 * np.pi / CONE_SIDES))))
LARGEST = 1e30  # size whose volume and inertia don't overflow [m]
HULLS = (UsdPhysics.Tokens.convexHull, UsdPhysics.Tokens.convexDecomposition)


@dataclass(frozen=True)
class Shape:
    """Shape in the form of :meth:`sim.ModelBuilder.add_geometry`; ``pose`` [7] in its body, or in the world."""

    type: int
    size: np.ndarray
    pose: np.ndarray
    mesh: Mesh | None = None
    heights: np.ndarray | None = None


def primitive(scene: Scene, prim: Usd.Prim) -> Shape | None:
    """Return a plane, sphere, cube, capsule or cylinder, with its pose in the world; None for other prims.

    Raises:
        ImportFileError: for a scale that makes it another shape, or a size that isn't finite.
    """
    reader = PRIMITIVES.get(str(prim.GetTypeName()))
    shape = reader(scene, prim) if reader else None
    if shape is not None and not ((shape.size >= 0.0) & (shape.size <= LARGEST)).all():
        raise scene.error(prim, f"its size is {shape.size.tolist()} m; it must be positive, and at most {LARGEST:g}")
    return shape


def mesh_of(scene: Scene, prim: Usd.Prim, coordinates: Coordinates | None = None) -> tuple[Mesh, np.ndarray] | None:
    """Return triangles of a mesh or a cone and their pose in the world; None for other prims.

    With texture coordinates, a mesh that has them keeps them.

    Raises:
        ImportFileError: for a mesh whose arrays don't match, or with points that are not finite.
    """
    if prim.IsA(UsdGeom.Mesh):
        points, faces, corners = _triangles(scene, UsdGeom.Mesh(prim))
        uv = corner_uv(prim, coordinates, corners) if coordinates is not None else None
    elif prim.IsA(UsdGeom.Cone):
        (points, faces), uv = _cone(scene, UsdGeom.Cone(prim)), None
    else:
        return None
    pose, stretch = scene.placed(prim)
    # A mirrored mesh would show its inside, so its triangles are reversed.
    turn = -1 if np.linalg.det(stretch) < 0.0 else 1
    uv = None if uv is None else uv[:, ::turn]
    return Mesh(points @ stretch.T, np.ascontiguousarray(faces[:, ::turn]), uv), pose


def colliders(scene: Scene, prim: Usd.Prim, moves: bool, threshold: float | None) -> list[Shape]:
    """Return the shapes of a collider, poses in the world: one, or one per piece of a decomposed mesh.

    See :func:`sim.importers.decomposition.convex_pieces` for ``threshold``.

    Raises:
        ImportFileError: naming the prim, for a kind that can't collide here, or an invalid mesh.
    """
    shape = primitive(scene, prim)
    if shape is not None:
        return [replace(shape, size=agreed(prim, "geometry_size", shape.size))]
    found = mesh_of(scene, prim)
    if found is None:
        raise scene.error(
            prim, f"a collider of type '{prim.GetTypeName()}' is not supported; use a mesh or a primitive"
        )
    mesh, pose = found
    special = annotated(prim, mesh, pose)
    if special is not None:
        return [special]
    try:
        return _approximated(scene, prim, mesh, pose, moves, threshold)
    except ModelError as error:
        raise scene.error(prim, str(error)) from None


def seen_from(scene: Scene, body: Sdf.Path | None, shape: Shape) -> Shape:
    """Return a shape with its pose in a body instead of the world; None leaves it in the world."""
    return shape if body is None else replace(shape, pose=scene.relative(body, shape.pose))


def _approximated(
    scene: Scene, prim: Usd.Prim, mesh: Mesh, pose: np.ndarray, moves: bool, threshold: float | None
) -> list[Shape]:
    """Return the shapes that the approximation of a mesh asks for."""
    api = UsdPhysics.MeshCollisionAPI(prim)
    token = str(api.GetApproximationAttr().Get()) if prim.HasAPI(UsdPhysics.MeshCollisionAPI) else "none"
    if token == UsdPhysics.Tokens.boundingCube:
        low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
        middle = compose(pose, np.concatenate([(low + high) / 2.0, [0.0, 0.0, 0.0, 1.0]]))
        return [Shape(codes.BOX, (high - low) / 2.0, middle)]
    if token == UsdPhysics.Tokens.boundingSphere:
        centre, radius = trimesh.nsphere.minimum_nsphere(mesh.vertices)
        middle = compose(pose, np.concatenate([centre, [0.0, 0.0, 0.0, 1.0]]))
        return [Shape(codes.SPHERE, np.array([radius, 0.0, 0.0]), middle)]
    if threshold is not None and token != UsdPhysics.Tokens.convexHull:
        return [Shape(codes.CONVEX, np.ones(3), pose, piece) for piece in convex_pieces(mesh, threshold)]
    if not moves and token not in HULLS and not is_convex_solid(mesh):
        return [Shape(codes.MESH, np.ones(3), pose, mesh)]
    whole = trimesh.Trimesh(mesh.vertices, mesh.faces)
    pieces = whole.split(only_watertight=False) if token == UsdPhysics.Tokens.convexDecomposition else [whole]
    hulls = [convex_hull(np.asarray(piece.vertices)) for piece in pieces]
    parts = [Mesh(np.asarray(piece.vertices), np.asarray(piece.faces)) for piece in pieces]
    hollow = any(not is_convex(part, hull) for part, hull in zip(parts, hulls, strict=True))
    if hollow and token != UsdPhysics.Tokens.convexHull:
        scene.notes.append(f"prim '{prim.GetPath()}': approximation '{token}' is read as the convex hull of each piece")
    return [Shape(codes.CONVEX, np.ones(3), pose, hull) for hull in hulls]


def annotated(prim: Usd.Prim, mesh: Mesh, pose: np.ndarray) -> Shape | None:
    """Return the shape that a mesh was written for, if the mesh still matches it."""
    if kept_text(prim, "type") == GEOMETRY_TYPE_NAMES[codes.MESH]:
        return Shape(codes.MESH, np.ones(3), pose, mesh)
    type, size = kept_text(prim, "type"), kept(prim, "geometry_size", 3)
    if size is None:
        return None
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    radius, half_length, _ = size
    halves: dict[str | None, Any] = {
        "box": size, "ellipsoid": size, "sphere": [radius] * 3, "cylinder": [radius, radius, half_length],
        "capsule": [radius, radius, radius + half_length],
    }  # fmt: skip
    if type in halves and np.allclose([-low, high], halves[type], rtol=1e-4):
        return Shape(GEOMETRY_CODES[str(type)], size, pose)
    rows = kept(prim, "rows", 1)
    flat = prim.GetAttribute("backswing:heights").Get() if type == "heightfield" and rows is not None else None
    if flat is None or len(flat) % int(rows[0]):  # type: ignore[index]
        return None
    heights = np.array(flat).reshape(int(rows[0]), -1)  # type: ignore[index]
    scale = np.abs(size[:2]).max() + np.abs(heights).max() * size[2]
    same = np.allclose([low[:2], high[:2]], [-size[:2], size[:2]], atol=1e-5 * scale) and np.allclose(
        high[2], heights.max() * size[2], atol=1e-5 * scale
    )
    return Shape(codes.HEIGHTFIELD, size, pose, heights=heights) if same else None


def _sphere(scene: Scene, prim: Usd.Prim) -> Shape:
    pose, scale = _scaled(scene, prim)
    semi_axes = float(UsdGeom.Sphere(prim).GetRadiusAttr().Get()) * scale
    if np.ptp(semi_axes) <= 1e-6 * semi_axes.max():
        return Shape(codes.SPHERE, np.array([semi_axes[0], 0.0, 0.0]), pose)
    return Shape(codes.ELLIPSOID, semi_axes, pose)


def _cube(scene: Scene, prim: Usd.Prim) -> Shape:
    pose, scale = _scaled(scene, prim)
    return Shape(codes.BOX, 0.5 * float(UsdGeom.Cube(prim).GetSizeAttr().Get()) * scale, pose)


def _plane(scene: Scene, prim: Usd.Prim) -> Shape:
    pose, _ = scene.placed(prim)
    return Shape(codes.PLANE, np.zeros(3), _along(pose, _axis(scene, UsdGeom.Plane(prim))))


def _long(scene: Scene, prim: Usd.Prim, code: int, schema: Any) -> Shape:
    """Return a capsule or a cylinder, also of the newer schemas with two radii, which must be equal."""
    pose, scale = _scaled(scene, prim)
    shape = schema(prim)
    axis = _axis(scene, shape)
    along = "XYZ".index(axis)
    across = np.delete(scale, along)
    if np.ptp(across) > 1e-6 * across.max():
        raise scene.error(
            prim, f"scale {scale.tolist()} makes its cross-section elliptical; use one scale across its axis"
        )
    radii = (
        [shape.GetRadiusAttr()]
        if hasattr(shape, "GetRadiusAttr")
        else [shape.GetRadiusTopAttr(), shape.GetRadiusBottomAttr()]
    )
    radius = [float(attribute.Get()) for attribute in radii]
    if abs(radius[0] - radius[-1]) > 1e-6 * radius[0]:
        raise scene.error(prim, f"its ends have radii {radius}; those of capsules and cylinders must be equal here")
    # The half balls of a capsule stay round; their scale is the one across its axis.
    size = np.array([radius[0] * across[0], 0.5 * float(shape.GetHeightAttr().Get()) * scale[along], 0.0])
    return Shape(code, size, _along(pose, axis))


PRIMITIVES = {
    "Sphere": _sphere,
    "Cube": _cube,
    "Plane": _plane,
    "Capsule": lambda scene, prim: _long(scene, prim, codes.CAPSULE, UsdGeom.Capsule),
    "Capsule_1": lambda scene, prim: _long(scene, prim, codes.CAPSULE, UsdGeom.Capsule_1),
    "Cylinder": lambda scene, prim: _long(scene, prim, codes.CYLINDER, UsdGeom.Cylinder),
    "Cylinder_1": lambda scene, prim: _long(scene, prim, codes.CYLINDER, UsdGeom.Cylinder_1),
}


def _axis(scene: Scene, shape: Any) -> str:
    axis = str(shape.GetAxisAttr().Get())
    if axis not in TO_AXIS:
        raise scene.error(shape.GetPrim(), f"its axis is '{axis}'; it must be X, Y or Z")
    return axis


def _along(pose: np.ndarray, axis: str) -> np.ndarray:
    """Return a pose rotated so that its z axis is the named axis of the prim."""
    return compose(pose, np.concatenate([np.zeros(3), TO_AXIS[axis].as_quat()]))


def _scaled(scene: Scene, prim: Usd.Prim) -> tuple[np.ndarray, np.ndarray]:
    """Return pose in the world and scale [3] of a prim without shear."""
    pose, stretch = scene.placed(prim)
    if np.any(stretch - np.diag(np.diag(stretch))):
        raise scene.error(prim, "its transform shears it; make it a mesh, or scale its parents uniformly")
    return pose, np.abs(np.diag(stretch))


def _triangles(scene: Scene, mesh: UsdGeom.Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points [n, 3] and triangles [m, 3] of a mesh, its polygons split into fans; and the indices of their
    corners among its face vertices [m, 3].
    """
    time = Usd.TimeCode.EarliestTime()
    points = np.array(mesh.GetPointsAttr().Get(time) or [], dtype=np.float64).reshape(-1, 3)
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get(time) or [], dtype=np.int64)
    indices = np.array(mesh.GetFaceVertexIndicesAttr().Get(time) or [], dtype=np.int64)
    prim = mesh.GetPrim()
    if not len(points) or not len(counts):
        raise scene.error(prim, "the mesh has no points or no faces")
    if (counts < 3).any() or counts.sum() != len(indices) or indices.min() < 0 or indices.max() >= len(points):
        raise scene.error(prim, "the faces of the mesh don't fit its points")
    if not np.isfinite(points).all():
        raise scene.error(prim, "a point of the mesh is not finite")
    starts = np.cumsum(counts) - counts
    fans = counts - 2
    first = np.repeat(starts, fans)
    step = np.arange(fans.sum()) - np.repeat(np.cumsum(fans) - fans, fans)
    corners = np.stack([first, first + step + 1, first + step + 2], axis=1)
    if str(mesh.GetOrientationAttr().Get()) == "leftHanded":
        corners = corners[:, ::-1]
    return points, indices[corners].astype(np.int32), corners


def _cone(scene: Scene, cone: UsdGeom.Cone) -> tuple[np.ndarray, np.ndarray]:
    """Return a cone as a pyramid with many sides and the same volume."""
    radius, half = CONE_CORNERS * float(cone.GetRadiusAttr().Get()), 0.5 * float(cone.GetHeightAttr().Get())
    angles = 2.0 * np.pi * np.arange(CONE_SIDES) / CONE_SIDES
    rim = np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(CONE_SIDES, -half)], axis=1)
    points = np.concatenate([rim, [[0.0, 0.0, -half], [0.0, 0.0, half]]])
    k = np.arange(CONE_SIDES)
    following = (k + 1) % CONE_SIDES
    sides = np.stack([k, following, np.full_like(k, CONE_SIDES + 1)], axis=1)
    base = np.stack([following, k, np.full_like(k, CONE_SIDES)], axis=1)
    turned = TO_AXIS[_axis(scene, cone)].apply(points)
    return turned, np.concatenate([sides, base]).astype(np.int32)
