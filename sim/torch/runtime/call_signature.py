"""Cached signatures of a robot's calls.

All that a call needs beyond its values (checks of its arguments, which tensors get a gradient, which graphs to run) is
determined at the first call of a signature and kept for later ones. It doesn't depend on the tensors' values or
addresses.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch

from sim.dynamics.differentiable_op import DifferentiableOp


class Recent(Protocol):
    """An entry of such a cache.

    Attributes:
        used: sequence number of its last use, see :data:`next_use`.
    """

    used: int


K = TypeVar("K")
R = TypeVar("R", bound=Recent)

# Sequence number of a use, larger than all before. Storing it is faster than maintaining an ordered dictionary.
next_use = itertools.count().__next__


def pop_least_recent(cache: dict[K, R]) -> R:
    """Remove and return the least recently used entry."""
    return cache.pop(min(cache, key=lambda key: cache[key].used))


# Fast path: from the tensors of a call through a graph to results in new memory. Thread-safe.
FastPath = Callable[[list[torch.Tensor]], list[torch.Tensor]]

# Everything that can differ between plain tensors but their values, without and with gradients.
_WITHOUT_GRADIENTS = operator.attrgetter("shape", "dtype", "device")
_WITH_GRADIENTS = operator.attrgetter("shape", "dtype", "device", "requires_grad")


def tensor_signature(tensors: Sequence[torch.Tensor]) -> list[tuple]:
    """Return a key of the tensors' types, shapes and gradients: equal for calls of one signature.

    Raises:
        AttributeError: for anything but a tensor.
    """
    signature = _WITH_GRADIENTS if torch.is_grad_enabled() else _WITHOUT_GRADIENTS
    return [signature(tensor) for tensor in tensors]


class CallSignature:
    """Calls of one operation whose tensors have the same shapes and need the same gradients.

    Args:
        operation: the operation to compute.
        batch: shape of the batch.
        inner: shapes of the inputs without the batch.
        tensors: the inputs, which can be broadcast to the batch, then the parameters, of such a call.
        shape: shape of the result, replacing [*batch, *operation.shape].
        split: sizes of the parts of its last dimension that become separate tensors; empty to keep it whole.

    Attributes:
        inputs: number of inputs.
        shapes: shapes of inputs, broadcast to the batch, and parameters; flat_shapes: the same with the batch as rows.
        packed_shapes: shapes of the tensors packed for the gradient: those, and the result if the gradient needs it.
        leaves: indices of the tensors that get a gradient.
        value_path: fast path through a graph to the value; None without a graph.
        gradient_paths: fast path to gradients, for the set of leaves requested last.
        used: sequence number of its last use.
    """

    def __init__(
        self,
        operation: DifferentiableOp,
        batch: torch.Size,
        inner: Sequence[tuple[int, ...]],
        tensors: Sequence[torch.Tensor],
        shape: torch.Size,
        split: tuple[int, ...] = (),
    ):
        self.operation, self.shape, self.split = operation, shape, split
        self.inputs, rows = len(inner), batch.numel()
        parameters = [tensor.shape for tensor in tensors[self.inputs :]]
        self.shapes = [*(torch.Size((*batch, *part)) for part in inner), *parameters]
        self.flat_shapes = [*(torch.Size((rows, *part)) for part in inner), *parameters]
        self.result_shape = torch.Size((rows, *operation.shape))
        self.packed_shapes = [*self.flat_shapes, *([self.result_shape] if operation.needs_result else [])]
        self._broadcast = [tensor.shape for tensor in tensors] != self.shapes
        needs = [torch.is_grad_enabled() and tensor.requires_grad for tensor in tensors]
        self.leaves = [number for number, need in enumerate(needs) if need]
        self.used = next_use()
        self.forget_paths()

    def forget_paths(self) -> None:
        """Drop all graphs. The next call finds one, or captures it."""
        self.value_path: FastPath | None = None
        self.gradient_paths: dict[tuple[bool, ...], FastPath] = {}

    def broadcast(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Broadcast a call's inputs to the batch, and return them with its parameters."""
        if not self._broadcast:
            return tensors
        return [tensor.expand(shape) for tensor, shape in zip(tensors, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return broadcast tensors with the batch as rows."""
        return [tensor.reshape(shape) for tensor, shape in zip(tensors, self.flat_shapes, strict=True)]

    def wanted(self, leaves: Sequence[bool]) -> tuple[bool, ...]:
        """Return, for each tensor, True if its gradient is requested, from the same flags of the leaves."""
        wanted = [False] * len(self.shapes)
        for number, want in zip(self.leaves, leaves, strict=True):
            wanted[number] = want
        return tuple(wanted)


def parts_of(result: torch.Tensor, split: Sequence[int]) -> list[torch.Tensor]:
    """Return views of the parts of a result, or the result itself if it isn't split."""
    return list(result.split(list(split), -1)) if split else [result]


def separate_parts(result: torch.Tensor, split: Sequence[int]) -> list[torch.Tensor]:
    """Return the parts of a result, each with its own memory."""
    return [part.clone() for part in parts_of(result, split)] if split else [result]


def whole_gradient(grads: Sequence[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    """Return the gradient in a result of this shape from the gradients in its parts."""
    return (torch.cat(list(grads), -1) if len(grads) > 1 else grads[0]).reshape(shape)
