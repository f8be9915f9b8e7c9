"""Gradients of a loss in forces on links, to draw as arrows."""

from typing import Any

import numpy as np

from sim.dynamics.kinematics import link_velocities
from sim.errors import ModelError
from sim.simulation.trajectory import Trajectory


def force_gradients(trajectory: Trajectory, q_grad: Any = None, qd_grad: Any = None) -> np.ndarray:
    """Gradient of a loss in forces at the origins of the links, each held for one step.

    Such a force f is equivalent to the joint force J^T f, where J is the Jacobian of the link's origin before the step.
    The gradient in f is therefore J times the gradient in tau. It is computed as the velocity of the origin for a joint
    velocity equal to that gradient.

    Args:
        trajectory: a rollout with ``tau`` (which may be zeros) that stores all its states.
        q_grad: derivative of the loss in every q or in the last one, as for :meth:`sim.Trajectory.backward`.
        qd_grad: the same for qd.

    Returns:
        [steps, num_worlds, num_links, 3], along world axes, in units of the loss per N.

    Raises:
        ModelError: for a trajectory without tau or with a checkpoint interval, and for wrong shapes.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.viewer import force_gradients
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), np.zeros((10, 1, model.nv)))
        >>> force_gradients(trajectory, q_grad=np.ones((1, model.nq))).shape
        (10, 1, 7, 3)
    """
    if trajectory.tau is None:
        raise ModelError("force_gradients: the rollout has no tau; pass zeros [steps, num_worlds, nv]")
    if trajectory.checkpoint_interval != 1:
        raise ModelError("force_gradients: the rollout does not store all its states; omit checkpoint_interval")
    model = trajectory.simulator.model
    tau_bar: Any = trajectory.backward(q_grad, qd_grad).tau
    steps, worlds = tau_bar.shape[:2]
    before = trajectory.q[:steps].reshape((steps * worlds, model.nq))
    velocity = link_velocities(model, before, tau_bar.reshape((steps * worlds, model.nv))).numpy()
    return velocity[:, :, 3:].reshape(steps, worlds, model.num_links, 3).astype(np.float64)
