"""Properties of geometries, joints, tendons and actuators, grouped as frozen dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.checks import (
    MOST_ITEMS,
    as_numbers,
    is_whole,
    number,
    require_choice,
    require_flags,
    require_names,
    require_type,
    two_numbers,
)
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import LEAST_INTEGER, finite, finite_and_not_negative
from sim.model.specs import DYNAMICS_CODES, FRICTION_RULES


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Contact properties of a geometry: friction, restitution, compliance and collision groups.

    Several geometries may share one surface; :func:`dataclasses.replace` changes some of its values. Of these, the
    model has parameters with gradients: ``friction``, ``friction_across``, ``restitution``, ``torsional_friction``,
    ``rolling_friction``, ``contact_stiffness``, ``contact_damping``, ``surface_velocity`` and ``surface_spin``.

    Attributes:
        friction: Coulomb friction; a pair uses the product of the two, see ``friction_rule``.
        friction_across: Coulomb friction across ``friction_direction``, for skis, tracks, fibres and rollers.
            ``friction`` is then that along it. Default: the same friction in all directions.
        friction_direction: direction in the geometry's frame; a contact uses its projection onto the surfaces. If both
            geometries of a pair have one, that of higher ``priority`` decides; with equal priorities neither counts,
            and ``friction`` is that of all directions.
        friction_angle: angle by which that projection is turned about the outward normal [rad]: 45 degrees for the
            rollers of a mecanum wheel whose direction is its axle.
        restitution: 0 to 1; a pair uses the product of the two. Default: 0 on a link and in
            :meth:`sim.ModelBuilder.add_geometry`; 1 for a ground, a heightfield and a static mesh, so that the other
            body decides.
        torsional_friction: moment about the normal per normal force [m]; a pair uses the sum of the two.
        rolling_friction: moment about the tangents per normal force [m]; a pair uses the sum of the two.
        stiffness: contact stiffness [N/m], infinite for hard contact; the two of a pair are in series.
        damping: contact damping [N s/m] of a compliant geometry.
        friction_rule: "product"; or "maximum", as in MuJoCo: if both geometries have it, a pair uses the larger
            friction, torsional and rolling friction.
        priority: the geometry of higher priority alone decides the friction, torsional and rolling friction of a pair.
        softness: softness of contacts under :class:`sim.MujocoContact`, to which the next three apply, too. The
            geometry of higher priority decides, otherwise a mix.
        softness_mix: weight of this softness in the mix; MuJoCo's ``solmix``.
        margin: distance at which contacts become active [m]; a pair uses the sum of the two.
        gap: additional distance at which contacts count for adhesion actuators [m]; likewise.
        group: bits of the groups that the geometry belongs to.
        mask: bits of the groups that the geometry collides with; both sides must agree.
        velocity: velocity of the surface relative to the geometry, along the geometry's axes [m/s]: a conveyor belt.
            Friction sees it; the geometry itself doesn't move. Only the part along the tangents of a contact counts.
        spin: angular velocity of the surface about the origin of the geometry's frame, likewise [rad/s]: a turntable.
            If no surface of a model has a velocity or a spin, the model has no such parameters. Default: none.

    Raises:
        ModelError: for values that are negative or not finite, a restitution outside 0 to 1, an unknown friction rule,
            damping without a stiffness, friction across no direction and the reverse, a direction of length zero, and a
            priority or groups that aren't whole numbers.

    Example:
        >>> import sim
        >>> rubber = sim.Surface(friction=1.2, stiffness=2e4, damping=50.0)
        >>> scene = sim.ModelBuilder()
        >>> ball = scene.add_sphere(radius=0.1, mass=1.0, surface=rubber)
    """

    friction: float = 1.0
    friction_across: float | None = None
    friction_direction: Sequence[float] | None = None
    friction_angle: float = 0.0
    restitution: float | None = None
    torsional_friction: float = 0.0
    rolling_friction: float = 0.0
    stiffness: float = np.inf
    damping: float = 0.0
    friction_rule: str = "product"
    priority: int = 0
    softness: Softness = DEFAULT_SOFTNESS
    softness_mix: float = 1.0
    margin: float = 0.0
    gap: float = 0.0
    group: int = 1
    mask: int = -1
    velocity: Sequence[float] | None = None
    spin: Sequence[float] | None = None

    def __post_init__(self) -> None:
        where = "Surface"
        for label in ("friction", "torsional_friction", "rolling_friction", "damping", "softness_mix", "margin", "gap"):
            _set_not_negative(self, where, label)
        self._set_direction(where)
        if self.restitution is not None:
            _set_number(self, where, "restitution")
            if not 0.0 <= self.restitution <= 1.0:
                raise ModelError(f"{where}: restitution is {self.restitution}; it must lie between 0 and 1")
        _set_compliance(self, where, "contact")
        require_choice(f"{where}: friction_rule", self.friction_rule, FRICTION_RULES)
        require_type(f"{where}: softness", self.softness, Softness, "a sim.Softness")
        for label in ("priority", "group", "mask"):
            value = getattr(self, label)
            if not is_whole(value, LEAST_INTEGER):
                raise ModelError(f"{where}: {label} is {value!r}; it must be a whole number")
        for label in ("velocity", "spin"):
            if getattr(self, label) is not None:
                vector = finite(f"{where}: {label}", getattr(self, label), (3,))
                object.__setattr__(self, label, tuple(vector.tolist()))

    def _set_direction(self, where: str) -> None:
        """Set friction across a direction, which becomes a unit vector."""
        if (self.friction_across is None) != (self.friction_direction is None):
            raise ModelError(f"{where}: give both friction_across and friction_direction, or neither")
        angle = _set_number(self, where, "friction_angle")
        if not np.isfinite(angle) or (angle and self.friction_direction is None):
            raise ModelError(f"{where}: friction_angle is {angle}; it must be finite, and zero without a direction")
        if self.friction_direction is None:
            return
        _set_not_negative(self, where, "friction_across")
        direction = finite(f"{where}: friction_direction", self.friction_direction, (3,))
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            raise ModelError(f"{where}: friction_direction has length zero")
        object.__setattr__(self, "friction_direction", tuple((direction / length).tolist()))


