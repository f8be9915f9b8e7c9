"""Constraints beyond the tree of joints: anchors, and coupled degrees of freedom."""

from dataclasses import replace

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Body, Homes
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.poses import compose, inverse
from sim.model.specs import IDENTITY_QUATERNION, AnchorSpec, CouplingSpec, JointSpec, WorldSpec


def centre_of_mass(world: WorldSpec, home: Homes, link: str) -> np.ndarray:
    """Return the centre of mass of a link in the body that it belongs to [3]; the world's is its origin."""
    com = world.links[link].com if link in world.links else np.zeros(3)
    return compose(home[link][1], np.array([*com, *IDENTITY_QUATERNION]))[:3]


def compute_anchors(
    specs: list[AnchorSpec], home: Homes, bodies: list[Body], moves: list[bool]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return links [n, 2] and the anchors a and b in their frames [n, 7].

    Args:
        specs: constraints as the user described them.
        home: body and pose there of every named link.
        bodies: links of the model.
        moves: whether each of them moves.

    Raises:
        ModelError: naming the constraint with an unknown link, two links of one body, or two links that don't move.
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
                "other; remove the constraint"
            )
        anchors[0, row] = compose(home[spec.link_a][1], spec.anchor_a)
        if spec.anchor_b is not None:
            anchors[1, row] = compose(home[spec.link_b][1], spec.anchor_b)
        else:
            anchor = compose(poses[a], anchors[0, row]) if a >= 0 else anchors[0, row]
            anchors[1, row] = compose(inverse(poses[b]), anchor) if b >= 0 else anchor
    return links, anchors[0], anchors[1]


def initial_poses(bodies: list[Body]) -> list[np.ndarray]:
    """Return the pose of each link in the world in the initial configuration [7]."""
    poses: list[np.ndarray] = []
    for body in bodies:
        joint = body.joint
        pose = compose(joint.placement, JOINT_TYPES[joint.type].pose(joint.axis, joint.q0))
        poses.append(compose(poses[body.parent], pose) if body.parent >= 0 else pose)
    return poses


def fit_followers(specs: list[CouplingSpec], bodies: list[Body]) -> None:
    """Set initial coordinates of coupled joints from those that they follow, chains included.

    Raises:
        ModelError: naming the joints of a cycle of couplings.
    """
    joints = {body.joint.name: body for body in bodies}
    acting = [spec for spec in specs if spec.active is not False]
    followers = {spec.joint: spec for spec in acting if spec.joint in joints and spec.other in joints}
    waiting = dict(followers)
    while waiting:
        ready = [name for name, spec in waiting.items() if spec.other not in waiting]
        if not ready:
            names = ", ".join(f"'{name}'" for name in waiting)
            raise ModelError(f"the couplings of joints {names} form a cycle; remove one of them")
        for name in ready:
            spec = waiting.pop(name)
            joint = joints[name].joint
            joints[name].joint = replace(joint, q0=spec.ratio * joints[spec.other].joint.q0 + spec.offset)


def coupled_dofs(specs: list[CouplingSpec], joints: list[JointSpec], starts: np.ndarray) -> np.ndarray:
    """Return the degrees of freedom of the joints and of those that they follow, int32 [n, 2].

    Raises:
        ModelError: naming the joint: unknown, of a type without exactly one degree of freedom, or following itself.
    """
    index = {joint.name: number for number, joint in enumerate(joints)}
    dofs = np.zeros((len(specs), 2), dtype=np.int32)
    for row, spec in enumerate(specs):
        for side, name in enumerate((spec.joint, spec.other)):
            if name not in index:
                raise ModelError(
                    f"coupling of joint '{spec.joint}' with '{spec.other}': no moving joint named '{name}'"
                )
            if not is_scalar(joints[index[name]].type):
                raise ModelError(
                    f"coupling of joint '{spec.joint}' with '{spec.other}': only revolute and prismatic joints can be "
                    f"coupled, but '{name}' is neither"
                )
            dofs[row, side] = starts[index[name]]
    return dofs
