"""Worlds: the worlds of a simulator, their parameters, their shards and the threads that step them."""

import contextlib
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.device_model import DeviceModel, find_device
from sim.arrays.device_values import DeviceValue, DeviceValues, is_on_device, shared_scalars
from sim.arrays.host_memory import Rows, as_warp
from sim.arrays.warp_lock import serialized, sole_use
from sim.cores import usable_cores
from sim.errors import ModelError
from sim.model.checks import as_numbers, is_positive, is_whole, on_host, require_flags, require_type
from sim.model.model import Model
from sim.model.parameters import check_parameter, number_of_dims
from sim.simulation.batches import ArrayLike, Batches
from sim.simulation.contacts import Contacts
from sim.simulation.fixed_arguments import FIXED, FixedArguments
from sim.simulation.memory import made_in_memory
from sim.simulation.options import (
    STATE_LIMIT,
    ContactMethod,
    ModelContact,
    MujocoContact,
    checked_state_limit,
    hard_options,
)
from sim.simulation.parameter_checks import ConsistencyChecks, require_useful
from sim.simulation.shard_pool import ShardPool
from sim.simulation.shard_set import ShardSet, Value
from sim.simulation.state import State
from sim.simulation.stepping.body_grid import collision_model
from sim.simulation.stepping.collision import default_max_contacts
from sim.simulation.stepping.constraint_layout import DECISIVE, constraint_layout
from sim.simulation.stepping.integrators.named import INTEGRATORS, require_integrator
from sim.simulation.stepping.lane_groups import lanes_worth
from sim.simulation.stepping.mujoco.law import MujocoLaw, require_mujoco_law
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.reports import LateReport, Reports
from sim.simulation.stepping.sensors.force_sensors import chosen_sensors
from sim.simulation.stepping.shard import Shard
from sim.simulation.stepping.tendons.layout import require_explicit_tendons
from sim.simulation.stepping.tendons.stability import warn_of_damped_tendons
from warp_kernels.types import LANES

# On a CPU a shard this small keeps its working arrays in the cache from one step to the next.
WORLDS_PER_SHARD = 64
MAX_SHARDS = 64
# Sets of shards that are kept, for as many layouts of their arrays; the one used longest ago goes first.
MOST_LAYOUTS = 4
# Parameters that are looked at on the host, wherever they are given.
ON_HOST = (*DECISIVE, "limit_stiffness", "regularisation", "solref", "solimp")


