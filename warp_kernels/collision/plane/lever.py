"""The place where a hit acts that a plane's contact is found ahead of: on the surface of the other body, which touches the plane there.

A contact lies midway between the surfaces. One that is found at a distance d ahead of its touch would give the impulse a lever that
is d/2 too long, by the phase of the touch within the step. The point thus goes to the surface of the other body. Contacts that
rest overlap: theirs stays midway, and the way between both is smooth, so that the step has its derivatives there.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

# The distance at which the point has arrived at the surface, as a share of the margin: 0.2 mm with its default.
ARRIVAL = 0.01


@functools.cache
def lever_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    zero, half, one = scalar(0.0), scalar(0.5), scalar(1.0)
    six, ten = scalar(6.0), scalar(10.0)

    @wp.func
    def lever_shift(distance: scalar, arrival: scalar):
        """How far along the normal the point goes from midway: by half of the distance from ``arrival`` on, by nothing below zero.

        arrival: [m]; zero leaves all points midway.
        """
        if arrival == zero or distance <= zero:
            return zero
        x = wp.min(distance / arrival, one)
        return half * distance * (x * x * x * (ten + x * (six * x - scalar(15.0))))

    @wp.func
    def lever_slope(distance: scalar, arrival: scalar):
        """The derivative of :func:`lever_shift` by the distance."""
        if arrival == zero or distance <= zero:
            return zero
        x = wp.min(distance / arrival, one)
        if x == one:
            return half
        return x * x * x * (scalar(20.0) + x * (scalar(18.0) * x - scalar(37.5)))

    return SimpleNamespace(lever_shift=lever_shift, lever_slope=lever_slope)
