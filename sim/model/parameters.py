"""Physical parameters of a model: names, shapes and units.

Every parameter may be shared by all worlds, shape ``[n, ...]``, or given per world, ``[num_worlds, n, ...]``.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError


@dataclass(frozen=True)
class ParameterSpec:
    """Description of one parameter.

    Attributes:
        per: dimension of the parameter: "link", "dof", "geometry", "pair" (geometries with their own friction, see
            :class:`sim.model.geometries.PairFriction`), "height" (all points of the heightfields, one field
            after the other, row by row), "anchor" or "coupling" (see :class:`sim.model.topology.Equalities`),
            "actuator", "tendon", "tendon_term", "tendon_point", "tendon_wrap" or "tendon_coupling" (see
            :class:`sim.model.tendons.tendons.Tendons`), or "world" (a single one).
        shape: shape of one value.
        unit: SI unit.
        about: one line for the documentation.
    """

    per: str
    shape: tuple[int, ...]
    unit: str
    about: str


# Friction of pairs of geometries that have their own, in the order of MuJoCo's five numbers.
OF_PAIRS = (
    "pair_friction", "pair_friction_across", "pair_torsional_friction", "pair_rolling_friction",
    "pair_rolling_friction_across",
)  # fmt: skip
ACROSS_PAIRS = ("pair_friction_across", "pair_rolling_friction_across")  # zero for pairs with one number

PARAMETERS: dict[str, ParameterSpec] = {
    "joint_placement": ParameterSpec(
        "link", (7,), "m, -", "pose of the joint in the parent link: position, quaternion xyzw"
    ),
    "mass": ParameterSpec("link", (), "kg", "link mass"),
    "com": ParameterSpec("link", (3,), "m", "centre of mass in the link frame"),
    "inertia": ParameterSpec("link", (3, 3), "kg m^2", "rotational inertia about the centre of mass, link axes"),
    "gravity_compensation": ParameterSpec(
        "link", (), "-", "share of the weight compensated at the centre of mass; only where a link has one"
    ),
    "damping": ParameterSpec("dof", (), "N m s/rad or N s/m", "joint damping, integrated implicitly"),
    "armature": ParameterSpec("dof", (), "kg m^2 or kg", "rotor inertia added to the joint-space diagonal"),
    "stiffness": ParameterSpec("dof", (), "N m/rad or N/m", "joint spring, integrated implicitly"),
    "rest_position": ParameterSpec(
        "dof", (), "rad or m", "joint position at which the spring is at rest; of a rotation the rotation vector"
    ),
    "friction_loss": ParameterSpec(
        "dof", (), "N m or N", "dry friction of the joint; zero in all worlds: no row, no gradient"
    ),
    "lower_limit": ParameterSpec("dof", (), "rad or m", "lower joint limit"),
    "upper_limit": ParameterSpec("dof", (), "rad or m", "upper joint limit"),
    "swing_limit": ParameterSpec("link", (), "rad", "largest swing of a spherical joint's axis; infinite: none"),
    "twist_limit": ParameterSpec(
        "link", (), "rad", "largest twist of a spherical joint about its axis, either way; infinite: none"
    ),
    "rotation_limit": ParameterSpec(
        "link", (), "rad", "largest rotation of a spherical joint about any axis; infinite: none"
    ),
    "limit_margin": ParameterSpec("dof", (), "rad or m", "distance before a limit at which it becomes active"),
    "limit_stiffness": ParameterSpec("dof", (), "N m/rad or N/m", "stiffness of a limit; infinite: hard"),
    "limit_damping": ParameterSpec("dof", (), "N m s/rad or N s/m", "damping of a compliant limit"),
    "geometry_placement": ParameterSpec(
        "geometry", (7,), "m, -", "pose of the geometry in its link: position, quaternion xyzw"
    ),
    "geometry_size": ParameterSpec(
        "geometry", (3,), "m", "radius; radius, half length; half extents; semi-axes; mesh or height scale"
    ),
    "height": ParameterSpec("height", (), "m", "heights of the heightfields, before their scale"),
    "friction": ParameterSpec("geometry", (), "-", "Coulomb friction; a pair uses the product, or by its rule"),
    "friction_across": ParameterSpec(
        "geometry", (), "-", "friction across the direction of a geometry that has one, where `friction` is along it"
    ),
    "restitution": ParameterSpec("geometry", (), "-", "restitution; a pair uses the product"),
    "torsional_friction": ParameterSpec(
        "geometry", (), "m", "moment about the normal per normal force; pair: the sum; zero: no row, no gradient"
    ),
    "rolling_friction": ParameterSpec(
        "geometry",
        (),
        "m",
        "moment about the tangents per normal force; pair: the sum; zero: no row, no gradient",
    ),
    "contact_stiffness": ParameterSpec(
        "geometry", (), "N/m", "stiffness in contact, infinite: hard; those of a pair are in series"
    ),
    "contact_damping": ParameterSpec("geometry", (), "N s/m", "damping in contact of a compliant geometry"),
    "pair_friction": ParameterSpec(
        "pair", (), "-", "Coulomb friction stated for a pair, along the first tangent; only where a pair has its own"
    ),
    "pair_friction_across": ParameterSpec(
        "pair", (), "-", "along the second tangent, of pairs stated with two numbers"
    ),
    "pair_torsional_friction": ParameterSpec(
        "pair", (), "m", "moment about the normal per normal force; zero: no row, no gradient"
    ),
    "pair_rolling_friction": ParameterSpec(
        "pair", (), "m", "moment about the first tangent per normal force; zero: no row, no gradient"
    ),
    "pair_rolling_friction_across": ParameterSpec(
        "pair", (), "m", "moment about the second tangent, of pairs stated with two numbers"
    ),
    "surface_velocity": ParameterSpec(
        "geometry", (3,), "m/s", "velocity of a surface in its geometry's frame; only where a geometry has one"
    ),
    "surface_spin": ParameterSpec(
        "geometry", (3,), "rad/s", "angular velocity of a surface about its geometry's origin, likewise"
    ),
    "anchor_a": ParameterSpec("anchor", (7,), "m, -", "pose of a point or weld constraint's frame in its first link"),
    "anchor_b": ParameterSpec("anchor", (7,), "m, -", "pose of its frame in the second link"),
    "coupling_ratio": ParameterSpec("coupling", (), "-", "coordinate of a coupled joint per coordinate of the other"),
    "coupling_offset": ParameterSpec(
        "coupling", (), "rad or m", "coordinate of a coupled joint where the other's is zero"
    ),
    "anchor_active": ParameterSpec(
        "anchor", (), "-", "1: the constraint is on, 0: off; no gradient; only where a constraint switches"
    ),
    "coupling_active": ParameterSpec("coupling", (), "-", "the same of coupled joints"),
    "tendon_coupling_active": ParameterSpec("tendon_coupling", (), "-", "the same of couplings of tendons"),
    "anchor_break_force": ParameterSpec(
        "anchor", (), "N", "force above which a constraint breaks; no gradient; only where a constraint breaks"
    ),
    "anchor_break_torque": ParameterSpec("anchor", (), "N m", "torque above which a weld breaks, likewise"),
    "coupling_break_force": ParameterSpec(
        "coupling", (), "N m or N", "force on a coupled joint above which the coupling breaks, likewise"
    ),
    "tendon_coefficient": ParameterSpec(
        "tendon_term", (), "m/rad or -", "length of a fixed tendon per joint coordinate"
    ),
    "tendon_point": ParameterSpec("tendon_point", (3,), "m", "a point of a spatial tendon in its link"),
    "tendon_wrap_centre": ParameterSpec(
        "tendon_wrap", (3,), "m", "centre of the sphere or cylinder that a tendon wraps around, in its link"
    ),
    "tendon_wrap_axis": ParameterSpec(
        "tendon_wrap", (3,), "-", "axis of a wrapped cylinder, of any length; sphere: zero"
    ),
    "tendon_wrap_radius": ParameterSpec(
        "tendon_wrap", (), "m", "radius of the sphere or cylinder that a tendon wraps around"
    ),
    "tendon_stiffness": ParameterSpec("tendon", (), "N/m", "stiffness of a tendon"),
    "tendon_damping": ParameterSpec("tendon", (), "N s/m", "damping of a tendon"),
    "tendon_stiffness_polynomial": ParameterSpec(
        "tendon", (2,), "N/m^2, N/m^3", "force of its spring per square and per cube of the stretch"
    ),
    "tendon_damping_polynomial": ParameterSpec(
        "tendon", (2,), "N s^2/m^2, N s^3/m^3", "force of its damper per square, signed, and cube of the velocity"
    ),
    "tendon_armature": ParameterSpec("tendon", (), "kg", "inertia of a tendon's length; zero: no gradient"),
    "tendon_rest_lower": ParameterSpec("tendon", (), "m", "length below which its spring pushes"),
    "tendon_rest_upper": ParameterSpec("tendon", (), "m", "length above which its spring pulls"),
    "tendon_friction_loss": ParameterSpec(
        "tendon", (), "N", "dry friction of a tendon; zero in all worlds: no row, no gradient"
    ),
    "tendon_lower_limit": ParameterSpec("tendon", (), "m", "minimum length of a tendon"),
    "tendon_upper_limit": ParameterSpec("tendon", (), "m", "maximum length of a tendon"),
    "tendon_limit_margin": ParameterSpec("tendon", (), "m", "distance before a limit at which it becomes active"),
    "tendon_force_lower": ParameterSpec(
        "tendon", (), "N", "lower bound of the sum of its actuators' forces; only where a tendon has one"
    ),
    "tendon_force_upper": ParameterSpec("tendon", (), "N", "upper bound of that sum"),
    "tendon_polynomial": ParameterSpec(
        "tendon_coupling", (5,), "powers of m", "length of a tied tendon as a polynomial of another's"
    ),
    "actuator_gear": ParameterSpec(
        "actuator", (), "-", "joint force per actuator force; actuator motion per joint motion"
    ),
    "actuator_force_axis": ParameterSpec(
        "actuator",
        (3,),
        "-",
        "force on a frame per force of its actuator; only for frames",
    ),
    "actuator_torque_axis": ParameterSpec(
        "actuator", (3,), "m", "torque on a frame per force of its actuator; only for frames"
    ),
    "actuator_kp": ParameterSpec("actuator", (), "N m/rad or N/m", "position gain, integrated implicitly"),
    "actuator_kd": ParameterSpec("actuator", (), "N m s/rad or N s/m", "velocity gain, integrated implicitly"),
    "actuator_gain": ParameterSpec("actuator", (), "N m/u or N/u", "force per unit of input; affine actuators"),
    "actuator_offset": ParameterSpec(
        "actuator", (), "N m or N", "force at zero input, zero position and zero velocity; affine actuators"
    ),
    "actuator_kp_per_input": ParameterSpec(
        "actuator", (), "that of kp per u", "position gain per unit of input; affine actuators"
    ),
    "actuator_kd_per_input": ParameterSpec(
        "actuator", (), "that of kd per u", "velocity gain per unit of input; affine actuators"
    ),
    "actuator_force_centre": ParameterSpec(
        "actuator", (), "N m or N", "middle of the range of the actuator's force, before the gear"
    ),
    "actuator_force_limit": ParameterSpec(
        "actuator", (), "N m or N", "half the range of the actuator's force, before the gear; infinite: none"
    ),
    "actuator_control_lower": ParameterSpec("actuator", (), "that of u", "minimum input; lower inputs are clamped"),
    "actuator_control_upper": ParameterSpec("actuator", (), "that of u", "maximum input"),
    "actuator_time_constant": ParameterSpec(
        "actuator", (), "s", "time constant of a filter; only where an actuator has a state"
    ),
    "actuator_ki": ParameterSpec(
        "actuator", (), "N m/(rad s) or N/(m s)", "integral gain; only where an actuator has integral action"
    ),
    "actuator_integral_limit": ParameterSpec(
        "actuator", (), "rad s or m s", "magnitude from which on the integral stops growing, likewise; infinite: none"
    ),
    "actuator_resistance": ParameterSpec(
        "actuator", (), "Ohm", "resistance of a motor's winding; only where an actuator has a current"
    ),
    "actuator_stall_force": ParameterSpec(
        "actuator", (), "N m or N", "largest force of a motor at rest; only where an actuator is a motor"
    ),
    "actuator_no_load_speed": ParameterSpec(
        "actuator", (), "rad/s or m/s", "velocity of the actuator at which a motor has no force left"
    ),
    "actuator_delay": ParameterSpec(
        "actuator",
        (),
        "s",
        "delay of the input, at most the inputs that an actuator remembers; only where one does",
    ),
    "actuator_fall_time": ParameterSpec(
        "actuator", (), "s", "time constant of a muscle's falling activation; only where a muscle has one"
    ),
    "actuator_smoothing": ParameterSpec(
        "actuator", (), "-", "change of a muscle's activation over which its time constant changes, likewise"
    ),
    "actuator_muscle_peak_force": ParameterSpec(
        "actuator", (), "N m or N", "largest active force of a muscle at rest; only where an actuator is a muscle"
    ),
    "actuator_muscle_fibre_length": ParameterSpec("actuator", (), "rad or m", "length of fibres with that force, L0"),
    "actuator_muscle_slack_length": ParameterSpec(
        "actuator", (), "rad or m", "length of a muscle's path at which its fibres would have no length"
    ),
    "actuator_muscle_shortest": ParameterSpec("actuator", (), "L0", "smallest length with an active force"),
    "actuator_muscle_longest": ParameterSpec("actuator", (), "L0", "largest length with an active force"),
    "actuator_muscle_speed": ParameterSpec("actuator", (), "L0/s", "velocity of shortening without active force"),
    "actuator_muscle_passive_force": ParameterSpec(
        "actuator", (), "peak forces", "twice the passive force midway between L0 and the largest length"
    ),
    "actuator_muscle_lengthening_force": ParameterSpec(
        "actuator", (), "peak forces", "largest active force of fibres that lengthen"
    ),
    "actuator_muscle_passive_scale": ParameterSpec(
        "actuator", (), "-", "length of a muscle's passive elements, per L0, per length of its fibres"
    ),
    "actuator_muscle_passive_shift": ParameterSpec("actuator", (), "L0", "their length where that of the fibres is 0"),
    "actuator_act_lower": ParameterSpec("actuator", (), "that of the state", "minimum state, likewise"),
    "actuator_act_upper": ParameterSpec("actuator", (), "that of the state", "maximum state, likewise"),
    "gravity": ParameterSpec("world", (3,), "m/s^2", "gravity in the world frame"),
    "medium_density": ParameterSpec("world", (), "kg/m^3", "density of the medium; only where there is one"),
    "medium_viscosity": ParameterSpec("world", (), "Pa s", "its viscosity, likewise"),
    "wind": ParameterSpec("world", (3,), "m/s", "its velocity in the world frame, likewise"),
    "regularisation": ParameterSpec(
        "world",
        (),
        "-",
        "softness of a row per mean inverse mass of its constraint; contact friction half; HardContact",
    ),
    "recovery_time": ParameterSpec(
        "world", (), "s", "time in which a penetration decays, in addition to the time step; HardContact"
    ),
    "solref": ParameterSpec("world", (2,), "s, -", "MuJoCo's solref: time constant and damping ratio; MujocoContact"),
    "solimp": ParameterSpec(
        "world", (5,), "-, -, m or rad, -, -", "MuJoCo's solimp: dmin, dmax, width, midpoint, power; likewise"
    ),
}


NOT_NEGATIVE = (
    "mass", "damping", "armature", "stiffness", "friction_loss", "limit_margin", "limit_damping", "geometry_size",
    "friction", "friction_across", "restitution", "torsional_friction", "rolling_friction", "contact_damping",
    "pair_friction", "pair_friction_across", "pair_torsional_friction", "pair_rolling_friction",
    "pair_rolling_friction_across",
    "actuator_kp", "actuator_kd", "actuator_force_limit", "actuator_time_constant", "actuator_fall_time",
    "actuator_smoothing", "actuator_ki", "actuator_resistance", "actuator_stall_force", "actuator_no_load_speed",
    "actuator_delay", "actuator_muscle_peak_force", "actuator_muscle_fibre_length", "actuator_muscle_longest",
    "actuator_muscle_speed", "actuator_muscle_passive_force", "actuator_muscle_lengthening_force", "medium_density",
    "medium_viscosity", "recovery_time", "tendon_stiffness", "tendon_damping", "tendon_armature",
    "tendon_friction_loss", "tendon_limit_margin", "anchor_active", "coupling_active", "tendon_coupling_active",
)  # fmt: skip
POSITIVE = (
    "swing_limit", "twist_limit", "rotation_limit", "limit_stiffness", "contact_stiffness", "regularisation",
    "tendon_wrap_radius", "anchor_break_force", "anchor_break_torque", "coupling_break_force",
)  # fmt: skip
MAY_BE_INFINITE = (
    "lower_limit", "upper_limit", "actuator_force_limit", "actuator_control_lower", "actuator_control_upper",
    "actuator_act_lower", "actuator_act_upper", "actuator_integral_limit", "swing_limit", "twist_limit",
    "rotation_limit", "limit_stiffness", "contact_stiffness", "tendon_lower_limit", "tendon_upper_limit",
    "tendon_force_lower", "tendon_force_upper",
    "anchor_break_force", "anchor_break_torque", "coupling_break_force",
)  # fmt: skip
AT_MOST = {"restitution": 1.0, "anchor_active": 1.0, "coupling_active": 1.0, "tendon_coupling_active": 1.0}
# Absolute tolerance of range checks, also for values that cross each other: an optimiser's last step and finite
# differences may exceed the range a little.
TOLERANCE = 0.01
TOLERANCE_ABOVE = 0.08  # probes of kinks in a gradient exceed the range by a twentieth


@functools.cache
def number_of_dims(name: str) -> int:
    """Return the number of dimensions of a value shared by all worlds, ``[n, ...]``; values per world have one more."""
    return len(PARAMETERS[name].shape) + (PARAMETERS[name].per != "world")


def require_finite(name: str, array: np.ndarray) -> None:
    """Raise ModelError, with the first index that isn't finite, unless an array is finite."""
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ModelError(f"{name} isn't finite at index {index}")


