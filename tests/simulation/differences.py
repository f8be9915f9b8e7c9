"""Gradients of rollouts against finite differences, and what the contacts did meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import sim
from sim.arrays.device_values import unused_entries
from sim.diagnostics.finite_differences import Direction, Problem
from sim.diagnostics.finite_differences import finite_differences as differences_along
from sim.diagnostics.gradient_entries import ONLY_POSITIVE, SCALAR_JOINTS
from sim.model.parameters import PARAMETERS
from warp_kernels.constraints.kinds import ACTUATOR, CONTACT, FRICTION_LOSS, LOWER_LIMIT, UPPER_LIMIT

DT = 1 / 240
BOUND = 1e-6
STATE = ("q", "qd", "tau")
# Contact methods by the names of laws and solvers.
METHODS = {
    "hard": sim.HardContact, "newton": sim.HardContact, "mujoco": sim.MujocoContact, "pgs": sim.PgsContact,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One world and what happens to it. tau: [steps, nv], control: [steps, nu], kinematic_qd: [steps, nk]. Parameters
    default to the model's.
    """

    model: sim.Model
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    contact: sim.ContactMethod
    dt: float
    control: np.ndarray | None = None
    integrator: str = "euler"
    act: np.ndarray | None = None
    kinematic_qd: np.ndarray | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the state and of what drives it."""
        return (*STATE, *(name for name in ("control", "act", "kinematic_qd") if getattr(self, name) is not None))

    def value(self, name: str) -> np.ndarray:
        """A part of the state, the control, or a parameter."""
        if name in self.inputs:
            return getattr(self, name)
        return {**self.model.parameters, **self.contact.parameters}[name]

    def simulator(self, num_worlds: int = 1, device: str = "cpu", **parameters: np.ndarray) -> sim.Simulator:
        """Whose worlds may move as fast as they like: what is compared are derivatives."""
        unlimited = (np.inf, np.inf)
        return sim.Simulator(
            self.model, self.dt, num_worlds, device, self.contact, parameters, integrator=self.integrator,
            state_limit=unlimited,
        )  # fmt: skip

    def rollout(self, simulator: sim.Simulator) -> sim.Trajectory:
        state = simulator.state(self.q, self.qd, self.act)
        return simulator.rollout(state, self.tau, control=self.control, kinematic_qd=self.kinematic_qd)


def case(
    model: sim.Model,
    steps: int,
    q: np.ndarray | None = None,
    qd: Sequence[float] | None = None,
    contact: sim.ContactMethod | None = None,
    force: float = 0.1,
    dt: float = DT,
) -> Case:
    """A case with small random forces; q defaults to the model's initial coordinates, qd to zero."""
    tau = force * np.random.default_rng(steps).normal(size=(steps, model.nv))
    q = model.q0 if q is None else q
    qd = np.zeros(model.nv) if qd is None else np.asarray(qd, dtype=float)
    return Case(model, q, qd, tau, contact or sim.ModelContact().resolved(model), dt)


@dataclass(frozen=True)
class Weights:
    """A random linear loss in all states of a rollout, the last one foremost."""

    q: np.ndarray
    qd: np.ndarray

    @staticmethod
    def random(case: Case, seed: int = 5) -> "Weights":
        rng = np.random.default_rng(seed)
        steps = len(case.tau)
        share = np.full((steps + 1, 1), 0.1)
        share[-1] = 1.0
        return Weights(
            share * rng.normal(size=(steps + 1, case.model.nq)), share * rng.normal(size=(steps + 1, case.model.nv))
        )


@dataclass(frozen=True)
class Differences:
    """Finite differences at chosen entries [entries] of one input, flat indices; rounding is that of central ones."""

    entries: np.ndarray
    central: np.ndarray
    left: np.ndarray
    right: np.ndarray
    rounding: np.ndarray


def finite_differences(
    case: Case, weights: Weights, names: Sequence[str], device: str = "cpu", most: int = 40, width: float = 1.0
) -> dict[str, Differences]:
    """Derivatives of the loss in the state, the control and parameters; of large inputs ``most`` entries drawn at
    random. width: a factor of the usual steps.
    """
    rng = np.random.default_rng(11)
    entries = {name: _entries(case, name, rng, most) for name in names}
    directions = {name: [_direction(case, name, entry, width) for entry in chosen] for name, chosen in entries.items()}
    values = {name: case.value(name) for name in {*case.inputs, *names}}
    problem = Problem(
        case.model, case.dt, case.contact, device, values, weights.q, weights.qd, integrator=case.integrator
    )
    found = differences_along(problem, directions)
    return {
        name: Differences(chosen, found[name].central, found[name].left, found[name].right, found[name].rounding)
        for name, chosen in entries.items()
    }


def _direction(case: Case, name: str, entry: int, width: float) -> Direction:
    """The entry itself, along a quaternion too; of an inertia with its mirror."""
    shape = case.value(name).shape
    index = np.unravel_index(entry, shape)
    entries = {entry}
    if name == "inertia":
        entries.add(int(np.ravel_multi_index((index[0], index[2], index[1]), shape)))
    return Direction(tuple(entries), (1.0,) * len(entries), width * _scale(case.value(name)))


def _scale(value: np.ndarray) -> float:
    finite = np.abs(value[np.isfinite(value)])
    return float(finite.max(initial=0.0)) or 1.0


def _entries(case: Case, name: str, rng: np.random.Generator, most: int) -> np.ndarray:
    value = case.value(name)
    usable = np.isfinite(value)
    if name in SCALAR_JOINTS:
        usable &= case.model.dof_q >= 0
    if name in ("stiffness", "rest_position"):
        usable &= ~unused_entries("stiffness", case.model)
    if name.startswith("actuator_"):
        used = ~unused_entries(name, case.model)
        usable &= used.reshape(-1, *(1,) * (value.ndim - 1))
    if name.endswith("_across"):
        usable &= ~unused_entries(name, case.model)
    if name in ONLY_POSITIVE:
        usable &= value > 0.0
    entries = np.flatnonzero(usable)
    return rng.permutation(entries)[:most] if len(entries) > most else entries


