"""Geometries as prims: visual meshes and implicit collision shapes."""

import numpy as np
from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdPhysics, Vt

from sim.errors import ModelError
from sim.model.geometries import Geometry
from sim.model.model import GEOMETRY_TYPE_NAMES
from sim.render.tessellation import Triangles, tessellate, textured
from sim.usd.annotations import keep
from sim.usd.materials import COORDINATES, Materials, linear_color
from warp_kernels import types as codes

GROUND_TILES = 40  # length of each side of the drawn part of a plane
TILE = 0.5  # side of a tile [m]
DARK = 0.84  # brightness of the darker tiles relative to the plane's own colour


def child_name(wanted: str, taken: set[str]) -> str:
    """Return a valid prim name close to ``wanted`` and unique among the siblings; add it to ``taken``."""
    base = Tf.MakeValidIdentifier(wanted)
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name


def identity_pose(position: object) -> np.ndarray:
    """Return a position as a pose [7]."""
    return np.concatenate([np.asarray(position, dtype=np.float64), [0.0, 0.0, 0.0, 1.0]])


def set_pose(
    xform: UsdGeom.Xformable, pose: np.ndarray, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> tuple[UsdGeom.XformOp, UsdGeom.XformOp]:
    """Add the ops translate, orient and scale with their default values to a prim; return the first two."""
    translate = xform.AddTranslateOp()
    translate.Set(Gf.Vec3d(*map(float, pose[:3])))
    # USD takes the arc cosine of a quaternion's real part, which loses half the digits of small angles in single
    # precision.
    orient = xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble)
    orient.Set(Gf.Quatd(float(pose[6]), *map(float, pose[3:6])))
    if scale == (1.0, 1.0, 1.0):
        xform.AddScaleOp().Set(Gf.Vec3f(1.0))
    else:
        xform.AddScaleOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*scale))
    return translate, orient


def add_visual(stage: Usd.Stage, path: Sdf.Path, geometry: Geometry, materials: Materials) -> None:
    """Add the visual of a geometry: a mesh with normals, colour and material."""
    if geometry.type == codes.PLANE:
        _add_ground(stage, path, geometry, materials)
        return
    triangles = textured(geometry)
    mesh = author_mesh(stage, path, triangles, geometry.rgba[:3])
    set_pose(mesh, geometry.placement)
    materials.bind(mesh.GetPrim(), geometry.rgba, geometry.material, triangles.uv is not None)


def keep_repeat(prim: Usd.Prim, geometry: Geometry) -> None:
    """Store the repeats of a projected texture."""
    if geometry.material.texture is not None and geometry.material.repeat is not None:
        keep(prim, "texture_repeat", geometry.material.repeat)


def author_mesh(
    stage: Usd.Stage, path: Sdf.Path, triangles: Triangles, color: tuple[float, float, float]
) -> UsdGeom.Mesh:
    """Add a triangle mesh with a normal at every corner of every face."""
    mesh = UsdGeom.Mesh.Define(stage, path)
    points = triangles.vertices.astype(np.float32)
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(triangles.faces), 3, dtype=np.int32)))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(triangles.faces.astype(np.int32).ravel()))
    mesh.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(triangles.normals.reshape(-1, 3).astype(np.float32)))
    mesh.SetNormalsInterpolation(UsdGeom.Tokens.faceVarying)
    if triangles.uv is not None:
        _set_coordinates(mesh, triangles.uv)
    _finish_mesh(mesh, points, color)
    return mesh


def _set_coordinates(mesh: UsdGeom.Mesh, uv: np.ndarray) -> None:
    """Add texture coordinates [..., 2] at every corner of every face."""
    coordinates = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar(
        COORDINATES, Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.faceVarying
    )
    coordinates.Set(Vt.Vec2fArray.FromNumpy(uv.reshape(-1, 2).astype(np.float32)))


