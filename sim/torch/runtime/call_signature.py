"""Kinds of calls of a robot's methods.

What a call needs to know beside the numbers (that its arguments are right, what gets a gradient, which graphs do the
work) is found out for the first call of a kind and kept. Later calls that look the same take a short way, straight
through a graph. Nothing that a kind keeps depends on the numbers in the tensors or on where they lie. The graphs are
the engine's, which bounds their number: when one of them goes, the kinds that use it forget it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from sim.arrays.warp_lock import serialized
from sim.dynamics.differentiable_op import DifferentiableOp
from sim.torch.runtime.engine import Engine
from sim.torch.runtime.graph import Way, parts_of
from sim.torch.runtime.lru import next_use
from sim.torch.runtime.task import Task
from sim.torch.runtime.values import Values, pack

# All that can be different about a plain tensor beside its numbers, without and with gradients.
_WITHOUT_GRADIENTS = operator.attrgetter("shape", "dtype", "device")
_WITH_GRADIENTS = operator.attrgetter("shape", "dtype", "device", "requires_grad")


def looks(tensors: Sequence[torch.Tensor]) -> list[tuple]:
    """What tells the tensors of a call from those of another kind of call.

    Raises:
        AttributeError: for what isn't a tensor.
    """
    look = _WITH_GRADIENTS if torch.is_grad_enabled() else _WITHOUT_GRADIENTS
    return [look(tensor) for tensor in tensors]


class Kind:
    """Calls of one operation whose tensors look alike.

    Args:
        engine: the model's arrays.
        operation: what to compute.
        batch: shape of the batch.
        inner: shapes of the inputs beside it.
        tensors: the inputs, which can be broadcast to the batch, then the parameters, of such a call.
        shape: what the result is to have in place of [*batch, *operation.shape].
        split: sizes of the parts of its last dimension that are to be tensors of their own; none to leave it whole.

    Attributes:
        leaves: which of the tensors get a gradient.
        used: the number of its last use.
    """

    def __init__(
        self,
        engine: Engine,
        operation: DifferentiableOp,
        batch: torch.Size,
        inner: Sequence[tuple[int, ...]],
        tensors: Sequence[torch.Tensor],
        shape: torch.Size,
        split: tuple[int, ...] = (),
    ):
        self.engine, self.operation, self.shape, self.split = engine, operation, shape, split
        self.inputs, rows = len(inner), batch.numel()
        parameters = [tensor.shape for tensor in tensors[self.inputs :]]
        self.shapes = [*(torch.Size((*batch, *part)) for part in inner), *parameters]
        self.flat_shapes = [*(torch.Size((rows, *part)) for part in inner), *parameters]
        self.result_shape = torch.Size((rows, *operation.shape))
        # The result stands with the values that a gradient needs where it is one of them.
        self.kept_shapes = [*self.flat_shapes, *([self.result_shape] if operation.needs_result else [])]
        self._broadcast = [tensor.shape for tensor in tensors] != self.shapes
        needs = [torch.is_grad_enabled() and tensor.requires_grad for tensor in tensors]
        self.leaves = [number for number, need in enumerate(needs) if need]
        self.used = next_use()
        self.forget_graphs()

    def forget_graphs(self) -> None:
        """Take the long way again, which finds graphs or makes them anew."""
        self._value: Way | None = None
        self._gradients: dict[tuple[bool, ...], Way] = {}

    def broadcast(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors of a call, inputs broadcast to the batch."""
        if not self._broadcast:
            return tensors
        return [tensor.expand(shape) for tensor, shape in zip(tensors, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Broadcast tensors with their batch dimensions made one."""
        return [tensor.reshape(shape) for tensor, shape in zip(tensors, self.flat_shapes, strict=True)]

    def value(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The parts of the result, and if there are leaves a copy of all that the gradient needs, in one piece."""
        way = self._value
        if way is not None:
            return way.run(tensors)
        values = self.flat(tensors)
        result = self.engine.forward(self.operation, Values(values, self.inputs), self.shape)
        self._find_value()
        needed = [*values, result] if self.operation.needs_result else values
        return [*self.parts(result), *([pack(needed)] if self.leaves else [])]

    def gradients(
        self, kept: torch.Tensor, wanted: tuple[bool, ...], grads: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Gradients of those leaves that are wanted, from those of the parts of the result."""
        way = self._gradients.get(wanted)
        if way is not None:
            return way.run([kept, *grads])
        every = self.wanted(wanted)
        values = Values.from_flat(kept, self.kept_shapes, self.inputs)
        found = self.engine.backward(self.operation, values, every, self.whole(grads))
        shapes = [shape for shape, want in zip(self.shapes, every, strict=True) if want]
        self._find_gradients(wanted, every)
        return [gradient.view(shape) for gradient, shape in zip(found, shapes, strict=True)]

    @serialized
    def _find_value(self) -> None:
        """Find the short way to the value, if there is one by now."""
        graph = self.engine.kept_graph(Task.value(self.operation, self.flat_shapes), self)
        if graph is not None:
            self._value = graph.value_way(self)

    @serialized
    def _find_gradients(self, wanted: tuple[bool, ...], every: tuple[bool, ...]) -> None:
        """Find the short way to gradients of these tensors, if there is one by now."""
        graph = self.engine.kept_graph(Task.gradient(self.operation, self.flat_shapes, every), self)
        if graph is not None:
            # Of the many sets of leaves that can be wanted, the one that was wanted last.
            self._gradients = {wanted: graph.gradient_way(self, every)}

    def parts(self, result: torch.Tensor) -> list[torch.Tensor]:
        """The tensors to give for a result, each with memory of its own."""
        return [part.clone() for part in parts_of(result, self.split)] if self.split else [result]

    def whole(self, grads: Sequence[torch.Tensor]) -> torch.Tensor:
        """The gradient in the result [rows, *operation.shape] from those in its parts."""
        return (torch.cat(list(grads), -1) if self.split else grads[0]).reshape(self.result_shape)

    def wanted(self, wanted: Sequence[bool]) -> tuple[bool, ...]:
        """Of each tensor whether its gradient is wanted, from the same of each leaf."""
        every = [False] * len(self.shapes)
        for number, want in zip(self.leaves, wanted, strict=True):
            every[number] = want
        return tuple(every)
