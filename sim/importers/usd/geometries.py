"""Collision and visual shapes of a USD file, and their colours."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from pxr import Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

from sim.errors import ImportFileError
from sim.importers.usd.filters import Filters
from sim.importers.usd.looks import Look, coated, look_of, moved_coordinates
from sim.importers.usd.prims import PRIMITIVES, Shape, annotated, mesh_of, primitive, seen_from
from sim.importers.usd.reader import Reader, agreed_pose
from sim.importers.usd.schemas.mujoco_contacts import state_pairs, surface_of
from sim.importers.usd.schemas.surfaces import surface_motion
from sim.importers.usd.stage import Kind, Scene
from sim.model.builder.properties import SURFACE_FIELDS, in_groups
from sim.model.checks import free_name
from sim.model.looks.looks import Material
from sim.model.softness import Softness
from sim.usd.annotations import agreed, kept, kept_softness, kept_text, kept_texts
from warp_kernels import types as codes

DRAWN = (*PRIMITIVES, "Cone")
SHAPES = (
    Kind.SphereShape, Kind.CubeShape, Kind.CapsuleShape, Kind.Capsule1Shape, Kind.CylinderShape, Kind.Cylinder1Shape,
    Kind.ConeShape, Kind.PlaneShape, Kind.MeshShape, Kind.CustomShape, Kind.SpherePointsShape,
)  # fmt: skip


def add_geometries(reader: Reader, touching: list[Any], filters: Filters, visual: bool) -> None:
    """Add collision and visual shapes; a body without visual shapes shows its colliders."""
    seen = visible_prims(reader) if visual else []
    covered = {reader.scene.body_of(prim.GetPath()) for prim in seen}
    # Visible colliders, and prims that were written to show a collider
    shows = {kept_text(prim, "shows") or prim.GetPath(): prim for prim in seen}
    materials = {found.primPath: found for found in reader.scene.of(Kind.RigidBodyMaterial)}
    drawn: set[Sdf.Path] = set()
    names: dict[Sdf.Path, list[str]] = {}
    frictions: dict[Sdf.Path, float] = {}
    for found in touching:
        prim = reader.scene.prim(found.primPath)
        shapes = reader.shapes[found.primPath]
        shown_by = shows.get(kept_text(prim, "name")) or (shows.get(found.primPath) if not shapes[0].mesh else None)
        drawn.update([shown_by.GetPath()] if shown_by is not None else [])
        shown = shown_by is not None or (_may_be_seen(prim) and reader.scene.body_of(found.primPath) not in covered)
        material = _material(found, prim, materials)
        contact = _contact(reader, found, prim, material, filters)
        frictions[found.primPath] = reader.friction if material is None else float(material.dynamicFriction)
        options = reader.add(found.primPath, in_groups, SURFACE_FIELDS, contact)
        options["surface"] = reader.add(found.primPath, replace, options["surface"], **_direction(prim))
        look = look_of(reader.scene, shown_by or prim)
        coat = coated(look.material, shown_by or prim)
        names[found.primPath] = []
        for number, shape in enumerate(shapes):
            if shown:
                shape = _with_coordinates(reader.scene, shape, shown_by or prim, look, coat)
            motion = surface_motion(reader.scene, prim, shape)
            surface = reader.add(found.primPath, replace, options["surface"], **motion)
            own = options | {"surface": surface, "visible": shown, "rgba": look.rgba, "material": coat}
            names[found.primPath].append(_geometry(reader, prim, shape, number, **own))
    for first, second in filters.colliders:
        for pair in product(names.get(first, ()), names.get(second, ())):
            reader.builder.exclude_geometries(*pair)
    _set_pairs(reader, names)
    state_pairs(reader.scene, reader.builder, names, frictions)
    for prim in (prim for prim in seen if prim.GetPath() not in drawn):
        _picture(reader, prim, prim)


def _with_coordinates(scene: Scene, shape: Shape, prim: Usd.Prim, look: Look, material: Material) -> Shape:
    """Return the shape of a collider with the texture coordinates of the prim that shows it.

    Note a texture that can't be shown for lack of coordinates.
    """
    if material.texture is None or material.repeat is not None:
        return shape
    found = mesh_of(scene, prim, look.coordinates) if shape.mesh is not None else None
    if found is not None and shape.mesh is not None and (uv := moved_coordinates(found[0], shape.mesh)) is not None:
        return replace(shape, mesh=replace(shape.mesh, uv=uv))
    _note_hidden_texture(scene, prim)
    return shape


def _note_hidden_texture(scene: Scene, prim: Usd.Prim) -> None:
    """Note a texture that can't be shown for lack of coordinates."""
    scene.notes.append(f"not shown: the texture of '{prim.GetPath()}', whose shape has no texture coordinates")