@dataclass(frozen=True)
class Limits:
    """Limits of a joint or a tendon, with their margin, compliance and softness.

    Tendons have only ``lower``, ``upper``, ``margin`` and ``softness``.

    Attributes:
        lower: lower limit of a revolute or prismatic joint [rad or m], or minimum length of a tendon [m].
        upper: upper limit, or maximum length.
        swing: maximum angle of a spherical joint between its axis and the same axis of the child [rad].
        twist: maximum rotation of a spherical joint about its axis, in either direction [rad].
        rotation: maximum rotation of a spherical joint about any axis [rad].
        effort: maximum driving force [N m or N]: the default force limit of the joint's actuators.
        velocity: maximum speed [rad/s or m/s]; stored, not enforced.
        margin: distance before a limit at which it becomes active [rad or m], as MuJoCo's margin.
        stiffness: stiffness of the limits [N m/rad or N/m], infinite for hard ones; the parameter ``limit_stiffness``.
        damping: damping of compliant limits [N m s/rad or N s/m]; the parameter ``limit_damping``.
        softness: softness of the limits, under :class:`sim.MujocoContact`.

    Raises:
        ModelError: for crossed limits, angles that are not positive or above pi, negative values, and damping without a
            stiffness.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> scene.add_joint("elbow", "revolute", child="arm", limits=sim.Limits(-1.5, 1.5, effort=30.0))
        'elbow'
    """

    lower: float = -np.inf
    upper: float = np.inf
    _: KW_ONLY
    swing: float = np.inf
    twist: float = np.inf
    rotation: float = np.inf
    effort: float = np.inf
    velocity: float = np.inf
    margin: float = 0.0
    stiffness: float = np.inf
    damping: float = 0.0
    softness: Softness = DEFAULT_SOFTNESS

    def __post_init__(self) -> None:
        where = "Limits"
        for label in ("lower", "upper"):
            if np.isnan(_set_number(self, where, label)):
                raise ModelError(f"{where}: {label} is nan; it must be a number, or infinite for no limit")
        if self.lower > self.upper:
            raise ModelError(f"{where}: the lower limit {self.lower} is above the upper limit {self.upper}")
        for label in ("swing", "twist", "rotation"):
            value = _set_number(self, where, label)
            if not (0.0 < value <= np.pi or np.isposinf(value)):
                raise ModelError(f"{where}: {label} is {value}; it must be positive and at most pi, or infinite")
        for label in ("effort", "velocity"):
            value = _set_number(self, where, label)
            if not value >= 0.0:
                raise ModelError(f"{where}: {label} is {value}; it must not be negative")
        for label in ("margin", "damping"):
            _set_not_negative(self, where, label)
        _set_compliance(self, where, "limits")
        require_type(f"{where}: softness", self.softness, Softness, "a sim.Softness")


