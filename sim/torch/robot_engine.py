"""Work of a robot model's operations on tensors.

Inputs are read and results written where they lie. On a CPU, work that comes again runs as a captured graph of launches
over tensors of its own, into which arguments are copied and out of which results are: a graph of twenty launches costs
as much as a single launch. In a graph the launches work on some rows at a time, so that what lies between them stays in
the cache of the processor; large batches go through it in parts. No value outlives a call.
"""

import functools
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import warp as wp

from sim.device_model import DeviceModel
from sim.model import Model
from sim.operation import WORLDS_AT_A_TIME, Operation, in_parts, paused_tape
from sim.scratch import kept_scratch
from sim.torch.allocation import new_tensor
from sim.torch.arrays import DTYPES, as_array, on_torch_stream, stream_key, warp_device
from sim.torch.robot_parameters import ParameterArrays, number_of_dims
from sim.torch.robot_values import Values, pack
from sim.turns import one_at_a_time

# Rows of one graph: so many, or more of what has few numbers in a row, as long as these take no more bytes together.
CAPTURED_ROWS, MOST_CAPTURED_ROWS, CAPTURED_BYTES = 128, 1024, 2**19
ROWS_AT_A_TIME = 64
CAPTURED_CALLS = 64
# A graph is worth its making for a kind of call that comes again.
CAPTURED_AT_CALL = 3


