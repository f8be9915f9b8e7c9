"""Motion of kinematic joints as an input: a step begins with the given velocities instead of those of its state.

A kinematic joint of a tree without other joints gets its velocity at once. One that is in a path with joints that
forces move gets it as an acceleration over the step, by a force on its prescribed inertia, so that the others feel it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.rollout.checkpoint_rows import trajectory_row_functions
from warp_kernels.types import PRESCRIBED_INERTIA


@functools.cache
def prescribed_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision.

    ``address`` and ``bar_address`` are those of the input [steps, total_worlds, nk] and of its gradient, zero without.
    """
    rows = trajectory_row_functions(scalar)
    values = wp.array2d(dtype=scalar)

    @wp.func
    def lead(
        address: wp.uint64, step: int, total_worlds: int, first_world: int, world: int, dt: scalar,
        kinematic_dof: wp.array(dtype=int), kinematic_carries: wp.array(dtype=int), qd: values, tau: values,
    ):  # fmt: skip
        """Replace the velocities of kinematic joints, or add the forces that bring about the given ones."""
        count = kinematic_dof.shape[0]
        if address != wp.uint64(0):
            for n in range(count):
                k = kinematic_dof[n]
                velocity = rows.read(address, step, total_worlds, count, first_world + world, n)
                if kinematic_carries[n] > 0:
                    tau[world, k] += scalar(PRESCRIBED_INERTIA) / dt * (velocity - qd[world, k])
                else:
                    qd[world, k] = velocity

    @wp.func
    def lead_adjoint(
        address: wp.uint64, bar_address: wp.uint64, step: int, total_worlds: int, first_world: int, world: int,
        dt: scalar, kinematic_dof: wp.array(dtype=int), kinematic_carries: wp.array(dtype=int), tau_bar: values,
        qd_bar: values,
    ):  # fmt: skip
        """Move the adjoint of the velocities of kinematic joints from the state to the input."""
        count = kinematic_dof.shape[0]
        if address != wp.uint64(0):
            for n in range(count):
                k = kinematic_dof[n]
                value = qd_bar[world, k]
                if kinematic_carries[n] > 0:
                    value = scalar(PRESCRIBED_INERTIA) / dt * tau_bar[world, k]
                qd_bar[world, k] -= value
                rows.write(bar_address, step, total_worlds, count, first_world + world, n, value)

    return SimpleNamespace(lead=lead, lead_adjoint=lead_adjoint)
