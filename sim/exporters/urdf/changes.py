"""Updates of physical parameters in an existing URDF file."""

import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sim.errors import ModelError, URDFWarning
from sim.exporters.files import number
from sim.exporters.urdf.elements import child, set_inertial, set_origin
from sim.importers.formats import ModelBuilder
from sim.model.model import Model
from sim.output import WritingFolder, system_errors
from warp_kernels.types import FREE

# Values before and after, by the name of the parameter
Changes = Mapping[str, tuple[np.ndarray, np.ndarray]]
UNSUPPORTED = ("armature", "stiffness", "rest_position", "gravity")
# Attributes of a joint's <dynamics>, by the parameter.
DYNAMICS = {"damping": "damping", "friction_loss": "friction"}


def update_urdf(source: Path, path: str | os.PathLike[str], model: Model, changes: Changes) -> None:
    """Copy a URDF file with changed parameters.

    Args:
        source: the file that the model was read from, with collapse_fixed=False.
        path: the file to write.
        model: the model.
        changes: parameters before and after, ``[n, ...]``; "mass", "com", "inertia", "joint_placement", "damping" and
            "friction_loss" are written.

    Raises:
        ModelError: for a link or joint that is not in the file, for a change that URDF can't represent, and for one
            that makes the file unreadable. Then nothing is written.
    """
    robot = ET.parse(source, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))).getroot()
    links = {str(link.get("name")): link for link in robot.findall("link")}
    joints = {str(joint.get("name")): joint for joint in robot.findall("joint")}
    if set(links) != set(model.link_names):
        raise ModelError(
            f"{source}: the model's links differ from those of the file; load the robot with collapse_fixed=False and "
            "without a name"
        )
    for name in UNSUPPORTED:
        if name in changes and not np.array_equal(*changes[name]):
            raise ModelError(f"{name} has changed, but URDF can't represent it; restore it before writing")
    for index, name in enumerate(model.link_names):
        if any(_differs(changes[key], index) for key in ("mass", "com", "inertia")):
            mass, com, inertia = (changes[key][1][index] for key in ("mass", "com", "inertia"))
            set_inertial(links[name], float(mass), com, inertia)
        joint = model.joint_names[index]
        if _differs(changes["joint_placement"], index):
            if joint not in joints or model.joint_type[index] == FREE:
                raise ModelError(
                    f"the placement of joint '{joint}' has changed, but the file can't represent it; "
                    f"restore it before writing"
                )
            set_origin(joints[joint], changes["joint_placement"][1][index])
        ends = [*model.joint_qd_start[1:], model.nv]
        dofs = range(int(model.joint_qd_start[index]), int(ends[index]))
        for parameter, attribute in DYNAMICS.items():
            if any(_differs(changes[parameter], dof) for dof in dofs):
                values = changes[parameter][1][list(dofs)]
                if joint not in joints or np.ptp(values) > 0.0:
                    raise ModelError(
                        f"{parameter} of joint '{joint}' has changed, but the file can't represent "
                        f"{values.tolist()}; restore it before writing"
                    )
                child(joints[joint], "dynamics").set(attribute, number(values[0]))
    _write(ET.tostring(robot, encoding="utf-8", xml_declaration=True), Path(path))


def _write(text: bytes, path: Path) -> None:
    """Write a file after reading it once without merging links, so that errors name its values."""
    with system_errors(path), WritingFolder(path.parent) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", URDFWarning)  # these were issued when the robot was read
        new = folder / path.name
        new.write_bytes(text)
        builder = ModelBuilder()
        try:
            builder.add_urdf(new, visual=False, collision=False, mimic="free")
            builder.finalize(collapse_fixed=False)
        except ModelError as error:
            raise ModelError(f"{str(error).replace(str(new), str(path))}; correct it before writing") from None
        new.replace(path)


def _differs(change: tuple[np.ndarray, np.ndarray], index: int) -> bool:
    before, after = change
    return not np.array_equal(before[index], after[index])
