"""Parametrisations: maps from an optimisation's unknowns to controls."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.interpolate import make_interp_spline

from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, require_choice, require_type
from sim.optimise.controls import ControlSpace

# From q [worlds, nq], qd [worlds, nv] and the stage's index to a policy's observations [worlds, n].
Observe = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
INTERPOLATIONS = {"hold": 0, "linear": 1, "cubic": 3}


class Parametrisation(ABC):
    """Map from unknowns to controls; the unknowns of all worlds are [worlds, size].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Knots, Parametrisation, PerStage, Policy, Problem
        >>> all(issubclass(each, Parametrisation) for each in (PerStage, Knots, Policy))
        True
    """

    @abstractmethod
    def size(self, space: ControlSpace) -> int:
        """Return the number of unknowns."""

    @abstractmethod
    def scale(self, space: ControlSpace) -> np.ndarray:
        """Return the typical size of each unknown [size]."""

    @abstractmethod
    def bounds(self, space: ControlSpace) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper limits of the unknowns [size]."""

    @abstractmethod
    def guess(self, space: ControlSpace, given: Any) -> np.ndarray:
        """Return unknowns of the first guesses [starts, size], from a user's guess or None."""


class OpenLoop(Parametrisation):
    """Controls that are a linear function of the unknowns, independent of the state."""

    @abstractmethod
    def matrix(self, stages: int) -> np.ndarray | None:
        """Return weights of the rows of unknowns in the controls of each stage [stages, rows]; None for the
        identity.
        """

    def rows(self, stages: int) -> int:
        """Return the number of rows of unknowns, each of the size of the controls."""
        matrix = self.matrix(stages)
        return stages if matrix is None else matrix.shape[1]

    def size(self, space: ControlSpace) -> int:
        """Return the number of unknowns."""
        return self.rows(space.stages) * space.size

    def scale(self, space: ControlSpace) -> np.ndarray:
        """Return the typical size of each unknown [size]."""
        return np.tile(space.scale, self.rows(space.stages))

    def bounds(self, space: ControlSpace) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper limits of the unknowns [size]."""
        rows = self.rows(space.stages)
        return np.tile(space.low, rows), np.tile(space.high, rows)

    def guess(self, space: ControlSpace, given: Any) -> np.ndarray:
        """Return unknowns of the first guesses [starts, size], from rows [rows, size] or [starts, rows, size]. Default:
        zeros.
        """
        shape = (self.rows(space.stages), space.size)
        rows = np.zeros(shape) if given is None else as_numbers("guess", given)
        if rows.ndim not in (2, 3) or rows.shape[-2:] != shape or not np.isfinite(rows).all():
            raise ModelError(f"guess has shape {rows.shape}; expected finite numbers {shape}, or (starts, *{shape})")
        return np.clip(rows, space.low, space.high).reshape(-1, shape[0] * shape[1])

    def controls(self, space: ControlSpace, unknowns: torch.Tensor) -> torch.Tensor:
        """Return controls [stages, worlds, size] of unknowns [worlds, rows * size], clamped to their limits."""
        rows = unknowns.reshape(len(unknowns), -1, space.size).transpose(0, 1)
        matrix = self.matrix(space.stages)
        if matrix is not None:
            weights = torch.as_tensor(matrix, dtype=rows.dtype, device=rows.device)
            rows = torch.einsum("sr,rwn->swn", weights, rows)
        return space.clamped(rows)


class PerStage(OpenLoop):
    """Separate controls in every stage.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, PerStage, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], at=-1), Effort(1e-5)], controls=PerStage(), hold=5)
        >>> found = ilqr(problem, iterations=5)
        >>> found.unknowns.shape, found.q.shape  # 100 steps of the simulator
        ((20,), (101, 1))
    """

    def matrix(self, stages: int) -> None:
        """Return None, the identity."""


class Knots(OpenLoop):
    """Controls at a few times, evenly spaced from the first stage to the last, and interpolated between them.

    Args:
        count: number of knots.
        interpolation: "hold": each knot until the next; "linear"; "cubic": a not-a-knot spline through the knots,
            clamped to the limits.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Knots, Posture, Problem, lbfgs
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> costs = [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)]
        >>> found = lbfgs(Problem(simulator, 20, costs, controls=Knots(3, "linear"), scale=10.0))
        >>> found.unknowns.shape, found.controls.shape
        ((3,), (20, 1))
    """

    def __init__(self, count: int, interpolation: str = "cubic"):
        require_choice("Knots: interpolation", interpolation, INTERPOLATIONS)
        least = INTERPOLATIONS[interpolation] + 1
        if not is_whole(count, least):
            raise ModelError(
                f"Knots: count is {count!r}; for interpolation='{interpolation}' it must be a whole number of at least "
                f"{least}"
            )
        self.count, self.interpolation = int(count), interpolation

    def matrix(self, stages: int) -> np.ndarray:
        """Return weights of the knots in each stage [stages, count]."""
        if self.count > stages:
            raise ModelError(f"Knots: {self.count} knots for {stages} stages; give at most one for each stage")
        if self.interpolation == "hold":
            return np.eye(self.count)[np.arange(stages) * self.count // stages]
        times, knots = np.linspace(0.0, 1.0, stages), np.linspace(0.0, 1.0, self.count)
        return make_interp_spline(knots, np.eye(self.count), k=INTERPOLATIONS[self.interpolation])(times)


class Policy(Parametrisation):
    """Feedback policy: the unknowns are the parameters of a module that maps observations to controls, clamped to their
    limits.

    Parameters that require no gradient, such as those of frozen layers, stay fixed.

    Args:
        module: maps observations [worlds, n] to controls [worlds, size]. It must work row by row, as under
            ``torch.func.vmap``; its parameters are the first guess and stay as they are.
        observe: from ``q, qd, stage`` to its observations. Default: q, qd and the states of actuators, concatenated.

    Example:
        >>> import torch
        >>> import sim
        >>> from sim.optimise import Effort, Policy, Posture, Problem, gradient
        >>> import numpy as np
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> _ = torch.manual_seed(0)
        >>> costs = [Posture([1.0], weight=10.0), Effort(1e-4)]
        >>> problem = Problem(simulator, 20, costs, controls=Policy(torch.nn.Linear(2, 1)))
        >>> found = gradient(problem, iterations=10)
        >>> found.unknowns.shape, found.cost < 0.9 * found.history[0]
        ((3,), True)
    """

    def __init__(self, module: torch.nn.Module, observe: Observe | None = None):
        require_type("Policy: module", module, torch.nn.Module, "a torch.nn.Module, not a class or a function")
        self.module = module
        self.observe = observe
        self.shapes = {name: value.shape for name, value in module.named_parameters() if value.requires_grad}
        if not self.shapes:
            raise ModelError("Policy: the module has no parameters that require a gradient")

    def size(self, space: ControlSpace) -> int:
        """Return the number of unknowns."""
        return sum(shape.numel() for shape in self.shapes.values())

    def scale(self, space: ControlSpace) -> np.ndarray:
        """Return one for each unknown."""
        return np.ones(self.size(space))

    def bounds(self, space: ControlSpace) -> tuple[np.ndarray, np.ndarray]:
        """Return infinite limits."""
        return np.full(self.size(space), -np.inf), np.full(self.size(space), np.inf)

    def guess(self, space: ControlSpace, given: Any) -> np.ndarray:
        """Return the module's parameters, or the given ones [size] or [starts, size]."""
        if given is None:
            given = torch.cat([value.detach().reshape(-1) for value in self._parameters()]).cpu().numpy()
        rows = np.atleast_2d(as_numbers("guess", given))
        if rows.ndim != 2 or rows.shape[1] != self.size(space) or not np.isfinite(rows).all():
            raise ModelError(
                f"guess has shape {rows.shape}; expected finite numbers ({self.size(space)},), or (starts, ...)"
            )
        return rows

    def control(
        self, space: ControlSpace, unknowns: torch.Tensor, state: tuple[torch.Tensor, ...], stage: int
    ) -> torch.Tensor:
        """Return the controls of one stage [worlds, size].

        Args:
            space: the control space.
            unknowns: unknowns of each world [worlds, size of the unknowns].
            state: q [worlds, nq], qd [worlds, nv] and, where there are any, states of actuators [worlds, na].
            stage: its index.
        """
        values, first = {}, 0
        for name, shape in self.shapes.items():
            values[name] = unknowns[:, first : first + shape.numel()].reshape(-1, *shape)
            first += shape.numel()

        def act(parameters: dict[str, torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(self.module, parameters, (seen,))

        seen = torch.cat(state, dim=-1) if self.observe is None else self.observe(state[0], state[1], stage)
        found = torch.func.vmap(act)(values, seen)
        if found.shape != (len(unknowns), space.size):
            raise ModelError(
                f"Policy: the module returned {tuple(found.shape)}; expected ({len(unknowns)}, {space.size})"
            )
        return space.clamped(found)

    def load(self, unknowns: np.ndarray) -> torch.nn.Module:
        """Return the module, with unknowns [size] of a result as its parameters. Raises ModelError for a wrong number
        of them.
        """
        parameters, count = self._parameters(), sum(shape.numel() for shape in self.shapes.values())
        given = as_numbers("Policy.load: unknowns", unknowns)
        if given.shape != (count,):
            raise ModelError(
                f"Policy.load: unknowns have shape {given.shape}; expected ({count},), those of one motion"
            )
        values = torch.as_tensor(given, dtype=parameters[0].dtype, device=parameters[0].device)
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(values, parameters)
        return self.module

    def _parameters(self) -> list[torch.nn.Parameter]:
        return [self.module.get_parameter(name) for name in self.shapes]
