"""Motions for the viewer: sequences of states with the contacts in each."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sim.errors import ModelError
from sim.simulation.contacts import Contacts
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import SimulatorLike, Trajectory
from sim.viewer.pull import Pull

MEMORY = 2**28  # memory limit of the states of a live simulation, at which it ends [bytes]


class Motion(Protocol):
    """A sequence of states of all worlds with a constant time step."""

    dt: float

    @property
    def simulator(self) -> SimulatorLike | None:
        """Simulator of the motion; without one only coordinates are known."""

    def __len__(self) -> int:
        """Return the number of states so far."""

    def q(self, number: int) -> np.ndarray:
        """Return coordinates of a state [num_worlds, nq]."""

    def q_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return coordinates of states [n, num_worlds, nq]."""

    def qd_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return velocities of states [n, num_worlds, nv]; simulated motions only."""

    def controls(self, steps: int) -> np.ndarray | None:
        """Return inputs of the actuators in the first steps [steps, num_worlds, nu]; None without actuators."""

    def contacts(self, number: int) -> Contacts | None:
        """Return the contacts of the step that starts at a state; None if unknown."""

    def grow(self, steps: int) -> None:
        """Add up to ``steps`` states, if the motion can continue."""


class Coordinates:
    """A motion given by coordinates [states, num_worlds, nq] only."""

    def __init__(self, q: np.ndarray, dt: float, simulator: SimulatorLike | None = None):
        self.dt, self._made_by, self._q = dt, simulator, q

    def __len__(self) -> int:
        return len(self._q)

    @property
    def simulator(self) -> SimulatorLike | None:
        """See :class:`Motion`."""
        return self._made_by

    def q(self, number: int) -> np.ndarray:
        """Return coordinates of a state, see :class:`Motion`."""
        return self._q[number]

    def q_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return coordinates of states, see :class:`Motion`."""
        return self._q[numbers]

    def qd_of(self, numbers: np.ndarray) -> np.ndarray:
        """Raise ModelError: velocities are unknown."""
        raise ModelError("the velocities of this motion are unknown")

    def controls(self, steps: int) -> np.ndarray | None:
        """Return None: inputs are unknown."""
        return None

    def contacts(self, number: int) -> Contacts | None:
        """Return None: contacts are unknown."""
        return None

    def grow(self, steps: int) -> None:
        """Do nothing: the motion cannot continue."""


class Rollout(Coordinates):
    """A trajectory with its checked coordinates q. The contacts of a step are recomputed by repeating it."""

    def __init__(self, trajectory: Trajectory, q: np.ndarray):
        super().__init__(q, trajectory.simulator.dt, trajectory.simulator)
        self._trajectory, self._qd = trajectory, trajectory.qd.numpy()

    def qd_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return velocities of states, see :class:`Motion`."""
        return self._qd[numbers]

    def controls(self, steps: int) -> np.ndarray | None:
        """Return inputs of the actuators, see :class:`Motion`."""
        control = self._trajectory.control
        return None if control is None else control.numpy()[:steps]

    def contacts(self, number: int) -> Contacts | None:
        """Return contacts, see :class:`Motion`. No step starts at the last state."""
        if number >= self._trajectory.steps:
            return None
        given = self._trajectory
        inputs = (given.tau, given.control, given.kinematic_qd, given.active)
        tau, control, led, active = (None if a is None else a[number] for a in inputs)
        return given.simulator.contacts(given.state(number), tau, control, kinematic_qd=led, active=active)


class Live:
    """A simulation that continues while it is played.

    Args:
        simulator: simulator of all worlds.
        state: initial state.
        control: constant inputs of the actuators [nu] or [num_worlds, nu]. Default: zeros.

    Attributes:
        pull: what the user pulls on; None for nothing.
    """

    def __init__(self, simulator: Simulator, state: State, control: np.ndarray | None):
        self.dt, self._simulator = simulator.dt, simulator
        self._states = [state]
        self._control = None
        if control is not None:
            self._control = np.broadcast_to(control, (simulator.num_worlds, simulator.model.nu))
        size = simulator.num_worlds * (simulator.model.nq + simulator.model.nv) * state.q.numpy().itemsize
        self._most = MEMORY // size
        self._pushes: dict[int, np.ndarray] = {}  # joint forces of the user, by the state at which they act
        self.pull: Pull | None = None

    def __len__(self) -> int:
        return len(self._states)

    @property
    def simulator(self) -> SimulatorLike | None:
        """See :class:`Motion`."""
        return self._simulator

    def q(self, number: int) -> np.ndarray:
        """Return coordinates of a state, see :class:`Motion`."""
        return self._states[number].q.numpy().astype(np.float64)

    def q_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return coordinates of states, see :class:`Motion`."""
        return np.stack([self.q(int(number)) for number in numbers])

    def qd_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return velocities of states, see :class:`Motion`."""
        return np.stack([self._states[int(number)].qd.numpy() for number in numbers]).astype(np.float64)

    def controls(self, steps: int) -> np.ndarray | None:
        """Return inputs of the actuators, see :class:`Motion`."""
        nu = self._simulator.model.nu
        if not nu:
            return None
        held = np.zeros((self._simulator.num_worlds, nu)) if self._control is None else self._control
        return np.tile(held, (steps, 1, 1))

    def contacts(self, number: int) -> Contacts | None:
        """Return contacts, see :class:`Motion`."""
        return self._simulator.contacts(self._states[number], self._pushes.get(number), self._control)

    def grow(self, steps: int) -> None:
        """Continue the simulation; while the user pulls, step by step.

        Raises:
            ModelError: if a state is not finite; the states before it are kept.
        """
        steps = min(steps, self._most - len(self))
        if steps < 1:
            return
        if self.pull is None:
            self._advance(steps, None)
            return
        for _ in range(steps):
            last = self._states[-1]
            q, qd = (each.numpy().astype(np.float64) for each in (last.q, last.qd))
            tau = self.pull.joint_forces(self._simulator.model, q, qd)
            self._pushes[len(self) - 1] = tau
            self._advance(1, tau)

    def _advance(self, steps: int, tau: np.ndarray | None) -> None:
        """Simulate, with joint forces [num_worlds, nv] for a single step."""
        control: Any = None if self._control is None else np.tile(self._control, (steps, 1, 1))
        forces = None if tau is None else tau[None]
        trajectory = self._simulator.rollout(self._states[-1], forces, steps, control=control)
        finite = np.isfinite(trajectory.q.numpy()).all(axis=2) & np.isfinite(trajectory.qd.numpy()).all(axis=2)
        bad = np.argwhere(~finite)
        good = int(bad[0][0]) - 1 if len(bad) else steps
        self._states += [trajectory.state(number) for number in range(1, good + 1)]
        if len(bad):
            raise ModelError(
                f"the simulation isn't finite after {len(self) * self.dt:.3g} s in world {bad[0][1]}; "
                "use a smaller time step or another initial state"
            )
