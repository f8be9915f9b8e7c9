"""URDF export: a model as a robot file."""

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from sim.errors import URDFWarning
from sim.exporters.files import MeshFiles, number, numbers
from sim.exporters.losses import Losses
from sim.exporters.urdf.elements import ShapeWriter, child, set_inertial, set_origin
from sim.exporters.urdf.losses import check_expressible, lose_values
from sim.model.checks import free_name, require_type
from sim.model.frames import Frame
from sim.model.joint_types import name_in_files
from sim.model.model import Model
from sim.model.poses import is_identity
from sim.model.specs import UNREACHABLE, WORLD
from sim.output import check_target
from warp_kernels import types as codes


def write_urdf(path: str | os.PathLike[str], model: Model, *, lossy: bool = False) -> Path:
    """Write the model of a robot as a URDF file, with its meshes as .obj files in a folder ``<name>_urdf_meshes``.

    Reading it gives the same links, joints, limits, damping, dry friction, masses, shapes, colours, coupled joints
    (``<mimic>``) and frames (massless links behind fixed joints). If the robot is joined to the world by anything but a
    single fixed or free joint, or if the world has shapes or frames, the world becomes the root link; several robots on
    it become one.

    What the file can't represent (listed in docs/exporting.md) raises an error if it changes the motion, and a
    :class:`sim.URDFWarning` if it is chosen when the file is read: ground, actuators, friction, gravity, which links
    collide, whether the base is free.

    Args:
        path: the file, ending in .urdf; an existing one is replaced.
        model: the model.
        lossy: only warn of what would change the motion, instead of raising an error.

    Returns:
        The path.

    Raises:
        ModelError: naming what URDF can't represent; for another suffix or a missing folder.

    Example:
        >>> import tempfile
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> path = tempfile.mkdtemp() + "/robot.urdf"
        >>> _ = sim.exporters.write_urdf(path, model)
        >>> sim.load(path).nv
        7
    """
    check_target(path, (".urdf",))
    require_type("model", model, Model, "a sim.Model")
    losses = Losses(path, "URDF", URDFWarning, lossy)
    check_expressible(model, losses.path)
    meshes = MeshFiles(path)
    writer = _Writer(model, losses, meshes)
    root = writer.robot()
    lose_values(model, losses, writer.base)
    losses.report()
    return meshes.write(root, path, ".urdf")


