"""Geometries as geoms of an MJCF file, with their meshes and heights."""

import xml.etree.ElementTree as ET

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.exporters.files import MeshFiles, number, numbers, scaled, wxyz
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies, set_softness
from sim.exporters.mjcf.contacts import Surface, surface
from sim.model.geometries import Geometry
from sim.model.looks.looks import DEFAULT_MATERIAL, Texture
from sim.model.model import Model
from warp_kernels import types as codes

# Names of types, and the number of sizes that each uses
SHAPES = {
    codes.PLANE: ("plane", 0),
    codes.SPHERE: ("sphere", 1),
    codes.CAPSULE: ("capsule", 2),
    codes.CYLINDER: ("cylinder", 2),
    codes.BOX: ("box", 3),
    codes.ELLIPSOID: ("ellipsoid", 3),
    codes.HEIGHTFIELD: ("hfield", 0),
    codes.CONVEX: ("mesh", 0),
    codes.MESH: ("mesh", 0),
}
# Roughness, metallic, texture and repeats per metre
Coat = tuple[float, float, Texture | None, tuple[float, float] | None]
PLAIN: Coat = (DEFAULT_MATERIAL.roughness, DEFAULT_MATERIAL.metallic, None, None)
# minimum number of points of a mesh in MuJoCo
FEWEST_POINTS = 4
# MuJoCo shows groups below 3 by default.
SHOWN, HIDDEN = "1", "3"


def add_geoms(asset: ET.Element, bodies: Bodies, losses: Losses, meshes: MeshFiles | None) -> None:
    """Add all geometries; without ``meshes`` only those that collide.

    Raises:
        ModelError: for a plane on a link that moves and for an unknown shape; without ``meshes`` for a mesh.
    """
    model = bodies.model
    small = {g.name: g for g in model.geometries if g.mesh is not None and len(g.mesh.vertices) < FEWEST_POINTS}
    for name, geometry in small.items():
        lose = losses.changes_motion if geometry.collides else losses.leaves_out
        lose("meshes of fewer than four points", [name])
    hollow = [g.name for g in model.geometries if g.type == codes.MESH and g.collides]
    losses.changes_motion("triangle meshes, except as their convex hulls", hollow)
    bare = [g.name for g in model.geometries if g.visible and g.material.texture is not None and not is_textured(g)]
    losses.leaves_out("textures without texture coordinates or repeat", bare)
    materials: dict[Coat, str] = {}
    for index, geometry in enumerate(model.geometries):
        if geometry.name in small or (meshes is None and not geometry.collides):
            continue
        if geometry.type not in SHAPES:
            raise ModelError(
                f"{losses.path}: geometry '{geometry.name}': MJCF has no shape of type "
                f"{geometry.type}; use another shape"
            )
        kind, count = SHAPES[geometry.type]
        if geometry.type == codes.PLANE and geometry.link >= 0 and model.link_tail_dof[geometry.link] >= 0:
            raise ModelError(
                f"{losses.path}: geometry '{geometry.name}': MuJoCo has no planes on moving links; use a box"
            )
        body, origin = bodies.body_of(geometry)
        geom = ET.SubElement(
            body, "geom", name=geometry.name, type=kind, pos=numbers(_position(geometry) - origin),
            quat=wxyz(geometry.placement[3:]), rgba=numbers(geometry.rgba),
            group=SHOWN if geometry.visible else HIDDEN,
        )  # fmt: skip
        if geometry.visible and (coat := coat_of(geometry, meshes is not None)) != PLAIN:
            geom.set("material", materials.setdefault(coat, f"material_{len(materials)}"))
        if geometry.type == codes.PLANE:
            geom.set("size", "0 0 1")
        elif count:
            geom.set("size", numbers(geometry.size[:count]))
        elif geometry.type == codes.HEIGHTFIELD:
            geom.set("hfield", geometry.name)
            _add_heights(asset, geometry)
        else:
            geom.set("mesh", geometry.name)
            _add_mesh(asset, geometry, meshes)
        if geometry.collides:
            _set_surface(geom, surface(model, index))
            _set_softness(geom, geometry)
            _set_surface_motion(geom, model, index)
        else:
            geom.set("contype", "0")
            geom.set("conaffinity", "0")
    _add_materials(asset, materials, meshes)


def is_textured(geometry: Geometry) -> bool:
    """Return whether a geometry shows a texture: at its coordinates, or projected."""
    material, mesh = geometry.material, geometry.mesh
    return material.texture is not None and (material.repeat is not None or (mesh is not None and mesh.uv is not None))


