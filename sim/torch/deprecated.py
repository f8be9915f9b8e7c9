"""Deprecated names of :func:`sim.torch.rollout`."""

from typing import Any

from sim.simulation.simulator import Simulator
from sim.torch.autograd import rollout
from sim.torch.rollout_result import Rollout
from sim.torch.sensors.readings import Sensors
from sim.version import warn_deprecated


def rollout_with_contact_forces(simulator: Simulator, *args: Any, **kwargs: Any) -> Rollout:
    """Deprecated: call ``rollout(simulator, ..., contact_forces=True)``."""
    new = "call sim.torch.rollout(simulator, ..., contact_forces=True)"
    warn_deprecated("sim.torch.rollout_with_contact_forces(simulator, ...)", new, "0.3")
    return rollout(simulator, *args, contact_forces=True, **kwargs)


def rollout_with_sensors(sensors: Sensors, *args: Any, **kwargs: Any) -> Rollout:
    """Deprecated: call ``rollout(sensors.simulator, ..., sensors=sensors)``."""
    new = "call sim.torch.rollout(sensors.simulator, ..., sensors=sensors)"
    warn_deprecated("sim.torch.rollout_with_sensors(sensors, ...)", new, "0.3")
    return rollout(sensors.simulator, *args, sensors=sensors, **kwargs)
