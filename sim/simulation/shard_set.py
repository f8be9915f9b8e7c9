"""The shards of a simulator for one layout of its arrays, and the values of parameters that these hold."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays.device_values import DeviceValue
from sim.dynamics.differentiable_op import paused_tape
from sim.model.parameters import as_rows, number_of_dims
from sim.simulation.stepping.shard import Shard

# A value of a parameter: on the host, or where a caller had it.
Value = np.ndarray | DeviceValue


@dataclass
class ShardSet:
    """Shards for one layout.

    Attributes:
        shards: of all worlds, in order.
        held: the values of parameters that are in their arrays.
    """

    shards: list[Shard]
    held: Mapping[str, Value]

    def take(self, values: Mapping[str, Value]) -> None:
        """Bring the arrays to these values."""
        if values is self.held:
            return
        before, self.held = self.held, {}  # whatever ends this early leaves nothing that counts as written
        with paused_tape():
            for name, value in values.items():
                if value is not before.get(name):
                    self._write(name, value)
        self.held = values

    def _write(self, name: str, value: Value) -> None:
        per_world = value.ndim > number_of_dims(name)
        rows = value if isinstance(value, DeviceValue) else as_rows(name, value)
        for shard in self.shards:
            step = shard.step
            first, last = step.first_world, step.first_world + step.num_worlds
            if isinstance(rows, DeviceValue):
                entries = rows.entries(step.device_model.parameter_dtype(name), first, last)
                step.device_model.take_parameter(name, entries, per_world)
            else:
                step.device_model.put_parameter(name, rows[first:last] if per_world else rows, per_world)
