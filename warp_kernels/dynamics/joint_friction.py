"""Dry friction of a joint in motion, by Coulomb's law."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import lane_types


@functools.cache
def friction_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Functions for one precision and a number of worlds in a lane group."""
    real, a = lane_types(scalar, lanes).real, algebra(scalar, lanes)

    @wp.func
    def force_against(loss: real, speed: real):
        """The joint force that a speed takes: loss times its sign, which is zero at rest."""
        return a.mul(loss, a.sign(speed))

    return SimpleNamespace(force_against=force_against)
