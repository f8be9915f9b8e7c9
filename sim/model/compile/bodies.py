"""Links of a model: their order in the trees, and the masses of links welded to each."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.poses import IDENTITY, compose
from sim.model.shapes.inertia import NEGLIGIBLE_INERTIA
from sim.model.specs import WORLD, JointSpec, LinkSpec, WorldSpec
from warp_kernels import types as codes

# Index of the body that each named link belongs to (-1 is the world), and its pose there [7].
Homes = dict[str, tuple[int, np.ndarray]]


@dataclass
class Body:
    """A link of the model, with the links merged into it."""

    name: str
    joint: JointSpec
    parent: int
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    has_inertial: bool = False
    gravity_compensation: float = 0.0


def joint_of_each_link(world: WorldSpec) -> dict[str, JointSpec]:
    """Return the joint of each link. Raises ModelError for unknown links, and for links without or with two joints."""
    joint_of: dict[str, JointSpec] = {}
    for joint in world.joints.values():
        if joint.child not in world.links:
            raise ModelError(f"joint '{joint.name}': unknown child link '{joint.child}'; add it with add_link")
        if joint.parent != WORLD and joint.parent not in world.links:
            raise ModelError(f"joint '{joint.name}': unknown parent link '{joint.parent}'; add it with add_link")
        if joint.child in joint_of:
            raise ModelError(
                f"link '{joint.child}' has two joints, '{joint_of[joint.child].name}' and '{joint.name}'; "
                "remove one, or close the loop with add_point_constraint or add_weld_constraint"
            )
        joint_of[joint.child] = joint
    for link in world.links:
        if link not in joint_of:
            raise ModelError(f"link '{link}' has no joint; connect it with add_joint (type 'free' for a loose body)")
    return joint_of


def depth_first(world: WorldSpec) -> list[str]:
    """Return the links, each after its parent. Raises ModelError for a cycle of joints."""
    children: dict[str, list[str]] = {name: [] for name in (WORLD, *world.links)}
    for joint in world.joints.values():
        children[joint.parent].append(joint.child)
    # Trees are in the order in which their root links were added, children in the order of their joints.
    position = {name: number for number, name in enumerate(world.links)}
    order: list[str] = []
    stack = sorted(children[WORLD], key=lambda name: position[name], reverse=True)
    while stack:
        link = stack.pop()
        order.append(link)
        stack.extend(reversed(children[link]))
    if len(order) < len(world.links):
        reached = set(order)
        loop = [link for link in world.links if link not in reached]
        raise ModelError(
            f"the joints of links {', '.join(repr(name) for name in loop)} form a cycle without the world; connect one "
            "of them to it"
        )
    return order


def merge_links(
    world: WorldSpec, joint_of: dict[str, JointSpec], order: list[str], collapse_fixed: bool
) -> tuple[list[Body], Homes]:
    """Return the links that the model keeps, and the body of every link of the description.

    Args:
        world: the description.
        joint_of: joint of each link.
        order: links, each after its parent.
        collapse_fixed: merge links on fixed joints into their parent links, unless a sensor measures the reaction of
            that joint.
    """
    sensed = {
        world.frames[sensor.target][0] if sensor.target in world.frames else sensor.target
        for sensor in world.sensors.values()
        if sensor.kind in ("force", "torque")
    }
    bodies: list[Body] = []
    home: Homes = {WORLD: (-1, IDENTITY)}
    for name in order:
        joint = joint_of[name]
        parent, placement = home[joint.parent]
        placement = compose(placement, joint.placement)
        link = world.links[name]
        merged = collapse_fixed and joint.type == codes.FIXED and not joint.kinematic and name not in sensed
        if merged and _may_merge(link, bodies[parent] if parent >= 0 else None):
            home[name] = (parent, placement)
        else:
            bodies.append(Body(name, replace(joint, placement=placement), parent))
            home[name] = (len(bodies) - 1, IDENTITY)
        index, placement = home[name]
        if index >= 0 and link.mass is not None:
            if link.mass > 0.0:
                bodies[index].gravity_compensation = link.gravity_compensation or 0.0
            _merge(bodies[index], link.mass, link.com, link.inertia, placement)
    return bodies, home


def _may_merge(link: LinkSpec, body: Body | None) -> bool:
    """Return whether a welded link may join its parent (None: the world), which has the same gravity compensation."""
    if body is None or not link.mass or not body.mass:
        return True
    return body.gravity_compensation == (link.gravity_compensation or 0.0)


def _merge(body: Body, mass: float, com: np.ndarray, inertia: np.ndarray, placement: np.ndarray) -> None:
    """Add the mass of a welded link, whose frame is at ``placement`` in that of the body."""
    if placement is IDENTITY and not body.has_inertial:
        body.mass, body.com, body.inertia, body.has_inertial = mass, com, inertia, True
        return
    rotation = Rotation.from_quat(placement[3:]).as_matrix()
    point = placement[:3] + rotation @ com
    total = body.mass + mass
    centre = (body.mass * body.com + mass * point) / total if total > 0.0 else point
    body.inertia = (
        body.inertia
        + _point_inertia(body.mass, body.com - centre)
        + rotation @ inertia @ rotation.T
        + _point_inertia(mass, point - centre)
    )
    body.mass, body.com, body.has_inertial = total, centre, True


def movable_links(bodies: list[Body]) -> list[bool]:
    """Return whether forces move each link: a joint on its path is neither fixed nor kinematic."""
    movable: list[bool] = []
    for body in bodies:
        moves = body.joint.type != codes.FIXED and not body.joint.kinematic
        movable.append(moves or (body.parent >= 0 and movable[body.parent]))
    return movable


def _point_inertia(mass: float, r: np.ndarray) -> np.ndarray:
    return mass * (r @ r * np.eye(3) - np.outer(r, r))


def check_masses(bodies: list[Body]) -> tuple[str, ...]:
    """Return the names of moving links whose joint moves no mass because inertial data is missing.

    A link without mass is valid if a descendant, or an armature, gives its joint inertia.
    """
    carried = [body.mass for body in bodies]
    for index in reversed(range(len(bodies))):
        if bodies[index].parent >= 0:
            carried[bodies[index].parent] += carried[index]
    missing = []
    for body, mass in zip(bodies, carried, strict=True):
        if mass > 0.0 or body.joint.type == codes.FIXED or body.joint.armature > 0.0 or body.joint.kinematic:
            continue
        if body.has_inertial:
            raise ModelError(
                f"link '{body.name}' moves, but neither it nor its descendants have mass; give it a positive mass"
            )
        missing.append(body.name)
    return tuple(missing)


def check_inertias(bodies: list[Body]) -> None:
    """Raise ModelError for a negative moment of inertia.

    A single link may have one, if links welded to it make up for it.
    """
    for body in bodies:
        moments = np.linalg.eigvalsh(body.inertia)
        if moments[0] < -1e-6 * np.abs(body.inertia).max() - NEGLIGIBLE_INERTIA:
            raise ModelError(
                f"link '{body.name}': with the links welded to it, its principal moments of inertia are "
                f"{moments.tolist()}; a moving body requires positive ones"
            )
