"""Geometry and colours of a URDF file."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.importers.decomposition import collider_of_file
from sim.importers.meshes import Colour, MeshLibrary
from sim.importers.xmltree import Element
from sim.model.geometries import Mesh
from sim.model.looks.lights import MountedLight
from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.poses import compose
from sim.model.shapes.hulls import FlatMeshError
from warp_kernels import types as codes

GREY: Colour = (0.7, 0.7, 0.7, 1.0)


@dataclass(frozen=True)
class Shape:
    """Shape in the form of :meth:`sim.ModelBuilder.add_geometry`; position and orientation (xyzw) in the link frame."""

    type: int
    size: tuple[float, float, float]
    mesh: Mesh | None
    rgba: Colour
    material: Material
    position: np.ndarray
    orientation: np.ndarray


def origin(element: Element) -> tuple[np.ndarray, np.ndarray]:
    """Return position and quaternion xyzw of an element's ``<origin>``; default: identity."""
    found = element.optional("origin")
    if found is None:
        return np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
    return found.vector("xyz", 3, (0.0, 0.0, 0.0)), _orientation(found)


def _orientation(element: Element) -> np.ndarray:
    """Return the quaternion xyzw of an ``<origin>``: from its angles, or since URDF 1.1 from ``quat_xyzw``."""
    if "quat_xyzw" in element.attributes:
        quaternion = element.vector("quat_xyzw", 4)
        if "rpy" in element.attributes:
            raise element.error("has both rpy and quat_xyzw; remove one")
        if not quaternion.any():
            raise element.error("its quat_xyzw is zero; no rotation has it")
        return np.asarray(quaternion / np.linalg.norm(quaternion))
    if "rpy" not in element.attributes:
        return np.array([0.0, 0.0, 0.0, 1.0])
    # Roll, pitch and yaw are about fixed axes.
    return np.asarray(Rotation.from_euler("xyz", element.vector("rpy", 3)).as_quat())


def named_colours(robot: Element) -> dict[str, Colour]:
    """Return the named colours of a ``<robot>`` element, at top level or inside a visual."""
    inside = [
        material for link in robot.all("link") for visual in link.all("visual") for material in visual.all("material")
    ]
    colours = {}
    for material in (*inside, *robot.all("material")):
        colour = _own_colour(material)
        if colour is not None and material.attributes.get("name"):
            colours[material.attributes["name"]] = colour
    return colours


def visual_shapes(visual: Element, meshes: MeshLibrary, colours: dict[str, Colour]) -> Iterator[Shape]:
    """Return the shapes of one ``<visual>``; a mesh without a colour in the URDF gives one shape per colour.

    Raises:
        ImportFileError: naming the link.
    """
    colour = _colour(visual, colours)
    kind = _kind(visual)
    position, orientation = origin(visual)
    if kind.tag != "mesh":
        code, size = _primitive(kind)
        if any(size):  # files hide a shape by a size of zero
            yield Shape(code, size, None, colour or GREY, DEFAULT_MATERIAL, position, orientation)
        return
    filename, scale = _mesh(kind)
    try:
        pieces = (
            [(piece.mesh, piece.rgba or GREY, piece.material) for piece in meshes.pieces(filename, scale)]
            if colour is None
            else [(meshes.surface(filename, scale), colour, DEFAULT_MATERIAL)]
        )
    except ModelError as error:
        raise kind.error(str(error)) from None
    for mesh, rgba, material in pieces:
        yield Shape(codes.CONVEX, (1.0, 1.0, 1.0), mesh, rgba, material, position, orientation)


def visual_lights(visual: Element, meshes: MeshLibrary) -> list[MountedLight]:
    """Return the lights in the mesh of one ``<visual>`` that has been read, in the frame of its link."""
    kind = _kind(visual)
    if kind.tag != "mesh":
        return []
    around = np.concatenate(origin(visual))
    return [replace(one, placement=compose(around, one.placement)) for one in meshes.lights(*_mesh(kind))]


