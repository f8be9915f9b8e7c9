"""Geoms of an MJCF file: shapes, meshes, colours, and visibility to rangefinders."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.importers.decomposition import convex_pieces, is_convex_solid
from sim.importers.mjcf.contacts import Surfaces
from sim.importers.mjcf.looks import Looks
from sim.importers.mjcf.notes import names_of
from sim.importers.mjcf.reader import Reader, pose
from sim.model.builder.properties import Surface
from sim.model.geometries import HullFaces, Mesh
from sim.model.poses import compose
from sim.model.shapes.hulls import convex_hull
from sim.model.softness import corrected_softness
from sim.model.specs import WORLD
from warp_kernels import types as codes


def mesh_of(reader: Reader, index: int) -> Mesh:
    """Return a mesh of the file."""
    model = reader.file.model
    vertex, face = int(model.mesh_vertadr[index]), int(model.mesh_faceadr[index])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[index])]
    faces = model.mesh_face[face : face + int(model.mesh_facenum[index])]
    return Mesh(
        np.array(vertices, dtype=np.float64), np.array(faces, dtype=np.int32), _texture_coordinates(model, index)
    )


def _texture_coordinates(model: Any, index: int) -> np.ndarray | None:
    """Return the texture coordinates of a mesh at the corners of its faces; MuJoCo counts rows from the top."""
    start, face = int(model.mesh_texcoordadr[index]), int(model.mesh_faceadr[index])
    if start < 0:
        return None
    corners = model.mesh_facetexcoord[face : face + int(model.mesh_facenum[index])]
    uv = np.array(model.mesh_texcoord[start:][corners], dtype=np.float64)
    uv[..., 1] = 1.0 - uv[..., 1]
    return uv if np.isfinite(uv).all() else None


def bounded_hull(reader: Reader, index: int, mesh: Mesh) -> Mesh:
    """Return MuJoCo's hull of a mesh if the file limits its number of vertices; otherwise the mesh."""
    model, start = reader.file.model, int(reader.file.model.mesh_graphadr[index])
    if reader.file.elements["mesh"][index].maxhullvert < 0 or start < 0:
        return mesh
    # The graph contains the number of vertices, the number of faces, and for each vertex the start of its edges and its
    # index.
    count = int(model.mesh_graph[start])
    return convex_hull(mesh.vertices[model.mesh_graph[start + 2 + count :][:count]])


def with_faces(reader: Reader, index: int, hull: Mesh) -> Mesh:
    """Return the hull of a mesh with the faces that MuJoCo merges its triangles into."""
    model = reader.file.model
    vertices = model.mesh_vert[int(model.mesh_vertadr[index]) :]
    number = {tuple(vertex): k for k, vertex in enumerate(hull.vertices.tolist())}
    first = int(model.mesh_polyadr[index])
    polygons, normals = [], []
    for polygon in range(first, first + int(model.mesh_polynum[index])):
        start, count = int(model.mesh_polyvertadr[polygon]), int(model.mesh_polyvertnum[polygon])
        corners = vertices[model.mesh_polyvert[start : start + count]].astype(np.float64).tolist()
        # Qhull may skip a vertex between two triangles of one plane.
        known = tuple(number[tuple(corner)] for corner in corners if tuple(corner) in number)
        if len(known) > 2:
            polygons.append(known)
            normals.append(model.mesh_polynormal[polygon])
    return replace(hull, hull_faces=HullFaces(tuple(polygons), np.array(normals, dtype=np.float64).reshape(-1, 3)))


def met_by_rays(reader: Reader) -> np.ndarray:
    """Return whether rangefinders of the file hit each geom: all visible ones, in any group [ngeom]."""
    return np.asarray(bool(_rangefinders(reader)) & ~_invisible(reader))


def notes_on_rays(reader: Reader, shapes: Mapping[int, Sequence[str]]) -> list[str]:
    """Return notes on what rangefinders hit in MuJoCo but not in Backswing, or the reverse.

    Args:
        reader: reader of the file.
        shapes: names of the geometries, by geom.
    """
    if not _rangefinders(reader):
        return []
    blind = [sensor for sensor in _rangefinders(reader) if _is_beside_geoms(reader, sensor)]
    invisible = [geom for geom in np.flatnonzero(_invisible(reader)).tolist() if geom in shapes]
    hulls = [geom for geom, names in shapes.items() if _is_in_its_hull(reader, geom, names)]
    notes = (
        ("rangefinders hit invisible geoms", "geom", invisible),
        ("rangefinders hit the hulls of meshes", "geom", hulls),
        ("rangefinders pass through geoms of bodies that are fixed to theirs", "sensor", blind),
    )
    return [f"{what} ({names_of(reader.file, kind, which)})" for what, kind, which in notes if which]


