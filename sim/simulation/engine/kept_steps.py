"""Kept steps: working arrays of the steps of a rollout that stay in memory, so that the backward pass reads them.

A kept step runs on copies of the working arrays that its adjoint reads, each step on its own. They are found from the
arguments of the launches: all arrays that both the step and its adjoint have, except those of the model.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.graphs import Graph, GraphsInTurn, MovingReplay, is_listed
from sim.arrays.launch import load_launched, replaced_arguments
from sim.arrays.moved_arrays import (
    PIECE,
    MovedArrays,
    Range,
    UsedMemory,
    arrays_of,
    merged,
    overlapping,
    packed,
    range_of,
)
from sim.simulation.stepping.pipeline import Step

# Captures launches, as a graph of the given kind if one is given.
Capture = Callable[..., Graph]


class KeptLayout:
    """Arrangement of the working arrays that a kept step has for itself.

    Args:
        step: the step, with its arrays of the backward pass.
        capture: captures launches.

    Attributes:
        offsets: offset of each piece of memory in a kept step.
        size: bytes of a kept step.
    """

    def __init__(self, step: Step, capture: Capture):
        self._shared = merged(range_of(array) for array in arrays_of(step.not_kept) if array.size)
        self.offsets, self.size = packed(self._used_by_both(step, capture))

    def covers(self, step: Step, capture: Capture) -> bool:
        """Return whether the adjoint with the gradients now watched reads no other arrays of the step."""
        return all(piece in self.offsets for piece in self._used_by_both(step, capture))

    def _used_by_both(self, step: Step, capture: Capture) -> list[Range]:
        forward, backward = UsedMemory(), UsedMemory()

        def both() -> None:
            with replaced_arguments(forward):
                tape = step.kept_step()
            for recorded in tape.launches:
                if not callable(recorded):
                    for value in recorded[3]:
                        backward(value)
            with replaced_arguments(backward):
                step.kept_adjoint(tape)

        load_launched(lambda: step.kept_step() and None, step.device)
        capture(both)
        used = merged(forward.ranges | backward.ranges)
        for others in (forward, backward):
            used = overlapping(used, merged(others.ranges))
        shared = set(overlapping(used, self._shared))
        return [piece for piece in used if piece not in shared]


class KeptBlock:
    """Memory of some kept steps, which begins as copies of the working arrays: some entries are never written.

    Args:
        layout: arrangement of a kept step.
        steps: number of steps.
        device: device of the memory.

    Attributes:
        address: address of the first step.
        addresses: those of all steps.
        size: bytes of a step.
    """

    def __init__(self, layout: KeptLayout, steps: int, device: wp.Device):
        self.steps, self.size = steps, layout.size
        self._offsets = layout.offsets
        if device.is_cpu:
            # Memory that is never written isn't taken from the system.
            self._rows = np.zeros((steps, layout.size), dtype=np.uint8)
            self._memory: wp.array = wp.array(self._rows, dtype=wp.uint8, device=device, copy=False)
        else:
            self._memory = wp.zeros((steps, layout.size), dtype=wp.uint8, device=device)
        self.address: int = self._memory.ptr
        self.addresses = range(self.address, self.address + steps * self.size, self.size)
        self._copy(0, to_block=True)
        if device.is_cpu:
            pieces = np.flatnonzero(self._rows[0].reshape(-1, PIECE).any(axis=1))
            self._rows.reshape(steps, -1, PIECE)[1:, pieces] = self._rows[0].reshape(-1, PIECE)[pieces]
        else:
            for number in range(1, steps):
                wp.copy(self._memory, self._memory, number * layout.size, 0, layout.size)

    @property
    def bytes(self) -> int:
        """Return the bytes of all steps."""
        return self.steps * self.size

    def show(self, number: int) -> None:
        """Copy the arrays of a step to the working arrays."""
        self._copy(number, to_block=False)

    def _copy(self, number: int, to_block: bool) -> None:
        for (first, end), offset in self._offsets.items():
            own = _bytes(self.address + number * self.size + offset, end - first, self._memory.device)
            working = _bytes(first, end - first, self._memory.device)
            wp.copy(*((own, working) if to_block else (working, own)))


def _bytes(address: int, count: int, device: Any) -> wp.array:
    return wp.array(ptr=address, shape=(count,), dtype=wp.uint8, device=device, copy=False)


class KeptGraphs:
    """Captured kept steps and their adjoints: on a CPU a graph that moves from step to step, elsewhere one for each.

    Args:
        step: the step; it watches the parameters whose gradients its adjoint computes.
        layout: arrangement of its kept steps.
        capture: captures launches on a CPU.

    Attributes:
        forward, backward: graphs of the steps and of their adjoints, in opposite order.
    """

    def __init__(self, step: Step, layout: KeptLayout, capture: Capture):
        self._step, self._layout = step, layout
        self._arrays: list[MovedArrays] = []  # kept alive
        self._home = KeptBlock(layout, 1, step.device) if is_listed(step.device) else None
        self.forward: Any = GraphsInTurn(layout.size)
        self.backward: Any = GraphsInTurn(-layout.size)
        if self._home:
            self.forward, self.backward = self._captured(
                self._home.address,
                lambda work, arrays, by: capture(work, lambda work: MovingReplay(work, arrays, by * layout.size)),
            )

    def prepare(self, block: KeptBlock, capture: Capture) -> None:
        """Capture the steps of a block. Call it from one thread only."""
        for address in () if self._home else block.addresses:
            if address not in self.forward.graphs:
                graphs = self._captured(address, lambda work, arrays, by: capture(work))
                self.forward.graphs[address], self.backward.graphs[address] = graphs

    def forget(self, addresses: set[int]) -> None:
        """Drop the graphs of memory that is given up."""
        for graphs in () if self._home else (self.forward.graphs, self.backward.graphs):
            for address in addresses & set(graphs):
                del graphs[address]

    def _captured(self, address: int, make: Callable[..., Graph]) -> tuple[Graph, Graph]:
        """Capture a step and its adjoint at an address."""
        tapes: list[wp.Tape] = []
        works = (lambda: tapes.append(self._step.kept_step()), lambda: self._step.kept_adjoint(tapes[0]))
        graphs = []
        for work, by in zip(works, (1, -1), strict=True):
            arrays = MovedArrays(self._layout.offsets, address, self._layout.size)
            self._arrays.append(arrays)
            with replaced_arguments(arrays):
                graphs.append(make(work, arrays, by))
        forward, backward = graphs
        return forward, backward


class KeptMemory:
    """Memory for the kept steps of a shard, reused by one rollout after the other.

    Args:
        step: the shard's step.
    """

    def __init__(self, step: Step):
        self._step = step
        self._layout: KeptLayout | None = None
        self._graphs: dict[frozenset[str], KeptGraphs] = {}
        self._free: list[KeptBlock] = []

    @property
    def bytes_of_step(self) -> int:
        """Return the bytes of a kept step."""
        return self._laid_out.size

    def record(self, names: frozenset[str], capture: Capture) -> bool:
        """Capture kept steps whose adjoint computes the gradients of these parameters.

        Args:
            names: the parameters, which the step watches.
            capture: captures launches.

        Returns:
            False if that adjoint reads arrays that kept steps share; such steps have to be run again.
        """
        if self._layout is None:
            self._layout = KeptLayout(self._step, capture)
        if names not in self._graphs:
            if self._graphs and not self._layout.covers(self._step, capture):
                return False
            self._graphs[names] = KeptGraphs(self._step, self._layout, capture)
        return True

    def take(self, steps: int) -> KeptBlock:
        """Return memory for a number of steps, that of an earlier rollout if there is any."""
        for block in self._free:
            if block.steps == steps:
                self._free.remove(block)
                return block
        return KeptBlock(self._laid_out, steps, self._step.device)

    def bytes_with(self, steps: int) -> int:
        """Return the bytes of the memory that no rollout needs, after :meth:`take` of a number of steps."""
        reused = any(block.steps == steps for block in self._free)
        return sum(block.bytes for block in self._free) - reused * steps * self.bytes_of_step

    def free(self) -> None:
        """Give up memory that no rollout needs."""
        gone = {address for block in self._free for address in block.addresses}
        self._free.clear()
        for graphs in self._graphs.values():
            graphs.forget(gone)

    def give_back(self, block: KeptBlock) -> None:
        """Take back a block that no rollout needs any more."""
        self._free.append(block)

    def graphs(self, names: frozenset[str]) -> KeptGraphs:
        """Return the graphs of :meth:`record`."""
        return self._graphs[names]

    @property
    def _laid_out(self) -> KeptLayout:
        assert self._layout is not None, "record comes first"
        return self._layout
