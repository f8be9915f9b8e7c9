"""Simulator: many worlds of one model, stepped together on one device."""

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.host_memory import as_warp, row_of
from sim.arrays.launch import active_tape
from sim.dynamics.arguments import require_coordinates
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError, OverlapWarning
from sim.model.checks import as_numbers, counted, require_flags, require_type
from sim.model.model import Model
from sim.model.parameters import require_finite
from sim.simulation.batches import ArrayLike
from sim.simulation.contacts import Contacts, Overlap, overlaps_of, read_contacts
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.first_state import first_act, first_state, require_state
from sim.simulation.engine.recording import Recording
from sim.simulation.engine.rollout import run_rollout, warn_caller
from sim.simulation.engine.settings import FIXED, checked_settings
from sim.simulation.linearisation import Linearisation, Lineariser
from sim.simulation.options import STATE_LIMIT, ContactMethod
from sim.simulation.rollout import unguarded_rollout
from sim.simulation.state import Impulses, State
from sim.simulation.trajectory import Trajectory
from sim.version import warn_deprecated

MOST_NAMED = 3  # pairs that a warning names
# Earlier attributes that belong to the engine, and where they are; deprecated.
MOVED = {
    "bad_state": attrgetter("engine.reports.bad_state"),
    "keeps_on_device": attrgetter("engine.settings.keeps_on_device"),
    "open_constraint": attrgetter("engine.reports.open_constraint"),
    "parameter_gradient": attrgetter("engine.parameter_gradient"),
    "problems_of": attrgetter("engine.reports.problems_of"),
    "run_back": attrgetter("engine.run_back"),
    "run_forward": attrgetter("engine.run_forward"),
    "shards": attrgetter("engine.shards"),
    "unguarded_rollout": lambda simulator: partial(unguarded_rollout, simulator),
}


