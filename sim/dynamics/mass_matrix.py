"""The joint-space mass matrix and its inverse, as free functions by the rules of :mod:`sim.dynamics`.

Sources: Featherstone, *Rigid Body Dynamics Algorithms* (2014), table 6.2 (CRBA) and section 6.5 (sparse factors).
"""

import warp as wp

from sim.arrays.allocation import in_double, rounded
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch
from sim.arrays.scratch import scratch_array
from sim.dynamics.bodies import Bodies
from sim.dynamics.differentiable_op import Array, DifferentiableOp, any_leading_shape, of_position, on_device
from sim.dynamics.dynamics import solve_mass_matrix, taped_bodies, zeros
from sim.model.model import Model
from warp_kernels.dynamics.mass_matrix import crba_kernels, inverse_kernels

PARAMETERS = ("joint_placement", "mass", "com", "inertia", "armature")


@any_leading_shape
def mass_matrix(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the joint-space mass matrix, armature included.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv, nv], symmetric.

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.mass_matrix(model, q).shape
        (2, 7, 7)
    """
    return of_position(mass_matrix_operation, model, q)


def mass_matrix_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`mass_matrix`."""

    def forward(m: DeviceModel, matrix: wp.array, q: wp.array) -> None:
        bodies = Bodies(m, q, lanes=m.lanes)
        if bodies.teams is not None:
            composite = bodies.scratch(model.num_links, bodies.types.inertia)
            bodies.launch_teams(bodies.teams.crba, composite=composite, mass_matrix=matrix)
            return
        launch(
            crba_kernels(m.types.scalar, bodies.lanes).crba, (model.num_trees, bodies.groups), bodies, m, m.parameters,
            device=m.device, composite=bodies.link_inertia, mass_matrix=matrix,
        )  # fmt: skip

    def backward(m: DeviceModel, matrix: wp.array, q: wp.array) -> None:
        _add_gradient(*taped_bodies(m, q), matrix.grad)

    return DifferentiableOp((model.nv, model.nv), forward, backward, PARAMETERS)


@any_leading_shape
def mass_matrix_inverse(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the inverse of the joint-space mass matrix, from the sparse factors of the articulated-body algorithm.

    Like accelerations, it is computed in float64 whatever the model's dtype.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv, nv], symmetric.

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`, and if the mass matrix is singular, naming the joint.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.mass_matrix_inverse(model, q).shape
        (2, 7, 7)
    """
    m = on_device(model, q)
    m.require_masses()
    m.require_regular_mass_matrix()
    return of_position(mass_matrix_inverse_operation, m, q)


def mass_matrix_inverse_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`mass_matrix_inverse`."""

    def forward(m: DeviceModel, inverse: wp.array, q: wp.array) -> None:
        m, q = m.in_double(), in_double(q)
        bodies = Bodies(m, q, lanes=m.lanes)
        nothing, solution = (zeros(m, (q.shape[0], m.model.nv)) for _ in range(2))
        factors = solve_mass_matrix(bodies, nothing, solution)
        kernels, nv, real = inverse_kernels(m.types.scalar, bodies.lanes), m.model.nv, bodies.types.real
        if "factor_l" not in factors:
            factors["factor_l"] = bodies.scratch(m.ancestor.shape[0], real)
            launch(kernels.lower_factor, (nv, bodies.groups), bodies, m, factors, device=m.device)
        columns = scratch_array((bodies.groups, nv * nv), real, m.device)
        with rounded(inverse) as result:
            launch(
                kernels.inverse_mass_matrix, (bodies.groups, nv), m, factors, device=m.device,
                columns=columns, inverse=result,
            )  # fmt: skip

    def backward(m: DeviceModel, inverse: wp.array, q: wp.array) -> None:
        # With the inverse A and the symmetric part S of its adjoint, the adjoint of the matrix is -A S A.
        tape, bodies = taped_bodies(m, q)
        kernels, nv = inverse_kernels(m.types.scalar, bodies.lanes), m.model.nv
        dim = (bodies.groups, nv)
        rows, rows_bar, right = (scratch_array((bodies.groups, nv * nv), bodies.types.real, m.device) for _ in range(3))
        matrix_bar = scratch_array(inverse.shape, inverse.dtype, m.device)
        launch(
            kernels.load_matrices, dim, device=m.device,
            inverse=inverse, inverse_bar=inverse.grad, rows=rows, rows_bar=rows_bar,
        )  # fmt: skip
        launch(kernels.symmetric_product, dim, device=m.device, nv=nv, x=rows_bar, y=rows, z=right)
        launch(kernels.mass_matrix_bar, dim, m, device=m.device, rows=rows, right=right, mass_matrix_bar=matrix_bar)
        _add_gradient(tape, bodies, matrix_bar)

    return DifferentiableOp((model.nv, model.nv), forward, backward, PARAMETERS, needs_result=True)


def _add_gradient(tape: wp.Tape, bodies: Bodies, matrix_bar: wp.array) -> None:
    """Add the gradient of the sum of matrix_bar times the mass matrix to those of q and parameters."""
    m = bodies.model
    crba, dim = crba_kernels(m.types.scalar, bodies.lanes), (m.model.num_trees, bodies.groups)
    arrays = {"mass_matrix_bar": matrix_bar, "composite": bodies.scratch(m.model.num_links, bodies.types.inertia)}
    if bodies.teams is not None:
        columns = {name: bodies.scratch(m.model.nv, bodies.types.spatial) for name in ("column_force", "column_motion")}
        bodies.launch_teams(bodies.teams.crba_adjoint, arrays, columns)
    else:
        launch(crba.crba_adjoint, dim, arrays, bodies, m, device=m.device)
    tape.backward()
    if m.parameters["armature"].requires_grad:
        dim = (bodies.worlds, m.model.nv)
        launch(crba.armature_adjoint, dim, m.parameters, device=m.device, mass_matrix_bar=matrix_bar)
