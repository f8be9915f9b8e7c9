"""Dry friction of a joint in motion, by Coulomb's law."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp


@functools.cache
def friction_functions(scalar: Any) -> SimpleNamespace:
    """Functions for one precision."""

    @wp.func
    def force_against(loss: scalar, speed: scalar):
        """The joint force that a speed takes: loss times its sign, and zero at rest, where ``wp.sign`` is one."""
        force = scalar(0.0)
        if speed > scalar(0.0):
            force = loss
        elif speed < scalar(0.0):
            force = -loss
        return force

    return SimpleNamespace(force_against=force_against)
