"""What the sensors of a model read along a motion that was simulated."""

from __future__ import annotations

from typing import cast

import numpy as np
import warp as wp

from sim.errors import ModelError
from sim.simulation.simulator import Simulator
from sim.simulation.trajectory import SimulatorLike
from sim.viewer.motions import Motion


class Readings:
    """The sensors of a simulator's model.

    Args:
        simulator: that made the motion, with one sensor or more.

    Attributes:
        names: of the sensors.
        problem: why they can't be read; empty if they can.
    """

    def __init__(self, simulator: SimulatorLike):
        from sim.torch import Sensors  # takes seconds: only those with sensors wait for it

        self.names: tuple[str, ...] = ()
        self.problem = ""
        self._simulator = simulator
        self._values: np.ndarray | None = None
        self._states = 0
        try:
            self._sensors = Sensors(cast(Simulator, simulator))
        except ModelError as error:
            self.problem = str(error)
            return
        self.names = self._sensors.names

    def numbers(self, name: str) -> int:
        """How many numbers a sensor reads."""
        of_sensor = self._sensors.slices[name]
        return of_sensor.stop - of_sensor.start

    def values(self, motion: Motion, name: str, numbers: np.ndarray, world: int) -> np.ndarray:
        """Readings [n, k] at states [n] of a world; at the last state, those of the step that leads to it."""
        if len(motion) < 2:
            return np.zeros((len(numbers), self.numbers(name)))
        if self._values is None or self._states != len(motion):
            self._values, self._states = self._read(motion), len(motion)
        return self._values[np.minimum(numbers, self._states - 2), world, self._sensors.slices[name]]

    def _read(self, motion: Motion) -> np.ndarray:
        import torch

        states = np.arange(len(motion))
        dtype = torch.float32 if self._simulator.model.scalar is wp.float32 else torch.float64
        device = str(self._simulator.device)
        controls = motion.controls(len(motion) - 1)
        with torch.no_grad():
            q, qd = (
                torch.as_tensor(each, dtype=dtype, device=device)
                for each in (motion.q_of(states), motion.qd_of(states))
            )
            control = None if controls is None else torch.as_tensor(controls, dtype=dtype, device=device)
            return np.asarray(self._sensors(q, qd, control).double().cpu().numpy())
