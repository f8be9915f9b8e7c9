"""Muscles: their activation, and the force as a function of activation, length and velocity.

The state w of a muscle follows its excitation u, both within 0 and 1, with the time constant ``T (0.5 + 1.5 w)`` while
it rises and ``T_off / (0.5 + 1.5 w)`` while it falls; with a width, a smooth step from one to the other. With the peak
force F0, the normalised length ``L = (l - slack) / l0`` and velocity ``V = l' / (l0 vmax)``, the force is

    F = -F0 (FL(L) FV(V) w + FP(s L + d)),

negative because it shortens the path, with s = 1 and d = 0 where the passive elements have the length of the others. FL, FV and FP are the curves of MuJoCo: piecewise parabolas (MuJoCo's
documentation, *Modeling*, "Muscles"; Millard et al., *Flexing computational muscle*, 2013). They are explicit: length
and velocity are those at the start of a step. The force takes the place of an input of an actuator with unit gain. The
adjoint is Warp's own.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import MUSCLE_FILTER, kernel_module

# MuJoCo's smallest divisor.
LEAST = 1e-15
# Transmissions of muscles.
NO_MUSCLE = 0
ON_JOINT = 1
ON_TENDON = 2


@functools.cache
def muscle_structs(scalar: Any) -> SimpleNamespace:
    """Return the struct for one precision."""

    @wp.struct
    class Muscles:
        """Parameters of muscles, [1 or world, nu].

        Attributes:
            peak_force: largest active force at rest [N or N m].
            fibre_length: length of the fibres with that force, l0 [m or rad].
            slack_length: length of the path at which the fibres would have no length [m or rad].
            shortest: smallest L with an active force.
            longest: largest L with an active force.
            speed: velocity of shortening without force, l0 per second.
            passive_force: passive force at the largest L, in peak forces.
            lengthening_force: largest active force of a muscle that lengthens, in peak forces.
            passive_scale: s.
            passive_shift: d.
        """

        peak_force: wp.array2d(dtype=scalar)
        fibre_length: wp.array2d(dtype=scalar)
        slack_length: wp.array2d(dtype=scalar)
        shortest: wp.array2d(dtype=scalar)
        longest: wp.array2d(dtype=scalar)
        speed: wp.array2d(dtype=scalar)
        passive_force: wp.array2d(dtype=scalar)
        lengthening_force: wp.array2d(dtype=scalar)
        passive_scale: wp.array2d(dtype=scalar)
        passive_shift: wp.array2d(dtype=scalar)

    return SimpleNamespace(Muscles=Muscles)


@functools.cache
def muscle_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of the curves, and of the activation."""
    common, Muscles = row_functions(scalar), muscle_structs(scalar).Muscles
    zero, half, one, least = scalar(0.0), scalar(0.5), scalar(1.0), scalar(LEAST)

    @wp.func
    def active_length(length: scalar, shortest: scalar, longest: scalar):
        """Return FL: two parabolas on each side of 1, zero outside."""
        below = half * (shortest + one)
        above = half * (one + longest)
        result = zero
        if length >= shortest and length <= longest:
            if length <= below:
                x = (length - shortest) / wp.max(below - shortest, least)
                result = half * x * x
            elif length <= one:
                x = (one - length) / wp.max(one - below, least)
                result = one - half * x * x
            elif length <= above:
                x = (length - one) / wp.max(above - one, least)
                result = one - half * x * x
            else:
                x = (longest - length) / wp.max(longest - above, least)
                result = half * x * x
        return result

    @wp.func
    def active_velocity(velocity: scalar, lengthening_force: scalar):
        """Return FV: zero for fast shortening, 1 at rest, at most lengthening_force."""
        y = lengthening_force - one
        result = lengthening_force
        if velocity <= -one:
            result = zero
        elif velocity <= zero:
            result = (velocity + one) * (velocity + one)
        elif velocity <= y:
            result = lengthening_force - (y - velocity) * (y - velocity) / wp.max(y, least)
        return result

    @wp.func
    def passive(length: scalar, longest: scalar):
        """Return FP per passive_force: zero up to 1, a parabola, then a line."""
        extent = half * (longest - one)
        result = zero
        if length > one + extent:
            result = half + (length - one - extent) / wp.max(extent, least)
        elif length > one:
            x = (length - one) / wp.max(extent, least)
            result = half * x * x
        return result

    @wp.func
    def muscle_force(activation: scalar, length: scalar, velocity: scalar, muscles: Muscles, world: int, i: int):
        """Return F."""
        fibre = wp.max(common.value_of(muscles.fibre_length, world, i), least)
        longest = common.value_of(muscles.longest, world, i)
        normal_length = (length - common.value_of(muscles.slack_length, world, i)) / fibre
        fastest = wp.max(fibre * common.value_of(muscles.speed, world, i), least)
        active = active_length(normal_length, common.value_of(muscles.shortest, world, i), longest)
        active *= active_velocity(velocity / fastest, common.value_of(muscles.lengthening_force, world, i))
        stretched = common.value_of(muscles.passive_scale, world, i) * normal_length
        stretched += common.value_of(muscles.passive_shift, world, i)
        at_rest = common.value_of(muscles.passive_force, world, i) * passive(stretched, longest)
        return -common.value_of(muscles.peak_force, world, i) * (active * activation + at_rest)

    @wp.func
    def step_function(x: scalar):
        """Return the smooth step from 0 at 0 to 1 at 1 with two continuous derivatives."""
        t = wp.clamp(x, zero, one)
        return t * t * t * (scalar(3.0) * t * (scalar(2.0) * t - scalar(5.0)) + scalar(10.0))

    @wp.func
    def muscle_rate(excitation: scalar, activation: scalar, rise: scalar, fall: scalar, width: scalar):
        """Return the rate of the state."""
        scale = half + scalar(1.5) * wp.clamp(activation, zero, one)
        change = wp.clamp(excitation, zero, one) - activation
        rising = rise * scale
        falling = fall / scale
        time = falling
        if width < least:
            if change > zero:
                time = rising
        else:
            time = falling + (rising - falling) * step_function(change / width + half)
        return change / wp.max(time, least)

    return SimpleNamespace(muscle_force=muscle_force, muscle_rate=muscle_rate)


