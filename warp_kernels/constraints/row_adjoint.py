"""Adjoint of a step's constraint rows and of its right-hand side, from the solution of
:mod:`warp_kernels.solver.impulse`.

Each family of constraints has its own functions; :mod:`warp_kernels.constraints.shared` has the adjoint of an entry,
which they share.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.geometric import anchor_row_functions, geometric_adjoint_functions
from warp_kernels.constraints.joints import joint_row_functions
from warp_kernels.constraints.kinds import (
    is_contact,
    is_geometric,
    is_of_anchor,
    is_of_joint,
    is_of_pyramid,
    is_of_tendon,
)
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.tendon_rows import tendon_row_functions
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"row_adjoint_kernels": [(True,), (False,)]}


@functools.cache
def bias_adjoint_function(scalar: Any) -> wp.Function:
    """Return the Warp function of right-hand sides and bounds of all kinds, for one precision."""
    vec3 = warp_types(scalar).vec3
    contacts, anchors, joints = contact_row_functions(scalar), anchor_row_functions(scalar), joint_row_functions(scalar)
    reference_rows = reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Bounces, Rows, RowInputs, Solved = structs.Bounces, structs.Rows, structs.RowInputs, structs.Solved

    @wp.func
    def bias_adjoint(
        constraint: int,
        kind: int,
        world: int,
        dof_q: wp.array(dtype=int),
        trees: TreeDofs,
        constraints: Constraints,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoints of a constraint's bias, compliance and bound to their inputs."""
        item = constraints.item[constraint, world]
        b_bar = rows_bar.rhs[constraint, world]
        if solved.distance_share.shape[0] > 0:
            b_bar = b_bar * solved.distance_share[constraint, world]
        if reference_rows.is_referred(inputs.references, kind):
            bar = vec3(b_bar[0], rows_bar.compliance[constraint, world], scalar(0.0))
            reference_rows.add_reference_bar(inputs_bar.references, kind, item, world, bar)
        if is_contact(kind):
            contacts.bias_adjoint(
                constraint, item, world, b_bar[0], trees, constraints, bounces, rows_bar, inputs, inputs_bar
            )
        elif is_of_anchor(kind):
            anchors.bias_adjoint(kind, item, world, b_bar, inputs, inputs_bar)
        elif is_of_joint(kind):
            joints.bias_adjoint(
                constraint, kind, item, world, b_bar[0], dof_q, constraints, rows_bar, inputs, inputs_bar
            )
        elif is_of_tendon(kind):
            inputs_bar.tendon_bound[item, world] = rows_bar.bound[constraint, world]

    return bias_adjoint


@functools.cache
def row_adjoint_kernels(scalar: Any, geometric_rows: bool = True) -> SimpleNamespace:
    """Return the kernel for one precision.

    Without ``geometric_rows`` it computes the part that :mod:`warp_kernels.solver.newton.group.adjoint` doesn't: the
    adjoint of right-hand sides, and of the rows of joints and tendons.
    """
    joints, tendons = joint_row_functions(scalar), tendon_row_functions(scalar)
    geometric, bias_adjoint = geometric_adjoint_functions(scalar), bias_adjoint_function(scalar)
    structs = solver_structs(scalar)
    Bounces, Rows, RowInputs, Solved = structs.Bounces, structs.Rows, structs.RowInputs, structs.Solved
    name = "row_adjoint" if geometric_rows else "joint_row_adjoint"
    module = kernel_module(name, scalar)

    @wp.kernel(name=name, module=module, enable_backward=False)
    @used_arguments_only
    def row_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dof_q: wp.array(dtype=int),
        constrained: Constrained,
        # Data in
        inputs: RowInputs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        # Adjoint in
        rows_bar: Rows,
        bounces_bar: Bounces,
        # Adjoint out
        inputs_bar: RowInputs,
    ):
        """Compute the adjoint of the rows and of the right-hand side, constraint after constraint; for SPIN and ROLL
        see mujoco.resistance.
        """
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if not is_of_pyramid(kind):
                bias_adjoint(
                    constraint, kind, world, dof_q, trees, constraints, bounces, solved, rows_bar, inputs, inputs_bar
                )
        # In separate loops: together they exceed the registers of a GPU.
        if wp.static(geometric_rows):
            for constraint in range(constraints.count[world]):
                if is_geometric(constraints.kind[constraint, world]):
                    geometric.row_adjoint(
                        constraint, world, paths, trees, constraints, couplings, bounces, solved, rows_bar, bounces_bar,
                        inputs, inputs_bar,
                    )  # fmt: skip
        for constraint in range(constraints.count[world]):
            if is_of_joint(constraints.kind[constraint, world]):
                joints.row_adjoint(
                    constraint, world, trees, constraints, couplings, solved, rows_bar, inputs, inputs_bar
                )
        if inputs.tendon_row.shape[0] == 0:
            return
        for constraint in range(constraints.count[world]):
            if is_of_tendon(constraints.kind[constraint, world]):
                tendons.row_adjoint(
                    constraint, world, paths, trees, constrained, constraints, couplings, solved, rows_bar, inputs,
                    inputs_bar,
                )  # fmt: skip

    return SimpleNamespace(module=module, row_adjoint=row_adjoint)
