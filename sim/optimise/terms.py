"""Ready-made costs: half the weighted sum of squares over the stages selected by ``at``."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, names_in
from sim.model.model import Model
from sim.optimise.costs import At, LeastSquares, stages_of
from sim.optimise.forces import Measure
from sim.optimise.motion import Motion
from sim.optimise.tangent import turn_between


class _OfStates(LeastSquares):
    """Difference from a target, in some states.

    Args:
        target: target [size], or one for each of the states [states, size].
        size: size of the target; None if it depends on the model.
        weight: see :class:`sim.optimise.LeastSquares`.
        at: the states that count: an index, several, or None for all; -1 is the last.
        longest: see :class:`sim.optimise.LeastSquares`.
    """

    def __init__(self, target: npt.ArrayLike, size: int | None, weight: npt.ArrayLike, at: At, longest: float):
        super().__init__(None, weight, longest=longest)
        self.at = at
        self.target = as_numbers(f"cost '{self.name}': target", target)
        if size is not None:
            self._require_target(size)

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        chosen = stages_of(self.at, stages, self.name)
        states = stages + 1 if isinstance(chosen, slice) else len(chosen)
        if self.target.ndim == 2 and len(self.target) not in (1, states):
            raise ModelError(
                f"cost '{self.name}': target has {len(self.target)} rows; expected one for each of the {states} states "
                "that count, or a single target"
            )

    def _require_target(self, size: int) -> None:
        if self.target.ndim > 2 or self.target.shape[-1:] != (size,) or not np.isfinite(self.target).all():
            raise ModelError(
                f"cost '{self.name}': target has shape {self.target.shape}; expected {size} finite numbers, or "
                f"[states, {size}]"
            )

    def rows(self, motion: Motion) -> list[int] | slice:
        """Return the states that count."""
        return stages_of(self.at, motion.stages, self.name)

    def _wanted(self, like: torch.Tensor) -> torch.Tensor:
        """Return the target as a tensor [size], or [states, 1, size]."""
        target = torch.as_tensor(self.target, dtype=like.dtype, device=like.device)
        return target[:, None] if target.dim() == 2 else target


class Position(_OfStates):
    """Distance of a link's or frame's origin from a point.

    Args:
        frame: name of a link or frame.
        target: the point in the world [3], or one for each of the states [states, 3], m.
        weight: of the squares [1/m^2], one or one per axis.
        at: the states that count; None for all, -1 for the last.
        longest: see :class:`sim.optimise.LeastSquares` [m].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Position, Problem, ilqr
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False, dtype="float64")
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> there = Position("link7", (0.3, 0.4, 0.9), weight=1000.0, at=-1)
        >>> found = ilqr(Problem(simulator, 15, [there, Effort(1e-4)], hold=8), iterations=20)
        >>> link7 = sim.forward_kinematics(model, found.q[-1:]).numpy()[0, -1, :3]
        >>> bool(np.linalg.norm(link7 - (0.3, 0.4, 0.9)) < 0.05)
        True
    """

    def __init__(
        self, frame: str, target: npt.ArrayLike, weight: npt.ArrayLike = 1.0, *, at: At = None,
        longest: float = float("inf"),
    ):  # fmt: skip
        super().__init__(target, 3, weight, at, longest)
        self.frame = frame
        self.name = f"Position('{frame}')"

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        super().check(model, stages, sensors)
        model.frame(self.frame)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the vector from the target to the frame, along world axes [states, worlds, 3]."""
        position, _ = motion.robot.forward_kinematics(motion.q[self.rows(motion)], self.frame)
        return position - self._wanted(position)


