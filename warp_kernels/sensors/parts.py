"""What of the impulse of a constraint of contacts is a force, and what a torque, along the axes of its contact."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import CONTACT, SPIN, TORSION
from warp_kernels.types import warp_types


@functools.cache
def part_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    vec3 = warp_types(scalar).vec3
    zero = scalar(0.0)

    @wp.func
    def force_part(kind: int, impulse: vec3):
        """What of a constraint's impulse is a force."""
        if kind == CONTACT:
            return impulse
        if kind == TORSION:
            return vec3()
        return vec3(impulse[0], zero, zero)

    @wp.func
    def torque_part(kind: int, impulse: vec3):
        """What of it is a torque about the axes of the contact; both rows of SPIN are about the normal."""
        if kind == CONTACT:
            return vec3()
        if kind == TORSION:
            return impulse
        if kind == SPIN:
            return vec3(impulse[1] + impulse[2], zero, zero)
        return vec3(zero, impulse[1], impulse[2])

    @wp.func
    def torque_part_bar(kind: int, bar: vec3):
        """The adjoint of the impulse from that of the torque."""
        if kind == CONTACT:
            return vec3()
        if kind == TORSION:
            return bar
        if kind == SPIN:
            return vec3(zero, bar[0], bar[0])
        return vec3(zero, bar[1], bar[2])

    return SimpleNamespace(force_part=force_part, torque_part=torque_part, torque_part_bar=torque_part_bar)
