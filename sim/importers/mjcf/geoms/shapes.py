"""Geoms of an MJCF file: their shapes and colours."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.importers.decomposition import convex_pieces, is_convex_solid
from sim.importers.mjcf.geoms.contacts import Surfaces
from sim.importers.mjcf.geoms.meshes import bounded_hull, mesh_of
from sim.importers.mjcf.reader import Reader, pose, softness_of
from sim.importers.mjcf.sensors.rays import met_by_rays
from sim.model.builder.properties import Surface
from sim.model.model import Mesh
from sim.model.poses import compose
from sim.model.specs import WORLD
from warp_kernels import types as codes

# Codes, and the number of MuJoCo's sizes that each uses.
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
# Groups that MuJoCo shows by default; the others usually hold shapes that only collide.
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
    """Add the geoms of all bodies, with those that only rangefinders of the file meet.

    ``threshold`` is that of :func:`sim.importers.decomposition.convex_pieces`; with ``triangles`` meshes that aren't
    convex and don't move collide as they are.

    Returns:
        their names, by geom: several for a mesh in pieces, none for one that is only seen.

    Raises:
        ImportFileError: naming the geom.
    """
    model = reader.file.model
    met = met_by_rays(reader)
    shown = model.geom_group < SHOWN_GROUPS
    bodies_with_looks = set(model.geom_bodyid[shown].tolist())
    names: dict[int, list[str]] = {}

    @functools.cache
    def pieces_of(index: int, static: bool) -> list[tuple[int, Mesh]]:
        mesh = mesh_of(reader, index)
        if triangles and static and not is_convex_solid(mesh):
            return [(codes.MESH, mesh)]
        if threshold is None:
            mesh = bounded_hull(reader, index, mesh)
        return [(codes.CONVEX, piece) for piece in convex_pieces(mesh, threshold)]

    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if not world and model.body_weldid[body] == 0:
            continue
        visible = bool(shown[geom]) or body not in bodies_with_looks
        collides = collision and bool(surfaces.collides[geom])
        if collides or ((visible or met[geom]) and visual):
            names[geom] = _add_geom(reader, geom, surfaces, collides, visible and visual, pieces_of)
    return names


def _add_geom(
    reader: Reader,
    geom: int,
    surfaces: Surfaces,
    collides: bool,
    visible: bool,
    pieces_of: Callable[[int, bool], list[tuple[int, Mesh]]],
) -> list[str]:
    """``pieces_of`` a mesh, of a body that moves or not: what it collides as, with codes of geometries."""
    model, builder = reader.file.model, reader.builder
    kind = reader.file.mujoco.mjtGeom(int(model.geom_type[geom])).name
    if kind not in SHAPES:
        raise reader.file.error("geom", geom, f"shape '{kind.removeprefix('mjGEOM_').lower()}' is not supported")
    code, count = SHAPES[kind]
    body = int(model.geom_bodyid[geom])
    link, around = reader.places[body]
    owner = reader.links[body].removeprefix(reader.prefix)
    name = reader.name("geom", geom, f"{owner}/geom_{geom - int(model.body_geomadr[body])}", builder.geometries)
    placement = compose(around, pose(model.geom_pos[geom], model.geom_quat[geom]))
    static = link == WORLD
    looks: dict[str, Any] = {"position": placement[:3], "orientation": placement[3:], "rgba": _colour(reader, geom)}
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
    return Surface(
        friction=slide, torsional_friction=spin, rolling_friction=roll, friction_rule="maximum",
        priority=int(surfaces.priority[geom]), margin=float(model.geom_margin[geom]), gap=float(model.geom_gap[geom]),
        softness=softness_of(model.geom_solref[geom], model.geom_solimp[geom]),
        softness_mix=float(model.geom_solmix[geom]),
        # 1, as for the ground: a pair's restitution is then that of the body.
        restitution=1.0 if static else surfaces.restitution,
    )  # fmt: skip


def _heightfield(reader: Reader, index: int) -> dict[str, Any]:
    """MuJoCo's heights are between zero and one; its third size is their scale."""
    model = reader.file.model
    rows, columns = int(model.hfield_nrow[index]), int(model.hfield_ncol[index])
    start = int(model.hfield_adr[index])
    x, y, rise, _ = (float(size) for size in model.hfield_size[index])
    data = np.array(model.hfield_data[start : start + rows * columns], dtype=np.float64)
    return {"heights": rise * data.reshape(rows, columns), "size": (x, y, 1.0)}


def _colour(reader: Reader, geom: int) -> tuple[float, ...]:
    """The geom's own colour, or that of its material where its own is the default."""
    model = reader.file.model
    own = tuple(np.clip(model.geom_rgba[geom], 0.0, 1.0).tolist())
    material = int(model.geom_matid[geom])
    if material >= 0 and own == NO_COLOUR:
        return tuple(np.clip(model.mat_rgba[material], 0.0, 1.0).tolist())
    return own
