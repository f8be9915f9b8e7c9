"""Accelerations of frames and derivatives of Jacobians, as free functions by the rules of :mod:`sim.dynamics`."""

from collections.abc import Sequence

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch
from sim.dynamics.arguments import Names, frame_names, reference_code
from sim.dynamics.bodies import Motions
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    any_leading_shape,
    batch,
    launch_last,
    on_device,
    run,
    taped_backward,
)
from sim.dynamics.kinematics import run_of_frames, run_velocities
from sim.model.model import Model
from warp_kernels.kinematics.jacobian import jacobian_derivative_kernels
from warp_kernels.kinematics.motion import acceleration_kernels


@any_leading_shape
def link_accelerations(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    qdd: Array,
    frames: Sequence[str] | None = None,
    reference: str = "local_world_aligned",
) -> wp.array:
    """Return accelerations of frames, without gravity.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        qdd: joint accelerations [num_worlds, nv].
        frames: names of frames. Default: ``model.link_names``.
        reference: "local_world_aligned" for the acceleration of the frame's origin along world axes, the time
            derivative of :func:`sim.link_velocities`; "world" for the spatial acceleration about the world's origin,
            again the derivative of the velocity in that reference; "local" for the acceleration of the frame's origin
            along the frame's axes, as an accelerometer measures it (which adds gravity).

    Returns:
        [num_worlds, len(frames), 6]: angular [rad/s^2], then linear acceleration [m/s^2].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = qdd = np.zeros((2, model.nv))
        >>> sim.link_accelerations(model, q, qd, qdd).shape
        (2, 7, 6)
    """
    m = on_device(model, q, qd, qdd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    qdd = batch(m, "qdd", qdd, (m.model.nv,), q.shape[0])
    return run(m, acceleration_operation(m.model, frame_names(m.model, frames), reference), [q, qd, qdd])


def acceleration_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """Return the operation of :func:`link_accelerations`."""
    code = reference_code(reference)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array, qdd: wp.array) -> None:
        bodies = Motions(m, q)
        kernels = acceleration_kernels(m.types.scalar)
        motion = {name: bodies.scratch(model.num_links, m.types.spatial) for name in ("velocity", "acceleration")}
        dim = (model.num_trees, q.shape[0])
        launch(kernels.link_motion, dim, bodies, m, motion, device=m.device, qd=qd, qdd=qdd)
        launch_last(
            kernels.frame_acceleration, (len(names), q.shape[0]), bodies, m, m.frame_arrays(names), motion,
            device=m.device, reference=code, frame_acceleration=result,
        )  # fmt: skip

    return DifferentiableOp((len(names), 6), forward, taped_backward(forward), ("joint_placement",))


@any_leading_shape
def jacobian_derivative(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    frame: str | Sequence[str],
    reference: str = "local_world_aligned",
) -> wp.array:
    """Return the time derivative of :func:`sim.jacobian` in motion with qd.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        frame: name of the frame, or a sequence of names.
        reference: as for :func:`sim.link_velocities`.

    Returns:
        [num_worlds, 6, nv], angular rows first; for a sequence [num_worlds, len(frame), 6, nv].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.jacobian_derivative(model, q, qd, "link7").shape
        (2, 6, 7)
    """
    m = on_device(model, q, qd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    return run_of_frames(m, jacobian_derivative_operation, frame, reference, [q, qd])


def jacobian_derivative_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """Return the operation of :func:`jacobian_derivative`; always with the dimension of frames."""
    code = reference_code(reference)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = Motions(m, q)
        kernels = jacobian_derivative_kernels(m.types.scalar)
        velocity = run_velocities(bodies, qd)
        motion = {"velocity": velocity, "subspace_rate": bodies.scratch(model.nv, m.types.spatial)}
        launch(kernels.subspace_derivative, (model.nv, q.shape[0]), bodies, m, motion, device=m.device)
        paths = m.frame_paths(names)
        launch_last(
            kernels.frame_jacobian_derivative, (paths.path_dof.shape[0], q.shape[0]), bodies, m, paths,
            m.frame_arrays(names), motion, device=m.device, reference=code, jacobian_derivative=result,
        )  # fmt: skip

    return DifferentiableOp((len(names), 6, model.nv), forward, taped_backward(forward), ("joint_placement",))