class Engine:
    """The arrays of a model on one device in one precision.

    Args:
        model: the model, of any precision.
        device: torch device.
        dtype: torch.float32 or torch.float64.
    """

    def __init__(self, model: Model, device: torch.device, dtype: torch.dtype):
        self.model = replace(model, dtype=DTYPES[dtype])
        self.device = device
        self.base = DeviceModel(self.model, warp_device(device))
        self._parameters: dict[tuple, ParameterArrays] = {}
        self._calls: Counter[tuple] = Counter()
        self._captured: OrderedDict[tuple, _Captured] = OrderedDict()

    @one_at_a_time
    def forward(
        self, operation: Operation, values: Values, shape: tuple[int, ...] | None = None, *, keep: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The result of an operation, in new memory.

        Args:
            operation: what to compute.
            values: the inputs [rows, ...], the first one always there, then the parameters that it reads, ``[n, ...]``
                or ``[rows, n, ...]``.
            shape: what the result is to have in place of [rows, *operation.shape].
            keep: whether copies of the values are asked for.

        Returns:
            the result, and the copies in one piece of memory.
        """
        whole = (values.rows, *operation.shape)
        shape = whole if shape is None else shape
        result = new_tensor(values.like, shape)
        output = result if shape == whole else result.view(whole)
        call = _Call(_Forward, operation, values, None, [output], frozenset(), keep)
        self._run(call)
        if keep and call.kept is None:
            call.kept = pack(values.tensors())
        return result, call.kept

    @one_at_a_time
    def backward(
        self, operation: Operation, values: Values, needs: Sequence[bool], result_grad: torch.Tensor
    ) -> list[torch.Tensor]:
        """Gradients of the inputs and parameters that ``needs`` marks, in this order.

        Args:
            operation: what was computed.
            values: the inputs and parameters as they were, then the result if the operation needs it.
            needs: of each input, then of each parameter, whether its gradient is asked for.
            result_grad: the derivative of the loss in the result [rows, ...].
        """
        count = values.inputs
        bars = [
            new_tensor(result_grad, shape) if need and shape is not None else None
            for shape, need in zip(values.shapes[:count], needs[:count], strict=True)
        ]
        names = zip(operation.parameters, needs[count:], strict=True)
        needed = frozenset(name for name, need in names if need)
        parameter_bars = self._run(_Call(_Backward, operation, values, result_grad, bars, needed))
        return [*(bar for bar in bars if bar is not None), *parameter_bars]

    def _run(self, call: "_Call") -> list[torch.Tensor]:
        """Fill the outputs; returns the gradients of the needed parameters."""
        rows = call.values.rows
        if self.device.type != "cpu" or rows == 0 or not _all_shared(call):
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
            return call.kind(self._parameter_arrays(call), call).run()

    def _parameter_arrays(self, call: "_Call") -> ParameterArrays:
        """Arrays that hold the parameters of a call, kept for the next one where all rows share them."""
        names, tensors = call.operation.parameters, call.parameters()
        if not _all_shared(call):
            return ParameterArrays(self.base, names, tensors, call.needed)
        key = (names, call.needed, stream_key(self.device))
        if key not in self._parameters:
            with torch.inference_mode(False):
                own = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
                self._parameters[key] = ParameterArrays(self.base, names, own, call.needed)
        self._parameters[key].load(tensors)
        return self._parameters[key]

    def _run_again(self, call: "_Call") -> list[torch.Tensor]:
        """The same by a captured graph, which is made at the third call of a kind."""
        key = call.key()
        captured = self._captured.get(key)
        if captured is None:
            self._calls[key] += 1
            if self._calls[key] < CAPTURED_AT_CALL:
                if len(self._calls) > 100 * CAPTURED_CALLS:
                    self._calls.clear()
                return self._run_directly(call)
            del self._calls[key]
            captured = self._captured[key] = _Captured(self.base, call)
            if len(self._captured) > CAPTURED_CALLS:
                self._captured.popitem(last=False)
        else:
            self._captured.move_to_end(key)
        return captured.run(call)


@dataclass(slots=True)
class _Call:
    """What is asked for.

    Attributes:
        kind: value or gradient.
        operation: of what.
        values: inputs, parameters and, for a gradient that needs it, the result.
        seed: derivative of the loss in the result; None for a value.
        outputs: tensors [rows, ...] to fill: the result, or the gradients of the inputs, None where none is wanted.
        needed: the parameters whose gradients are wanted.
        keep: whether a graph that has the values in one piece of memory is to leave a copy of that.
        kept: the copy.
    """

    kind: "type[_Forward | _Backward]"
    operation: Operation
    values: Values
    seed: torch.Tensor | None
    outputs: Sequence[torch.Tensor | None]
    needed: frozenset[str]
    keep: bool = False
    kept: torch.Tensor | None = None

    def key(self) -> tuple:
        """What two calls have in common that one graph can do."""
        wanted = tuple([output is not None for output in self.outputs])
        return self.kind, self.operation, self.values.rows, self.values.present, wanted, self.needed

    def parameters(self) -> list[torch.Tensor]:
        """The parameters among the values."""
        first = self.values.inputs
        tensors = self.values.tensors()[first : first + len(self.operation.parameters)]
        return [tensor for tensor in tensors if tensor is not None]

    def most_captured_rows(self) -> int:
        """How many rows a graph works on: its tensors, too, stay in the cache."""
        given = [*self.values.tensors()[: self.values.inputs], self.seed, *self.outputs]
        row_bytes = sum(x.element_size() * x[0].numel() for x in given if x is not None)
        return max(CAPTURED_ROWS, min(MOST_CAPTURED_ROWS, CAPTURED_BYTES // row_bytes))

    def part(self, rows: slice) -> "_Call":
        """The call for some of the rows, where all share the parameters."""
        values = self.values.part(rows, len(self.operation.parameters))
        seed = None if self.seed is None else self.seed[rows]
        outputs = [None if output is None else output[rows] for output in self.outputs]
        return _Call(self.kind, self.operation, values, seed, outputs, self.needed)

    def contiguous(self) -> "_Call":
        """The call on tensors that are contiguous."""
        seed = None if self.seed is None else self.seed.contiguous()
        return _Call(self.kind, self.operation, self.values.contiguous(), seed, self.outputs, self.needed)


class _Forward:
    """One evaluation of an operation on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: _Call):
        self.parameters, self.call = parameters, call
        scalar = parameters.model.types.scalar
        (result,) = call.outputs
        assert result is not None
        self.result = as_array(result, scalar)
        inputs = call.values.tensors()[: call.values.inputs]
        self.arrays = [None if tensor is None else as_array(tensor, scalar) for tensor in inputs]

    def run(self) -> list[torch.Tensor]:
        """Fill the result."""
        self.launch()
        return []

    def launch(self, at_a_time: int = WORLDS_AT_A_TIME) -> None:
        """Launch all that reads what the tensors hold now and writes the result, on a CPU so many rows at a time."""
        self.result.zero_()
        if self.call.values.rows > 0:
            self.parameters.tidy()
            in_parts(self.call.operation.forward, self.parameters.model, self.result, self.arrays, at_a_time)


