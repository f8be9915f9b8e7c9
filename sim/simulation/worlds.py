"""Worlds: the worlds of a simulator, their parameters, their shards and the threads that step them."""

import contextlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.device_model import DeviceModel, find_device
from sim.arrays.warp_lock import serialized, sole_use
from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole
from sim.model.inertia_check import check_mass_matrix
from sim.model.model import ACTUATOR_KIND_NAMES, Model
from sim.model.parameters import as_numbers, check_parameter, number_of_dims
from sim.model.softness import require_impedance
from sim.model.specs import ACTUATOR_GAINS
from sim.simulation.batches import ArrayLike, Batches
from sim.simulation.contacts import Contacts
from sim.simulation.memory import require_memory
from sim.simulation.options import ContactOptions, require_regular
from sim.simulation.shard_pool import ShardPool
from sim.simulation.state import State
from sim.simulation.stepping.collision import CollisionModel, default_max_contacts
from sim.simulation.stepping.constraint_layout import constraint_layout
from sim.simulation.stepping.implicit_fast import ImplicitFastStep
from sim.simulation.stepping.lane_groups import lanes_worth
from sim.simulation.stepping.mujoco_law import MujocoLaw, require_mujoco_law
from sim.simulation.stepping.runge_kutta import RungeKuttaStep
from sim.simulation.stepping.shard import Shard
from sim.simulation.stepping.step_adjoint import DifferentiableStep
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.types import LANES, SPHERICAL

# On a CPU a shard this small keeps its working arrays in the cache from one step to the next.
WORLDS_PER_SHARD = 64
MAX_SHARDS = 64
INTEGRATORS = {"euler": DifferentiableStep, "implicitfast": ImplicitFastStep, "rk4": RungeKuttaStep}