class Simulator:
    """Steps ``num_worlds`` worlds of a model with frictional contact, by semi-implicit Euler or by Runge-Kutta.

    Python threads that use simulators take turns (see :mod:`sim.arrays.critical_sections`).
    Kernel launches of a step are captured once as a graph and replayed. On a CPU the worlds are split into shards
    that run on a pool of threads; on CUDA they run as one.

    Args:
        model: the model of one world.
        dt: time step [s].
        num_worlds: number of worlds.
        device: Warp's or PyTorch's device or its name, such as "cpu" or "cuda:0"; None for Warp's current one.
        contact: how contacts, joint limits and dry friction are solved, see :class:`sim.ContactMethod`. None for
            :class:`sim.ModelContact`.
        parameters: parameters that differ from the model's, ``[n, ...]`` or per world ``[num_worlds, n, ...]``.
        check_finite: after each rollout and each backward pass, look for values that are not finite and raise
            :class:`FloatingPointError` naming the step and the world where the first one appeared.
        threads: CPU threads; None for as many as there are cores that the process may use.
        contact_sensors: names or numbers of geometries, the forces of whose contacts are part of a trajectory, and
            names of sensors that measure contacts, or forces of contacts or limits.
        integrator: "euler"; with :class:`sim.MujocoContact` also "explicit", Euler's method with explicit joint
            damping, "implicitfast", whose actuators' velocity gains are as implicit as joint damping, "implicit", in
            which Coriolis and centrifugal forces are so too, and "rk4", MuJoCo's Runge-Kutta method of fourth order,
            whose joint damping is explicit. A step of that costs four of Euler's. None for that of the model's file
            with :class:`sim.ModelContact`, and "euler" otherwise.
        state_limit: largest coordinate [m, rad] and largest velocity [m/s, rad/s], either way, of a world that isn't
            bad. A world that goes beyond diverges, and is treated as one whose state isn't finite: see
            :attr:`bad_worlds`. Infinite for no limit.

    Raises:
        ModelError: for a model that can't be simulated (no mass, unsupported pair of shapes), a dt that is not
            positive, unknown or ill-shaped parameters, more worlds than there is memory for.

    A simulator can be pickled, with its parameters; the one that is made again has arrays and threads of its own.
    What runs the worlds is its ``engine``, for the other modules of this package: it may change with any release.

    Example:
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, num_worlds=2, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), steps=10)
        >>> trajectory.q.shape, trajectory.qd.shape
        ((11, 2, 7), (11, 2, 7))
    """

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
        require_type("Simulator: parameters", parameters or {}, Mapping, "a dictionary, from names to values")
        require_flags("Simulator", check_finite=check_finite)
        settings = checked_settings(
            model, dt, num_worlds, device, contact, integrator, threads, contact_sensors, state_limit
        )
        self.model = settings.model
        self.dt = settings.dt
        self.num_worlds = settings.num_worlds
        self.device = settings.device
        self.contact = settings.contact
        self.integrator = settings.integrator
        self.threads = settings.threads
        self.contact_sensors = settings.contact_sensors
        self.state_limit = settings.state_limit
        self.engine = Engine(settings, parameters or {}, check_finite)
        self._lineariser: Lineariser | None = None
        self._looked_at_the_start = False

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

    def __repr__(self) -> str:
        return f"Simulator({counted(self.num_worlds, 'world')} on {self.device}, dt {self.dt:g} s, {self.model!r})"

    @property
    def check_finite(self) -> bool:
        """Whether rollouts and backward passes look for values that are not finite; it can be set."""
        return self.engine.check_finite

    @check_finite.setter
    def check_finite(self, value: bool) -> None:
        self.engine.check_finite = value

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

    @serialized
    def initial_state(self) -> State:
        """Return the model's initial coordinates at rest, the same in every world.

        The first call, unless steps have been taken before, takes a step aside, and warns of bodies that overlap deeply
        there (:class:`sim.OverlapWarning`).
        """
        rows_of = self.engine.batches.rows_of_worlds
        q = rows_of(self.model.q0, self.model.nq, "q")
        qd = rows_of(np.zeros(self.model.nv), self.model.nv, "qd")
        state = State.of_rows(q, qd, None, first_act(self.engine, None))
        if not self._looked_at_the_start and self.engine.reports.bad_state is None:
            self._looked_at_the_start = True
            self._warn_of_overlaps(state)
        return state

    def _warn_of_overlaps(self, state: State) -> None:
        """Warn of deep overlaps in the first world, by a step whose result and reports are left aside."""
        if not self.engine.shards[0].step.max_contacts:
            return
        deep: list[Overlap] = []
        with self.engine.reports.of_a_trial(), warnings.catch_warnings(), contextlib.suppress(FloatingPointError):
            warnings.simplefilter("ignore")
            deep = [o for o in overlaps_of(self.contacts(state).of_world(0)) if o.is_deep(self.model)]
        if deep:
            more = f", and {counted(len(deep) - MOST_NAMED, 'more pair')}" if len(deep) > MOST_NAMED else ""
            named = "; ".join(overlap.text(self.model) for overlap in deep[:MOST_NAMED])
            warn_caller([(OverlapWarning, f"at the start {named}{more}: they may stay so; move one of them")])

    @serialized
    def state(self, q: ArrayLike, qd: ArrayLike | None = None, act: ArrayLike | None = None) -> State:
        """A state from arrays.

        Args:
            q: [num_worlds, nq], or [nq] for all worlds: numpy, Warp, or a nested list.
            qd: [num_worlds, nv] or [nv]; None for rest.
            act: states of actuators that have one [num_worlds, na] or [na]; None for zeros.

        Raises:
            ModelError: for a wrong shape, and for NumPy arrays and lists also for numbers that aren't finite and
                quaternions of zeros. A Warp array isn't looked at here: a rollout reports its world as bad.
        """
        qd = np.zeros(self.model.nv) if qd is None else qd
        state = State.of_rows(
            self.engine.batches.rows_of_worlds(q, self.model.nq, "q"),
            self.engine.batches.rows_of_worlds(qd, self.model.nv, "qd"),
            None,
            first_act(self.engine, act, "act"),
        )
        if not isinstance(q, wp.array):
            require_coordinates(self.model, "state", as_numbers("q", q).reshape(1, -1, self.model.nq))
        if not isinstance(qd, wp.array):
            require_finite("state: qd", as_numbers("qd", qd))
        if act is not None and not isinstance(act, wp.array):
            require_finite("state: act", as_numbers("act", act))
        return state

    @serialized
    def step(self, state: State, tau: ArrayLike | None = None, control: ArrayLike | None = None) -> State:
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
        if active_tape() is not None:
            of_step = self.engine.batches.of_one_step
            tau, control = of_step(tau, self.model.nv, "tau"), of_step(control, self.model.nu, "control")
            return unguarded_rollout(self, state, tau, 1, control).final_state
        records = self._one_step(state, tau, control).records
        warm = None
        if records.impulse is not None and records.key is not None:
            warm = Impulses(as_warp(row_of(records.impulse, 1)), as_warp(row_of(records.key, 1)))
        act = None if records.act is None else as_warp(row_of(records.act, 1))
        return State.of_rows(row_of(records.q, 1), row_of(records.qd, 1), warm, act)

    @serialized
    def contacts(self, state: State, tau: ArrayLike | None = None, control: ArrayLike | None = None) -> Contacts:
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

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground()
            >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
            >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
            >>> state = simulator.rollout(simulator.initial_state(), steps=60).final_state
            >>> contacts = simulator.contacts(state)
            >>> len(contacts.point), float(contacts.force[:, 2].sum().round(2))  # on the box [N]
            (4, 19.62)
        """
        with paused_tape():
            recording = self._one_step(state, tau, control)
            for shard in self.engine.shards:
                shard.step.show_contacts()
            del recording  # until here its arrays are read
        return read_contacts([shard.step for shard in self.engine.shards])

    @serialized
    def linearise(self, state: State, tau: ArrayLike | None = None, control: ArrayLike | None = None) -> Linearisation:
        """The derivatives of the step that begins at a state, as matrices in tangent coordinates.

        The step is taken once, and its adjoint is applied for each of the nv next velocities. The rows are gradients as
        :meth:`Trajectory.backward` has them, through contacts too, and ``adjoint_residual`` is theirs. Nothing is
        recorded on an active :class:`wp.Tape`.

        Args:
            state: the state before the step.
            tau: joint forces, as for :meth:`step`.
            control: inputs of the actuators, as for :meth:`step`.

        Returns:
            the derivatives in state, joint forces and inputs, and the state after the step.

        Raises:
            ModelError: for wrong shapes, with a warm start, whose impulses are part of the state, and with the
                integrator "rk4".

        Example:
            >>> import sim
            >>> model = sim.load("scenes/robots/manipulator.urdf")
            >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
            >>> matrices = simulator.linearise(simulator.initial_state())
            >>> matrices.A.shape, matrices.B_tau.shape
            ((1, 14, 14), (1, 14, 7))
        """
        if self.integrator == "rk4":
            raise ModelError("linearise isn't available with integrator='rk4'; use integrator='euler'")
        if self.contact.warm_start:
            raise ModelError("linearise: with warm_start the impulses are part of the state; leave warm_start out")
        require_state(state)
        with paused_tape():
            state = replace(state, act=first_act(self.engine, state.act))
            next_state = self.step(state, tau, control)
            if self._lineariser is None or self._lineariser.bouncing != self.engine.bouncing:
                self._lineariser = Lineariser(self.engine)
            return self._lineariser(state, tau, control, next_state)

    @serialized
    def rollout(
        self,
        state: State,
        tau: ArrayLike | None = None,
        steps: int | None = None,
        *,
        control: ArrayLike | None = None,
        checkpoint_interval: int = 1,
    ) -> Trajectory:
        """Many steps.

        Only states and inputs are kept. The backward pass runs each step again from its state.

        Args:
            state: the state before the first step.
            tau: joint forces of every step [steps, num_worlds, nv], or [steps, nv] for all worlds, or [nv] for all
                worlds and steps; None for none.
            steps: number of steps; needed where neither tau nor control tells it.
            control: inputs of the actuators [steps, num_worlds, nu], [steps, nu] or [nu], likewise; None for zeros.
            checkpoint_interval: k, to store only the state before every k-th step and the last; the way back then
                repeats k - 1 of every k steps. Gradients are the same bit for bit, on CUDA to rounding.

        Returns:
            the trajectory, with steps + 1 states, or those of its ``stored_steps``. On an active :class:`wp.Tape` the
            rollout is recorded as one operation.

        Raises:
            ModelError: for wrong shapes, a state of another type, and numbers of steps that are not whole.
            FloatingPointError: with ``check_finite``, naming the first step and world whose state isn't finite.
        """
        trajectory = unguarded_rollout(self, state, tau, steps, control, checkpoint_interval)
        trajectory.remember()
        return trajectory

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
        self.engine.use(self.engine.parameters.changed({name: value}, worlds))

    @serialized
    def set_parameters(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Give several parameters new values at once, which need to fit together only then, such as both limits.

        Args:
            values: by name, each as for :meth:`set_parameter`.

        Raises:
            ModelError: see :meth:`set_parameter`; then none of them has changed.
        """
        require_type("set_parameters: values", values, Mapping, "a dictionary, from names to values")
        self.engine.use(self.engine.parameters.changed(values))

    def parameter(self, name: str) -> np.ndarray:
        """Return the present value of a parameter, in the shape in which it was given.

        Raises:
            ModelError: for an unknown name.
        """
        return self.engine.parameters.numbers(name).copy()

    def parameter_values(self) -> dict[str, np.ndarray]:
        """Return the present values of all parameters, not to be written to."""
        return self.engine.parameters.all_numbers()

    def with_parameters(self, values: Mapping[str, npt.ArrayLike]) -> contextlib.AbstractContextManager[None]:
        """Use other parameters inside a ``with`` block; those of before come back at its end, also after an error.

        Raises:
            ModelError: see :meth:`set_parameter`.
        """
        return self.engine.with_parameters(values)

    @property
    @serialized
    def residual(self) -> np.ndarray:
        """The largest distance from its solution at which a step of the last rollout ended [num_worlds], m/s or rad/s.

        With :class:`sim.PgsContact` the largest change of a row's velocity in the last sweep; else the largest
        velocity that is still missing, which is rounding unless ``iterations`` ended the search.
        """
        return self.engine.reports.residual()

    @property
    @serialized
    def sweeps(self) -> np.ndarray:
        """Sweeps that the last step took [num_worlds]; fewer than the option says where ``tolerance`` ended them.

        With Newton's method the linear systems that it solved.
        """
        return self.engine.reports.sweeps()

    @property
    @serialized
    def constraint_error(self) -> np.ndarray:
        """The largest distance between points that point and weld constraints hold together [num_worlds], m.

        That at the beginning of the last step; zero in a model without such constraints. ``residual`` doesn't see it:
        a step that closes an error by no more than ``max_correction`` is solved to the end.
        """
        return self.engine.reports.constraint_error()

    @property
    @serialized
    def adjoint_residual(self) -> np.ndarray:
        """What the linear solves of the adjoint have left over the last backward pass [num_worlds].

        With the adjoint "implicit" of :class:`sim.PgsContact` the largest change of a row's adjoint in the last sweep
        of a step, relative to the largest of that step; zero for "unrolled", which solves nothing. With Newton's method
        the norm of what a solution leaves of its right-hand side, relative to that.
        """
        return self.engine.reports.adjoint_residual()

    @property
    @serialized
    def contact_overflow(self) -> np.ndarray:
        """Contacts that found no room, summed over the steps of the last rollout [num_worlds]; see max_contacts."""
        return self.engine.reports.contact_overflow()

    @property
    def largest_contact_overflow(self) -> np.ndarray:
        """The largest ``contact_overflow`` of the rollouts so far [num_worlds]; on CUDA of those that were reported.

        The first rollout that drops contacts warns, later ones only raise this number.
        """
        return self.engine.reports.most_dropped.copy()

    @property
    def bad_worlds(self) -> dict[int, int]:
        """The worlds that went bad in the last rollout, each with the number of its first bad state: not finite, or
        beyond the simulator's ``state_limit``.

        State 0 is the one that the rollout began with, state n that after n steps. On CUDA this waits for the device.
        """
        return self.engine.reports.bad_worlds()

    @property
    def parameters_out_of_range(self) -> dict[str, int]:
        """How many numbers out of their range parameters have been given on a CUDA device since the simulator was made.

        To look at it waits for the device. What is given on the host raises an error at once.
        """
        return self.engine.parameters.out_of_range()

    def _one_step(self, state: State, tau: ArrayLike | None, control: ArrayLike | None) -> Recording:
        """Take a step that is on no tape, with inputs that have no dimension of steps."""
        first, rows_of = first_state(self.engine, state), self.engine.batches.rows_of_worlds
        forces = None if tau is None else rows_of(tau, self.model.nv, "tau")
        inputs = None if control is None else rows_of(control, self.model.nu, "control")
        return run_rollout(self.engine, first, forces, inputs, steps=1, interval=1)

    # Type checkers would let pass every name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name in FIXED and name in self.__dict__:
                raise ModelError(f"Simulator: {name} can't be changed; make another simulator: {_another(name)}")
            if "engine" in self.__dict__ and name in self.engine.parameters.values:
                raise ModelError(f"Simulator: {name} is a parameter; call simulator.set_parameter({name!r}, value)")
            super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name not in MOVED:
                raise AttributeError(f"'Simulator' object has no attribute {name!r}")
            instead = "use bad_worlds, rollout or Trajectory.backward; simulator.engine may change with any version"
            warn_deprecated(f"Simulator.{name}", instead, "0.3")
            return MOVED[name](self)


def _another(name: str) -> str:
    """Return a call that makes a simulator with another value of an argument."""
    if name == "model":
        return "sim.Simulator(model, dt, num_worlds)"
    if name == "num_worlds":
        return "simulator.alike(num_worlds)"
    return f"simulator.alike(simulator.num_worlds, {name}=...)"
