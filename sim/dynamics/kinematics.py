"""Kinematics of a model: poses, velocities and Jacobians of frames, integration of coordinates, lengths of tendons.

Free functions by the rules of :mod:`sim.dynamics`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.array_refs import States
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch, threads_of_world
from sim.dynamics.arguments import Names, frame_names, reference_code
from sim.dynamics.bodies import Motions, Poses
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
from sim.model.checks import number
from sim.model.model import Model
from sim.model.tendons.tendons import lengths_of, path_points
from warp_kernels.kinematics.frames import frame_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.jacobian import jacobian_kernels
from warp_kernels.kinematics.motion import frame_velocity_kernels, link_velocity_kernels

# Minimum number of worlds for lane groups in poses and Jacobians: smaller batches, such as the frames of a film, are
# faster world by world.
POSES_WORTH_LANES = 64


@any_leading_shape
def forward_kinematics(model: Model | DeviceModel, q: Array, frames: Sequence[str] | None = None) -> wp.array:
    """Return poses of frames in the world.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq], or of any leading shape, such as those of a trajectory.
        frames: names of frames; every link of the description is one. Default: ``model.link_names``.

    Returns:
        [num_worlds, len(frames), 7]: position [m] and quaternion xyzw.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.forward_kinematics(model, q, frames=["link7"]).shape  # position, quaternion xyzw
        (2, 1, 7)
    """
    m = on_device(model, q, worth_lanes=POSES_WORTH_LANES)
    q = batch(m, "q", q, (m.model.nq,))
    return run(m, pose_operation(m.model, frame_names(m.model, frames)), [q])


def pose_operation(model: Model, names: Names) -> DifferentiableOp:
    """Return the operation of :func:`forward_kinematics`."""
    return _of_poses((len(names), 7), names, "frame_pose")


def matrix_operation(model: Model, names: Names) -> DifferentiableOp:
    """Return the operation of poses of frames as homogeneous matrices [num_worlds, len(names), 4, 4]."""
    return _of_poses((len(names), 4, 4), names, "frame_matrix", buffer_size=16)


def _of_poses(shape: tuple[int, ...], names: Names, kernel: str, buffer_size: int = 0) -> DifferentiableOp:
    """Return the operation of a kernel on frames and the poses of links; its result has the name of the kernel.

    Args:
        shape: shape of the result.
        names: names of the frames.
        kernel: name of the kernel; its adjoint is ``<kernel>_adjoint``.
        buffer_size: number of entries of a frame in the kernels' buffer; 0 if they have none.
    """

    def run_kernel(bodies: Poses, name: str, **result: Any) -> None:
        m = bodies.model
        buffer = {"buffer": bodies.scratch_buffer(buffer_size)} if buffer_size else {}
        function = getattr(frame_kernels(m.types.scalar, bodies.lanes), name)
        dim = (len(names), bodies.groups)
        launch(function, dim, bodies, m, m.frame_arrays(names), buffer, device=m.device, **result)

    def forward(m: DeviceModel, result: States, q: States) -> None:
        bodies = Poses(m, q, names, m.lanes)
        run_kernel(bodies, kernel, **{kernel: bodies.states(result)})

    def backward(m: DeviceModel, result: States, q: States) -> None:
        with wp.Tape() as tape:
            bodies = Poses(m, q, names, m.lanes)
        run_kernel(bodies, f"{kernel}_adjoint", **{f"{kernel}_bar": bodies.states(result.grad)})
        tape.backward()

    return DifferentiableOp(shape, forward, backward, ("joint_placement",), in_place=True)


@any_leading_shape
def link_velocities(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    frames: Sequence[str] | None = None,
    reference: str = "local_world_aligned",
) -> wp.array:
    """Return spatial velocities of frames.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        frames: names of frames. Default: ``model.link_names``.
        reference: "local_world_aligned" for the velocity of the frame's origin along world axes; "world" for that of
            the point of the moving body that is at the world's origin, along world axes; "local" for that of the
            frame's origin along the frame's axes.

    Returns:
        [num_worlds, len(frames), 6]: angular [rad/s], then linear velocity [m/s].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = np.zeros((2, model.nv))
        >>> sim.link_velocities(model, q, qd).shape  # angular first
        (2, 7, 6)
    """
    m = on_device(model, q, qd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    return run(m, velocity_operation(m.model, frame_names(m.model, frames), reference), [q, qd])


def velocity_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """Return the operation of :func:`link_velocities`."""
    code = reference_code(reference)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = Motions(m, q, names, m.lanes)
        kernel = frame_velocity_kernels(m.types.scalar, bodies.lanes).frame_velocity
        _launch_over_frames(kernel, bodies, names, reference=code, qd=qd, frame_velocity=result)

    def backward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        with wp.Tape() as tape:
            bodies = Motions(m, q, names, m.lanes)
        kernel = frame_velocity_kernels(m.types.scalar, bodies.lanes).frame_velocity_adjoint
        _launch_over_frames(kernel, bodies, names, reference=code, qd=qd, frame_velocity_bar=result.grad)
        tape.backward()

    return DifferentiableOp((len(names), 6), forward, backward, ("joint_placement",))


def _launch_over_frames(kernel: wp.Kernel, bodies: Motions, names: Names, **named: Any) -> None:
    """Launch a kernel over frames and the degrees of freedom that move each of them."""
    m, dim = bodies.model, (len(names), bodies.groups)
    launch(kernel, dim, bodies, m, m.frame_paths(names), m.frame_arrays(names), device=m.device, **named)


def run_velocities(bodies: Motions, qd: wp.array) -> wp.array:
    """Return the velocity of each link about its tree's origin [num_links, num_worlds]."""
    m = bodies.model
    velocity = bodies.scratch(m.model.num_links, m.types.spatial)
    kernel = link_velocity_kernels(m.types.scalar).link_velocity
    launch(kernel, (m.model.num_trees, bodies.worlds), bodies, m, device=m.device, qd=qd, velocity=velocity)
    return velocity


