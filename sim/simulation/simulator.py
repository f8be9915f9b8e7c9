"""Simulator: many worlds of one model, stepped together on one device."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.device_model import DeviceModel, find_device
from sim.arrays.warp_lock import serialized, warp_lock
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole
from sim.model.inertia_check import require_inertia
from sim.model.model import ACTUATOR_KIND_NAMES, Model
from sim.model.parameters import as_numbers, check_parameter
from sim.simulation.collision import CollisionModel, default_max_contacts
from sim.simulation.constraint_layout import constraint_layout
from sim.simulation.contacts import Contacts, read_contacts
from sim.simulation.options import ContactOptions
from sim.simulation.rollout import Trajectory, run_rollout
from sim.simulation.shard import Shard
from sim.simulation.state import Impulses, State
from sim.simulation.step_adjoint import DifferentiableStep
from sim.simulation.workspace import Workspace
from warp_kernels.solver.warm_start import NO_KEY
from warp_kernels.types import POSITION, SPHERICAL, VELOCITY

# On a CPU a shard this small keeps its working arrays in the cache from one step to the next.
WORLDS_PER_SHARD = 64
MAX_SHARDS = 64
# The kinds of actuator that have a gain.
GAINS = {"actuator_kp": (POSITION,), "actuator_kd": (POSITION, VELOCITY)}


class Simulator:
    """Steps ``num_worlds`` worlds of a model: semi-implicit Euler with frictional contact.

    Python threads that use simulators take turns (see :mod:`sim.arrays.warp_lock`).
    Kernel launches of a step are captured once as a graph and replayed. On a CPU the worlds are split into shards
    that run on a pool of threads; on CUDA they run as one.

    Args:
        model: the model of one world.
        dt: time step [s].
        num_worlds: number of worlds.
        device: Warp device or its name, such as "cpu" or "cuda:0"; None for Warp's current one.
        contact: options of the contact solver.
        parameters: parameters that differ from the model's, ``[n, ...]`` or per world ``[num_worlds, n, ...]``.
        check_finite: after each rollout and each backward pass, look for values that are not finite and raise
            :class:`FloatingPointError` naming the step and the world where the first one appeared.
        threads: CPU threads; None for as many as there are cores.

    Raises:
        ModelError: for a model that can't be simulated (no mass, unsupported pair of shapes), a dt that is not
            positive, unknown or ill-shaped parameters.
    """

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
        self.model = model
        self.dt = float(dt)
        self.num_worlds = int(num_worlds)
        self.device = find_device(device)
        self.contact = contact
        self.check_finite = check_finite
        values = {name: np.asarray(value) for name, value in model.parameters.items()}
        for name, value in (parameters or {}).items():
            values[name] = as_numbers(f"parameter '{name}'", value)
        self._values = {name: self._checked(name, value) for name, value in values.items()}
        self._threads = threads or (os.cpu_count() or 1)
        self._present_layout = self._layout()
        self.shards = self._make_shards()
        require_inertia(model, self._values, self.dt)
        self._shards_by_layout = {self._present_layout: self.shards}
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    # ---- running -----------------------------------------------------------------------------------------------

    @serialized
    def initial_state(self) -> State:
        """The model's initial coordinates at rest, the same in every world."""
        q = np.tile(self.model.q0, (self.num_worlds, 1))
        return State(self._array(q, 2, "q"), self._array(np.zeros((self.num_worlds, self.model.nv)), 2, "qd"))

    @serialized
    def state(self, q: Any, qd: Any = None) -> State:
        """A state from arrays.

        Args:
            q: [num_worlds, nq], or [nq] for all worlds: numpy, Warp, or a nested list.
            qd: [num_worlds, nv] or [nv]; None for rest.

        Raises:
            ModelError: for a wrong shape.
        """
        qd = np.zeros(self.model.nv) if qd is None else qd
        return State(self._batch(q, self.model.nq, "q"), self._batch(qd, self.model.nv, "qd"))

    @serialized
    def step(self, state: State, tau: Any = None, control: Any = None) -> State:
        """One step.

        Args:
            state: the state before.
            tau: joint forces [num_worlds, nv] or [nv]; None for none. Units N m or N; a free joint's act along world
                axes.
            control: inputs of the actuators [num_worlds, nu] or [nu], see :meth:`sim.ModelBuilder.add_actuator`; None
                for zeros.

        Returns:
            the state after, in new arrays. On an active :class:`wp.Tape` the step is recorded.
        """
        return self._single(state, tau, control).final_state

    @serialized
    def contacts(self, state: State, tau: Any = None, control: Any = None) -> Contacts:
        """What touches in the step that begins at a state, and with which force.

        The step is taken and its result left aside; ``residual`` and ``contact_overflow`` are then those of this step.

        Args:
            state: the state before the step.
            tau: joint forces, as for :meth:`step`.
            control: inputs of the actuators, as for :meth:`step`.

        Returns:
            the contacts of all worlds, in the world frame, as copies on the host.

        Raises:
            ModelError: for wrong shapes.
        """
        with paused_tape():
            self._single(state, tau, control)
        return read_contacts([shard.step for shard in self.shards])

    @serialized
    def rollout(
        self,
        state: State,
        tau: Any = None,
        steps: int | None = None,
        *,
        control: Any = None,
        checkpoint_interval: int = 1,
    ) -> Trajectory:
        """Many steps.

        Only states and inputs are kept. The backward pass runs each step again from its state.

        Args:
            state: the state before the first step.
            tau: joint forces of every step [steps, num_worlds, nv] (or [steps, nv] for all worlds); None for none.
            steps: number of steps; needed where neither tau nor control is given.
            control: inputs of the actuators [steps, num_worlds, nu] (or [steps, nu]); None for zeros.
            checkpoint_interval: k, to keep only the states before every k-th step and the last one, for k - 1 further
                steps of each k on the way back. Gradients are the same bit for bit.

        Returns:
            the trajectory, with steps + 1 states, or those of its ``stored_steps``. On an active :class:`wp.Tape` the
            rollout is recorded as one operation.

        Raises:
            ModelError: for wrong shapes, or an interval that is no whole number of at least 1.
            FloatingPointError: with ``check_finite``, naming the first step and world whose state isn't finite.
        """
        q = self._batch(state.q, self.model.nq, "state.q")
        qd = self._batch(state.qd, self.model.nv, "state.qd")
        tau = self._per_step(tau, self.model.nv, "tau")
        control = self._per_step(control, self.model.nu, "control")
        for name, given in (("tau", tau), ("control", control)):
            if given is not None:
                if steps not in (None, given.shape[0]):
                    raise ModelError(f"rollout: steps is {steps}, but {name} has {given.shape[0]} steps")
                steps = given.shape[0]
        if steps is None or steps < 0:
            raise ModelError("rollout: give tau, control, or the number of steps")
        if not is_whole(checkpoint_interval, 1):
            raise ModelError(
                f"rollout: checkpoint_interval is {checkpoint_interval!r}; it must be a whole number of at least 1"
            )
        state = State(q, qd, self._impulses(state.impulses))
        return run_rollout(self, state, tau, control, steps, int(checkpoint_interval))

    # ---- parameters --------------------------------------------------------------------------------------------

    @serialized
    def set_parameter(self, name: str, value: npt.ArrayLike) -> None:
        """Give a parameter a new value, ``[n, ...]`` shared or ``[num_worlds, n, ...]`` per world (see
        :mod:`sim.model.parameters`).

        Raises:
            ModelError: for an unknown name, a wrong shape, or a value that is not finite.
        """
        self._values[name] = self._checked(name, as_numbers(f"parameter '{name}'", value))
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
        with warp_lock:
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
        """Largest change of a row velocity in the last sweep of a step, over the last rollout [num_worlds], m/s."""
        return np.concatenate([shard.step.largest_residual.numpy() for shard in self.shards])

    @property
    def sweeps(self) -> np.ndarray:
        """Sweeps that the last step took [num_worlds]; fewer than the option says where ``tolerance`` ended them."""
        return np.concatenate([shard.step.sweep_count.numpy() for shard in self.shards])

    @property
    def adjoint_residual(self) -> np.ndarray:
        """What the linear solves of the adjoint "implicit" have left over the last backward pass [num_worlds].

        The largest change of a row's adjoint in the last sweep of a step, relative to the largest of that step; zero
        for "unrolled", which solves nothing.
        """
        return np.concatenate([shard.step.adjoint_residual.numpy() for shard in self.shards])

    @property
    def contact_overflow(self) -> np.ndarray:
        """Contacts that found no room, summed over the steps of the last rollout [num_worlds]; see max_contacts."""
        return np.concatenate([shard.step.total_overflow.numpy() for shard in self.shards])

    # ---- inside ------------------------------------------------------------------------------------------------

    def each_shard(self, work: Callable[[Shard], None]) -> None:
        """Run a function on every shard, on the thread pool if there is more than one."""
        if len(self.shards) == 1:
            work(self.shards[0])
            return
        if self._pool is None or self._pool_process != os.getpid():
            # Made here and not before: a forked process has none of its parent's threads.
            self._pool, self._pool_process = ThreadPoolExecutor(self._threads), os.getpid()
        for _ in self._pool.map(work, self.shards):
            pass

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
                max(-(-self.num_worlds // WORLDS_PER_SHARD), min(self._threads, self.num_worlds // 8)), MAX_SHARDS
            )
            count = max(count, 1)
        bounds = [self.num_worlds * i // count for i in range(count + 1)]
        collision = CollisionModel(self.model, self.device)
        room = self.contact.max_contacts
        room = default_max_contacts(self.model) if room is None else room
        shards = []
        for first, last in itertools.pairwise(bounds):
            parameters = {name: self._slice(name, first, last) for name in self._values}
            device_model = DeviceModel(self.model, self.device, last - first, parameters)
            device_model.require_masses()
            layout = constraint_layout(self.model, self._values)
            contacts = room if collision.num_pairs else 0
            world_range = (self.num_worlds, first)
            step = DifferentiableStep(device_model, collision, layout, self.contact, self.dt, world_range, contacts)
            shards.append(Shard(step))
        return shards

    def _per_world(self, name: str) -> bool:
        return self._values[name].ndim > self.model.parameters[name].ndim

    def _slice(self, name: str, first: int, last: int) -> np.ndarray:
        return self._values[name][first:last] if self._per_world(name) else self._values[name]

    def _of_shard(self, name: str, step: Workspace) -> np.ndarray:
        first = step.first_world
        return self._slice(name, first, first + step.num_worlds)

    def _checked(self, name: str, value: np.ndarray) -> np.ndarray:
        if name not in self.model.parameters:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self.model.parameters)}")
        check_parameter(name, value, self.model.counts, self.num_worlds)
        if value.ndim == 0:
            value = np.full(self.model.parameters[name].shape, float(value))
        if name == "stiffness" and (value[..., self.model.dof_q < 0] != 0.0).any():
            raise ModelError(
                "parameter 'stiffness' is not zero on a spherical or free joint; springs act on revolute and prismatic "
                "joints"
            )
        for gain, kinds in GAINS.items():
            without = ~np.isin(self.model.actuator_kind, kinds)
            if name == gain and (value[..., without] != 0.0).any():
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

    def _array(self, value: Any, ndim: int, name: str) -> wp.array:
        if isinstance(value, wp.array):
            # A copy would lose the gradient of what was given, so it is made only where there is none.
            if value.dtype != self.model.scalar:
                raise ModelError(
                    f"{name} has dtype {value.dtype.__name__}, but the model has {self.model.dtype}; convert one"
                )
            if value.device != self.device:
                raise ModelError(
                    f"{name} is on device {value.device}, but the simulator is on {self.device}; move one of them"
                )
            if value.is_contiguous:
                return value
            if value.requires_grad:
                raise ModelError(f"{name} requires a gradient and is not contiguous; give a contiguous array")
            value = value.numpy()
        array = np.ascontiguousarray(value, dtype=np.float64)
        return wp.array(array, dtype=self.model.scalar, device=self.device, ndim=ndim)

    def _impulses(self, given: Impulses | None) -> Impulses | None:
        """What a warm start begins with; zeros where nothing was given."""
        if not self.contact.warm_start:
            return None
        shape = (self.num_worlds, self.shards[0].step.max_constraints)
        if given is None:
            value = wp.zeros((*shape, 3), dtype=self.model.scalar, device=self.device)
            return Impulses(value, wp.full((*shape, 2), NO_KEY, dtype=wp.int32, device=self.device))
        for name, array, size in (("value", given.value, 3), ("key", given.key, 2)):
            if tuple(array.shape) != (*shape, size):
                raise ModelError(
                    f"state.impulses.{name} has shape {tuple(array.shape)}; expected {(*shape, size)}: with other "
                    "limits or options there are other constraints; leave the impulses out to start from zero"
                )
        return given

    def _single(self, state: State, tau: Any, control: Any) -> Trajectory:
        """The rollout of one step whose inputs have no dimension of steps."""
        tau = self._one_step(tau, self.model.nv, "tau")
        control = self._one_step(control, self.model.nu, "control")
        return self.rollout(state, tau, 1, control=control)

    def _batch(self, value: Any, size: int, name: str) -> wp.array:
        shape = (self.num_worlds, size)
        if not isinstance(value, wp.array):
            value = as_numbers(name, value)
            if value.shape == (size,):
                value = np.tile(value, (self.num_worlds, 1))
        if tuple(value.shape) != shape:
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
        return self._array(value, 2, name)

    def _one_step(self, value: Any, size: int, name: str) -> wp.array | None:
        """The input of a single step as that of a rollout, with its gradient."""
        if value is None:
            return None
        value = self._batch(value, size, name)
        whole = value.reshape((1, *value.shape))
        if value.requires_grad:
            whole.grad = value.grad.reshape(whole.shape)
        return whole

    def _per_step(self, value: Any, size: int, name: str) -> wp.array | None:
        if value is None:
            return None
        shape = (self.num_worlds, size)
        if not isinstance(value, wp.array):
            value = as_numbers(name, value)
            if value.ndim == 2 and value.shape[1] == size:
                value = np.repeat(value[:, None], self.num_worlds, axis=1)
        if value.ndim != 3 or tuple(value.shape[1:]) != shape:
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected (steps, {shape[0]}, {shape[1]})")
        return self._array(value, 3, name)
