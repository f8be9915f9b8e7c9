"""Consistency checks of a simulator's parameters, beyond the range of each."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from sim.arrays.device_values import unused_entries
from sim.errors import ModelError, StabilityWarning
from sim.model.model import ACTUATOR_KIND_NAMES, Model
from sim.model.parameters import ACROSS_PAIRS, PARAMETERS, TOLERANCE
from sim.model.shapes.inertia import DECISIVE, check_mass_matrix, is_semidefinite, least_scales
from sim.model.softness import require_impedance
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from sim.model.tendons.muscles import RANGES as MUSCLE_RANGES
from sim.simulation.engine.settings import Settings
from sim.simulation.options import require_regular
from sim.simulation.stepping.constraint_layout import CONE_LIMITS
from sim.simulation.stepping.mujoco_law import InverseWeights
from sim.simulation.stepping.tendon_layout import MOST_PATHS, tendon_ends
from warp_kernels.types import PRESCRIBED_INERTIA, SPHERICAL

# Pairs of parameters of which the first must not exceed the second.
RANGES = (
    ("lower_limit", "upper_limit"),
    ("tendon_lower_limit", "tendon_upper_limit"),
    ("tendon_rest_lower", "tendon_rest_upper"),
    ("tendon_force_lower", "tendon_force_upper"),
    ("actuator_control_lower", "actuator_control_upper"),
    ("actuator_act_lower", "actuator_act_upper"),
)
# Parameters that decide whether hard limits leave a feasible range.
ROOM_NAMES = ("lower_limit", "upper_limit", "limit_margin", "limit_stiffness")
ROOM = frozenset(ROOM_NAMES)
# Parameters of actuators that are positive, and zero where an actuator doesn't use them.
POSITIVE_IF_USED = {
    "actuator_time_constant", "actuator_resistance", "actuator_stall_force", "actuator_no_load_speed",
    "actuator_fall_time", "actuator_muscle_fibre_length", "actuator_muscle_speed",
}  # fmt: skip
# Reasons why an actuator doesn't use a parameter. Gains depend on its kind.
UNUSED_BECAUSE = {
    "actuator_time_constant": ", which is no filter",
    "actuator_ki": ", which has no integral action",
    "actuator_resistance": ", which has no current",
    **dict.fromkeys(("actuator_stall_force", "actuator_no_load_speed"), ", which is no motor"),
    "actuator_delay": ", which remembers no inputs; give it a sim.Delay",
    **dict.fromkeys(("actuator_fall_time", "actuator_smoothing"), ", whose state isn't that of a muscle"),
    **dict.fromkeys(MUSCLE_PARAMETERS.values(), ", which is no muscle"),
    **dict.fromkeys(("actuator_force_axis", "actuator_torque_axis"), ", which acts on no frame"),
}


def require_useful(model: Model, by_mujoco: bool, name: str, value: np.ndarray) -> None:
    """Raise ModelError for values that the model or the contact law doesn't use.

    Args:
        model: the model.
        by_mujoco: whether the contact law is MuJoCo's.
        name: name of the parameter.
        value: ``[n, ...]`` or ``[num_worlds, n, ...]``.

    Raises:
        ModelError: naming the parameter, and the joint or actuator.
    """
    if name == "regularisation":
        require_regular(value, model.scalar)
    if name in ("solref", "solimp"):
        require_impedance("Simulator", **{name: value})
    if name == "armature":
        _require_prescribed(model, value)
    unused = unused_entries(name, model)
    if name == "stiffness" and (value[..., unused] != 0.0).any():
        dof = int(np.flatnonzero(unused & (value != 0.0).reshape(-1, len(unused)).any(axis=0))[0])
        joint = model.joint_names[model.dof_link[dof]]
        raise ModelError(
            f"parameter 'stiffness' is not zero for joint '{joint}', which has no spring; give it a sim.Spring with a "
            "stiffness in the builder, so that the model reserves what springs of spherical and free joints need"
        )
    if name == "friction_across" and (value[..., unused] != 0.0).any():
        index = int(np.flatnonzero(unused & (value != 0.0).reshape(-1, len(unused)).any(axis=0))[0])
        raise ModelError(
            f"parameter 'friction_across' is not zero for geometry '{model.geometries[index].name}', which has no "
            "friction_direction"
        )
    if name in ACROSS_PAIRS and (value[..., unused] != 0.0).any():
        index = int(np.flatnonzero(unused & (value != 0.0).reshape(-1, len(unused)).any(axis=0))[0])
        raise ModelError(
            f"parameter '{name}' is not zero for the pair '{model.pair_names[index]}', which has one friction for both "
            "tangents; give set_pair_friction two numbers"
        )
    if name == "limit_stiffness" and by_mujoco and np.isfinite(value).any():
        raise ModelError(
            "parameter 'limit_stiffness' is finite, but sim.MujocoContact has no compliant limits; set it to infinity "
            "or choose sim.HardContact"
        )
    if name.startswith("actuator_"):
        _require_of_actuators(model, name, value, unused)
    if name in CONE_LIMITS and (np.isfinite(value) & (value > np.pi + TOLERANCE)).any():
        raise ModelError(f"parameter '{name}' is {value[np.isfinite(value)].max()}; it must be at most pi, or infinite")
    if name in CONE_LIMITS and np.isfinite(value[..., model.joint_type != SPHERICAL]).any():
        raise ModelError(f"parameter '{name}' is finite for a joint that is not spherical; set it to infinity there")


def _require_prescribed(model: Model, value: np.ndarray) -> None:
    """Raise ModelError if an armature would turn prescribed motion of a joint on or off."""
    changed = model.prescribed != (value >= PRESCRIBED_INERTIA).reshape(-1, model.nv).all(axis=0)
    for dof in np.flatnonzero(changed):
        joint = model.joint_names[model.dof_link[dof]]
        raise ModelError(
            f"parameter 'armature' of joint '{joint}' must {'stay' if model.prescribed[dof] else 'be below'} "
            f"{PRESCRIBED_INERTIA:g}, the value that marks a joint with prescribed motion"
        )


class ConsistencyChecks:
    """Consistency checks across parameters: crossed limits, indefinite inertias, singular mass matrix.

    Args:
        model: the model. Links whose own inertia is indefinite, as in some files, may have any inertia.
        by_mujoco: whether the contact law is MuJoCo's.
        dt: time step [s].

    Raises:
        ModelError: for hard limits of the model without a feasible range, and delays longer than samples.
    """

    def __init__(self, model: Model, by_mujoco: bool, dt: float):
        self.model, self.by_mujoco = model, by_mujoco
        # Under MuJoCo's law the diagonal has only the armature, no damping or stiffness.
        self.dt = 0.0 if by_mujoco else dt
        self._least_scales = least_scales(model.parameters["inertia"])
        self._regular: set[bytes] = set()
        self._step = dt
        self._require_room(model.parameters, slack=0.0)
        self._require_samples(model.parameters)

    def __call__(self, names: Collection[str], values: Mapping[str, np.ndarray]) -> None:
        """Check new values.

        Args:
            names: names of the new parameters.
            values: all parameters that are known on the host, each ``[n, ...]`` or ``[num_worlds, n, ...]``.

        Raises:
            ModelError: naming the parameter and the joint, link, tendon or actuator.
        """
        for lower, upper in RANGES:
            if not {lower, upper}.isdisjoint(names) and {lower, upper} <= values.keys():
                crossed = values[lower] > values[upper] + TOLERANCE
                if crossed.any():
                    item = int(np.argwhere(crossed)[0][-1])
                    raise ModelError(
                        f"parameters '{lower}' and '{upper}' of {self._owner(lower, item)} are crossed; to change "
                        "both, set both at once with simulator.parameters.update({...})"
                    )
        if not ROOM.isdisjoint(names):
            self._require_room(values, slack=TOLERANCE)
        if "actuator_delay" in names:
            self._require_samples(values)
        if "inertia" in names:
            wrong = ~is_semidefinite(values["inertia"], self._least_scales) & np.isfinite(self._least_scales)
            if wrong.any():
                link = self.model.link_names[int(np.argwhere(wrong)[0][-1])]
                raise ModelError(
                    f"parameter 'inertia' of link '{link}' has a negative principal moment; give a positive "
                    "semidefinite one"
                )
        for name in POSITIVE_IF_USED & set(names):
            wrong = ~unused_entries(name, self.model) & (values[name] <= 0.0)
            if wrong.any():
                owner = self._owner(name, int(np.argwhere(wrong)[0][-1]))
                raise ModelError(f"parameter '{name}' of {owner} must be positive")
        for label, (least, most) in MUSCLE_RANGES.items():
            if (name := MUSCLE_PARAMETERS[label]) in names:
                inside = (values[name] > least - TOLERANCE) & (values[name] < most + TOLERANCE)
                wrong = ~unused_entries(name, self.model) & ~inside
                if wrong.any():
                    owner = self._owner(name, int(np.argwhere(wrong)[0][-1]))
                    raise ModelError(f"parameter '{name}' of {owner} must be between {least:g} and {most:g}")
        if not set(DECISIVE).isdisjoint(names):
            self._require_regular(values)

    def _require_room(self, values: Mapping[str, np.ndarray], slack: float) -> None:
        """Raise ModelError for hard limits that are both active at every position; MuJoCo's soft limits may be."""
        if self.by_mujoco:
            return
        lower, upper, margin, stiffness = (values[name] for name in ROOM_NAMES)
        cramped = (lower + margin > upper - margin + slack) & np.isinf(stiffness)
        if cramped.any():
            index = tuple(np.argwhere(cramped)[0])
            limits = (np.broadcast_to(x, cramped.shape)[index] for x in (margin, lower, upper))
            raise ModelError(
                "joint '{}': limit_margin {} leaves no range between the limits {} and {}; make it smaller, give "
                "limit_stiffness, or choose sim.MujocoContact".format(
                    self.model.joint_names[self.model.dof_link[index[-1]]], *limits
                )
            )

    def _require_samples(self, values: Mapping[str, np.ndarray]) -> None:
        """Raise ModelError for a delay that is longer than the inputs that an actuator remembers."""
        delays = np.atleast_2d(values.get("actuator_delay", np.zeros(self.model.nu)))
        late = delays > (self.model.delay_samples + TOLERANCE) * self._step
        if late.any():
            index = tuple(int(k) for k in np.argwhere(late)[0])
            name, count = self.model.actuator_names[index[-1]], int(self.model.delay_samples[index[-1]])
            raise ModelError(
                f"actuator '{name}': its delay is {delays[index]:.6g} s, but its samples={count} hold only "
                f"{count * self._step:.6g} s of steps of {self._step:g} s; give sim.Delay more samples"
            )

    def _require_regular(self, values: Mapping[str, np.ndarray]) -> None:
        """Check the mass matrix of one world for each distinct pattern of zeros."""
        given = {name: values.get(name, self.model.parameters[name]) for name in DECISIVE}
        per_world = {name: x.ndim > self.model.parameters[name].ndim for name, x in given.items()}
        worlds = max(len(x) if per_world[name] else 1 for name, x in given.items())
        some = [(x > 0.0).reshape(len(x) if per_world[name] else 1, -1) for name, x in given.items()]
        kinds = np.concatenate([np.broadcast_to(x, (worlds, x.shape[1])) for x in some], axis=1)
        first = [0] if (kinds == kinds[0]).all() else np.unique(kinds, axis=0, return_index=True)[1]
        for world in map(int, first):
            kind = kinds[world].tobytes()
            if kind not in self._regular:
                own = {name: x[world] if per_world[name] else x for name, x in given.items()}
                check_mass_matrix(self.model, own, self.dt)
                self._regular.add(kind)

    def _owner(self, name: str, item: int) -> str:
        if name.startswith("tendon_"):
            return f"tendon '{self.model.tendons.names[item]}'"
        if name.startswith("actuator_"):
            return f"actuator '{self.model.actuator_names[item]}'"
        return f"joint '{self.model.joint_names[self.model.dof_link[item]]}'"


