"""The derivatives of a step as matrices, in tangent coordinates: what iterative LQR and Kalman filters need."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from sim.dynamics.kinematics import difference, integrate
from sim.model.model import Model
from sim.model.parameters import number_of_dims
from sim.simulation.batches import ArrayLike
from sim.simulation.state import State
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
    """Takes a step in 2 nv copies of each world, and goes back from another component of the next state in each.

    Args:
        simulator: whose steps these are; its parameters are looked at before each of them.
    """

    def __init__(self, simulator: Worlds):
        self.simulator = simulator
        self.copies = 2 * simulator.model.nv
        self._given = simulator.parameter_values()
        contact, device = simulator.contact, simulator.device
        count = simulator.num_worlds * self.copies
        values = {name: self._copied(name, value) for name, value in self._given.items()}
        self._worlds = type(simulator)(simulator.model, simulator.dt, count, device, contact, values)

    def __call__(self, state: State, tau: ArrayLike | None, control: ArrayLike | None) -> Linearisation:
        """The derivatives of one step; arguments as for :meth:`sim.Simulator.linearise`."""
        self._take_parameters()
        one, many, model = self.simulator, self._worlds, self.simulator.model
        worlds, nv = one.num_worlds, model.nv
        q, qd = one.batches.of_worlds(state.q, model.nq, "state.q"), one.batches.of_worlds(state.qd, nv, "state.qd")
        before = many.state(self._repeated(q), self._repeated(qd))
        forces = self._inputs(one.batches.of_one_step(tau, nv, "tau"), nv)
        controls = self._inputs(one.batches.of_one_step(control, model.nu, "control"), model.nu)
        trajectory = many.rollout(before, forces, 1, control=controls)
        q_next, qd_next = trajectory.final_state.q, trajectory.final_state.qd
        components = np.tile(np.eye(self.copies), (worlds, 1))
        seeds = _gradient_of_difference(model, q_next, components[:, :nv])
        back = trajectory.backward(seeds, components[:, nv:])
        parts = [_gradient_of_tangent(model, before.q, back.q), back.qd.numpy()]
        shape = (worlds, self.copies, -1)
        first = slice(None, None, self.copies)
        return Linearisation(
            A=np.concatenate([part.reshape(shape) for part in parts], axis=-1),
            B_tau=back.tau.numpy()[0].reshape(shape),
            B_control=back.control.numpy()[0].reshape(worlds, self.copies, model.nu),
            next_state=one.state(q_next.numpy()[first], qd_next.numpy()[first]),
        )

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

    def _repeated(self, array: wp.array) -> np.ndarray:
        """An array [num_worlds, n] or [1, num_worlds, n] for the copies."""
        return np.repeat(array.numpy(), self.copies, axis=-2)


def _gradient_of_difference(model: Model, q: wp.array, tangent_bar: np.ndarray) -> np.ndarray:
    """Adjoint of coordinates [n, nq] for that of a small tangent from q [n, nv]."""
    moved = wp.clone(q, requires_grad=True)
    with wp.Tape() as tape:
        tangent = difference(model, q, moved)
    tape.backward(grads={tangent: wp.array(tangent_bar, dtype=q.dtype, device=q.device)})
    return np.asarray(moved.grad.numpy())


def _gradient_of_tangent(model: Model, q: wp.array, q_bar: wp.array) -> np.ndarray:
    """Adjoint of a small tangent from q [n, nv] for that of the coordinates [n, nq]."""
    tangent = wp.zeros((q.shape[0], model.nv), dtype=q.dtype, device=q.device, requires_grad=True)
    with wp.Tape() as tape:
        moved = integrate(model, q, tangent)
    tape.backward(grads={moved: q_bar})
    return np.asarray(tangent.grad.numpy())
