"""Stages of a step for the states of actuators."""

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array, zeros
from sim.arrays.device_model import DeviceModel
from sim.model.model import Model
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from warp_kernels.actuators.activation import activation_checkpoint_kernels, activation_kernels
from warp_kernels.actuators.delays import delay_kernels
from warp_kernels.actuators.motors import motor_kernels
from warp_kernels.actuators.muscles import NO_MUSCLE, ON_JOINT, ON_TENDON, muscle_kernels, muscle_structs
from warp_kernels.types import CURRENT, MUSCLE, MUSCLE_FILTER, PID

if TYPE_CHECKING:
    from sim.simulation.stepping.workspace import Workspace


class Activations:
    """Arrays of actuator states for one step, without rows if no actuator has a state.

    Attributes:
        act, act_next: states before and after the step [num_worlds, na].
        act_rate: rates of the states [num_worlds, na].
        given_control: inputs as given [num_worlds, nu]; ``control`` of the step is the input of the force laws.
        delayed_control: inputs after their delays [num_worlds, nu].
        excitation: inputs of muscles and of the force laws of other actuators [num_worlds, nu].
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
        self._currents, self._integrals = (bool((model.actuator_dynamics == kind).any()) for kind in (CURRENT, PID))
        self._has_states = bool((model.actuator_state >= 0).any())
        self._find_muscles(model)
        self._delays = bool(model.delay_samples.any())
        self.delay_samples, self.delay_state = (
            self._integers(each if self._delays else np.zeros(0)) for each in (model.delay_samples, model.delay_state)
        )
        self._active = bool(self.na) or self._has_muscles
        self.given_control = wp.zeros_like(control) if self._active else control
        self.delayed_control = wp.zeros_like(control) if self._delays else self.given_control
        self.excitation = wp.zeros_like(control) if self._has_muscles else control
        self.unbounded = {}
        if self._active:
            for side, bound in (("lower", -np.inf), ("upper", np.inf)):
                self.unbounded[f"control_{side}"] = wp.full(
                    (1, self._nu), bound, dtype=self._scalar, device=self._device
                )

    def _find_muscles(self, model: Model) -> None:
        muscle = model.actuator_kind == MUSCLE
        on_tendon = model.actuator_tendon >= 0
        self._has_muscles, self._on_tendons = bool(muscle.any()), bool((muscle & on_tendon).any())
        self._muscle_states = bool((model.actuator_dynamics == MUSCLE_FILTER).any())
        self.actuator_muscle = self._integers(np.where(muscle, np.where(on_tendon, ON_TENDON, ON_JOINT), NO_MUSCLE))
        self.actuator_tendon = self._integers(model.actuator_tendon)

    @property
    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        states = [self.act, self.act_rate] if self.na else []
        inputs = [self.given_control] if self._active else []
        inputs += [self.delayed_control] if self._delays else []
        return [*states, *inputs, *([self.excitation] if self._has_muscles else [])]

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
        if not self._active:
            return
        kernels, dim = activation_kernels(self._scalar), (self._nu, self._num_worlds)
        if self._delays:
            self._launch(step, delay_kernels(self._scalar).delay_inputs, dim)
        u = self.delayed_control
        self._launch(step, kernels.activation_rates, dim, given_control=u, control=self.excitation)
        if self._muscle_states:
            self._launch(step, muscle_kernels(self._scalar).muscle_rates, dim, given_control=u)
        if self._currents:
            self._launch(step, motor_kernels(self._scalar).current_rates, dim, given_control=u)
        if self._integrals:
            self._launch(step, motor_kernels(self._scalar).integral_rates, dim, given_control=u)
        if self._has_states:
            self._launch(step, kernels.activate, dim, control=self.excitation)
        if self._integrals:
            kernel = motor_kernels(self._scalar).integral_inputs
            self._launch(step, kernel, dim, given_control=u, control=self.excitation)
        if self._has_muscles:
            self._launch(step, muscle_kernels(self._scalar).pull_joints, dim, muscles=_muscles(step))

    def pull_tendons(self, step: "Workspace") -> None:
        """Compute the forces of muscles on tendons from their lengths and rates; recorded on an active tape."""
        if self._on_tendons:
            kernel, dim = muscle_kernels(self._scalar).pull_tendons, (self._nu, self._num_worlds)
            self._launch(step, kernel, dim, muscles=_muscles(step))

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


def _muscles(step: "Workspace") -> Any:
    """Return the parameters of muscles."""
    arrays = {name: step.parameters[parameter] for name, parameter in MUSCLE_PARAMETERS.items()}
    return fill(muscle_structs(step.scalar).Muscles, **arrays)
