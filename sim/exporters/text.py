"""Numbers as the text of an XML file: the shortest that stands for the same double, zero without a sign."""

from collections.abc import Iterable

import numpy as np


def number(value: float) -> str:
    """One number."""
    return repr(float(value) + 0.0)


def numbers(values: Iterable[float]) -> str:
    """Several with spaces between."""
    return " ".join(number(value) for value in values)


def wxyz(quaternion: np.ndarray) -> str:
    """A quaternion xyzw in the order of MuJoCo."""
    return numbers(quaternion[[3, 0, 1, 2]])
