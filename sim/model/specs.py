"""What a :class:`sim.ModelBuilder` collects, as the user described it, and the names of kinds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.model.model import Geometry
from warp_kernels import types as codes

WORLD = "world"

JOINT_CODES = {
    "fixed": codes.FIXED,
    "revolute": codes.REVOLUTE,
    "continuous": codes.REVOLUTE,
    "prismatic": codes.PRISMATIC,
    "spherical": codes.SPHERICAL,
    "free": codes.FREE,
}
GEOMETRY_CODES = {
    "plane": codes.PLANE,
    "sphere": codes.SPHERE,
    "capsule": codes.CAPSULE,
    "box": codes.BOX,
    "convex": codes.CONVEX,
    "cylinder": codes.CYLINDER,
    "ellipsoid": codes.ELLIPSOID,
    "heightfield": codes.HEIGHTFIELD,
}
# How many of the first sizes must be positive.
POSITIVE_SIZES = {
    codes.PLANE: 0,
    codes.SPHERE: 1,
    codes.CAPSULE: 2,
    codes.CYLINDER: 2,
    codes.BOX: 3,
    codes.CONVEX: 3,
    codes.ELLIPSOID: 3,
    codes.HEIGHTFIELD: 3,
}
ACTUATOR_CODES = {"torque": codes.TORQUE, "position": codes.POSITION, "velocity": codes.VELOCITY}
JOINT_DOFS = {codes.FIXED: 0, codes.REVOLUTE: 1, codes.PRISMATIC: 1, codes.SPHERICAL: 3, codes.FREE: 6}
JOINT_COORDINATES = {codes.FIXED: 0, codes.REVOLUTE: 1, codes.PRISMATIC: 1, codes.SPHERICAL: 4, codes.FREE: 7}

Vector = Sequence[float] | npt.NDArray[np.floating]
IDENTITY_QUATERNION = (0.0, 0.0, 0.0, 1.0)


@dataclass
class LinkSpec:
    """A link as the user described it. ``mass`` None: it came without inertial data."""

    name: str
    mass: float | None
    com: np.ndarray
    inertia: np.ndarray


@dataclass
class JointSpec:
    """A joint as the user described it; angles in rad, lengths in m."""

    name: str
    type: int
    parent: str
    child: str
    placement: np.ndarray
    axis: np.ndarray
    lower: float = -np.inf
    upper: float = np.inf
    effort: float = np.inf
    velocity: float = np.inf
    damping: float = 0.0
    armature: float = 0.0
    stiffness: float = 0.0
    rest_position: float = 0.0
    friction_loss: float = 0.0
    limit_margin: float = 0.0
    limit_stiffness: float = np.inf
    limit_damping: float = 0.0
    swing_limit: float = np.inf
    twist_limit: float = np.inf
    q0: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass
class GeometrySpec:
    """A geometry with the name of its link and its contact parameters."""

    link: str
    geometry: Geometry
    friction: float
    restitution: float
    torsional_friction: float
    rolling_friction: float
    contact_stiffness: float
    contact_damping: float


@dataclass
class ActuatorSpec:
    """An actuator as the user described it; kind is a code of :mod:`warp_kernels.types`."""

    name: str
    joint: str
    kind: int
    gear: float
    kp: float
    kd: float
    force_limit: float
