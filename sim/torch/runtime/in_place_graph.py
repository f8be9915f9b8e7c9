"""Work that comes again, as a graph that is pointed at the tensors of a call, to read and write them where they lie."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
import warp as wp

from sim.arrays.array_refs import ArrayRef, table
from sim.arrays.device_model import DeviceModel
from sim.arrays.scratch import kept_scratch, scratch_arrays
from sim.arrays.warp_lock import warp_lock
from sim.dynamics.differentiable_op import DifferentiableOp, paused_tape
from sim.torch.runtime.allocation import new_tensor
from sim.torch.runtime.graph import Graph, Shapes, Way, parts_of
from sim.torch.runtime.lru import next_use
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Forward, Task
from sim.torch.runtime.values import pack, plain

# A graph has launches for each of the parts that its rows are worked on in. To copy a few rows takes less time than to
# point at them.
FEWEST_IN_PLACE_ROWS, MOST_IN_PLACE_ROWS = 256, 2**14
# Little lies between the launches of kinematics: with fewer rows, a launch takes as long as its work. With more of what
# has many numbers in a row, such as Jacobians, it leaves the nearest caches.
ROWS_AT_A_TIME, MANY_BYTES = 512, 256
# Bytes of what would fill a core's share of the last cache, and push out of it what the next work needs.
LARGE = 3 * 2**22


def in_place(task: Task) -> bool:
    """Whether a task is best done by such a graph."""
    return task.operation.in_place and task.rows >= FEWEST_IN_PLACE_ROWS


class Spot:
    """Where the launches of a graph look up one array of states [rows, ...], each for its part of the rows.

    Args:
        shape: of the array.
        itemsize: bytes of a number.
        parts: the parts of its rows.
        new: whether it is a gradient that is written and not added to.

    Attributes:
        shape: of the array.
        located: the parts, without gradients.
    """

    def __init__(self, shape: torch.Size, itemsize: int, parts: Sequence[slice], new: bool = False):
        self.shape, self._itemsize = shape, itemsize
        self._marked = new or shape.numel() * itemsize >= LARGE
        self._strides: tuple[int, ...] = ()
        self._table = np.zeros((len(parts), 4 + len(shape)), dtype=np.int64)
        self._first = np.array([part.start for part in parts])
        self._worlds = [part.stop - part.start for part in parts]
        self._addresses, self._offsets = self._table[:, 0], self._first
        rows: list[wp.array] = [wp.array(row, dtype=wp.int64, device="cpu", copy=False) for row in self._table]
        self.located = [
            ArrayRef(row, (part.stop - part.start, *shape[1:])) for row, part in zip(rows, parts, strict=True)
        ]

    def point_at(self, address: int, strides: tuple[int, ...]) -> None:
        """Let the launches find the array here, in memory that stays alive until they have run; strides in entries."""
        if strides != self._strides:
            self._strides = strides
            steps = [stride * self._itemsize for stride in strides]
            each = [table(worlds, self.shape[1:], steps, self._itemsize, self._marked) for worlds in self._worlds]
            self._table[:, 1:] = each
            self._offsets = self._first * (strides[0] * self._itemsize)
        np.add(self._offsets, address, out=self._addresses)


class InPlaceGraph(Graph):
    """A task as a captured graph of launches that look up where the arrays of states are.

    Attributes:
        inputs: the inputs of the operation.
        seed: derivative of the loss in the result; None for a value.
        itemsize: bytes of a number.
        outputs: the result, or the gradients of the inputs that are wanted.
        parameters: those of the operation, of its own; flat_parameters: views with one dimension.
        gradients: of the parameters that are wanted.
    """

    def __init__(self, base: DeviceModel, call: Call):
        super().__init__()
        task, values = call.task, call.values
        assert not task.operation.needs_result
        self.itemsize = itemsize = values.like.element_size()
        most = ROWS_AT_A_TIME if math.prod(task.operation.shape) * itemsize <= MANY_BYTES else ROWS_AT_A_TIME // 2
        parts = [slice(first, min(first + most, task.rows)) for first in range(0, task.rows, most)]
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            self.inputs = [Spot(shape, itemsize, parts) for shape in task.shapes[: task.inputs]]
            new = call.seed is not None
            outputs = [None if x is None else Spot(x.shape, itemsize, parts, new) for x in call.outputs]
            self.outputs = [spot for spot in outputs if spot is not None]
            self.seed = None if call.seed is None else Spot(call.seed.shape, itemsize, parts)
            self.parameters = [x.clone(memory_format=torch.contiguous_format) for x in call.parameters()]
            self.flat_parameters = [x.view(-1) for x in self.parameters]
            self._parameters = ParameterArrays(base, task.operation.parameters, self.parameters, task.needed)
            self.gradients = list(self._parameters.gradients.values())
            work = self._forward if task.work is Forward else self._backward
            arrays = [_arrays(part, self.inputs, outputs, self.seed) for part in range(len(parts))]
            self._capture(lambda: work(task.operation, arrays), call)

    def _capture(self, launch: Callable[[], None], call: Call) -> None:
        """Capture the launches, which must have run once before: that compiles and loads the kernels."""
        self._point(call)
        launch()
        with kept_scratch() as self._scratch, wp.ScopedCapture(device="cpu") as capture:
            launch()
        self._graph = capture.graph

    def _forward(self, operation: DifferentiableOp, arrays: list[tuple[ArrayRef, list[ArrayRef]]]) -> None:
        self._parameters.tidy()
        for result, inputs in arrays:
            with scratch_arrays():
                operation.forward(self._parameters.model, result, *inputs)

    def _backward(self, operation: DifferentiableOp, arrays: list[tuple[ArrayRef, list[ArrayRef]]]) -> None:
        self._parameters.clear_gradients()
        self._parameters.tidy()
        for result, inputs in arrays:
            with scratch_arrays():
                operation.backward(self._parameters.model, result, *inputs)
        self._parameters.finish_gradients()

    def _point(self, call: Call) -> None:
        tensors = [*call.values.tensors()[: len(self.inputs)], *(x for x in call.outputs if x is not None)]
        for spot, tensor in zip(self.inputs + self.outputs, tensors, strict=True):
            spot.point_at(tensor.data_ptr(), tensor.stride())
        if self.seed is not None and call.seed is not None:
            self.seed.point_at(call.seed.data_ptr(), call.seed.stride())

    def launch(self) -> None:
        """Do the task on what the spots point at."""
        self.used = next_use()
        wp.capture_launch(self._graph)

    def run(self, call: Call) -> list[torch.Tensor]:
        """See :class:`Graph`."""
        call = call.plain()
        self._point(call)
        if self.parameters:
            torch._foreach_copy_(self.parameters, list(call.parameters()))
        self.launch()
        return [gradient.clone() for gradient in self.gradients]

    def value_way(self, calls: Shapes) -> Way:
        """See :class:`Graph`."""
        return _ValueWay(self, calls)

    def gradient_way(self, calls: Shapes, wanted: Sequence[bool]) -> Way:
        """See :class:`Graph`."""
        return _GradientWay(self, calls, wanted)


class _ValueWay:
    """From inputs and parameters to results."""

    def __init__(self, graph: InPlaceGraph, calls: Shapes):
        self._graph, self._calls = graph, calls
        self._flat = calls.shapes == calls.flat_shapes
        (self._result,) = graph.outputs
        self._strides = contiguous_strides(self._result.shape)

    def run(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """See :class:`sim.torch.runtime.graph.Way`."""
        graph, calls = self._graph, self._calls
        tensors = plain(given)
        if not self._flat:
            tensors = [tensor.reshape(shape) for tensor, shape in zip(tensors, calls.flat_shapes, strict=True)]
        result = new_tensor(tensors[0], calls.shape)
        with warp_lock:
            for spot, tensor in zip(graph.inputs, tensors, strict=False):
                spot.point_at(tensor.data_ptr(), tensor.stride())
            self._result.point_at(result.data_ptr(), self._strides)
            if graph.parameters:
                torch._foreach_copy_(graph.parameters, tensors[len(graph.inputs) :])
            graph.launch()
        parts = [part.clone() for part in parts_of(result, calls.split)] if calls.split else [result]
        return [*parts, pack(tensors)] if calls.leaves else parts


class _GradientWay:
    """From all values in one piece of memory and gradients of results to those of inputs and parameters."""

    def __init__(self, graph: InPlaceGraph, calls: Shapes, wanted: Sequence[bool]):
        self._graph, self._calls = graph, calls
        sizes = [shape.numel() for shape in calls.flat_shapes]
        self._sizes = [sum(sizes[: len(graph.inputs)]), *sizes[len(graph.inputs) :]]
        self._shapes = [shape for shape, want in zip(calls.shapes, wanted, strict=True) if want][: len(graph.outputs)]
        firsts = [sum(sizes[:number]) * graph.itemsize for number in range(len(graph.inputs))]
        self._inputs = [
            (spot, first, contiguous_strides(spot.shape)) for spot, first in zip(graph.inputs, firsts, strict=True)
        ]
        self._outputs = [(spot, contiguous_strides(spot.shape)) for spot in graph.outputs]

    def run(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """See :class:`sim.torch.runtime.graph.Way`."""
        kept, *grads = plain(given)
        graph, seed = self._graph, self._graph.seed
        assert seed is not None
        grad = self._calls.whole(grads)
        outputs = [new_tensor(kept, shape) for shape in self._shapes]
        with warp_lock:
            address = kept.data_ptr()
            for spot, first, strides in self._inputs:
                spot.point_at(address + first, strides)
            for (spot, strides), output in zip(self._outputs, outputs, strict=True):
                spot.point_at(output.data_ptr(), strides)
            seed.point_at(grad.data_ptr(), grad.stride())
            if graph.parameters:
                _, *values = kept.split(self._sizes)
                torch._foreach_copy_(graph.flat_parameters, values)
            graph.launch()
            return [*outputs, *(gradient.clone() for gradient in graph.gradients)]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, in entries."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _arrays(
    part: int, inputs: Sequence[Spot], outputs: Sequence[Spot | None], seed: Spot | None
) -> tuple[ArrayRef, list[ArrayRef]]:
    """The result and inputs of an operation for one of the parts."""
    here = [spot.located[part] for spot in inputs]
    found = [None if spot is None else spot.located[part] for spot in outputs]
    if seed is None:
        (result,) = found
        assert result is not None
        return result, here
    bar = seed.located[part]
    with_bars = [ArrayRef(one.where, one.shape, grad) for one, grad in zip(here, found, strict=True)]
    # The operation asks for no more of the result than its shape.
    return ArrayRef(bar.where, bar.shape, bar), with_bars
