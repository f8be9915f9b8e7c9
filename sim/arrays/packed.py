"""Warp arrays as values that can be pickled: they live in the memory of a device, which no other process has."""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from sim.arrays.device_model import find_device


class PackedArray(NamedTuple):
    """What makes a Warp array again.

    Attributes:
        values: a copy on the host.
        dtype: Warp's type.
        device: name of the device.
        requires_grad: whether it has a gradient; the gradient's value is not kept.
    """

    values: np.ndarray
    dtype: Any
    device: str
    requires_grad: bool


def pack(array: wp.array | None) -> PackedArray | None:
    """A copy of an array of scalars."""
    if array is None:
        return None
    return PackedArray(array.numpy().copy(), array.dtype, str(array.device), array.requires_grad)


def unpack(packed: PackedArray | None) -> Any:
    """The array again, None for None.

    Raises:
        ModelError: if this machine doesn't have its device.
    """
    if packed is None:
        return None
    device = find_device(packed.device)
    return wp.array(packed.values, dtype=packed.dtype, device=device, requires_grad=packed.requires_grad)
