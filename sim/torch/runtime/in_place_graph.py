"""A graph that is pointed at the tensors of a call, to read and write them where they lie."""

import math
from collections.abc import Sequence

import torch

from sim.arrays.array_refs import ArrayRef
from sim.arrays.critical_sections import warp_lock
from sim.arrays.device_model import DeviceModel
from sim.arrays.scratch import scratch_arrays
from sim.dynamics.differentiable_op import DifferentiableOp, paused_tape
from sim.torch.runtime.allocation import new_tensor
from sim.torch.runtime.call_signature import CallSignature, FastPath, separate_parts, whole_gradient
from sim.torch.runtime.copy_graph import most_copied_rows
from sim.torch.runtime.graph import Graph
from sim.torch.runtime.packing import pack, plain
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call
from sim.torch.runtime.tensor_slot import TensorSlot, contiguous_strides

# A graph has launches for each of the parts that its rows are worked on in.
MOST_IN_PLACE_ROWS = 2**14
# Little lies between the launches of kinematics: with fewer rows, a launch takes as long as its work. With more of what
# has many numbers in a row, such as Jacobians, it leaves the nearest caches.
ROWS_AT_A_TIME, MANY_BYTES = 512, 256


def in_place(call: Call) -> bool:
    """Whether a call is best done by such a graph: as long as one graph copies all rows, that takes less time."""
    return call.task.operation.in_place and call.task.rows > most_copied_rows(call)


class InPlaceGraph(Graph):
    """A task as a captured graph of launches that look up where the arrays of states are.

    Attributes:
        inputs: the inputs of the operation.
        seed: derivative of the loss in the result; None for a value.
        itemsize: bytes of a number.
        outputs: the result, or the gradients of the inputs that are wanted.
        parameters: those of the operation, of its own.
        gradients: of the parameters that are wanted.
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
        """See :class:`Graph`."""
        call = call.plain()
        self._point(call)
        if self.parameters:
            torch._foreach_copy_(self.parameters, list(call.parameters))
        self.launch()
        return [gradient.clone() for gradient in self.gradients]

    def value_path(self, signature: CallSignature) -> FastPath:
        """See :class:`Graph`."""
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
        """See :class:`Graph`."""
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
    """The result and inputs of an operation for one of the parts."""
    refs = [slot.refs[part] for slot in inputs]
    written = [None if slot is None else slot.refs[part] for slot in outputs]
    if seed is None:
        (result,) = written
        assert result is not None
        return result, refs
    bar = seed.refs[part]
    with_grads = [ArrayRef(ref.where, ref.shape, grad) for ref, grad in zip(refs, written, strict=True)]
    # The operation asks for no more of the result than its shape.
    return ArrayRef(bar.where, bar.shape, bar), with_grads
