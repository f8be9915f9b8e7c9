"""New tensors, large ones on a CPU in huge pages where the system has them to give.

Fresh memory is mapped and cleared page by page as it is first written. In pages of 4 KB that costs more than most of
the kernels that write it. Linux gives pages of 2 MB where ``transparent_hugepage`` is ``madvise``, its usual setting,
and a program asks for them. NumPy does so for its arrays from 4 MB on, PyTorch only where the user's environment sets
``THP_MEM_ALLOC_ENABLE``.

What is freed should serve the next call and not be mapped and cleared again. glibc maps each block anew that is larger
than any that was freed before, and gives the end of its heap back when more than twice that is free; both only up to
32 MB. So tensors of some MB, three in a call, come from the system at every call, until a larger one has been freed.
"""

import contextlib
import ctypes
import functools
import mmap
from collections.abc import Callable, Sequence

import torch

LARGE = 4 * 2**20
# From here on what the system takes counts; and just below the largest block that glibc goes by.
SETTLED, LARGEST_BLOCK = 2**20, 2**25 - 2**16


def new_tensor(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of arbitrary content, of the dtype and on the device of another."""
    tensor = like.new_empty(shape)
    if tensor.nbytes >= SETTLED and tensor.is_cpu:
        _settle()
        if tensor.nbytes >= LARGE:
            _ask_for_huge_pages(tensor.data_ptr(), tensor.nbytes)
    return tensor


@functools.cache
def _settle() -> None:
    """Let the process keep up to 64 MB of freed memory: allocate and free a large block once, without touching it."""
    with contextlib.suppress(RuntimeError):  # where there is no room for it
        torch.empty(LARGEST_BLOCK, dtype=torch.uint8)


def _ask_for_huge_pages(address: int, size: int) -> None:
    """Advise the system about all whole pages of a piece of memory. Whether it follows is its own affair."""
    advise = _madvise()
    if advise is None:
        return
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    past = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    advise(first, past - first, mmap.MADV_HUGEPAGE)


@functools.cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The C library's function, or None on a system without huge pages on request."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    advise.restype = ctypes.c_int
    return advise
