"""Muscles from MuJoCo's parameters."""

from collections.abc import Sequence

from sim.errors import ModelError
from sim.importers.force_laws import ForceLaw, NoForceLawError
from sim.model.tendons.muscles import Muscle
from warp_kernels import types as codes
from warp_kernels.actuators.activation import SHORTEST


def muscle_law(
    gain: Sequence[float], bias: Sequence[float] | None, lengths: Sequence[float], acceleration: float
) -> ForceLaw:
    """Return the law of a muscle.

    Args:
        gain: at least nine parameters of its active force, MuJoCo's ``gainprm``.
        bias: those of its passive force, ``biasprm``; None without one.
        lengths: least and largest length of its path, times its gear [m, or rad].
        acceleration: Euclidean norm of the joint accelerations by a unit force of the muscle, initially.

    Raises:
        NoForceLawError: for parameters without a counterpart.
    """
    fibre, slack, force = _fibres(gain, lengths, acceleration)
    shortest, longest, speed, passive_force, lengthening_force = (float(number) for number in gain[4:9])
    passive = {"passive_force": 0.0}
    if bias is not None:
        other, offset, scale = _fibres(bias, lengths, acceleration)
        if bias[5] != longest:
            raise NoForceLawError("which is a muscle whose active and passive forces have different lmax")
        passive_force = float(bias[7]) * (scale / force if force else 1.0)
        passive = {"passive_force": passive_force, "passive_scale": fibre / other,
                   "passive_shift": (slack - offset) / other}  # fmt: skip
    try:
        muscle = Muscle(
            peak_force=force, fibre_length=fibre, slack_length=slack, shortest=shortest, longest=longest, speed=speed,
            lengthening_force=lengthening_force, **passive,
        )  # fmt: skip
    except ModelError as error:
        raise NoForceLawError(f"whose parameters are out of range: {error}") from None
    return ForceLaw(codes.MUSCLE, muscle=muscle)


def _fibres(numbers: Sequence[float], lengths: Sequence[float], acceleration: float) -> tuple[float, float, float]:
    """Return the optimal length of the fibres, the length of the path without fibres, and the peak force."""
    force = float(numbers[2])
    if force < 0.0:
        force = float(numbers[3]) / max(acceleration, SHORTEST)
    fibre = max(float(lengths[1] - lengths[0]) / max(float(numbers[1] - numbers[0]), SHORTEST), SHORTEST)
    return fibre, float(lengths[0] - numbers[0] * fibre), force
