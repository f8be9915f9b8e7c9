"""Kinematics of a model: poses, velocities and Jacobians of frames, motion of the coordinates.

Free functions by the rules of :mod:`sim.dynamics`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import warp as wp

from sim.arrays.array_refs import States
from sim.arrays.device_model import DeviceModel
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    Motions,
    Poses,
    batch,
    lanes_of,
    launch_last,
    on_device,
    run,
    taped_backward,
)
from sim.model.frames import Names, frame_names, reference_code
from sim.model.model import Model
from warp_kernels.kinematics.frames import frame_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.jacobian import jacobian_kernels
from warp_kernels.kinematics.velocity import frame_velocity_kernels, link_velocity_kernels


def forward_kinematics(model: Model | DeviceModel, q: Array, frames: Sequence[str] | None = None) -> wp.array:
    """Poses of frames in the world.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        frames: names of frames; every link of the description is one. Default: ``model.link_names``.

    Returns:
        [num_worlds, len(frames), 7]: position [m] and quaternion xyzw.
    """
    m = on_device(model, q)
    q = batch(m, "q", q, (m.model.nq,))
    return run(m, pose_operation(m.model, frame_names(m.model, frames)), [q])


def pose_operation(model: Model, names: Names) -> DifferentiableOp:
    """See :func:`forward_kinematics`."""
    return _of_poses((len(names), 7), names, "frame_pose")


def matrix_operation(model: Model, names: Names) -> DifferentiableOp:
    """Poses of frames as homogeneous matrices [num_worlds, len(names), 4, 4]."""
    return _of_poses((len(names), 4, 4), names, "frame_matrix", buffers=[16])


def _of_poses(shape: tuple[int, ...], names: Names, kernel: str, buffers: Sequence[int] = ()) -> DifferentiableOp:
    """What one of the kernels of frames, with buffers of so many entries, computes of the poses of links."""

    def launch(bodies: Poses, name: str, arrays: list[wp.array], outputs: list[wp.array]) -> None:
        m = bodies.model
        wp.launch(
            getattr(frame_kernels(m.types.scalar, bodies.lanes), name),
            dim=(len(names), bodies.blocks),
            inputs=[m.link_tree, *m.frame_arrays(names), bodies.pose, *arrays],
            outputs=[*(bodies.buffer(count) for count in buffers), *outputs],
            device=m.device,
        )

    def forward(m: DeviceModel, result: States, q: States) -> None:
        bodies = Poses(m, q, names, lanes_of(m))
        launch(bodies, kernel, [bodies.origin], [bodies.states(result)])

    def backward(m: DeviceModel, result: States, q: States) -> None:
        with wp.Tape() as tape:
            bodies = Poses(m, q, names, lanes_of(m))
        launch(bodies, f"{kernel}_adjoint", [bodies.states(result.grad)], [bodies.pose.grad, bodies.origin.grad])
        tape.backward()

    return DifferentiableOp(shape, forward, backward, ("joint_placement",), in_place=True)


def link_velocities(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    frames: Sequence[str] | None = None,
    reference: str = "local_world_aligned",
) -> wp.array:
    """Spatial velocities of frames.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        frames: names of frames. Default: ``model.link_names``.
        reference: "local_world_aligned": velocity of the frame's origin along world axes; "world": of the point of
            the moving body that is now at the world's origin, along world axes; "local": of the frame's origin along
            the frame's axes.

    Returns:
        [num_worlds, len(frames), 6]: angular [rad/s], then linear velocity [m/s].
    """
    m = on_device(model, q, qd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    return run(m, velocity_operation(m.model, frame_names(m.model, frames), reference), [q, qd])


def velocity_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """See :func:`link_velocities`."""
    code = reference_code(reference)

    def inputs(bodies: Motions, qd: wp.array) -> list[Any]:
        return [*_paths(bodies.model, names), code, qd, bodies.pose, bodies.origin, bodies.subspace]

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = Motions(m, q, names, lanes_of(m))
        kernel = frame_velocity_kernels(m.types.scalar, bodies.lanes).frame_velocity
        wp.launch(kernel, (len(names), bodies.blocks), inputs(bodies, qd), [result], device=m.device)

    def backward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        with wp.Tape() as tape:
            bodies = Motions(m, q, names, lanes_of(m))
        wp.launch(
            frame_velocity_kernels(m.types.scalar, bodies.lanes).frame_velocity_adjoint,
            dim=(len(names), bodies.blocks),
            inputs=[*inputs(bodies, qd), result.grad],
            outputs=[qd.grad, *_bars(bodies)],
            device=m.device,
        )
        tape.backward()

    return DifferentiableOp((len(names), 6), forward, backward, ("joint_placement",))


def _paths(m: DeviceModel, names: Names) -> list[wp.array]:
    """Trees, the degrees of freedom that move each frame, and the frames, as kernels take them."""
    start, _owner, dof = m.frame_paths(names)
    return [m.link_tree, start, dof, *m.frame_arrays(names)]


def _bars(bodies: Motions) -> list[wp.array]:
    return [bodies.pose.grad, bodies.origin.grad, bodies.subspace.grad]


def run_velocities(bodies: Motions, qd: wp.array) -> wp.array:
    """Velocity of each link about its tree's origin [num_links, num_worlds]."""
    m = bodies.model
    velocity = bodies.scratch(m.model.num_links, m.types.spatial)
    wp.launch(
        link_velocity_kernels(m.types.scalar).link_velocity,
        dim=(m.model.num_trees, bodies.worlds),
        inputs=[m.tree_link_start, m.link_parent, m.joint_qd_start, qd, bodies.subspace],
        outputs=[velocity],
        device=m.device,
    )
    return velocity


