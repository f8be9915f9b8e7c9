"""Work that comes again, as a graph over tensors of its own: arguments are copied into it and results out of it."""

from collections.abc import Sequence

import torch
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.scratch import kept_scratch
from sim.arrays.warp_lock import warp_lock
from sim.dynamics.differentiable_op import paused_tape
from sim.torch.runtime.graph import Graph, Shapes, Way, parts_of
from sim.torch.runtime.lru import next_use
from sim.torch.runtime.parameters import ParameterArrays
from sim.torch.runtime.task import Call, Forward
from sim.torch.runtime.values import Values, pack

# Rows of one graph: so many, or more of what has few numbers in a row, as long as these take no more bytes together.
CAPTURED_ROWS, MOST_CAPTURED_ROWS, CAPTURED_BYTES = 128, 1024, 2**19
# Of dynamics: with more, what lies between the launches leaves the nearest cache.
ROWS_AT_A_TIME = 64


def most_copied_rows(call: Call) -> int:
    """How many rows such a graph works on: its tensors, too, stay in the cache."""
    given = [*call.values.tensors()[: call.values.inputs], call.seed, *call.outputs]
    row_bytes = sum(x.element_size() * x[0].numel() for x in given if x is not None)
    return max(CAPTURED_ROWS, min(MOST_CAPTURED_ROWS, CAPTURED_BYTES // row_bytes))


class CopyGraph(Graph):
    """A task as a captured graph of launches on tensors of its own.

    Attributes:
        flat: inputs and parameters, and the result where its gradient needs it, in one piece of memory.
        tensors: views of these.
        seeds: derivative of the loss in the result [rows, ...]; none for a value.
        outputs: the result, or the gradients of the inputs that are wanted [rows, ...].
        gradients: of the parameters that are wanted.
    """

    def __init__(self, base: DeviceModel, call: Call):
        super().__init__()
        task = call.task
        with torch.inference_mode(False), torch.no_grad(), paused_tape():
            outputs = [None if x is None else x.new_empty(x.shape) for x in call.outputs]
            given = [*call.values.tensors()]
            if task.work is Forward and task.operation.needs_result:
                given += [x for x in call.outputs if x is not None]
            values = Values.from_flat(pack(given), [x.shape for x in given], task.inputs)
            if len(given) > len(call.values.shapes):
                outputs = [values.tensors()[-1]]
            seed = None if call.seed is None else call.seed.clone(memory_format=torch.contiguous_format)
            own = Call(task, values, seed, outputs)
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

    def run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs of a call; returns the gradients of the needed parameters."""
        given = [*call.values.tensors()] if call.values.flat is None else [call.values.flat]
        own = self.tensors[: len(given)] if call.values.flat is None else [self.flat]
        seed = [] if call.seed is None else [call.seed]
        self.launch(own + self.seeds, given + seed)
        outputs = [output for output in call.outputs if output is not None]
        if outputs:
            torch._foreach_copy_(outputs, self.outputs)
        return [gradient.clone() for gradient in self.gradients]

    def value_way(self, calls: Shapes) -> Way:
        """See :class:`Graph`."""
        (whole,) = _seen(self.outputs, [calls.shape])
        kept = [self.flat] if calls.leaves else []
        return _CopyWay(self, _seen(self.tensors, calls.shapes), parts_of(whole, calls.split) + kept)

    def gradient_way(self, calls: Shapes, wanted: Sequence[bool]) -> Way:
        """See :class:`Graph`."""
        shapes = [shape for shape, want in zip(calls.shapes, wanted, strict=True) if want]
        (seed,) = _seen(self.seeds, [calls.shape])
        return _CopyWay(self, [self.flat, *parts_of(seed, calls.split)], _seen(self.outputs + self.gradients, shapes))


class _CopyWay:
    """A graph and those of its tensors into which the tensors of a call go and out of which results come.

    Args:
        graph: the graph.
        own: its tensors, as the tensors of a call are shaped.
        outputs: its tensors, as results are shaped.
    """

    __slots__ = ("_graph", "_outputs", "_own")

    def __init__(self, graph: CopyGraph, own: list[torch.Tensor], outputs: list[torch.Tensor]):
        self._graph, self._own, self._outputs = graph, own, outputs

    def run(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """See :class:`sim.torch.runtime.graph.Way`."""
        with warp_lock:
            self._graph.launch(self._own, list(given))
            return [output.clone() for output in self._outputs]


def _seen(tensors: Sequence[torch.Tensor], shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """The first tensors of a graph in other shapes."""
    with torch.inference_mode(False), torch.no_grad():
        return [tensor.view(shape) for tensor, shape in zip(tensors, shapes, strict=False)]
