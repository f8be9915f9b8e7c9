"""Tensors one after another in one piece of memory, which is copied faster than one by one."""

import math
from collections.abc import Sequence

import torch
from torch._utils import _flatten_dense_tensors


def pack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The entries of all tensors, of one dtype on one device, one after another in new memory."""
    return _flatten_dense_tensors(list(tensors))


def unpack(packed: torch.Tensor, shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """Tensors out of one piece of memory: views, on CUDA copies at addresses that Warp's vectors can be loaded from."""
    parts = packed.split([math.prod(shape) for shape in shapes])
    views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    return [view.clone() for view in views] if packed.is_cuda else views


def plain(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors whose memory holds their numbers, and not the negatives, as that of some views does."""
    return [tensor.resolve_neg() for tensor in tensors]