def analytic(
    case: Case, weights: Weights, names: Sequence[str], device: str = "cpu", per_world: bool = False
) -> dict[str, np.ndarray]:
    """The gradient of the same loss by the backward pass; a symmetric change of an inertia counts both its entries."""
    parameters = [name for name in names if name in PARAMETERS]
    values = {name: case.value(name)[None] for name in parameters} if per_world else {}
    trajectory = case.rollout(case.simulator(1, device, **values))
    gradients = trajectory.backward(weights.q[:, None], weights.qd[:, None], parameters)
    result = {"q": gradients.q.numpy()[0], "qd": gradients.qd.numpy()[0]}
    for name in case.inputs[2:]:
        gradient = getattr(gradients, name).numpy()
        result[name] = gradient[0] if name == "act" else gradient[:, 0]
    for name in parameters:
        value = gradients.parameters[name][0] if per_world else gradients.parameters[name]
        result[name] = value * (2.0 - np.eye(3)) if name == "inertia" else value
    return result


def check(
    case: Case,
    parameters: Sequence[str] = (),
    *,
    zero: Sequence[str] = (),
    device: str = "cpu",
    bound: float = BOUND,
    most: int = 40,
    width: float = 1.0,
) -> None:
    """The gradient in state, control and parameters equals the differences; one that is zero throughout is an error.

    Args:
        case: what happens.
        parameters: names of parameters.
        zero: those of all inputs whose derivative is exactly zero in this case.
        device: Warp device.
        bound: of the error, relative to the largest derivative of the same input.
        most: entries of one input that are compared.
        width: a factor of the usual steps of differences, for stiff cases, where rounding outweighs their curvature.
    """
    names = [*case.inputs, *parameters]
    weights = Weights.random(case)
    found = analytic(case, weights, names, device)
    alone = analytic(case, weights, names, device, per_world=True)
    for name, expected in finite_differences(case, weights, names, device, most, width).items():
        assert found[name].shape == case.value(name).shape, name
        np.testing.assert_array_equal(alone[name], found[name], err_msg=f"{name}, given per world")
        values = found[name].reshape(-1)[expected.entries]
        largest = np.abs(expected.central).max()
        if name in zero:
            assert largest < 1e-9, f"{name}: is not zero, {largest}"
            assert np.abs(found[name]).max() < 1e-12, name
            continue
        assert largest > 1e-6, f"{name}: the test says nothing, all derivatives are {largest}"
        error = np.abs(values - expected.central).max() / largest
        kink = np.abs(expected.left - expected.right).max() / largest
        assert error < bound, f"{name}: relative error {error:.1e} of {largest:.2e}; sides differ by {kink:.1e}"


@dataclass(frozen=True)
class Block:
    """One constraint block of world 0 in the last step of a simulator. kind: a code of :mod:`warp_kernels.types`."""

    kind: int
    item: int
    impulse: np.ndarray
    bound: float


def blocks(simulator: sim.Simulator, world: int = 0) -> list[Block]:
    """The blocks of the last step; the simulator must have a single shard."""
    (shard,) = simulator.engine.shards
    step = shard.step
    if not step.max_constraints:
        return []
    count = step.constraint_stage.constraints.count.numpy()[world]
    kind, item, impulse, bound = (
        array.numpy()[:count, world].copy()
        for array in (
            step.constraint_stage.constraints.kind,
            step.constraint_stage.constraints.item,
            step.constraint_stage.impulse,
            step.constraint_stage.bound,
        )
    )
    return [Block(int(kind[i]), int(item[i]), impulse[i], float(bound[i])) for i in range(count)]


def contact_times(case: Case) -> np.ndarray:
    """Return when within the first step its contacts touch, as fractions of the step [contacts]."""
    simulator = case.simulator()
    simulator.contacts(simulator.state(case.q, case.qd))
    stage = simulator.engine.shards[0].step.contact_stage
    return stage.slot_time.numpy()[: stage.contact_count.numpy()[0], 0]


def single_steps(case: Case) -> Iterator[list[Block]]:
    """The blocks after each step of the case, taken one by one."""
    simulator = case.simulator()
    state = simulator.state(case.q, case.qd)
    for step, tau in enumerate(case.tau):
        state = simulator.step(state, tau, None if case.control is None else case.control[step])
        yield blocks(simulator)


def regimes(case: Case) -> set[str]:
    """What happened in the course of a case: stick, slide, open, lower, upper, held, slip (the last two of dry
    friction), saturated, yielding (the last two of actuators that their force limit concerns).
    """
    found = set()
    for block in (block for step in single_steps(case) for block in step):
        first = block.impulse[0]
        if block.kind == CONTACT:
            tangent = np.abs(block.impulse[1:])
            size = np.linalg.norm(tangent) if case.contact.resolved(case.model).friction == "cone" else tangent.max()
            full = size > block.bound * first * (1.0 - 1e-9)
            found.add("open" if first == 0.0 else "slide" if full else "stick")
        elif block.kind in (LOWER_LIMIT, UPPER_LIMIT) and first > 0.0:
            found.add("lower" if block.kind == LOWER_LIMIT else "upper")
        elif block.kind == FRICTION_LOSS:
            found.add("held" if abs(first) < block.bound * (1.0 - 1e-9) else "slip")
        elif block.kind == ACTUATOR:
            found.add("yielding" if abs(first) < block.bound * (1.0 - 1e-9) else "saturated")
    return found