def jacobian(
    model: Model | DeviceModel, q: Array, frame: str | Sequence[str], reference: str = "local_world_aligned"
) -> wp.array:
    """Jacobian of one or several frames: the spatial velocity of a frame is ``jacobian @ qd``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        frame: name of the frame, or a sequence of names.
        reference: as for :func:`link_velocities`.

    Returns:
        [num_worlds, 6, nv], angular rows first; for a sequence [num_worlds, len(frame), 6, nv].
    """
    m = on_device(model, q)
    q = batch(m, "q", q, (m.model.nq,))
    return run_of_frames(m, jacobian_operation, frame, reference, [q])


def run_of_frames(
    m: DeviceModel,
    make: Callable[[Model, Names, str], DifferentiableOp],
    frame: str | Sequence[str],
    reference: str,
    inputs: Sequence[wp.array],
) -> wp.array:
    """The result of ``make(model, names, reference)``, without the dimension of frames for a single one."""
    operation = make(m.model, frame_names(m.model, [frame] if isinstance(frame, str) else frame), reference)
    return run(m, _of_single(operation) if isinstance(frame, str) else operation, inputs)


def _of_single(operation: DifferentiableOp) -> DifferentiableOp:
    """An operation on one frame without the dimension of frames, the first one of its result."""

    def with_frames(array: wp.array) -> wp.array:
        return array.reshape((array.shape[0], *operation.shape))

    def forward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        operation.forward(m, with_frames(result), *inputs)

    def backward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        operation.backward(m, with_frames(result), *inputs)

    return DifferentiableOp(operation.shape[1:], forward, backward, operation.parameters)


def jacobian_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """See :func:`jacobian`; always with the dimension of frames."""
    code = reference_code(reference)

    def inputs(bodies: Motions) -> list[Any]:
        return [bodies.pose, bodies.origin, bodies.subspace]

    def forward(m: DeviceModel, result: States, q: States) -> None:
        bodies = Motions(m, q, names, lanes_of(m))
        wp.launch(
            jacobian_kernels(m.types.scalar, bodies.lanes).frame_jacobian,
            dim=(len(names), bodies.blocks),
            inputs=[*_paths(m, names), code, model.nv, *inputs(bodies)],
            outputs=[bodies.buffer(6 * model.nv), bodies.states(result)],
            device=m.device,
        )

    def backward(m: DeviceModel, result: States, q: States) -> None:
        with wp.Tape() as tape:
            bodies = Motions(m, q, names, lanes_of(m))
        wp.launch(
            jacobian_kernels(m.types.scalar, bodies.lanes).frame_jacobian_adjoint,
            dim=(len(names), bodies.blocks),
            inputs=[*_paths(m, names), code, model.nv, *inputs(bodies), bodies.states(result.grad)],
            outputs=[bodies.buffer(6 * model.nv), *_bars(bodies)],
            device=m.device,
        )
        tape.backward()

    return DifferentiableOp((len(names), 6, model.nv), forward, backward, ("joint_placement",), in_place=True)


def integrate(model: Model | DeviceModel, q: Array, qd: Array, dt: float = 1.0) -> wp.array:
    """Coordinates after moving with constant velocity: q "plus" dt qd on the configuration manifold.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        dt: time [s], a constant.

    Returns:
        [num_worlds, nq], quaternions normalised.
    """
    m = on_device(model, q, qd)
    q = batch(m, "q", q, (m.model.nq,))
    qd = batch(m, "qd", qd, (m.model.nv,), q.shape[0])
    return run(m, integrate_operation(m.model, dt), [q, qd])


def integrate_operation(model: Model, dt: float) -> DifferentiableOp:
    """See :func:`integrate`."""
    return _over_joints("integrate", model.nq, [dt])


def difference(model: Model | DeviceModel, q0: Array, q1: Array) -> wp.array:
    """The velocity that takes q0 to q1 in one second, turning by at most pi; the inverse of :func:`integrate`.

    Args:
        model: the model.
        q0: joint coordinates [num_worlds, nq].
        q1: joint coordinates [num_worlds, nq].

    Returns:
        [num_worlds, nv].
    """
    m = on_device(model, q0, q1)
    q0 = batch(m, "q0", q0, (m.model.nq,))
    q1 = batch(m, "q1", q1, (m.model.nq,), q0.shape[0])
    return run(m, difference_operation(m.model), [q0, q1])


def difference_operation(model: Model) -> DifferentiableOp:
    """See :func:`difference`."""
    return _over_joints("difference", model.nv, [])


def _over_joints(kernel: str, size: int, constants: list[float]) -> DifferentiableOp:
    def forward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        given = [m.joint_type, m.joint_q_start, m.joint_qd_start, *map(m.types.scalar, constants), *inputs]
        dim = (m.model.num_links, result.shape[0])
        launch_last(getattr(integrate_kernels(m.types.scalar), kernel), dim, given, result)

    return DifferentiableOp((size,), forward, taped_backward(forward))
