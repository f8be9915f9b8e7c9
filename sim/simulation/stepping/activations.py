"""Stages of a step for the states of actuators."""

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from sim.arrays.allocation import integer_array, zeros
from sim.arrays.device_model import DeviceModel
from warp_kernels.activation import activation_checkpoint_kernels, activation_kernels

if TYPE_CHECKING:
    from sim.simulation.stepping.workspace import Workspace


class Activations:
    """Arrays of actuator states for one step, without rows if no actuator has a state.

    Attributes:
        act, act_next: states before and after the step [num_worlds, na].
        act_rate: rates of the states [num_worlds, na].
        given_control: inputs as given [num_worlds, nu]; ``control`` of the step is the input of the force laws.
        unbounded: bounds of the inputs of the force laws [1, nu]: infinite, because inputs are clamped before.
    """

    def __init__(self, device_model: DeviceModel, control: wp.array):
        model = device_model.model
        self._device, self._scalar, self._num_worlds = device_model.device, model.scalar, device_model.num_worlds
        self.na, self._nu = model.na, model.nu
        self.actuator_state = self._integers(model.actuator_state)
        self.actuator_dynamics = self._integers(model.actuator_dynamics)
        self.actuator_early = self._integers(model.actuator_early)
        self.act, self.act_next, self.act_rate = (
            zeros((self._num_worlds, self.na), self._scalar, self._device) for _ in range(3)
        )
        self.given_control = wp.zeros_like(control) if self.na else control
        self.unbounded = {}
        if self.na:
            for side, bound in (("lower", -np.inf), ("upper", np.inf)):
                self.unbounded[f"control_{side}"] = wp.full(
                    (1, self._nu), bound, dtype=self._scalar, device=self._device
                )

    @property
    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.act, self.act_rate, self.given_control] if self.na else []

    def load(self, step: "Workspace") -> None:
        """Read the states at the cursor."""
        if self.na:
            kernel = activation_checkpoint_kernels(self._scalar).load_activations
            self._launch(step, kernel, self._num_worlds, tape=False)

    def store(self, step: "Workspace") -> None:
        """Write the next states."""
        if self.na:
            kernel = activation_checkpoint_kernels(self._scalar).store_activations
            self._launch(step, kernel, self._num_worlds, tape=False)

    def activate(self, step: "Workspace") -> None:
        """Compute the inputs of the force laws and the next states; recorded on an active tape."""
        if self.na:
            dim = (self._nu, self._num_worlds)
            self._launch(step, activation_kernels(self._scalar).activation_rates, dim)
            self._launch(step, activation_kernels(self._scalar).activate, dim)

    def finish(self, step: "Workspace", act: wp.array, rate: wp.array, control: wp.array) -> None:
        """Compute the next states from those before and a mean rate [num_worlds, na]; ``control`` receives unused
        output.
        """
        if self.na:
            kernel, dim = activation_kernels(self._scalar).activate, (self._nu, self._num_worlds)
            self._launch(step, kernel, dim, act=act, act_rate=rate, control=control)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the backward pass."""
        if self.na:
            self.act_next.requires_grad = True
        self.accumulated_act_bar = zeros(self.act.shape, self._scalar, self._device)

    def load_adjoint(self, step: "Workspace") -> None:
        """Read the adjoint of the next states at the cursor."""
        if self.na:
            kernel = activation_checkpoint_kernels(self._scalar).load_activation_adjoint
            self._launch(step, kernel, self._num_worlds, tape=False)

    def store_adjoint(self, step: "Workspace") -> None:
        """Store the adjoint of the states for the previous step."""
        if self.na:
            kernel = activation_checkpoint_kernels(self._scalar).store_activation_adjoint
            self._launch(step, kernel, self._num_worlds, tape=False)

    def _launch(self, step: "Workspace", kernel: wp.Kernel, dim: Any, *, tape: bool = True, **named: Any) -> None:
        step.launch(kernel, dim, self, tape=tape, **named)

    def _integers(self, values: np.ndarray) -> wp.array:
        return integer_array(values, self._device)
