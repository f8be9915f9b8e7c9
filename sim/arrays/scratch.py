"""Scratch arrays of operations, reused for the same shape.

On a CPU allocating memory costs as much as the computation in it: the system maps and clears every page at its first
use. On CUDA, Warp's pool allocates in the order of the stream, so that arrays are simply allocated.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp

MOST_BYTES = 64 * 2**20
_free: dict[tuple, list[wp.array]] = defaultdict(list)
_lent: list[list[tuple[tuple, wp.array]]] = []
_kept: list[list[wp.array]] = []
_bytes = 0


@contextmanager
def scratch_arrays() -> Iterator[None]:
    """Free the arrays that :func:`scratch_array` returns in this context for reuse after it. For one thread at a
    time.
    """
    _lent.append([])
    try:
        yield
    finally:
        _take_back(_lent.pop())


@contextmanager
def kept_scratch() -> Iterator[list[wp.array]]:
    """Collect the arrays that :func:`scratch_array` returns in this context, for a captured graph to keep alive.

    They may be reused between two launches of the graph. :func:`keep` adds to them.
    """
    _kept.append([])
    try:
        yield _kept[-1]
    finally:
        _kept.pop()


def scratch_array(shape: tuple[int, ...], dtype: type, device: wp.DeviceLike, gradient: bool = False) -> wp.array:
    """Return an uninitialised array, with an uninitialised gradient on request.

    Args:
        shape: shape of the array.
        dtype: type of an entry.
        device: device of the array.
        gradient: whether it has a gradient.
    """
    if not _lent or not wp.get_device(device).is_cpu:
        return wp.empty(shape, dtype=dtype, device=device, requires_grad=gradient)
    key = (shape, dtype, gradient)
    array = _free[key].pop() if _free[key] else _new(shape, dtype, device, gradient)
    _lent[-1].append((key, array))
    keep(array)
    return array


def keep(array: wp.array) -> None:
    """Keep an array alive that the launches of the present capture use."""
    for arrays in _kept:
        arrays.append(array)


def _new(shape: tuple[int, ...], dtype: type, device: wp.DeviceLike, gradient: bool) -> wp.array:
    global _bytes
    array = wp.empty(shape, dtype=dtype, device=device, requires_grad=gradient)
    _bytes += array.capacity * (1 + gradient)
    return array


def _take_back(lent: list[tuple[tuple, wp.array]]) -> None:
    global _bytes
    for key, array in lent:
        _free[key].append(array)
    if _bytes > MOST_BYTES:
        _free.clear()
        _bytes = 0