def _rangefinders(reader: Reader) -> list[int]:
    """Return the indices of the file's rangefinders."""
    kind = int(reader.file.mujoco.mjtSensor.mjSENS_RANGEFINDER)
    return np.flatnonzero(reader.file.model.sensor_type == kind).tolist()


def _is_beside_geoms(reader: Reader, sensor: int) -> bool:
    """Return whether visible geoms belong to other bodies fixed to that of a rangefinder's site or camera."""
    model, index = reader.file.model, int(reader.file.model.sensor_objid[sensor])
    of_camera = model.sensor_objtype[sensor] == reader.file.mujoco.mjtObj.mjOBJ_CAMERA
    body = int((model.cam_bodyid if of_camera else model.site_bodyid)[index])
    beside = (model.body_weldid[model.geom_bodyid] == model.body_weldid[body]) & (model.geom_bodyid != body)
    return bool(np.any(beside & ~_invisible(reader)))


def _is_in_its_hull(reader: Reader, geom: int, names: Sequence[str]) -> bool:
    """Return whether a non-convex mesh collides as convex geometries, which rays hit first."""
    if not names or reader.builder.geometries[names[0]].geometry.type != codes.CONVEX:
        return False
    collides = reader.builder.geometries[names[0]].geometry.collides
    return collides and not is_convex_solid(mesh_of(reader, int(reader.file.model.geom_dataid[geom])))


def _invisible(reader: Reader) -> np.ndarray:
    """Return whether a geom's material, or the geom itself without one, is fully transparent [ngeom]."""
    model = reader.file.model
    own = np.array(model.geom_rgba[:, 3])
    with_material = model.geom_matid >= 0
    own[with_material] = model.mat_rgba[model.geom_matid[with_material], 3]
    return np.asarray(own == 0.0)


# Codes, and the number of MuJoCo's sizes that each uses
SHAPES = {
    "mjGEOM_PLANE": (codes.PLANE, 0),
    "mjGEOM_SPHERE": (codes.SPHERE, 1),
    "mjGEOM_CAPSULE": (codes.CAPSULE, 2),
    "mjGEOM_CYLINDER": (codes.CYLINDER, 2),
    "mjGEOM_BOX": (codes.BOX, 3),
    "mjGEOM_ELLIPSOID": (codes.ELLIPSOID, 3),
    "mjGEOM_HFIELD": (codes.HEIGHTFIELD, 2),
    "mjGEOM_MESH": (codes.CONVEX, 0),
}
# Groups that MuJoCo shows by default; the others usually have collision shapes.
SHOWN_GROUPS = 3
NO_COLOUR = (0.5, 0.5, 0.5, 1.0)


def add_geometries(
    reader: Reader,
    surfaces: Surfaces,
    *,
    visual: bool,
    collision: bool,
    world: bool,
    threshold: float | None,
    triangles: bool,
) -> dict[int, list[str]]:
    """Add the geoms of all bodies, including those that only rangefinders of the file hit.

    See :func:`sim.importers.decomposition.convex_pieces` for ``threshold``; with ``triangles``, static non-convex
    meshes collide as triangle meshes.

    Returns:
        Names of the geometries, by geom: several for a mesh in pieces, none for a visual geom.

    Raises:
        ImportFileError: naming the geom.
    """
    model = reader.file.model
    met = met_by_rays(reader)
    shown = model.geom_group < SHOWN_GROUPS
    bodies_with_looks = set(model.geom_bodyid[shown].tolist())
    names: dict[int, list[str]] = {}
    materials = Looks(reader.file)

    @functools.cache
    def pieces_of(index: int, static: bool) -> list[tuple[int, Mesh]]:
        mesh = mesh_of(reader, index)
        if triangles and static and not is_convex_solid(mesh):
            return [(codes.MESH, mesh)]
        if threshold is None:
            mesh = bounded_hull(reader, index, mesh)
        pieces = convex_pieces(mesh, threshold)
        if len(pieces) == 1:
            pieces = [with_faces(reader, index, pieces[0])]
        return [(codes.CONVEX, piece) for piece in pieces]

    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if not world and model.body_weldid[body] == 0:
            continue
        visible = bool(shown[geom]) or body not in bodies_with_looks
        collides = collision and bool(surfaces.collides[geom])
        if collides or ((visible or met[geom]) and visual):
            names[geom] = _add_geom(reader, geom, surfaces, collides, visible and visual, pieces_of, materials)
    reader.notes += materials.notes
    return names


