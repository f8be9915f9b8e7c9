"""Constraints on states and controls, by penalties or by an augmented Lagrangian."""

from collections.abc import Mapping

import numpy as np
import torch

from sim.errors import ModelError
from sim.model.checks import number, require_type
from sim.model.model import Model
from sim.optimise.costs import Function, LeastSquares
from sim.optimise.motion import Motion


class Constraint:
    """Values that must not be positive, or must be zero.

    Args:
        function: from ``q, qd, controls`` to [rows, worlds, k], in PyTorch; rows as for
            :class:`sim.optimise.LeastSquares`.
        equal: True if the values must be zero, False if at most zero.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Constraint, Effort, Problem, solve
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> there = Constraint(lambda q, qd, controls: q[-1:] - 1.0, equal=True)
        >>> found = solve(Problem(simulator, 20, [Effort(1e-3)], constraints=[there]), "ilqr", iterations=5)
        >>> round(float(found.q[-1, 0]), 2)
        1.0
    """

    def __init__(self, function: Function | None = None, *, equal: bool = False):
        if (function is None and type(self) is Constraint) or (function is not None and not callable(function)):
            raise ModelError(f"Constraint: function is {function!r}; it must be a function of q, qd and controls")
        self.function = function
        self.equal = equal
        self.name = getattr(function, "__name__", type(self if function is None else function).__name__)

    def check(self, model: Model) -> None:
        """Raise ModelError if the model lacks what the constraint needs."""
        del model

    def value(self, motion: Motion) -> torch.Tensor:
        """Return the values [rows, worlds, k]."""
        assert self.function is not None, "derived classes implement value"
        value = self.function(motion.q, motion.qd, motion.controls)
        if value.dim() != 3 or value.shape[1] != motion.q.shape[1]:
            raise ModelError(
                f"constraint '{self.name}' returned shape {tuple(value.shape)}; expected (rows, {motion.q.shape[1]}, k)"
            )
        return value

    def violation(self, motion: Motion) -> torch.Tensor:
        """Return the violation of each value [rows, worlds, k]."""
        value = self.value(motion)
        return value.abs() if self.equal else value.clamp(min=0.0)


class JointRange(Constraint):
    """Joint limits on the coordinates in every state.

    Args:
        margin: distance to keep from the limits [rad or m].

    Example:
        >>> import sim
        >>> from sim.optimise import Effort, JointRange, Position, Problem, solve
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> there = Position("link7", (0.3, 0.4, 0.9), weight=100.0, at=-1)
        >>> problem = Problem(simulator, 10, [there, Effort(1e-4)], hold=8, constraints=[JointRange(margin=0.1)])
        >>> bool(solve(problem, "ilqr", iterations=15, rounds=4).violation < 1e-2)
        True
    """

    def __init__(self, margin: float = 0.0):
        super().__init__()
        self.margin = number("JointRange", "margin", margin)
        if not np.isfinite(self.margin):
            raise ModelError(f"JointRange: margin is {margin!r}; it must be finite")
        self.name = "JointRange"

    def check(self, model: Model) -> None:
        """Raise ModelError if no joint has limits."""
        if not len(_limited(model, model.parameters)):
            raise ModelError("constraint 'JointRange': no joint of the model has limits")

    def value(self, motion: Motion) -> torch.Tensor:
        """Return violations of the lower limits, then of the upper ones [stages + 1, worlds, 2 * limited joints]."""
        model = motion.robot.model
        limited = _limited(model, motion.parameters)
        q = motion.q[..., torch.from_numpy(model.dof_q[limited]).long()]
        lower, upper = (
            torch.as_tensor(motion.parameters[name][limited], dtype=q.dtype, device=q.device)
            for name in ("lower_limit", "upper_limit")
        )
        beyond = torch.cat([lower + self.margin - q, q - upper + self.margin], dim=-1)
        return torch.where(beyond.isfinite(), beyond, torch.full_like(beyond, -1.0))


def _limited(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the degrees of freedom whose coordinate has limits."""
    finite = np.isfinite(parameters["lower_limit"]) | np.isfinite(parameters["upper_limit"])
    return np.flatnonzero((model.dof_q >= 0) & finite)


class Penalty(LeastSquares):
    """Half the weighted sum of squares of a constraint's violations.

    Args:
        constraint: the constraint.
        weight: weight of the squares.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Constraint, Effort, Penalty, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> slow = Constraint(lambda q, qd, controls: qd - 2.0)  # at most 2 m/s, softly
        >>> costs = [Posture([1.0], weight=100.0, at=-1), Effort(1e-5), Penalty(slow, weight=1e3)]
        >>> bool(ilqr(Problem(simulator, 20, costs, hold=5), iterations=10).qd.max() < 2.1)
        True
    """

    def __init__(self, constraint: Constraint, weight: float):
        super().__init__(None, weight)
        require_type("Penalty: constraint", constraint, Constraint, "a sim.optimise.Constraint")
        self.constraint = constraint
        self.name = f"Penalty({constraint.name})"

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        self.constraint.check(model)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the violations [rows, worlds, k]."""
        value = self.constraint.value(motion)
        return value if self.constraint.equal else value.clamp(min=0.0)


class Multiplied(LeastSquares):
    """A constraint with its multipliers: half of stiffness times (value + multiplier / stiffness)^2.

    For inequalities the sum counts only if it is positive (Nocedal and Wright 2006, section 17.4).

    Args:
        constraint: the constraint.
        stiffness: stiffness of the penalty.
        multiplier: multiplier of each value [rows, k]. Default: zeros.
    """

    def __init__(self, constraint: Constraint, stiffness: float, multiplier: np.ndarray | None = None):
        super().__init__(None, stiffness)
        self.constraint, self.multiplier = constraint, multiplier
        self.name = f"constraint '{constraint.name}'"

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return value plus multiplier over stiffness [rows, worlds, k]."""
        value = self.constraint.value(motion)
        if self.multiplier is not None:
            shift = torch.as_tensor(self.multiplier / float(self.weight), dtype=value.dtype, device=value.device)
            value = value + shift[:, None]
        return value if self.constraint.equal else value.clamp(min=0.0)

    def updated(self, motion: Motion, stiffness: float) -> "Multiplied":
        """Return the constraint with multipliers updated from the motion of one world, and another stiffness."""
        found = float(self.weight) * self.difference(motion)[:, 0].detach().cpu().numpy().astype(np.float64)
        return Multiplied(self.constraint, stiffness, found)