@dataclass(frozen=True, kw_only=True)
class Spring:
    """Spring and damper of a joint or a tendon.

    Attributes:
        stiffness: stiffness [N m/rad or N/m]. The spring of a spherical or free joint pulls towards a reference pose: a
            free joint's with ``-stiffness`` times the displacement, and both with ``-stiffness`` times the rotation
            vector from the reference, at most pi long, as MuJoCo's. For a tendon, two or three numbers are
            coefficients of the stretch, its square [N/m^2] and its cube [N/m^3], as in MuJoCo 4.
        damping: viscous damping [N m s/rad or N s/m]; for a tendon likewise, with the signed square of the velocity.
        rest: rest position [rad or m] of a joint; of a spherical one a quaternion xyzw, of a free one a position and a
            quaternion; rest length, or ends of a range of rest lengths [m], of a tendon. Default: zero for a joint, no
            rotation for a spherical and the initial pose for a free one; the length in the initial configuration for
            a tendon.

    Raises:
        ModelError: for values that are negative or not finite, and a range whose first number exceeds the second.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0)
        >>> scene.add_joint("rail", "prismatic", child="cart", spring=sim.Spring(stiffness=50.0, damping=2.0))
        'rail'
    """

    stiffness: float | Sequence[float] = 0.0
    damping: float | Sequence[float] = 0.0
    rest: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        where = "Spring"
        for label in ("stiffness", "damping"):
            given = getattr(self, label)
            values = np.atleast_1d(as_numbers(f"{where}: {label}", given))
            if values.shape not in ((1,), (2,), (3,)) or not np.isfinite(values).all():
                raise ModelError(f"{where}: {label} is {given}; it must be a finite number, or up to three of them")
            finite_and_not_negative(where, label, values[0])
            object.__setattr__(self, label, float(given) if np.ndim(given) == 0 else tuple(values.tolist()))
        if self.rest is not None:
            values = as_numbers(f"{where}: rest", self.rest)
            if values.shape in POSES:
                rest = finite(f"{where}: rest", self.rest, values.shape)
                object.__setattr__(self, "rest", tuple(rest.tolist()))
                return
            one = values.ndim == 0
            lower, upper = (number(where, "rest", self.rest),) * 2 if one else two_numbers(where, "rest", self.rest)
            if not (np.isfinite(lower) and np.isfinite(upper) and lower <= upper):
                raise ModelError(f"{where}: rest is {self.rest}; it must be a finite number, or two in ascending order")
            object.__setattr__(self, "rest", lower if one else (lower, upper))


