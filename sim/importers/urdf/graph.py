"""Links and joints of a URDF file as a checked tree."""

from dataclasses import dataclass

from sim.errors import ImportFileError
from sim.importers.xmltree import Element
from sim.model.joint_types import JOINT_TYPE_BY_NAME, JOINT_TYPES
from sim.model.specs import WORLD

# Joint types of URDF by the names of :meth:`sim.ModelBuilder.add_joint`
TYPES = {name: name if name in JOINT_TYPE_BY_NAME else each.name for each in JOINT_TYPES.values() for name in each.urdf}


@dataclass(frozen=True)
class JointElement:
    """A joint: its element, its type as in :meth:`sim.ModelBuilder.add_joint`, and the names of its links."""

    element: Element
    type: str
    parent: str
    child: str


@dataclass(frozen=True)
class RobotTree:
    """Links and joints by name in file order, and the name of the root link.

    ``order`` holds the link names, parents before children; ``joint_of`` the joint of every link but the root.
    """

    links: dict[str, Element]
    joints: dict[str, JointElement]
    root: str
    order: list[str]
    joint_of: dict[str, JointElement]


def read_tree(robot: Element) -> RobotTree:
    """Read and check the graph of a ``<robot>`` element.

    Raises:
        ImportFileError: naming the element: duplicate names, an unknown joint type, parent or child, two joints on one
            link, no link, more than one root, or a loop.
    """
    macro = next((child for child in robot.children if child.tag.startswith("xacro:")), None)
    if macro is not None:
        raise macro.error("is a xacro macro; expand the file with xacro first")
    links = _by_name(robot.all("link"))
    if not links:
        raise robot.error("has no <link>; it needs at least one")
    # Files for Drake join their robot to the world without defining a link of this name.
    if WORLD not in links and any(end.attributes.get("link") == WORLD for end in _parents(robot)):
        links[WORLD] = Element("link", {"name": WORLD}, robot.path, robot.line, robot)
    joints = {name: _joint(element, links) for name, element in _by_name(robot.all("joint")).items()}
    joint_of: dict[str, JointElement] = {}
    for joint in joints.values():
        if joint.child in joint_of:
            other = joint_of[joint.child].element
            raise joint.element.error(
                f"its child link '{joint.child}' already has the parent {other.label}; to close a loop, remove this "
                "joint and call add_point_constraint after reading the file"
            )
        joint_of[joint.child] = joint
    roots = [name for name in links if name not in joint_of]
    if len(roots) > 1:
        names = ", ".join(f"'{name}'" for name in roots)
        raise links[roots[1]].error(f"the robot has {len(roots)} root links, {names}; join them to one by joints")
    if not roots:
        raise robot.error(
            "the joints form a loop: every link is the child of a joint; remove a joint to get a root link"
        )
    order = _from_root(roots[0], joints)
    reached = set(order)
    loop = [name for name in links if name not in reached]
    if loop:
        names = ", ".join(f"'{name}'" for name in loop)
        raise links[loop[0]].error(f"is in a loop of joints that never reaches the root link '{roots[0]}': {names}")
    return RobotTree(links, joints, roots[0], order, joint_of)


def _parents(robot: Element) -> list[Element]:
    return [parent for joint in robot.all("joint") for parent in joint.all("parent")]


def _by_name(elements: list[Element]) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in elements:
        name = element.text("name")
        if name in found:
            raise element.error(f"a {element.tag} of this name exists already, in line {found[name].line}")
        found[name] = element
    return found


def _joint(element: Element, links: dict[str, Element]) -> JointElement:
    type = element.text("type")
    if type == "planar":
        raise element.error("planar joints are not supported; use two prismatic joints and a revolute one")
    if type not in TYPES:
        raise element.error(f"unknown joint type '{type}'; known are {', '.join(TYPES)}")
    ends = []
    for tag in ("parent", "child"):
        end = element.required(tag)
        name = end.text("link")
        if name not in links:
            raise end.error(f"unknown {tag} link '{name}'; add a <link> of this name")
        ends.append(name)
    return JointElement(element, TYPES[type], *ends)


def _from_root(root: str, joints: dict[str, JointElement]) -> list[str]:
    children: dict[str, list[str]] = {}
    for joint in joints.values():
        children.setdefault(joint.parent, []).append(joint.child)
    order = [root]
    for name in order:  # grows during the iteration
        order.extend(children.get(name, ()))
    return order


def not_a_robot(robot: Element) -> ImportFileError:
    """Return the error for a file whose root element is not ``<robot>``."""
    hint = "; it is an MJCF file; use add_mjcf" if robot.tag == "mujoco" else ""
    return ImportFileError(robot.path, f"is not a URDF file: its root element is <{robot.tag}>, expected <robot>{hint}")
