"""Numbers as text for XML files: the shortest text for the same double, and zero without a sign."""

from collections.abc import Iterable

import numpy as np


def number(value: float) -> str:
    """Text of a number."""
    return repr(float(value) + 0.0)


def numbers(values: Iterable[float]) -> str:
    """Text of several numbers, separated by spaces."""
    return " ".join(number(value) for value in values)


def wxyz(quaternion: np.ndarray) -> str:
    """Text of a quaternion xyzw in MuJoCo's order."""
    return numbers(quaternion[[3, 0, 1, 2]])
