"""Adjoint of the converged solution instead of the sweeps: no history, one vector per constraint.

A solution is a fixed point of every constraint's update, ``lambda_i = phi_i(lambda_i, r_i)`` with ``r = A lambda + b``:
a separating contact stays open, a sticking row keeps its velocity at zero, sliding friction stays on its cone along the
slip, a row at its bound stays there. By the implicit function theorem the adjoint y of the fixed point solves

    y = lambda_bar + P' y + A' Q' y,   P = d phi / d lambda,  Q = d phi / d r,  constraint by constraint,

and ``b_bar = Q' y``, ``A_bar = b_bar lambda'``; the adjoint of a bound is that of the update for y. The step lengths of
the updates have no adjoint, since nothing depends on them at the solution.

The system is singular for redundant contacts, such as the four under a rigid box. It is solved by the transposed sweeps
with fixed P and Q, which work in the range of A and converge as the sweeps do. Where impulses aren't unique, this gives
the derivative of the velocities, which are.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import follows_contact
from warp_kernels.solver.projection import FRICTION_MODELS, update_adjoint_function
from warp_kernels.solver.structs import Constraints, Couplings
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"implicit_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def implicit_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """Return the kernel of the solution's adjoint for one precision and friction model, one thread per world."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    update_adjoint = update_adjoint_function(scalar, friction)
    module = kernel_module(f"implicit.{friction}", scalar)
    negligible = scalar(float(np.finfo(wp.dtype_to_numpy(scalar)).eps))

    @wp.func
    def row_value(
        i: int,
        world: int,
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        rhs: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
    ):
        """Return r_i = A lambda + b."""
        value = rhs[i, world]
        ranges = couplings.row[i, world]
        entry = ranges[0]
        for r in range(ranges[2], ranges[3]):
            run = couplings.run[r, world]
            for j in range(run[0], run[1]):
                value += matrix[entry, world] * impulse[j, world]
                entry += 1
        return value

    @wp.kernel(module=module, enable_backward=False)
    def solution_adjoint(
        # Model
        sweeps: int,
        # Data in
        couplings: Couplings,
        matrix: wp.array2d(dtype=mat33),
        rhs: wp.array2d(dtype=vec3),
        bound: wp.array2d(dtype=scalar),
        constraints: Constraints,
        contact_resistance: wp.array2d(dtype=vec2),
        scale: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        # Adjoint in
        impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        value: wp.array2d(dtype=vec3),
        impulse_bar_scratch: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        compliance_bar: wp.array2d(dtype=scalar),
        contact_resistance_bar: wp.array2d(dtype=vec2),
        adjoint_residual: wp.array(dtype=scalar),
    ):
        """Solve for the adjoint with at most ``sweeps`` sweeps. value and impulse_bar_scratch are scratch.

        adjoint_residual: the largest adjoint of a row value in the last sweep relative to the largest of all, kept if
        it exceeds the stored value. Sweeps end when it falls below the precision.
        """
        world = wp.tid()
        count = constraints.count[world]
        for i in range(count):
            impulse_bar_scratch[i, world] = impulse_bar[i, world]
            rhs_bar[i, world] = vec3()
            bound_bar[i, world] = scalar(0.0)
            value[i, world] = row_value(i, world, couplings, matrix, rhs, impulse)
        largest = scalar(0.0)
        size = scalar(0.0)
        sweep = int(0)
        while sweep < sweeps:
            sweep += 1
            size = scalar(0.0)
            for reverse in range(count):
                i = count - 1 - reverse
                ranges = couplings.row[i, world]
                kind = constraints.kind[i, world]
                bounds = vec2(bound[i, world], scalar(0.0))
                normal = scalar(0.0)
                if follows_contact(kind):
                    normal = impulse[constraints.item[i, world], world][0]
                    bounds = contact_resistance[constraints.item[i, world], world] * normal
                old_bar, value_bar, _scale_bar, _block_bar, most_bar = update_adjoint(
                    kind,
                    impulse[i, world],
                    value[i, world],
                    matrix[ranges[1], world],
                    scale[i, world],
                    bounds,
                    impulse_bar_scratch[i, world],
                )
                if follows_contact(kind):
                    contact = constraints.item[i, world]
                    contact_resistance_bar[contact, world] += most_bar * normal
                    share = wp.dot(most_bar, contact_resistance[contact, world])
                    impulse_bar_scratch[contact, world] += vec3(share, scalar(0.0), scalar(0.0))
                else:
                    bound_bar[i, world] += most_bar[0]
                impulse_bar_scratch[i, world] = old_bar
                here = wp.max(wp.abs(value_bar[0]), wp.max(wp.abs(value_bar[1]), wp.abs(value_bar[2])))
                if here > scalar(0.0):
                    size = wp.max(size, here)
                    rhs_bar[i, world] += value_bar
                    entry = ranges[0]
                    for r in range(ranges[2], ranges[3]):
                        run = couplings.run[r, world]
                        for j in range(run[0], run[1]):
                            impulse_bar_scratch[j, world] += value_bar * matrix[entry, world]
                            entry += 1
            largest = wp.max(largest, size)
            if size <= negligible * largest:
                sweep = sweeps
        for i in range(count):
            compliance_bar[i, world] = rhs_bar[i, world][0] * impulse[i, world][0]
        if largest > scalar(0.0):
            adjoint_residual[world] = wp.max(adjoint_residual[world], size / largest)

    return SimpleNamespace(module=module, solution_adjoint=solution_adjoint)
