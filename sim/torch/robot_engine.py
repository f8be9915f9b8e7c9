"""Work of a robot model's operations on tensors.

Inputs are read and results written where they lie. On a CPU, work that comes again runs as a captured graph of launches
over tensors of its own, into which arguments are copied and out of which results are: a graph of twenty launches costs
as much as a single launch. In a graph the launches work on some rows at a time, so that what lies between them stays in
the cache of the processor; large batches go through it in parts. No value outlives a call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakSet

import torch
import warp as wp

from sim.device_model import DeviceModel
from sim.model import Model
from sim.operation import WORLDS_AT_A_TIME, Operation, in_parts, paused_tape
from sim.scratch import kept_scratch
from sim.torch.allocation import new_tensor
from sim.torch.arrays import DTYPES, as_array, on_torch_stream, stream_key, warp_device
from sim.torch.recent import next_use, pop_least_recent
from sim.torch.robot_parameters import ParameterArrays, number_of_dims
from sim.torch.robot_values import Values, pack
from sim.turns import one_at_a_time

# Rows of one graph: so many, or more of what has few numbers in a row, as long as these take no more bytes together.
CAPTURED_ROWS, MOST_CAPTURED_ROWS, CAPTURED_BYTES = 128, 1024, 2**19
ROWS_AT_A_TIME = 256
# Graphs of an engine, such as those of 64 kinds of calls with their gradients. Of forward dynamics of an arm with nine
# degrees of freedom one takes 0.15 MB for a few rows and 1.2 MB for as many as go into it.
CAPTURED_CALLS = 128
# A graph is worth its making for a kind of call that comes again.
CAPTURED_AT_CALL = 3


@dataclass(frozen=True)
class Task:
    """What calls have in common that one graph can do.

    Attributes:
        work: value or gradient.
        operation: of what.
        shapes: of the inputs [rows, ...], then of the parameters.
        wanted: of each of these, whether its gradient is asked for; none of them for a value.
    """

    work: "type[_Forward | _Backward]"
    operation: Operation
    shapes: tuple[torch.Size, ...]
    wanted: tuple[bool, ...] = ()

    @classmethod
    def value(cls, operation: Operation, shapes: Sequence[torch.Size]) -> "Task":
        """Find the result of an operation."""
        return cls(_Forward, operation, tuple(shapes))

    @classmethod
    def gradient(cls, operation: Operation, shapes: Sequence[torch.Size], wanted: tuple[bool, ...]) -> "Task":
        """Find gradients of its inputs and parameters."""
        return cls(_Backward, operation, tuple(shapes), wanted)

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


class Engine:
    """The arrays of a model on one device in one precision.

    Args:
        model: the model, of any precision.
        device: torch device.
        dtype: torch.float32 or torch.float64.

    Attributes:
        graphs: the tasks that came last, of those that came often enough, each with its captured graph. There are
            CAPTURED_CALLS at most, which bounds the memory: who else keeps a graph is told when it goes.
    """

    def __init__(self, model: Model, device: torch.device, dtype: torch.dtype):
        self.model = replace(model, dtype=DTYPES[dtype])
        self.device = device
        self.base = DeviceModel(self.model, warp_device(device))
        self._parameters: dict[tuple, ParameterArrays] = {}
        self._calls: Counter[Task] = Counter()
        self.graphs: dict[Task, Graph] = {}

    @one_at_a_time
    def forward(self, operation: Operation, values: Values, shape: Sequence[int] | None = None) -> torch.Tensor:
        """The result of an operation, in new memory.

        Args:
            operation: what to compute.
            values: the inputs [rows, ...], then the parameters that it reads, ``[n, ...]`` or ``[rows, n, ...]``.
            shape: what the result is to have in place of [rows, *operation.shape].
        """
        whole = (values.rows, *operation.shape)
        result = new_tensor(values.like, whole if shape is None else shape)
        task = Task.value(operation, values.shapes)
        self._run(_Call(task, values, None, [result.view(whole)]))
        return result

    def kept_graph(self, task: Task, keeper: "Keeper") -> "Graph | None":
        """The graph of a task, if it has one, for who promises to forget it when it goes."""
        graph = self.graphs.get(task)
        if graph is not None:
            graph.keepers.add(keeper)
        return graph

    @one_at_a_time
    def backward(
        self, operation: Operation, values: Values, wanted: tuple[bool, ...], result_grad: torch.Tensor
    ) -> list[torch.Tensor]:
        """Gradients of the inputs and parameters that are wanted, in this order.

        Args:
            operation: what was computed.
            values: the inputs and parameters as they were, then the result if the operation needs it.
            wanted: of each input, then of each parameter, whether its gradient is asked for.
            result_grad: the derivative of the loss in the result [rows, ...].
        """
        count = values.inputs
        bars = [
            new_tensor(result_grad, shape) if want else None
            for shape, want in zip(values.shapes[:count], wanted[:count], strict=True)
        ]
        task = Task.gradient(operation, values.shapes[: len(wanted)], wanted)
        parameter_bars = self._run(_Call(task, values, result_grad, bars))
        return [*(bar for bar in bars if bar is not None), *parameter_bars]

    def _run(self, call: "_Call") -> list[torch.Tensor]:
        """Fill the outputs; returns the gradients of the needed parameters."""
        rows = call.task.rows
        if self.device.type != "cpu" or rows == 0 or not call.task.shared:
            return self._run_directly(call)
        if rows <= CAPTURED_ROWS or rows <= (most := call.most_captured_rows()):
            return self._run_again(call)
        total: list[torch.Tensor] = []
        for first in range(0, rows, most):
            each = self._run_again(call.part(slice(first, min(first + most, rows))))
            total = [one.add_(other) for one, other in zip(total, each, strict=True)] if first else each
        return total

    def _run_directly(self, call: "_Call") -> list[torch.Tensor]:
        """Launch the kernels where the tensors lie."""
        with paused_tape(), on_torch_stream(self.device):
            call = call.contiguous()
            return call.task.work(self._parameter_arrays(call), call).run()

    def _parameter_arrays(self, call: "_Call") -> ParameterArrays:
        """Arrays that hold the parameters of a call, kept for the next one where all rows share them."""
        names, tensors, needed = call.task.operation.parameters, call.parameters(), call.task.needed
        if not call.task.shared:
            return ParameterArrays(self.base, names, tensors, needed)
        key = (names, needed, stream_key(self.device))
        if key not in self._parameters:
            with torch.inference_mode(False):
                own = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
                self._parameters[key] = ParameterArrays(self.base, names, own, needed)
        self._parameters[key].load(tensors)
        return self._parameters[key]

    def _run_again(self, call: "_Call") -> list[torch.Tensor]:
        """The same by a captured graph, which is made at the third call of a task."""
        task = call.task
        graph = self.graphs.get(task)
        if graph is None:
            self._calls[task] += 1
            if self._calls[task] < CAPTURED_AT_CALL:
                if len(self._calls) > 100 * CAPTURED_CALLS:
                    self._calls.clear()
                return self._run_directly(call)
            del self._calls[task]
            if len(self.graphs) == CAPTURED_CALLS:
                pop_least_recent(self.graphs).let_go()
            graph = self.graphs[task] = Graph(self.base, call)
        return graph.run(call)


@dataclass(slots=True)
class _Call:
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

    def most_captured_rows(self) -> int:
        """How many rows a graph works on: its tensors, too, stay in the cache."""
        given = [*self.values.tensors()[: self.values.inputs], self.seed, *self.outputs]
        row_bytes = sum(x.element_size() * x[0].numel() for x in given if x is not None)
        return max(CAPTURED_ROWS, min(MOST_CAPTURED_ROWS, CAPTURED_BYTES // row_bytes))

    def part(self, rows: slice) -> "_Call":
        """The call for some of the rows, where all share the parameters."""
        values = self.values.part(rows, len(self.task.operation.parameters))
        seed = None if self.seed is None else self.seed[rows]
        outputs = [None if output is None else output[rows] for output in self.outputs]
        return _Call(self.task.part(values.rows), values, seed, outputs)

    def contiguous(self) -> "_Call":
        """The call on tensors that are contiguous."""
        seed = None if self.seed is None else self.seed.contiguous()
        return _Call(self.task, self.values.contiguous(), seed, self.outputs)


class _Forward:
    """One evaluation of an operation on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: _Call):
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
            in_parts(operation.forward, self.parameters.model, self.result, self.arrays, at_a_time)


