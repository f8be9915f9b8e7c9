"""Captured graphs, either on copies in their own tensors or in place on the tensors of a call.

A graph of twenty launches costs as much as a single launch. Each launch works on a part of the rows, so that
intermediate arrays stay in the processor's cache.
"""

import abc
import math
from collections.abc import Callable, Sequence
from weakref import WeakSet

import numpy as np
import torch
import warp as wp

from sim.arrays.array_refs import ArrayRef, table
from sim.arrays.critical_sections import warp_lock
from sim.arrays.device_model import DeviceModel
from sim.arrays.graphs import WarpGraph
from sim.arrays.scratch import kept_scratch, scratch_arrays
from sim.dynamics.differentiable_op import DifferentiableOp, paused_tape
from sim.torch.runtime.call_signature import CallSignature, FastPath, next_use, parts_of, separate_parts, whole_gradient
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Launches
from sim.torch.runtime.tensors import new_tensor, pack, plain, unpack


class Graph(abc.ABC):
    """A task as a captured graph of launches.

    Attributes:
        used: sequence number of its last use.
        users: signatures whose fast paths use it.
    """

    def __init__(self) -> None:
        self.used, self.users = next_use(), WeakSet[CallSignature]()

    def _capture(self, launch: Callable[[], None]) -> None:
        """Capture launches, whose memory stays alive as long as the graph."""
        launch()  # compiles and loads the kernels, which isn't allowed during capture
        with kept_scratch() as self._scratch:
            self._graph = WarpGraph(launch, wp.get_device("cpu"))

    def launch(self) -> None:
        """Launch the captured graph."""
        self.used = next_use()
        self._graph.launch(1)

    def evict(self) -> None:
        """Make its users drop it, so that its memory is freed."""
        for user in self.users:
            user.forget_paths()

    @abc.abstractmethod
    def run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs of a call, and return the gradients of the needed parameters."""

    @abc.abstractmethod
    def value_path(self, signature: CallSignature) -> FastPath:
        """Return a function from inputs and parameters to the parts of the result and, with leaves, the packed copy for
        the gradient.
        """

    @abc.abstractmethod
    def gradient_path(self, signature: CallSignature, wanted: Sequence[bool]) -> FastPath:
        """Return a function from the packed copy and the gradients in the parts of the result to the requested
        gradients.
        """


# Bytes that would fill a core's share of the last-level cache, and evict what the next call needs.
LARGE = 3 * 2**22


class TensorSlot:
    """Pointers through which the launches of a graph find one array of states [rows, ...], one for each part of the
    rows.

    Args:
        shape: shape of the array.
        itemsize: bytes of a number.
        parts: the parts of its rows.
        new: True for a gradient that is overwritten instead of accumulated.

    Attributes:
        shape: shape of the array.
        refs: the parts, without gradients.
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
        self.refs = [ArrayRef(row, (worlds, *shape[1:])) for row, worlds in zip(rows, self._worlds, strict=True)]

    def point_at(self, address: int, strides: tuple[int, ...]) -> None:
        """Point the launches at this memory, which stays alive until they have run; strides in entries."""
        if strides != self._strides:
            self._strides = strides
            steps = [stride * self._itemsize for stride in strides]
            each = [table(worlds, self.shape[1:], steps, self._itemsize, self._marked) for worlds in self._worlds]
            self._table[:, 1:] = each
            self._offsets = self._first * (strides[0] * self._itemsize)
        np.add(self._offsets, address, out=self._addresses)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return strides of a contiguous tensor, in entries."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


# Rows of one graph: 128, and up to 1024 for narrow rows that fit in CAPTURED_BYTES.
CAPTURED_ROWS, MOST_CAPTURED_ROWS, CAPTURED_BYTES = 128, 1024, 2**19
# For dynamics: with more rows, intermediate arrays no longer fit in the first-level cache.
COPIED_ROWS = 64


