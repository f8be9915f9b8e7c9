"""How the states of actuators follow their inputs, and what goes into the laws of force; differentiated by Warp's own adjoint.

An actuator with the state w and the input u, clamped to its range, has the rate ``w' = u`` as an integrator and ``w' = (u - w) / T`` as a
filter. A step of h adds ``h w'``; the exact step of a filter adds ``T (1 - exp(-h / T)) w'``. Then w is clamped to its range. The force is that of
w before the step, or after it where the actuator is early. (MuJoCo's documentation, *Computation*, "Actuation model".)
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import EXACT_FILTER, INTEGRATOR, kernel_module

# MuJoCo's least time constant [s].
SHORTEST = 1e-15


@functools.cache
def activation_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision over (actuator, world), and one over (state, world)."""
    common = row_functions(scalar)
    module = kernel_module("activation", scalar, inlined=True)
    one = scalar(1.0)

    @wp.func
    def lag(actuator_time_constant: wp.array2d(dtype=scalar), world: int, i: int):
        return wp.max(common.value_of(actuator_time_constant, world, i), scalar(SHORTEST))

    @wp.kernel(module=module)
    def activation_rates(
        # Model
        actuator_state: wp.array(dtype=int),
        actuator_dynamics: wp.array(dtype=int),
        # Parameters
        actuator_control_lower: wp.array2d(dtype=scalar),
        actuator_control_upper: wp.array2d(dtype=scalar),
        actuator_time_constant: wp.array2d(dtype=scalar),
        # Data in
        given_control: wp.array2d(dtype=scalar),
        act: wp.array2d(dtype=scalar),
        # Data out
        control: wp.array2d(dtype=scalar),
        act_rate: wp.array2d(dtype=scalar),
    ):
        """act_rate: [world, state]; control: what goes into the law of an actuator without a state [world, actuator]."""
        i, world = wp.tid()
        lower = common.value_of(actuator_control_lower, world, i)
        u = common.held_within(given_control[world, i], lower, common.value_of(actuator_control_upper, world, i))
        at = actuator_state[i]
        if at < 0:
            control[world, i] = u
        elif actuator_dynamics[i] == INTEGRATOR:
            act_rate[world, at] = u
        else:
            act_rate[world, at] = (u - act[world, at]) / lag(actuator_time_constant, world, i)

    @wp.kernel(module=module)
    def activate(
        # Model
        actuator_state: wp.array(dtype=int),
        actuator_dynamics: wp.array(dtype=int),
        actuator_early: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        actuator_time_constant: wp.array2d(dtype=scalar),
        actuator_act_lower: wp.array2d(dtype=scalar),
        actuator_act_upper: wp.array2d(dtype=scalar),
        # Data in
        act: wp.array2d(dtype=scalar),
        act_rate: wp.array2d(dtype=scalar),
        # Data out
        control: wp.array2d(dtype=scalar),
        act_next: wp.array2d(dtype=scalar),
    ):
        """act_next: the states after the step [world, state]; control: as in ``activation_rates``, of those with a state."""
        i, world = wp.tid()
        at = actuator_state[i]
        if at < 0:
            return
        time = dt
        if actuator_dynamics[i] == EXACT_FILTER:
            constant = lag(actuator_time_constant, world, i)
            time = constant * (one - wp.exp(-dt / constant))
        lower = common.value_of(actuator_act_lower, world, i)
        after = act[world, at] + time * act_rate[world, at]
        after = common.held_within(after, lower, common.value_of(actuator_act_upper, world, i))
        act_next[world, at] = after
        if actuator_early[i] == 1:
            control[world, i] = after
        else:
            control[world, i] = act[world, at]

    @wp.kernel(module=module)
    def copy_activations(
        # Data in
        act_from: wp.array2d(dtype=scalar),
        # Data out
        act_to: wp.array2d(dtype=scalar),
    ):
        """Over (state, world): states, or rates. A copy by Warp itself would take gradients along."""
        at, world = wp.tid()
        act_to[world, at] = act_from[world, at]

    @wp.kernel(module=module)
    def advance_activations(
        # Model
        dt: scalar,
        share: scalar,
        # Data in
        act_first: wp.array2d(dtype=scalar),
        act_rate: wp.array2d(dtype=scalar),
        # Data out
        act_there: wp.array2d(dtype=scalar),
    ):
        """Over (state, world): the state at a stage of a Runge-Kutta step."""
        at, world = wp.tid()
        act_there[world, at] = act_first[world, at] + share * dt * act_rate[world, at]

    return SimpleNamespace(
        module=module,
        activation_rates=activation_rates,
        activate=activate,
        copy_activations=copy_activations,
        advance_activations=advance_activations,
    )
