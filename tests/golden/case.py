"""Golden cases: a model, its simulator, and the inputs of a rollout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sim

# Parameters whose gradients every case records.
COMMON = ("mass", "com", "inertia", "damping", "gravity")

CASES: dict[str, Callable[[], "Case"]] = {}


@dataclass(frozen=True)
class Case:
    """A rollout with random inputs, the same in every run.

    Attributes:
        model: the model of one world.
        dt: time step [s].
        contact: options of the contact solver.
        worlds: number of worlds; from 16 on the worlds of a lane group are stepped together.
        steps: number of steps.
        q: initial coordinates [nq]; None for those of the model.
        qd: initial velocities [nv]; None for zero.
        act: initial states of actuators [na].
        control: mean of the actuators' inputs [nu].
        spread: standard deviation of what is added to velocities [m/s, rad/s] and inputs, different in every world.
        force: standard deviation of the joint forces [N m or N].
        lead: standard deviation of the velocities of kinematic joints, an input of each step; zero for no input.
        names: further parameters whose gradients are recorded; None for all of the simulator's.
        per_world: parameters that differ by world: each value is multiplied by a random number near one.
        interval: of the steps whose states are stored.
        keeps_solved: whether to keep the velocities that the law finds, of models with sensors of accelerations.
        change: relative size of a random change of the inputs.
        options: further arguments of the simulator.
    """

    model: sim.Model
    dt: float = 1 / 240
    contact: sim.ContactMethod | None = None
    worlds: int = 1
    steps: int = 40
    q: np.ndarray | None = None
    qd: Sequence[float] | np.ndarray | None = None
    act: Sequence[float] | None = None
    control: Sequence[float] | np.ndarray = ()
    spread: float = 0.05
    force: float = 0.2
    lead: float = 0.0
    names: Sequence[str] | None = ()
    per_world: Sequence[str] = ()
    interval: int = 1
    keeps_solved: bool = False
    change: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def simulator(self) -> sim.Simulator:
        """A new simulator on one thread of the CPU."""
        rng = np.random.default_rng(1)
        parameters = {
            name: value[None] * rng.uniform(0.95, 1.05, (self.worlds, *[1] * value.ndim))
            for name, value in self.model.parameters.items()
            if name in self.per_world
        }
        return sim.Simulator(
            self.model, self.dt, self.worlds, "cpu", self.contact, parameters, threads=1, **self.options
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """Initial state, joint forces, inputs of actuators, and velocities of kinematic joints."""
        model, rng = self.model, np.random.default_rng(2)
        qd = np.zeros(model.nv) if self.qd is None else np.asarray(self.qd, dtype=float)
        control = np.zeros(model.nu) if len(self.control) == 0 else np.asarray(self.control, dtype=float)
        given = {
            "q": np.tile(model.q0 if self.q is None else self.q, (self.worlds, 1)),
            "qd": qd + self.spread * rng.normal(size=(self.worlds, model.nv)),
            "act": np.tile(np.zeros(model.na) if self.act is None else self.act, (self.worlds, 1)),
            "tau": self.force * rng.normal(size=(self.steps, self.worlds, model.nv)),
            "control": control + self.spread * rng.normal(size=(self.steps, self.worlds, model.nu)),
        }
        if self.lead:
            given["kinematic_qd"] = self.lead * rng.normal(size=(self.steps, self.worlds, model.nk))
        if self.change:
            given = {name: value * (1.0 + self.change * rng.normal(size=value.shape)) for name, value in given.items()}
        return given

    def parameters(self, simulator: sim.Simulator) -> list[str]:
        """The parameters whose gradients are recorded, those that have numbers."""
        values = dict(simulator.parameters)
        wanted = values if self.names is None else {*COMMON, *self.names}
        unknown = wanted - values.keys() if self.names is not None else ()
        assert not unknown, f"the simulator has no parameters {unknown}"
        return sorted(name for name in wanted if np.size(values[name]))


def register(name: str, make: Callable[..., Case], *arguments: Any, **named: Any) -> None:
    """Add a case.

    Args:
        name: unique name.
        make: builds the case.
        arguments: of ``make``.
        named: likewise.
    """
    assert name not in CASES, name
    CASES[name] = lambda: make(*arguments, **named)