@any_leading_shape
def jacobian(
    model: Model | DeviceModel, q: Array, frame: str | Sequence[str], reference: str = "local_world_aligned"
) -> wp.array:
    """Return the Jacobian of one or several frames: the spatial velocity of a frame is ``jacobian @ qd``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        frame: name of the frame, or a sequence of names.
        reference: as for :func:`link_velocities`.

    Returns:
        [num_worlds, 6, nv], angular rows first; for a sequence [num_worlds, len(frame), 6, nv].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = np.zeros((2, model.nv))
        >>> sim.jacobian(model, q, "link7").shape
        (2, 6, 7)
    """
    m = on_device(model, q, worth_lanes=POSES_WORTH_LANES)
    q = batch(m, "q", q, (m.model.nq,))
    return run_of_frames(m, jacobian_operation, frame, reference, [q])


def run_of_frames(
    m: DeviceModel,
    make: Callable[[Model, Names, str], DifferentiableOp],
    frame: str | Sequence[str],
    reference: str,
    inputs: Sequence[wp.array],
) -> wp.array:
    """Return the result of ``make(model, names, reference)``, without the dimension of frames for a single one."""
    operation = make(m.model, frame_names(m.model, [frame] if isinstance(frame, str) else frame), reference)
    return run(m, _of_single(operation) if isinstance(frame, str) else operation, inputs)


def _of_single(operation: DifferentiableOp) -> DifferentiableOp:
    """Return an operation on one frame without the dimension of frames, the first one of its result."""

    def with_frames(array: wp.array) -> wp.array:
        return array.reshape((array.shape[0], *operation.shape))

    def forward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        operation.forward(m, with_frames(result), *inputs)

    def backward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        operation.backward(m, with_frames(result), *inputs)

    return DifferentiableOp(operation.shape[1:], forward, backward, operation.parameters)


def jacobian_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """Return the operation of :func:`jacobian`; always with the dimension of frames."""
    code = reference_code(reference)

    def run_kernel(bodies: Motions, name: str, **result: Any) -> None:
        kernel = getattr(jacobian_kernels(bodies.model.types.scalar, bodies.lanes), name)
        buffer = bodies.scratch_buffer(6 * model.nv)
        _launch_over_frames(kernel, bodies, names, reference=code, nv=model.nv, buffer=buffer, **result)

    def forward(m: DeviceModel, result: States, q: States) -> None:
        bodies = Motions(m, q, names, m.lanes)
        if bodies.teams is None:
            run_kernel(bodies, "frame_jacobian", jacobian=bodies.states(result))
        else:
            arrays = (m.frame_paths(names), m.frame_arrays(names))
            bodies.launch_teams(bodies.teams.jacobian, *arrays, reference=code, jacobian=result)

    def backward(m: DeviceModel, result: States, q: States) -> None:
        with wp.Tape() as tape:
            bodies = Motions(m, q, names, m.lanes)
        run_kernel(bodies, "frame_jacobian_adjoint", jacobian_bar=bodies.states(result.grad))
        tape.backward()

    return DifferentiableOp((len(names), 6, model.nv), forward, backward, ("joint_placement",), in_place=True)


