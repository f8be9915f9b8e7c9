"""A call's task, its tensors, and launches that run in place on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sim.dynamics.differentiable_op import WORLDS_AT_A_TIME, DifferentiableOp, run_in_chunks
from sim.model.parameters import number_of_dims
from sim.torch.arrays import as_array
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.tensors import plain


@dataclass(frozen=True)
class Task:
    """The common part of calls that share a graph: the value of an operation, or its gradient.

    Attributes:
        operation: the operation.
        shapes: shapes of the inputs [rows, ...], then of the parameters.
        wanted: for each of these, True to compute its gradient; empty for the value.
    """

    operation: DifferentiableOp
    shapes: tuple[torch.Size, ...]
    wanted: tuple[bool, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows of the inputs."""
        return self.shapes[0][0]

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.shapes) - len(self.operation.parameters)

    @property
    def needed(self) -> frozenset[str]:
        """Parameters whose gradients are requested."""
        names = zip(self.operation.parameters, self.wanted[self.inputs :], strict=False)
        return frozenset(name for name, wanted in names if wanted)

    @property
    def shared(self) -> bool:
        """True if no parameter has a value for each row."""
        names = self.operation.parameters
        return [len(shape) for shape in self.shapes[self.inputs :]] == [number_of_dims(name) for name in names]


class Call:
    """A task and its tensors.

    Args:
        operation: the operation.
        tensors: inputs [rows, ...], parameters and, for a gradient that needs it, the result.
        outputs: tensors [rows, ...] to fill: the result, or the gradients of the inputs, None where none is requested.
        seed: derivative of the loss in the result [rows, ...]; None for the value.
        wanted: for each input and parameter, True to compute its gradient; empty for the value.
    """

    __slots__ = ("outputs", "seed", "task", "tensors")

    def __init__(
        self,
        operation: DifferentiableOp,
        tensors: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor | None],
        seed: torch.Tensor | None = None,
        wanted: tuple[bool, ...] = (),
    ):
        given = tensors[: len(wanted)] if wanted else tensors
        self.task = Task(operation, tuple(tensor.shape for tensor in given), wanted)
        self.tensors, self.outputs, self.seed = tensors, outputs, seed

    @property
    def inputs(self) -> Sequence[torch.Tensor]:
        """Inputs among the tensors."""
        return self.tensors[: self.task.inputs]

    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        """Parameters among the tensors."""
        return self.tensors[self.task.inputs : len(self.task.shapes)]

    @property
    def filled(self) -> list[torch.Tensor]:
        """Outputs that aren't None."""
        return [output for output in self.outputs if output is not None]

    def part(self, rows: slice) -> "Call":
        """Return the call for some of the rows; all rows must share the parameters."""
        task = self.task
        given = [x if task.inputs <= k < len(task.shapes) else x[rows] for k, x in enumerate(self.tensors)]
        seed = None if self.seed is None else self.seed[rows]
        outputs = [None if output is None else output[rows] for output in self.outputs]
        return Call(task.operation, given, outputs, seed, task.wanted)

    def plain(self) -> "Call":
        """Return the call on resolved tensors, see :func:`sim.torch.runtime.tensors.plain`."""
        seed = None if self.seed is None else self.seed.resolve_neg()
        return Call(self.task.operation, plain(self.tensors), self.outputs, seed, self.task.wanted)

    def contiguous(self) -> "Call":
        """Return the call on contiguous tensors."""
        call = self.plain()
        call.tensors = [tensor.contiguous() for tensor in call.tensors]
        call.seed = None if call.seed is None else call.seed.contiguous()
        return call


class Launches:
    """Launches of a call that read and write its contiguous tensors in place.

    Args:
        parameters: arrays that hold the call's parameters.
        call: the call.
    """

    def __init__(self, parameters: ParameterArrays, call: Call):
        self._parameters, self._task = parameters, call.task
        scalar = parameters.model.types.scalar
        outputs = [None if output is None else as_array(output, scalar) for output in call.outputs]
        self._outputs = [output for output in outputs if output is not None]
        operation = call.task.operation
        if call.seed is None:
            self._work = operation.forward
            (self._result,) = self._outputs
            self._inputs = [as_array(tensor, scalar) for tensor in call.inputs]
        else:
            self._work = operation.backward
            # An operation that doesn't need its result only reads its shape.
            result = call.tensors[-1] if operation.needs_result else call.seed
            self._result = as_array(result, scalar, as_array(call.seed, scalar))
            self._inputs = [as_array(x, scalar, grad) for x, grad in zip(call.inputs, outputs, strict=True)]

    def run(self) -> list[torch.Tensor]:
        """Fill the outputs, and return the gradients of the needed parameters."""
        self.launch()
        return [gradient.clone() for gradient in self._parameters.gradients.values()]

    def launch(self, at_a_time: int = WORLDS_AT_A_TIME) -> None:
        """Launch the kernels, on a CPU for a part of the rows at a time."""
        for output in self._outputs:
            output.zero_()
        with self._parameters.normalised() as model:
            if self._task.rows > 0:
                run_in_chunks(self._work, model, self._result, self._inputs, at_a_time)
