"""A graph over tensors of its own: arguments are copied into them and results out of them."""

from collections.abc import Sequence

import torch

from sim.arrays.critical_sections import warp_lock
from sim.arrays.device_model import DeviceModel
from sim.dynamics.differentiable_op import paused_tape
from sim.torch.runtime.call_signature import CallSignature, FastPath, parts_of
from sim.torch.runtime.graph import Graph
from sim.torch.runtime.packing import pack, unpack
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Launches

# Rows of one graph: 128, up to 1024 for narrow rows that fit in CAPTURED_BYTES.
CAPTURED_ROWS, MOST_CAPTURED_ROWS, CAPTURED_BYTES = 128, 1024, 2**19
# Of dynamics: with more, what lies between the launches leaves the nearest cache.
ROWS_AT_A_TIME = 64


def most_copied_rows(call: Call) -> int:
    """How many rows such a graph works on: its tensors, too, stay in the cache."""
    row_bytes = sum(x.element_size() * x[0].numel() for x in (*call.inputs, call.seed, *call.outputs) if x is not None)
    return max(CAPTURED_ROWS, min(MOST_CAPTURED_ROWS, CAPTURED_BYTES // max(1, row_bytes)))


class CopyGraph(Graph):
    """A task as a captured graph of launches on tensors of its own.

    Attributes:
        packed: inputs and parameters, and the result where its gradient needs it, in one piece of memory.
        tensors: views of these.
        seeds: derivative of the loss in the result [rows, ...]; none for a value.
        outputs: the result, or the gradients of the inputs that are wanted [rows, ...].
        gradients: of the parameters that are wanted.
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
            self._capture(lambda: self._launches.launch(ROWS_AT_A_TIME))

    def run(self, call: Call) -> list[torch.Tensor]:
        """See :class:`Graph`."""
        seed = [] if call.seed is None else [call.seed]
        torch._foreach_copy_([*self.tensors[: len(call.tensors)], *self.seeds], [*call.tensors, *seed])
        self.launch()
        if self.outputs:
            torch._foreach_copy_(call.filled, self.outputs)
        return [gradient.clone() for gradient in self.gradients]

    def value_path(self, signature: CallSignature) -> FastPath:
        """See :class:`Graph`."""
        (whole,) = _views(self.outputs, [signature.shape])
        packed = [self.packed] if signature.leaves else []
        return self._path(_views(self.tensors, signature.shapes), [*parts_of(whole, signature.split), *packed])

    def gradient_path(self, signature: CallSignature, wanted: Sequence[bool]) -> FastPath:
        """See :class:`Graph`."""
        shapes = [shape for shape, want in zip(signature.shapes, wanted, strict=True) if want]
        (seed,) = _views(self.seeds, [signature.shape])
        return self._path(
            [self.packed, *parts_of(seed, signature.split)], _views(self.outputs + self.gradients, shapes)
        )

    def _path(self, own: list[torch.Tensor], outputs: list[torch.Tensor]) -> FastPath:
        """Through views of the graph's tensors that are shaped as the tensors of a call and its results."""

        def path(given: list[torch.Tensor]) -> list[torch.Tensor]:
            with warp_lock:
                torch._foreach_copy_(own, given)
                self.launch()
                return [output.clone() for output in outputs]

        return path


def _views(tensors: Sequence[torch.Tensor], shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """The first tensors of a graph in other shapes."""
    with torch.inference_mode(False), torch.no_grad():
        return [tensor.view(shape) for tensor, shape in zip(tensors, shapes, strict=False)]
