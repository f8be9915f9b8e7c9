"""What the viewer plays: states one after the other, and what touches in each."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sim.errors import ModelError
from sim.simulation.contacts import Contacts
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory

MEMORY = 2**28  # a live simulation ends when its states take so many bytes


class Motion(Protocol):
    """States at equal distances in time, of all worlds."""

    dt: float

    def __len__(self) -> int:
        """How many states there are so far."""

    def q(self, number: int) -> np.ndarray:
        """Coordinates of a state [num_worlds, nq]."""

    def contacts(self, number: int) -> Contacts | None:
        """The contacts of the step that begins at a state; None if they aren't known."""

    def grow(self, steps: int) -> None:
        """Make up to so many further states, if there can be more."""


class Coordinates:
    """Coordinates alone [states, num_worlds, nq]."""

    def __init__(self, q: np.ndarray, dt: float):
        self.dt, self._q = dt, q

    def __len__(self) -> int:
        return len(self._q)

    def q(self, number: int) -> np.ndarray:
        """See :class:`Motion`."""
        return self._q[number]

    def contacts(self, number: int) -> Contacts | None:
        """They aren't known."""
        return None

    def grow(self, steps: int) -> None:
        """There are no more."""


class Rollout(Coordinates):
    """A trajectory; q: its coordinates, checked. The contacts of a step come from taking it again."""

    def __init__(self, trajectory: Trajectory, q: np.ndarray):
        super().__init__(q, trajectory.simulator.dt)
        self._trajectory = trajectory

    def contacts(self, number: int) -> Contacts | None:
        """See :class:`Motion`; there is no step at the last state."""
        if number >= self._trajectory.steps:
            return None
        tau, control = (None if a is None else a[number] for a in (self._trajectory.tau, self._trajectory.control))
        return self._trajectory.simulator.contacts(self._trajectory.state(number), tau, control)


class Live:
    """A simulation that goes on while it is looked at.

    Args:
        simulator: of all worlds.
        state: where it begins.
        control: inputs of the actuators, held [nu] or [num_worlds, nu]; None for zeros.
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
        """Simulate on.

        Raises:
            ModelError: when a state isn't finite; those before it remain.
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
                "take a smaller time step, or another start"
            )
