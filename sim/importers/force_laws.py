"""Conversion of MuJoCo's affine force laws to those of :meth:`sim.ModelBuilder.add_actuator`."""

from dataclasses import dataclass

from sim.model.builder.properties import DCMotor
from sim.model.tendons.muscles import Muscle
from warp_kernels import types as codes

GAINS = ("kp", "kd", "gain", "offset", "kp_per_input", "kd_per_input")


@dataclass(frozen=True)
class ForceLaw:
    """Force law of an actuator. ``kind`` is a code of :mod:`warp_kernels.types`, gains are those of the builder.

    ``factor`` is MuJoCo's force per Backswing force; it belongs into the gear.
    """

    kind: int
    kp: float = 0.0
    kd: float = 0.0
    gain: float = 0.0
    offset: float = 0.0
    kp_per_input: float = 0.0
    kd_per_input: float = 0.0
    factor: float = 1.0
    muscle: Muscle | None = None
    motor: DCMotor | None = None

    @property
    def gains(self) -> dict[str, float]:
        """Return the gains by name."""
        return {name: getattr(self, name) for name in GAINS}


class NoForceLawError(Exception):
    """Error for an actuator that Backswing can't represent."""


def affine_law(gain: tuple[float, float, float], bias: tuple[float, float, float]) -> ForceLaw:
    """Return the law of a force ``gain . (1, length, velocity) u + bias . (1, length, velocity)``.

    Raises:
        NoForceLawError: for a negative stiffness or damping at zero input, which would be unstable.
    """
    offset, kp, kd = bias[0], 0.0 - bias[1], 0.0 - bias[2]
    varies = gain[1] != 0.0 or gain[2] != 0.0
    if not varies and gain[0] != 0.0:
        if offset == kp == kd == 0.0:
            return ForceLaw(codes.TORQUE, factor=gain[0])
        if offset == 0.0 and kp == gain[0] > 0.0 and kd >= 0.0:
            return ForceLaw(codes.POSITION, kp=kp, kd=kd)
        if offset == kp == 0.0 and kd == gain[0] > 0.0:
            return ForceLaw(codes.VELOCITY, kd=kd)
    if kp < 0.0 or kd < 0.0:
        raise NoForceLawError(f"whose force grows with length or velocity (stiffness {kp:.6g}, damping {kd:.6g})")
    return ForceLaw(codes.AFFINE, kp, kd, gain[0], offset, 0.0 - gain[1], 0.0 - gain[2])