def _add_geom(
    reader: Reader,
    geom: int,
    surfaces: Surfaces,
    collides: bool,
    visible: bool,
    pieces_of: Callable[[int, bool], list[tuple[int, Mesh]]],
    materials: Looks,
) -> list[str]:
    """Add a geom; ``pieces_of`` returns the collision shapes of a mesh, for a body that moves or not."""
    model, builder = reader.file.model, reader.builder
    kind = reader.file.mujoco.mjtGeom(int(model.geom_type[geom])).name
    if kind not in SHAPES:
        raise reader.file.error("geom", geom, f"shape '{kind.removeprefix('mjGEOM_').lower()}' is not supported")
    code, count = SHAPES[kind]
    body = int(model.geom_bodyid[geom])
    link, around = reader.carriers[body]
    owner = reader.links[body].removeprefix(reader.prefix)
    name = reader.name("geom", geom, f"{owner}/geom_{geom - int(model.body_geomadr[body])}", builder.geometries)
    placement = compose(around, pose(model.geom_pos[geom], model.geom_quat[geom]))
    static = link == WORLD
    looks: dict[str, Any] = {"position": placement[:3], "orientation": placement[3:], "rgba": _colour(reader, geom)}
    if visible:
        looks["material"] = materials.of(geom, code)
    options: dict[str, Any] = looks | {
        "size": [*model.geom_size[geom][:count], *[0.0] * (3 - count)],
    }
    with reader.file.located("geom", geom, f"geometry '{name}'"):
        options["surface"] = _surface(reader, surfaces, geom, static)
        if code == codes.CONVEX:
            mesh = int(model.geom_dataid[geom])
            options["size"] = looks["size"] = (1.0, 1.0, 1.0)
            pieces = pieces_of(mesh, bool(model.body_weldid[body] == 0)) if collides else []
            names = [
                name if len(pieces) == 1 else reader.free(f"{name}/{number}", builder.geometries, "geom")
                for number in range(len(pieces))
            ]
            for own, (kind_of_piece, piece) in zip(names, pieces, strict=True):
                builder.add_geometry(link, kind_of_piece, name=own, mesh=piece, visible=False, **options)
            if visible or not collides:
                shown = reader.free(f"{name}/visual", builder.geometries, "geom") if collides else name
                builder.add_geometry(
                    link, code, name=shown, mesh=mesh_of(reader, mesh), collides=False, visible=visible, **looks
                )
            return names
        if code == codes.HEIGHTFIELD:
            options |= _heightfield(reader, int(model.geom_dataid[geom]))
        return [builder.add_geometry(link, code, name=name, collides=collides, visible=visible, **options)]


def _surface(reader: Reader, surfaces: Surfaces, geom: int, static: bool) -> Surface:
    model, (slide, spin, roll) = reader.file.model, surfaces.friction[geom].tolist()
    motion = reader.file.array("geom_surfacevel", np.zeros((model.ngeom, 6)))[geom].tolist()
    velocity, turn = (motion[:3], motion[3:]) if any(motion) else (None, None)
    return Surface(
        friction=slide, torsional_friction=spin, rolling_friction=roll, friction_rule="maximum",
        priority=int(surfaces.priority[geom]), margin=float(model.geom_margin[geom]), gap=float(model.geom_gap[geom]),
        softness=corrected_softness(model.geom_solref[geom], model.geom_solimp[geom]),
        softness_mix=float(model.geom_solmix[geom]), velocity=velocity, spin=turn,
        # 1, as for the ground, which makes a pair's restitution that of the body
        restitution=1.0 if static else surfaces.restitution,
    )  # fmt: skip


def _heightfield(reader: Reader, index: int) -> dict[str, Any]:
    """Return a heightfield. MuJoCo's heights are between zero and one; its third size is their scale."""
    model = reader.file.model
    rows, columns = int(model.hfield_nrow[index]), int(model.hfield_ncol[index])
    start = int(model.hfield_adr[index])
    x, y, rise, _ = (float(size) for size in model.hfield_size[index])
    data = np.array(model.hfield_data[start : start + rows * columns], dtype=np.float64)
    return {"heights": rise * data.reshape(rows, columns), "size": (x, y, 1.0)}


def _colour(reader: Reader, geom: int) -> tuple[float, ...]:
    """Return the geom's own colour, or that of its material if its own is the default."""
    model = reader.file.model
    own = tuple(np.clip(model.geom_rgba[geom], 0.0, 1.0).tolist())
    material = int(model.geom_matid[geom])
    if material >= 0 and own == NO_COLOUR:
        return tuple(np.clip(model.mat_rgba[material], 0.0, 1.0).tolist())
    return own
