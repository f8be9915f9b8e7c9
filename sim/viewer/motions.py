"""Motions that the viewer plays: sequences of states, with the contacts in each."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sim.errors import ModelError
from sim.simulation.contacts import Contacts
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory

MEMORY = 2**28  # memory of the states at which a live simulation ends [bytes]


class Motion(Protocol):
    """States of all worlds at a constant time step."""

    dt: float

    def __len__(self) -> int:
        """Number of states so far."""

    def q(self, number: int) -> np.ndarray:
        """Coordinates of a state [num_worlds, nq]."""

    def contacts(self, number: int) -> Contacts | None:
        """The contacts of the step that starts at a state; None if unknown."""

    def grow(self, steps: int) -> None:
        """Add up to ``steps`` states, if the motion can continue."""


class Coordinates:
    """A motion given by coordinates [states, num_worlds, nq] only."""

    def __init__(self, q: np.ndarray, dt: float):
        self.dt, self._q = dt, q

    def __len__(self) -> int:
        return len(self._q)

    def q(self, number: int) -> np.ndarray:
        """See :class:`Motion`."""
        return self._q[number]

    def contacts(self, number: int) -> Contacts | None:
        """Unknown."""
        return None

    def grow(self, steps: int) -> None:
        """The motion cannot continue."""


class Rollout(Coordinates):
    """A trajectory with its checked coordinates q. The contacts of a step are computed by taking it again."""

    def __init__(self, trajectory: Trajectory, q: np.ndarray):
        super().__init__(q, trajectory.simulator.dt)
        self._trajectory = trajectory

    def contacts(self, number: int) -> Contacts | None:
        """See :class:`Motion`. No step starts at the last state."""
        if number >= self._trajectory.steps:
            return None
        tau, control = (None if a is None else a[number] for a in (self._trajectory.tau, self._trajectory.control))
        return self._trajectory.simulator.contacts(self._trajectory.state(number), tau, control)


class Live:
    """A simulation that continues while it is played.

    Args:
        simulator: simulator of all worlds.
        state: initial state.
        control: constant inputs of the actuators [nu] or [num_worlds, nu]; None for zeros.
    """

    def __init__(self, simulator: Simulator, state: State, control: np.ndarray | None):
        self.dt = simulator.dt
        self._simulator, self._states = simulator, [state]
        self._control = None
        if control is not None:
            self._control = np.broadcast_to(control, (simulator.num_worlds, simulator.model.nu))
        size = simulator.num_worlds * (simulator.model.nq + simulator.model.nv) * state.q.numpy().itemsize
        self._most = MEMORY // size

    def __len__(self) -> int:
        return len(self._states)

    def q(self, number: int) -> np.ndarray:
        """See :class:`Motion`."""
        return self._states[number].q.numpy().astype(np.float64)

    def contacts(self, number: int) -> Contacts | None:
        """See :class:`Motion`."""
        return self._simulator.contacts(self._states[number], control=self._control)

    def grow(self, steps: int) -> None:
        """Continue the simulation.

        Raises:
            ModelError: if a state is not finite; the states before it are kept.
        """
        steps = min(steps, self._most - len(self))
        if steps < 1:
            return
        control: Any = None if self._control is None else np.tile(self._control, (steps, 1, 1))
        trajectory = self._simulator.rollout(self._states[-1], steps=steps, control=control)
        finite = np.isfinite(trajectory.q.numpy()).all(axis=2) & np.isfinite(trajectory.qd.numpy()).all(axis=2)
        bad = np.argwhere(~finite)
        good = int(bad[0][0]) - 1 if len(bad) else steps
        self._states += [trajectory.state(number) for number in range(1, good + 1)]
        if len(bad):
            raise ModelError(
                f"the simulation isn't finite after {len(self) * self.dt:.3g} s in world {bad[0][1]}; "
                "use a smaller time step or another initial state"
            )
