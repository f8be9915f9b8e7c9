"""Types of joint outside of the kernels: one table entry each, from which the rest of ``sim`` reads.

``warp_kernels/kinematics`` has the same for the kernels: transform, motion subspace and integration.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from warp_kernels import types as codes


@dataclass(frozen=True)
class JointType:
    """Type of joint.

    Attributes:
        code: code in :mod:`warp_kernels.types`.
        name: name in :meth:`sim.ModelBuilder.add_joint` and in messages.
        dofs: number of velocities.
        coordinates: number of coordinates.
        subspace: ``subspace(axis)`` returns the motion of the child in its own frame, angular part first [6, dofs].
        pose: ``pose(axis, q)`` returns the pose of the child in the joint frame, position and quaternion xyzw [7].
        scalar: whether it has one coordinate along or about an axis: only such joints have limits, springs, couplings
            and actuators.
        angular: whether that coordinate is an angle [rad] rather than a length [m].
        quaternion: offset of a quaternion among the coordinates, and of the angular velocity among the velocities; None
            without quaternion.
        local_rate: whether that angular velocity is along the child's axes rather than world axes.
        urdf: names of the type in URDF files.
        mjcf: name of the type in MJCF files; None if a body without a joint represents it.
        usd: schema of UsdPhysics; None if a body without a joint represents it.
    """

    code: int
    name: str
    dofs: int
    coordinates: int
    subspace: Callable[[np.ndarray], np.ndarray]
    pose: Callable[[np.ndarray, np.ndarray], np.ndarray]
    scalar: bool = False
    angular: bool = False
    quaternion: int | None = None
    local_rate: bool = False
    urdf: tuple[str, ...] = ()
    mjcf: str | None = None
    usd: str | None = None

    @property
    def has_axis(self) -> bool:
        """Return whether the motion depends on the joint's axis."""
        return not np.array_equal(self.subspace(np.eye(3)[0]), self.subspace(np.eye(3)[2]))


ORIGIN = np.zeros(3)
NO_TURN = np.array([0.0, 0.0, 0.0, 1.0])

JOINT_TYPES = {
    each.code: each
    for each in (
        JointType(
            codes.FIXED, "fixed", 0, 0,
            subspace=lambda axis: np.zeros((6, 0)),
            pose=lambda axis, q: np.concatenate([ORIGIN, NO_TURN]),
            urdf=("fixed",), usd="FixedJoint",
        ),
        JointType(
            codes.REVOLUTE, "revolute", 1, 1,
            subspace=lambda axis: np.concatenate([axis, ORIGIN])[:, None],
            pose=lambda axis, q: np.concatenate([ORIGIN, Rotation.from_rotvec(axis * q[0]).as_quat()]),
            scalar=True, angular=True, urdf=("revolute", "continuous"), mjcf="hinge", usd="RevoluteJoint",
        ),
        JointType(
            codes.PRISMATIC, "prismatic", 1, 1,
            subspace=lambda axis: np.concatenate([ORIGIN, axis])[:, None],
            pose=lambda axis, q: np.concatenate([axis * q[0], NO_TURN]),
            scalar=True, urdf=("prismatic",), mjcf="slide", usd="PrismaticJoint",
        ),
        JointType(
            codes.SPHERICAL, "spherical", 3, 4,
            subspace=lambda axis: np.eye(6)[:, :3],
            pose=lambda axis, q: np.concatenate([ORIGIN, q]),
            quaternion=0, local_rate=True, urdf=("spherical", "ball"), mjcf="ball", usd="SphericalJoint",
        ),
        JointType(
            codes.FREE, "free", 6, 7,
            subspace=lambda axis: np.eye(6),
            pose=lambda axis, q: np.array(q),
            quaternion=3, urdf=("floating",), mjcf="free",
        ),
    )
}  # fmt: skip
# Joint types by user-facing name; a continuous joint is a revolute one without limits.
JOINT_TYPE_BY_NAME = {each.name: each for each in JOINT_TYPES.values()} | {"continuous": JOINT_TYPES[codes.REVOLUTE]}


def joint_type(joint: str, type: str) -> JointType:
    """Return the type of a joint that a user named. Raises ModelError, naming the joint, for an unknown one."""
    if type not in JOINT_TYPE_BY_NAME:
        raise ModelError(f"joint '{joint}': unknown type {type!r}; known are {', '.join(JOINT_TYPE_BY_NAME)}")
    return JOINT_TYPE_BY_NAME[type]


def name_in_files(code: int, form: str, joint: str) -> str:
    """Return the name of a joint's type in files of a format: "urdf", "mjcf" or "usd".

    Raises:
        ModelError: for a type that the format has no name for.
    """
    found = JOINT_TYPES.get(code)
    names = getattr(found, form, None)
    name = names[0] if isinstance(names, tuple) and names else names
    if not name:
        kind = f"type '{found.name}'" if found is not None else f"the unknown type {code}"
        raise ModelError(
            f"joint '{joint}' has {kind}, which {form.upper()} doesn't support; replace it by other joints"
        )
    return str(name)


def is_scalar(code: int) -> bool:
    """Return whether joints of a type have one coordinate along or about an axis."""
    return JOINT_TYPES[int(code)].scalar
