"""Readings of a task's sensors in an environment's steps."""

from collections.abc import Iterable, Mapping

import torch

from sim.envs.task import Task
from sim.errors import ModelError
from sim.model.checks import names_in
from sim.model.model import Model
from sim.model.sensors.sensors import SENSOR_KINDS
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.rollout_result import NextState
from sim.torch.sensors.readings import Sensors


def measured(task: Task, model: Model) -> list[str]:
    """Return those of a task's sensors that a simulator measures itself, for its ``contact_sensors``.

    Raises:
        ModelError: for a name of neither a sensor nor a geometry of the model.
    """
    kinds = {sensor.name: SENSOR_KINDS[sensor.kind] for sensor in model.sensors}
    chosen = names_in(f"{type(task).__name__}.sensors", task.sensors)
    known = [*kinds, *(geometry.name for geometry in model.geometries)]
    for name in chosen:
        if name not in known:
            raise ModelError(
                f"{type(task).__name__}.sensors has '{name}', which is neither a sensor nor a geometry of the model; "
                f"it has {', '.join(known[:20]) or 'none'}{' ...' * (len(known) > 20)}"
            )
    return [name for name in chosen if name not in kinds or kinds[name].by_forces]


class Readings:
    """Readings of a task's sensors, by name.

    Args:
        task: the task.
        simulator: the simulator, with :func:`measured` as its ``contact_sensors``.

    Attributes:
        names: names of the sensors.
        sensors: those that are sensors of the model; None without any.
    """

    def __init__(self, task: Task, simulator: Simulator):
        model = simulator.model
        known = {sensor.name for sensor in model.sensors}
        self.names = names_in("sensors", task.sensors)
        of_model = [name for name in self.names if name in known]
        self.sensors = Sensors(simulator, of_model) if of_model else None
        self._indices = {
            name: simulator.contact_sensors.index(model.geometry(name)) for name in self.names if name not in known
        }
        self._dtype = TORCH_DTYPES[task.dtype]

    @property
    def measures_contact(self) -> bool:
        """True if contact forces on geometries are among the readings."""
        return bool(self._indices)

    def zeros(self, count: int, device: torch.device) -> dict[str, torch.Tensor]:
        """Return readings before the first step of environments."""
        slices = {} if self.sensors is None else self.sensors.slices
        sizes = {name: 3 if name in self._indices else slices[name].stop - slices[name].start for name in self.names}
        return {name: torch.zeros(count, size, dtype=self._dtype, device=device) for name, size in sizes.items()}

    def of(self, found: NextState, last: Mapping[str, torch.Tensor], bad: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the readings of a step; bad environments [n] keep their last ones, without history."""
        values = dict(self._values(found))
        return {name: torch.where(bad[:, None], last[name].detach(), values[name]) for name in self.names}

    def _values(self, found: NextState) -> Iterable[tuple[str, torch.Tensor]]:
        for name, index in self._indices.items():
            assert found.contact_force is not None
            yield name, found.contact_force[:, index]
        if self.sensors is not None:
            assert found.readings is not None
            for name, columns in self.sensors.slices.items():
                yield name, found.readings[:, columns]
