"""Whether the explicit damping of tendons is too large for a time step."""

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.errors import StabilityWarning
from sim.model.model import Model
from sim.simulation.stepping.mujoco.law import InverseWeights

# Above this the velocity of a damped length changes sign from step to step, and grows.
LARGEST_SHARE = 2.0


def warn_of_damped_tendons(model: Model, parameters: Mapping[str, np.ndarray], dt: float) -> None:
    """Warn where dampers and velocity gains along tendons, which act with the velocity before a step, are unstable.

    Without constraints, a step takes the velocities v to (1 - dt M^-1 D) v with the damping D of all tendons together.
    M is that of the initial configuration.

    Args:
        model: the model.
        parameters: its present parameters.
        dt: time step [s].
    """
    damping = _damping(model, parameters)
    if not damping.any():
        return
    weights = InverseWeights(replace(model, dtype="float64"))
    slopes = weights.slopes()
    coupled = dt * np.sqrt(np.outer(damping, damping)) * (slopes @ weights.inverse @ slopes.T)
    share = float(np.linalg.eigvalsh(coupled).max())
    if share > LARGEST_SHARE:
        worst = int(np.argmax(np.diag(coupled)))
        warnings.warn(
            f"tendon '{model.tendons.names[worst]}': dampers and velocity gains along it are explicit, and in one step "
            f"of {dt:g} s they take {share:.3g} times its velocity (above {LARGEST_SHARE:g} is unstable, above 1 it "
            f"changes sign from step to step); choose a time step below {dt / share:.2g} s, less damping, or armature "
            "of the joints",
            StabilityWarning,
            stacklevel=5,
        )


def _damping(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """The greatest of any world, of the tendon and its actuators together [num_tendons]."""
    if not model.tendons.names:
        return np.zeros(0)
    damping = np.atleast_2d(parameters["tendon_damping"]).max(axis=0)
    for actuator in np.flatnonzero(model.actuator_tendon >= 0):
        gear, kd = (np.atleast_2d(parameters[f"actuator_{key}"])[:, actuator] for key in ("gear", "kd"))
        damping[model.actuator_tendon[actuator]] += max(float((gear**2 * kd).max()), 0.0)
    return np.maximum(damping, 0.0)
