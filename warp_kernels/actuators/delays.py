"""Delays of inputs: each step reads inputs of the steps before, interpolated linearly.

With the inputs u_n, u_(n-1), ... of this step and those before, the time step h and the delay (m + f) h, where 0 <= f <
1, an actuator gets ``(1 - f) u_(n-m) + f u_(n-m-1)``, so that it has a derivative in the delay. The inputs of the last
steps, the latest first, are states of actuators after the others. The adjoint is Warp's own.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import kernel_module


@functools.cache
def delay_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision."""
    common = row_functions(scalar)
    module = kernel_module("delays", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def input_before(given_control: wp.array2d(dtype=scalar), act: wp.array2d(dtype=scalar), world: int, i: int,
                     first: int, steps: int):  # fmt: skip
        """Return the input of a number of steps before."""
        result = zero
        if steps == 0:
            result = given_control[world, i]
        else:
            result = act[world, first + steps - 1]
        return result

    @wp.kernel(module=module)
    def delay_inputs(
        # Model
        delay_state: wp.array(dtype=int),
        delay_samples: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        actuator_delay: wp.array2d(dtype=scalar),
        # Data in
        given_control: wp.array2d(dtype=scalar),
        act: wp.array2d(dtype=scalar),
        # Data out
        delayed_control: wp.array2d(dtype=scalar),
        act_next: wp.array2d(dtype=scalar),
    ):
        """Compute delayed inputs, and the states that remember inputs, over (actuator, world).

        delay_state: index of an actuator's first such state, and delay_samples: their number, zero without a delay.
        """
        i, world = wp.tid()
        first = delay_state[i]
        count = delay_samples[i]
        if count == 0:
            delayed_control[world, i] = given_control[world, i]
            return
        steps = wp.clamp(common.value_of(actuator_delay, world, i) / dt, zero, scalar(count))
        whole = wp.min(int(steps), count - 1)
        share = steps - scalar(whole)
        later = input_before(given_control, act, world, i, first, whole)
        earlier = input_before(given_control, act, world, i, first, whole + 1)
        delayed_control[world, i] = (one - share) * later + share * earlier
        for number in range(count):
            act_next[world, first + number] = input_before(given_control, act, world, i, first, number)

    return SimpleNamespace(module=module, delay_inputs=delay_inputs)
