"""What is to be done on the tensors of a call: the task, and its kernels launched where the tensors lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sim.dynamics.differentiable_op import WORLDS_AT_A_TIME, DifferentiableOp, run_in_chunks
from sim.torch.arrays import as_array
from sim.torch.runtime.parameters import ParameterArrays, number_of_dims
from sim.torch.runtime.values import Values, plain


@dataclass(frozen=True)
class Task:
    """What calls have in common that one graph can do.

    Attributes:
        work: value or gradient.
        operation: of what.
        shapes: of the inputs [rows, ...], then of the parameters.
        wanted: of each of these, whether its gradient is asked for; none of them for a value.
    """

    work: "type[Forward | Backward]"
    operation: DifferentiableOp
    shapes: tuple[torch.Size, ...]
    wanted: tuple[bool, ...] = ()

    @classmethod
    def value(cls, operation: DifferentiableOp, shapes: Sequence[torch.Size]) -> "Task":
        """Find the result of an operation."""
        return cls(Forward, operation, tuple(shapes))

    @classmethod
    def gradient(cls, operation: DifferentiableOp, shapes: Sequence[torch.Size], wanted: tuple[bool, ...]) -> "Task":
        """Find gradients of its inputs and parameters."""
        return cls(Backward, operation, tuple(shapes), wanted)

    @property
    def rows(self) -> int:
        """Rows of the inputs."""
        return self.shapes[0][0]

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return len(self.shapes) - len(self.operation.parameters)

    @property
    def needed(self) -> frozenset[str]:
        """The parameters whose gradients are asked for."""
        names = zip(self.operation.parameters, self.wanted[self.inputs :], strict=False)
        return frozenset(name for name, wanted in names if wanted)

    @property
    def shared(self) -> bool:
        """Whether no parameter has a value for each row."""
        names = self.operation.parameters
        return [len(shape) for shape in self.shapes[self.inputs :]] == [number_of_dims(name) for name in names]

    def part(self, rows: int) -> "Task":
        """The same for so many rows, where all share the parameters."""
        count = self.inputs
        inputs = [torch.Size((rows, *shape[1:])) for shape in self.shapes[:count]]
        return replace(self, shapes=(*inputs, *self.shapes[count:]))


@dataclass(slots=True)
class Call:
    """A task and what it is done on.

    Attributes:
        task: what to do.
        values: inputs, parameters and, for a gradient that needs it, the result.
        seed: derivative of the loss in the result; None for a value.
        outputs: tensors [rows, ...] to fill: the result, or the gradients of the inputs, None where none is wanted.
    """

    task: Task
    values: Values
    seed: torch.Tensor | None
    outputs: Sequence[torch.Tensor | None]

    def parameters(self) -> Sequence[torch.Tensor]:
        """The parameters among the values."""
        first = self.values.inputs
        return self.values.tensors()[first : first + len(self.task.operation.parameters)]

    def part(self, rows: slice) -> "Call":
        """The call for some of the rows, where all share the parameters."""
        values = self.values.part(rows, len(self.task.operation.parameters))
        seed = None if self.seed is None else self.seed[rows]
        outputs = [None if output is None else output[rows] for output in self.outputs]
        return Call(self.task.part(values.rows), values, seed, outputs)

    def plain(self) -> "Call":
        """The call on tensors whose numbers lie in their memory, and not the negatives of them as of some views."""
        seed = None if self.seed is None else plain([self.seed])[0]
        return Call(self.task, self.values.plain(), seed, self.outputs)

    def contiguous(self) -> "Call":
        """The call on tensors that are contiguous."""
        seed = None if self.seed is None else self.seed.contiguous()
        return Call(self.task, self.values.contiguous(), seed, self.outputs)


class Forward:
    """One evaluation of an operation on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: Call):
        self.parameters, self.call = parameters, call
        scalar = parameters.model.types.scalar
        (result,) = call.outputs
        assert result is not None
        self.result = as_array(result, scalar)
        inputs = call.values.tensors()[: call.values.inputs]
        self.arrays = [as_array(tensor, scalar) for tensor in inputs]

    def run(self) -> list[torch.Tensor]:
        """Fill the result."""
        self.launch()
        return []

    def launch(self, at_a_time: int = WORLDS_AT_A_TIME) -> None:
        """Launch all that reads what the tensors hold now and writes the result, on a CPU so many rows at a time."""
        self.result.zero_()
        if self.call.values.rows > 0:
            self.parameters.tidy()
            operation = self.call.task.operation
            run_in_chunks(operation.forward, self.parameters.model, self.result, self.arrays, at_a_time)


class Backward:
    """One evaluation of an operation's gradient on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: Call):
        self.parameters, self.call = parameters, call
        scalar = parameters.model.types.scalar
        tensors, count = call.values.tensors(), call.values.inputs
        self.bars = [None if tensor is None else as_array(tensor, scalar) for tensor in call.outputs]
        self.arrays = [as_array(tensor, scalar, bar) for tensor, bar in zip(tensors[:count], self.bars, strict=True)]
        assert call.seed is not None
        # An operation that doesn't need its result only asks for its shape.
        result = tensors[-1] if call.task.operation.needs_result else call.seed
        self.result = as_array(result, scalar, as_array(call.seed, scalar))

    def run(self) -> list[torch.Tensor]:
        """Fill the gradients of inputs; returns those of parameters."""
        self.launch()
        return [gradient.clone() for gradient in self.parameters.gradients.values()]

    def launch(self, at_a_time: int = WORLDS_AT_A_TIME) -> None:
        """Launch all that reads what the tensors hold now and writes the gradients, on a CPU so many rows at a time."""
        self.parameters.clear_gradients()
        for bar in self.bars:
            if bar is not None:
                bar.zero_()
        if self.call.values.rows > 0:
            self.parameters.tidy()
            operation = self.call.task.operation
            run_in_chunks(operation.backward, self.parameters.model, self.result, self.arrays, at_a_time)
            self.parameters.finish_gradients()
