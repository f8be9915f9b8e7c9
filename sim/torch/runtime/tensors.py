"""New tensors, large ones in huge pages on a CPU; and packing of tensors into one block of memory.

Fresh memory is mapped and cleared page by page as it is first written. With pages of 4 KB that takes longer than most
of the kernels that write it. Linux gives pages of 2 MB to programs that request them if ``transparent_hugepage`` is
``madvise``, its usual setting. NumPy requests them for arrays of 4 MB or more, PyTorch only if ``THP_MEM_ALLOC_ENABLE``
is set.

Freed memory should serve the next call instead of being mapped and cleared again. glibc maps a block anew if it is
larger than any that was freed before, and returns the end of its heap to the system when more than twice that size is
free; neither limit grows beyond 32 MB. So tensors of a few MB, three in a call, come from the system at every call,
until a larger one has been freed.
"""

import contextlib
import ctypes
import functools
import math
import mmap
from collections.abc import Callable, Sequence

import torch
from torch._utils import _flatten_dense_tensors

from sim.errors import ModelError

LARGE = 4 * 2**20
# From 1 MB on, the system's time matters; just below 32 MB is the largest block that moves glibc's limits.
SETTLED, LARGEST_BLOCK = 2**20, 2**25 - 2**16


def new_tensor(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return an uninitialised tensor of the dtype and on the device of another."""
    try:
        tensor = like.new_empty(shape)
    except RuntimeError as error:
        size = math.prod(shape) * like.element_size()
        raise ModelError(f"no memory for a result of shape {tuple(shape)}, {size / 1e9:.3g} GB: {error}") from None
    if tensor.nbytes >= SETTLED and tensor.is_cpu:
        _settle()
        if tensor.nbytes >= LARGE:
            _ask_for_huge_pages(tensor.data_ptr(), tensor.nbytes)
    return tensor


@functools.cache
def _settle() -> None:
    """Make the process keep up to 64 MB of freed memory: allocate and free a large block once, without touching it."""
    with contextlib.suppress(RuntimeError):  # without enough memory
        torch.empty(LARGEST_BLOCK, dtype=torch.uint8, device="cpu")


def _ask_for_huge_pages(address: int, size: int) -> None:
    """Request huge pages for all whole pages of a block of memory. The system may ignore the hint."""
    advise = _madvise()
    if advise is None:
        return
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    past = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    advise(first, past - first, mmap.MADV_HUGEPAGE)


@functools.cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """Return the C library's function, or None on a system without huge pages on request."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    advise.restype = ctypes.c_int
    return advise


def pack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Pack the entries of all tensors, of one dtype on one device, into new memory."""
    return _flatten_dense_tensors(list(tensors))


def unpack(packed: torch.Tensor, shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """Unpack tensors from one block of memory: views; on CUDA copies at addresses aligned for Warp's vectors."""
    parts = packed.split([math.prod(shape) for shape in shapes])
    views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    return [view.clone() for view in views] if packed.is_cuda else views


def plain(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors with conjugation and negation resolved: some views hold the negatives of their values."""
    return [tensor.resolve_neg() for tensor in tensors]