def add_collider(stage: Usd.Stage, path: Sdf.Path, geometry: Geometry) -> Usd.Prim:
    """Add the collider of a geometry: an implicit shape, or the convex hull of a mesh, of purpose guide."""
    size = [float(value) for value in geometry.size]
    scale = (1.0, 1.0, 1.0)
    if geometry.type == codes.PLANE:
        shape = UsdGeom.Plane.Define(stage, path)
        shape.CreateAxisAttr(UsdGeom.Tokens.z)
        shape.CreateWidthAttr(GROUND_TILES * TILE)
        shape.CreateLengthAttr(GROUND_TILES * TILE)
    elif geometry.type == codes.SPHERE:
        shape = UsdGeom.Sphere.Define(stage, path)
        shape.CreateRadiusAttr(size[0])
    elif geometry.type in (codes.CAPSULE, codes.CYLINDER):
        kind = UsdGeom.Capsule if geometry.type == codes.CAPSULE else UsdGeom.Cylinder
        shape = kind.Define(stage, path)
        shape.CreateAxisAttr(UsdGeom.Tokens.z)
        shape.CreateRadiusAttr(size[0])
        shape.CreateHeightAttr(2.0 * size[1])
    elif geometry.type == codes.BOX:
        shape = UsdGeom.Cube.Define(stage, path)
        shape.CreateSizeAttr(2.0)
        scale = (size[0], size[1], size[2])
    elif geometry.type in (codes.CONVEX, codes.ELLIPSOID):
        # UsdPhysics has no ellipsoid, and its validation rejects a sphere with unequal scales.
        shape = author_mesh(stage, path, tessellate(geometry), geometry.rgba[:3])
        UsdPhysics.MeshCollisionAPI.Apply(shape.GetPrim()).CreateApproximationAttr(UsdPhysics.Tokens.convexHull)
    elif geometry.type in (codes.HEIGHTFIELD, codes.MESH):
        shape = author_mesh(stage, path, tessellate(geometry), geometry.rgba[:3])
        UsdPhysics.MeshCollisionAPI.Apply(shape.GetPrim()).CreateApproximationAttr(UsdPhysics.Tokens.none)
    else:
        kind_name = GEOMETRY_TYPE_NAMES.get(geometry.type, str(geometry.type))
        raise ModelError(f"geometry '{geometry.name}': USD has no collider of type {kind_name}; use another shape")
    if not shape.GetPrim().IsA(UsdGeom.Mesh):
        shape.CreateExtentAttr(UsdGeom.Boundable.ComputeExtentFromPlugins(shape, Usd.TimeCode.Default()))
    shape.CreatePurposeAttr(UsdGeom.Tokens.guide)
    set_pose(shape, geometry.placement, scale)
    UsdPhysics.CollisionAPI.Apply(shape.GetPrim())
    return shape.GetPrim()


def _add_ground(stage: Usd.Stage, path: Sdf.Path, geometry: Geometry, materials: Materials) -> None:
    """Add a square piece of a plane with its texture, or as tiles in two shades, so that motion over it is visible."""
    count = GROUND_TILES
    line = (np.arange(count + 1) - count / 2.0) * TILE
    x, y = np.meshgrid(line, line, indexing="ij")
    points = np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3).astype(np.float32)
    i, j = (index.ravel() for index in np.meshgrid(np.arange(count), np.arange(count), indexing="ij"))
    corner = i * (count + 1) + j
    faces = np.stack([corner, corner + count + 1, corner + count + 2, corner + 1], axis=1).astype(np.int32)
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(faces), 4, dtype=np.int32)))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(faces.ravel()))
    mesh.CreateNormalsAttr([Gf.Vec3f(0.0, 0.0, 1.0)])
    mesh.SetNormalsInterpolation(UsdGeom.Tokens.constant)
    _finish_mesh(mesh, points, geometry.rgba[:3])
    set_pose(mesh, geometry.placement)
    repeat = geometry.material.repeat if geometry.material.texture is not None else None
    if repeat is not None:
        _set_coordinates(mesh, 0.5 + points[faces][..., :2] * repeat)
    materials.bind(mesh.GetPrim(), geometry.rgba, geometry.material, repeat is not None)
    if repeat is not None:
        return
    red, green, blue, alpha = geometry.rgba
    # Both shades are subsets: Blender ignores the material of the whole mesh if it has a subset.
    for name, odd, shade in (("light_tiles", 0, 1.0), ("dark_tiles", 1, DARK)):
        tiles = Vt.IntArray.FromNumpy(np.flatnonzero((i + j) % 2 == odd).astype(np.int32))
        subset = UsdGeom.Subset.CreateGeomSubset(
            mesh, name, UsdGeom.Tokens.face, tiles, "materialBind", UsdGeom.Tokens.partition
        )
        materials.bind(subset.GetPrim(), (shade * red, shade * green, shade * blue, alpha), geometry.material)


def _finish_mesh(mesh: UsdGeom.Mesh, points: np.ndarray, color: tuple[float, float, float]) -> None:
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    mesh.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([points.min(axis=0), points.max(axis=0)])))
    mesh.CreateDisplayColorAttr([linear_color(color)])
