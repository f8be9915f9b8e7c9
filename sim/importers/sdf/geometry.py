"""Geometry of an SDF file."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.importers.decomposition import collider_of_file
from sim.importers.meshes import Colour, MeshLibrary
from sim.importers.sdf.values import below, number, numbers, pose, vector
from sim.importers.xmltree import Element
from sim.model.geometries import Mesh
from sim.model.looks.lights import MountedLight
from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.poses import compose
from sim.model.shapes.hulls import FlatMeshError
from warp_kernels import types as codes

GREY: Colour = (0.7, 0.7, 0.7, 1.0)
UNIT = (1.0, 1.0, 1.0)
ALL_BITS = 65535  # mask of all bits of collide_bitmask


@dataclass(frozen=True)
class Shape:
    """Shape in the form of :meth:`sim.ModelBuilder.add_geometry`; its pose is in the frame of its element [7]."""

    type: int
    size: tuple[float, float, float]
    mesh: Mesh | None
    rgba: Colour
    pose: np.ndarray
    material: Material = DEFAULT_MATERIAL


def _box(kind: Element) -> tuple[int, tuple[float, float, float]]:
    x, y, z = (0.5 * vector(kind, "size", UNIT)).tolist()
    return codes.BOX, (x, y, z)


def _ellipsoid(kind: Element) -> tuple[int, tuple[float, float, float]]:
    x, y, z = vector(kind, "radii", UNIT).tolist()
    return codes.ELLIPSOID, (x, y, z)


PRIMITIVES = {
    "box": _box,
    "ellipsoid": _ellipsoid,
    "sphere": lambda kind: (codes.SPHERE, (number(kind, "radius", 1.0), 0.0, 0.0)),
    "cylinder": lambda kind: (codes.CYLINDER, (number(kind, "radius", 1.0), 0.5 * number(kind, "length", 1.0), 0.0)),
    "capsule": lambda kind: (codes.CAPSULE, (number(kind, "radius", 0.5), 0.5 * number(kind, "length", 1.0), 0.0)),
    "plane": lambda kind: (codes.PLANE, (0.0, 0.0, 0.0)),
}


def shapes(element: Element, meshes: MeshLibrary, threshold: float | None, triangles: bool) -> Iterator[Shape]:
    """Return the shapes of a ``<collision>`` or a ``<visual>``; a colliding mesh becomes its hull, or convex pieces.

    Their poses are in the frame that the element's pose refers to. ``<empty>`` geometry has no shape.

    See :func:`sim.importers.decomposition.collider_of_file` for ``threshold`` and ``triangles``.

    Raises:
        ImportFileError: for a shape that isn't supported.
        FlatMeshError: for a colliding mesh without volume.
    """
    geometry = element.required("geometry")
    if len(geometry.children) != 1:
        tags = ", ".join(f"<{child.tag}>" for child in geometry.children) or "nothing"
        raise geometry.error(f"contains {tags}; it needs one shape")
    kind, where, rgba = geometry.children[0], pose(element), _colour(element)
    if kind.tag in PRIMITIVES:
        code, size = PRIMITIVES[kind.tag](kind)
        if code == codes.PLANE:
            where = compose(where, np.concatenate([np.zeros(3), _turn(kind)]))
        yield Shape(code, size, None, rgba or GREY, where)
    elif kind.tag == "mesh":
        filename, scale = _file(kind)
        try:
            if element.tag == "collision":
                for code, mesh in collider_of_file(meshes, filename, scale, threshold, triangles):
                    yield Shape(code, UNIT, mesh, rgba or GREY, where)
            else:
                for piece in meshes.pieces(filename, scale):
                    material = piece.material if rgba is None else DEFAULT_MATERIAL
                    yield Shape(codes.CONVEX, UNIT, piece.mesh, rgba or piece.rgba or GREY, where, material)
        except FlatMeshError:
            raise
        except ModelError as error:
            raise kind.error(str(error)) from None
    elif kind.tag != "empty":
        known = ", ".join((*PRIMITIVES, "mesh"))
        raise kind.error(f"<{kind.tag}> is not supported; shapes are {known}")


def visual_lights(visual: Element, meshes: MeshLibrary) -> list[MountedLight]:
    """Return the lights in the mesh of a ``<visual>`` that has been read, in the frame that its pose refers to."""
    kind, where = visual.required("geometry").children[0], pose(visual)
    if kind.tag != "mesh":
        return []
    return [replace(one, placement=compose(where, one.placement)) for one in meshes.lights(*_file(kind))]


def bitmask(collision: Element) -> int | None:
    """Return the collision bit mask of a ``<collision>``; None if it has none."""
    contact = below(collision, "surface", "contact")
    if contact is None or contact.optional("collide_bitmask") is None:
        return None
    stated = contact.required("collide_bitmask")
    try:
        bits = int(stated.content, 0)
    except ValueError:
        raise stated.error(f"is '{stated.content[:80]}'; it must be an integer") from None
    return bits & ALL_BITS


def _turn(plane: Element) -> np.ndarray:
    """Return the rotation from z to the normal of a plane, quaternion xyzw."""
    normal = vector(plane, "normal", (0.0, 0.0, 1.0))
    if not normal.any():
        raise plane.error("its normal is zero")
    return np.asarray(Rotation.align_vectors([normal], [[0.0, 0.0, 1.0]])[0].as_quat())


def _file(kind: Element) -> tuple[str, np.ndarray]:
    """Return the file of a mesh and its scale [3]."""
    if kind.all("submesh"):
        raise kind.error("<submesh> is not supported; export it as a separate mesh file")
    scale = vector(kind, "scale", UNIT)
    if (scale == 0.0).any():
        raise kind.error(f"scale is {scale.tolist()}; no factor may be zero")
    return kind.required("uri").content, scale


def _colour(element: Element) -> Colour | None:
    material = element.optional("material")
    found = None if material is None else material.optional("diffuse") or material.optional("ambient")
    if found is None:
        return None
    opaque = len(found.content.split()) == 3
    r, g, b, a = np.clip([*numbers(found, 3), 1.0] if opaque else numbers(found, 4), 0.0, 1.0).tolist()
    return r, g, b, a