class Worlds(ABC):
    """The worlds that a :class:`sim.Simulator` steps; see there for the arguments."""

    @serialized
    def __init__(
        self,
        model: Model,
        dt: float,
        num_worlds: int = 1,
        device: wp.DeviceLike = None,
        contact: ContactOptions | None = None,
        parameters: Mapping[str, npt.ArrayLike] | None = None,
        check_finite: bool = False,
        threads: int | None = None,
        contact_sensors: Sequence[str | int] = (),
        integrator: str = "euler",
    ):
        contact = ContactOptions() if contact is None else contact
        for name, given, kind in (("model", model, Model), ("contact", contact, ContactOptions)):
            if not isinstance(given, kind):
                raise ModelError(f"Simulator: {name} is a {type(given).__name__}; it must be a sim.{kind.__name__}")
        if not is_positive(dt):
            raise ModelError(f"Simulator: dt is {dt!r}; it must be positive")
        for name, number in (("num_worlds", num_worlds), ("threads", 1 if threads is None else threads)):
            if not is_whole(number, 1):
                raise ModelError(f"Simulator: {name} is {number!r}; it must be a whole number of at least 1")
        if model.nv == 0:
            raise ModelError("Simulator: the model has no joint that moves; there is nothing to simulate")
        require_integrator(integrator, contact.law, contact_sensors)
        self.model = model
        self.dt = float(dt)
        self.num_worlds = int(num_worlds)
        self.device = find_device(device)
        self.contact = contact
        self.integrator = integrator
        self.check_finite = check_finite
        self.batches = Batches(model, self.num_worlds, self.device)
        values = {name: np.asarray(value) for name, value in {**model.parameters, **contact.parameters}.items()}
        self._shared_shapes = {name: value.shape for name, value in values.items()}
        for name, value in (parameters or {}).items():
            values[name] = as_numbers(f"parameter '{name}'", value)
        self._values = {name: self._checked(name, value) for name, value in values.items()}
        self.threads = threads or (os.cpu_count() or 1)
        self.contact_sensors = tuple(_geometry(model, each) for each in contact_sensors)
        if len(set(self.contact_sensors)) < len(self.contact_sensors):
            raise ModelError(f"Simulator: contact_sensors {list(contact_sensors)} name a geometry twice")
        self._present_layout = self._layout()
        self.shards = self._make_shards()
        # Under MuJoCo's law nothing but the armature stands on the mass matrix.
        check_mass_matrix(model, self._values, 0.0 if contact.law == "mujoco" else self.dt)
        self._shards_by_layout = {self._present_layout: self.shards}
        self._pool = ShardPool(self.threads)
        self.bad_state: wp.array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.model, self.dt, self.num_worlds, str(self.device), self.contact, self._values)
        return type(self), (*arguments, self.check_finite, self.threads, self.contact_sensors, self.integrator)

    @property
    def bouncing(self) -> bool:
        """Whether contacts may bounce: then coordinates move along another velocity than the next one."""
        return self.shards[0].step.bouncing

    @abstractmethod
    def state(self, q: ArrayLike, qd: ArrayLike | None = None) -> State:
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
            value: the new value.
            worlds: which worlds get it, as a mask [num_worlds] or as their numbers [k]; then ``[n, ...]`` is one for
                them all, ``[k, n, ...]`` one for each. The others keep theirs. None for all worlds.

        Raises:
            ModelError: for an unknown name, a wrong shape, or a value that is not finite.
        """
        value = as_numbers(f"parameter '{name}'", value)
        if worlds is not None:
            value = self._with_worlds(name, value, worlds)
        self._values[name] = self._checked(name, value)
        layout = self._layout()
        if layout == self._present_layout:
            changed: Iterable[str] = (name,)
        else:
            # Other array shapes or other rows: another set of shards, kept for the next time.
            self._present_layout = layout
            changed = self._values
            if layout not in self._shards_by_layout:
                self._shards_by_layout[layout] = self._make_shards()
            self.shards = self._shards_by_layout[layout]
        for shard in self.shards:
            for parameter in changed:
                shard.step.device_model.set_parameter(parameter, self._of_shard(parameter, shard.step))

    def parameter(self, name: str) -> np.ndarray:
        """The present value of a parameter, in the shape in which it was given."""
        if name not in self._values:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._values)}")
        return self._values[name].copy()

    def parameter_values(self) -> dict[str, np.ndarray]:
        """The present values of all parameters, not to be written to."""
        return dict(self._values)

    @contextlib.contextmanager
    def with_parameters(self, values: Mapping[str, npt.ArrayLike]) -> Iterator[None]:
        """Use other parameters inside a ``with`` block; those of before come back at its end, also after an error.

        Raises:
            ModelError: see :meth:`set_parameter`.
        """
        with sole_use():
            if all(value is self._values.get(name) for name, value in values.items()):
                yield
                return
            before = {name: self._values[name] for name in self.watch(values)}
            changed = [
                name
                for name, value in values.items()
                if value is not before[name] and not np.array_equal(before[name], np.asarray(value))
            ]
            try:
                for name in changed:
                    self.set_parameter(name, values[name])
                yield
            finally:
                for name in changed:
                    self.set_parameter(name, before[name])

    # ---- reports -----------------------------------------------------------------------------------------------

    @property
    def residual(self) -> np.ndarray:
        """How far from its solution a step of the last rollout has stayed at most [num_worlds], m/s or rad/s.

        With the solver "pgs" the largest change of a row's velocity in the last sweep; with "newton" the largest
        velocity that is still missing, which is rounding unless ``iterations`` ended the search.
        """
        return np.concatenate([shard.step.largest_residual.numpy() for shard in self.shards])

    @property
    def sweeps(self) -> np.ndarray:
        """Sweeps that the last step took [num_worlds]; fewer than the option says where ``tolerance`` ended them.

        With the solver "newton" the linear systems that it solved.
        """
        return np.concatenate([shard.step.sweep_count.numpy() for shard in self.shards])

    @property
    def adjoint_residual(self) -> np.ndarray:
        """What the linear solves of the adjoint have left over the last backward pass [num_worlds].

        With the adjoint "implicit" of "pgs" the largest change of a row's adjoint in the last sweep of a step, relative
        to the largest of that step; zero for "unrolled", which solves nothing. With "newton" the norm of what
        a solution leaves of its right-hand side, relative to that.
        """
        return np.concatenate([shard.step.adjoint_residual.numpy() for shard in self.shards])

    @property
    def contact_overflow(self) -> np.ndarray:
        """Contacts that found no room, summed over the steps of the last rollout [num_worlds]; see max_contacts."""
        return np.concatenate([shard.step.total_overflow.numpy() for shard in self.shards])

    @property
    def bad_worlds(self) -> dict[int, int]:
        """The worlds that went bad in the last rollout, each with the number of its first state that isn't finite.

        State 0 is the one that the rollout began with, state n that after n steps. On CUDA this waits for the device.
        """
        if self.bad_state is None:
            return {}
        states = self.bad_state.numpy()
        return {int(world): int(states[world]) for world in np.flatnonzero(states >= 0)}

    def last_bad_steps(self) -> np.ndarray:
        """After a way back, each world's last step whose gradient isn't finite, -1 for none [num_worlds]."""
        return np.concatenate([shard.step.last_bad_step.numpy() for shard in self.shards])

    # ---- inside ------------------------------------------------------------------------------------------------

    def each_shard(self, work: Callable[[Shard], None]) -> None:
        """Run a function on every shard, see :class:`ShardPool`."""
        self._pool.run(work, self.shards)

    def watch(self, names: Iterable[str]) -> frozenset[str]:
        """Check the names of parameters whose gradient is wanted."""
        if isinstance(names, str):
            raise ModelError(f"parameters is the text {names!r}; give a list of names")
        wanted = frozenset(names)
        for name in wanted:
            if name not in self._values:
                raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._values)}")
        return wanted

    def parameter_gradient(self, name: str) -> np.ndarray:
        """Gradient of one parameter after a backward pass, in the shape of its value: shared ones summed over all
        worlds.
        """
        parts = [shard.step.device_model.gradient(name) for shard in self.shards]
        return np.concatenate(parts) if self._per_world(name) else np.sum(parts, axis=0)

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
        collision = CollisionModel(self.model, self.device, self.contact_sensors)
        room = self.contact.max_contacts
        room = default_max_contacts(self.model) if room is None else room
        contacts = room if collision.num_pairs else 0
        layout = constraint_layout(self.model, self._values)
        law = None
        if self.contact.law == "mujoco":
            require_mujoco_law(self.model, layout)
            law = MujocoLaw(self.model, collision)

        def make_step(first: int, last: int) -> DifferentiableStep:
            parameters = {name: self._slice(name, first, last) for name in self._values}
            device_model = DeviceModel(self.model, self.device, last - first, parameters)
            device_model.require_masses()
            world_range = (self.num_worlds, first)
            return INTEGRATORS[self.integrator](
                device_model, collision, layout, self.contact, self.dt, world_range, contacts, law
            )

        require_memory(self.num_worlds, self.device, lambda worlds: make_step(0, worlds))
        return [Shard(make_step(first, last)) for first, last in itertools.pairwise(bounds)]

    def _with_worlds(self, name: str, value: np.ndarray, worlds: npt.ArrayLike) -> np.ndarray:
        """The present value of each world, with another one in some of them."""
        present = self.parameter(name)
        if not self._per_world(name):
            present = np.repeat(present[None], self.num_worlds, axis=0)
        try:
            chosen = np.arange(self.num_worlds)[np.asarray(worlds)]
            present[chosen] = value
        except (IndexError, ValueError):
            raise ModelError(
                f"parameter '{name}': worlds of shape {np.shape(worlds)} and a value of shape {value.shape} don't fit "
                f"{self.num_worlds} worlds, whose values together have shape {present.shape}"
            ) from None
        return present

    def _per_world(self, name: str) -> bool:
        return self._values[name].ndim > number_of_dims(name)

    def _slice(self, name: str, first: int, last: int) -> np.ndarray:
        return self._values[name][first:last] if self._per_world(name) else self._values[name]

    def _of_shard(self, name: str, step: Workspace) -> np.ndarray:
        first = step.first_world
        return self._slice(name, first, first + step.num_worlds)

    def _checked(self, name: str, value: np.ndarray) -> np.ndarray:
        if name not in self._shared_shapes:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._shared_shapes)}")
        check_parameter(name, value, self.model.counts, self.num_worlds)
        if value.ndim == 0:
            value = np.full(self._shared_shapes[name], float(value))
        if name == "regularisation":
            require_regular(value, self.model.scalar)
        if name in ("solref", "solimp"):
            require_impedance("Simulator", **{name: value})
        if name == "stiffness" and (value[..., self.model.dof_q < 0] != 0.0).any():
            raise ModelError(
                "parameter 'stiffness' is not zero on a spherical or free joint; springs act on revolute and prismatic "
                "joints"
            )
        gain = name.removeprefix("actuator_")
        if gain != name and gain in ACTUATOR_GAINS:
            without = ~np.isin(self.model.actuator_kind, ACTUATOR_GAINS[gain])
            if (value[..., without] != 0.0).any():
                index = int(np.flatnonzero(without & (value != 0.0).reshape(-1, self.model.nu).any(axis=0))[0])
                kind = ACTUATOR_KIND_NAMES[int(self.model.actuator_kind[index])]
                raise ModelError(
                    f"parameter '{name}' is not zero for actuator '{self.model.actuator_names[index]}'; "
                    f"a {kind} actuator doesn't have this gain"
                )
        if name in ("swing_limit", "twist_limit"):
            others = np.isfinite(value[..., self.model.joint_type != SPHERICAL])
            if others.any():
                raise ModelError(
                    f"parameter '{name}' is finite on a joint that is not spherical; leave it infinite there"
                )
        return value

    def _layout(self) -> tuple:
        """What decides the shapes of a shard's arrays: which parameters are per world, and which rows there are."""
        per_world = frozenset(name for name in self._values if self._per_world(name))
        return per_world, constraint_layout(self.model, self._values).key


def _geometry(model: Model, given: str | int) -> int:
    """The number of a geometry that is given by its name or by that number."""
    if isinstance(given, str):
        return model.geometry(given)
    if not is_whole(given, 0) or given >= model.num_geometries:
        raise ModelError(
            f"Simulator: contact_sensors has {given!r}; it must be the name of a geometry, or its number below "
            f"{model.num_geometries}"
        )
    return int(given)


def require_integrator(integrator: str, law: str, contact_sensors: Sequence[str | int]) -> None:
    """Check the name of an integrator, and what goes with it; raises ModelError."""
    if integrator not in INTEGRATORS:
        names = " or ".join(map(repr, INTEGRATORS))
        raise ModelError(f"Simulator: integrator is {integrator!r}; it must be {names}")
    if integrator != "euler" and law != "mujoco":
        raise ModelError(
            f"Simulator: integrator='{integrator}' is for MuJoCo's law of contact: choose "
            "ContactOptions(law='mujoco'), or integrator='euler', which has springs, dampers and actuators implicit"
        )
    if integrator == "rk4" and contact_sensors:
        raise ModelError("Simulator: integrator='rk4' doesn't measure contact forces; use integrator='euler'")
