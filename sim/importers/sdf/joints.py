"""Joints of an SDF file: the child link, axis, limits and springs of each."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.sdf.scopes import ROOT, FlatModel, Scope, version_of
from sim.importers.sdf.values import bound, flag, number, numbers
from sim.importers.xmltree import Element
from sim.model.builder.properties import Limits, Spring
from sim.model.specs import WORLD

TYPES = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "ball": "spherical",
    "fixed": "fixed",
    "universal": "universal",
    "revolute2": "universal",
    "screw": "screw",
}
# SDF's limits by default
UNLIMITED = 1e16


@dataclass(frozen=True)
class JointFrame:
    """A joint with its full name, the scope of the names in it, its parent link and its type."""

    element: Element
    name: str
    scope: Scope
    parent: str
    type: str


def tree_of(model: FlatModel) -> dict[str, JointFrame]:
    """Return the parent joint of each link, by link.

    Raises:
        ImportFileError: naming a joint of another type, one whose links don't exist, or one that closes a loop.
    """
    found: dict[str, JointFrame] = {}
    for name, element in model.joints.items():
        type = element.text("type")
        if type not in TYPES:
            raise element.error(f"a {type} joint is not supported; types are {', '.join(TYPES)}")
        scope = model.scopes[name]
        parent, child = (_end(model, element, scope, tag) for tag in ("parent", "child"))
        if child == WORLD:
            raise element.error("its child is the world; exchange parent and child")
        if child in found:
            raise element.error(f"link '{child}' has a joint already, '{found[child].name}'; loops are not supported")
        found[child] = JointFrame(element, name, scope, parent, TYPES[type])
    for link, joint in found.items():
        above, seen = joint.parent, {link}
        while above in found and above not in seen:
            seen.add(above)
            above = found[above].parent
        if above in seen:
            raise joint.element.error(f"link '{link}' is its own ancestor by a loop of joints; loops are not supported")
    return found


def _end(model: FlatModel, element: Element, scope: Scope, tag: str) -> str:
    """Return the link at one end of a joint, or "world"; a frame stands for the link that it is attached to."""
    name = element.required(tag).content
    if name == WORLD:
        return WORLD
    link = model.link_of(scope.full(name))
    if link is None:
        raise element.error(f"its {tag} '{name}' is not a link of model '{model.name}'")
    return link


def screw_ratio(joint: JointFrame) -> float:
    """Return the displacement of a screw per angle of its rotation [m/rad].

    Raises:
        ImportFileError: for a screw without a pitch, or with the older one, which programs take for different things.
    """
    pitch = joint.element.optional("screw_thread_pitch")
    if pitch is None:
        raise joint.element.error(
            "a screw joint needs <screw_thread_pitch>, in metres a turn; <thread_pitch> is ambiguous"
        )
    return number(joint.element, "screw_thread_pitch", 0.0) / (2.0 * np.pi)


def joint_properties(
    model: FlatModel, joint: JointFrame, frame: np.ndarray, base: np.ndarray, tag: str = "axis"
) -> dict[str, object]:
    """Return the axis, limits, spring and dry friction of a joint, as arguments of :meth:`sim.ModelBuilder.add_joint`.

    Args:
        model: the model.
        joint: the joint.
        frame: pose of its child link in the world [7].
        base: the pose of the file's world.
        tag: "axis", or "axis2" of a joint with two.
    """
    element = joint.element
    if joint.type in ("fixed", "spherical"):
        return {}
    axis = element.optional(tag)
    if axis is None:
        raise element.error(f"a {joint.type} joint needs an <{tag}>")
    limit, dynamics = axis.optional("limit"), axis.optional("dynamics")
    properties: dict[str, object] = {"axis": _axis(model, joint, axis, frame, base)}
    effort, velocity = (bound(limit, key, np.inf, UNLIMITED) for key in ("effort", "velocity"))
    lower, upper = -np.inf, np.inf
    if joint.type != "continuous":
        lower, upper = bound(limit, "lower", lower, UNLIMITED), bound(limit, "upper", upper, UNLIMITED)
    # Negative efforts and velocities mean no limit.
    effort, velocity = (value if value >= 0.0 else np.inf for value in (effort, velocity))
    properties["limits"] = Limits(lower, upper, effort=effort, velocity=velocity)
    if dynamics is not None:
        properties["spring"] = Spring(
            stiffness=number(dynamics, "spring_stiffness", 0.0), damping=number(dynamics, "damping", 0.0),
            rest=number(dynamics, "spring_reference", 0.0),
        )  # fmt: skip
        properties["friction_loss"] = number(dynamics, "friction", 0.0)
    return properties


def _axis(model: FlatModel, joint: JointFrame, axis: Element, frame: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Return the axis in the link's frame [3]."""
    stated = axis.optional("xyz")
    xyz = np.array([0.0, 0.0, 1.0]) if stated is None else numbers(stated, 3)
    within, version = joint.name, version_of(axis)
    if stated is not None and stated.attributes.get("expressed_in"):
        within = joint.scope.full(stated.attributes["expressed_in"])
    elif version < (1, 7) and flag(axis, "use_parent_model_frame", default=version < (1, 5)):
        within = joint.scope.full(ROOT)
    there = model.pose_of(within, axis, base)
    return np.asarray(Rotation.from_quat(frame[3:]).inv().apply(Rotation.from_quat(there[3:]).apply(xyz)))
