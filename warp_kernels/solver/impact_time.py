"""Positions of a step in which contacts bounce, and their adjoint.

A bounce at the share s of a step (:mod:`warp_kernels.constraints.contacts`) moves positions for the rest of the step
only: they follow

    v+ - M^-1 J' (s lambda),

while those of a step without bounces follow v+. Friction and torsion of a contact act when it does. With the cotangent
p of that velocity, ``w = -M^-1 p`` and ``lag = M^-1 J' (s lambda)``, the adjoint of the impulses is ``s J w``, that of
s ``lambda . J w``, of the mass matrix ``-w lag'`` and of the rows ``s lambda w``. Of the cotangent c of the free
velocity of rows, from which s follows, ``J' c`` belongs to v* alone.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.contacts import bounce_functions
from warp_kernels.constraints.kinds import is_contact, is_of_contact_frame
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.solver.structs import Constraints, Paths, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def impact_time_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world; for models with bouncing contacts."""
    vec3 = warp_types(scalar).vec3
    products, bounce = product_functions(scalar), bounce_functions(scalar)
    structs = solver_structs(scalar)
    Options, Contacts, Rows, Bounces = structs.Options, structs.Contacts, structs.Rows, structs.Bounces
    module = kernel_module("impact_time", scalar, headers=ROW_HEADERS)
    zero = scalar(0.0)

    @wp.func
    def bouncing_contact(constraint: int, world: int, constraints: Constraints, bounces: Bounces):
        """Return the bouncing contact of a constraint's impulses, -1 if there is none. A contact's constraint is its
        slot.
        """
        kind = constraints.kind[constraint, world]
        if is_of_contact_frame(kind):
            contact = constraints.item[constraint, world]
            if bounces.free[contact, world] != zero:
                return contact
        return int(-1)

    @wp.kernel(module=module, enable_backward=False)
    def path_velocity(
        # Model
        paths: Paths,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        constraints: Constraints,
        bounces: Bounces,
        qd_solved: wp.array2d(dtype=scalar),
        # Data out
        lag: wp.array2d(dtype=scalar),
        qd_unstopped: wp.array2d(dtype=scalar),
    ):
        """Compute qd_unstopped, the velocity along which positions move before stops [world, dof]."""
        world = wp.tid()
        for k in range(lag.shape[0]):
            lag[k, world] = zero
        late = int(0)
        for constraint in range(constraints.count[world]):
            contact = bouncing_contact(constraint, world, constraints, bounces)
            if contact >= 0:
                late = 1
                push = bounces.late[contact, world] * impulse[constraint, world]
                products.add_push(constraint, push, world, paths, constraints, row, lag)
        if late == 1:
            products.solve_pushes(world, paths, factor_l, factor_d, lag)
        for k in range(lag.shape[0]):
            qd_unstopped[world, k] = qd_solved[world, k] - lag[k, world]

    @wp.kernel(module=module, enable_backward=False)
    def path_adjoint(
        # Model
        paths: Paths,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        constraints: Constraints,
        bounces: Bounces,
        # Adjoint in
        qd_unstopped_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        qd_solved_bar: wp.array2d(dtype=scalar),
        lag_weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        bounces_bar: Bounces,
    ):
        """Compute the adjoint of the position velocity. lag_weight: w, zero in a world without bounces."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        late = int(0)
        for constraint in range(constraints.count[world]):
            bounces_bar.late[constraint, world] = zero
            if bouncing_contact(constraint, world, constraints, bounces) >= 0:
                late = 1
        for k in range(nv):
            bar = qd_unstopped_bar[world, k]
            qd_solved_bar[world, k] += bar
            lag_weight[k, world] = wp.where(late == 1, -bar, zero)
        if late == 0:
            return
        products.begin_solve(world, paths, factor_l, factor_d, lag_weight)
        for constraint in range(constraints.count[world]):
            contact = bouncing_contact(constraint, world, constraints, bounces)
            if contact >= 0:
                moved = products.row_product(constraint, world, paths, constraints, row, lag_weight)
                further_impulse_bar[constraint, world] += bounces.late[contact, world] * moved
                bounces_bar.late[contact, world] += wp.dot(impulse[constraint, world], moved)
        products.solve_lower(paths, factor_l, lag_weight, world)

    @wp.kernel(module=module, enable_backward=False)
    def bounce_adjoint(
        # Model
        paths: Paths,
        options: Options,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        contacts: Contacts,
        constraints: Constraints,
        bounces: Bounces,
        hardening: wp.array2d(dtype=scalar),
        # Adjoint in
        rows_bar: Rows,
        # Adjoint out
        bounces_bar: Bounces,
        contacts_bar: Contacts,
        free_weight: wp.array2d(dtype=scalar),
    ):
        """Propagate the adjoint of the biases of bouncing contacts. free_weight: M^-1 J' c.

        hardening: share of its value that Newton's method adds to such a row; no rows otherwise.
        """
        world = wp.tid()
        for k in range(free_weight.shape[0]):
            free_weight[k, world] = zero
        late = int(0)
        for constraint in range(constraints.count[world]):
            if is_contact(constraints.kind[constraint, world]):
                item = constraints.item[constraint, world]
                free = bounces.free[constraint, world]
                bounces_bar.before[constraint, world] = zero
                bounces_bar.free[constraint, world] = zero
                if free != zero:
                    late = 1
                    bias_bar = rows_bar.rhs[constraint, world][0]
                    more = zero
                    if hardening.shape[0] > 0:
                        more = hardening[constraint, world] * bias_bar
                    bars = bounce.bounce_adjoint(
                        contacts.distance[item, world],
                        bounces.before[constraint, world],
                        free,
                        bounces.late[constraint, world],
                        contacts.restitution[item, world],
                        options,
                        bias_bar + more,
                        bounces_bar.late[constraint, world],
                    )
                    contacts_bar.distance[item, world] += bars[0]
                    bounces_bar.before[constraint, world] = bars[1]
                    bounces_bar.free[constraint, world] = bars[2] + more
                    contacts_bar.restitution[item, world] = bars[3]
                    push = vec3(bars[2] + more, zero, zero)
                    products.add_push(constraint, push, world, paths, constraints, row, free_weight)
        if late == 1:
            products.solve_pushes(world, paths, factor_l, factor_d, free_weight)

    return SimpleNamespace(
        module=module, path_velocity=path_velocity, path_adjoint=path_adjoint, bounce_adjoint=bounce_adjoint
    )
