"""Elements of a URDF file: inertias, origins, and geometries as visual and collision elements."""

import xml.etree.ElementTree as ET

import numpy as np
from scipy.spatial.transform import Rotation

from sim.exporters.files import MeshFiles, number, numbers, scaled
from sim.exporters.losses import Losses
from sim.model.geometries import Geometry, Mesh
from sim.model.model import GEOMETRY_TYPE_NAMES, Model
from sim.render.tessellation import tessellate
from warp_kernels import types as codes


def child(element: ET.Element, tag: str) -> ET.Element:
    """Return the child with this tag, created if missing."""
    found = element.find(tag)
    return ET.SubElement(element, tag) if found is None else found


def set_inertial(link: ET.Element, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
    """Set a link's mass [kg], centre of mass [3], and rotational inertia about it in link axes [3, 3]."""
    inertial = child(link, "inertial")
    origin = _origin(inertial)
    origin.set("xyz", numbers(com))
    origin.set("rpy", "0 0 0")
    child(inertial, "mass").set("value", number(mass))
    element = child(inertial, "inertia")
    symmetric = 0.5 * (inertia + inertia.T)
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        element.set(f"i{'xyz'[i]}{'xyz'[j]}", number(symmetric[i, j]))


def set_origin(element: ET.Element, placement: np.ndarray) -> None:
    """Set the ``<origin>`` of an element: position and quaternion xyzw [7]."""
    origin = _origin(element)
    origin.set("xyz", numbers(placement[:3]))
    origin.set("rpy", numbers(roll_pitch_yaw(placement[3:])))


def _origin(element: ET.Element) -> ET.Element:
    """Return the ``<origin>`` of an element without any quaternion, ready for angles."""
    origin = child(element, "origin")
    origin.attrib.pop("quat_xyzw", None)
    return origin


def roll_pitch_yaw(quaternion: np.ndarray) -> np.ndarray:
    """Return angles about the fixed axes x, y, z, in that order [3], exact also near a pitch of a right angle.

    There only the combination of roll and yaw is determined: any yaw works with a matching roll.
    """
    matrix = Rotation.from_quat(quaternion).as_matrix()
    yaw = np.arctan2(matrix[1, 0], matrix[0, 0])
    sine, cosine = np.sin(yaw), np.cos(yaw)
    pitch = np.arctan2(-matrix[2, 0], cosine * matrix[0, 0] + sine * matrix[1, 0])
    roll = np.arctan2(sine * matrix[0, 2] - cosine * matrix[1, 2], cosine * matrix[1, 1] - sine * matrix[0, 1])
    return np.array([roll, pitch, yaw])


ENDLESS = (codes.PLANE, codes.HEIGHTFIELD)


class ShapeWriter:
    """Writer of the shapes of links, which notes those that URDF lacks."""

    def __init__(self, model: Model, losses: Losses, meshes: MeshFiles):
        self.losses = losses
        self._meshes = meshes
        self._colours: dict[tuple[float, ...], str] = {}
        self._of_link: dict[int, list[Geometry]] = {}
        free = model.joint_type[0] == codes.FREE
        scenery = []
        for geometry in model.geometries:
            if geometry.link < 0 and (free or geometry.type in ENDLESS):
                scenery.append(geometry.name)
            else:
                self._of_link.setdefault(geometry.link, []).append(geometry)
        losses.leaves_out("geometry of the world", scenery, "add it when the file is read")
        endless = [g.name for g in model.geometries if g.link >= 0 and g.type in ENDLESS]
        losses.changes_motion("planes and heightfields on a robot", endless)
        curved = [g.name for g in model.geometries if g.type == codes.ELLIPSOID and g.collides]
        losses.changes_motion("ellipsoids, except as meshes", curved)
        hollow = [g.name for g in model.geometries if g.type == codes.MESH and g.collides and g.name not in scenery]
        losses.changes_motion("triangle meshes, which readers replace by their convex hulls", hollow)

    def add(self, element: ET.Element, link: int) -> None:
        """Add all shapes of a link, visible ones first."""
        shapes = [g for g in self._of_link.get(link, []) if g.type not in ENDLESS]
        for geometry in shapes:
            if geometry.visible:
                visual = self._add_shape(element, "visual", geometry)
                if has_look(geometry):  # in the file of its mesh
                    continue
                material = ET.SubElement(visual, "material", name=self._colour(geometry))
                ET.SubElement(material, "color", rgba=numbers(geometry.rgba))
        for geometry in shapes:
            if geometry.collides:
                self._add_shape(element, "collision", geometry)

    def _add_shape(self, link: ET.Element, tag: str, geometry: Geometry) -> ET.Element:
        element = ET.SubElement(link, tag, name=geometry.name)
        set_origin(element, geometry.placement)
        shape = ET.SubElement(element, "geometry")
        size = geometry.size
        if geometry.type == codes.BOX:
            ET.SubElement(shape, "box", size=numbers(2.0 * size))
        elif geometry.type == codes.SPHERE:
            ET.SubElement(shape, "sphere", radius=number(size[0]))
        elif geometry.type in (codes.CYLINDER, codes.CAPSULE):
            kind = GEOMETRY_TYPE_NAMES[geometry.type]
            ET.SubElement(shape, kind, radius=number(size[0]), length=number(2.0 * size[1]))
        else:
            ET.SubElement(shape, "mesh", filename=self._meshes.add(geometry, _mesh(geometry), has_look(geometry)))
        return element

    def _colour(self, geometry: Geometry) -> str:
        return self._colours.setdefault(geometry.rgba, f"colour_{len(self._colours)}")


def has_look(geometry: Geometry) -> bool:
    """Return whether the mesh file of a geometry has its texture."""
    textured = geometry.visible and geometry.material.texture is not None
    return textured and geometry.mesh is not None and geometry.mesh.uv is not None


def _mesh(geometry: Geometry) -> Mesh:
    if geometry.mesh is not None:
        return scaled(geometry.mesh, geometry.size)
    triangles = tessellate(geometry)
    return Mesh(triangles.vertices, triangles.faces)