def require_shape(name: str, shape: tuple[int, ...], counts: dict[str, int], num_worlds: int) -> int:
    """Check the shape of a value ``[n, ...]`` or ``[num_worlds, n, ...]``; gravity omits the n.

    Args:
        name: a key of :data:`PARAMETERS`.
        shape: shape of the value.
        counts: sizes of the dimensions: links, dofs, geometries, actuators.
        num_worlds: number of worlds.

    Returns:
        its number of rows: 1 if all worlds share it, otherwise num_worlds.

    Raises:
        ModelError: for an unknown name or another shape.
    """
    if name not in PARAMETERS:
        raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(PARAMETERS)}")
    spec = PARAMETERS[name]
    single = ((counts[spec.per],) if spec.per != "world" else ()) + spec.shape
    if shape == single:
        return 1
    if shape != (num_worlds, *single):
        raise ModelError(f"parameter '{name}' has shape {shape}; expected {single} or {(num_worlds, *single)}")
    return num_worlds


def range_in_words(name: str) -> str:
    """Return the valid range of a parameter in words."""
    sign = " and not negative" if name in NOT_NEGATIVE else " and positive" if name in POSITIVE else ""
    sign += (
        f" and at most {AT_MOST[name]:g}" if name in AT_MOST else ", and not indefinite" if name == "inertia" else ""
    )
    turn = ", quaternions not zero" if PARAMETERS[name].shape == (7,) else ""
    return f"{'a number' if name in MAY_BE_INFINITE else 'finite'}{sign}{turn}"


