"""Description of a world as a :class:`sim.ModelBuilder` collects it, and the names of kinds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.model.frames import MountedCamera, StagePrim
from sim.model.geometries import Geometry
from sim.model.looks.lights import MountedLight
from sim.model.medium import DragBox, Medium
from sim.model.model import Part
from sim.model.sensors.sensors import Sensor
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.tendons.muscles import Muscle
from sim.model.tendons.tendons import TendonCouplingSpec, TendonSpec
from warp_kernels import types as codes

WORLD = "world"
# Limits of this size or more count as none. URDF readers refuse "inf", so that files have such numbers.
UNREACHABLE = 1e30

GEOMETRY_CODES = {each.name: each.code for each in GEOMETRY_TYPES.values()}
# Rules that combine the friction of a pair of geometries.
FRICTION_RULES = ("product", "maximum")
ACTUATOR_CODES = {
    "torque": codes.TORQUE, "position": codes.POSITION, "velocity": codes.VELOCITY, "affine": codes.AFFINE,
    "muscle": codes.MUSCLE,
}  # fmt: skip
# Dynamics of an actuator's state.
DYNAMICS_CODES = {
    "none": codes.STATELESS, "integrator": codes.INTEGRATOR, "filter": codes.FILTER,
    "filterexact": codes.EXACT_FILTER, "muscle": codes.MUSCLE_FILTER, "pid": codes.PID, "current": codes.CURRENT,
}  # fmt: skip
# Further numbers of actuators whose states have some dynamics.
OF_STATES = {
    codes.MUSCLE_FILTER: ("fall_time", "smoothing"), codes.PID: ("ki", "integral_limit"),
    codes.CURRENT: ("resistance",),
}  # fmt: skip
# Gains of each kind of actuator.
ACTUATOR_GAINS = {
    "kp": (codes.POSITION, codes.AFFINE),
    "kd": (codes.POSITION, codes.VELOCITY, codes.AFFINE),
    **dict.fromkeys(("gain", "offset", "kp_per_input", "kd_per_input"), (codes.AFFINE,)),
}

Vector = Sequence[float] | npt.NDArray[np.floating]
IDENTITY_QUATERNION = (0.0, 0.0, 0.0, 1.0)


@dataclass(kw_only=True)
class LinkSpec:
    """Link as the user described it. ``mass`` is None without inertial data."""

    name: str
    mass: float | None
    com: np.ndarray
    inertia: np.ndarray
    gravity_compensation: float | None


@dataclass(kw_only=True)
class JointSpec:
    """Joint as the user described it; angles in rad, lengths in m. ``type`` is a code."""

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
    rest_position: float | np.ndarray = 0.0  # with several degrees of freedom an entry for each
    friction_loss: float = 0.0
    limit_margin: float = 0.0
    limit_stiffness: float = np.inf
    limit_damping: float = 0.0
    swing_limit: float = np.inf
    twist_limit: float = np.inf
    rotation_limit: float = np.inf
    limit_softness: Softness = DEFAULT_SOFTNESS
    friction_softness: Softness = DEFAULT_SOFTNESS
    kinematic: bool = False
    origin: np.ndarray | None = None  # of a floating joint in a file, a pose in the world [7]
    q0: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(kw_only=True)
class GeometrySpec:
    """Geometry with the name of its link and its contact parameters."""

    link: str
    geometry: Geometry
    friction: float
    friction_across: float
    restitution: float
    torsional_friction: float
    rolling_friction: float
    contact_stiffness: float
    contact_damping: float
    surface_velocity: Sequence[float] | None
    surface_spin: Sequence[float] | None


@dataclass(kw_only=True)
class ActuatorSpec:
    """Actuator as the user described it; kind is a code of :mod:`warp_kernels.types`.

    Exactly one of ``joint``, ``tendon``, ``frame`` and ``adhesion`` (a link) is given.
    """

    name: str
    joint: str | None
    tendon: str | None
    frame: str | None
    reference: str | None
    adhesion: str | None
    force_axis: np.ndarray
    torque_axis: np.ndarray
    kind: int
    gear: float
    kp: float
    kd: float
    gain: float
    offset: float
    kp_per_input: float
    kd_per_input: float
    force_centre: float
    force_limit: float
    control_range: tuple[float, float]
    dynamics: int
    time_constant: float
    act_range: tuple[float, float]
    act_early: bool
    fall_time: float
    smoothing: float
    muscle: Muscle | None
    delay: float
    delay_samples: int
    ki: float
    integral_limit: float
    resistance: float
    stall_force: float
    no_load_speed: float


@dataclass(kw_only=True)
class AnchorSpec:
    """Two coincident frames on two links: their origins only, or with ``welded`` their axes too.

    ``anchor_b`` is None if it is where anchor_a is in the initial configuration. ``softness`` and ``torque_scale`` are
    those of MuJoCo's law. ``active`` is whether it is on at first, None for one that never switches. It breaks above
    ``break_force`` [N] and, if welded, ``break_torque`` [N m].
    """

    name: str
    link_a: str
    link_b: str
    anchor_a: np.ndarray
    anchor_b: np.ndarray | None
    welded: bool
    softness: Softness = DEFAULT_SOFTNESS
    torque_scale: float = 1.0
    active: bool | None = None
    break_force: float = np.inf
    break_torque: float = np.inf


@dataclass(kw_only=True)
class CouplingSpec:
    """Joint whose coordinate is that of another times ratio plus offset; its softness under MuJoCo's law, and
    ``active`` and ``break_force`` as those of :class:`AnchorSpec`.
    """

    joint: str
    other: str
    ratio: float
    offset: float
    softness: Softness = DEFAULT_SOFTNESS
    active: bool | None = None
    break_force: float = np.inf


@dataclass(kw_only=True, eq=False, repr=False)
class WorldSpec:
    """One world as the user described it: collected by :class:`sim.ModelBuilder` and read by the compiler.

    Attributes:
        gravity: gravity in the world frame [m/s^2], [3].
        links: links by name, as are joints, geometries and actuators.
        frames: link of each named frame, and its pose there [7].
        cameras: link of each camera, and the camera as in :class:`sim.model.frames.MountedCamera`, placed in that link.
        lights: link of each light, and the light as in :class:`sim.model.looks.lights.MountedLight`, placed there.
        stage_prims: link of each prim of a USD file, and the prim, placed in that link.
        parts: groups of links and joints that were added together.
        anchors: point and weld constraints by name.
        couplings: couplings by the joint that follows.
        tendons: tendons by name.
        tendon_couplings: couplings of tendons by name.
        unnamed: for each kind of body, an index below which all names made from the kind are in use.
        shapes_of: number of geometries of each link.
        excluded: pairs of links that never collide.
        excluded_groups: groups of links of which no two collide.
        excluded_geometries: pairs of geometries that never collide.
        pair_frictions: friction of pairs of geometries: MuJoCo's five numbers, in the order of
            :data:`sim.model.parameters.OF_PAIRS`; across is None for pairs with one number for both tangents.
        pair_softness: softness, margin and gap of pairs of geometries.
        sensors: sensors by name.
        medium: medium around all links, or None.
        drag_boxes: boxes that it drags.
        from_mujoco: numbers of links and geometries from MJCF files.
        soft_notes: properties of these files that hard contact doesn't use.
    """

    gravity: np.ndarray
    links: dict[str, LinkSpec] = field(default_factory=dict)
    joints: dict[str, JointSpec] = field(default_factory=dict)
    geometries: dict[str, GeometrySpec] = field(default_factory=dict)
    actuators: dict[str, ActuatorSpec] = field(default_factory=dict)
    frames: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    cameras: dict[str, tuple[str, MountedCamera]] = field(default_factory=dict)
    lights: dict[str, tuple[str, MountedLight]] = field(default_factory=dict)
    stage_prims: list[tuple[str, StagePrim]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    anchors: dict[str, AnchorSpec] = field(default_factory=dict)
    couplings: dict[str, CouplingSpec] = field(default_factory=dict)
    tendons: dict[str, TendonSpec] = field(default_factory=dict)
    tendon_couplings: dict[str, TendonCouplingSpec] = field(default_factory=dict)
    unnamed: Counter[str] = field(default_factory=Counter)
    shapes_of: Counter[str] = field(default_factory=Counter)
    excluded: set[frozenset[str]] = field(default_factory=set)
    excluded_groups: list[frozenset[str]] = field(default_factory=list)
    excluded_geometries: set[frozenset[str]] = field(default_factory=set)
    pair_frictions: dict[frozenset[str], tuple[float, float | None, float, float, float | None]] = field(
        default_factory=dict
    )
    pair_softness: dict[frozenset[str], tuple[Softness, float, float]] = field(default_factory=dict)
    sensors: dict[str, Sensor] = field(default_factory=dict)
    medium: Medium | None = None
    drag_boxes: list[DragBox] = field(default_factory=list)
    from_mujoco: Counter[str] = field(default_factory=Counter)
    soft_notes: list[str] = field(default_factory=list)

    def elements(self) -> Counter[str]:
        """Return the numbers of links and geometries, as in ``from_mujoco``."""
        return Counter(links=len(self.links), geometries=len(self.geometries))