class _Writer:
    """Writer of the elements. ``base`` is the name of the root link, ``holds_world`` whether that link is the world."""

    def __init__(self, model: Model, losses: Losses, meshes: MeshFiles):
        self.model = model
        self.shapes = ShapeWriter(model, losses, meshes)
        self.links: dict[int, str] = dict(enumerate(model.link_names))
        free = model.joint_type[0] == codes.FREE
        of_world = [frame for frame in model.frames if frame.link < 0]
        carries = [g for g in model.geometries if g.link < 0 and g.type not in (codes.PLANE, codes.HEIGHTFIELD)]
        stands = model.joint_type[0] == codes.FIXED and is_identity(model.parameters["joint_placement"][0])
        self.holds_world = not free and bool(of_world or carries or not stands or model.num_trees > 1)
        self.skipped = {frame.name for frame in of_world if not self.holds_world}
        if self.holds_world:
            # A base that was merged into the world names the world.
            same = [frame.name for frame in of_world if is_identity(frame.placement)]
            self.links[-1] = same[0] if same else free_name(WORLD, {frame.name for frame in model.frames})
        self.base = self.links[-1] if self.holds_world else model.link_names[0]
        losses.leaves_out("frames of the world", sorted(self.skipped))
        self.joints = set(model.joint_names)

    def robot(self) -> ET.Element:
        """Return the complete file."""
        parts, path = self.model.parts, self.shapes.losses.path
        root = ET.Element("robot", name=parts[0].name if len(parts) == 1 else path.stem)
        if any(g.type == codes.CAPSULE for g in self.model.geometries):
            root.set("version", "1.2")  # first version that has capsules
        frames: dict[int, list[Frame]] = {}
        for frame in self.model.frames:
            if frame.name not in self.links.values() and frame.name not in self.skipped:
                frames.setdefault(frame.link, []).append(frame)
        model = self.model
        for link in [*([-1] if self.holds_world else []), *range(model.num_links)]:
            self._add_link(root, link)
            if link >= 0 and (model.link_parent[link] >= 0 or self.holds_world):
                self._add_joint(root, link)
            for frame in frames.get(link, []):
                self._add_frame(root, frame)
        return root

    def _add_link(self, root: ET.Element, link: int) -> None:
        model = self.model
        element = ET.SubElement(root, "link", name=self.links[link])
        if link >= 0:
            mass, com, inertia = (model.parameters[key][link] for key in ("mass", "com", "inertia"))
            # Readers assume a mass for moving links without one.
            moves = model.joint_type[link] != codes.FIXED and model.link_names[link] not in model.massless_links
            if mass or inertia.any() or moves:
                set_inertial(element, float(mass), com, inertia)
        self.shapes.add(element, link)

    def _add_joint(self, root: ET.Element, link: int) -> None:
        model, parameters = self.model, self.model.parameters
        kind, name = int(model.joint_type[link]), model.joint_names[link]
        parent = self.links[int(model.link_parent[link])]
        joint = _joint(
            root, name, name_in_files(kind, "urdf", name), parent, self.links[link], parameters["joint_placement"][link]
        )
        if kind == codes.FIXED:
            return
        dof = int(model.joint_qd_start[link])
        ET.SubElement(joint, "axis", xyz=numbers(model.joint_axis[link]))
        limits = np.array([parameters["lower_limit"][dof], parameters["upper_limit"][dof]])
        most = {"effort": float(model.effort_limit[dof]), "velocity": float(model.velocity_limit[dof])}
        unlimited = kind == codes.REVOLUTE and np.isinf(limits).all()
        if unlimited:
            joint.set("type", "continuous")
        if not unlimited or np.isfinite(list(most.values())).any():
            limit = ET.SubElement(joint, "limit")
            if not unlimited:
                lower, upper = np.clip(limits, -UNREACHABLE, UNREACHABLE)
                limit.set("lower", number(lower))
                limit.set("upper", number(upper))
            for key, value in most.items():
                limit.set(key, number(min(value, UNREACHABLE)))
        for key, parameter in (("damping", "damping"), ("friction", "friction_loss")):
            if parameters[parameter][dof]:
                child(joint, "dynamics").set(key, number(parameters[parameter][dof]))
        self._add_mimic(joint, name)

    def _add_mimic(self, joint: ET.Element, name: str) -> None:
        equalities, parameters = self.model.equalities, self.model.parameters
        if name in equalities.coupling_names:
            row = equalities.coupling_names.index(name)
            other = self.model.joint_names[int(self.model.dof_link[equalities.coupling_other[row]])]
            ET.SubElement(
                joint, "mimic", joint=other, multiplier=number(parameters["coupling_ratio"][row]),
                offset=number(parameters["coupling_offset"][row]),
            )  # fmt: skip

    def _add_frame(self, root: ET.Element, frame: Frame) -> None:
        ET.SubElement(root, "link", name=frame.name)
        name = free_name(f"{frame.name}_fixed", self.joints)
        self.joints.add(name)
        _joint(root, name, "fixed", self.links[frame.link], frame.name, frame.placement)


def _joint(root: ET.Element, name: str, type: str, parent: str, child_link: str, placement: np.ndarray) -> ET.Element:
    joint = ET.SubElement(root, "joint", name=name, type=type)
    set_origin(joint, placement)
    ET.SubElement(joint, "parent", link=parent)
    ET.SubElement(joint, "child", link=child_link)
    return joint
