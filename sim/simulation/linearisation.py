"""Linearisation: derivatives of a step as matrices in tangent coordinates, for iterative LQR and Kalman filters."""

from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import warp as wp

from sim.arrays.host_memory import AnyArray
from sim.model.parameters import number_of_dims
from sim.simulation.batches import ArrayLike
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.first_state import first_broken
from sim.simulation.state import State
from sim.simulation.stepping.stages.kinematics import carrying
from warp_kernels.rollout.records import Records
from warp_kernels.types import PRESCRIBED_INERTIA

# About the number of threads that a GPU with 132 multiprocessors runs at a time, at 255 registers each.
THREADS_OF_A_GPU = 2**15


@dataclass(frozen=True)
class Linearisation:
    """First-order model ``dx+ = A dx + B_tau dtau + B_control dcontrol`` about one state of each world.

    A change of state dx is [n], n = 2 nv + na: a tangent of q as :func:`sim.difference` returns it, with the axes of
    velocities; then the change of qd; then that of the states of actuators.

    Attributes:
        A: derivative in the state [num_worlds, n, n].
        B_tau: derivative in the joint forces [num_worlds, n, nv].
        B_control: derivative in the inputs of the actuators [num_worlds, n, nu].
        next_state: the state after the step.
        B_kinematic: derivative in the velocities of kinematic joints [num_worlds, n, nk]; None if they weren't given.

    Example:
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> matrices = simulator.linearise(simulator.initial_state())
        >>> matrices.A.shape, matrices.B_tau.shape
        ((1, 14, 14), (1, 14, 7))
    """

    A: np.ndarray
    B_tau: np.ndarray
    B_control: np.ndarray
    next_state: State
    B_kinematic: np.ndarray | None = None


class Lineariser:
    """Step of the worlds, with its adjoint applied to each component of the next velocity.

    The next coordinates follow from the next velocity. Where contacts may bounce they follow from another velocity, so
    that the adjoint is also applied to each component of that. A GPU that the worlds don't fill applies several
    adjoints at a time, in copies of each world.

    Args:
        engine: engine of the worlds; each call uses its present parameters.
    """

    def __init__(self, engine: Engine):
        self.engine, settings = engine, engine.settings
        self.bouncing = engine.bouncing
        self.rows = (2 if self.bouncing else 1) * settings.model.nv + settings.model.na
        self.copies = copies_of_a_world(settings.device, settings.num_worlds, self.rows)
        self._copies = engine if self.copies == 1 else self._make_copies()

    def __call__(
        self,
        state: State,
        tau: ArrayLike | None,
        control: ArrayLike | None,
        kinematic_qd: ArrayLike | None,
        active: ArrayLike | None,
        next_state: State,
    ) -> Linearisation:
        """Return the derivatives of one step with a known result; see :meth:`sim.Simulator.linearise`."""
        if self.copies > 1:
            self._take_parameters()
        batches, model = self.engine.batches, self.engine.settings.model
        act = None if state.act is None else batches.of_worlds(state.act, model.na, "state.act")
        size = 2 * model.nv + model.na
        A, B_tau, B_control = (self._matrices(size, columns) for columns in (size, model.nv, model.nu))
        records: Records[AnyArray] = Records(
            self._repeated(batches.of_worlds(state.q, model.nq, "state.q")),
            self._repeated(batches.of_worlds(state.qd, model.nv, "state.qd")),
            act=self._repeated(act),
            broken=self._repeated(first_broken(self.engine, state.broken, state.own_broken)),
        )
        records.tau = self._repeated(batches.of_one_step(tau, model.nv, "tau"))
        records.control = self._repeated(batches.of_one_step(control, model.nu, "control"))
        records.kinematic_qd = self._repeated(batches.of_one_step(kinematic_qd, model.nk, "kinematic_qd"))
        records.active = self._repeated(batches.of_one_step(active, len(model.switch_names), "active"))
        records.state_rows, records.tau_rows, records.control_rows = A, B_tau, B_control
        for shard in self._copies.shards:
            shard.record_rows(self.copies)
        passes = -(-self.rows // self.copies)
        self._copies.run_backward(lambda shard: shard.run_rows(records, passes))
        found = A.numpy(), B_tau.numpy(), B_control.numpy()
        led = None if kinematic_qd is None else self._in_kinematic_velocities(*found[:2])
        return Linearisation(*found, next_state, led)

    def _in_kinematic_velocities(self, A: np.ndarray, B_tau: np.ndarray) -> np.ndarray:
        """Return the derivative in the given velocities, and remove that in the velocities which they replace from A.

        See :mod:`warp_kernels.rollout.prescribed`.
        """
        model, dt = self.engine.settings.model, self.engine.settings.dt
        of_state = model.nv + model.kinematic_dofs
        forced = PRESCRIBED_INERTIA / dt * B_tau[:, :, model.kinematic_dofs]
        found: np.ndarray = np.where(carrying(model), forced, A[:, :, of_state])
        A[:, :, of_state] -= found
        return found

    def _matrices(self, rows: int, columns: int) -> wp.array:
        """Return an uninitialised matrix for each world."""
        one = self.engine.settings
        return wp.empty((one.num_worlds, rows, columns), dtype=one.model.scalar, device=one.device)

    def _make_copies(self) -> Engine:
        """Return an engine with several copies of each world, in consecutive indices."""
        one = self.engine.settings
        self._given = self.engine.parameters.all_numbers()
        values = {name: self._copied(name, value) for name, value in self._given.items()}
        return Engine(replace(one, num_worlds=one.num_worlds * self.copies, contact_sensors=()), values)

    def _take_parameters(self) -> None:
        present, given = self.engine.parameters.all_numbers(), self._given
        new = {name: self._copied(name, value) for name, value in present.items() if value is not given[name]}
        self._copies.use(self._copies.parameters.changed(new))
        self._given = present

    def _copied(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return a parameter for the copies; values per world are repeated."""
        per_world = value.ndim > number_of_dims(name)
        return np.repeat(value, self.copies, axis=0) if per_world else value

    @overload
    def _repeated(self, array: wp.array) -> wp.array: ...

    @overload
    def _repeated(self, array: wp.array | None) -> wp.array | None: ...

    def _repeated(self, array: wp.array | None) -> wp.array | None:
        """Return an array [num_worlds, n] or [1, num_worlds, n], repeated for the copies."""
        if array is None or self.copies == 1:
            return array
        rows = np.repeat(array.numpy(), self.copies, axis=-2)
        return wp.array(rows, dtype=array.dtype, device=array.device)


def copies_of_a_world(device: wp.Device, worlds: int, rows: int) -> int:
    """Return how many rows of each world are computed in parallel.

    A CPU computes them one after the other, from one step. Copies of a world must be in one shard, where its rows are
    gathered; a GPU has only one shard.
    """
    if device.is_cpu:
        return 1
    return max(1, min(rows, THREADS_OF_A_GPU // worlds))