def most_copied_rows(call: Call) -> int:
    """Return the maximum number of rows of such a graph: its tensors, too, must stay in the cache."""
    row_bytes = sum(x.element_size() * x[0].numel() for x in (*call.inputs, call.seed, *call.outputs) if x is not None)
    return max(CAPTURED_ROWS, min(MOST_CAPTURED_ROWS, CAPTURED_BYTES // max(1, row_bytes)))


class CopyGraph(Graph):
    """Captured graph of a task's launches on the graph's own tensors, which calls copy to and from.

    Attributes:
        packed: inputs and parameters, and the result where its gradient needs it, in one piece of memory.
        tensors: views of these.
        seeds: derivative of the loss in the result [rows, ...]; empty for a value.
        outputs: the result, or the requested gradients of the inputs [rows, ...].
        gradients: requested gradients of the parameters.
    """

    def __init__(self, base: DeviceModel, call: Call):
        super().__init__()
        task, operation = call.task, call.task.operation
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            keeps_result = call.seed is None and operation.needs_result
            given = [*call.tensors, *(call.filled if keeps_result else [])]
            self.packed = pack(given)
            self.tensors = unpack(self.packed, [tensor.shape for tensor in given])
            outputs = [None if x is None else x.new_empty(x.shape) for x in call.outputs]
            seed = None if call.seed is None else call.seed.clone(memory_format=torch.contiguous_format)
            own = Call(
                operation, self.tensors[: len(call.tensors)], self.tensors[-1:] if keeps_result else outputs, seed,
                task.wanted,
            )  # fmt: skip
            self.seeds, self.outputs = [] if seed is None else [seed], own.filled
            parameters = ParameterArrays(base, operation.parameters, own.parameters, task.needed)
            self.gradients = list(parameters.gradients.values())
            self._launches = Launches(parameters, own)
            self._capture(lambda: self._launches.launch(COPIED_ROWS))

    def run(self, call: Call) -> list[torch.Tensor]:
        """Run a call, see :class:`Graph`."""
        seed = [] if call.seed is None else [call.seed]
        torch._foreach_copy_([*self.tensors[: len(call.tensors)], *self.seeds], [*call.tensors, *seed])
        self.launch()
        if self.outputs:
            torch._foreach_copy_(call.filled, self.outputs)
        return [gradient.clone() for gradient in self.gradients]

    def value_path(self, signature: CallSignature) -> FastPath:
        """Return the fast path to the value, see :class:`Graph`."""
        (whole,) = _views(self.outputs, [signature.shape])
        packed = [self.packed] if signature.leaves else []
        return self._path(_views(self.tensors, signature.shapes), [*parts_of(whole, signature.split), *packed])

    def gradient_path(self, signature: CallSignature, wanted: Sequence[bool]) -> FastPath:
        """Return the fast path to gradients, see :class:`Graph`."""
        shapes = [shape for shape, want in zip(signature.shapes, wanted, strict=True) if want]
        (seed,) = _views(self.seeds, [signature.shape])
        return self._path(
            [self.packed, *parts_of(seed, signature.split)], _views(self.outputs + self.gradients, shapes)
        )

    def _path(self, own: list[torch.Tensor], outputs: list[torch.Tensor]) -> FastPath:
        """Return a function through views of the graph's tensors, shaped as the tensors of a call and its results."""

        def path(given: list[torch.Tensor]) -> list[torch.Tensor]:
            with warp_lock:
                torch._foreach_copy_(own, given)
                self.launch()
                return [output.clone() for output in outputs]

        return path


def _views(tensors: Sequence[torch.Tensor], shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """Return the first tensors of a graph in other shapes."""
    with torch.inference_mode(False), torch.no_grad():
        return [tensor.view(shape) for tensor, shape in zip(tensors, shapes, strict=False)]


# A graph has separate launches for each part of its rows.
MOST_IN_PLACE_ROWS = 2**14
# Kinematics has few intermediate arrays. With fewer rows, launch overhead equals the work; with more rows of wide
# results, such as Jacobians, data no longer fit in the first caches.
ROWS_AT_A_TIME, MANY_BYTES = 512, 256


def in_place(call: Call) -> bool:
    """Return True if an in-place graph is faster for a call: if more rows come than one copying graph holds."""
    return call.task.operation.in_place and call.task.rows > most_copied_rows(call)


class InPlaceGraph(Graph):
    """Captured graph of a task's launches that look up the addresses of a call's arrays.

    Attributes:
        inputs: the inputs of the operation.
        seed: derivative of the loss in the result; None for a value.
        itemsize: bytes of a number.
        outputs: the result, or the requested gradients of the inputs.
        parameters: the graph's own copy of the operation's parameters.
        gradients: requested gradients of the parameters.
    """

    def __init__(self, base: DeviceModel, call: Call):
        super().__init__()
        task, operation = call.task, call.task.operation
        assert not operation.needs_result
        self.itemsize = itemsize = call.tensors[0].element_size()
        most = ROWS_AT_A_TIME if math.prod(operation.shape) * itemsize <= MANY_BYTES else ROWS_AT_A_TIME // 2
        parts = [slice(first, min(first + most, task.rows)) for first in range(0, task.rows, most)]
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            self.inputs = [TensorSlot(tensor.shape, itemsize, parts) for tensor in call.inputs]
            new = call.seed is not None
            outputs = [None if x is None else TensorSlot(x.shape, itemsize, parts, new) for x in call.outputs]
            self.outputs = [slot for slot in outputs if slot is not None]
            self.seed = None if call.seed is None else TensorSlot(call.seed.shape, itemsize, parts)
            self.parameters = [x.clone(memory_format=torch.contiguous_format) for x in call.parameters]
            self._parameters = ParameterArrays(base, operation.parameters, self.parameters, task.needed)
            self.gradients = list(self._parameters.gradients.values())
            self._arrays = [_arrays(part, self.inputs, outputs, self.seed) for part in range(len(parts))]
            self._point(call)
            self._capture(lambda: self._launch_kernels(operation))

    def _launch_kernels(self, operation: DifferentiableOp) -> None:
        work = operation.forward if self.seed is None else operation.backward
        with self._parameters.normalised() as model:
            for result, inputs in self._arrays:
                with scratch_arrays():
                    work(model, result, *inputs)

    def _point(self, call: Call) -> None:
        seed = [] if call.seed is None else [call.seed]
        slots = [*self.inputs, *self.outputs, *([] if self.seed is None else [self.seed])]
        for slot, tensor in zip(slots, [*call.inputs, *call.filled, *seed], strict=True):
            slot.point_at(tensor.data_ptr(), tensor.stride())

    def run(self, call: Call) -> list[torch.Tensor]:
        """Run a call, see :class:`Graph`."""
        call = call.plain()
        self._point(call)
        if self.parameters:
            torch._foreach_copy_(self.parameters, list(call.parameters))
        self.launch()
        return [gradient.clone() for gradient in self.gradients]

    def value_path(self, signature: CallSignature) -> FastPath:
        """Return the fast path to the value, see :class:`Graph`."""
        shape, split, leaves, count = signature.shape, signature.split, signature.leaves, len(self.inputs)
        flat_shapes = [] if signature.shapes == signature.flat_shapes else signature.flat_shapes
        (result_slot,) = self.outputs
        strides = contiguous_strides(result_slot.shape)

        def path(given: list[torch.Tensor]) -> list[torch.Tensor]:
            tensors = plain(given)
            if flat_shapes:
                tensors = [tensor.reshape(flat) for tensor, flat in zip(tensors, flat_shapes, strict=True)]
            result = new_tensor(tensors[0], shape)
            with warp_lock:
                for slot, tensor in zip(self.inputs, tensors, strict=False):
                    slot.point_at(tensor.data_ptr(), tensor.stride())
                result_slot.point_at(result.data_ptr(), strides)
                if self.parameters:
                    torch._foreach_copy_(self.parameters, tensors[count:])
                self.launch()
            parts = separate_parts(result, split)
            return [*parts, pack(tensors)] if leaves else parts

        return path

    def gradient_path(self, signature: CallSignature, wanted: Sequence[bool]) -> FastPath:
        """Return the fast path to gradients, see :class:`Graph`."""
        count, flat_shapes, seed = len(self.inputs), signature.flat_shapes, self.seed
        assert seed is not None
        sizes = [shape.numel() for shape in flat_shapes]
        split_sizes = [sum(sizes[:count]), *sizes[count:]]
        shapes = [shape for shape, want in zip(signature.shapes, wanted, strict=True) if want][: len(self.outputs)]
        offsets = [sum(sizes[:number]) * self.itemsize for number in range(count)]
        inputs = [(slot, at, contiguous_strides(slot.shape)) for slot, at in zip(self.inputs, offsets, strict=True)]
        outputs = [(slot, contiguous_strides(slot.shape)) for slot in self.outputs]
        flat_parameters = [parameter.view(-1) for parameter in self.parameters]

        def path(given: list[torch.Tensor]) -> list[torch.Tensor]:
            packed, *grads = plain(given)
            grad = whole_gradient(grads, seed.shape)
            results = [new_tensor(packed, shape) for shape in shapes]
            with warp_lock:
                address = packed.data_ptr()
                for slot, offset, strides in inputs:
                    slot.point_at(address + offset, strides)
                for (slot, strides), result in zip(outputs, results, strict=True):
                    slot.point_at(result.data_ptr(), strides)
                seed.point_at(grad.data_ptr(), grad.stride())
                if flat_parameters:
                    _, *values = packed.split(split_sizes)
                    torch._foreach_copy_(flat_parameters, values)
                self.launch()
                return [*results, *(gradient.clone() for gradient in self.gradients)]

        return path


def _arrays(
    part: int, inputs: Sequence[TensorSlot], outputs: Sequence[TensorSlot | None], seed: TensorSlot | None
) -> tuple[ArrayRef, list[ArrayRef]]:
    """Return the result and inputs of an operation for one of the parts."""
    refs = [slot.refs[part] for slot in inputs]
    written = [None if slot is None else slot.refs[part] for slot in outputs]
    if seed is None:
        (result,) = written
        assert result is not None
        return result, refs
    bar = seed.refs[part]
    with_grads = [ArrayRef(ref.where, ref.shape, grad) for ref, grad in zip(refs, written, strict=True)]
    # The operation uses only the shape of the result.
    return ArrayRef(bar.where, bar.shape, bar), with_grads
