"""Checks of arguments that come from outside."""

import math
import numbers
from collections.abc import Iterable

from sim.errors import ModelError


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, Python's or numpy's, not below ``least``."""
    # Python's own first: to ask an abstract class takes ten times as long.
    return isinstance(value, int | numbers.Integral) and int(value) >= least


def is_positive(value: object) -> bool:
    """Whether a value is a finite real number above zero; an array of one entry without dimensions counts as one."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, numbers.Real) and math.isfinite(value) and float(value) > 0.0


def require_type(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise ModelError, saying what is expected, for an argument that isn't of its class."""
    if not isinstance(value, kind):
        raise ModelError(f"{name} is a {type(value).__name__}; it must be {expected}")


def names_in(name: str, given: object) -> tuple[str, ...]:
    """The names that an argument holds, one or several. Raises ModelError for what holds anything else."""
    held = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else None
    if held is None or not all(isinstance(each, str) for each in held):
        raise ModelError(f"{name} is {given!r}; it must be a name, or a list of names")
    return held
