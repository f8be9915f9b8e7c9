"""The joint-space mass matrix and its inverse, as free functions by the rules of :mod:`sim.dynamics`.

Sources: Featherstone, *Rigid Body Dynamics Algorithms* (2014), table 6.2 (CRBA) and section 6.5 (sparse factors).
"""

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.precision import in_double, rounded
from sim.arrays.scratch import scratch_array
from sim.dynamics.differentiable_op import Array, Bodies, DifferentiableOp, lanes_of, of_position
from sim.dynamics.dynamics import solve_mass_matrix, taped_bodies, zeros
from sim.model.model import Model
from warp_kernels.dynamics.crba import crba_kernels
from warp_kernels.dynamics.inverse import inverse_kernels

PARAMETERS = ("joint_placement", "mass", "com", "inertia", "armature")


def mass_matrix(model: Model | DeviceModel, q: Array) -> wp.array:
    """Joint-space mass matrix, armature included.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv, nv], symmetric.

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.
    """
    return of_position(mass_matrix_operation, model, q)


def mass_matrix_operation(model: Model) -> DifferentiableOp:
    """See :func:`mass_matrix`."""

    def forward(m: DeviceModel, matrix: wp.array, q: wp.array) -> None:
        bodies = Bodies(m, q, lanes=lanes_of(m))
        wp.launch(
            crba_kernels(m.types.scalar, bodies.lanes).crba,
            dim=(m.model.num_trees, bodies.blocks),
            inputs=[
                m.tree_link_start, m.link_parent, m.joint_qd_start, m.dof_parent, m.parameters["armature"],
                bodies.subspace,
            ],
            outputs=[bodies.link_inertia, matrix],
            device=m.device,
        )  # fmt: skip

    def backward(m: DeviceModel, matrix: wp.array, q: wp.array) -> None:
        _add_gradient(*taped_bodies(m, q), matrix.grad)

    return DifferentiableOp((model.nv, model.nv), forward, backward, PARAMETERS)


def mass_matrix_inverse(model: Model | DeviceModel, q: Array) -> wp.array:
    """The inverse of the joint-space mass matrix, from the sparse factors of the articulated-body algorithm.

    As all that has accelerations for a result, it is worked out in float64 whatever the model's dtype.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv, nv], symmetric.

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.
    """
    return of_position(mass_matrix_inverse_operation, model, q)


def mass_matrix_inverse_operation(model: Model) -> DifferentiableOp:
    """See :func:`mass_matrix_inverse`."""

    def forward(m: DeviceModel, inverse: wp.array, q: wp.array) -> None:
        m, q = m.in_double(), in_double(q)
        bodies = Bodies(m, q, lanes=lanes_of(m))
        nothing, solution = (zeros(m, (q.shape[0], m.model.nv)) for _ in range(2))
        u, d = solve_mass_matrix(bodies, nothing, solution)
        kernels, nv, real = inverse_kernels(m.types.scalar, bodies.lanes), m.model.nv, bodies.types.real
        lower = bodies.scratch(m.ancestor.shape[0], real)
        columns = scratch_array((bodies.blocks, nv * nv), real, m.device)
        rows = [m.dof_depth, m.dof_row_start, m.ancestor]
        wp.launch(kernels.lower_factor, (nv, bodies.blocks), [*rows, u, d, bodies.subspace], [lower], device=m.device)
        with rounded(inverse) as result:
            inputs = [m.dof_parent, *rows, lower, d]
            dim = (bodies.blocks, nv)
            wp.launch(kernels.inverse_mass_matrix, dim, inputs, [columns, result], device=m.device)

    def backward(m: DeviceModel, inverse: wp.array, q: wp.array) -> None:
        # With A the inverse, S the symmetric part of its adjoint: that of the matrix is -A S A.
        tape, bodies = taped_bodies(m, q)
        kernels, nv = inverse_kernels(m.types.scalar, bodies.lanes), m.model.nv
        dim = (bodies.blocks, nv)
        a, s, right = (scratch_array((bodies.blocks, nv * nv), bodies.types.real, m.device) for _ in range(3))
        matrix_bar = scratch_array(inverse.shape, inverse.dtype, m.device)
        wp.launch(kernels.load_matrices, dim, [inverse, inverse.grad], [a, s], device=m.device)
        wp.launch(kernels.product, dim, [nv, s, a], [right], device=m.device)
        wp.launch(kernels.mass_matrix_bar, dim, [m.dof_parent, a, right], [matrix_bar], device=m.device)
        _add_gradient(tape, bodies, matrix_bar)

    return DifferentiableOp((model.nv, model.nv), forward, backward, PARAMETERS, needs_result=True)


def _add_gradient(tape: wp.Tape, bodies: Bodies, matrix_bar: wp.array) -> None:
    """Add the gradient of the sum of matrix_bar times the mass matrix to those of q and parameters."""
    m = bodies.model
    crba = crba_kernels(m.types.scalar, bodies.lanes)
    wp.launch(
        crba.crba_adjoint,
        dim=(m.model.num_trees, bodies.blocks),
        inputs=[
            m.tree_link_start, m.link_parent, m.joint_qd_start, m.dof_parent, bodies.subspace, bodies.link_inertia,
            matrix_bar,
        ],
        outputs=[
            bodies.scratch(m.model.num_links, bodies.types.inertia), bodies.subspace.grad, bodies.link_inertia.grad,
        ],
        device=m.device,
    )  # fmt: skip
    tape.backward()
    armature = m.parameters["armature"]
    if armature.requires_grad:
        dim = (bodies.worlds, m.model.nv)
        wp.launch(crba.armature_adjoint, dim=dim, inputs=[matrix_bar], outputs=[armature.grad], device=m.device)
