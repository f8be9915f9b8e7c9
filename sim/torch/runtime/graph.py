"""What graphs of launches have in common that do a task which comes again.

A graph of twenty launches costs as much as a single launch. Its launches work on some rows at a time, so that what lies
between them stays in the cache of the processor.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

import torch

from sim.torch.runtime.lru import next_use
from sim.torch.runtime.task import Call


class Shapes(Protocol):
    """What a way must know about calls that look alike, see :class:`sim.torch.runtime.call_signature.Kind`.

    Attributes:
        shapes: of inputs, broadcast to the batch, and parameters.
        flat_shapes: the same with batch dimensions made one.
        shape: of the result.
        split: sizes of the parts of its last dimension that are to be tensors of their own; none to leave it whole.
        leaves: which of inputs and parameters get a gradient.
    """

    shapes: list[torch.Size]
    flat_shapes: list[torch.Size]
    shape: torch.Size
    split: tuple[int, ...]
    leaves: list[int]

    def whole(self, grads: Sequence[torch.Tensor]) -> torch.Tensor:
        """The gradient in the result with batch dimensions made one, from those in its parts."""


class Way(Protocol):
    """The short way from the tensors of a call to what it gives."""

    def run(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results in new memory."""


class Keeper(Protocol):
    """Who keeps a graph beside its engine."""

    def forget_graphs(self) -> None:
        """Keep none any more."""


class Graph(abc.ABC):
    """A task as a captured graph of launches.

    Attributes:
        used: the number of its last use.
        keepers: who else keeps it.
    """

    def __init__(self) -> None:
        self.used, self.keepers = next_use(), WeakSet[Keeper]()

    def let_go(self) -> None:
        """See to it that nobody keeps it, so that its memory is freed."""
        for keeper in self.keepers:
            keeper.forget_graphs()

    @abc.abstractmethod
    def run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs of a call; returns the gradients of the needed parameters."""

    @abc.abstractmethod
    def value_way(self, calls: Shapes) -> Way:
        """From inputs and parameters to the parts of the result and, if there are leaves, one piece of all values."""

    @abc.abstractmethod
    def gradient_way(self, calls: Shapes, wanted: Sequence[bool]) -> Way:
        """From that piece and the gradients in the parts of the result to those of the tensors that are wanted."""


def parts_of(result: torch.Tensor, split: Sequence[int]) -> list[torch.Tensor]:
    """Views of the parts of a result."""
    return list(result.split(list(split), -1)) if split else [result]