def coat_of(geometry: Geometry, with_textures: bool) -> Coat:
    """Return roughness and metallic of a material, its texture and the texture's repeats."""
    material, mesh = geometry.material, geometry.mesh
    if not (with_textures and is_textured(geometry)):
        return material.roughness, material.metallic, None, None
    repeat = material.repeat if mesh is None or mesh.uv is None else None
    return material.roughness, material.metallic, material.texture, repeat


def _add_materials(asset: ET.Element, materials: dict[Coat, str], meshes: MeshFiles | None) -> None:
    """Add the materials, and their textures. MuJoCo's uniform repeats are per two metres."""
    textures: dict[Texture, str] = {}
    for (roughness, metallic, texture, repeat), name in materials.items():
        # The colour that geoms have if they state none, so that a material never changes it
        material = ET.SubElement(
            asset, "material", name=name, rgba="0.5 0.5 0.5 1", roughness=number(roughness), metallic=number(metallic)
        )
        if texture is not None and meshes is not None:
            if texture not in textures:
                textures[texture] = f"texture_{len(textures)}"
                ET.SubElement(asset, "texture", type="2d", name=textures[texture], file=meshes.textures.add(texture))
            material.set("texture", textures[texture])
            if repeat is not None:
                material.set("texuniform", "true")
                material.set("texrepeat", numbers([2.0 * repeat[0], 2.0 * repeat[1]]))


def _set_softness(geom: ET.Element, geometry: Geometry) -> None:
    set_softness(geom, geometry.softness)
    for key, value, usual in (
        ("solmix", geometry.softness_mix, 1.0), ("margin", geometry.contact_margin, 0.0),
        ("gap", geometry.contact_gap, 0.0),
    ):  # fmt: skip
        if value != usual:
            geom.set(key, number(value))


def _set_surface(geom: ET.Element, own: Surface) -> None:
    geom.set("friction", numbers([own.slide, own.spin, own.roll]))
    geom.set("condim", str(own.dimension))
    geom.set("priority", str(own.priority))


def _set_surface_motion(geom: ET.Element, model: Model, index: int) -> None:
    """Set the velocity of a moving surface about the origin of the geom's frame."""
    if not model.moving_surfaces:
        return
    geometry = model.geometries[index]
    velocity, spin = (model.parameters[f"surface_{name}"][index] for name in ("velocity", "spin"))
    shift = Rotation.from_quat(geometry.placement[3:]).inv().apply(_position(geometry) - geometry.placement[:3])
    motion = [*(velocity + np.cross(spin, shift)), *spin]
    if any(motion):
        geom.set("surfacevel", numbers(motion))


def _add_mesh(asset: ET.Element, geometry: Geometry, meshes: MeshFiles | None) -> None:
    if meshes is None or geometry.mesh is None:
        raise ModelError(f"geometry '{geometry.name}': a mesh needs a separate file; use primitives")
    file = meshes.add(geometry, scaled(geometry.mesh, geometry.size))
    # Shell inertia also works for meshes that aren't closed; MuJoCo uses it only to choose the mesh's own frame.
    ET.SubElement(asset, "mesh", name=geometry.name, file=file, inertia="shell")


def _add_heights(asset: ET.Element, geometry: Geometry) -> None:
    """Add a heightfield's heights.

    MuJoCo's heights go from zero to one, times its third size; the fourth size is the depth below them. Its files list
    rows from the largest y down.
    """
    heights = _heights(geometry)
    rise = float(geometry.size[2] * np.ptp(heights))
    ET.SubElement(
        asset, "hfield", name=geometry.name, nrow=str(heights.shape[0]), ncol=str(heights.shape[1]),
        elevation=numbers(heights[::-1].ravel()), size=numbers([*geometry.size[:2], max(rise, 1e-6), 1.0]),
    )  # fmt: skip


def _position(geometry: Geometry) -> np.ndarray:
    """Return the position of a geometry in MuJoCo: that of a heightfield is at its minimum height."""
    if geometry.type != codes.HEIGHTFIELD:
        return geometry.placement[:3]
    lowest = float(geometry.size[2] * _heights(geometry).min())
    return geometry.placement[:3] + Rotation.from_quat(geometry.placement[3:]).apply((0.0, 0.0, lowest))


def _heights(geometry: Geometry) -> np.ndarray:
    if geometry.heights is None:
        raise ModelError(f"geometry '{geometry.name}': has no heights")
    return geometry.heights