def _require_of_actuators(model: Model, name: str, value: np.ndarray, unused: np.ndarray) -> None:
    given = (value != 0.0).reshape(-1, model.nu, *PARAMETERS[name].shape)
    if not given[:, unused].any():
        return
    index = int(np.flatnonzero(unused & given.any(axis=(0, *range(2, given.ndim))))[0])
    kind = ACTUATOR_KIND_NAMES[int(model.actuator_kind[index])]
    reason = UNUSED_BECAUSE.get(name, f"; a {kind} actuator doesn't have this gain")
    raise ModelError(f"parameter '{name}' is not zero for actuator '{model.actuator_names[index]}'{reason}")


# Maximum stable damping in a step: above it the damped velocity changes sign in every step, and grows.
LARGEST_SHARE = 2.0


def warn_of_damped_tendons(settings: Settings, parameters: Mapping[str, np.ndarray]) -> None:
    """Warn of unstable dampers and velocity gains along tendons that are integrated explicitly.

    Without constraints, a step takes the velocities v to (1 - dt M^-1 D) v with the damping D of all tendons together.
    M is the mass matrix of the initial configuration.

    Args:
        settings: settings of the simulator.
        parameters: its present parameters.
    """
    model, dt = settings.model, settings.dt
    damping = _damping(model, parameters)
    if settings.integrator == "midpoint":
        damping[[len(ends) in (1, MOST_PATHS) for ends in tendon_ends(model)]] = 0.0
    if not damping.any():
        return
    weights = InverseWeights(replace(model, dtype="float64"))
    slopes = weights.slopes()
    coupled = dt * np.sqrt(np.outer(damping, damping)) * (slopes @ weights.inverse @ slopes.T)
    share = float(np.linalg.eigvalsh(coupled).max())
    if share > LARGEST_SHARE:
        worst = int(np.argmax(np.diag(coupled)))
        warnings.warn(
            f"tendon '{model.tendons.names[worst]}': its dampers and velocity gains are explicit, and a step of {dt:g} "
            f"s changes its velocity by {share:.3g} times its value (above 1 the sign alternates, above "
            f"{LARGEST_SHARE:g} is unstable); choose a time step below {dt / share:.2g} s, less damping, or joint "
            "armature",
            StabilityWarning,
            stacklevel=5,
        )


def _damping(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the maximum damping over all worlds, of each tendon with its actuators [num_tendons]."""
    if not model.tendons.names:
        return np.zeros(0)
    damping = np.atleast_2d(parameters["tendon_damping"]).max(axis=0)
    for actuator in np.flatnonzero(model.actuator_tendon >= 0):
        gear, kd = (np.atleast_2d(parameters[f"actuator_{key}"])[:, actuator] for key in ("gear", "kd"))
        damping[model.actuator_tendon[actuator]] += max(float((gear**2 * kd).max()), 0.0)
    return np.maximum(damping, 0.0)
