"""Properties of muscles."""

from dataclasses import dataclass, fields

from sim.errors import ModelError
from sim.model.checks import number


@dataclass(frozen=True, kw_only=True)
class Muscle:
    """Properties of a muscle: its force as a function of activation, length and velocity, as in MuJoCo.

    A muscle pulls its path together. Its fibres have the length of the path less ``slack_length``. Each property is
    also a parameter of the model, with gradients: ``actuator_muscle_peak_force`` and so on. See docs/actuators.md.

    Attributes:
        peak_force: largest active force at rest [N, or N m on a revolute joint].
        fibre_length: length of the fibres with that force, L0 [m, or rad].
        slack_length: length of the path at which the fibres would have no length [m, or rad].
        shortest: smallest length with an active force, in L0; less than 1.
        longest: largest length with an active force, in L0; more than 1.
        speed: velocity of shortening at which the active force is zero, L0 per second.
        passive_force: passive force at the length ``(1 + longest) / 2`` times two, in peak forces.
        lengthening_force: largest active force of fibres that lengthen, in peak forces; at least 1.
        passive_scale, passive_shift: the passive force is that of the length ``passive_scale * L + passive_shift``,
            for a muscle whose passive elements have other lengths.

    Raises:
        ModelError: for values that aren't finite or out of these ranges.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("forearm", mass=1.0, com=(0.15, 0, 0), inertia=(0.001, 0.01, 0.01))
        >>> _ = scene.add_joint("elbow", "revolute", child="forearm", axis=(0, 1, 0))
        >>> _ = scene.add_spatial_tendon("biceps", [("world", (0, 0, 0.3)), ("forearm", (0.05, 0, 0))])
        >>> scene.add_actuator(
        ...     tendon="biceps",
        ...     kind="muscle",
        ...     muscle=sim.Muscle(peak_force=600.0, fibre_length=0.12, slack_length=0.19),
        ...     activation=sim.Activation("muscle", time_constant=0.01, fall_time=0.04),
        ...     control_range=(0.0, 1.0),
        ... )
        'biceps'
    """

    peak_force: float
    fibre_length: float
    slack_length: float
    shortest: float = 0.5
    longest: float = 1.6
    speed: float = 1.5
    passive_force: float = 1.3
    lengthening_force: float = 1.2
    passive_scale: float = 1.0
    passive_shift: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = number("Muscle", each.name, getattr(self, each.name))
            lower, upper = RANGES.get(each.name, (0.0, INFINITY))
            # The ends of a range are excluded, except for forces.
            inside = lower < value < upper or (value == lower and each.name.endswith("force"))
            if not inside:
                raise ModelError(f"Muscle: {each.name} is {value}; it must be between {lower:g} and {upper:g}")
            object.__setattr__(self, each.name, value)


INFINITY = float("inf")
RANGES = {
    "slack_length": (-INFINITY, INFINITY), "passive_shift": (-INFINITY, INFINITY), "shortest": (-INFINITY, 1.0),
    "longest": (1.0, INFINITY), "lengthening_force": (1.0, INFINITY),
}  # fmt: skip
MUSCLE_PARAMETERS = {each.name: f"actuator_muscle_{each.name}" for each in fields(Muscle)}