@dataclass(frozen=True)
class Gains:
    """Gains of an actuator's force law, see :meth:`sim.ModelBuilder.add_actuator`.

    Each is also a parameter of the model, with gradients: ``actuator_kp`` and so on.

    Attributes:
        kp: position gain of a "position" or "affine" actuator; not negative.
        kd: velocity gain of a "position", "velocity" or "affine" actuator; not negative.
        gain: force per unit of input of an "affine" actuator.
        offset: force of an "affine" actuator with zero input, at position zero and at rest [N m or N].
        ki: integral gain of a "position" actuator with ``sim.Activation("pid")``; not negative.
        kp_per_input: increase of kp per unit of input of an "affine" actuator.
        kd_per_input: increase of kd per unit of input, for a damper that the input controls.

    Raises:
        ModelError: for values that aren't finite, and a negative kp, kd or ki.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> _ = scene.add_joint("elbow", "revolute", child="arm")
        >>> scene.add_actuator("elbow", "position", gains=sim.Gains(kp=60.0, kd=1.0))
        'elbow'
    """

    kp: float = 0.0
    kd: float = 0.0
    _: KW_ONLY
    gain: float = 0.0
    offset: float = 0.0
    ki: float = 0.0
    kp_per_input: float = 0.0
    kd_per_input: float = 0.0

    def __post_init__(self) -> None:
        where = "Gains"
        for label in ("kp", "kd", "ki"):
            _set_not_negative(self, where, label)
        for label in ("gain", "offset", "kp_per_input", "kd_per_input"):
            value = _set_number(self, where, label)
            if not np.isfinite(value):
                raise ModelError(f"{where}: {label} is {value}; it must be finite")


@dataclass(frozen=True)
class Activation:
    """Activation dynamics of an actuator: a state w, which follows the input u and replaces it in the force law.

    The states are :attr:`sim.State.act`.

    Attributes:
        kind: "integrator", whose rate is u; "filter", whose rate is (u - w) / time_constant, in explicit steps;
            "filterexact", likewise, in exact steps; "muscle", whose time constant depends on the state, see
            docs/actuators.md; "pid", whose rate is the error u - g q of a "position" actuator, to whose force it adds
            ki w; "current", that of a motor's winding with inductance; or "none" for no state.
        time_constant: time constant of a filter, of a current, or of a muscle while its activation rises [s].
        fall_time: time constant of a muscle while its activation falls [s].
        smoothing: change of a muscle's activation over which one time constant turns into the other. Default: no
            transition.
        integral_limit: magnitude from which on the state of "pid" stops growing. Default: no limit.
        resistance: resistance of the winding of "current" [Ohm].
        range: minimum and maximum state, to which it is clamped after each step.
        early: whether the force uses the state after the step.

    Raises:
        ModelError: for an unknown kind, a filter without a time constant, a range that is empty, and what the kind
            doesn't have.

    Example:
        >>> import sim
        >>> lag = sim.Activation("filterexact", time_constant=0.05, range=(-1.0, 1.0))
    """

    kind: str = "none"
    _: KW_ONLY
    time_constant: float = 0.0
    range: tuple[float, float] = (-np.inf, np.inf)
    early: bool = False
    fall_time: float = 0.0
    smoothing: float = 0.0
    integral_limit: float = np.inf
    resistance: float = 0.0

    def __post_init__(self) -> None:
        where = "Activation"
        require_names(where, kind=self.kind)
        require_flags(where, early=self.early)
        if self.kind not in DYNAMICS_CODES:
            raise ModelError(f"{where}: unknown kind '{self.kind}'; known are {', '.join(DYNAMICS_CODES)}")
        for label, kinds in KINDS_WITH.items():
            _set_not_negative(self, where, label)
            value = getattr(self, label)
            if value == 0.0 and self.kind in kinds and label != "smoothing":
                raise ModelError(f"{where}: kind '{self.kind}' needs a {label}; give a positive one")
            if value != 0.0 and self.kind not in kinds:
                raise ModelError(
                    f"{where}: kind '{self.kind}' has no {label}; remove it, or choose {' or '.join(kinds)}"
                )
        limit = _set_number(self, where, "integral_limit")
        if not limit > 0.0 or (np.isfinite(limit) and self.kind != "pid"):
            raise ModelError(f"{where}: integral_limit is {limit}; it must be positive, and belongs to kind 'pid'")
        lower, upper = two_numbers(where, "range", self.range)
        if not lower < upper:
            raise ModelError(f"{where}: range is ({lower}, {upper}); the first must be less than the second")
        if self.kind == "none" and (self.early or np.isfinite(lower) or np.isfinite(upper)):
            raise ModelError(f"{where}: kind 'none' has no state; remove range and early, or choose another kind")
        object.__setattr__(self, "range", (lower, upper))