class _Backward:
    """One evaluation of an operation's gradient on given tensors."""

    def __init__(self, parameters: ParameterArrays, call: _Call):
        self.parameters, self.call = parameters, call
        scalar = parameters.model.types.scalar
        tensors, count = call.values.tensors(), call.values.inputs
        self.bars = [None if tensor is None else as_array(tensor, scalar) for tensor in call.outputs]
        self.arrays = [
            None if tensor is None else as_array(tensor, scalar, bar)
            for tensor, bar in zip(tensors[:count], self.bars, strict=True)
        ]
        assert call.seed is not None
        # An operation that doesn't need its result only asks for its shape.
        result = tensors[-1] if call.operation.needs_result else call.seed
        assert result is not None
        self.result = as_array(result, scalar, as_array(call.seed, scalar))

    def run(self) -> list[torch.Tensor]:
        """Fill the gradients of inputs; returns those of parameters."""
        self.launch()
        return self.parameters.take_gradients()

    def launch(self, at_a_time: int = WORLDS_AT_A_TIME) -> None:
        """Launch all that reads what the tensors hold now and writes the gradients, on a CPU so many rows at a time."""
        self.parameters.clear_gradients()
        for bar in self.bars:
            if bar is not None:
                bar.zero_()
        if self.call.values.rows > 0:
            self.parameters.tidy()
            in_parts(self.call.operation.backward, self.parameters.model, self.result, self.arrays, at_a_time)


class _Captured:
    """A kind of call as a graph of launches on tensors of its own."""

    def __init__(self, base: DeviceModel, call: _Call):
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            self.values = call.values.packed()
            self.seed = None if call.seed is None else call.seed.clone(memory_format=torch.contiguous_format)
            outputs = [None if x is None else torch.empty(x.shape, dtype=x.dtype) for x in call.outputs]
            self.outputs = [output for output in outputs if output is not None]
            self.own = _Call(call.kind, call.operation, self.values, self.seed, outputs, call.needed)
            self.parameters = ParameterArrays(base, call.operation.parameters, self.own.parameters(), call.needed)
            work = call.kind(self.parameters, self.own)
            work.run()  # compiles and loads the kernels, which a capture must not do
            with kept_scratch() as self.scratch, wp.ScopedCapture(device="cpu") as capture:
                work.launch(ROWS_AT_A_TIME)
        self.graph = capture.graph

    def run(self, call: _Call) -> list[torch.Tensor]:
        """The same for other tensors."""
        self.values.copy_(call.values)
        if self.seed is not None and call.seed is not None:
            self.seed.copy_(call.seed)
        wp.capture_launch(self.graph)
        outputs = [output for output in call.outputs if output is not None]
        if outputs:
            torch._foreach_copy_(outputs, self.outputs)
        if call.keep:
            assert self.values.flat is not None
            call.kept = self.values.flat.clone()
        return self.parameters.take_gradients()


def _all_shared(call: _Call) -> bool:
    """Whether no parameter has a value for each row."""
    names, first = call.operation.parameters, call.values.inputs
    shapes = call.values.shapes[first : first + len(names)]
    return [len(shape or ()) for shape in shapes] == _shared_dims(names)


@functools.cache
def _shared_dims(names: tuple[str, ...]) -> list[int]:
    return [number_of_dims(name) for name in names]
