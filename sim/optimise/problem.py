"""Problem: costs, controls and constraints of an optimisation."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sim.errors import ModelError, NotFiniteWarning
from sim.model.checks import as_numbers, is_whole, items_of, require_type
from sim.model.model import Model
from sim.model.parameters import number_of_dims
from sim.optimise.constraints import Constraint
from sim.optimise.controls import Joints, control_space
from sim.optimise.costs import Cost, Function, as_cost
from sim.optimise.forces import Forces
from sim.optimise.motion import Motion
from sim.optimise.parametrisations import OpenLoop, Parametrisation, PerStage, Policy
from sim.optimise.tangent import Tangent
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory
from sim.torch.arrays import TORCH_DTYPES, torch_device
from sim.torch.autograd import rollout
from sim.torch.current_parameters import CurrentRobot
from sim.torch.modes import with_gradients
from sim.torch.robot.robot import Robot


@dataclass(frozen=True)
class Evaluation:
    """Costs of some worlds and their derivatives in the unknowns.

    Attributes:
        cost: cost of each world [worlds].
        gradient: gradient of each world's cost [worlds, unknowns]; NaN if a cost has no derivative, such as a root at
            zero.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Problem
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 2, [Effort(1.0)])
        >>> found = problem.evaluate(np.array([[3.0, 4.0]]))
        >>> type(found).__name__, found.cost.tolist(), found.gradient.tolist()
        ('Evaluation', [12.5], [[3.0, 4.0]])
    """

    cost: np.ndarray
    gradient: np.ndarray


class Problem:
    """Search for the controls whose motion has the least cost.

    A motion has ``stages``; the controls of each act for ``hold`` steps of the simulator. Costs see the state before
    each stage and after the last.

    Args:
        simulator: its model, time step, contact options, parameters and device are those of the motion. Its number of
            worlds doesn't matter: each method makes as many as it needs.
        stages: number of intervals with constant controls.
        costs: terms of :mod:`sim.optimise`, or functions from ``q [stages + 1, worlds, nq]``, ``qd`` and ``controls
            [stages, worlds, size]`` to one number for each world, in PyTorch.
        controls: parametrisation of the controls: :class:`PerStage`, :class:`Knots` or :class:`Policy`.
        hold: steps of the simulator for which each control acts.
        q0: initial coordinates [nq]. Default: the model's.
        qd0: initial velocities [nv]. Default: zeros.
        act0: initial states of the actuators that have one [na]. Default: zeros.
        joints: names of the joints, or a part, whose forces are controlled; of kinematic joints the velocities are, so
            that a hand's path can be the unknown. Default: none if there are actuators, otherwise all revolute and
            prismatic joints.
        actuators: names of the actuators whose inputs are controlled, which follow the joints, such as a gripper's
            fingers on a led hand; inputs of all others are zero. Default: all, or none if ``joints`` is given.
        limits: lower and upper limits of the controls, each a number or [size]. Default: those of the actuators' inputs
            or the joints' effort limits.
        scale: typical size of each control, a number or [size]. Default: the strength of each motor.
        active: points, welds and couplings that are on in each stage, 1 or 0 [stages, n] or [n], in the order of
            ``model.switch_names``; they are given, not searched for. Default: those of the parameters.
        constraints: constraints, see :class:`Constraint`; only :func:`sim.optimise.solve` enforces them.

    Attributes:
        simulator, stages, hold, parametrisation, constraints: as given.
        costs: the terms.
        active: constraints that are on in each stage [stages, n], as given; for :class:`sim.optimise.MPC` it may be
            changed between calls. None for those of the parameters.
        forces: contact forces that the costs ask for.
        space: the control space.
        q0, qd0, act0: the initial state [nq], [nv], [na].

    Raises:
        ModelError: for inconsistent arguments, naming the argument.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)], hold=5)
        >>> found = problem.evaluate(np.zeros((1, 20)))  # of one world
        >>> found.cost.tolist(), found.gradient.shape
        ([50.0], (1, 20))
    """

    @with_gradients()
    def __init__(
        self,
        simulator: Simulator,
        stages: int,
        costs: Sequence[Cost | Function],
        *,
        controls: Parametrisation | None = None,
        hold: int = 1,
        q0: npt.ArrayLike | None = None,
        qd0: npt.ArrayLike | None = None,
        act0: npt.ArrayLike | None = None,
        joints: Joints = None,
        actuators: str | Sequence[str] | None = None,
        limits: Any = None,
        scale: npt.ArrayLike | None = None,
        active: npt.ArrayLike | None = None,
        constraints: Sequence[Constraint] = (),
    ):
        require_type("Problem: simulator", simulator, Simulator, "a sim.Simulator")
        costs = items_of("Problem: costs", costs, "a list of costs")
        self.constraints = tuple(items_of("Problem: constraints", constraints, "a list of constraints"))
        for name, number in (("stages", stages), ("hold", hold)):
            if not is_whole(number, 1):
                raise ModelError(f"Problem: {name} is {number!r}; it must be a whole number of at least 1")
        controls = PerStage() if controls is None else controls
        if not isinstance(controls, Parametrisation):
            raise ModelError(
                f"Problem: controls is a {type(controls).__name__}; it must be PerStage(), Knots(...) or Policy(...)"
            )
        if simulator.model.breaks and isinstance(controls, Policy):
            raise ModelError(
                f"Problem: constraints break ({', '.join(simulator.model.breaking_names)}), which a Policy doesn't "
                "carry on from stage to stage; remove their break_force, or take PerStage() or Knots(...)"
            )
        if simulator.contact.warm_start:
            raise ModelError("Problem: the simulator has a warm start, which is hidden state; set warm_start=False")
        self._simulators: dict[int, tuple[Simulator, dict[str, np.ndarray]]] = {}
        self.simulator, self.forces = simulator, Forces(simulator, {})
        self.model = simulator.model
        self.stages, self.hold = int(stages), int(hold)
        self.parametrisation = controls
        self._take(costs)
        state = self.worlds(1).state(self.model.q0 if q0 is None else q0, qd0, act0)
        self.q0, self.qd0, self.act0 = (x[0].copy() for x in arrays_of(state))
        self.space = control_space(simulator, self.stages, joints, actuators, limits, scale, self.qd0)
        self.size = controls.size(self.space)
        self.active = None if active is None else _switches(active, self.model, self.stages)
        self._current, self.tangent = CurrentRobot(simulator), Tangent(self.model)
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise ModelError(
                    f"Problem: constraints contain a {type(constraint).__name__}; give sim.optimise.Constraint"
                )
            constraint.check(self.model)

    def _take(self, costs: Iterable[Cost | Function]) -> None:
        """Check costs and take them, with simulators that measure the forces they ask for."""
        self.costs = [as_cost(each) for each in costs]
        if not self.costs:
            raise ModelError("Problem: costs is empty; give at least one cost")
        for cost in self.costs:
            cost.check(self.model, self.stages, self.simulator.contact_sensors)
        asked = {cost.measure: cost.name for cost in self.costs if cost.measure}
        if not asked.keys() <= set(self.forces.measures):
            self.forces, self._simulators = Forces(self.simulator, asked), {}

    def __repr__(self) -> str:
        return (
            f"Problem({self.stages} stages of {self.hold} steps of {self.simulator.dt:g} s, {self.space.described}, "
            f"{self.size} unknowns, costs: {', '.join(cost.name for cost in self.costs)})"
        )

    @property
    def unknowns(self) -> str:
        """Names of the unknowns, for messages."""
        if isinstance(self.parametrisation, Policy):
            return "the parameters of the policy"
        return f"the {self.space.described}"

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of all tensors."""
        return TORCH_DTYPES[self.model.dtype]

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return torch_device(self.simulator.device)

    @property
    def robot(self) -> Robot:
        """Kinematics and dynamics, with the parameters of the last motion."""
        return self._current.robot

    def with_costs(self, costs: Sequence[Cost]) -> "Problem":
        """Return the problem with other costs and without constraints, sharing its simulators unless these lack a
        force.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.constraints = ()
        other._take(costs)
        return other

    def worlds(self, count: int) -> Simulator:
        """Return a simulator with ``count`` worlds and the present parameters; kept for the next call."""
        values = self.simulator.engine.parameters.all_numbers()
        simulator, given = self._simulators.get(count, (None, {}))
        changed = [name for name, value in values.items() if value is not given.get(name)]
        for name in changed:
            if values[name].ndim > number_of_dims(name):
                raise ModelError(
                    f"Problem: parameter '{name}' differs between the simulator's worlds; give one value for all"
                )
        if simulator is None:
            simulator = self.simulator.replace(count, **self.forces.changes)
        else:
            for name in changed:
                simulator.parameters[name] = values[name]
        self._simulators[count] = simulator, values
        return simulator

    # ---- motions -------------------------------------------------------------------------------------------------

    def motion(self, unknowns: torch.Tensor, start: Sequence[np.ndarray] | None = None) -> Motion:
        """Simulate the motions of unknowns [worlds, n], differentiable.

        Bad worlds have zero gradients; their costs aren't finite.

        Args:
            unknowns: the unknowns of each world.
            start: initial q [nq], qd [nv] and act [na]. Default: the problem's.
        """
        simulator = self.worlds(len(unknowns))
        first = [self._tensor(x) for x in start or (self.q0, self.qd0, self.act0)]
        if isinstance(self.parametrisation, Policy):
            return self._closed_loop(self.parametrisation, simulator, first, unknowns)
        assert isinstance(self.parametrisation, OpenLoop), "there are no others"
        controls = self.parametrisation.controls(self.space, unknowns)
        active = None if self.active is None else self.active[:, None]
        return self._seen(*self.simulate(simulator, first, controls, active), controls)

    def simulate(
        self, simulator: Simulator, first: Sequence[torch.Tensor], controls: torch.Tensor, active: np.ndarray | None
    ) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        """Simulate stages from a state, differentiable.

        Args:
            simulator: one of :meth:`worlds`.
            first: q [nq] or [worlds, nq], qd and, where actuators have states, act.
            controls: controls of the stages [stages, worlds, size].
            active: constraints that are on in them [stages, worlds or 1, n]. Default: those of the parameters.

        Returns:
            q [stages + 1, worlds, nq], qd and act, and the measured forces [stages, worlds, measures, 3], None without.
        """
        q, qd, *act = first
        inputs, measured = self.space.inputs(controls), self.forces.measured
        if active is not None:
            inputs["active"] = self._tensor(active).expand(*controls.shape[:2], -1)
        if measured:  # each step is measured, so that single contacts can be told apart
            inputs = {name: value.repeat_interleave(self.hold, dim=0) for name, value in inputs.items()}
        with quiet():
            found = rollout(
                simulator, q, qd, hold=1 if measured else self.hold, leave_out_bad_worlds=True,
                act=act[0] if self.model.na else None, contact_forces=measured, **inputs,
            )  # fmt: skip
        states = [x for x in (found.q, found.qd, found.act) if x is not None]
        if not measured:
            return states, None
        assert found.contact_force is not None, "they were asked for"
        return [x[:: self.hold] for x in states], self.forces(simulator, found.contact_force, self.hold)

    def still_motion(self) -> Motion:
        """Return a motion of one world that stays at its initial state, without simulation, to test costs on."""
        state = [self._tensor(x).expand(self.stages + 1, 1, -1) for x in (self.q0, self.qd0, self.act0)]
        controls = torch.zeros(self.stages, 1, self.space.size, dtype=self.dtype, device=self.device)
        measures = len(self.forces.measures)
        force = controls.new_zeros(self.stages, 1, measures, 3) if measures else None
        return self._seen(state, force, controls)

    def _closed_loop(
        self, policy: Policy, simulator: Simulator, first: Sequence[torch.Tensor], unknowns: torch.Tensor
    ) -> Motion:
        parts = first if self.model.na else first[:2]
        states, controls = [tuple(x.expand(len(unknowns), -1) for x in parts)], []
        forces: list[torch.Tensor] = []
        for stage in range(self.stages):
            controls.append(policy.control(self.space, unknowns, states[-1], stage))
            active = None if self.active is None else self.active[stage, None, None]
            after, force = self.simulate(simulator, states[-1], controls[-1][None], active)
            states.append(tuple(x[-1] for x in after))
            forces += [] if force is None else [force]
        every = [torch.stack(parts) for parts in zip(*states, strict=True)]
        return self._seen(every, torch.cat(forces) if forces else None, torch.stack(controls))

    def _seen(self, states: Sequence[torch.Tensor], force: torch.Tensor | None, controls: torch.Tensor) -> Motion:
        """Return q, qd and, if actuators have states, these, as costs see them."""
        q, qd = states[:2]
        act = states[2] if self.model.na else qd[..., :0]
        return self.seen(q, qd, act, controls, force)

    def seen(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        act: torch.Tensor,
        controls: torch.Tensor,
        contact_force: torch.Tensor | None = None,
    ) -> Motion:
        """Return the motion that costs are evaluated on, see :class:`Motion`."""
        robot = self._current(q)
        return Motion(
            q, qd, act, controls, contact_force, robot, self.tangent, self.simulator.engine.parameters.all_numbers(),
            self.forces.measures,
        )  # fmt: skip

    def terms(self, motion: Motion) -> torch.Tensor:
        """Compute each term of the cost [terms, worlds]."""
        return torch.stack([cost.value(motion) for cost in self.costs])

    def cost(self, motion: Motion) -> torch.Tensor:
        """Compute the cost of every world [worlds], ignoring constraints."""
        return self.terms(motion).sum(0)

    def violation(self, motion: Motion) -> np.ndarray:
        """Compute the largest violation of any constraint in every world [worlds]."""
        worst = torch.zeros(motion.q.shape[1], dtype=motion.q.dtype, device=motion.q.device)
        for constraint in self.constraints:
            worst = torch.maximum(worst, constraint.violation(motion).amax((0, 2)))
        return worst.detach().cpu().numpy()

    def costs_of(self, unknowns: np.ndarray) -> np.ndarray:
        """Compute costs [worlds] of unknowns [worlds, n]; infinite where the simulation diverges."""
        with torch.no_grad():
            cost = self.cost(self.motion(self._tensor(unknowns))).cpu().numpy().astype(np.float64)
        return np.where(np.isfinite(cost), cost, np.inf)

    @with_gradients()
    def evaluate(self, unknowns: np.ndarray) -> Evaluation:
        """Compute costs and their gradients, of unknowns [worlds, n]."""
        x = self._tensor(unknowns).requires_grad_()
        motion = self.motion(x)
        cost = self.cost(motion)
        gradient = self.slopes(torch.where(cost.isfinite(), cost, torch.zeros_like(cost)).sum(), motion, x)
        numbers = cost.detach().cpu().numpy().astype(np.float64)
        finite = np.isfinite(numbers)
        slope = gradient.cpu().numpy().astype(np.float64)
        return Evaluation(np.where(finite, numbers, np.inf), np.where(finite[:, None], slope, 0.0))

    def slopes(self, value: torch.Tensor, motion: Motion, unknowns: torch.Tensor) -> torch.Tensor:
        """Compute the derivative of a scalar in the unknowns of each world [worlds, n], from costs of their motion.

        NaN in worlds for which the costs' own derivatives are NaN: the backward pass through the motion turns those
        into zeros.
        """
        wrong = torch.zeros(len(unknowns), dtype=torch.bool, device=self.device)

        def look(slope: torch.Tensor | None) -> None:
            if slope is not None:  # for tensors that no cost depends on
                wrong.logical_or_(~slope.isfinite().flatten(2).all(2).all(0))

        for seen in (motion.q, motion.qd, motion.act, motion.controls, motion.contact_force):
            if seen is not None and seen.requires_grad:
                seen.register_hook(look)
        (slopes,) = torch.autograd.grad(value, unknowns)
        return slopes.masked_fill(wrong[:, None], torch.nan)

    def states_of(self, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all states of controls [stages, size]: q [steps + 1, nq], qd [steps + 1, nv] and act [steps + 1,
        na].
        """
        simulator = self.worlds(1)
        inputs = self.inputs_of_arrays(controls[:, None])
        trajectory = simulator.rollout(self.start(simulator, self.q0, self.qd0, self.act0), **inputs)
        q, qd, act = (x[:, 0].copy() for x in arrays_of(trajectory))
        return q, qd, act

    def inputs_of_arrays(self, controls: np.ndarray, first: int = 0) -> dict[str, Any]:
        """Return the inputs of a rollout of some stages, by name [steps, worlds, n].

        Args:
            controls: controls of the stages [stages, worlds, size].
            first: index of the first stage.
        """
        inputs = self.space.inputs_of_arrays(controls)
        if self.active is not None:
            stages, worlds = controls.shape[:2]
            inputs["active"] = np.repeat(self.active[first : first + stages, None], worlds, axis=1)
        return {name: np.repeat(value, self.hold, axis=0) for name, value in inputs.items()}

    def start(self, simulator: Simulator, q: np.ndarray, qd: np.ndarray, act: np.ndarray) -> State:
        """Return an initial state of the simulator's worlds; act has no columns if no actuator has a state."""
        return simulator.state(q, qd, act if self.model.na else None)

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=self.dtype, device=self.device)


def _switches(active: npt.ArrayLike, model: Model, stages: int) -> np.ndarray:
    """Return the constraints that are on in each stage [stages, n], from those of all stages or of each."""
    given, n = as_numbers("Problem: active", active), len(model.switch_names)
    if not n:
        raise ModelError("Problem: active is given, but the model has no point, weld or coupling; remove it")
    if given.shape not in ((n,), (stages, n)) or not np.isin(given, (0.0, 1.0)).all():
        raise ModelError(f"Problem: active has shape {given.shape}; expected 1 or 0, {(n,)} or {(stages, n)}")
    return np.broadcast_to(given, (stages, n)).copy()


def arrays_of(of: State | Trajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q [..., nq], qd [..., nv] and act [..., na], the last without columns if no actuator has a state."""
    q, qd = of.q.numpy(), of.qd.numpy()
    return q, qd, qd[..., :0] if of.act is None else of.act.numpy()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings of bad worlds in this context: methods detect them by their costs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFiniteWarning)
        yield
