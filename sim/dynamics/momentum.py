"""Centre of mass, momentum and energy of all moving links, as free functions by the rules of :mod:`sim.dynamics`.

Links that are welded to the world don't count, whether they are merged into it (``collapse_fixed``) or not.

Source: Orin and Goswami, *Centroidal momentum matrix of a humanoid robot* (IROS 2008).
"""

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch
from sim.dynamics.bodies import Bodies
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    any_leading_shape,
    launch_last,
    of_position,
    of_velocity,
    taped_backward,
)
from sim.dynamics.kinematics import run_velocities
from sim.errors import ModelError
from sim.model.model import Model
from warp_kernels.dynamics.momentum import momentum_kernels
from warp_kernels.dynamics.pose_springs import pose_spring_kernels

PARAMETERS = ("joint_placement", "mass", "com", "inertia")


@any_leading_shape
def centre_of_mass(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the centre of mass of all moving links, in the world.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, 3] [m].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`, and for a model without any mass.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.centre_of_mass(model, q).shape
        (2, 3)
    """
    return of_position(centre_of_mass_operation, model, q)


@any_leading_shape
def centre_of_mass_jacobian(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the Jacobian of the centre of mass: its velocity is ``jacobian @ qd``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, 3, nv].

    Raises:
        ModelError: as :func:`centre_of_mass`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.centre_of_mass_jacobian(model, q).shape
        (2, 3, 7)
    """
    return of_position(centre_of_mass_jacobian_operation, model, q)


@any_leading_shape
def centroidal_momentum_matrix(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the matrix that maps joint velocities to :func:`centroidal_momentum`.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, 6, nv], angular rows first.

    Raises:
        ModelError: as :func:`centre_of_mass`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.centroidal_momentum_matrix(model, q).shape
        (2, 6, 7)
    """
    return of_position(centroidal_momentum_matrix_operation, model, q)


@any_leading_shape
def centroidal_momentum(model: Model | DeviceModel, q: Array, qd: Array) -> wp.array:
    """Return the momentum of all links about the centre of mass, along world axes.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].

    Returns:
        [num_worlds, 6]: angular [kg m^2/s], then linear momentum [kg m/s].

    Raises:
        ModelError: as :func:`centre_of_mass`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.centroidal_momentum(model, q, qd).shape
        (2, 6)
    """
    return of_velocity(centroidal_momentum_operation, model, q, qd)


@any_leading_shape
def kinetic_energy(model: Model | DeviceModel, q: Array, qd: Array) -> wp.array:
    """Return the kinetic energy of links and rotors: half of ``qd @ M(q) @ qd``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].

    Returns:
        [num_worlds] [J].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.kinetic_energy(model, q, qd).shape
        (2,)
    """
    return of_velocity(kinetic_energy_operation, model, q, qd)


@any_leading_shape
def potential_energy(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the potential energy of gravity, zero at the world's origin, and of the joints' springs.

    The weight of a link counts without the fraction in ``gravity_compensation``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds] [J].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.potential_energy(model, q).shape
        (2,)
    """
    return of_position(potential_energy_operation, model, q)


class _Composite(Bodies):
    """Bodies with their composite inertias.

    Attributes:
        composite: inertia of each link with all its descendants.
        total_mass, total_moment: of all trees; the moment is about the first one's origin.
    """

    def __init__(self, model: DeviceModel, q: wp.array):
        super().__init__(model, q)
        m, kernels = model, momentum_kernels(model.types.scalar)
        self.composite = self.scratch(m.model.num_links, m.types.inertia)
        self.total_mass, self.total_moment = (
            self.scratch(1, t).reshape(self.worlds) for t in (m.types.scalar, m.types.vec3)
        )
        launch(kernels.composite_inertia, (m.model.num_trees, self.worlds), self, m, device=m.device)
        launch(kernels.total_mass, self.worlds, self, m, device=m.device)

    def run_momentum_matrix(self, matrix: wp.array) -> None:
        """Compute the centroidal momentum matrix."""
        m = self.model
        kernel = momentum_kernels(m.types.scalar).momentum_matrix
        launch(kernel, (m.model.nv, self.worlds), self, m, device=m.device, momentum_matrix=matrix)


def centre_of_mass_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`centre_of_mass`."""
    _require_mass(model)

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        bodies = _Composite(m, q)
        kernel = momentum_kernels(m.types.scalar).centre_of_mass
        launch_last(kernel, q.shape[0], bodies, device=m.device, centre_of_mass=result)

    return DifferentiableOp((3,), forward, taped_backward(forward), PARAMETERS)


def centre_of_mass_jacobian_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`centre_of_mass_jacobian`."""
    _require_mass(model)

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        bodies = _Composite(m, q)
        kernel = momentum_kernels(m.types.scalar).centre_of_mass_jacobian
        launch_last(kernel, (model.nv, q.shape[0]), bodies, m, device=m.device, jacobian=result)

    return DifferentiableOp((3, model.nv), forward, taped_backward(forward), PARAMETERS)


def centroidal_momentum_matrix_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`centroidal_momentum_matrix`."""
    _require_mass(model)

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        _Composite(m, q).run_momentum_matrix(result)

    return DifferentiableOp((6, model.nv), forward, taped_backward(forward), PARAMETERS)


def centroidal_momentum_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`centroidal_momentum`."""
    _require_mass(model)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = _Composite(m, q)
        matrix = bodies.scratch(6 * model.nv, m.types.scalar).reshape((q.shape[0], 6, model.nv))
        bodies.run_momentum_matrix(matrix)
        kernel = momentum_kernels(m.types.scalar).momentum
        launch_last(kernel, (6, q.shape[0]), device=m.device, momentum_matrix=matrix, qd=qd, momentum=result)

    return DifferentiableOp((6,), forward, taped_backward(forward), PARAMETERS)


def kinetic_energy_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`kinetic_energy`."""

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = Bodies(m, q)
        velocity = run_velocities(bodies, qd)
        kernel = momentum_kernels(m.types.scalar).kinetic_energy
        launch_last(kernel, q.shape[0], bodies, m.parameters, device=m.device, qd=qd, velocity=velocity, energy=result)

    return DifferentiableOp((), forward, taped_backward(forward), (*PARAMETERS, "armature"))


def potential_energy_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`potential_energy`."""

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        bodies = Bodies(m, q)
        kernel = momentum_kernels(m.types.scalar).potential_energy
        parameters = m.parameter_arrays("gravity", "stiffness", "rest_position", "gravity_compensation")
        launch_last(kernel, q.shape[0], bodies, m, parameters, device=m.device, q=q, energy=result)
        if len(model.sprung_links):
            kernel = pose_spring_kernels(m.types.scalar).pose_spring_energy
            launch_last(kernel, q.shape[0], m, parameters, device=m.device, q=q, energy=result)

    own = ("gravity_compensation",) if model.compensated else ()
    names = (*PARAMETERS, "gravity", "stiffness", "rest_position", *own)
    return DifferentiableOp((), forward, taped_backward(forward), names)


def _require_mass(model: Model) -> None:
    if not model.parameters["mass"][model.link_tail_dof >= 0].sum() > 0.0:
        raise ModelError("the moving links have no mass, so that the centre of mass is undefined; give a link a mass")
