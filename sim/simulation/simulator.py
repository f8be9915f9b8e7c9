"""Simulator: many worlds of one model, stepped together on one device."""

import contextlib
import warnings
from collections.abc import Mapping, Sequence
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
from sim.simulation.deprecated import RENAMED
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.first_state import first_act, first_state, require_state
from sim.simulation.engine.recording import Recording
from sim.simulation.engine.rollout import run_rollout, warn_caller
from sim.simulation.engine.settings import FIXED, checked_settings
from sim.simulation.linearisation import Linearisation, Lineariser
from sim.simulation.options import STATE_LIMIT, ContactMethod
from sim.simulation.parameters import SimulatorParameters
from sim.simulation.rollout import unguarded_rollout
from sim.simulation.state import Impulses, State
from sim.simulation.trajectory import Trajectory
from sim.version import warn_deprecated

MOST_NAMED = 3  # pairs that a warning names


class Simulator:
    """Simulator of ``num_worlds`` worlds of one model with frictional contact.

    Only one Python thread at a time uses simulators; others wait (see :mod:`sim.arrays.critical_sections`).
    The kernel launches of a step are captured once as a graph and replayed. On a CPU the worlds are split into shards
    that run on a pool of threads; on CUDA they are one shard.

    Args:
        model: the model of one world.
        dt: time step [s].
        num_worlds: number of worlds.
        device: Warp's or PyTorch's device or its name, such as "cpu" or "cuda:0". Default: Warp's current device.
        contact: method for contacts, joint limits and dry friction, see :class:`sim.ContactMethod`. Default:
            :class:`sim.ModelContact`.
        parameters: parameters that differ from the model's, ``[n, ...]`` or per world ``[num_worlds, n, ...]``.
        check_finite: check states after each rollout and gradients after each backward pass, and raise
            :class:`FloatingPointError` naming the first step and world that aren't finite.
        threads: CPU threads. Default: the number of cores that the process may use.
        contact_sensors: names or indices of geometries whose contact forces the trajectory records, and names of
            sensors that measure contacts, contact forces or limit forces.
        integrator: "euler" for semi-implicit Euler. Hard contact also has "midpoint", of second order for smooth motion
            (docs/conventions.md). :class:`sim.MujocoContact` also has "explicit" (Euler's method with
            explicit joint damping), "implicitfast" (joint damping and velocity gains of actuators are implicit),
            "implicit" (Coriolis and centrifugal forces too) and "rk4" (MuJoCo's fourth-order Runge-Kutta method, with
            explicit joint damping; a step costs four of Euler's). Default: the integrator of the model's file with
            :class:`sim.ModelContact`, and "euler" otherwise.
        state_limit: maximum magnitude of a coordinate [m, rad] and of a velocity [m/s, rad/s]. A world beyond it has
            diverged, and is treated like one whose state isn't finite, see :attr:`bad_worlds`. Infinite for no limit.
        threads_per_world: threads of a GPU that share out the work of one world in the constraint solver, kinematics
            and dynamics: 1, 8, 16 or 32. More than one requires :class:`sim.HardContact` or
            :class:`sim.MujocoContact`, and at most 64 degrees of freedom if the model has several trees.
            Experimental: not yet run on a GPU. On a CPU one thread does the same work, for tests.

    Raises:
        ModelError: for a model that can't be simulated (no mass, unsupported pair of shapes), a dt that is not
            positive, unknown or ill-shaped parameters, and more worlds than fit into memory.

    A simulator can be pickled with its parameters; the copy allocates its own arrays and threads.
    The attribute ``engine`` is internal: it may change with any release.

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
        threads_per_world: int = 1,
    ):
        if parameters is not None:
            require_type("Simulator: parameters", parameters, Mapping, "a dictionary, from names to values")
        require_flags("Simulator", check_finite=check_finite)
        settings = checked_settings(
            model, dt, num_worlds, device, contact, integrator, threads, contact_sensors, state_limit, threads_per_world
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
        self.threads_per_world = settings.threads_per_world
        self.engine = Engine(settings, parameters or {}, check_finite)
        self._lineariser: Lineariser | None = None
        self._looked_at_the_start = False

    def __reduce__(self) -> tuple[Any, ...]:
        parameters = self.engine.parameters.all_numbers()
        arguments = (self.model, self.dt, self.num_worlds, str(self.device), self.contact, parameters)
        return type(self), (
            *arguments,
            self.check_finite,
            self.threads,
            self.contact_sensors,
            self.integrator,
            self.state_limit,
            self.threads_per_world,
        )

    def __repr__(self) -> str:
        return f"Simulator({counted(self.num_worlds, 'world')} on {self.device}, dt {self.dt:g} s, {self.model!r})"

    @property
    def check_finite(self) -> bool:
        """Return whether rollouts and backward passes check for values that are not finite; can be set."""
        return self.engine.check_finite

    @check_finite.setter
    def check_finite(self, value: bool) -> None:
        self.engine.check_finite = value

    def replace(self, num_worlds: int, parameters: Mapping[str, npt.ArrayLike] | None = None, **changes: Any) -> Self:
        """Return a simulator of new worlds with the same model and settings.

        Args:
            num_worlds: number of new worlds.
            parameters: parameters of the new worlds; values per world are for ``num_worlds`` worlds. Default: the
                present values.
            changes: arguments of the constructor that differ.
        """
        same = {name: getattr(self, name) for name in FIXED - {"num_worlds"}}
        parameters = self.engine.parameters.all_numbers() if parameters is None else parameters
        return type(self)(num_worlds=num_worlds, parameters=parameters, **{**same, **changes})

    @serialized
    def initial_state(self) -> State:
        """Return the model's initial coordinates at rest, the same in every world.

        The first call on a simulator that hasn't stepped yet takes a trial step, and warns if bodies penetrate deeply
        (:class:`sim.OverlapWarning`).
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
        """Warn of deep penetration in the first world, found by a step whose result and reports are discarded."""
        if not self.engine.shards[0].step.max_contacts:
            return
        deep: list[Overlap] = []
        with self.engine.reports.of_a_trial(), warnings.catch_warnings(), contextlib.suppress(FloatingPointError):
            warnings.simplefilter("ignore")
            deep = [o for o in overlaps_of(self.contacts(state).of_world(0)) if o.is_deep(self.model)]
        if deep:
            more = f", and {counted(len(deep) - MOST_NAMED, 'more pair')}" if len(deep) > MOST_NAMED else ""
            named = "; ".join(overlap.text(self.model) for overlap in deep[:MOST_NAMED])
            warn_caller([(OverlapWarning, f"initial state: {named}{more}; move one of each pair, or they may stay so")])

    @serialized
    def state(self, q: ArrayLike, qd: ArrayLike | None = None, act: ArrayLike | None = None) -> State:
        """Return a state made from arrays.

        Args:
            q: [num_worlds, nq], or [nq] for all worlds: numpy, Warp, or a nested list.
            qd: [num_worlds, nv] or [nv]. Default: zeros.
            act: states of the actuators that have one [num_worlds, na] or [na]. Default: zeros.

        Raises:
            ModelError: for a wrong shape. NumPy arrays and lists are also checked for numbers that aren't finite and
                for zero quaternions; values of Warp arrays aren't, so that a rollout reports their worlds as bad.
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
    def step(
        self,
        state: State,
        tau: ArrayLike | None = None,
        control: ArrayLike | None = None,
        *,
        kinematic_qd: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> State:
        """Advance all worlds by one step.

        Args:
            state: the state before the step.
            tau: joint forces [num_worlds, nv] or [nv], N m or N; those of a free joint act along world axes. Default:
                zeros.
            control: inputs of the actuators [num_worlds, nu] or [nu], see :meth:`sim.ModelBuilder.add_actuator`.
                Default: zeros.
            kinematic_qd: velocities of the kinematic joints during the step [num_worlds, nk] or [nk], in the order of
                ``model.kinematic_dofs``. Default: those of the state.
            active: points, welds and couplings that are on during the step, 1 or 0 [num_worlds, n] or [n], in the order
                of ``model.switch_names``. Default: those of the parameters, see :func:`sim.attach`.

        Returns:
            the state after the step, in new arrays. On an active :class:`wp.Tape` the step is recorded.
        """
        if active_tape() is not None:
            of_step = self.engine.batches.of_one_step
            tau, control = of_step(tau, self.model.nv, "tau"), of_step(control, self.model.nu, "control")
            led = of_step(kinematic_qd, self.model.nk, "kinematic_qd")
            on = of_step(active, len(self.model.switch_names), "active")
            return unguarded_rollout(self, state, tau, 1, control, kinematic_qd=led, active=on).final_state
        records = self._one_step(state, tau, control, kinematic_qd, active).records
        warm = None
        if records.impulse is not None and records.key is not None:
            warm = Impulses(as_warp(row_of(records.impulse, 1)), as_warp(row_of(records.key, 1)))
        act, low, broken = (
            None if rows is None else as_warp(row_of(rows, 1)) for rows in (records.act, records.q_low, records.broken)
        )
        return State.of_rows(row_of(records.q, 1), row_of(records.qd, 1), warm, act, low, broken)

    @serialized
    def contacts(
        self,
        state: State,
        tau: ArrayLike | None = None,
        control: ArrayLike | None = None,
        *,
        kinematic_qd: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> Contacts:
        """Return the contacts of the step that begins at a state, with their forces.

        The step is taken and its result discarded; ``residual`` and ``contact_overflow`` are then those of this step.
        Stops at triangle meshes are corrections of velocities and no contacts: they aren't among them.

        Args:
            state: the state before the step.
            tau: joint forces, as for :meth:`step`.
            control: inputs of the actuators, as for :meth:`step`.
            kinematic_qd: velocities of the kinematic joints, as for :meth:`step`.
            active: points, welds and couplings that are on, as for :meth:`step`.

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
            recording = self._one_step(state, tau, control, kinematic_qd, active)
            for shard in self.engine.shards:
                shard.step.show_contacts()
            del recording  # its arrays are in use up to here
        return read_contacts([shard.step for shard in self.engine.shards])

    @serialized
    def linearise(
        self,
        state: State,
        tau: ArrayLike | None = None,
        control: ArrayLike | None = None,
        *,
        kinematic_qd: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> Linearisation:
        """Return the derivatives of the step that begins at a state, as matrices in tangent coordinates.

        The step is taken once, and its adjoint is applied for each of the nv next velocities. The derivatives agree
        with :meth:`Trajectory.backward`, through contacts too; ``adjoint_residual`` is then theirs. Nothing is recorded
        on an active :class:`wp.Tape`.

        Args:
            state: the state before the step.
            tau: joint forces, as for :meth:`step`.
            control: inputs of the actuators, as for :meth:`step`.
            kinematic_qd: velocities of the kinematic joints, as for :meth:`step`.
            active: points, welds and couplings that are on, as for :meth:`step`.

        Returns:
            the derivatives in state, joint forces and inputs, and the state after the step.

        Raises:
            ModelError: for wrong shapes, for a warm start (whose impulses are part of the state), and for the
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
            raise ModelError("linearise: not available with integrator='rk4'; use integrator='euler'")
        if self.contact.warm_start:
            raise ModelError("linearise: not available with warm_start=True (impulses are then part of the state)")
        require_state(state)
        with paused_tape():
            state = state.with_act(first_act(self.engine, state.act))
            next_state = self.step(state, tau, control, kinematic_qd=kinematic_qd, active=active)
            if self._lineariser is None or self._lineariser.bouncing != self.engine.bouncing:
                self._lineariser = Lineariser(self.engine)
            return self._lineariser(state, tau, control, kinematic_qd, active, next_state)

    @serialized
    def rollout(
        self,
        state: State,
        tau: ArrayLike | None = None,
        steps: int | None = None,
        *,
        control: ArrayLike | None = None,
        checkpoint_interval: int = 1,
        kinematic_qd: ArrayLike | None = None,
        active: ArrayLike | None = None,
        keep_bytes: int = 0,
    ) -> Trajectory:
        """Advance all worlds by many steps, and record their states.

        Only states and inputs are stored, and the backward pass recomputes each step from its stored state, except for
        steps kept by ``keep_bytes``.

        Args:
            state: the state before the first step.
            tau: joint forces [steps, num_worlds, nv], [steps, nv] for all worlds, or [nv] for all worlds and steps.
                Default: zeros.
            steps: number of steps; required unless an input has a dimension of steps.
            control: inputs of the actuators [steps, num_worlds, nu], [steps, nu] or [nu], likewise. Default: zeros.
            checkpoint_interval: k, to store only the state before every k-th step and the last one. The backward pass
                then recomputes k - 1 of every k steps. Gradients are the same bit for bit, on CUDA to rounding.
            kinematic_qd: velocities of the kinematic joints during each step [steps, num_worlds, nk], [steps, nk] or
                [nk], in the order of ``model.kinematic_dofs``; :func:`sim.velocities_along` finds those of a path.
                Default: those of the state, throughout.
            active: points, welds and couplings that are on during each step, 1 or 0 [steps, num_worlds, n], [steps, n]
                or [n], in the order of ``model.switch_names``. Default: those of the parameters, see
                :func:`sim.attach`.
            keep_bytes: memory for the working arrays of steps [bytes]. The backward pass reads those of the first steps
                that fit, rather than running these steps again. All trajectories of this simulator together keep as
                much; when one is freed, so is its share. Gradients are the same bit for bit, on CUDA to rounding. Not
                available with ``checkpoint_interval`` and integrator="rk4".

        Returns:
            the trajectory, with steps + 1 states or those of its ``stored_steps``. On an active :class:`wp.Tape` the
            rollout is recorded as one operation.

        Raises:
            ModelError: for wrong shapes, a state of another type, and numbers of steps that are not whole.
            FloatingPointError: with ``check_finite``, naming the first step and world whose state isn't finite.
        """
        trajectory = unguarded_rollout(
            self, state, tau, steps, control, checkpoint_interval, kinematic_qd, active, keep_bytes
        )
        trajectory.remember()
        return trajectory

    @property
    def parameters(self) -> SimulatorParameters:
        """Return the present parameters, a mapping to read and to write: ``simulator.parameters["mass"] = 2.0``.

        See :class:`sim.SimulatorParameters` for values per world, several at once, and values
        that are restored at the end of a ``with`` block.
        """
        return SimulatorParameters(self.engine)

    @property
    @serialized
    def residual(self) -> np.ndarray:
        """Return the largest residual at which the solver stopped in the last rollout [num_worlds], m/s or rad/s.

        With :class:`sim.PgsContact` it is the largest change of a row's velocity in the last sweep. With Newton's
        method it is the largest error in velocity of the solution: rounding, unless ``iterations`` was exhausted.
        """
        return self.engine.reports.residual()

    @property
    @serialized
    def solver_iterations(self) -> np.ndarray:
        """Return the iterations of the contact solver in the last step [num_worlds].

        Newton's method counts the linear systems that it solved, :class:`sim.PgsContact` its sweeps. Fewer than the
        option allows means that the solver converged to ``tolerance`` first.
        """
        return self.engine.reports.solver_iterations()

    @property
    @serialized
    def constraint_error(self) -> np.ndarray:
        """Return the largest gap in a point or weld constraint at the beginning of the last step [num_worlds], m.

        It is zero in a model without such constraints. ``residual`` doesn't include it: a step that closes a gap at
        ``max_correction`` has converged.
        """
        return self.engine.reports.constraint_error()

    @property
    @serialized
    def constraint_force(self) -> dict[str, np.ndarray]:
        """Return the forces of constraints in the last step, by name.

        Of points and welds they are the force on the second link [N] and the torque on it about the constraint's point
        [N m], along world axes [num_worlds, 6]. Of couplings, by the name of the joint that follows, the force on it
        [N m or N], and of tendons the force of limits and dry friction along their length [N], negative for a tension
        [num_worlds]; couplings of tendons likewise, by their own names. A name that several have belongs to the first
        of points and welds, joints, couplings of tendons and tendons; the others are "joint/NAME",
        "tendon_coupling/NAME" and "tendon/NAME". Forces are averaged over the step (with "rk4", of its last stage), and
        zero for constraints that are off. Read them before a backward pass, which recomputes steps.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> lamp = scene.add_sphere(radius=0.05, mass=2.0, position=(0, 0, 1), name="lamp")
            >>> _ = scene.add_weld_constraint("hook", "world", "lamp")
            >>> simulator = sim.Simulator(scene.finalize("float64"), dt=1 / 240, device="cpu")
            >>> state = simulator.step(simulator.initial_state())
            >>> simulator.constraint_force["hook"][0].round(3).tolist()
            [0.0, 0.0, 19.62, 0.0, 0.0, 0.0]
        """
        return self.engine.reports.constraint_force()

    @property
    @serialized
    def adjoint_residual(self) -> np.ndarray:
        """Return the residual of the adjoint's linear solves in the last backward pass [num_worlds].

        With :class:`sim.PgsContact` and the adjoint "implicit" it is the largest change of a row's adjoint in the last
        sweep of a step, relative to the largest adjoint of that step; "unrolled" solves no system and has zero. With
        Newton's method it is the norm of the residual relative to that of the right-hand side.
        """
        return self.engine.reports.adjoint_residual()

    @property
    @serialized
    def contact_overflow(self) -> np.ndarray:
        """Return the contacts dropped over the steps of the last rollout [num_worlds]; see max_contacts."""
        return self.engine.reports.contact_overflow()

    @property
    def largest_contact_overflow(self) -> np.ndarray:
        """Return the largest ``contact_overflow`` of the rollouts so far [num_worlds], on CUDA of those reported so
        far.

        Only the first rollout that drops contacts warns; later ones only raise this number.
        """
        return self.engine.reports.most_dropped.copy()

    @property
    def bad_worlds(self) -> dict[int, int]:
        """Return the worlds that went bad in the last rollout, each with the index of its first bad state.

        A bad state is not finite or beyond the simulator's ``state_limit``. State 0 is the initial one, state n that
        after n steps. On CUDA this waits for the device.
        """
        return self.engine.reports.bad_worlds()

    def _one_step(
        self,
        state: State,
        tau: ArrayLike | None,
        control: ArrayLike | None,
        kinematic_qd: ArrayLike | None,
        active: ArrayLike | None,
    ) -> Recording:
        """Take a step that isn't recorded on a tape, with inputs that have no dimension of steps."""
        first, rows_of = first_state(self.engine, state), self.engine.batches.rows_of_worlds
        forces = None if tau is None else rows_of(tau, self.model.nv, "tau")
        inputs = None if control is None else rows_of(control, self.model.nu, "control")
        led = None if kinematic_qd is None else rows_of(kinematic_qd, self.model.nk, "kinematic_qd")
        on = None if active is None else rows_of(active, len(self.model.switch_names), "active")
        return run_rollout(self.engine, first, forces, inputs, steps=1, interval=1, kinematic_qd=led, active=on)

    # Type checkers would accept any name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name in FIXED and name in self.__dict__:
                raise ModelError(f"Simulator: {name} can't be changed; make another simulator: {_another(name)}")
            if "engine" in self.__dict__ and name in self.engine.parameters.values:
                raise ModelError(f"Simulator: {name} is a parameter; set simulator.parameters[{name!r}] = value")
            super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name not in RENAMED:
                raise AttributeError(f"'Simulator' object has no attribute {name!r}")
            instead, find = RENAMED[name]
            warn_deprecated(f"Simulator.{name}", instead, "0.3")
            return find(self)


def _another(name: str) -> str:
    """Return the expression for a simulator with another value of an argument."""
    if name == "model":
        return "sim.Simulator(model, dt, num_worlds)"
    if name == "num_worlds":
        return "simulator.replace(num_worlds)"
    return f"simulator.replace(simulator.num_worlds, {name}=...)"
