"""Constraints beyond the tree of joints: where their anchors are, which joints are coupled."""

from dataclasses import replace

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Body, Homes
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.poses import compose, inverse
from sim.model.specs import IDENTITY_QUATERNION, AnchorSpec, CouplingSpec, JointSpec, WorldSpec


def centre_of_mass(world: WorldSpec, home: Homes, link: str) -> np.ndarray:
    """Of a link alone, in the one that it belongs to [3]; that of the world lies in its origin."""
    com = world.links[link].com if link in world.links else np.zeros(3)
    return compose(home[link][1], np.array([*com, *IDENTITY_QUATERNION]))[:3]


def place_anchors(
    specs: list[AnchorSpec], home: Homes, bodies: list[Body], moves: list[bool]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links [n, 2] and the anchors a and b in their frames [n, 7].

    Args:
        specs: what the user asked for.
        home: for every name the link it belongs to with its pose there.
        bodies: the links of the model.
        moves: whether each of them moves.

    Raises:
        ModelError: naming the constraint with an unknown link, two links that are one body, or two that don't move.
    """
    poses = initial_poses(bodies) if any(spec.anchor_b is None for spec in specs) else []
    links = np.zeros((len(specs), 2), dtype=np.int32)
    anchors = np.zeros((2, len(specs), 7))
    for row, spec in enumerate(specs):
        for side, link in enumerate((spec.link_a, spec.link_b)):
            if link not in home:
                raise ModelError(f"constraint '{spec.name}': unknown link '{link}'")
            links[row, side] = home[link][0]
        a, b = links[row]
        if a == b or not any(link >= 0 and moves[link] for link in (a, b)):
            raise ModelError(
                f"constraint '{spec.name}': links '{spec.link_a}' and '{spec.link_b}' can't move relative to each "
                "other, so there is nothing to constrain"
            )
        anchors[0, row] = compose(home[spec.link_a][1], spec.anchor_a)
        if spec.anchor_b is not None:
            anchors[1, row] = compose(home[spec.link_b][1], spec.anchor_b)
        else:
            place = compose(poses[a], anchors[0, row]) if a >= 0 else anchors[0, row]
            anchors[1, row] = compose(inverse(poses[b]), place) if b >= 0 else place
    return links, anchors[0], anchors[1]


def initial_poses(bodies: list[Body]) -> list[np.ndarray]:
    """Pose of each link in the world in the initial configuration [7]."""
    poses: list[np.ndarray] = []
    for body in bodies:
        joint = body.joint
        pose = compose(joint.placement, JOINT_TYPES[joint.type].pose(joint.axis, joint.q0))
        poses.append(compose(poses[body.parent], pose) if body.parent >= 0 else pose)
    return poses


def fit_followers(specs: list[CouplingSpec], bodies: list[Body]) -> None:
    """Give coupled joints the initial coordinates that fit those they follow, chains of followers included.

    Raises:
        ModelError: naming the joints that follow each other in a ring.
    """
    joints = {body.joint.name: body for body in bodies}
    followers = {spec.joint: spec for spec in specs if spec.joint in joints and spec.other in joints}
    waiting = dict(followers)
    while waiting:
        ready = [name for name, spec in waiting.items() if spec.other not in waiting]
        if not ready:
            names = ", ".join(f"'{name}'" for name in waiting)
            raise ModelError(f"the joints {names} follow each other in a ring of couplings; leave one of them out")
        for name in ready:
            spec = waiting.pop(name)
            joint = joints[name].joint
            joints[name].joint = replace(joint, q0=spec.ratio * joints[spec.other].joint.q0 + spec.offset)


def coupled_dofs(specs: list[CouplingSpec], joints: list[JointSpec], starts: np.ndarray) -> np.ndarray:
    """Degrees of freedom of the joints and of those that they follow, int32 [n, 2].

    Raises:
        ModelError: naming the joint: unknown, of a type with other than one degree of freedom, or following itself.
    """
    index = {joint.name: number for number, joint in enumerate(joints)}
    dofs = np.zeros((len(specs), 2), dtype=np.int32)
    for row, spec in enumerate(specs):
        for side, name in enumerate((spec.joint, spec.other)):
            if name not in index:
                raise ModelError(
                    f"coupling of joint '{spec.joint}' with '{spec.other}': there is no joint '{name}' that moves"
                )
            if not is_scalar(joints[index[name]].type):
                raise ModelError(
                    f"coupling of joint '{spec.joint}' with '{spec.other}': only revolute and prismatic joints can be "
                    f"coupled, '{name}' is neither"
                )
            dofs[row, side] = starts[index[name]]
    return dofs
