"""Work of a robot model's operations on tensors.

Inputs are read and results written where they lie. On a CPU, small batches whose size comes up again run as a captured
graph of launches over tensors of its own, into which arguments are copied and out of which results are: a graph of
twenty launches costs as much as a single launch. No value outlives a call.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import warp as wp

from sim.device_model import DeviceModel
from sim.model import Model
from sim.operation import Operation, in_parts, paused_tape
from sim.scratch import kept_scratch
from sim.torch.arrays import DTYPES, as_array, on_torch_stream, stream_key, warp_device
from sim.torch.robot_parameters import ParameterArrays, is_shared
from sim.turns import one_at_a_time

Tensors = Sequence[torch.Tensor | None]

CAPTURED_ROWS = 256
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
    def forward(self, operation: Operation, inputs: Tensors, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """The result of an operation [rows, ...].

        Args:
            operation: what to compute.
            inputs: contiguous tensors [rows, ...], the first one always there.
            parameters: those that the operation reads, ``[n, ...]`` or ``[rows, n, ...]``.
        """
        (result,) = self._run(_Forward, operation, inputs, parameters, frozenset(), ())
        return result

    @one_at_a_time
    def backward(
        self,
        operation: Operation,
        inputs: Tensors,
        parameters: Sequence[torch.Tensor],
        needs: Sequence[bool],
        result: torch.Tensor | None,
        result_grad: torch.Tensor,
    ) -> list[torch.Tensor]:
        """Gradients of the inputs and parameters that ``needs`` marks, in this order.

        Args:
            operation: what was computed.
            inputs: as they were.
            parameters: as they were.
            needs: of each input, then of each parameter, whether its gradient is asked for.
            result: what came out, where the operation needs it.
            result_grad: the derivative of the loss in it.
        """
        names = zip(operation.parameters, needs[len(inputs) :], strict=True)
        needed = frozenset(name for name, need in names if need)
        wanted = tuple(needs[: len(inputs)])
        return self._run(_Backward, operation, [*inputs, result, result_grad], parameters, needed, wanted)

    def _run(
        self,
        kind: "type[_Forward | _Backward]",
        operation: Operation,
        tensors: Tensors,
        parameters: Sequence[torch.Tensor],
        needed: frozenset[str],
        wanted: tuple[bool, ...],
    ) -> list[torch.Tensor]:
        rows = next(tensor for tensor in tensors if tensor is not None).shape[0]
        shared = all(is_shared(*pair) for pair in zip(operation.parameters, parameters, strict=True))
        with paused_tape(), on_torch_stream(self.device):
            arrays = self._parameter_arrays(operation.parameters, parameters, needed, shared)
            if self.device.type != "cpu" or not shared or rows > CAPTURED_ROWS or rows == 0:
                arrays.load(parameters)
                call = kind(operation, arrays, tensors, wanted)
                if rows > 0:
                    call.work()
                return call.results()
            present = tuple(tensor is not None for tensor in tensors)
            key = (kind, operation, rows, present, needed, wanted)
            captured = self._find(key, lambda: kind(operation, arrays, _like(tensors), wanted))
            if captured is None:
                arrays.load(parameters)
                call = kind(operation, arrays, tensors, wanted)
                call.work()
                return call.results()
            return captured.run(tensors, parameters)

    def _parameter_arrays(
        self, names: tuple[str, ...], tensors: Sequence[torch.Tensor], needed: frozenset[str], shared: bool
    ) -> ParameterArrays:
        if not shared:
            return ParameterArrays(self.base, names, tensors, needed)
        key = (names, needed, stream_key(self.device))
        if key not in self._parameters:
            self._parameters[key] = ParameterArrays(self.base, names, tensors, needed)
        return self._parameters[key]

    def _find(self, key: tuple, make: Callable[[], Any]) -> "_Captured | None":
        """The captured call of a kind, made at its third coming; None before."""
        if key in self._captured:
            self._captured.move_to_end(key)
            return self._captured[key]
        self._calls[key] += 1
        if self._calls[key] < CAPTURED_AT_CALL:
            if len(self._calls) > 100 * CAPTURED_CALLS:
                self._calls.clear()
            return None
        del self._calls[key]
        self._captured[key] = _Captured(make())
        if len(self._captured) > CAPTURED_CALLS:
            self._captured.popitem(last=False)
        return self._captured[key]


class _Forward:
    """One evaluation of an operation on given tensors."""

    def __init__(self, operation: Operation, parameters: ParameterArrays, tensors: Tensors, wanted: tuple[bool, ...]):
        self.operation, self.parameters, self.tensors = operation, parameters, tensors
        first = next(tensor for tensor in tensors if tensor is not None)
        scalar = parameters.model.types.scalar
        self.result = first.new_zeros((first.shape[0], *operation.shape))
        self.result_array = as_array(self.result, scalar)
        self.arrays = [None if tensor is None else as_array(tensor, scalar) for tensor in tensors]

    def work(self) -> None:
        """Launch the kernels."""
        self.parameters.tidy()
        in_parts(self.operation.forward, self.parameters.model, self.result_array, self.arrays)

    def again(self) -> None:
        """Launch the kernels on what the tensors hold now."""
        self.result_array.zero_()
        self.work()

    def results(self) -> list[torch.Tensor]:
        """The result, which the next call may write over."""
        return [self.result]


class _Backward:
    """One evaluation of an operation's gradient; ``tensors`` ends with the result and its gradient."""

    def __init__(self, operation: Operation, parameters: ParameterArrays, tensors: Tensors, wanted: tuple[bool, ...]):
        self.operation, self.parameters, self.tensors = operation, parameters, tensors
        *inputs, result, result_grad = tensors
        assert result_grad is not None
        scalar = parameters.model.types.scalar
        self.gradients = [
            torch.zeros_like(tensor) if tensor is not None and wants else None
            for tensor, wants in zip(inputs, wanted, strict=True)
        ]
        self.bars = [None if tensor is None else as_array(tensor, scalar) for tensor in self.gradients]
        self.arrays = [
            None if tensor is None else as_array(tensor, scalar, bar)
            for tensor, bar in zip(inputs, self.bars, strict=True)
        ]
        # An operation that doesn't need its result only asks for its shape.
        self.result_array = as_array(result_grad if result is None else result, scalar, as_array(result_grad, scalar))

    def work(self) -> None:
        """Launch the kernels."""
        self.parameters.tidy()
        self.parameters.clear_gradients()
        in_parts(self.operation.backward, self.parameters.model, self.result_array, self.arrays)

    def again(self) -> None:
        """Launch the kernels on what the tensors hold now."""
        for bar in self.bars:
            if bar is not None:
                bar.zero_()
        self.work()

    def results(self) -> list[torch.Tensor]:
        """The gradients, of which those of inputs may be written over by the next call."""
        names = [name for name in self.operation.parameters if name in self.parameters.gradients]
        inputs = [gradient for gradient in self.gradients if gradient is not None]
        return [*inputs, *(self.parameters.take_gradient(name) for name in names)]


class _Captured:
    """A call on tensors of its own, as a graph of launches."""

    def __init__(self, call: "_Forward | _Backward"):
        self.call = call
        self.own = [tensor for tensor in call.tensors if tensor is not None]
        call.again()  # compiles and loads the kernels, which a capture must not do
        with kept_scratch() as self.scratch, wp.ScopedCapture(device="cpu") as capture:
            call.again()
        self.graph = capture.graph

    def run(self, tensors: Tensors, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results of the call on other tensors, as tensors of their own."""
        torch._foreach_copy_(self.own, [tensor for tensor in tensors if tensor is not None])
        self.call.parameters.load(parameters)
        wp.capture_launch(self.graph)
        return [result.clone() for result in self.call.results()]


def _like(tensors: Tensors) -> list[torch.Tensor | None]:
    return [None if tensor is None else torch.zeros_like(tensor) for tensor in tensors]
