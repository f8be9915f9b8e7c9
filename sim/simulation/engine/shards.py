"""Shards of a simulator: division of its worlds, sets of shards by layout, and their threads."""

import itertools
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from sim.arrays.critical_sections import interruptible
from sim.arrays.device_model import DeviceModel
from sim.arrays.device_values import DeviceValue
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError
from sim.model.parameters import as_rows, number_of_dims
from sim.simulation.engine.memory import made_in_memory
from sim.simulation.engine.parameters import Parameters, Value
from sim.simulation.engine.settings import Settings
from sim.simulation.engine.shard import Shard
from sim.simulation.options import hard_options
from sim.simulation.stepping.body_grid import collision_model
from sim.simulation.stepping.collision import default_max_contacts
from sim.simulation.stepping.constraint_layout import DECISIVE, constraint_layout
from sim.simulation.stepping.integrators import INTEGRATORS
from sim.simulation.stepping.lane_groups import lanes_worth
from sim.simulation.stepping.mujoco_law import MujocoLaw, require_mujoco_law
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.tendon_layout import require_explicit_tendons
from warp_kernels.types import LANES

# Small enough to keep a shard's working arrays in a CPU's cache from one step to the next.
WORLDS_PER_SHARD = 64
MAX_SHARDS = 64


def make_shards(settings: Settings, parameters: Parameters) -> list[Shard]:
    """Return shards of all worlds, with arrays for the present values of the parameters.

    Raises:
        ModelError: for a model that the law or the integrator doesn't support, for masses that make the mass matrix
            singular, and for more worlds than fit into memory.
    """
    s, model = settings, settings.model
    room = s.contact.max_contacts
    if room is None:
        room = default_max_contacts(model, hard_options(s.contact).margin, s.by_mujoco)
    collision = collision_model(model, s.device, s.contact_sensors, s.contact, room)
    contacts = room if collision.num_pairs else 0
    values = {name: parameters.first_numbers(name) for name in parameters.values}
    layout = constraint_layout(model, values, s.by_mujoco)
    law = None
    if s.by_mujoco:
        require_mujoco_law(layout)
        law = MujocoLaw(model, collision)
    if s.integrator in ("implicit", "implicitfast"):
        require_explicit_tendons(model, values, s.integrator)
    if s.integrator == "rk4" and model.delay_samples.any():
        name = model.actuator_names[int(np.argmax(model.delay_samples))]
        raise ModelError(
            f"Simulator: integrator='rk4' doesn't support delays, such as that of actuator '{name}'; choose another "
            "integrator"
        )

    def make_step(first: int, last: int, contacts: int = contacts) -> Step:
        own = {name: value[first:last] if parameters.per_world(name) else value for name, value in values.items()}
        device_model = DeviceModel(model, s.device, last - first, own)
        device_model.require_masses()
        found = collision.for_worlds(last - first, contacts)
        world_range = (s.num_worlds, first)
        return INTEGRATORS[s.integrator](
            device_model, found, layout, s.contact, s.dt, world_range, contacts, law, s.state_limit, s.threads_per_world
        )

    def make_all() -> list[Shard]:
        return [Shard(make_step(first, last)) for first, last in itertools.pairwise(_bounds(s))]

    items = model.nv + model.num_links + model.num_geometries
    make = lambda worlds, contacts: make_step(0, worlds, contacts)  # noqa: E731
    return made_in_memory(s.num_worlds, contacts, items, s.device, make, make_all)


def _bounds(settings: Settings) -> list[int]:
    """Return the first world of each shard, and the number of worlds."""
    worlds, count = settings.num_worlds, 1
    if settings.device.is_cpu:
        count = min(max(-(-worlds // WORLDS_PER_SHARD), min(settings.threads, worlds // 8)), MAX_SHARDS)
        count = max(count, 1)
    # Whole lane groups, so that a world's lane doesn't depend on the number of threads.
    lanes = lanes_worth(LANES, worlds)
    groups = -(-worlds // lanes)
    return [min(lanes * (groups * i // count), worlds) for i in range(count + 1)]


# Maximum number of sets of shards that are kept; the least recently used is dropped first.
MOST_LAYOUTS = 4


@dataclass
class ShardSet:
    """Set of shards for one layout.

    Attributes:
        shards: shards of all worlds, in order.
        held: values of parameters in their arrays.
    """

    shards: list[Shard]
    held: Mapping[str, Value]

    def take(self, values: Mapping[str, Value]) -> None:
        """Copy values of parameters into the arrays."""
        if values is self.held:
            return
        before, self.held = self.held, {}  # so that nothing counts as written if this ends early
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
    """Cache of shard sets, which are made when values of parameters first require them.

    Args:
        settings: settings of the simulator.
        parameters: parameters whose present values decide the layout.
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
            # Other array shapes or rows require another set of shards, which is kept.
            values = self._parameters.values
            on_host = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
            found = ShardSet(make_shards(self._settings, self._parameters), on_host)
        self._by_layout[layout] = found
        if len(self._by_layout) > MOST_LAYOUTS:
            self._by_layout.pop(next(iter(self._by_layout)))
        return found

    def _layout(self) -> tuple:
        """Return the key of a layout: the parameters per world, and the possible constraint rows."""
        values = self._parameters.values
        per_world = frozenset(name for name in values if self._parameters.per_world(name))
        decisive = [values[name] for name in DECISIVE if name in values]
        if not all(map(operator.is_, decisive, self._decisive[0])) or not self._decisive[0]:
            numbers = {name: self._parameters.numbers(name) for name in DECISIVE if name in values}
            self._decisive = decisive, constraint_layout(self._settings.model, numbers, self._settings.by_mujoco).key
        return per_world, self._decisive[1]


class ShardPool:
    """Pool of threads, started on first use.

    Args:
        threads: number of threads.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, work: Callable[[Shard], None], shards: Sequence[Shard]) -> None:
        """Run the work on every shard; a single shard runs in this thread.

        An error in one of the threads, or an interrupt in this one, is raised once all threads have stopped: only then
        may their arrays be freed.
        """
        if len(shards) == 1:
            work(shards[0])
            return
        futures: list[Future[None]] = []
        try:
            futures += [self._executor().submit(work, shard) for shard in shards]
            with interruptible():
                wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()
        finally:
            for shard in shards:
                shard.stopped = True
            wait(futures)
            for shard in shards:
                shard.stopped = False

    def _executor(self) -> ThreadPoolExecutor:
        # Started only here: a forked process has none of its parent's threads.
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.threads), os.getpid()
        return self._pool
