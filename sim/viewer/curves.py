"""Curves of one world of a motion over time, sensor readings included."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import warp as wp

from sim.dynamics.kinematics import tendon_lengths
from sim.errors import ModelError
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.simulation.simulator import Simulator
from sim.simulation.trajectory import SimulatorLike
from sim.viewer.motions import Motion
from warp_kernels import types as codes


class Readings:
    """Readings of the sensors of a simulator's model.

    Args:
        simulator: the simulator of the motion, with at least one sensor.

    Attributes:
        names: names of the sensors.
        problem: reason why they can't be read; empty if they can.
    """

    def __init__(self, simulator: SimulatorLike):
        from sim.torch import Sensors  # takes seconds, so only models with sensors import it

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
        """Return how many numbers a sensor reads."""
        of_sensor = self._sensors.slices[name]
        return of_sensor.stop - of_sensor.start

    def values(self, motion: Motion, name: str, numbers: np.ndarray, world: int) -> np.ndarray:
        """Return readings [n, k] at states [n] of a world; the last state has those of the step that leads to it."""
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


MOST_POINTS = 300  # maximum number of points of a curve: more than the plot's pixels take time without effect
MOST_CONTACTS = 60  # maximum number of states whose contacts are computed for a curve, by one step each


@dataclass(frozen=True)
class Curves:
    """Curves drawn in one chart.

    Attributes:
        name: name in the list.
        labels: labels of the curves [k].
        values: function that returns the curves [n, k] for states [n] of a world.
        most: maximum number of states that they are computed for.
    """

    name: str
    labels: tuple[str, ...]
    values: Callable[[np.ndarray, int], np.ndarray]
    most: int = MOST_POINTS

    def numbers(self, states: int) -> np.ndarray:
        """Return the indices of the drawn states, at most ``most`` of all ``states``."""
        return np.unique(np.linspace(0, states - 1, min(states, self.most)).round().astype(int))


def curves_of(model: Model, motion: Motion, readings: Mapping[str, np.ndarray]) -> Iterator[Curves]:
    """Yield everything that can be plotted of a motion.

    Args:
        model: the model.
        motion: the motion.
        readings: further curves by name [states, num_worlds, k].
    """
    scalar = [link for link, kind in enumerate(model.joint_type) if JOINT_TYPES[int(kind)].scalar]
    free = [link for link, kind in enumerate(model.joint_type) if kind == codes.FREE]
    if scalar:
        indices = [int(model.joint_q_start[link]) for link in scalar]
        labels = tuple(f"{model.joint_names[link]} [{_unit(model, link)}]" for link in scalar)
        yield Curves("Joint positions", labels, lambda numbers, world: motion.q_of(numbers)[:, world, indices])
    if free:
        starts = [int(model.joint_q_start[link]) for link in free]
        axes = [start + axis for start in starts for axis in range(3)]
        names = tuple(f"{model.joint_names[link]} {axis} [m]" for link in free for axis in "xyz")
        yield Curves("Positions of free bodies", names, lambda numbers, world: motion.q_of(numbers)[:, world, axes])
    simulator = motion.simulator
    if scalar and simulator is not None:
        dofs = [int(model.joint_qd_start[link]) for link in scalar]
        rates = tuple(f"{model.joint_names[link]} [{_unit(model, link)}/s]" for link in scalar)
        yield Curves("Joint velocities", rates, lambda numbers, world: motion.qd_of(numbers)[:, world, dofs])
    if simulator is not None:
        yield Curves("Contact forces", ("sum of all contact forces [N]",), _forces(motion), MOST_CONTACTS)
    if model.tendons.names:
        yield Curves("Tendon lengths", model.tendons.names, _lengths(model, motion))
    if simulator is not None and model.sensors:
        yield from _sensors(motion, simulator)
    for name, values in readings.items():
        yield _given(name, values)


def _unit(model: Model, link: int) -> str:
    return "rad" if JOINT_TYPES[int(model.joint_type[link])].angular else "m"


def _sensors(motion: Motion, simulator: SimulatorLike) -> Iterator[Curves]:
    readings = Readings(simulator)
    if readings.problem:
        warnings.warn(f"viewer: no curves of sensors: {readings.problem}", UserWarning, stacklevel=2)
    for name in readings.names:
        values = partial(readings.values, motion, name)
        yield Curves(f"Sensor {name}", _numbered(name, readings.numbers(name)), values)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name} {k}" for k in range(count))


def _given(name: str, values: np.ndarray) -> Curves:
    labels = _numbered(name, values.shape[2])
    return Curves(name, labels, lambda numbers, world: values[np.minimum(numbers, len(values) - 1), world])


def _forces(motion: Motion) -> Callable[[np.ndarray, int], np.ndarray]:
    found: dict[int, np.ndarray] = {}  # of all worlds, by state

    def values(numbers: np.ndarray, world: int) -> np.ndarray:
        for number in set(numbers.tolist()) - found.keys():
            contacts = motion.contacts(number)
            if contacts is not None:
                total = np.zeros(motion.q(number).shape[0])
                np.add.at(total, contacts.world, np.linalg.norm(contacts.force, axis=1))
                found[number] = total
        known = np.array(sorted(set(numbers.tolist()) & found.keys()), dtype=int)
        if not len(known):
            return np.zeros((len(numbers), 1))
        # No step starts at the last state, so it gets the force of the step before.
        nearest = known[np.clip(np.searchsorted(known, numbers, side="right") - 1, 0, None)]
        return np.array([[found[int(number)][world]] for number in nearest])

    return values


def _lengths(model: Model, motion: Motion) -> Callable[[np.ndarray, int], np.ndarray]:
    def values(numbers: np.ndarray, world: int) -> np.ndarray:
        return np.array([tendon_lengths(model, q[world]) for q in motion.q_of(numbers)])

    return values