class Orientation(_OfStates):
    """Angle of a link or frame from a target orientation.

    Args:
        frame: name of a link or frame.
        target: unit quaternion xyzw [4], or one for each of the states [states, 4].
        weight: of the squares of the angle along world axes [1/rad^2].
        at: the states that count; None for all, -1 for the last.
        longest: see :class:`sim.optimise.LeastSquares` [rad].

    Example:
        >>> import sim
        >>> from sim.optimise import Effort, Orientation, Problem, ilqr
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> upright = Orientation("link7", (0.0, 0.0, 0.0, 1.0), weight=100.0, at=-1)
        >>> found = ilqr(Problem(simulator, 15, [upright, Effort(1e-4)], hold=8), iterations=20)
        >>> found.cost < 0.1 * found.history[0]
        True
    """

    def __init__(
        self, frame: str, target: npt.ArrayLike, weight: npt.ArrayLike = 1.0, *, at: At = None,
        longest: float = float("inf"),
    ):  # fmt: skip
        super().__init__(target, 4, weight, at, longest)
        self.frame = frame
        self.name = f"Orientation('{frame}')"
        if not np.allclose(np.linalg.norm(self.target, axis=-1), 1.0, atol=1e-3):
            raise ModelError(f"cost '{self.name}': target {self.target} isn't a unit quaternion; normalise it")

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        super().check(model, stages, sensors)
        model.frame(self.frame)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the rotation vector from the target to the frame, along world axes [states, worlds, 3]."""
        _, quaternion = motion.robot.forward_kinematics(motion.q[self.rows(motion)], self.frame)
        return turn_between(self._wanted(quaternion).expand_as(quaternion), quaternion)


class Posture(_OfStates):
    """Difference of the coordinates from a target.

    Args:
        target: coordinates [nq], or for each of the states [states, nq].
        weight: of the squares of their differences, one or [nv]; see :func:`sim.difference`.
        at: the states that count; None for all, -1 for the last.
        longest: see :class:`sim.optimise.LeastSquares`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> bent = Posture(np.full(model.nq, 0.3), weight=100.0, at=-1)
        >>> found = ilqr(Problem(simulator, 15, [bent, Effort(1e-4)], hold=8), iterations=20)
        >>> bool(np.abs(found.q[-1] - 0.3).max() < 0.05)
        True
    """

    name = "Posture"

    def __init__(
        self, target: npt.ArrayLike, weight: npt.ArrayLike = 1.0, *, at: At = None, longest: float = float("inf")
    ):
        super().__init__(target, None, weight, at, longest)
        self.name = "Posture"

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        super().check(model, stages, sensors)
        self._require_target(model.nq)
        _require_weights(self, model.nv)

    def columns(self, motion: Motion) -> np.ndarray:
        """Return the entries of the coordinates, except those of turns."""
        own = np.full(motion.tangent.nv, -1)
        own[motion.tangent.plain] = motion.tangent.plain
        return own

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the difference from the target to the coordinates, as a tangent [states, worlds, nv]."""
        q = motion.q[self.rows(motion)]
        return motion.tangent.difference(self._wanted(q), q)


class Velocity(_OfStates):
    """Difference of the joint velocities from a target.

    Args:
        target: velocities [nv], or for each of the states [states, nv]. Default: zeros.
        weight: of the squares of their differences, one or [nv].
        at: the states that count; None for all, -1 for the last.
        longest: see :class:`sim.optimise.LeastSquares`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, Velocity, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> costs = [Posture([1.0], weight=100.0, at=-1), Velocity(weight=10.0, at=-1), Effort(1e-5)]
        >>> found = ilqr(Problem(simulator, 25, costs, hold=2), iterations=5)
        >>> bool(abs(found.q[-1, 0] - 1.0) < 0.05), bool(abs(found.qd[-1, 0]) < 0.1)
        (True, True)
    """

    def __init__(
        self, target: npt.ArrayLike | None = None, weight: npt.ArrayLike = 1.0, *, at: At = None,
        longest: float = float("inf"),
    ):  # fmt: skip
        super().__init__(0.0 if target is None else target, None, weight, at, longest)
        self.name = "Velocity"

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        super().check(model, stages, sensors)
        if self.target.ndim:
            self._require_target(model.nv)
        _require_weights(self, model.nv)

    def columns(self, motion: Motion) -> np.ndarray:
        """Return the entries of the velocities."""
        return motion.tangent.nv + np.arange(motion.tangent.nv)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the velocities less the target [states, worlds, nv]."""
        qd = motion.qd[self.rows(motion)]
        return qd - self._wanted(qd)


class ActuatorState(_OfStates):
    """Difference of the actuators' states from a target.

    Args:
        target: states [na], or for each of the states of the motion [states, na]. Default: zeros.
        weight: of the squares of their differences, one or [na].
        at: the states that count; None for all, -1 for the last.
        longest: see :class:`sim.optimise.LeastSquares`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import ActuatorState, Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> _ = scene.add_actuator("rail", activation=sim.Activation("filter", time_constant=0.05))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> costs = [Posture([1.0], weight=100.0, at=-1), ActuatorState(weight=10.0, at=-1), Effort(1e-5)]
        >>> found = ilqr(Problem(simulator, 30, costs), iterations=10)
        >>> bool(abs(found.q[-1, 0] - 1.0) < 0.05)
        True
    """

    def __init__(
        self, target: npt.ArrayLike | None = None, weight: npt.ArrayLike = 1.0, *, at: At = None,
        longest: float = float("inf"),
    ):  # fmt: skip
        super().__init__(0.0 if target is None else target, None, weight, at, longest)
        self.name = "ActuatorState"

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        super().check(model, stages, sensors)
        if not model.na:
            raise ModelError(f"cost '{self.name}': no actuator of the model has a state; remove it")
        if self.target.ndim:
            self._require_target(model.na)
        _require_weights(self, model.na)

    def columns(self, motion: Motion) -> np.ndarray:
        """Return the entries of the states of actuators."""
        return np.arange(2 * motion.tangent.nv, motion.state_size)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the states less the target [states, worlds, na]."""
        act = motion.act[self.rows(motion)]
        return act - self._wanted(act)


