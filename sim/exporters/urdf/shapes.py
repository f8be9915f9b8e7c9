"""Geometries as visual and collision elements of a URDF file."""

import xml.etree.ElementTree as ET

from sim.exporters.files import MeshFiles, scaled
from sim.exporters.losses import Losses
from sim.exporters.text import number, numbers
from sim.exporters.urdf.elements import set_origin
from sim.model.model import GEOMETRY_TYPE_NAMES, Geometry, Mesh, Model
from sim.render.shapes import tessellate
from warp_kernels import types as codes

ENDLESS = (codes.PLANE, codes.HEIGHTFIELD)


class ShapeWriter:
    """Adds the shapes of links, and notes those that URDF lacks."""

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
        losses.changes_motion("triangle meshes, which readers take for their convex hulls", hollow)

    def add(self, element: ET.Element, link: int) -> None:
        """Add all shapes of a link, visible ones first."""
        shapes = [g for g in self._of_link.get(link, []) if g.type not in ENDLESS]
        for geometry in shapes:
            if geometry.visible:
                visual = self._add_shape(element, "visual", geometry)
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
            ET.SubElement(shape, "mesh", filename=self._meshes.add(geometry, _mesh(geometry)))
        return element

    def _colour(self, geometry: Geometry) -> str:
        return self._colours.setdefault(geometry.rgba, f"colour_{len(self._colours)}")


def _mesh(geometry: Geometry) -> Mesh:
    if geometry.mesh is not None:
        return scaled(geometry.mesh, geometry.size)
    triangles = tessellate(geometry)
    return Mesh(triangles.vertices, triangles.faces)
