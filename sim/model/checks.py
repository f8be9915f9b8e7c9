"""Checks of arguments that come from outside."""

import math
import numbers


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, Python's or numpy's, not below ``least``."""
    # Python's own first: to ask an abstract class takes ten times as long.
    return isinstance(value, int | numbers.Integral) and int(value) >= least


def is_positive(value: object) -> bool:
    """Whether a value is a finite real number above zero; an array of one entry without dimensions counts as one."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, numbers.Real) and math.isfinite(value) and float(value) > 0.0
