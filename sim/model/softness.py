"""MuJoCo's parameters of soft constraints."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.checks import as_numbers

SOLREF = (0.02, 1.0)
SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
LARGEST = 1e30  # bound of these numbers, so that they and their products fit into float32


@dataclass(frozen=True)
class Softness:
    """Softness of a contact, a joint limit or dry friction under :class:`sim.MujocoContact`. Defaults are MuJoCo's.

    Attributes:
        solref: time constant [s] and damping ratio with which a violation decays; or, if negative, minus the stiffness
            [1/s^2] and minus the damping [1/s].
        solimp: impedance at the constraint's boundary, and ``width`` beyond it; the width [m or rad]; midpoint and
            power of the transition between the two.

    Raises:
        ModelError: for numbers that have no meaning in MuJoCo.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground(surface=sim.Surface(softness=sim.Softness(solref=(0.005, 1.0))))
    """

    solref: tuple[float, ...] = SOLREF
    solimp: tuple[float, ...] = SOLIMP

    def __post_init__(self) -> None:
        require_impedance("Softness", self.solref, self.solimp)


def require_impedance(where: str, solref: npt.ArrayLike | None = None, solimp: npt.ArrayLike | None = None) -> None:
    """Check MuJoCo's softness parameters, of one constraint or of several [n, 2] and [n, 5]; None is skipped.

    Raises:
        ModelError: naming the first invalid ones.
    """
    for pair in np.atleast_2d(as_numbers(f"{where}: solref", SOLREF if solref is None else solref)):
        if len(pair) != 2 or not ((pair > 0.0).all() or (pair <= 0.0).all()) or np.abs(pair).max() > LARGEST:
            raise ModelError(
                f"{where}: solref is {pair.tolist()}; it must be a time constant and a damping ratio, both "
                "positive, or minus a stiffness and minus a damping, neither positive, and none infinite"
            )
    for numbers in np.atleast_2d(as_numbers(f"{where}: solimp", SOLIMP if solimp is None else solimp)):
        if len(numbers) != 5 or not _is_impedance(*numbers):
            raise ModelError(
                f"{where}: solimp is {numbers.tolist()}; it must be two impedances between 0 and 1, a width "
                "that is not negative, a midpoint between 0 and 1, and a power of at least 1, all finite"
            )


def _is_impedance(low: float, high: float, width: float, middle: float, power: float) -> bool:
    return (
        all(0.0 < share < 1.0 for share in (low, high, middle)) and 0.0 <= width <= LARGEST and 1.0 <= power <= LARGEST
    )


DEFAULT_SOFTNESS = Softness()

# MuJoCo keeps impedances at least this far from 0 and 1.
LEAST_IMPEDANCE = 1e-4


def corrected_softness(solref: npt.ArrayLike, solimp: npt.ArrayLike) -> Softness:
    """Return solref and solimp as MuJoCo corrects them: clamped, and the default for a solref of two signs."""
    low, high, width, middle, power = (float(number) for number in np.asarray(solimp))
    low, high, middle = (min(max(share, LEAST_IMPEDANCE), 1.0 - LEAST_IMPEDANCE) for share in (low, high, middle))
    first, second = (float(number) for number in np.asarray(solref))
    return Softness(
        (first, second) if (first > 0.0) == (second > 0.0) else SOLREF,
        (low, high, max(width, 0.0), middle, max(power, 1.0)),
    )
