"""Simulator: many worlds of one model, stepped together on one device."""

import contextlib
import warnings
from dataclasses import replace

import numpy as np
import warp as wp

from sim.arrays.host_memory import Rows, as_warp, row_of
from sim.arrays.launch import active_tape
from sim.arrays.warp_lock import serialized
from sim.dynamics.coordinate_checks import require_coordinates
from sim.dynamics.differentiable_op import paused_tape
from sim.errors import ModelError, OverlapWarning
from sim.model.checks import as_numbers, is_whole, require_type
from sim.model.names import counted
from sim.model.parameters import require_finite
from sim.simulation.batches import ArrayLike
from sim.simulation.contacts import Contacts, Overlap, overlaps_of, read_contacts
from sim.simulation.linearisation import Linearisation, Lineariser
from sim.simulation.recording.recording import Recording
from sim.simulation.recording.rollout import run_rollout, warn_caller
from sim.simulation.recording.tape import record_on_tape
from sim.simulation.state import Impulses, State
from sim.simulation.trajectory import Trajectory
from sim.simulation.worlds import Worlds
from warp_kernels.constraints.kinds import NO_KEY
from warp_kernels.records import StateArrays

MOST_NAMED = 3  # pairs that a warning names


class Simulator(Worlds):
    """Steps ``num_worlds`` worlds of a model with frictional contact, by semi-implicit Euler or by Runge-Kutta.

    Python threads that use simulators take turns (see :mod:`sim.arrays.warp_lock`).
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

    Example:
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, num_worlds=2, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), steps=10)
        >>> trajectory.q.shape, trajectory.qd.shape
        ((11, 2, 7), (11, 2, 7))
    """

    _lineariser: Lineariser | None = None
    _looked_at_the_start = False

    def __repr__(self) -> str:
        return f"Simulator({counted(self.num_worlds, 'world')} on {self.device}, dt {self.dt:g} s, {self.model!r})"

    @serialized
    def initial_state(self) -> State:
        """Return the model's initial coordinates at rest, the same in every world.

        The first call, unless steps have been taken before, takes a step aside, and warns of bodies that overlap deeply
        there (:class:`sim.OverlapWarning`).
        """
        q = self.batches.rows_of_worlds(self.model.q0, self.model.nq, "q")
        qd = self.batches.rows_of_worlds(np.zeros(self.model.nv), self.model.nv, "qd")
        state = State.of_rows(q, qd, None, self._first_act(None))
        if not self._looked_at_the_start and self.bad_state is None:
            self._looked_at_the_start = True
            self._warn_of_overlaps(state)
        return state

    def _warn_of_overlaps(self, state: State) -> None:
        """Warn of deep overlaps in the first world, by a step whose result and reports are left aside."""
        if not self.shards[0].step.max_contacts:
            return
        deep: list[Overlap] = []
        late, self.late_report = self.late_report, None
        try:
            with warnings.catch_warnings(), contextlib.suppress(FloatingPointError):
                warnings.simplefilter("ignore")
                deep = [o for o in overlaps_of(self.contacts(state).of_world(0)) if o.is_deep(self.model)]
        finally:
            self.late_report, self.bad_state = late, None
            self._most_dropped[:] = 0
            self._rollouts, self._open_is_known = 0, False
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
            self.batches.rows_of_worlds(q, self.model.nq, "q"),
            self.batches.rows_of_worlds(qd, self.model.nv, "qd"),
            None,
            self._first_act(act, "act"),
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
            return self._single(state, tau, control).final_state
        records = self._one_step(self._first(state), tau, control).records
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
            recording = self._one_step(self._first(state), tau, control)
            for shard in self.shards:
                shard.step.show_contacts()
            del recording  # until here its arrays are read
        return read_contacts([shard.step for shard in self.shards])

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
            state = replace(state, act=self._first_act(state.act))
            next_state = self.step(state, tau, control)
            if self._lineariser is None or self._lineariser.bouncing != self.bouncing:
                self._lineariser = Lineariser(self)
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
        trajectory = self.unguarded_rollout(state, tau, steps, control, checkpoint_interval)
        trajectory.remember()
        return trajectory

    @serialized
    def unguarded_rollout(
        self,
        state: State,
        tau: ArrayLike | None,
        steps: int | None,
        control: ArrayLike | None,
        checkpoint_interval: int = 1,
    ) -> Trajectory:
        """As :meth:`rollout`, for callers that see to it that the trajectory stays as it is."""
        first = self._first(state)
        tau = self.batches.of_steps(tau, self.model.nv, "tau", steps)
        control = self.batches.of_steps(control, self.model.nu, "control", steps)
        for name, given in (("tau", tau), ("control", control)):
            if given is not None:
                if steps not in (None, given.shape[0]):
                    raise ModelError(f"rollout: steps is {steps}, but {name} has {given.shape[0]} steps")
                steps = given.shape[0]
        trajectory = Trajectory.of(self.run_steps(first, tau, control, steps, checkpoint_interval))
        record_on_tape(trajectory, first, tau, control)
        return trajectory

    @serialized
    def run_steps(
        self,
        first: StateArrays[Rows],
        tau: Rows | None,
        control: Rows | None,
        steps: int | None,
        checkpoint_interval: int,
        gradients: frozenset[str] | None = None,
        keeps_solved: bool = False,
    ) -> Recording:
        """Take steps with arrays of the right shapes, which see to it themselves that they stay as they are.

        Args:
            first: the first state.
            tau: joint forces [steps, num_worlds, nv], of a single step [num_worlds, nv] too; None for none.
            control: inputs of the actuators [steps, num_worlds, nu], likewise.
            steps: number of steps, that of tau and control.
            checkpoint_interval: as for :meth:`rollout`.
            gradients: the parameters whose gradient will be asked for; None where there will be no way back. Its
                kernels are compiled together with those of the rollout.
            keeps_solved: whether to keep what the trajectory calls ``solved``, of models with sensors of accelerations
                under MuJoCo's law.

        Raises:
            ModelError: for numbers of steps that are not whole.
            FloatingPointError: as :meth:`rollout`.
        """
        if steps is None:
            raise ModelError("rollout: give tau, control, or the number of steps")
        if not is_whole(steps, 0):
            raise ModelError(f"rollout: steps is {steps!r}; it must be a whole number of at least 0")
        if not is_whole(checkpoint_interval, 1):
            raise ModelError(
                f"rollout: checkpoint_interval is {checkpoint_interval!r}; it must be a whole number of at least 1"
            )
        return run_rollout(self, first, tau, control, int(steps), int(checkpoint_interval), gradients, keeps_solved)

    def _one_step(self, first: StateArrays[Rows], tau: ArrayLike | None, control: ArrayLike | None) -> Recording:
        """A step that is on no tape, with inputs that have no dimension of steps."""
        nv, nu, rows_of = self.model.nv, self.model.nu, self.batches.rows_of_worlds
        forces = None if tau is None else rows_of(tau, nv, "tau")
        inputs = None if control is None else rows_of(control, nu, "control")
        return run_rollout(self, first, forces, inputs, steps=1, interval=1)

    def _first(self, state: State) -> StateArrays[Rows]:
        """What a state consists of, checked.

        Raises:
            ModelError: for another type, and for arrays of wrong shapes, dtypes and devices.
        """
        require_state(state)
        q, qd = state.rows()
        q = self.batches.rows_of_worlds(q, self.model.nq, "state.q")
        qd = self.batches.rows_of_worlds(qd, self.model.nv, "state.qd")
        first: StateArrays[Rows] = StateArrays(q, qd, act=self._first_act(state.act))
        impulses = self.first_impulses(state.impulses)
        if impulses is not None:
            first.impulse, first.key = impulses.value, impulses.key
        return first

    def _single(self, state: State, tau: ArrayLike | None, control: ArrayLike | None) -> Trajectory:
        """The rollout of one step whose inputs have no dimension of steps."""
        tau = self.batches.of_one_step(tau, self.model.nv, "tau")
        control = self.batches.of_one_step(control, self.model.nu, "control")
        return self.unguarded_rollout(state, tau, 1, control)

    def _first_act(self, given: ArrayLike | None, name: str = "state.act") -> wp.array | None:
        """The states that actuators begin with; zeros where none were given, None where there are none."""
        if not self.model.na and given is None:
            return None
        if given is None:
            return wp.zeros((self.num_worlds, self.model.na), dtype=self.model.scalar, device=self.device)
        if not self.model.na:
            raise ModelError(f"{name} is given, but no actuator of the model has a state; leave it out")
        return self.batches.of_worlds(given, self.model.na, name)

    def first_impulses(self, given: Impulses | None) -> Impulses | None:
        """What a warm start begins with; zeros where nothing was given. None if there can be no constraint."""
        if not self.shards[0].step.warm:
            return None
        shape = (self.num_worlds, self.shards[0].step.max_constraints)
        if given is None:
            value = wp.zeros((*shape, 3), dtype=self.model.scalar, device=self.device)
            return Impulses(value, wp.full((*shape, 4), NO_KEY, dtype=wp.int32, device=self.device))
        for name, array, size in (("value", given.value, 3), ("key", given.key, 4)):
            if tuple(array.shape) != (*shape, size):
                raise ModelError(
                    f"state.impulses.{name} has shape {tuple(array.shape)}; expected {(*shape, size)}: with other "
                    "limits or options there are other constraints; leave the impulses out to start from zero"
                )
        return given


def require_state(state: object) -> None:
    """Raise ModelError for what isn't a state."""
    require_type("state", state, State, "a sim.State: make one with simulator.state(q, qd)")
