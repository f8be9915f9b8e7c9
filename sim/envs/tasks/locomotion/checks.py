"""Checks of the settings of legged robots and their tasks."""

import math
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.checks import as_numbers, number, require_type, two_numbers
from sim.model.model import Model
from sim.model.specs import ACTUATOR_CODES, DYNAMICS_CODES, ActuatorSpec


def expression_of(where: str, given: str) -> re.Pattern[str]:
    """Return a compiled regular expression. Raises ModelError for an invalid one."""
    try:
        return re.compile(given)
    except (re.error, TypeError) as error:
        raise ModelError(f"{where}: {given!r} isn't a regular expression: {error}") from None


def finite(where: str, label: str, given: object) -> float:
    """Return a setting as a float. Raises ModelError, naming it, unless it is one finite number."""
    found = number(where, label, given)
    if not np.isfinite(found):
        raise ModelError(f"{where}: {label} is {given!r}; it must be finite")
    return found


def feet_of(given: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the geometries of each foot. Raises ModelError unless each foot is a list of names."""
    expected = "it must be a list of feet, each a list of names of geometries, such as [['left/sole'], ['right/sole']]"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ModelError(f"feet is {given!r}; {expected}")
    for foot in given:
        is_list = isinstance(foot, Sequence) and not isinstance(foot, str)
        if not is_list or not foot or not all(isinstance(name, str) for name in foot):
            raise ModelError(f"feet is {given!r}, with the foot {foot!r}; {expected}")
    return tuple(tuple(foot) for foot in given)


def is_servo(actuator: ActuatorSpec) -> bool:
    """Return whether an actuator drives a joint to a target, its input, without a state or an offset."""
    if actuator.joint is None or actuator.dynamics != DYNAMICS_CODES["none"]:
        return False
    if actuator.kind == ACTUATOR_CODES["affine"]:
        others = (actuator.offset, actuator.kp_per_input, actuator.kd_per_input)
        return bool(actuator.kp > 0.0 and np.isclose(actuator.gain, actuator.kp, rtol=1e-6) and not any(others))
    return actuator.kind == ACTUATOR_CODES["position"]


def require_spread(task: str, spread: Mapping[str, tuple[float, float]], model: Model) -> None:
    """Raise ModelError for parameters that the model doesn't have, and for bounds that aren't two finite numbers."""
    require_type(f"{task}.spread", spread, Mapping, "a dictionary")
    for name, bounds in spread.items():
        if name == "actuator_delay" and name not in model.parameters:
            raise ModelError(f"{task}.spread has 'actuator_delay', but no servo has a delay; give legged_robot a delay")
        if name not in model.parameters:
            known = ", ".join(model.parameters)
            raise ModelError(f"{task}.spread has '{name}', which is no parameter of the robot; known are {known}")
        low, high = two_numbers(f"{task}.spread", f"'{name}'", bounds)
        if not (np.isfinite([low, high]).all() and low <= high):
            raise ModelError(f"{task}.spread: '{name}' is {bounds!r}; it must be two finite numbers in ascending order")


def require_bounds(name: str, given: object, count: int) -> None:
    """Raise ModelError unless a setting has a smallest and a largest number for each of several components."""
    bounds = as_numbers(name, given)
    if bounds.shape != (count, 2) or not np.isfinite(bounds).all() or (bounds[:, 0] > bounds[:, 1]).any():
        raise ModelError(f"{name} is {given!r}; it must be {count} pairs of finite numbers in ascending order")


def require_weights(task: str, weights: Collection[str], terms: Collection[str]) -> None:
    """Raise ModelError for a weight without a term of the reward, and for a term without a weight."""
    for name in weights:
        if name not in terms:
            raise ModelError(
                f"{task}.weights has '{name}', which terms() doesn't return; its terms are {_known(terms)}"
            )
    for name in terms:
        if name not in weights:
            raise ModelError(
                f"{task}.terms() returned '{name}', which has no weight; give one, or 0. Those of {task}.weights are "
                f"{_known(weights)}"
            )


def require_numbers(task: object, not_negative: Sequence[str], positive: Sequence[str] = ()) -> None:
    """Raise ModelError, naming the task's class, unless attributes are finite numbers, not negative or positive."""
    name = type(task).__name__
    for setting in (*not_negative, *positive):
        value = finite(name, setting, getattr(task, setting))
        if value < 0.0 or (value == 0.0 and setting in positive):
            least = "positive" if setting in positive else "zero or positive"
            raise ModelError(f"{name}.{setting} is {value:g}; it must be {least}")


def require_by_name(where: str, given: object, least: float = -math.inf) -> None:
    """Raise ModelError unless a setting is a dictionary of finite numbers, none less than the least."""
    require_type(where, given, Mapping, "a dictionary of numbers by name")
    assert isinstance(given, Mapping)
    for name, value in given.items():
        if finite(where, f"'{name}'", value) < least:
            raise ModelError(f"{where}: '{name}' is {value!r}; it must be at least {least:g}")


def require_fraction(task: object, setting: str) -> None:
    """Raise ModelError, naming the task's class, unless an attribute is a number between zero and one."""
    value = finite(type(task).__name__, setting, getattr(task, setting))
    if not 0.0 <= value <= 1.0:
        raise ModelError(f"{type(task).__name__}.{setting} is {value:g}; it must be between 0 and 1")


def require_noise(task: str, noise: Collection[str], known: Collection[str]) -> None:
    """Raise ModelError for noise of an observation that doesn't exist."""
    for name in noise:
        if name not in known:
            raise ModelError(f"{task}.noise has '{name}', which is no observation; known are {_known(known)}")


def _known(names: Collection[str]) -> str:
    return ", ".join(names) or "none"