class Effort(LeastSquares):
    """Size of the controls, in every stage.

    Args:
        weight: weight of their squares, one or one per control.
        target: the controls of zero cost [size], or of each stage [stages, size]. Default: zeros.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> there = Posture([1.0], weight=100.0, at=-1)
        >>> problems = [Problem(simulator, 20, [there, Effort(weight)]) for weight in (1e-5, 1e-2)]
        >>> strong, weak = (np.abs(ilqr(problem, iterations=5).controls).max() for problem in problems)
        >>> bool(weak < strong)
        True
    """

    def __init__(self, weight: npt.ArrayLike = 1.0, target: npt.ArrayLike | None = None):
        super().__init__(None, weight)
        self.target = as_numbers("cost 'Effort': target", 0.0 if target is None else target)
        self.name = "Effort"
        if not np.isfinite(self.target).all():
            raise ModelError(f"cost 'Effort': target is {target!r}; it must be finite numbers")

    def columns(self, motion: Motion) -> np.ndarray:
        """Return the entries of the controls."""
        return motion.state_size + np.arange(motion.controls.shape[2])

    def rows(self, motion: Motion) -> slice:
        """Return all stages but the state at the end."""
        return slice(0, motion.stages)

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the controls less the target [stages, worlds, size]."""
        stages, _, size = motion.controls.shape
        if self.target.shape not in ((), (size,), (1, size), (stages, size)):
            raise ModelError(
                f"cost 'Effort': target has shape {self.target.shape}; expected {size} numbers, or [{stages}, {size}]"
            )
        target = torch.as_tensor(self.target, dtype=motion.q.dtype, device=motion.q.device)
        return motion.controls - (target[:, None] if target.dim() == 2 else target)


class Smoothness(LeastSquares):
    """Changes of the controls from one stage to the next. It couples stages, so ``ilqr`` rejects it.

    Args:
        weight: weight of the squares of the changes, one or one per control.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Posture, Problem, Smoothness, lbfgs
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> found = lbfgs(Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Smoothness(1e-4)], scale=10.0))
        >>> bool(np.abs(np.diff(found.controls[:, 0])).max() < 5.0)  # [N]
        True
    """

    def __init__(self, weight: npt.ArrayLike = 1.0):
        super().__init__(None, weight)
        self.name = "Smoothness"

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return changes of the controls [stages - 1, worlds, size]."""
        return motion.controls.diff(dim=0)