@functools.cache
def muscle_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (actuator, world)."""
    common, f, Muscles = row_functions(scalar), muscle_functions(scalar), muscle_structs(scalar).Muscles
    module = kernel_module("muscles", scalar, inlined=True)

    @wp.kernel(module=module)
    def muscle_rates(
        # Model
        actuator_state: wp.array(dtype=int),
        actuator_dynamics: wp.array(dtype=int),
        # Parameters
        actuator_control_lower: wp.array2d(dtype=scalar),
        actuator_control_upper: wp.array2d(dtype=scalar),
        actuator_time_constant: wp.array2d(dtype=scalar),
        actuator_fall_time: wp.array2d(dtype=scalar),
        actuator_smoothing: wp.array2d(dtype=scalar),
        # Data in
        given_control: wp.array2d(dtype=scalar),
        act: wp.array2d(dtype=scalar),
        # Data out
        act_rate: wp.array2d(dtype=scalar),
    ):
        """Compute the rates of muscle activations [world, state]."""
        i, world = wp.tid()
        if actuator_dynamics[i] == MUSCLE_FILTER:
            u = common.held_between(given_control[world, i], actuator_control_lower, actuator_control_upper, world, i)
            rise = common.value_of(actuator_time_constant, world, i)
            fall = common.value_of(actuator_fall_time, world, i)
            at = actuator_state[i]
            act_rate[world, at] = f.muscle_rate(
                u, act[world, at], rise, fall, common.value_of(actuator_smoothing, world, i)
            )

    @wp.kernel(module=module)
    def pull_joints(
        # Model
        actuator_muscle: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        # Parameters
        actuator_gear: wp.array2d(dtype=scalar),
        muscles: Muscles,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        excitation: wp.array2d(dtype=scalar),
        # Data out
        control: wp.array2d(dtype=scalar),
    ):
        """Compute the inputs of all force laws, except those of muscles on tendons: forces of muscles, and what other
        actuators have.
        """
        i, world = wp.tid()
        if actuator_muscle[i] == ON_JOINT:
            k = actuator_dof[i]
            g = common.value_of(actuator_gear, world, i)
            length = g * q[world, dof_q[k]]
            control[world, i] = f.muscle_force(excitation[world, i], length, g * qd[world, k], muscles, world, i)
        elif actuator_muscle[i] == NO_MUSCLE:
            control[world, i] = excitation[world, i]

    @wp.kernel(module=module)
    def pull_tendons(
        # Model
        actuator_muscle: wp.array(dtype=int),
        actuator_tendon: wp.array(dtype=int),
        # Parameters
        actuator_gear: wp.array2d(dtype=scalar),
        muscles: Muscles,
        # Data in
        tendon_length: wp.array2d(dtype=scalar),
        tendon_rate: wp.array2d(dtype=scalar),
        excitation: wp.array2d(dtype=scalar),
        # Data out
        control: wp.array2d(dtype=scalar),
    ):
        """Compute the forces of muscles on tendons, which are the inputs of their force laws."""
        i, world = wp.tid()
        if actuator_muscle[i] == ON_TENDON:
            tendon = actuator_tendon[i]
            g = common.value_of(actuator_gear, world, i)
            length = g * tendon_length[tendon, world]
            velocity = g * tendon_rate[tendon, world]
            control[world, i] = f.muscle_force(excitation[world, i], length, velocity, muscles, world, i)

    return SimpleNamespace(module=module, muscle_rates=muscle_rates, pull_joints=pull_joints, pull_tendons=pull_tendons)