def _set_pairs(reader: Reader, names: dict[Sdf.Path, list[str]]) -> None:
    """Set friction and softness of pairs of colliders with separate values, see :mod:`sim.usd.stage`."""
    prims = {path: reader.scene.prim(path) for path in names}
    written = {kept_text(prim, "name"): names[path] for path, prim in prims.items()}
    for path, prim in prims.items():
        others = kept_texts(prim, "pair_friction_with")
        values = kept(prim, "pair_friction", 3 * len(others))
        if others and values is not None:
            along = values.reshape(-1, 3)
            across = kept(prim, "pair_friction_across", 2 * len(others))
            across = along[:, [0, 2]] if across is None else across.reshape(-1, 2)
            equal = kept(prim, "pair_is_isotropic", len(others))
            equal = (along[:, [0, 2]] == across).all(axis=1) if equal is None else equal != 0.0
            found = zip(others, along.tolist(), across.tolist(), equal.tolist(), strict=True)
            for other, (slide, spin, roll), both, one in found:
                for pair in product(names[path], written.get(other, ())):
                    reader.builder.set_pair_friction(
                        *pair, friction=slide if one else (slide, both[0]), torsional_friction=spin,
                        rolling_friction=roll if one else (roll, both[1]),
                    )  # fmt: skip
        others = kept_texts(prim, "pair_softness_with")
        values = kept(prim, "pair_softness", 8 * len(others))
        if others and values is not None:
            gaps = kept(prim, "pair_gap", len(others))
            gaps = np.zeros(len(others)) if gaps is None else gaps
            soft = zip(others, values.reshape(-1, 8).tolist(), gaps.tolist(), strict=True)
            for other, (time, ratio, *solimp, margin), gap in soft:
                for pair in product(names[path], written.get(other, ())):
                    softness = Softness((time, ratio), tuple(solimp))
                    reader.builder.set_pair_softness(*pair, softness=softness, contact_margin=margin, contact_gap=gap)


def drawn_prims(reader: Reader) -> list[Usd.Prim]:
    """Return the prims to draw: the visible ones, and the colliders of bodies without any."""
    seen = visible_prims(reader)
    covered = {reader.scene.body_of(prim.GetPath()) for prim in seen}
    colliders = (reader.scene.prim(found.primPath) for found in enabled_colliders(reader.scene))
    bare = (prim for prim in colliders if reader.scene.body_of(prim.GetPath()) not in covered)
    return [*seen, *(prim for prim in bare if _may_be_seen(prim))]


def add_pictures(reader: Reader, prims: list[Usd.Prim]) -> None:
    """Add visual prims; a prim that was written to show a collider gets that collider's shape."""
    written = (reader.scene.prim(found.primPath) for found in enabled_colliders(reader.scene))
    colliders = {kept_text(prim, "name"): prim for prim in written}
    for prim in prims:
        shown = colliders.get(kept_text(prim, "shows") or "")
        _picture(reader, prim if shown is None or shown.IsA(UsdGeom.Mesh) else shown, prim)


def _picture(reader: Reader, prim: Usd.Prim, coloured: Usd.Prim) -> None:
    """Add the shape of one prim as a visual, in the colour of another; note one that can't be drawn."""
    try:
        look = look_of(reader.scene, coloured)
        mesh = mesh_of(reader.scene, prim, look.coordinates)
        if mesh is None:
            picture = primitive(reader.scene, prim)
        else:
            picture = annotated(prim, *mesh) or Shape(codes.CONVEX, np.ones(3), mesh[1], mesh[0])
        if picture is not None:
            picture = replace(picture, size=agreed(prim, "geometry_size", picture.size)) if mesh is None else picture
            picture = seen_from(reader.scene, reader.scene.body_of(prim.GetPath()), picture)
            coat = coated(look.material, coloured)
            has_uv = picture.mesh is not None and picture.mesh.uv is not None
            if coat.texture is not None and coat.repeat is None and not has_uv:
                _note_hidden_texture(reader.scene, coloured)
            _geometry(reader, prim, picture, 0, collides=False, rgba=look.rgba, material=coat)
    except ImportFileError as error:
        reader.scene.notes.append(f"not drawn: {str(error).removeprefix(f'{reader.scene.path}: ')}")


def visible_prims(reader: Reader) -> list[Usd.Prim]:
    """Return the visible prims. Note kinds that aren't drawn."""
    drawn: list[Usd.Prim] = []
    left_out: Counter[str] = Counter()
    walk = iter(reader.scene.prims())
    for prim in walk:
        if prim.IsA(UsdGeom.PointInstancer) and prim.GetPath() not in reader.instancers:
            left_out["PointInstancer"] += 1
            walk.PruneChildren()
        elif prim.IsA(UsdGeom.Gprim) and _is_seen(UsdGeom.Imageable(prim)):
            if prim.IsA(UsdGeom.Mesh) or prim.GetTypeName() in DRAWN:
                drawn.append(prim)
            else:
                left_out[str(prim.GetTypeName())] += 1
    if left_out:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in left_out.items())
        reader.scene.notes.append(f"not drawn: {kinds}")
    return drawn


