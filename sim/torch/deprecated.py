"""Earlier names of :func:`sim.torch.rollout`, to be removed in the next release."""

import warnings
from typing import Any

from sim.simulation.simulator import Simulator
from sim.torch.autograd import rollout
from sim.torch.rollout_result import Rollout
from sim.torch.sensors.readings import Sensors


def rollout_with_contact_forces(simulator: Simulator, *args: Any, **kwargs: Any) -> Rollout:
    """Deprecated: call ``rollout(simulator, ..., contact_forces=True)``."""
    _warn("rollout_with_contact_forces(simulator, ...)", "rollout(simulator, ..., contact_forces=True)")
    return rollout(simulator, *args, contact_forces=True, **kwargs)


def rollout_with_sensors(sensors: Sensors, *args: Any, **kwargs: Any) -> Rollout:
    """Deprecated: call ``rollout(sensors.simulator, ..., sensors=sensors)``."""
    _warn("rollout_with_sensors(sensors, ...)", "rollout(sensors.simulator, ..., sensors=sensors)")
    return rollout(sensors.simulator, *args, sensors=sensors, **kwargs)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"sim.torch.{old} is deprecated; call sim.torch.{new}", DeprecationWarning, stacklevel=3)
