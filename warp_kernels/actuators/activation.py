"""States of actuators: their dynamics, their contribution to forces, and their checkpoints along a trajectory.

An actuator with the state w and the input u, clamped to its range, has the rate ``w' = u`` as an integrator and ``w' =
(u - w) / T`` as a filter; for others see :mod:`warp_kernels.actuators.muscles` and :mod:`warp_kernels.actuators.motors`. A step of h adds ``h w'``; the exact
step of a filter adds ``T (1 - exp(-h / T)) w'``. Then w is clamped to its range. The force is that of w before the
step, or after it if the actuator is early. (MuJoCo's documentation, *Computation*, "Actuation model".) The adjoint of
this is Warp's own; :mod:`warp_kernels.rollout.checkpoint` keeps the rest of the state.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.rollout.checkpoint import STEP, checkpoint_kernels
from warp_kernels.rollout.checkpoint_rows import trajectory_row_functions
from warp_kernels.rollout.records import SLOT
from warp_kernels.types import CURRENT, EXACT_FILTER, FILTER, INTEGRATOR, PID, kernel_module

# MuJoCo's smallest time constant [s].
SHORTEST = 1e-15


@functools.cache
def activation_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (actuator, world), and one over (state, world)."""
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
        """Compute rates of states and inputs of force laws.

        act_rate: [world, state]; control: input of the law of an actuator without a state [world, actuator].
        """
        i, world = wp.tid()
        u = common.held_between(given_control[world, i], actuator_control_lower, actuator_control_upper, world, i)
        at = actuator_state[i]
        if at < 0:
            control[world, i] = u
        elif actuator_dynamics[i] == INTEGRATOR:
            act_rate[world, at] = u
        elif actuator_dynamics[i] == FILTER or actuator_dynamics[i] == EXACT_FILTER:
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
        """Advance the states and compute inputs of force laws.

        act_next: the states after the step [world, state]; control: as in ``activation_rates``, of those with a state.
        """
        i, world = wp.tid()
        at = actuator_state[i]
        if at < 0:
            return
        time = dt
        if actuator_dynamics[i] == EXACT_FILTER or actuator_dynamics[i] == CURRENT:
            constant = lag(actuator_time_constant, world, i)
            time = constant * (one - wp.exp(-dt / constant))
        after = act[world, at] + time * act_rate[world, at]
        after = common.held_between(after, actuator_act_lower, actuator_act_upper, world, i)
        act_next[world, at] = after
        if actuator_dynamics[i] == PID:
            return  # its input is not the state
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
        """Copy states, or rates, over (state, world). A copy by Warp itself would take gradients along."""
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
        """Compute the state at a stage of a Runge-Kutta step, over (state, world)."""
        at, world = wp.tid()
        act_there[world, at] = act_first[world, at] + share * dt * act_rate[world, at]

    return SimpleNamespace(
        module=module,
        activation_rates=activation_rates,
        activate=activate,
        copy_activations=copy_activations,
        advance_activations=advance_activations,
    )


@functools.cache
def activation_checkpoint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world, none with an adjoint."""
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    module = kernel_module("activation_checkpoint", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def load_activations(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        act: wp.array2d(dtype=scalar),
    ):
        """Load states; zeros in a world without gradients."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)]
        row = kept.state_row(step, cursor)
        address = kept.state_address(wp.static(SLOT.act), step, table, cursor)
        for i in range(act.shape[1]):
            if kept.is_left_out(at, total_worlds, table):
                act[world, i] = scalar(0.0)
            else:
                act[world, i] = rows.read(address, row, total_worlds, act.shape[1], at, i)

    @wp.kernel(module=module, enable_backward=False)
    def store_activations(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        act_next: wp.array2d(dtype=scalar),
    ):
        """Store states after ``store_state``; a non-finite state marks its world as bad like a coordinate does."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)] + 1
        row = kept.state_row(step, cursor)
        address = kept.state_address(wp.static(SLOT.act), step, table, cursor)
        finite = int(1)
        for i in range(act_next.shape[1]):
            rows.write(address, row, total_worlds, act_next.shape[1], at, i, act_next[world, i])
            if not wp.isfinite(act_next[world, i]):
                finite = int(0)
        if finite == 0 and table[wp.static(SLOT.bad_state)] != wp.uint64(0):
            bad_state = wp.array(ptr=table[wp.static(SLOT.bad_state)], shape=(total_worlds,), dtype=int)
            if bad_state[at] < 0:
                bad_state[at] = step

    @wp.kernel(module=module, enable_backward=False)
    def load_activation_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Adjoint in
        accumulated_act_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        act_next_bar: wp.array2d(dtype=scalar),
    ):
        """Load the adjoint of states, see ``load_adjoint``."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)] + 1
        row = kept.state_row(step, cursor)
        direct = kept.is_stored(step, cursor) and table[wp.static(SLOT.act_bar)] != wp.uint64(0)
        for i in range(accumulated_act_bar.shape[1]):
            value = accumulated_act_bar[world, i]
            if direct:
                value += rows.read(
                    table[wp.static(SLOT.act_bar)], row, total_worlds, accumulated_act_bar.shape[1], at, i
                )
            if kept.is_left_out(at, total_worlds, table):
                value = scalar(0.0)
            act_next_bar[world, i] = value

    @wp.kernel(module=module, enable_backward=False)
    def store_activation_adjoint(
        # Data in
        cursor: wp.array(dtype=int),
        # Adjoint in
        act_bar: wp.array2d(dtype=scalar),
        # Data out
        last_bad_step: wp.array(dtype=int),
        # Adjoint out
        accumulated_act_bar: wp.array2d(dtype=scalar),
    ):
        """Store the adjoint of states, see ``store_adjoint``."""
        world = wp.tid()
        for i in range(act_bar.shape[1]):
            accumulated_act_bar[world, i] = act_bar[world, i]
            if not wp.isfinite(act_bar[world, i]) and last_bad_step[world] < 0:
                last_bad_step[world] = cursor[wp.static(STEP)]

    return SimpleNamespace(
        module=module,
        load_activations=load_activations,
        store_activations=store_activations,
        load_activation_adjoint=load_activation_adjoint,
        store_activation_adjoint=store_activation_adjoint,
    )