def collision_shapes(collision: Element, meshes: MeshLibrary, threshold: float | None, triangles: bool) -> list[Shape]:
    """Return the shapes of one ``<collision>``; a mesh becomes its hull, or convex pieces. Empty without volume.

    See :func:`sim.importers.decomposition.collider_of_file` for ``threshold`` and ``triangles``.

    Raises:
        ImportFileError: naming the link.
    """
    kind = _kind(collision)
    position, orientation = origin(collision)
    if kind.tag != "mesh":
        code, size = _primitive(kind)
        return [Shape(code, size, None, GREY, DEFAULT_MATERIAL, position, orientation)] if any(size) else []
    filename, scale = _mesh(kind)
    try:
        found = collider_of_file(meshes, filename, scale, threshold, triangles)
    except FlatMeshError:
        return []
    except ModelError as error:
        raise kind.error(str(error)) from None
    return [Shape(code, (1.0, 1.0, 1.0), mesh, GREY, DEFAULT_MATERIAL, position, orientation) for code, mesh in found]


def _kind(element: Element) -> Element:
    """Return the one element inside ``<geometry>``."""
    geometry = element.required("geometry")
    known = [child for child in geometry.children if child.tag in (*PRIMITIVES, "mesh")]
    if len(known) != 1:
        tags = ", ".join(f"<{child.tag}>" for child in geometry.children) or "nothing"
        raise geometry.error(
            f"contains {tags}; it needs exactly one of {', '.join(f'<{tag}>' for tag in (*PRIMITIVES, 'mesh'))}"
        )
    return known[0]


def _primitive(kind: Element) -> tuple[int, tuple[float, float, float]]:
    code, size = PRIMITIVES[kind.tag](kind)
    if any(value < 0.0 for value in size):
        given = ", ".join(f"{key} is {value}" for key, value in kind.attributes.items())
        raise kind.error(f"{given}; a size must not be negative")
    return code, size


def _box(kind: Element) -> tuple[int, tuple[float, float, float]]:
    x, y, z = (0.5 * kind.vector("size", 3)).tolist()
    return codes.BOX, (x, y, z)


def _sphere(kind: Element) -> tuple[int, tuple[float, float, float]]:
    return codes.SPHERE, (kind.number("radius"), 0.0, 0.0)


def _cylinder(kind: Element) -> tuple[int, tuple[float, float, float]]:
    return codes.CYLINDER, (kind.number("radius"), 0.5 * kind.number("length"), 0.0)


def _capsule(kind: Element) -> tuple[int, tuple[float, float, float]]:
    # Not in the standard; readers take length as that of the cylinder between the half balls.
    return codes.CAPSULE, (kind.number("radius"), 0.5 * kind.number("length"), 0.0)


PRIMITIVES = {"box": _box, "sphere": _sphere, "cylinder": _cylinder, "capsule": _capsule}


def _mesh(kind: Element) -> tuple[str, np.ndarray]:
    one_number = len(kind.attributes.get("scale", "").split()) == 1
    scale = np.repeat(kind.vector("scale", 1), 3) if one_number else kind.vector("scale", 3, (1.0, 1.0, 1.0))
    if (scale == 0.0).any():
        raise kind.error(f"scale {scale.tolist()} has a zero, which flattens the mesh")
    return kind.text("filename"), scale


def _colour(visual: Element, colours: dict[str, Colour]) -> Colour | None:
    materials = visual.all("material")
    if not materials:
        return None
    # Published files have several in one visual; as in ROS the first one is used.
    return _own_colour(materials[0]) or colours.get(materials[0].attributes.get("name", ""))


def _own_colour(material: Element) -> Colour | None:
    found = material.optional("color")
    if found is None:
        return None
    r, g, b, a = np.clip(found.vector("rgba", 4), 0.0, 1.0).tolist()
    return r, g, b, a
