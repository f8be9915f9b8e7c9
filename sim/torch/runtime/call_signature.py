"""What is known about calls of a robot's methods that look alike.

All that a call needs beside the numbers (that its arguments are right, what gets a gradient, which graphs do the work)
is found out for the first call of a signature and kept for those that follow. Nothing of it depends on the numbers in
the tensors or on where they lie.
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
        used: the number of its last use, see :data:`next_use`.
    """

    used: int


K = TypeVar("K")
R = TypeVar("R", bound=Recent)

# The number of a use, larger than those of all uses before. Noting it takes a call less time than keeping an order.
next_use = itertools.count().__next__


def pop_least_recent(cache: dict[K, R]) -> R:
    """Take out the entry that was used longest ago."""
    return cache.pop(min(cache, key=lambda key: cache[key].used))


# From the tensors of a call straight through a graph to results in new memory; any thread may take it.
FastPath = Callable[[list[torch.Tensor]], list[torch.Tensor]]

# All that can be different about a plain tensor beside its numbers, without and with gradients.
_WITHOUT_GRADIENTS = operator.attrgetter("shape", "dtype", "device")
_WITH_GRADIENTS = operator.attrgetter("shape", "dtype", "device", "requires_grad")


def tensor_signature(tensors: Sequence[torch.Tensor]) -> list[tuple]:
    """What distinguishes the tensors of a call from those of a call with another signature.

    Raises:
        AttributeError: for what isn't a tensor.
    """
    signature = _WITH_GRADIENTS if torch.is_grad_enabled() else _WITHOUT_GRADIENTS
    return [signature(tensor) for tensor in tensors]


class CallSignature:
    """Calls of one operation whose tensors have the same shapes and need the same gradients.

    Args:
        operation: what to compute.
        batch: shape of the batch.
        inner: shapes of the inputs beside it.
        tensors: the inputs, which can be broadcast to the batch, then the parameters, of such a call.
        shape: of the result, in place of [*batch, *operation.shape].
        split: sizes of the parts of its last dimension that are to be tensors of their own; none to leave it whole.

    Attributes:
        inputs: number of inputs.
        shapes: of inputs, broadcast to the batch, and parameters; flat_shapes: the same with the batch as rows.
        packed_shapes: of what is packed for the gradient: those, and the result where the gradient needs it.
        leaves: which of the tensors get a gradient.
        value_path: straight through a graph to the value; None until there is a graph.
        gradient_paths: the same to gradients, for the set of leaves that was asked for last.
        used: the number of its last use.
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
        """Let go of all graphs. The next call finds one, or has it made."""
        self.value_path: FastPath | None = None
        self.gradient_paths: dict[tuple[bool, ...], FastPath] = {}

    def broadcast(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors of a call, inputs broadcast to the batch."""
        if not self._broadcast:
            return tensors
        return [tensor.expand(shape) for tensor, shape in zip(tensors, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Broadcast tensors with the batch as rows."""
        return [tensor.reshape(shape) for tensor, shape in zip(tensors, self.flat_shapes, strict=True)]

    def wanted(self, leaves: Sequence[bool]) -> tuple[bool, ...]:
        """Of each tensor whether its gradient is wanted, from the same of each leaf."""
        wanted = [False] * len(self.shapes)
        for number, want in zip(self.leaves, leaves, strict=True):
            wanted[number] = want
        return tuple(wanted)


def parts_of(result: torch.Tensor, split: Sequence[int]) -> list[torch.Tensor]:
    """Views of the parts of a result, or the result itself where it isn't split."""
    return list(result.split(list(split), -1)) if split else [result]


def separate_parts(result: torch.Tensor, split: Sequence[int]) -> list[torch.Tensor]:
    """The parts of a result, each with memory of its own."""
    return [part.clone() for part in parts_of(result, split)] if split else [result]


def whole_gradient(grads: Sequence[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    """The gradient in a result of this shape from those in its parts."""
    return (torch.cat(list(grads), -1) if len(grads) > 1 else grads[0]).reshape(shape)
