"""Numbers as text in an XML file: the shortest that reads back as the same double, zero without a sign."""

from collections.abc import Iterable

import numpy as np


def number(value: float) -> str:
    """One number."""
    return repr(float(value) + 0.0)


def numbers(values: Iterable[float]) -> str:
    """Several numbers, separated by spaces."""
    return " ".join(number(value) for value in values)


def wxyz(quaternion: np.ndarray) -> str:
    """A quaternion xyzw in MuJoCo's order, wxyz."""
    return numbers(quaternion[[3, 0, 1, 2]])
