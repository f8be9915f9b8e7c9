"""Kinematics of a model as free functions: poses, velocities and Jacobians of frames, motion of the coordinates.

Every function takes a :class:`sim.Model` or a :class:`sim.device_model.DeviceModel` and batches as Warp or NumPy
arrays, returns a fresh Warp array in the model's dtype, and is differentiable by :class:`wp.Tape` in the Warp arrays
that require a gradient and in the parameters that the DeviceModel names in ``requires_grad``. Gradients in q are
ambient; those of quaternions are tangent to the unit sphere. Arguments are never written to. A :class:`sim.ModelError`
is raised for a wrong shape, dtype or device and for an unknown frame.
"""

from collections.abc import Sequence
from typing import Any

import warp as wp

from sim.device_model import DeviceModel
from sim.errors import ModelError
from sim.model import Model
from sim.operation import Array, Bodies, batch, on_device, replay, run
from warp_kernels import frames as codes
from warp_kernels.frames import frame_kernels
from warp_kernels.integrate import integrate_kernels
from warp_kernels.jacobian import jacobian_kernels

REFERENCES = {"local_world_aligned": codes.LOCAL_WORLD_ALIGNED, "world": codes.WORLD, "local": codes.LOCAL}


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
    names = _names(m, frames)
    link, placement = m.frame_arrays(names)

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        bodies = Bodies(m, q)
        wp.launch(
            frame_kernels(m.types.scalar).frame_pose,
            dim=(len(names), q.shape[0]),
            inputs=[m.link_tree, link, placement, bodies.pose, bodies.origin],
            outputs=[result],
            device=m.device,
        )

    return run(m, (q.shape[0], len(names), 7), [q], forward, replay(forward), ["joint_placement"])


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
    names = _names(m, frames)
    link, placement = m.frame_arrays(names)
    code = _reference(reference)
    kernels = frame_kernels(m.types.scalar)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, qd: wp.array) -> None:
        bodies = Bodies(m, q)
        velocity = bodies.scratch(m.model.num_links, m.types.spatial)
        wp.launch(
            kernels.link_velocity,
            dim=(m.model.num_trees, q.shape[0]),
            inputs=[m.tree_link_start, m.link_parent, m.joint_qd_start, qd, bodies.subspace],
            outputs=[velocity],
            device=m.device,
        )
        wp.launch(
            kernels.frame_velocity,
            dim=(len(names), q.shape[0]),
            inputs=[m.link_tree, link, placement, code, bodies.pose, bodies.origin, velocity],
            outputs=[result],
            device=m.device,
        )

    return run(m, (q.shape[0], len(names), 6), [q, qd], forward, replay(forward), ["joint_placement"])


def jacobian(model: Model | DeviceModel, q: Array, frame: str, reference: str = "local_world_aligned") -> wp.array:
    """Jacobian of a frame: its spatial velocity is ``jacobian @ qd``.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        frame: name of the frame.
        reference: as for :func:`link_velocities`.

    Returns:
        [num_worlds, 6, nv], angular rows first.
    """
    m = on_device(model, q)
    q = batch(m, "q", q, (m.model.nq,))
    target = m.model.frame(frame)
    code = _reference(reference)
    path = m.frame_path(frame)
    tree = int(m.model.link_tree[target.link]) if target.link >= 0 else 0
    placement = m.types.transform(*(float(x) for x in target.placement))

    def forward(m: DeviceModel, result: wp.array, q: wp.array) -> None:
        bodies = Bodies(m, q)
        wp.launch(
            jacobian_kernels(m.types.scalar).frame_jacobian,
            dim=(path.shape[0], q.shape[0]),
            inputs=[path, tree, target.link, placement, code, bodies.pose, bodies.origin, bodies.subspace],
            outputs=[result],
            device=m.device,
        )

    return run(m, (q.shape[0], 6, m.model.nv), [q], forward, replay(forward), ["joint_placement"])


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
    kernel = integrate_kernels(m.types.scalar).integrate
    return _over_joints(m, kernel, (q.shape[0], m.model.nq), [m.types.scalar(dt)], [q, qd])


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
    return _over_joints(m, integrate_kernels(m.types.scalar).difference, (q0.shape[0], m.model.nv), [], [q0, q1])


def _over_joints(
    m: DeviceModel, kernel: wp.Kernel, shape: tuple[int, int], constants: list[Any], inputs: list[wp.array]
) -> wp.array:
    def forward(m: DeviceModel, result: wp.array, *inputs: wp.array) -> None:
        wp.launch(
            kernel,
            dim=(m.model.num_links, result.shape[0]),
            inputs=[m.joint_type, m.joint_q_start, m.joint_qd_start, *constants, *inputs],
            outputs=[result],
            device=m.device,
        )

    return run(m, shape, inputs, forward, replay(forward))


def _names(m: DeviceModel, frames: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(frames, str):
        raise ModelError(f"frames is the string '{frames}'; give a sequence of names, such as ['{frames}']")
    return m.model.link_names if frames is None else tuple(frames)


def _reference(name: str) -> int:
    if name not in REFERENCES:
        raise ModelError(f"unknown reference '{name}'; known are {', '.join(REFERENCES)}")
    return REFERENCES[name]
