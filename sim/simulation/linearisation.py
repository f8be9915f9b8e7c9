"""The derivatives of a step as matrices, in tangent coordinates: what iterative LQR and Kalman filters need."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from sim.dynamics.kinematics import difference, integrate
from sim.model.model import Model
from sim.model.parameters import number_of_dims
from sim.simulation.batches import ArrayLike
from sim.simulation.state import State
from sim.simulation.trajectory import Gradients, Trajectory
from sim.simulation.worlds import Worlds


@dataclass(frozen=True)
class Linearisation:
    """To first order ``dx+ = A dx + B_tau dtau + B_control dcontrol``, about one state of each world.

    A state's change dx is [2 nv]: a tangent of q, as :func:`sim.difference` gives it, with the axes of velocities;
    then the change of qd.

    Attributes:
        A: derivative in the state [num_worlds, 2 nv, 2 nv].
        B_tau: derivative in the joint forces [num_worlds, 2 nv, nv].
        B_control: derivative in the inputs of the actuators [num_worlds, 2 nv, nu].
        next_state: the state after the step.
    """

    A: np.ndarray
    B_tau: np.ndarray
    B_control: np.ndarray
    next_state: State


class Lineariser:
    """Takes the step back in copies of each world, from another component of the next velocity in each.

    The next coordinates follow from the next velocity. Only where contacts may bounce, they move along another one:
    then there is a copy for each of them too.

    Args:
        simulator: whose steps these are; its parameters are looked at before each of them.
    """

    def __init__(self, simulator: Worlds):
        self.simulator = simulator
        self.bouncing = simulator.bouncing
        self.copies = (2 if self.bouncing else 1) * simulator.model.nv
        self._given = simulator.parameter_values()
        contact, device = simulator.contact, simulator.device
        count = simulator.num_worlds * self.copies
        values = {name: self._copied(name, value) for name, value in self._given.items()}
        self._worlds = type(simulator)(
            simulator.model, simulator.dt, count, device, contact, values, threads=simulator.threads
        )

    def __call__(
        self, next_state: State, state: State, tau: ArrayLike | None, control: ArrayLike | None
    ) -> Linearisation:
        """The derivatives of one step, whose result is known; see :meth:`sim.Simulator.linearise`."""
        self._take_parameters()
        one, model = self.simulator, self.simulator.model
        shape = (one.num_worlds, self.copies, -1)
        q = one.batches.of_worlds(state.q, model.nq, "state.q")
        qd = one.batches.of_worlds(state.qd, model.nv, "state.qd")
        before = self._worlds.state(self._repeated(q), self._repeated(qd))
        back = self._way_back(before, next_state, tau, control)
        assert back.tau is not None
        assert back.control is not None
        in_q = _gradient_of_tangent(model, before.q, back.q)
        found = [in_q, back.qd.numpy(), back.tau.numpy()[0], back.control.numpy()[0].reshape(len(in_q), model.nu)]
        columns = [part.reshape(*shape[:2], part.shape[-1]) for part in found]
        if self.bouncing:
            positions, velocities = zip(*(np.split(part, 2, axis=1) for part in columns), strict=True)
        else:
            velocities = tuple(columns)
            positions = self._along_velocities(before, next_state, velocities)
        whole = [np.concatenate(rows, axis=1) for rows in zip(positions, velocities, strict=True)]
        return Linearisation(np.concatenate(whole[:2], axis=-1), whole[2], whole[3], next_state)

    def _way_back(
        self, before: State, next_state: State, tau: ArrayLike | None, control: ArrayLike | None
    ) -> Gradients:
        """Gradients of the components of the next state, one in each copy."""
        one, many, model = self.simulator, self._worlds, self.simulator.model
        nv = model.nv
        forces = many.batches.of_steps(self._inputs(one.batches.of_one_step(tau, nv, "tau"), nv), nv, "tau")
        given = self._inputs(one.batches.of_one_step(control, model.nu, "control"), model.nu)
        controls = many.batches.of_steps(given, model.nu, "control")
        components = np.tile(np.eye(self.copies), (one.num_worlds, 1))
        seeds = None
        if self.bouncing:
            seeds = _gradient_of_difference(model, self._copies_of(next_state.q), components[:, :nv])
        q, qd = self._both(before.q, next_state.q), self._both(before.qd, next_state.qd)
        trajectory = Trajectory(many, q, qd, forces, controls)
        return trajectory.backward(seeds, components[:, -nv:])

    def _along_velocities(
        self, before: State, next_state: State, velocities: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """Rows of the next coordinates from those of the next velocities [num_worlds, nv, columns], q first."""
        model, worlds = self.simulator.model, self.simulator.num_worlds
        components = np.tile(np.eye(model.nv), (worlds, 1))
        seeds = _gradient_of_difference(model, self._copies_of(next_state.q), components)
        q, qd = (wp.clone(array, requires_grad=True) for array in (before.q, self._copies_of(next_state.qd)))
        with wp.Tape() as tape:
            moved = integrate(model, q, qd, self.simulator.dt)
        tape.backward(grads={moved: seeds})
        in_q = _gradient_of_tangent(model, before.q, q.grad).reshape(worlds, model.nv, model.nv)
        in_qd = qd.grad.numpy().reshape(worlds, model.nv, model.nv)
        rows = [in_qd @ part for part in velocities]
        return (in_q + rows[0], *rows[1:])

    def _take_parameters(self) -> None:
        present = self.simulator.parameter_values()
        for name, value in present.items():
            if value is not self._given[name]:
                self._worlds.set_parameter(name, self._copied(name, value))
        self._given = present

    def _copied(self, name: str, value: np.ndarray) -> np.ndarray:
        """A parameter for the copies: one that is given per world is repeated."""
        per_world = value.ndim > number_of_dims(name)
        return np.repeat(value, self.copies, axis=0) if per_world else value

    def _inputs(self, given: wp.array | None, size: int) -> np.ndarray:
        """Inputs of one step for the copies, zeros where none are given: their gradient is wanted all the same."""
        if given is None:
            return np.zeros((1, self._worlds.num_worlds, size))
        return self._repeated(given)

    def _both(self, before: wp.array, after: wp.array) -> wp.array:
        """The rows of a trajectory of one step, of copies [copies, n] and of what follows in each world."""
        rows = np.stack([before.numpy(), self._repeated(after)])
        return wp.array(rows, dtype=before.dtype, device=before.device)

    def _copies_of(self, array: wp.array) -> wp.array:
        """An array [num_worlds, n] for the copies, on the device."""
        return wp.array(self._repeated(array), dtype=array.dtype, device=array.device)

    def _repeated(self, array: wp.array) -> np.ndarray:
        """An array [num_worlds, n] or [1, num_worlds, n] for the copies."""
        return np.repeat(array.numpy(), self.copies, axis=-2)


def _gradient_of_difference(model: Model, q: wp.array, tangent_bar: np.ndarray) -> wp.array:
    """Adjoint of coordinates [n, nq] for that of a small tangent from q [n, nv]."""
    moved = wp.clone(q, requires_grad=True)
    with wp.Tape() as tape:
        tangent = difference(model, q, moved)
    tape.backward(grads={tangent: wp.array(tangent_bar, dtype=q.dtype, device=q.device)})
    return moved.grad


def _gradient_of_tangent(model: Model, q: wp.array, q_bar: wp.array) -> np.ndarray:
    """Adjoint of a small tangent from q [n, nv] for that of the coordinates [n, nq]."""
    tangent = wp.zeros((q.shape[0], model.nv), dtype=q.dtype, device=q.device, requires_grad=True)
    with wp.Tape() as tape:
        moved = integrate(model, q, tangent)
    tape.backward(grads={moved: q_bar})
    return np.asarray(tangent.grad.numpy())
