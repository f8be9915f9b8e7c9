"""Common interface of the libraries in the benchmark: robots, states, and the calls of one library."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

CASES = ("fk", "jacobian", "rnea", "crba", "aba")
TORCH_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Robot:
    """Robot for all libraries.

    Attributes:
        name: name in the records.
        urdf: file without geometry, damping and dry friction, which some libraries do not support.
        floating: True if its base is free.
        tip: the link whose pose and Jacobian are computed.
        joints: names of the joints with one degree of freedom, in the order of the coordinates.
    """

    name: str
    urdf: Path
    floating: bool
    tip: str
    joints: tuple[str, ...]

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return len(self.joints) + 6 * self.floating


@dataclass(frozen=True)
class State:
    """A batch of states in Backswing's conventions.

    Attributes:
        q: joint coordinates [batch, nq]; a floating base has its position and quaternion xyzw first.
        qd: joint velocities [batch, nv], those of a floating base along world axes.
        qdd: joint accelerations [batch, nv].
        tau: joint forces [batch, nv], zero on a floating base.
    """

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], count: int) -> "State":
        """Load the first ``count`` states of a file."""
        return cls(*(arrays[field.name][:count] for field in fields(cls)))

    def first(self, count: int) -> "State":
        """Return the first ``count`` states."""
        return State.load(vars(self), count)

    def arguments(self, case: str) -> list[np.ndarray]:
        """Return the arguments of a case's function."""
        further = {"rnea": [self.qd, self.qdd], "aba": [self.qd, self.tau]}
        return [self.q, *further.get(case, [])]


@dataclass(frozen=True)
class Call:
    """Case on one batch.

    Attributes:
        forward: computes the values of the whole batch, synchronously.
        backward: computes values and a gradient; None if the library has no gradient.
        gradient_error: relative difference of the gradient from central differences; None if it is not checked.
        value: the values in Backswing's conventions: poses [batch, 4, 4]; Jacobians along world axes with the
            angular rows first [batch, 6, nv]; forces or accelerations [batch, nv]; mass matrices [batch, nv, nv].
        forward_states: number of states in a call of ``forward``.
        backward_states: number of states in a call of ``backward``.
        forward_overhead: takes as long as the part of ``forward`` that is call overhead, and is timed alternately
            with it; None if there is none.
        backward_overhead: the same for ``backward``.
    """

    forward: Callable[[], object]
    backward: Callable[[], object] | None
    value: Callable[[], np.ndarray]
    gradient_error: Callable[[], float] | None
    forward_states: int
    backward_states: int
    forward_overhead: Callable[[], object] | None = None
    backward_overhead: Callable[[], object] | None = None


class Library(abc.ABC):
    """A robot in one library in one precision on one device.

    Attributes:
        note: how the library differs from the others.
        expects: the reference of a case, if it is not the case itself.
    """

    note: ClassVar[str] = ""
    expects: ClassVar[dict[str, str]] = {}

    @abc.abstractmethod
    def __init__(self, robot: Robot, dtype: str, device: str): ...

    @abc.abstractmethod
    def call(self, case: str, state: State) -> Call | None:
        """Make a case for a batch of states; None if the library does not support it."""


class Unsupported(Exception):
    """Error of a library that does not support a robot, precision or device; the message gives the reason."""


class TorchLibrary(Library):
    """A library of differentiable functions of tensors."""

    def __init__(self, robot: Robot, dtype: str, device: str):
        self.robot = robot
        self.dtype = TORCH_DTYPES[dtype]
        self.device = device

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """Make a tensor of the library's dtype on its device."""
        return torch.tensor(array, dtype=self.dtype, device=self.device)

    @abc.abstractmethod
    def function(self, case: str) -> Callable[..., Any] | None:
        """Return the function of a case. It takes :meth:`arguments` and returns a tensor or a tuple; None if
        unsupported.
        """

    @abc.abstractmethod
    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return the arguments of the function."""

    @abc.abstractmethod
    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert the function's result for a batch of states to the conventions of :attr:`Call.value`."""

    def call(self, case: str, state: State) -> Call | None:
        """Make a case, see :class:`Library`."""
        function = self.function(case)
        if function is None:
            return None
        arguments = self.arguments(case, state)
        leaves = [x.clone().requires_grad_() for x in arguments]

        def forward() -> Any:
            with torch.no_grad():
                result = function(*arguments)
            self.wait()
            return result

        seeds = [torch.ones_like(x) for x in _tensors(forward())]

        def backward() -> tuple[torch.Tensor | None, ...]:
            gradients = torch.autograd.grad(_tensors(function(*leaves)), leaves, seeds, allow_unused=True)
            self.wait()
            return gradients

        return Call(
            forward,
            backward,
            lambda: self.value(case, state, forward()).cpu().numpy(),
            lambda: gradient_error(function, leaves),
            len(state.q),
            len(state.q),
        )

    def wait(self) -> None:
        """Wait for a GPU."""
        if self.device != "cpu":
            torch.cuda.synchronize()


def gradient_error(function: Callable[..., Any], leaves: Sequence[torch.Tensor]) -> float:
    """Compute the error of a gradient along a random direction against central differences, relative to its largest
    part.
    """
    generator = torch.Generator().manual_seed(0)

    def random_like(x: torch.Tensor) -> torch.Tensor:
        return torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)

    results = _tensors(function(*leaves))
    seeds = [random_like(x) for x in results]
    directions = [random_like(x) for x in leaves]
    gradients = torch.autograd.grad(results, leaves, seeds, allow_unused=True)
    parts = torch.stack([(g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None])
    step = {torch.float32: 1e-3, torch.float64: 1e-6}[leaves[0].dtype]

    def loss(step: float) -> float:
        with torch.no_grad():
            moved = _tensors(function(*(x + step * d for x, d in zip(leaves, directions, strict=True))))
            return sum(float((x * s).double().sum()) for x, s in zip(moved, seeds, strict=True))

    return abs(float(parts.sum()) - (loss(step) - loss(-step)) / (2.0 * step)) / float(parts.abs().max())


def _tensors(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)