@dataclass(frozen=True)
class Delay:
    """Delay of an actuator's input, see :meth:`sim.ModelBuilder.add_actuator`.

    The delay is also a parameter of the model, ``actuator_delay``, shared or per world, with a gradient.

    Attributes:
        time: delay [s].
        samples: number of past inputs that the actuator remembers: the largest delay in time steps, at least 1.

    Raises:
        ModelError: for a time that is negative or not finite, and samples that aren't a whole number from 1 to
            10,000,000.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> _ = scene.add_joint("elbow", "revolute", child="arm")
        >>> scene.add_actuator("elbow", gains=sim.Gains(), delay=sim.Delay(0.012, samples=4))
        'elbow'
    """

    time: float
    samples: int

    def __post_init__(self) -> None:
        _set_not_negative(self, "Delay", "time")
        if not (is_whole(self.samples, 1) and self.samples <= MOST_ITEMS):
            raise ModelError(f"Delay: samples is {self.samples}; it must be a whole number from 1 to {MOST_ITEMS}")


@dataclass(frozen=True)
class DCMotor:
    """Speed-torque curve of an electric motor, which limits the force of its actuator.

    The largest force falls linearly with the velocity of the actuator: from ``stall_force`` at rest to zero at
    ``no_load_speed``. Beyond that speed, the motor brakes. Against its velocity it has more than the stall force. The
    actuator's ``force_limit``, such as the force of the largest current, holds besides. Both numbers are parameters of
    the model, ``actuator_stall_force`` and ``actuator_no_load_speed``, with gradients.

    Attributes:
        stall_force: largest force at rest [N m or N], that of the supply voltage V: K V / R.
        no_load_speed: velocity at which no force is left [rad/s or m/s]: V / K.

    Raises:
        ModelError: for values that aren't finite and positive.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> _ = scene.add_joint("elbow", "revolute", child="arm")
        >>> motor, gains = sim.DCMotor(stall_force=33.5, no_load_speed=21.0), sim.Gains(kp=25.0, kd=0.5)
        >>> scene.add_actuator("elbow", "position", gains=gains, motor=motor, force_limit=23.7)
        'elbow'
    """

    stall_force: float
    no_load_speed: float

    def __post_init__(self) -> None:
        for label in ("stall_force", "no_load_speed"):
            value = _set_number(self, "DCMotor", label)
            if not 0.0 < value < np.inf:
                raise ModelError(f"DCMotor: {label} is {value}; it must be finite and positive")


