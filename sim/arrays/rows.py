"""Arrays of rows that a feature of the model may leave without any; then all share one, which takes no memory."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp


def zeros(shape: tuple[int, ...], dtype: Any, device: wp.DeviceLike) -> wp.array:
    """Return zeros; where a dimension is zero, the array that all share. Give that one no gradient.

    Args:
        shape: of the array.
        dtype: type of an entry.
        device: where it is.
    """
    return (
        wp.zeros(shape, dtype=dtype, device=device) if all(shape) else _empty(shape, dtype, wp.get_device(device).alias)
    )


def integer_array(values: npt.ArrayLike, device: wp.DeviceLike) -> wp.array:
    """Return whole numbers of 32 bits.

    Args:
        values: the numbers.
        device: where the array is.
    """
    numbers = np.asarray(values, dtype=np.int32)
    return wp.array(numbers, dtype=wp.int32, device=device) if numbers.size else zeros(numbers.shape, wp.int32, device)


@functools.cache
def _empty(shape: tuple[int, ...], dtype: Any, device: str) -> wp.array:
    return wp.zeros(shape, dtype=dtype, device=device)
