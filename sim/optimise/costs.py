"""Base classes of costs, and costs from user functions. :mod:`sim.optimise.terms` has the ready-made ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, number
from sim.model.model import Model
from sim.optimise.forces import Measure
from sim.optimise.motion import Motion

# From q [stages + 1, worlds, nq], qd [stages + 1, worlds, nv] and controls [stages, worlds, size].
Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
At = int | Sequence[int] | None


class Cost(ABC):
    """A term of the cost.

    Attributes:
        name: shown in messages.
        measure: contact force that it asks for, an entry of the motion's ``contact_force``; None for none.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Cost, Effort, Problem, Total, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> further = Total(lambda q, qd, controls: -q[-1, :, 0])
        >>> found = ilqr(Problem(simulator, 20, [further, Effort(1e-3)]), iterations=3)
        >>> isinstance(further, Cost), bool(found.q[-1, 0] > 0.0)
        (True, True)
    """

    name = "cost"
    measure: Measure | None = None

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Raise ModelError if the cost doesn't fit the problem: its model, stages and sensors."""
        del model, stages, sensors

    @abstractmethod
    def value(self, motion: Motion) -> torch.Tensor:
        """Return the cost of every world [worlds]."""


class Total(Cost):
    """Cost of every world, returned by a function.

    Args:
        function: from ``q, qd, controls`` to [worlds], in PyTorch. For ``ilqr`` it must be twice differentiable and a
            sum over stages; use :class:`LeastSquares` for a sum of squares.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Problem, Total, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> bowl = Total(lambda q, qd, controls: 50.0 * (q[-1, :, 0] - 1.0) ** 2)
        >>> found = ilqr(Problem(simulator, 20, [bowl, Effort(1e-5)]), iterations=5)
        >>> bool(abs(found.q[-1, 0] - 1.0) < 0.05)
        True
    """

    def __init__(self, function: Function):
        if not callable(function):
            raise ModelError(f"Total: function is {function!r}; it must be a function of q, qd and controls")
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def value(self, motion: Motion) -> torch.Tensor:
        """Return the cost of every world [worlds]."""
        value = self.function(motion.q, motion.qd, motion.controls)
        worlds = motion.q.shape[1]
        if not isinstance(value, torch.Tensor) or value.shape != (worlds,):
            got = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise ModelError(f"cost '{self.name}' returned {got}; expected one number for each world, ({worlds},)")
        return value


class LeastSquares(Cost):
    """Half the weighted sum of squares of a function's residuals.

    Args:
        function: from ``q, qd, controls`` to residuals [rows, worlds, k], in PyTorch. For ``ilqr`` each row must depend
            on the state and control of one stage, different for each row.
        weight: weight of the squares, one for all or [k].
        longest: for ``gradient``: maximum reduction of a world's residuals per iteration, in their unit; within it a
            linear model should be accurate.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, LeastSquares, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> miss = LeastSquares(lambda q, qd, controls: q[-1:] - 1.0, weight=100.0)
        >>> found = ilqr(Problem(simulator, 20, [miss, Effort(1e-5)]), iterations=5)
        >>> bool(abs(found.q[-1, 0] - 1.0) < 0.05)
        True
    """

    def __init__(self, function: Function | None = None, weight: npt.ArrayLike = 1.0, *, longest: float = float("inf")):
        self.function = function
        self.name = getattr(function, "__name__", type(self if function is None else function).__name__)
        if function is not None and not callable(function):
            raise ModelError(f"LeastSquares: function is {function!r}; it must be a function of q, qd and controls")
        self.weight = as_numbers(f"cost '{self.name}': weight", weight)
        self.longest = number(f"cost '{self.name}'", "longest", longest)
        if self.weight.ndim > 1 or not (np.isfinite(self.weight).all() and (self.weight >= 0.0).all()):
            raise ModelError(f"cost '{self.name}': weight is {weight!r}; it must be finite numbers, not negative")
        if not self.longest > 0.0:
            raise ModelError(f"cost '{self.name}': longest is {longest!r}; it must be positive")

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the residuals without their weights [rows, worlds, k]."""
        assert self.function is not None, "derived classes implement difference"
        return self.function(motion.q, motion.qd, motion.controls)

    def columns(self, motion: Motion) -> np.ndarray | None:
        """Return the entry of (2 nv + na of the state, size of the control) that each difference equals up to a
        constant [k].

        -1 if it depends on more entries; None if all may. It saves ``ilqr`` their derivatives.
        """
        return None

    def rows(self, motion: Motion) -> list[int] | slice:
        """Return the stages of the rows, used with :meth:`columns`."""
        return slice(None)

    def residuals(self, motion: Motion) -> torch.Tensor:
        """Return the residuals, times the square roots of their weights [rows, worlds, k]."""
        value = self.difference(motion)
        if value.dim() != 3 or value.shape[1] != motion.q.shape[1]:
            raise ModelError(
                f"cost '{self.name}' returned residuals of shape {tuple(value.shape)}; expected (rows, "
                f"{motion.q.shape[1]}, k)"
            )
        if self.weight.ndim == 1 and len(self.weight) != value.shape[2]:
            raise ModelError(f"cost '{self.name}' has {len(self.weight)} weights for {value.shape[2]} residuals")
        return value * torch.as_tensor(np.sqrt(self.weight), dtype=value.dtype, device=value.device)

    def value(self, motion: Motion) -> torch.Tensor:
        """Return the cost of every world [worlds]."""
        return 0.5 * (self.residuals(motion) ** 2).sum((0, 2))


def as_cost(given: Any) -> Cost:
    """Return a user's term as a cost: a cost as it is, a function wrapped."""
    if isinstance(given, Cost):
        return given
    if callable(given) and not isinstance(given, type):
        return Total(given)
    if isinstance(given, type):
        raise ModelError(f"costs contain the class {given.__name__}; make an instance: {given.__name__}(...)")
    raise ModelError(f"costs contain a {type(given).__name__}; give costs of sim.optimise, or functions")


def stages_of(at: At, stages: int, name: str) -> list[int] | slice:
    """Return the states that ``at`` selects, of stages + 1: all for None; negative ones count from the end.

    Raises:
        ModelError: for a state out of range.
    """
    if at is None:
        return slice(None)
    given: Any = at
    chosen: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for each in chosen:
        if not is_whole(each, -(2**31)):
            raise ModelError(
                f"cost '{name}': at is {at!r}; it must be the index of a state, several indices, or None for all"
            )
        if not -stages - 1 <= each <= stages:
            raise ModelError(f"cost '{name}': at has {each}; there are states 0 to {stages}, and -1 is the last")
    return [int(each) % (stages + 1) for each in chosen]
