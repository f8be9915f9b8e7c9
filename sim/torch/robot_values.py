"""The tensors that an operation of a robot works on, one by one or as copies in one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch._utils import _flatten_dense_tensors

Tensors = Sequence[torch.Tensor | None]


class Values:
    """Inputs of an operation, its parameters and, for a gradient that needs it, its result, one after another.

    Args:
        tensors: the tensors, None for one that isn't there; of one dtype on one device.
        inputs: how many of them are inputs; the first one is there.
        flat: the entries of them all, one after another, where they lie so in memory.

    Attributes:
        shapes: of the tensors.
        present: which of them are there.
        rows: of the inputs.
    """

    __slots__ = ("_tensors", "flat", "inputs", "present", "rows", "shapes")

    def __init__(self, tensors: Tensors, inputs: int):
        self._tensors: Tensors | None = tensors
        self.inputs = inputs
        self.flat: torch.Tensor | None = None
        self.shapes = [None if tensor is None else tensor.shape for tensor in tensors]
        self._describe()

    @classmethod
    def from_flat(cls, flat: torch.Tensor, shapes: Sequence[torch.Size | None], inputs: int) -> Values:
        """From the entries in one piece of memory."""
        values = cls.__new__(cls)
        values._tensors, values.flat, values.shapes, values.inputs = None, flat, list(shapes), inputs
        values._describe()
        return values

    def _describe(self) -> None:
        self.present = tuple([shape is not None for shape in self.shapes])
        first = self.shapes[0]
        assert first is not None
        self.rows = first[0]

    @property
    def like(self) -> torch.Tensor:
        """A tensor of their dtype on their device."""
        if self.flat is not None:
            return self.flat
        assert self._tensors is not None
        first = self._tensors[0]
        assert first is not None
        return first

    def tensors(self) -> Tensors:
        """The tensors, or views of the one piece of memory."""
        if self._tensors is None:
            assert self.flat is not None
            parts = iter(self.flat.split([math.prod(shape) for shape in self.shapes if shape is not None]))
            self._tensors = [None if shape is None else next(parts).view(shape) for shape in self.shapes]
        return self._tensors

    def packed(self) -> Values:
        """Copies of all in one piece of memory."""
        flat = self.flat.clone() if self.flat is not None else pack(self.tensors())
        return Values.from_flat(flat, self.shapes, self.inputs)

    def contiguous(self) -> Values:
        """The same, each contiguous and, on CUDA, at an address that fits a vector."""
        if self.flat is not None and self.flat.is_cuda:
            return Values([None if x is None else x.clone() for x in self.tensors()], self.inputs)
        return Values([None if x is None else x.contiguous() for x in self.tensors()], self.inputs)

    def part(self, rows: slice, parameters: int) -> Values:
        """Some of the rows, where no parameter has a value for each row."""
        last = self.inputs + parameters
        tensors = self.tensors()
        parts = [x if x is None or self.inputs <= number < last else x[rows] for number, x in enumerate(tensors)]
        return Values(parts, self.inputs)

    def copy_(self, other: Values) -> None:
        """Take the entries of others; these must lie in one piece of memory."""
        assert self.flat is not None
        if other.flat is not None:
            self.flat.copy_(other.flat)
        else:
            own = [x for x in self.tensors() if x is not None]
            torch._foreach_copy_(own, [x for x in other.tensors() if x is not None])


def pack(tensors: Tensors) -> torch.Tensor:
    """The entries of all, one after another, in new memory."""
    return _flatten_dense_tensors([tensor for tensor in tensors if tensor is not None])
