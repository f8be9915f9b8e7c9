"""Joint forces of gravity and of motion, as free functions by the rules of :mod:`sim.dynamics`.

They are parts of inverse dynamics, ``tau = M(q) qdd + coriolis(q, qd) + gravity(q) + passive(q, qd)``; none includes
the last part: dampers, springs, dry friction and gravity compensation.
"""

from collections.abc import Callable

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.dynamics.bodies import Bodies
from sim.dynamics.differentiable_op import Array, DifferentiableOp, any_leading_shape, of_position, of_velocity
from sim.dynamics.dynamics import add_rigid_body_gradient, put_joint_forces, taped_bodies, weightless, zeros
from sim.model.model import Model

PARAMETERS = ("joint_placement", "mass", "com", "inertia")

Gravity = Callable[[DeviceModel], wp.array]


@any_leading_shape
def gravity_forces(model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the joint forces that hold the model still against gravity.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.gravity_forces(model, q).shape
        (2, 7)
    """
    return of_position(gravity_operation, model, q)


@any_leading_shape
def coriolis_forces(model: Model | DeviceModel, q: Array, qd: Array) -> wp.array:
    """Return the joint forces of Coriolis and centrifugal effects: those of motion at constant qd without gravity.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].

    Returns:
        [num_worlds, nv].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.coriolis_forces(model, q, qd).shape
        (2, 7)
    """
    return of_velocity(coriolis_operation, model, q, qd)


@any_leading_shape
def bias_forces(model: Model | DeviceModel, q: Array, qd: Array) -> wp.array:
    """Return the sum of :func:`gravity_forces` and :func:`coriolis_forces`, computed at once.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].

    Returns:
        [num_worlds, nv].

    Raises:
        ModelError: as :func:`sim.inverse_dynamics`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.bias_forces(model, q, qd).shape
        (2, 7)
    """
    return of_velocity(bias_operation, model, q, qd)


def gravity_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`gravity_forces`."""

    def forward(m: DeviceModel, tau: wp.array, q: wp.array) -> None:
        still = zeros(m, tau.shape)
        put_joint_forces(Bodies(m, q, lanes=m.lanes), None, m.parameters["gravity"], q, still, still, None, tau)

    def backward(m: DeviceModel, tau: wp.array, q: wp.array) -> None:
        still = zeros(m, tau.shape)
        tape, bodies = taped_bodies(m, q)
        add_rigid_body_gradient(bodies, tape, m.parameters["gravity"], still, still, None, tau.grad)

    return DifferentiableOp((model.nv,), forward, backward, (*PARAMETERS, "gravity"))


def coriolis_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`coriolis_forces`."""
    return _velocity_operation(model, weightless, PARAMETERS)


def bias_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`bias_forces`."""
    return _velocity_operation(model, lambda m: m.parameters["gravity"], (*PARAMETERS, "gravity"))


def _velocity_operation(model: Model, gravity: Gravity, parameters: tuple[str, ...]) -> DifferentiableOp:
    def forward(m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array) -> None:
        put_joint_forces(Bodies(m, q, lanes=m.lanes), None, gravity(m), q, qd, zeros(m, tau.shape), None, tau)

    def backward(m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array) -> None:
        tape, bodies = taped_bodies(m, q)
        add_rigid_body_gradient(bodies, tape, gravity(m), qd, zeros(m, tau.shape), None, tau.grad)

    return DifferentiableOp((model.nv,), forward, backward, parameters)
