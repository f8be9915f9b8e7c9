"""Forces of actuators on frames and on contacts, explicit in position and velocity, and what they add to accelerations.

Differentiated by Warp's own adjoint, from that of the joint forces; that of the accelerations is part of the step's
(:mod:`warp_kernels.solver.impulse`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.actuators import actuator_functions
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.solver.transmission.structs import transmission_structs
from warp_kernels.types import kernel_module


@functools.cache
def transmission_force_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision."""
    common, actuators, products = row_functions(scalar), actuator_functions(scalar), product_functions(scalar)
    Gains, Lines = solver_structs(scalar).Gains, transmission_structs(scalar).Lines
    module = kernel_module("transmission_forces", scalar, inlined=True)
    free_module = kernel_module("pushed_acceleration", scalar, headers=ROW_HEADERS)
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def line_rates(
        # Data in
        qd: wp.array2d(dtype=scalar),
        line_slope: wp.array3d(dtype=scalar),
        # Data out
        line_rate: wp.array2d(dtype=scalar),
    ):
        """Over (line, world). Adds to what must be zero before."""
        line, world = wp.tid()
        for k in range(qd.shape[1]):
            line_rate[line, world] += line_slope[line, k, world] * qd[world, k]

    @wp.kernel(module=module)
    def line_forces(
        # Model
        lines: Lines,
        actuator_kind: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        control: wp.array2d(dtype=scalar),
        line_length: wp.array2d(dtype=scalar),
        line_rate: wp.array2d(dtype=scalar),
        # Data out
        line_force: wp.array2d(dtype=scalar),
    ):
        """Over (line, world): the force of its actuator times the gear."""
        line, world = wp.tid()
        i = lines.actuator[line]
        u = actuators.held_input(control, gains, world, i)
        g = common.value_of(gains.gear, world, i)
        centre = common.value_of(gains.force_centre, world, i)
        most = common.value_of(gains.force_limit, world, i)
        law = actuators.force_law(actuator_kind[i], u, g * line_length[line, world], gains, world, i)
        push = actuators.as_force(law, line_rate[line, world], g, centre, most, zero)
        line_force[line, world] = push[0]

    @wp.kernel(module=module)
    def line_pushes(
        # Data in
        line_slope: wp.array3d(dtype=scalar),
        line_force: wp.array2d(dtype=scalar),
        # Data out
        line_push: wp.array2d(dtype=scalar),
    ):
        """Over (dof, world): the joint forces of all lines. Adds to what must be zero before."""
        k, world = wp.tid()
        for line in range(line_force.shape[0]):
            line_push[k, world] += line_slope[line, k, world] * line_force[line, world]

    @wp.kernel(module=module)
    def add_line_pushes(
        # Data in
        line_push: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
    ):
        """Over (dof, world)."""
        k, world = wp.tid()
        joint_force[world, k] += line_push[k, world]

    @wp.kernel(module=free_module, enable_backward=False)
    def pushed_acceleration(
        # Model
        paths: Paths,
        # Data in
        line_push: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        # Data out
        push_response: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
    ):
        """Over worlds: adds M^-1 of the pushes to the accelerations without constraints; push_response [dof, world]."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            push_response[k, world] = line_push[k, world]
        products.solve_transposed(paths, factor_l, push_response, world)
        for k in range(nv):
            push_response[k, world] = push_response[k, world] * factor_d[k, world]
        products.solve_lower(paths, factor_l, push_response, world)
        for k in range(nv):
            qdd[world, k] += push_response[k, world]

    return SimpleNamespace(
        modules=(module, free_module),
        line_rates=line_rates,
        line_forces=line_forces,
        line_pushes=line_pushes,
        add_line_pushes=add_line_pushes,
        pushed_acceleration=pushed_acceleration,
    )