def as_rows(name: str, value: np.ndarray) -> np.ndarray:
    """Return a value with a checked shape as ``[P, n, ...]`` with P = 1 (shared) or num_worlds."""
    if value.ndim == number_of_dims(name):
        value = value[None]
    return value[:, None] if PARAMETERS[name].per == "world" else value


def check_parameter(name: str, value: npt.ArrayLike, counts: dict[str, int], num_worlds: int) -> np.ndarray:
    """Return one parameter in the shape ``[P, n, ...]`` with P = 1 (shared) or num_worlds, checked.

    Args:
        name: a key of :data:`PARAMETERS`.
        value: a scalar (used for all), ``[n, ...]`` or ``[num_worlds, n, ...]``; gravity omits the n.
        counts: sizes of the dimensions: links, dofs, geometries, actuators.
        num_worlds: number of worlds.

    Raises:
        ModelError: for an unknown name, another shape, a value that is not finite or out of its range, and a zero
            quaternion of a placement.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0 and name in PARAMETERS and not PARAMETERS[name].shape and PARAMETERS[name].per != "world":
        array = np.full(counts[PARAMETERS[name].per], float(array))
    require_shape(name, array.shape, counts, num_worlds)
    array = as_rows(name, array)
    finite = ~np.isnan(array) if name in MAY_BE_INFINITE else np.isfinite(array)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ModelError(f"parameter '{name}' has a value that is not finite at index {index}")
    below = array < -TOLERANCE if name in NOT_NEGATIVE else np.zeros(1, dtype=bool)
    if below.any():
        index = tuple(int(i) for i in np.argwhere(below)[0])
        raise ModelError(f"parameter '{name}' is {array[index]} at index {index}; it must not be negative")
    above = array > AT_MOST.get(name, np.inf) + TOLERANCE_ABOVE
    if above.any():
        index = tuple(int(i) for i in np.argwhere(above)[0])
        raise ModelError(f"parameter '{name}' is {array[index]} at index {index}; it must be at most {AT_MOST[name]:g}")
    if name in POSITIVE and not (array > 0.0).all():
        index = tuple(int(i) for i in np.argwhere(~(array > 0.0))[0])
        raise ModelError(f"parameter '{name}' is {array[index]} at index {index}; it must be positive")
    if PARAMETERS[name].shape == (7,):
        zero = np.linalg.norm(array[..., 3:], axis=-1) < 1e-9
        if zero.any():
            index = tuple(int(i) for i in np.argwhere(zero)[0])
            raise ModelError(f"parameter '{name}' has a zero quaternion at index {index}")
    return np.ascontiguousarray(array)