class _Backward:
    """One evaluation of an operation's gradient on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: _Call):
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
            in_parts(operation.backward, self.parameters.model, self.result, self.arrays, at_a_time)
            self.parameters.finish_gradients()


class Keeper(Protocol):
    """Who keeps a graph beside its engine."""

    def forget_graphs(self) -> None:
        """Keep none any more."""


class Graph:
    """A task as a captured graph of launches on tensors of its own.

    Attributes:
        flat: inputs and parameters, and the result where its gradient needs it, in one piece of memory.
        tensors: views of these.
        seeds: derivative of the loss in the result [rows, ...]; none for a value.
        outputs: the result, or the gradients of the inputs that are wanted [rows, ...].
        gradients: of the parameters that are wanted.
        used: the number of its last use.
        keepers: who else keeps it.
    """

    def __init__(self, base: DeviceModel, call: _Call):
        task = call.task
        self.used, self.keepers = next_use(), WeakSet[Keeper]()
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            outputs = [None if x is None else x.new_empty(x.shape) for x in call.outputs]
            given = [*call.values.tensors()]
            if task.work is _Forward and task.operation.needs_result:
                given += [x for x in call.outputs if x is not None]
            values = Values.from_flat(pack(given), [x.shape for x in given], task.inputs)
            if len(given) > len(call.values.shapes):
                outputs = [values.tensors()[-1]]
            seed = None if call.seed is None else call.seed.clone(memory_format=torch.contiguous_format)
            own = _Call(task, values, seed, outputs)
            self.flat, self.tensors = values.like, [*values.tensors()]
            self.seeds = [] if seed is None else [seed]
            self.outputs = [output for output in outputs if output is not None]
            parameters = ParameterArrays(base, task.operation.parameters, own.parameters(), task.needed)
            self.gradients = list(parameters.gradients.values())
            self._work = work = task.work(parameters, own)
            work.run()  # compiles and loads the kernels, which a capture must not do
            with kept_scratch() as self._scratch, wp.ScopedCapture(device="cpu") as capture:
                work.launch(ROWS_AT_A_TIME)
        self._graph = capture.graph

    def launch(self, own: list[torch.Tensor], given: list[torch.Tensor]) -> None:
        """Do the task on what is given, which is copied into tensors of its own."""
        self.used = next_use()
        torch._foreach_copy_(own, given)
        wp.capture_launch(self._graph)

    def let_go(self) -> None:
        """See to it that nobody keeps it, so that its memory is freed."""
        for keeper in self.keepers:
            keeper.forget_graphs()

    def run(self, call: _Call) -> list[torch.Tensor]:
        """Fill the outputs of a call; returns the gradients of the needed parameters."""
        given = [*call.values.tensors()] if call.values.flat is None else [call.values.flat]
        own = self.tensors[: len(given)] if call.values.flat is None else [self.flat]
        seed = [] if call.seed is None else [call.seed]
        self.launch(own + self.seeds, given + seed)
        outputs = [output for output in call.outputs if output is not None]
        if outputs:
            torch._foreach_copy_(outputs, self.outputs)
        return [gradient.clone() for gradient in self.gradients]
