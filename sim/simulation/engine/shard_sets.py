"""Sets of shards, one for each layout of their arrays, and the values of parameters that they hold."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays.device_values import DeviceValue
from sim.dynamics.differentiable_op import paused_tape
from sim.model.parameters import as_rows, number_of_dims
from sim.simulation.engine.make_shards import make_shards
from sim.simulation.engine.parameters import Parameters, Value
from sim.simulation.engine.settings import Settings
from sim.simulation.engine.shard import Shard
from sim.simulation.stepping.constraint_layout import DECISIVE, constraint_layout

# Sets of shards that are kept; the one used longest ago goes first.
MOST_LAYOUTS = 4


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


class ShardSets:
    """The sets of shards of a simulator, made when values of parameters first need them.

    Args:
        settings: of the simulator.
        parameters: whose present values decide.
    """

    def __init__(self, settings: Settings, parameters: Parameters):
        self._settings, self._parameters = settings, parameters
        self._by_layout: dict[tuple, ShardSet] = {}
        self._decisive: tuple[list[Value], tuple] = ([], ())

    def __len__(self) -> int:
        return len(self._by_layout)

    def present(self) -> ShardSet:
        """Return the shards for the present values."""
        layout = self._layout()
        found = self._by_layout.pop(layout, None)
        if found is None:
            # Other array shapes or other rows: another set of shards, kept for the next time.
            values = self._parameters.values
            on_host = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
            found = ShardSet(make_shards(self._settings, self._parameters), on_host)
        self._by_layout[layout] = found
        if len(self._by_layout) > MOST_LAYOUTS:
            self._by_layout.pop(next(iter(self._by_layout)))
        return found

    def _layout(self) -> tuple:
        """Return what decides the shapes of arrays: which parameters are per world, and which rows there are."""
        values = self._parameters.values
        per_world = frozenset(name for name in values if self._parameters.per_world(name))
        decisive = [values[name] for name in DECISIVE if name in values]
        if not all(map(operator.is_, decisive, self._decisive[0])) or not self._decisive[0]:
            numbers = {name: self._parameters.numbers(name) for name in DECISIVE if name in values}
            self._decisive = decisive, constraint_layout(self._settings.model, numbers).key
        return per_world, self._decisive[1]
