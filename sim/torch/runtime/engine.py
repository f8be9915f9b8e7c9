"""Execution of a robot model's operations on tensors.

Inputs are read and results written in place, or copied. On a CPU, a repeated call runs as a captured graph of launches,
see :mod:`sim.torch.runtime.graphs`; large batches go through it in parts. No value outlives a call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import CodeType

import torch

from sim.arrays.critical_sections import serialized
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import collecting_kernels, load_kernels
from sim.dynamics.differentiable_op import DifferentiableOp, paused_tape
from sim.model.model import Model
from sim.torch.arrays import DTYPES, on_torch_stream, stream_key, warp_device
from sim.torch.runtime.call_signature import CallSignature, pop_least_recent, separate_parts, whole_gradient
from sim.torch.runtime.graphs import MOST_IN_PLACE_ROWS, CopyGraph, Graph, InPlaceGraph, in_place, most_copied_rows
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Launches, Task
from sim.torch.runtime.tensors import new_tensor, pack, unpack

# Maximum number of graphs of an engine, enough for 64 signatures with their gradients. A graph for forward dynamics of
# an arm with nine degrees of freedom takes 0.15 MB for a few rows and 1.2 MB at full size.
CAPTURED_CALLS = 128
# A graph pays off only for a repeated task.
CAPTURED_AT_CALL = 3


class Engine:
    """Arrays and graphs of a model on one device in one precision.

    Args:
        model: the model, of any precision.
        device: torch device.
        dtype: torch.float32 or torch.float64.
        threads_per_world: threads of a GPU that share out the work of one row.

    Attributes:
        graphs: captured graphs of the most recent repeated tasks, at most CAPTURED_CALLS, which bounds the memory.
            Signatures drop a graph that is evicted.
    """

    def __init__(self, model: Model, device: torch.device, dtype: torch.dtype, threads_per_world: int = 1):
        self.model = replace(model, dtype=DTYPES[dtype])
        self.device = device
        self.base = DeviceModel(self.model, warp_device(device), threads_per_world=threads_per_world)
        self._parameters: dict[tuple, ParameterArrays] = {}
        self._calls: Counter[Task] = Counter()
        self._loaded: set[tuple[CodeType, CodeType]] = set()
        self.graphs: dict[Task, Graph] = {}

    def value(self, signature: CallSignature, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the parts of a call's result, and with leaves a packed copy of all that the gradient needs.

        Args:
            signature: the call's signature.
            tensors: inputs, broadcast to the batch, then parameters.
        """
        path = signature.value_path
        if path is not None:
            return path(tensors)
        operation, flat = signature.operation, signature.flat(tensors)
        if signature.leaves:
            self._load_kernels(operation, flat)
        result = self.forward(operation, flat, signature.shape)
        self._find_value_path(signature)
        needed = [*flat, result] if operation.needs_result else flat
        return [*separate_parts(result, signature.split), *([pack(needed)] if signature.leaves else [])]

    def gradients(
        self, signature: CallSignature, packed: torch.Tensor, leaves: tuple[bool, ...], grads: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return gradients of the requested leaves.

        Args:
            signature: the call's signature.
            packed: the copy that :meth:`value` returned.
            leaves: for each leaf, True to compute its gradient.
            grads: derivative of the loss in the parts of the result.
        """
        path = signature.gradient_paths.get(leaves)
        if path is not None:
            return path([packed, *grads])
        wanted = signature.wanted(leaves)
        tensors = unpack(packed, signature.packed_shapes)
        found = self.backward(signature.operation, tensors, wanted, whole_gradient(grads, signature.result_shape))
        self._find_gradient_path(signature, leaves, wanted)
        shapes = [shape for shape, want in zip(signature.shapes, wanted, strict=True) if want]
        return [gradient.view(shape) for gradient, shape in zip(found, shapes, strict=True)]

    @serialized
    def _load_kernels(self, operation: DifferentiableOp, tensors: Sequence[torch.Tensor]) -> None:
        """Load the kernels of an operation together with those of its gradient, at its first use."""
        key = (operation.forward.__code__, operation.backward.__code__)
        if key in self._loaded:
            return
        inputs = len(tensors) - len(operation.parameters)
        result = new_tensor(tensors[0], (tensors[0].shape[0], *operation.shape))
        value = Call(operation, tensors, [result])
        wanted = (*[True] * inputs, *[False] * len(operation.parameters))
        gradients = [new_tensor(tensor, tensor.shape) for tensor in tensors[:inputs]]
        gradient = Call(operation, [*tensors, result], gradients, result, wanted)
        with paused_tape(), on_torch_stream(self.device), collecting_kernels(recording=False) as kernels:
            for call in (value.contiguous(), gradient.contiguous()):
                names = operation.parameters
                Launches(ParameterArrays(self.base, names, call.parameters, frozenset()), call).launch()
        load_kernels(kernels, self.base.device)
        self._loaded.add(key)

    @serialized
    def _find_value_path(self, signature: CallSignature) -> None:
        """Set the fast path to the value, if a graph exists by now."""
        graph = self.graphs.get(Task(signature.operation, tuple(signature.flat_shapes)))
        if graph is not None:
            graph.users.add(signature)
            signature.value_path = graph.value_path(signature)

    @serialized
    def _find_gradient_path(self, signature: CallSignature, leaves: tuple[bool, ...], wanted: tuple[bool, ...]) -> None:
        """Set the fast path to gradients of these leaves, replacing that of others."""
        graph = self.graphs.get(Task(signature.operation, tuple(signature.flat_shapes), wanted))
        if graph is not None:
            graph.users.add(signature)
            signature.gradient_paths = {leaves: graph.gradient_path(signature, wanted)}

    @serialized
    def forward(
        self, operation: DifferentiableOp, tensors: Sequence[torch.Tensor], shape: Sequence[int] | None = None
    ) -> torch.Tensor:
        """Return the result of an operation, in new memory.

        Args:
            operation: the operation to compute.
            tensors: the inputs [rows, ...], then the parameters that it reads, ``[n, ...]`` or ``[rows, n, ...]``.
            shape: shape of the result, replacing [rows, *operation.shape].
        """
        whole = (tensors[0].shape[0], *operation.shape)
        result = new_tensor(tensors[0], whole if shape is None else shape)
        self._run(Call(operation, tensors, [result.view(whole)]))
        return result

    @serialized
    def backward(
        self,
        operation: DifferentiableOp,
        tensors: Sequence[torch.Tensor],
        wanted: tuple[bool, ...],
        result_grad: torch.Tensor,
    ) -> list[torch.Tensor]:
        """Return the requested gradients of inputs and parameters, in this order.

        Args:
            operation: the operation that was computed.
            tensors: the inputs and parameters as they were, then the result if the operation needs it.
            wanted: for each input, then for each parameter, True to compute its gradient.
            result_grad: the derivative of the loss in the result [rows, ...].
        """
        inputs = len(wanted) - len(operation.parameters)
        outputs = [
            new_tensor(result_grad, tensor.shape) if want else None
            for tensor, want in zip(tensors[:inputs], wanted[:inputs], strict=True)
        ]
        call = Call(operation, tensors, outputs, result_grad, wanted)
        return [*call.filled, *self._run(call)]

    def _run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs, and return the gradients of the needed parameters."""
        rows = call.task.rows
        if self.device.type != "cpu" or rows == 0 or not call.task.shared or self.base.threads_per_world > 1:
            return self._run_directly(call)
        most = MOST_IN_PLACE_ROWS if in_place(call) else most_copied_rows(call)
        if rows <= most:
            return self._run_again(call)
        total: list[torch.Tensor] = []
        for first in range(0, rows, most):
            each = self._run_again(call.part(slice(first, min(first + most, rows))))
            total = [one.add_(other) for one, other in zip(total, each, strict=True)] if first else each
        return total

    def _run_directly(self, call: Call) -> list[torch.Tensor]:
        """Launch the kernels in place on the tensors."""
        with paused_tape(), on_torch_stream(self.device):
            call = call.contiguous()
            return Launches(self._parameter_arrays(call), call).run()

    def _parameter_arrays(self, call: Call) -> ParameterArrays:
        """Return arrays of the parameters of a call, kept for the next one if all rows share them."""
        task, tensors = call.task, call.parameters
        names = task.operation.parameters
        if not task.shared:
            return ParameterArrays(self.base, names, tensors, task.needed)
        key = (names, task.needed, stream_key(self.device))
        if key not in self._parameters:
            with torch.inference_mode(False):
                own = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
                self._parameters[key] = ParameterArrays(self.base, names, own, task.needed)
        self._parameters[key].load(tensors)
        return self._parameters[key]

    def _run_again(self, call: Call) -> list[torch.Tensor]:
        """Run a call through a captured graph, which is captured at the third call of a task."""
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
                pop_least_recent(self.graphs).evict()
            graph = self.graphs[task] = (InPlaceGraph if in_place(call) else CopyGraph)(self.base, call)
        return graph.run(call)