def note_no_shapes(scene: Scene) -> None:
    """Note prims with CollisionAPI that aren't shapes, such as groups of shapes."""
    shapes = {found.primPath for found in scene.of(*SHAPES)}
    for prim in scene.prims():
        if prim.HasAPI(UsdPhysics.CollisionAPI) and prim.GetPath() not in shapes:
            scene.notes.append(
                f"prim '{prim.GetPath()}' has CollisionAPI but isn't a shape, so it doesn't collide; apply "
                f"CollisionAPI to shapes"
            )


def enabled_colliders(scene: Scene) -> list[Any]:
    """Return descriptions of all enabled colliders."""
    return [found for found in scene.of(*SHAPES) if found.collisionEnabled]


def _may_be_seen(collider: Usd.Prim) -> bool:
    """Return whether a collider may be shown as a visual: not if it was written as hidden."""
    visible = kept(collider, "visible", 1)
    return visible is None or bool(visible[0])


def _is_seen(image: UsdGeom.Imageable) -> bool:
    hidden = image.ComputeVisibility() == UsdGeom.Tokens.invisible
    return not hidden and image.ComputePurpose() not in (UsdGeom.Tokens.guide, UsdGeom.Tokens.proxy)


def _contact(reader: Reader, found: Any, prim: Usd.Prim, material: Any | None, filters: Filters) -> dict[str, Any]:
    """Return contact parameters and group of a collider."""
    friction, restitution = reader.friction, reader.restitution
    if material is not None:
        if not np.isclose(material.staticFriction, material.dynamicFriction):
            reader.scene.notes.append(f"prim '{material.primPath}': its static friction is ignored")
        friction = float(agreed(prim, "friction", material.dynamicFriction))
        restitution = float(agreed(prim, "restitution", material.restitution))
    options: dict[str, Any] = {"friction": friction, "restitution": restitution}
    for name in ("torsional_friction", "rolling_friction", "contact_stiffness", "contact_damping"):
        value = kept(prim, name, 1)
        if value is not None:
            options[name] = float(value[0])
    options["friction_rule"] = kept_text(prim, "friction_rule") or "product"
    priority = kept(prim, "contact_priority", 1)
    options["contact_priority"] = 0 if priority is None else int(priority[0])
    options["softness"] = kept_softness(prim, "softness")
    for name in ("softness_mix", "contact_margin", "contact_gap"):
        value = kept(prim, name, 1)
        if value is not None:
            options[name] = float(value[0])
    options |= surface_of(reader.scene, prim, friction)
    own = kept(prim, "group_and_mask", 2)
    if found.primPath in filters.bits:
        options["group"], options["mask"] = filters.bits[found.primPath]
    elif own is not None:
        options["group"], options["mask"] = (int(value) for value in own)
    return options


def _direction(prim: Usd.Prim) -> dict[str, Any]:
    """Return the direction of a collider's friction, and the friction across it; nothing without one."""
    direction, across = kept(prim, "friction_direction", 4), kept(prim, "friction_across", 1)
    if direction is None:
        return {}
    value = 0.0 if across is None else float(across[0])
    *axis, angle = direction.tolist()
    return {"friction_across": value, "friction_direction": axis, "friction_angle": angle}


def _material(found: Any, prim: Usd.Prim, materials: dict[Sdf.Path, Any]) -> Any | None:
    """Return the physics material of a collider; UsdPhysics' reader misses one that is bound above it."""
    inherited, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
    return next((materials[path] for path in (*found.materials, inherited.GetPath()) if path in materials), None)


def _geometry(reader: Reader, prim: Usd.Prim, shape: Shape, number: int, **options: object) -> str:
    """Add a shape, its pose given in its body, or in the world without a body; return its name."""
    body = reader.scene.body_of(prim.GetPath())
    link = reader.link_name(body)
    placed = reader.in_link(body, shape.pose)
    if number == 0 and (body is not None or reader.stays):
        placed = agreed_pose(prim, "geometry_placement", placed)
    name = reader.prefix + (kept_text(prim, "name") or f"{link.removeprefix(reader.prefix)}/{prim.GetName()}")
    name = name if number == 0 else f"{name}_{number}"
    if name in reader.builder.geometries:
        name = free_name(f"{name}:{str(prim.GetPath()).lstrip('/')}", reader.builder.geometries)
    reader.add(
        prim.GetPath(), reader.builder.add_geometry, link, shape.type, name=name, size=shape.size, mesh=shape.mesh,
        heights=shape.heights, position=placed[:3], orientation=placed[3:], **options,
    )  # fmt: skip
    return name