class Worlds(FixedArguments, Reports, ABC):
    """The worlds that a :class:`sim.Simulator` steps; see there for the arguments."""

    @serialized
    def __init__(
        self,
        model: Model,
        dt: float,
        num_worlds: int = 1,
        device: wp.DeviceLike = None,
        contact: ContactMethod | None = None,
        parameters: Mapping[str, npt.ArrayLike] | None = None,
        check_finite: bool = False,
        threads: int | None = None,
        contact_sensors: Sequence[str | int] = (),
        integrator: str | None = None,
        state_limit: Sequence[float] = STATE_LIMIT,
    ):
        contact = ModelContact() if contact is None else contact
        require_type("Simulator: model", model, Model, "a sim.Model")
        require_type("Simulator: contact", contact, ContactMethod, "a sim.ContactMethod, such as sim.HardContact()")
        require_type("Simulator: parameters", parameters or {}, Mapping, "a dictionary, from names to values")
        require_flags("Simulator", check_finite=check_finite)
        if not is_positive(dt):
            raise ModelError(f"Simulator: dt is {dt!r}; it must be a positive number of seconds")
        for name, number in (("num_worlds", num_worlds), ("threads", 1 if threads is None else threads)):
            if not is_whole(number, 1):
                raise ModelError(f"Simulator: {name} is {number!r}; it must be a whole number of at least 1")
        if model.nv == 0:
            raise ModelError("Simulator: the model has no joint that moves; there is nothing to simulate")
        if integrator is None:
            stated = model.mujoco if isinstance(contact, ModelContact) else None
            integrator = "euler" if stated is None else stated.integrator
        contact = contact.resolved(model)
        require_integrator(integrator, isinstance(contact, MujocoContact))
        self.state_limit = checked_state_limit("Simulator", state_limit)
        self.model = model
        self.dt = float(dt)
        self.num_worlds = int(num_worlds)
        self.device = find_device(device)
        self.contact, self._by_mujoco = contact, isinstance(contact, MujocoContact)
        self.integrator = integrator
        self.kept_stages = INTEGRATORS[integrator].kept_stages
        self.check_finite = check_finite
        self.batches = Batches(model, self.num_worlds, self.device)
        values = {name: np.array(value) for name, value in {**model.parameters, **contact.parameters}.items()}
        self._shared_shapes = {name: value.shape for name, value in values.items()}
        for name, value in (parameters or {}).items():
            values[name] = as_numbers(f"parameter '{name}'", value)
        self._first_values = {name: self._checked(name, value) for name, value in values.items()}
        self._require_consistent = ConsistencyChecks(model, self._by_mujoco, self.dt)
        self._require_consistent({*(parameters or {}), "mass"}, self._first_values)
        self._values: Mapping[str, Value] = self._first_values
        self._device_values = DeviceValues(model, self.num_worlds, self.device, self._first_values)
        self.threads = threads or len(usable_cores())
        self.contact_sensors = chosen_sensors(model, contact_sensors)
        self._shards_by_layout: dict[tuple, ShardSet] = {}
        self._decisive: tuple[list[Value], tuple] = ([], ())
        self._present = self._chosen()
        # Of the last rollout and the last way back, whose parameters may have had another layout than the present ones.
        self._forward = self._backward = self._present.shards
        warn_of_damped_tendons(model, self.parameter_values(), self.dt)
        self._pool = ShardPool(self.threads)
        self.bad_state: Rows | None = None
        self._most_dropped = np.zeros(self.num_worlds, dtype=np.int32)
        self._rollouts, self._open_is_known = 0, False
        self.late_report = LateReport(self.device, self.num_worlds) if self.device.is_cuda else None

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.model, self.dt, self.num_worlds, str(self.device), self.contact, self.parameter_values())
        return type(self), (
            *arguments,
            self.check_finite,
            self.threads,
            self.contact_sensors,
            self.integrator,
            self.state_limit,
        )

    @property
    @serialized
    def bouncing(self) -> bool:
        """Whether contacts may bounce: then coordinates move along another velocity than the next one."""
        return self.shards[0].step.bouncing

    def alike(self, num_worlds: int, parameters: Mapping[str, npt.ArrayLike] | None = None, **changes: Any) -> Self:
        """Worlds of their own that step as these do.

        Args:
            num_worlds: how many.
            parameters: of the new ones, of which those per world are for as many worlds; None for the present values.
            changes: other arguments of the constructor that differ.
        """
        same = {name: getattr(self, name) for name in FIXED - {"num_worlds"}}
        parameters = self.parameter_values() if parameters is None else parameters
        return type(self)(num_worlds=num_worlds, parameters=parameters, **{**same, **changes})

    @abstractmethod
    def state(self, q: ArrayLike, qd: ArrayLike | None = None, act: ArrayLike | None = None) -> State:
        """A state from arrays; see :meth:`sim.Simulator.state`."""

    @abstractmethod
    def rollout(
        self,
        state: State,
        tau: ArrayLike | None = None,
        steps: int | None = None,
        *,
        control: ArrayLike | None = None,
        checkpoint_interval: int = 1,
    ) -> Any:
        """Many steps; see :meth:`sim.Simulator.rollout`."""

    @abstractmethod
    def contacts(self, state: State, tau: ArrayLike | None = None, control: ArrayLike | None = None) -> Contacts:
        """What touches in the step that begins at a state; see :meth:`sim.Simulator.contacts`."""

    # ---- parameters --------------------------------------------------------------------------------------------

    @serialized
    def set_parameter(self, name: str, value: npt.ArrayLike, worlds: npt.ArrayLike | None = None) -> None:
        """Give a parameter a new value, ``[n, ...]`` shared or ``[num_worlds, n, ...]`` per world (see
        :mod:`sim.model.parameters`).

        Args:
            name: of the parameter.
            value: the new value. A Warp array or PyTorch tensor on the simulator's CUDA device, of the model's dtype,
                stays there: see below.
            worlds: which worlds get it, as a mask [num_worlds] or as their numbers [k]; then ``[n, ...]`` is one for
                them all, ``[k, n, ...]`` one for each. The others keep theirs. None for all worlds.

        Raises:
            ModelError: for an unknown name, a wrong shape, a value that is not finite or out of its range, an
                indefinite inertia, limits that cross, and masses that leave the mass matrix singular.

        What stays on a CUDA device is copied and checked there, and nothing waits for it. A number out of its range
        makes the worlds that have it bad from the first state on (:attr:`bad_worlds`), and the simulator's first value
        takes its place; :attr:`parameters_out_of_range` counts such numbers. Parameters that decide which constraints
        there are, such as limits, dry friction and restitution, are read on the host all the same.
        """
        given = self._given(name, value)
        if worlds is not None:
            given = self._with_worlds(name, given, worlds)
        self._use(self._with({name: self._accepted(name, given)}))

    @serialized
    def set_parameters(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Give several parameters new values at once, which need to fit together only then, such as both limits.

        Args:
            values: by name, each as for :meth:`set_parameter`.

        Raises:
            ModelError: see :meth:`set_parameter`; then none of them has changed.
        """
        require_type("set_parameters: values", values, Mapping, "a dictionary, from names to values")
        accepted = {name: self._accepted(name, self._given(name, value)) for name, value in values.items()}
        self._use(self._with(accepted))

    def parameter(self, name: str) -> np.ndarray:
        """The present value of a parameter, in the shape in which it was given."""
        return self._numbers(name).copy()

    def parameter_values(self) -> dict[str, np.ndarray]:
        """The present values of all parameters, not to be written to."""
        return {name: self._numbers(name) for name in self._values}

    def present_values(self) -> Mapping[str, Value]:
        """The present values of all parameters where they are, for :meth:`with_values`."""
        return self._values

    @contextlib.contextmanager
    def with_parameters(self, values: Mapping[str, npt.ArrayLike]) -> Iterator[None]:
        """Use other parameters inside a ``with`` block; those of before come back at its end, also after an error.

        Raises:
            ModelError: see :meth:`set_parameter`.
        """
        with sole_use():
            self.watch(values)
            accepted = {name: self._accepted(name, self._given(name, value)) for name, value in values.items()}
            chosen = self._with(accepted)
        with self.with_values(chosen):
            yield

    @contextlib.contextmanager
    def with_values(self, values: Mapping[str, Value]) -> Iterator[None]:
        """As :meth:`with_parameters` with all values that the simulator has had before."""
        before = self._values
        if values is before:
            yield
            return
        try:
            with sole_use():
                self._use(values)
            # Not here: PyTorch goes back through what is on CUDA in another thread, and a signal need not wait.
            yield
        finally:
            with sole_use():
                # What else has been set meanwhile stays.
                untouched = [name for name, value in values.items() if value is before[name]]
                later = {name: self._values[name] for name in untouched if self._values[name] is not before[name]}
                self._use({**before, **later} if later else before)

    @property
    def shards(self) -> list[Shard]:
        """The shards of the worlds, with the present values of all parameters."""
        self._present.take(self._values)
        return self._present.shards

    @property
    def parameters_out_of_range(self) -> dict[str, int]:
        """How many numbers out of their range parameters have been given on a CUDA device since the simulator was made.

        To look at it waits for the device. What is given on the host raises an error at once.
        """
        counts = {name: int(count.numpy()[0]) for name, count in self._device_values.outside.items()}
        return {name: count for name, count in counts.items() if count}

    # ---- inside ------------------------------------------------------------------------------------------------

    def run_forward(self, work: Callable[[Shard], None]) -> None:
        """Run a function that takes steps on every shard, see :class:`ShardPool`; reports of steps are theirs then."""
        self._forward = self.shards
        self._pool.run(work, self._forward)

    def run_back(self, work: Callable[[Shard], None]) -> None:
        """The same of a function that walks back."""
        self._backward = self.shards
        self._pool.run(work, self._backward)

    def watch(self, names: Iterable[str]) -> frozenset[str]:
        """Check the names of parameters whose gradient is wanted."""
        if isinstance(names, str):
            raise ModelError(f"parameters is the text {names!r}; give a list of names")
        wanted = frozenset(names)
        for name in wanted:
            if name not in self._values:
                raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._values)}")
        return wanted

    def parameter_gradient(self, name: str) -> "np.ndarray | wp.array":
        """Gradient of one parameter after a backward pass, in the shape of its value: shared ones summed over all
        worlds. On CUDA it stays on the device.
        """
        if self.keeps_on_device:
            (shard,) = self.shards
            gradient = shard.step.device_model.gradient_array(name)
            return gradient.reshape(self._values[name].shape or (1,))
        parts = [shard.step.device_model.gradient(name) for shard in self.shards]
        return np.concatenate(parts) if self._per_world(name) else np.sum(parts, axis=0)

    def spoil_worlds(self, q: Rows) -> None:
        """NaN in place of the first coordinates [1 or more, num_worlds, nq] of worlds with parameters out of range."""
        if self.keeps_on_device:
            for value in self._values.values():
                if isinstance(value, DeviceValue):
                    value.spoil(as_warp(q)[0])

    @property
    def keeps_on_device(self) -> bool:
        """Whether values and gradients of parameters stay on the device: there are no waits for a CPU to save."""
        return not self.device.is_cpu

    def _chosen(self) -> ShardSet:
        """The shards for the present values; made where such ones have not been needed before."""
        layout = self._layout()
        found = self._shards_by_layout.pop(layout, None)
        if found is None:
            # Other array shapes or other rows: another set of shards, kept for the next time.
            on_host = {name: value for name, value in self._values.items() if isinstance(value, np.ndarray)}
            found = ShardSet(self._make_shards(), on_host)
        self._shards_by_layout[layout] = found
        if len(self._shards_by_layout) > MOST_LAYOUTS:
            self._shards_by_layout.pop(next(iter(self._shards_by_layout)))
        return found

    def _use(self, values: Mapping[str, Value]) -> None:
        """Make these the present values; the arrays of the shards follow when they are looked at."""
        before, self._values = self._values, values
        try:
            self._present = self._chosen()
        except BaseException:
            self._values = before
            raise

    def _with(self, accepted: Mapping[str, Value]) -> Mapping[str, Value]:
        """The present values with these in the place of theirs, which fit together as far as the host knows them."""
        new = {name for name, value in accepted.items() if value is not self._values[name]}
        if not new:
            return self._values
        chosen = {**self._values, **accepted}
        on_host = {name: value for name, value in chosen.items() if isinstance(value, np.ndarray)}
        self._require_consistent(new & on_host.keys(), on_host)
        return chosen

    def _given(self, name: str, value: Any) -> "np.ndarray | wp.array":
        """A caller's value as numbers, or as an array of scalars on the device where it stays there."""
        stays = self.keeps_on_device and name in self._values and name not in ON_HOST
        if stays and not getattr(value, "requires_grad", False) and is_on_device(value, self.device):
            array = shared_scalars(value)
            if array.dtype == self.model.scalar:
                return array
        return as_numbers(f"parameter '{name}'", value)

    def _accepted(self, name: str, value: "np.ndarray | wp.array") -> Value:
        """A value that has been checked, or is being checked on the device; the present one where it is the same."""
        if isinstance(value, wp.array):
            return self._device_values.value(name, value)
        present = self._values.get(name)
        if isinstance(present, np.ndarray) and np.array_equal(present, value):
            return present
        return self._checked(name, value)

    def _first_numbers(self, name: str) -> np.ndarray:
        """The present value where it is on the host; else one of its shape, until the shards take it."""
        value = self._values[name]
        if isinstance(value, np.ndarray):
            return value
        first = self._first_values[name]
        single = first[0] if first.ndim > number_of_dims(name) else first
        return np.broadcast_to(single, value.shape)

    def _numbers(self, name: str) -> np.ndarray:
        """The present value of a parameter on the host."""
        if not isinstance(name, str) or name not in self._values:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._values)}")
        value = self._values[name]
        return value.numbers if isinstance(value, DeviceValue) else value

    def _make_shards(self) -> list[Shard]:
        count = 1
        if self.device.is_cpu:
            count = min(
                max(-(-self.num_worlds // WORLDS_PER_SHARD), min(self.threads, self.num_worlds // 8)), MAX_SHARDS
            )
            count = max(count, 1)
        # Whole lane groups, so that a world has the same place in its group whatever the number of threads.
        lanes = lanes_worth(LANES, self.num_worlds)
        groups = -(-self.num_worlds // lanes)
        bounds = [min(lanes * (groups * i // count), self.num_worlds) for i in range(count + 1)]
        room = self.contact.max_contacts
        room = default_max_contacts(self.model, hard_options(self.contact).margin) if room is None else room
        collision = collision_model(self.model, self.device, self.contact_sensors, self.contact, room)
        contacts = room if collision.num_pairs else 0
        values = {name: self._first_numbers(name) for name in self._values}
        layout = constraint_layout(self.model, values)
        law = None
        if self._by_mujoco:
            require_mujoco_law(layout)
            law = MujocoLaw(self.model, collision)
        if self.integrator in ("implicit", "implicitfast"):
            require_explicit_tendons(self.model, values, self.integrator)

        def make_step(first: int, last: int, contacts: int = contacts) -> Step:
            parameters = {name: value[first:last] if self._per_world(name) else value for name, value in values.items()}
            device_model = DeviceModel(self.model, self.device, last - first, parameters)
            device_model.require_masses()
            world_range = (self.num_worlds, first)
            found = collision.for_worlds(last - first, contacts)
            return INTEGRATORS[self.integrator](
                device_model, found, layout, self.contact, self.dt, world_range, contacts, law, self.state_limit
            )

        def make_all() -> list[Shard]:
            return [Shard(make_step(first, last)) for first, last in itertools.pairwise(bounds)]

        items = self.model.nv + self.model.num_links + self.model.num_geometries
        make = lambda worlds, contacts: make_step(0, worlds, contacts)  # noqa: E731
        return made_in_memory(self.num_worlds, contacts, items, self.device, make, make_all)

    def _with_worlds(self, name: str, value: "np.ndarray | wp.array", worlds: npt.ArrayLike) -> "np.ndarray | wp.array":
        """The present value of each world, with another one in some of them."""
        if isinstance(value, wp.array):
            return self._device_values.with_worlds(self._values[name], name, value, worlds)
        worlds = on_host(worlds)
        present = self.parameter(name)
        if not self._per_world(name):
            present = np.repeat(present[None], self.num_worlds, axis=0)
        try:
            chosen = np.arange(self.num_worlds)[np.asarray(worlds) if np.size(worlds) else []]
        except (IndexError, ValueError):
            chosen = None
        # Other shapes NumPy may repeat over links, joints or axes.
        if chosen is None or value.shape not in ((), present.shape[1:], (len(chosen), *present.shape[1:])):
            raise ModelError(
                f"parameter '{name}': worlds of shape {np.shape(worlds)} and a value of shape {value.shape} don't fit "
                f"{self.num_worlds} worlds, whose values together have shape {present.shape}"
            )
        present[chosen] = value
        return present

    def _per_world(self, name: str) -> bool:
        return self._values[name].ndim > number_of_dims(name)

    def _checked(self, name: str, value: np.ndarray) -> np.ndarray:
        if name not in self._shared_shapes:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._shared_shapes)}")
        check_parameter(name, value, self.model.counts, self.num_worlds)
        if value.ndim == 0:
            value = np.full(self._shared_shapes[name], float(value))
        require_useful(self.model, self._by_mujoco, name, value)
        return value

    def _layout(self) -> tuple:
        """What decides the shapes of a shard's arrays: which parameters are per world, and which rows there are."""
        per_world = frozenset(name for name in self._values if self._per_world(name))
        decisive = [self._values[name] for name in DECISIVE if name in self._values]
        if not all(map(operator.is_, decisive, self._decisive[0])) or not self._decisive[0]:
            values = {name: self._numbers(name) for name in DECISIVE if name in self._values}
            self._decisive = decisive, constraint_layout(self.model, values).key
        return per_world, self._decisive[1]