# Shapes of the reference of a spring: a quaternion, or a position and a quaternion.
POSES = ((4,), (7,))
# Kinds of activation that have each number.
KINDS_WITH = {
    "time_constant": ("filter", "filterexact", "muscle", "current"), "fall_time": ("muscle",),
    "smoothing": ("muscle",), "resistance": ("current",),
}  # fmt: skip
# The group and field of each property, by its name in version 0.1, which importers use too.
SURFACE_FIELDS = {
    "friction": "surface.friction", "restitution": "surface.restitution",
    "torsional_friction": "surface.torsional_friction", "rolling_friction": "surface.rolling_friction",
    "contact_stiffness": "surface.stiffness", "contact_damping": "surface.damping",
    "friction_rule": "surface.friction_rule", "contact_priority": "surface.priority", "softness": "surface.softness",
    "softness_mix": "surface.softness_mix", "contact_margin": "surface.margin", "contact_gap": "surface.gap",
    "group": "surface.group", "mask": "surface.mask",
}  # fmt: skip
JOINT_FIELDS = {
    "lower": "limits.lower", "upper": "limits.upper", "effort": "limits.effort", "velocity": "limits.velocity",
    "limit_margin": "limits.margin", "limit_stiffness": "limits.stiffness", "limit_damping": "limits.damping",
    "swing_limit": "limits.swing", "twist_limit": "limits.twist", "rotation_limit": "limits.rotation",
    "limit_softness": "limits.softness", "stiffness": "spring.stiffness", "damping": "spring.damping",
    "rest_position": "spring.rest",
}  # fmt: skip
TENDON_FIELDS = {
    "limit_margin": "limits.margin", "limit_softness": "limits.softness", "stiffness": "spring.stiffness",
    "damping": "spring.damping", "rest_length": "spring.rest",
}  # fmt: skip
# Keywords of version 0.1, which ``add_actuator`` still takes with a warning, and all fields.
OLD_ACTUATOR_FIELDS = {
    "kp": "gains.kp", "kd": "gains.kd", "gain": "gains.gain", "offset": "gains.offset",
    "kp_per_input": "gains.kp_per_input", "kd_per_input": "gains.kd_per_input", "dynamics": "activation.kind",
    "time_constant": "activation.time_constant", "act_range": "activation.range", "act_early": "activation.early",
}  # fmt: skip
ACTUATOR_FIELDS = OLD_ACTUATOR_FIELDS | {
    "fall_time": "activation.fall_time", "smoothing": "activation.smoothing", "ki": "gains.ki",
    "integral_limit": "activation.integral_limit", "resistance": "activation.resistance",
}  # fmt: skip
GROUPS: dict[str, type] = {
    "surface": Surface, "limits": Limits, "spring": Spring, "gains": Gains, "activation": Activation,
}  # fmt: skip


def in_groups(fields: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the builder with flat properties grouped into dataclasses.

    Args:
        fields: ``SURFACE_FIELDS``, ``JOINT_FIELDS``, ``TENDON_FIELDS`` or ``ACTUATOR_FIELDS``.
        values: properties by the names in ``fields``, and other arguments, which are returned unchanged.

    Raises:
        ModelError: for values that the dataclasses refuse.
    """
    found = {name: value for name, value in values.items() if name not in fields}
    grouped: dict[str, dict[str, Any]] = {}
    for name in values.keys() & fields.keys():
        group, field = fields[name].split(".")
        grouped.setdefault(group, {})[field] = values[name]
    return found | {group: GROUPS[group](**own) for group, own in grouped.items()}


def limits_of(where: str, given: Limits | tuple[float, float]) -> Limits:
    """Return limits, given as such or as lower and upper limit. Raises ModelError for other types."""
    return given if isinstance(given, Limits) else Limits(*two_numbers(where, "limits", given))


def _set_number(record: object, where: str, label: str) -> float:
    """Convert a field of a frozen record to float, and return it. Raises ModelError unless it is one number."""
    value = number(where, label, getattr(record, label))
    object.__setattr__(record, label, value)
    return value


def _set_not_negative(record: object, where: str, label: str) -> None:
    finite_and_not_negative(where, label, _set_number(record, where, label))


def _set_compliance(record: Surface | Limits, where: str, what: str) -> None:
    """Raise ModelError for a stiffness that is not positive, and for damping without stiffness."""
    stiffness = _set_number(record, where, "stiffness")
    if not stiffness > 0.0:
        raise ModelError(f"{where}: stiffness is {stiffness}; it must be positive, infinite for hard {what}")
    if record.damping and np.isinf(stiffness):
        raise ModelError(f"{where}: damping requires compliant {what}; give stiffness too")


DEFAULT_SURFACE, NO_LIMITS, NO_SPRING = Surface(), Limits(), Spring()
NO_GAINS, NO_ACTIVATION = Gains(), Activation()
