"""The tensors that an operation of a robot works on, one by one or as copies in one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch._utils import _flatten_dense_tensors


class Values:
    """Inputs of an operation, its parameters and, where a gradient needs it, its result, one after another.

    Args:
        tensors: the tensors, of one dtype on one device.
        inputs: how many of them are inputs, one at least.

    Attributes:
        flat: the entries of them all, one after another, where they lie so in memory.
        shapes: of the tensors.
        rows: of the inputs.
    """

    __slots__ = ("_tensors", "flat", "inputs", "rows", "shapes")

    def __init__(self, tensors: Sequence[torch.Tensor], inputs: int):
        self._tensors: Sequence[torch.Tensor] | None = tensors
        self.inputs = inputs
        self.flat: torch.Tensor | None = None
        self.shapes: Sequence[torch.Size] = [tensor.shape for tensor in tensors]
        self.rows = self.shapes[0][0]

    @classmethod
    def from_flat(cls, flat: torch.Tensor, shapes: Sequence[torch.Size], inputs: int) -> Values:
        """From the entries in one piece of memory."""
        values = cls.__new__(cls)
        values._tensors, values.flat, values.shapes, values.inputs = None, flat, shapes, inputs
        values.rows = shapes[0][0]
        return values

    @property
    def like(self) -> torch.Tensor:
        """A tensor of their dtype on their device."""
        return self.tensors()[0] if self.flat is None else self.flat

    def tensors(self) -> Sequence[torch.Tensor]:
        """The tensors, or views of the one piece of memory."""
        if self._tensors is None:
            assert self.flat is not None
            parts = self.flat.split([math.prod(shape) for shape in self.shapes])
            self._tensors = [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return self._tensors

    def contiguous(self) -> Values:
        """The same, each contiguous and, on CUDA, at an address that fits a vector."""
        if self.flat is not None and self.flat.is_cuda:
            return Values([x.clone() for x in self.tensors()], self.inputs)
        return Values([x.contiguous() for x in self.tensors()], self.inputs)

    def plain(self) -> Values:
        """The same with numbers that lie in memory, and not their negatives as of some views."""
        return Values(plain(self.tensors()), self.inputs)

    def part(self, rows: slice, parameters: int) -> Values:
        """Some of the rows, where no parameter has a value for each row."""
        last = self.inputs + parameters
        parts = [x if self.inputs <= number < last else x[rows] for number, x in enumerate(self.tensors())]
        return Values(parts, self.inputs)


def pack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The entries of all, one after another, in new memory."""
    return _flatten_dense_tensors(list(tensors))


def plain(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors whose numbers are what lies in their memory, and not the negative of that as of some views."""
    return [tensor.resolve_neg() for tensor in tensors]