class ContactForce(LeastSquares):
    """Contact force, averaged over each stage: a wanted force, or one that must at least be reached.

    Args:
        on: name of a geometry, or of a link for all of its geometries, or several names; or an index in the simulator's
            ``contact_sensors``.
        least: minimum force along the direction [N], one for all of the stages that count or one for each; any larger
            force has no cost.
        target: wanted force along the direction [N], likewise; without a direction the vector along world axes [3], or
            one for each stage [stages, 3]. Give either ``least`` or ``target``.
        against: names of the geometries or links that touch it; forces of others don't count. Default: all.
        direction: unit vector in the world; "normal" for the sum of the normal forces of all contacts; or None for the
            vector. Default: up.
        at: the stages that count; None for all, -1 for the last.
        weight: weight of the squares [1/N^2], one or one per axis.
        longest: see :class:`sim.optimise.LeastSquares` [N].

    Attributes:
        least, target: as given, as arrays that may be changed between calls of :class:`sim.optimise.MPC`; None for the
            one that isn't given.

    Example:
        >>> import sim
        >>> from sim.optimise import ContactForce, Problem, ilqr
        >>> scene = sim.ModelBuilder(gravity=(0, 0, 0))
        >>> ground = scene.add_ground()
        >>> _ = scene.add_link("pad", mass=1.0, inertia=[1.0, 1.0, 1.0])
        >>> _ = scene.add_joint("lift", "prismatic", child="pad", position=(0, 0, 0.1))
        >>> _ = scene.add_geometry("pad", "sphere", size=(0.1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize("float64"), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 5, [ContactForce("pad", target=20.0)])
        >>> found = ilqr(problem, guess=[[-5.0]] * 5)
        >>> found.controls.round(1).ravel().tolist()
        [-20.0, -20.0, -20.0, -20.0, -20.0]
    """

    def __init__(
        self, on: str | int | Sequence[str], least: npt.ArrayLike | None = None, *, target: npt.ArrayLike | None = None,
        against: str | Sequence[str] | None = None, direction: npt.ArrayLike | str | None = (0.0, 0.0, 1.0),
        at: At = None, weight: npt.ArrayLike = 1.0, longest: float = float("inf"),
    ):  # fmt: skip
        super().__init__(None, weight, longest=longest)
        self.name = where = f"ContactForce({on!r})"
        self.at = at
        if (least is None) == (target is None):
            raise ModelError(f"cost '{where}': give either least or target")
        self.direction = None
        normal = isinstance(direction, str) and direction == "normal"
        if direction is not None and not normal:
            self.direction = as_numbers(f"cost '{where}': direction", direction)
            if self.direction.shape != (3,) or not abs(np.linalg.norm(self.direction) - 1.0) < 1e-6:
                raise ModelError(
                    f"cost '{where}': direction is {direction!r}; it must be a vector of unit length, 'normal' or None"
                )
        if direction is None and target is None:
            raise ModelError(f"cost '{where}': a least force needs a direction; give one, or target")
        self.least, self.target = (
            None if force is None else as_numbers(f"cost '{where}': {name}", force)
            for name, force in (("least", least), ("target", target))
        )
        self.measure: Measure = Measure(
            int(cast(int, on)) if is_whole(on, 0) else names_in(f"cost '{where}': on", on),
            None if against is None else names_in(f"cost '{where}': against", against), normal,
        )  # fmt: skip
        self._axes = (3,) if direction is None else ()

    def check(self, model: Model, stages: int, sensors: tuple[int | str, ...]) -> None:
        """Check the problem, see :meth:`sim.optimise.Cost.check`."""
        chosen = stages_of(self.at, stages - 1, self.name)
        rows = stages if isinstance(chosen, slice) else len(chosen)
        name, force = ("least", self.least) if self.target is None else ("target", self.target)
        assert force is not None, "one of them is given"
        if force.shape not in (self._axes, (rows, *self._axes)) or not np.isfinite(force).all():
            each = "a vector [3]" if self._axes else "one number"
            raise ModelError(
                f"cost '{self.name}': {name} has shape {force.shape}; expected {each}, finite, or one for each of the "
                f"{rows} stages that count"
            )

    def difference(self, motion: Motion) -> torch.Tensor:
        """Return the force less the target, or what is missing to the least [stages, worlds, 1 or 3]."""
        assert motion.contact_force is not None, "the problem measures what its costs ask for"
        force = motion.contact_force[:, :, motion.measures.index(self.measure)]
        force = force[stages_of(self.at, motion.stages - 1, self.name)]
        if self.measure.normal:
            force = force[..., :1]
        elif self.direction is not None:
            force = (force @ torch.as_tensor(self.direction, dtype=force.dtype, device=force.device))[..., None]
        wanted = torch.as_tensor(self.least if self.target is None else self.target).to(force)
        if not self._axes:
            wanted = wanted[..., None]
        error = force - (wanted[:, None] if wanted.dim() == 2 else wanted)
        return error if self.target is not None else (-error).clamp(min=0.0)


def _require_weights(cost: Any, size: int) -> None:
    if cost.weight.ndim and len(cost.weight) != size:
        raise ModelError(f"cost '{cost.name}': {len(cost.weight)} weights; expected one, or one for each of {size}")