@any_leading_shape
def integrate(model: Model | DeviceModel, q: Array, qd: Array, dt: float = 1.0) -> wp.array:
    """Return the coordinates after moving with constant velocity: q "plus" dt qd on the configuration manifold.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        dt: time [s], a constant.

    Returns:
        [num_worlds, nq], quaternions normalised.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True, dtype="float64")
        >>> q0, qd = model.q0[None], np.full((1, model.nv), 0.1)
        >>> q1 = sim.integrate(model, q0, qd, 0.5)
        >>> bool(np.allclose(sim.difference(model, q0, q1).numpy(), 0.5 * qd))
        True
    """
    m = on_device(model, q, qd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    return run(m, integrate_operation(m.model, number("integrate", "dt", dt)), [q, qd])


def integrate_operation(model: Model, dt: float) -> DifferentiableOp:
    """Return the operation of :func:`integrate`."""

    def run_kernel(name: str, m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array, **further: Any) -> None:
        threads = threads_of_world(m.device, model.num_links)
        kernel, dim = getattr(integrate_kernels(m.types.scalar), name), (threads, result.shape[0])
        named = {"threads": threads, "dt": m.types.scalar(dt), "q": q, "qd": qd, **further}
        launch(kernel, dim, m, device=m.device, record_tape=False, **named)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        none = m.none(m.types.scalar)
        run_kernel("integrate", m, result, q, qd, q_next=result, q_low=none, q_low_next=none)

    def backward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        run_kernel("integrate_adjoint", m, result, q, qd, q_next_bar=result.grad, q_bar=q.grad, qd_bar=qd.grad)

    return DifferentiableOp((model.nq,), forward, backward)


@any_leading_shape
def difference(model: Model | DeviceModel, q0: Array, q1: Array) -> wp.array:
    """Return the velocity that moves q0 to q1 in one second, by at most pi of rotation; the inverse of
    :func:`integrate`.

    Args:
        model: the model.
        q0: joint coordinates [num_worlds, nq].
        q1: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True, dtype="float64")
        >>> q0 = model.q0[None]
        >>> q1 = q0.copy()
        >>> q1[0, 3:7] = 0.0, 0.0, np.sin(0.1), np.cos(0.1)  # turned by 0.2 rad about z
        >>> sim.difference(model, q0, q1).numpy()[0, :6].round(6).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.2]
    """
    m = on_device(model, q0, q1)
    q0 = batch(m, "q0", q0, (m.model.nq,))
    q1 = batch(m, "q1", q1, (m.model.nq,), q0.shape[0])
    return run(m, difference_operation(m.model), [q0, q1])


def difference_operation(model: Model) -> DifferentiableOp:
    """Return the operation of :func:`difference`."""

    def forward(m: DeviceModel, result: wp.array, q0: wp.array, q1: wp.array) -> None:
        kernel, dim = integrate_kernels(m.types.scalar).difference, (model.num_links, result.shape[0])
        launch_last(kernel, dim, m, device=m.device, q0=q0, q1=q1, qd=result)

    return DifferentiableOp((model.nv,), forward, taped_backward(forward))


def tendon_lengths(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the length of each tendon for coordinates [nq], by the model's own parameters [num_tendons], m."""
    tendons = model.tendons
    if not tendons.names:
        return np.zeros(0)
    poses = np.zeros((0, 7))
    if len(tendons.point_link):
        given: wp.array = wp.array(q[None], dtype=model.scalar, device="cpu")  # needs no GPU
        poses = forward_kinematics(model, given).numpy()[0]
    coordinates = q[model.dof_q[tendons.term_dof]]
    points = path_points(tendons, model.parameters, poses)
    return lengths_of(tendons, model.parameters["tendon_coefficient"], coordinates, *points)
