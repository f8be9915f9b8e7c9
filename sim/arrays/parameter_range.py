"""Between which bounds the numbers of a parameter may lie, entry by entry."""

import numpy as np

from sim.model.model import Model
from sim.model.parameters import (
    AT_MOST,
    MAY_BE_INFINITE,
    NOT_NEGATIVE,
    PARAMETERS,
    POSITIVE,
    TOLERANCE,
    TOLERANCE_ABOVE,
)
from sim.model.specs import ACTUATOR_GAINS
from warp_kernels.types import EXACT_FILTER, FILTER


def unused_entries(name: str, model: Model) -> np.ndarray:
    """Which entries have to be zero, since nothing reads them [n]: springs of free joints, gains of other actuators."""
    count = 1 if PARAMETERS[name].per == "world" else model.counts[PARAMETERS[name].per]
    if name == "stiffness":
        return np.asarray(model.dof_q < 0)
    gain = name.removeprefix("actuator_")
    if gain != name and gain in ACTUATOR_GAINS:
        return ~np.isin(model.actuator_kind, ACTUATOR_GAINS[gain])
    if name == "actuator_time_constant":
        return ~np.isin(model.actuator_dynamics, (FILTER, EXACT_FILTER))
    if name in ("actuator_force_axis", "actuator_torque_axis"):
        on_frames = model.transmissions.actuator[model.transmissions.link >= -1]
        return ~np.isin(np.arange(count), on_frames)
    return np.zeros(count, dtype=bool)


def parameter_range(name: str, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest numbers, for the model's precision [n, size of an entry]."""
    unused = unused_entries(name, model)
    shape = (len(unused), int(np.prod(PARAMETERS[name].shape)))
    digits = np.finfo(model.dtype)
    most = np.inf if name in MAY_BE_INFINITE else float(digits.max)
    lower, upper = np.full(shape, -most), np.full(shape, most)
    if name in NOT_NEGATIVE:
        lower[:] = -TOLERANCE
    if name in AT_MOST:
        upper[:] = AT_MOST[name] + TOLERANCE_ABOVE
    if name in POSITIVE:
        lower[:] = float(digits.tiny)
    lower[unused], upper[unused] = 0.0, 0.0
    return lower, upper
