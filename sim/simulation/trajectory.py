"""Trajectory: states and inputs of a rollout, as returned to the user."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.graphs import require_no_capture
from sim.arrays.host_memory import AnyArray, as_warp, copied
from sim.errors import ModelError
from sim.model.checks import as_numbers, counted, is_whole, names_in, require_flags
from sim.model.model import Model
from sim.simulation.batches import ArrayLike
from sim.simulation.contacts import Contacts
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.keeping import KeptRollout
from sim.simulation.engine.recorded import INPUTS, RECORDED, Recorded
from sim.simulation.engine.recording import LossGradient, Recording
from sim.simulation.gradients import GradientNorms, Gradients
from sim.simulation.motion_figure import figure_of_joints, table_of_joints
from sim.simulation.options import ContactMethod
from sim.simulation.parameters import SimulatorParameters
from sim.simulation.state import Impulses, PackedArray, State, pack, unpack
from warp_kernels.rollout.records import Records


class SimulatorLike(Protocol):
    """Interface of :class:`sim.Simulator` that a trajectory uses."""

    model: Model
    dt: float
    num_worlds: int
    device: wp.Device
    contact: ContactMethod
    integrator: str
    engine: Engine

    @property
    def residual(self) -> np.ndarray:
        """See :attr:`sim.Simulator.residual`."""

    @property
    def parameters(self) -> SimulatorParameters:
        """See :attr:`sim.Simulator.parameters`."""

    def state(self, q: ArrayLike, qd: ArrayLike | None = None, act: ArrayLike | None = None) -> State:
        """See :meth:`sim.Simulator.state`."""

    def contacts(
        self,
        state: State,
        tau: ArrayLike | None = None,
        control: ArrayLike | None = None,
        *,
        kinematic_qd: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> Contacts:
        """See :meth:`sim.Simulator.contacts`."""

    def rollout(
        self,
        state: State,
        tau: ArrayLike | None = None,
        steps: int | None = None,
        *,
        control: ArrayLike | None = None,
        checkpoint_interval: int = 1,
        kinematic_qd: ArrayLike | None = None,
    ) -> "Trajectory":
        """See :meth:`sim.Simulator.rollout`."""


class Trajectory:
    """States and inputs of a rollout.

    Attributes:
        q: coordinates [steps + 1, num_worlds, nq]; with a checkpoint interval only those at ``stored_steps``.
        qd: velocities [steps + 1, num_worlds, nv], likewise.
        tau: joint forces [steps, num_worlds, nv], or None.
        control: inputs of the actuators [steps, num_worlds, nu], or None.
        impulses: impulses after every step, as :class:`sim.Impulses` with a leading dimension of steps; None without a
            warm start.
        steps: number of steps.
        checkpoint_interval: k, if only the states before every k-th step and the last one are stored.
        bad_state: index of each world's first state that isn't finite or is beyond the simulator's ``state_limit``, -1
            for none [num_worlds]; None if states weren't checked.
        contact_force: readings of the simulator's ``contact_sensors`` along world axes [steps, num_worlds, sensors, 3],
            N; None without such sensors. A geometry's slot has the sum of its contact forces, friction included,
            averaged over the step (by Runge-Kutta's method at its start). A sensor's slot has its force, or its number
            of contacts, in the first component; single contacts of a sensor follow in slots after all others.
        act: states of the actuators, stored like q [steps + 1, num_worlds, na]; None if no actuator has one.
        stages: velocities of all stages but the last of Runge-Kutta steps [steps x stages, num_worlds, nv]; None with
            another integrator, and with a checkpoint interval, where the backward pass recomputes them.
        solved: velocities solved by MuJoCo's law in each step, before the integrator derives the next state from them
            [steps, num_worlds, nv]; None unless requested.
        kinematic_qd: velocities of the kinematic joints [steps, num_worlds, nk]; None if they kept those of the state.
        active: equality constraints that are on in each step [steps, num_worlds, n]; None if the parameters say so.
        q_low: low words of positions, stored like q, see :class:`sim.State`; None in float64, and without free bases
            and slides.
        broken: points, welds and couplings that have broken, 1 or 0, stored like q [steps + 1, num_worlds, n]; None if
            the model has no ``break_force``.
        parameters: values of all parameters during the rollout, which :meth:`backward` uses.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), steps=10)
        >>> trajectory.steps, trajectory.q.shape, trajectory.final_state.q.shape
        (10, (11, 1, 7), (1, 7))
    """

    q = Recorded[wp.array]()
    qd = Recorded[wp.array]()
    tau = Recorded[wp.array | None]()
    control = Recorded[wp.array | None]()
    bad_state = Recorded[wp.array | None]()
    contact_force = Recorded[wp.array | None]()
    act = Recorded[wp.array | None]()
    stages = Recorded[wp.array | None]()
    solved = Recorded[wp.array | None]()
    kinematic_qd = Recorded[wp.array | None]()
    active = Recorded[wp.array | None]()
    q_low = Recorded[wp.array | None]()
    broken = Recorded[wp.array | None]()

    def __init__(
        self,
        simulator: SimulatorLike,
        q: AnyArray,
        qd: AnyArray,
        tau: AnyArray | None = None,
        control: AnyArray | None = None,
        impulses: Impulses | None = None,
        steps: int | None = None,
        checkpoint_interval: int = 1,
        bad_state: AnyArray | None = None,
        contact_force: AnyArray | None = None,
        act: AnyArray | None = None,
        stages: AnyArray | None = None,
        solved: AnyArray | None = None,
        kinematic_qd: AnyArray | None = None,
        active: AnyArray | None = None,
        q_low: AnyArray | None = None,
        broken: AnyArray | None = None,
    ):
        self.simulator = simulator
        rows = (q, qd, tau, control, bad_state, contact_force, act, stages, solved, kinematic_qd, active, q_low, broken)
        self._rows: dict[str, Any] = {
            name: None if value is None and name not in ("q", "qd") else _given(name, value, simulator)
            for name, value in zip(RECORDED, rows, strict=True)
        }
        self.impulses = impulses
        self.steps = q.shape[0] - 1 if steps is None else steps
        self.checkpoint_interval = checkpoint_interval
        self.parameters = simulator.engine.parameters.values
        self._fingerprint: AnyArray | None = None
        self._kept: KeptRollout | None = None

    def __repr__(self) -> str:
        steps, worlds = counted(self.steps, "step"), counted(self.simulator.num_worlds, "world")
        stored = f", checkpoint_interval {self.checkpoint_interval}" if self.checkpoint_interval > 1 else ""
        shapes = f"q {list(self.q.shape)}, qd {list(self.qd.shape)}, {self.q.dtype.__name__} on {self.q.device}"
        return f"Trajectory({steps} of {self.simulator.dt:g} s{stored}, {worlds}, {shapes})"

    def _repr_html_(self) -> str:
        q = self.q[:, 0].numpy()
        return table_of_joints(repr(self), self.simulator.model, q[0], q[-1])

    def plot(self, world: int = 0, *, velocities: bool = False) -> Any:
        """Plot the motion of one world, joint by joint, as a figure of matplotlib.

        Args:
            world: the world.
            velocities: plot velocities instead of coordinates.

        Raises:
            ModelError: for a world that isn't there, or without matplotlib, which the extra ``plot`` installs.
        """
        if not (is_whole(world, 0) and world < self.simulator.num_worlds):
            raise ModelError(f"plot: there is no world {world!r}; they go from 0 to {self.simulator.num_worlds - 1}")
        require_flags("plot", velocities=velocities)
        values = (self.qd if velocities else self.q)[:, world].numpy()
        return figure_of_joints(self.simulator.model, self.time, values, velocities=velocities)

    def __reduce__(self) -> tuple[Any, ...]:
        warm = (None, None) if self.impulses is None else (self.impulses.value, self.impulses.key)
        outputs = (
            self.bad_state,
            self.contact_force,
            self.act,
            self.stages,
            self.solved,
            self.kinematic_qd,
            self.active,
            self.q_low,
            self.broken,
        )
        fingerprint = None if self._fingerprint is None else as_warp(self._fingerprint)
        arrays = (fingerprint, self.q, self.qd, self.tau, self.control, *warm, *outputs)
        further = {"parameters": self.parameters}
        return _trajectory, (self.simulator, self.steps, self.checkpoint_interval, *map(pack, arrays)), further

    @property
    def stored_steps(self) -> np.ndarray:
        """Return the steps before which states are stored, in order; the last is the number of steps."""
        return np.minimum(np.arange(self.q.shape[0]) * self.checkpoint_interval, self.steps)

    @property
    def time(self) -> np.ndarray:
        """Return the times of the stored states [s], starting at zero."""
        return self.simulator.dt * self.stored_steps

    @property
    def final_state(self) -> State:
        """Return the last state, as views."""
        return self.state(self.steps)

    def state(self, step: int) -> State:
        """Return the state before a step, or the last one, as views.

        Raises:
            ModelError: for a step whose state isn't stored.
        """
        if not (is_whole(step, 0) and step <= self.steps) or (step % self.checkpoint_interval and step != self.steps):
            raise ModelError(
                f"the state before step {step!r} is not stored: {self.steps} steps, checkpoint_interval "
                f"{self.checkpoint_interval}; trajectory.stored_steps lists those that are"
            )
        row = -(-step // self.checkpoint_interval)
        impulses = None
        if self.impulses is not None:
            impulses = Impulses(self.impulses.value[row], self.impulses.key[row])
        further = (None if rows is None else rows[row] for rows in (self.act, self.q_low, self.broken))
        return State.of_rows(self.q[row], self.qd[row], impulses, *further)

    @classmethod
    def of(cls, recording: Recording, simulator: SimulatorLike) -> "Trajectory":
        """Return a trajectory of Warp arrays from the recording of a rollout."""
        records, warm = recording.records, None
        if records.impulse is not None and records.key is not None:
            warm = Impulses(as_warp(records.impulse), as_warp(records.key))
        arrays = {name: getattr(records, name) for name in RECORDED}
        length: dict[str, Any] = {"steps": recording.steps, "checkpoint_interval": recording.interval}
        trajectory = cls(simulator, **arrays, impulses=warm, **length)
        trajectory.parameters, trajectory._kept = recording.parameters, recording.kept
        return trajectory

    def recording(self) -> Recording:
        """Return the recording of this trajectory, on the arrays that it has."""
        rows = self._rows
        records: Records[AnyArray] = Records(rows["q"], rows["qd"])
        for name in RECORDED:
            setattr(records, name, rows[name])
        if self.impulses is not None:
            records.impulse, records.key = self.impulses.value, self.impulses.key
        length = self.steps, self.checkpoint_interval
        return Recording(self.simulator.engine, records, *length, self.parameters, self._kept)

    @serialized
    def backward(
        self,
        q_grad: ArrayLike | None = None,
        qd_grad: ArrayLike | None = None,
        parameters: Iterable[str] = (),
        impulse_grad: ArrayLike | None = None,
        *,
        contact_force_grad: ArrayLike | None = None,
        act_grad: ArrayLike | None = None,
        leave_out_bad_worlds: bool = False,
    ) -> Gradients:
        """Return the gradients of a loss, given its direct derivatives in the states.

        The backward pass recomputes each step from its stored state, bit for bit as before, and applies its adjoint.
        States that aren't stored are recomputed first, one interval at a time.
        Parameters have the values of the rollout, even if they were set since then.

        Args:
            q_grad: derivative of the loss in every stored q, in the shape of ``q``, or in the last one, [num_worlds,
                nq]. Default: zeros.
            qd_grad: the same for qd.
            parameters: names of the parameters whose gradients to compute (:data:`sim.model.parameters.PARAMETERS`).
            impulse_grad: derivative of the loss in every ``impulses.value`` or in the last one, with a warm start.
            contact_force_grad: derivative of the loss in ``contact_force``, in its shape.
            act_grad: derivative of the loss in every stored ``act`` or in the last one.
            leave_out_bad_worlds: set gradients of worlds whose states or gradients aren't finite to zero, so that they
                don't spoil gradients of shared parameters.

        Raises:
            ModelError: for wrong shapes or unknown parameters, if the states or inputs have been changed since the
                rollout, and for arrays of a trajectory made by hand that aren't those of a rollout in type and shape.
            FloatingPointError: with ``check_finite``, naming the step and world where a gradient first isn't finite.

        Example:
            >>> import numpy as np
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> ground = scene.add_ground(surface=sim.Surface(friction=0.5))
            >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.0999))
            >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
            >>> state = simulator.state(simulator.model.q0, [1.0, 0, 0, 0, 0, 0])
            >>> trajectory = simulator.rollout(state, steps=24)
            >>> last_x = np.array([[1.0, 0, 0, 0, 0, 0, 0]])
            >>> gradients = trajectory.backward(last_x, parameters=["friction"])
            >>> round(float(gradients.qd.numpy()[0, 0]), 2)  # d x / d v after 0.1 s, still sliding [s]
            0.1
        """
        found = self.gradients(
            q_grad, qd_grad, parameters, impulse_grad, contact_force_grad=contact_force_grad,
            act_grad=act_grad, leave_out_bad_worlds=leave_out_bad_worlds,
        )  # fmt: skip
        on_host = {
            name: value.numpy().reshape(self.parameters[name].shape) if isinstance(value, wp.array) else value
            for name, value in found.parameters.items()
        }
        return replace(found, parameters=on_host)

    @serialized
    def gradients(
        self,
        q_grad: ArrayLike | None = None,
        qd_grad: ArrayLike | None = None,
        parameters: Iterable[str] = (),
        impulse_grad: ArrayLike | None = None,
        *,
        contact_force_grad: ArrayLike | None = None,
        act_grad: ArrayLike | None = None,
        solved_grad: ArrayLike | None = None,
        leave_out_bad_worlds: bool = False,
    ) -> Gradients:
        """Return gradients as :meth:`backward` does; on CUDA those of parameters are Warp arrays, without
        synchronisation.

        ``solved_grad`` is the derivative of the loss in ``solved``, in its shape.
        """
        require_flags("backward", leave_out_bad_worlds=leave_out_bad_worlds)
        names = self.simulator.engine.parameters.names(names_in("parameters", parameters))
        self._require_unchanged()
        loss = self._loss_gradient(q_grad, qd_grad, impulse_grad, contact_force_grad, act_grad, solved_grad)
        found = self.recording().gradients(loss, names, leave_out_bad_worlds)
        tau, control, impulses, act, kinematic_qd = (
            None if rows is None else as_warp(rows)
            for rows in (found.tau, found.control, found.impulses, found.act, found.kinematic_qd)
        )
        q, qd = as_warp(found.q), as_warp(found.qd)
        return Gradients(q, qd, tau, control, found.parameters, impulses, act, kinematic_qd)

    def remember(self) -> None:
        """Copy the inputs, which belong to the caller, and make :meth:`backward` detect states that were changed."""
        if self._fingerprint is None:
            for name in INPUTS:
                given = self._rows[name]
                if given is not None:
                    self._rows[name] = copied(given)
            self._fingerprint = self.recording().fingerprint()

    def _require_unchanged(self) -> None:
        require_no_capture(self.simulator.device)  # a captured graph would compute the hashes only later
        recording, before = self.recording(), self._fingerprint
        recording.require_arrays()
        if before is not None and not np.array_equal(before.numpy(), recording.fingerprint().numpy()):
            raise ModelError(
                "backward: states or inputs of the trajectory were changed after the rollout, so that its steps can't "
                "be recomputed; change copies instead"
            )

    @serialized
    def gradient_norms(self, q_grad: ArrayLike | None = None, qd_grad: ArrayLike | None = None) -> GradientNorms:
        """Return norms of the derivative of a loss in every state, to see at which state it explodes or vanishes.

        This costs as much as :meth:`backward`. Values that aren't finite raise no error.

        Args:
            q_grad: derivative of the loss in every q or in the last one, as for :meth:`backward`.
            qd_grad: the same for qd.

        Raises:
            ModelError: for wrong shapes.
        """
        shape = (self.steps + 1, self.simulator.num_worlds, 2)
        norms = wp.empty(shape, dtype=self.q.dtype, device=self.q.device)
        self._require_unchanged()
        first_state = self.recording().walk_back(self._loss_gradient(q_grad, qd_grad), frozenset(), norms=norms)
        values = np.empty(shape)
        values[1:] = norms.numpy()[1:]  # the first row is uninitialised memory
        for part, first in enumerate((first_state.q, first_state.qd)):
            values[0, :, part] = np.linalg.norm(first.numpy().astype(np.float64), axis=1)
        return GradientNorms(values[..., 0], values[..., 1], tuple(range(self.simulator.num_worlds)))

    def _loss_gradient(
        self,
        q_grad: ArrayLike | None,
        qd_grad: ArrayLike | None,
        impulse_grad: ArrayLike | None = None,
        contact_force_grad: ArrayLike | None = None,
        act_grad: ArrayLike | None = None,
        solved_grad: ArrayLike | None = None,
    ) -> LossGradient:
        """Return the derivatives of the loss, checked; see :meth:`backward`."""
        last_q, every_q = self._direct(q_grad, self.q, "q_grad")
        last_qd, every_qd = self._direct(qd_grad, self.qd, "qd_grad")
        return LossGradient(
            last_q,
            last_qd,
            q=every_q,
            qd=every_qd,
            impulse=self._direct_impulses(impulse_grad),
            act=self._direct_further(act_grad, self.act, "act_grad", "a model whose actuators have states"),
            contact_force=self._direct_reading(
                contact_force_grad, self.contact_force, "contact_force_grad", "a simulator with contact_sensors"
            ),
            solved=self._direct_reading(solved_grad, self.solved, "solved_grad", "a rollout that keeps it"),
        )

    def _direct_impulses(self, value: Any) -> wp.array | None:
        states = None if self.impulses is None else self.impulses.value
        return self._direct_further(value, states, "impulse_grad", "a simulator whose contact has warm_start=True")

    def _direct_further(self, value: Any, states: wp.array | None, name: str, needs: str) -> wp.array | None:
        """Return the derivative in a part of every state; that in the last state alone is preceded by zeros."""
        if states is None:
            if value is not None:
                raise ModelError(f"{name} needs {needs}")
            return None
        last, every = self._direct(value, states, name)
        if last is None:
            return every
        every = wp.zeros_like(states, requires_grad=False)
        wp.copy(every[every.shape[0] - 1], last)
        return every

    def _direct_reading(
        self, value: ArrayLike | None, readings: wp.array | None, name: str, needs: str
    ) -> wp.array | None:
        """Return the derivative in a reading of every step."""
        if value is None:
            return None
        if readings is None:
            raise ModelError(f"{name} needs {needs}")
        value = value if isinstance(value, wp.array) else as_numbers(name, value)
        array = self.simulator.engine.batches.array(value, len(readings.shape), name)
        if array.shape != readings.shape:
            raise ModelError(f"{name} has shape {tuple(array.shape)}; expected {tuple(readings.shape)}")
        return array

    def _direct(self, value: Any, like: wp.array, name: str) -> tuple[wp.array | None, wp.array | None]:
        """Return the derivative in the last state and that in every state; None for the one not given."""
        if value is None:
            return None, None
        value = value if isinstance(value, wp.array) else as_numbers(name, value)
        array = self.simulator.engine.batches.array(value, len(value.shape), name)
        if array.shape == like.shape:
            return None, array
        if array.shape == like.shape[1:]:
            return array, None
        expected = f"{tuple(like.shape)} or {tuple(like.shape[1:])}"
        raise ModelError(f"{name} has shape {tuple(array.shape)}; expected {expected}")


def _trajectory(simulator: SimulatorLike, steps: int, interval: int, *packed: PackedArray | None) -> Trajectory:
    """Return a trajectory from packed arrays, on new arrays."""
    fingerprint, q, qd, tau, control, value, key, *further = map(unpack, packed)
    impulses = None if value is None else Impulses(value, key)
    trajectory = Trajectory(simulator, q, qd, tau, control, impulses, steps, interval, *further)
    trajectory._fingerprint = fingerprint
    return trajectory


def _given(name: str, value: object, simulator: SimulatorLike) -> AnyArray:
    """Return an array of a trajectory; one of NumPy as one on the simulator's device."""
    if isinstance(value, np.ndarray):
        return wp.array(value, device=simulator.device)
    if isinstance(value, AnyArray):
        return value
    raise ModelError(
        f"Trajectory: {name} is a {type(value).__name__}; it must be an array of Warp or NumPy, as a rollout has it"
    )
