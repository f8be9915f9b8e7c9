"""What the two kinds of captured graphs have in common.

A graph of twenty launches costs as much as a single launch. Its launches work on some rows at a time, so that what lies
between them stays in the cache of the processor.
"""

import abc
from collections.abc import Callable, Sequence
from weakref import WeakSet

import torch
import warp as wp

from sim.arrays.graphs import WarpGraph
from sim.arrays.scratch import kept_scratch
from sim.torch.runtime.call_signature import CallSignature, FastPath
from sim.torch.runtime.lru import next_use
from sim.torch.runtime.task import Call


class Graph(abc.ABC):
    """A task as a captured graph of launches.

    Attributes:
        used: the number of its last use.
        users: the signatures whose fast paths lead through it.
    """

    def __init__(self) -> None:
        self.used, self.users = next_use(), WeakSet[CallSignature]()

    def _capture(self, launch: Callable[[], None]) -> None:
        """Record launches, which lie on memory that stays as long as the graph."""
        launch()  # compiles and loads the kernels, which a capture must not do
        with kept_scratch() as self._scratch:
            self._graph = WarpGraph(launch, wp.get_device("cpu"))

    def launch(self) -> None:
        """Launch what was captured."""
        self.used = next_use()
        self._graph.launch(1)

    def evict(self) -> None:
        """Let its users forget it, so that its memory is freed."""
        for user in self.users:
            user.forget_paths()

    @abc.abstractmethod
    def run(self, call: Call) -> list[torch.Tensor]:
        """Fill the outputs of a call; returns the gradients of the needed parameters."""

    @abc.abstractmethod
    def value_path(self, signature: CallSignature) -> FastPath:
        """From inputs and parameters to the parts of the result and, if there are leaves, all that is packed for the
        gradient.
        """

    @abc.abstractmethod
    def gradient_path(self, signature: CallSignature, wanted: Sequence[bool]) -> FastPath:
        """From what is packed and the gradients in the parts of the result to those of the tensors that are wanted."""
