"""Work of a robot model's operations on tensors.

Inputs are read and results written where they lie. On a CPU, work that comes again runs as a captured graph of
launches, see :mod:`sim.torch.runtime.graph`; large batches go through it in parts. No value outlives a call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from sim.arrays.device_model import DeviceModel
from sim.arrays.warp_lock import serialized
from sim.dynamics.differentiable_op import DifferentiableOp, paused_tape
from sim.model.model import Model
from sim.torch.arrays import DTYPES, on_torch_stream, stream_key, warp_device
from sim.torch.runtime.allocation import new_tensor
from sim.torch.runtime.copy_graph import CopyGraph, most_copied_rows
from sim.torch.runtime.graph import Graph, Keeper
from sim.torch.runtime.in_place_graph import MOST_IN_PLACE_ROWS, InPlaceGraph, in_place
from sim.torch.runtime.lru import pop_least_recent
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Task
from sim.torch.runtime.values import Values

# Graphs of an engine, such as those of 64 kinds of calls with their gradients. Of forward dynamics of an arm with nine
# degrees of freedom one takes 0.15 MB for a few rows and 1.2 MB for as many as go into it.
CAPTURED_CALLS = 128
# A graph is worth its making for a kind of call that comes again.
CAPTURED_AT_CALL = 3


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

    @serialized
    def forward(self, operation: DifferentiableOp, values: Values, shape: Sequence[int] | None = None) -> torch.Tensor:
        """The result of an operation, in new memory.

        Args:
            operation: what to compute.
            values: the inputs [rows, ...], then the parameters that it reads, ``[n, ...]`` or ``[rows, n, ...]``.
            shape: what the result is to have in place of [rows, *operation.shape].
        """
        whole = (values.rows, *operation.shape)
        result = new_tensor(values.like, whole if shape is None else shape)
        task = Task.value(operation, values.shapes)
        self._run(Call(task, values, None, [result.view(whole)]))
        return result

    def kept_graph(self, task: Task, keeper: "Keeper") -> "Graph | None":
        """The graph of a task, if it has one, for who promises to forget it when it goes."""
        graph = self.graphs.get(task)
        if graph is not None:
            graph.keepers.add(keeper)
        return graph

    @serialized
    def backward(
        self, operation: DifferentiableOp, values: Values, wanted: tuple[bool, ...], result_grad: torch.Tensor
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
        parameter_bars = self._run(Call(task, values, result_grad, bars))
        return [*(bar for bar in bars if bar is not None), *parameter_bars]

    def _run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs; returns the gradients of the needed parameters."""
        rows = call.task.rows
        if self.device.type != "cpu" or rows == 0 or not call.task.shared:
            return self._run_directly(call)
        most = MOST_IN_PLACE_ROWS if in_place(call.task) else most_copied_rows(call)
        if rows <= most:
            return self._run_again(call)
        total: list[torch.Tensor] = []
        for first in range(0, rows, most):
            each = self._run_again(call.part(slice(first, min(first + most, rows))))
            total = [one.add_(other) for one, other in zip(total, each, strict=True)] if first else each
        return total

    def _run_directly(self, call: Call) -> list[torch.Tensor]:
        """Launch the kernels where the tensors lie."""
        with paused_tape(), on_torch_stream(self.device):
            call = call.contiguous()
            return call.task.work(self._parameter_arrays(call), call).run()

    def _parameter_arrays(self, call: Call) -> ParameterArrays:
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

    def _run_again(self, call: Call) -> list[torch.Tensor]:
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
            graph = self.graphs[task] = (InPlaceGraph if in_place(task) else CopyGraph)(self.base, call)
        return graph.run(call)
