"""URDF: write new values of physical parameters into a robot file."""

import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model import Model
from warp_kernels.types import FREE

# Before and after, by the name of the parameter.
Changes = Mapping[str, tuple[np.ndarray, np.ndarray]]
NO_PLACE = ("armature", "stiffness", "rest_position", "gravity")


def write_urdf(source: Path, path: str | os.PathLike[str], model: Model, changes: Changes) -> None:
    """Copy a URDF file with the parameters that have changed in it.

    Args:
        source: the file that the model was read from, with links joined by fixed joints kept apart.
        path: the file to write.
        model: the model.
        changes: parameters before and after, ``[n, ...]``; "mass", "com", "inertia", "joint_placement", "damping" are
            written.

    Raises:
        ModelError: for a link or joint that is not in the file, and for a change that URDF has no place for.
    """
    tree = ET.parse(source, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True)))
    robot = tree.getroot()
    links = {str(link.get("name")): link for link in robot.findall("link")}
    joints = {str(joint.get("name")): joint for joint in robot.findall("joint")}
    if set(links) != set(model.link_names):
        raise ModelError(
            f"{source}: the model's links are not those of the file; load the robot with collapse_fixed=False and "
            "without a name"
        )
    for name in NO_PLACE:
        if name in changes and not np.array_equal(*changes[name]):
            raise ModelError(f"{name} has changed, and URDF has no place for it; set it back before writing")
    for number, name in enumerate(model.link_names):
        if any(_differs(changes[key], number) for key in ("mass", "com", "inertia")):
            mass, com, inertia = (changes[key][1][number] for key in ("mass", "com", "inertia"))
            _write_inertial(links[name], float(mass), com, inertia)
        joint = model.joint_names[number]
        if _differs(changes["joint_placement"], number):
            if joint not in joints or model.joint_type[number] == FREE:
                raise ModelError(f"the placement of joint '{joint}' has changed, and the file has no place for it")
            _write_origin(_child(joints[joint], "origin"), changes["joint_placement"][1][number])
        ends = [*model.joint_qd_start[1:], model.nv]
        dofs = range(int(model.joint_qd_start[number]), int(ends[number]))
        if any(_differs(changes["damping"], dof) for dof in dofs):
            damping = changes["damping"][1][list(dofs)]
            if joint not in joints or np.ptp(damping) > 0.0:
                raise ModelError(
                    f"damping of joint '{joint}' differs between its axes, and the file has no place for it"
                )
            _child(joints[joint], "dynamics").set("damping", _number(damping[0]))
    tree.write(path, encoding="utf-8", xml_declaration=True)


def _differs(change: tuple[np.ndarray, np.ndarray], index: int) -> bool:
    before, after = change
    return not np.array_equal(before[index], after[index])


def _write_inertial(link: ET.Element, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
    inertial = _child(link, "inertial")
    origin = _child(inertial, "origin")
    origin.set("xyz", _numbers(com))
    origin.set("rpy", "0 0 0")
    _child(inertial, "mass").set("value", _number(mass))
    element = _child(inertial, "inertia")
    symmetric = 0.5 * (inertia + inertia.T)
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        element.set(f"i{'xyz'[i]}{'xyz'[j]}", _number(symmetric[i, j]))


def _write_origin(origin: ET.Element, placement: np.ndarray) -> None:
    with warnings.catch_warnings():
        # Where pitch is a right angle, one of the other two is free and SciPy says so.
        warnings.filterwarnings("ignore", message=".*[Gg]imbal")
        angles = Rotation.from_quat(placement[3:]).as_euler("xyz")
    origin.set("xyz", _numbers(placement[:3]))
    origin.set("rpy", _numbers(angles))


def _child(element: ET.Element, tag: str) -> ET.Element:
    child = element.find(tag)
    return ET.SubElement(element, tag) if child is None else child


def _numbers(values: Sequence[float] | np.ndarray) -> str:
    return " ".join(_number(value) for value in values)


def _number(value: float) -> str:
    return repr(float(value))
