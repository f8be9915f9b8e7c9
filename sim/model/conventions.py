"""Joint coordinates and velocities in the conventions of Pinocchio and MuJoCo, in both directions.

============================  ==========================  ==========================  ==========================
joint                         Backswing                   Pinocchio                   MuJoCo
============================  ==========================  ==========================  ==========================
free: coordinates             position, quaternion xyzw   position, quaternion xyzw   position, quaternion wxyz
free: linear velocity         along world axes            along the body's axes       along world axes
free: angular velocity        along world axes            along the body's axes       along the body's axes
spherical: coordinates        quaternion xyzw             quaternion xyzw             quaternion wxyz
spherical: velocity           along the child's axes      along the child's axes      along the child's axes
revolute                      angle                       angle, or cosine and sine   angle
============================  ==========================  ==========================  ==========================

The linear velocity of a free joint is that of the origin of the body's frame in all three. Coordinates of a URDF's
floating joint are relative to the joint's origin in Pinocchio, and to the world in Backswing; both functions take that
origin from the model (``floating_origins``). All functions take and return NumPy arrays or torch tensors of any batch
shape, ``q [..., nq]`` and ``qd [..., nv]``; with tensors they are differentiable. Warp arrays, such as those of a
trajectory, are returned as NumPy arrays.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.checks import as_numbers, names_in, require_type
from sim.model.model import Model
from sim.model.poses import inverse
from warp_kernels.types import FIXED, FREE, REVOLUTE, SPHERICAL

Array = Any  # np.ndarray or torch.Tensor
JointState = tuple[Array, Array]
MUJOCO_INFINITY = 1.0e10  # no bound in an MJCF file
Convert = Callable[[int, Array, Array], JointState]

MOST_NUMBERS = 2**33  # coordinates of all states of one call


def to_pinocchio(
    model: Model,
    q: Array,
    qd: Array,
    joint_order: Sequence[str] | None = None,
    unbounded: Sequence[str] = (),
) -> JointState:
    """Return coordinates and velocities of this model in Pinocchio's convention, q and v.

    Args:
        model: the model.
        q: joint coordinates [..., nq].
        qd: joint velocities [..., nv].
        joint_order: names of all moving joints, in Pinocchio's order (``names[1:]``). Default: this model's order.
            Pinocchio sorts the children of a link by name in a URDF. Name the free joint as in this model.
        unbounded: names of revolute joints that Pinocchio stores as (cosine, sine), such as the continuous joints of a
            URDF.

    Returns:
        q and v for Pinocchio, quaternions normalised.

    Raises:
        ModelError: for an order that doesn't name each moving joint exactly once.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True)
        >>> q, v = sim.to_pinocchio(model, model.q0, np.zeros(model.nv))
        >>> q[3:7].tolist()  # the quaternion of the trunk, w last
        [0.0, 0.0, 0.0, 1.0]
    """
    q, qd = _arrays(model, q, qd)
    order = _order(model, joint_order)
    turns = _turns(model, unbounded)

    def convert(link: int, x: Array, v: Array) -> JointState:
        kind = model.joint_type[link]
        if kind == FREE:
            quat = _unit(x[..., 3:])
            v = _join(rotate(_conjugate(quat), v[..., :3]), rotate(_conjugate(quat), v[..., 3:]))
            x = _join(x[..., :3], quat)
            if (origin := model.floating_origins.get(model.joint_names[link])) is not None:
                x = _placed(inverse(origin), x)
        elif kind == SPHERICAL:
            x = _unit(x)
        elif link in turns:
            x = _join(_library(x).cos(x), _library(x).sin(x))
        return x, v

    own = _split(q, qd, range(model.num_links), _sizes(model))
    return _collect(q, qd, order, own, convert)


def from_pinocchio(
    model: Model,
    q: Array,
    v: Array,
    joint_order: Sequence[str] | None = None,
    unbounded: Sequence[str] = (),
) -> JointState:
    """Return Pinocchio's q and v as coordinates and velocities of this model; the inverse of :func:`to_pinocchio`.

    Angles of unbounded joints are between -pi and pi.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True)
        >>> q, v = sim.to_pinocchio(model, model.q0, np.zeros(model.nv))
        >>> back, qd = sim.from_pinocchio(model, q, v)
        >>> bool(np.allclose(back, model.q0)), qd.shape
        (True, (18,))
    """
    q, v = _arrays(model, q, v)
    order = _order(model, joint_order)
    turns = _turns(model, unbounded)

    def convert(link: int, x: Array, u: Array) -> JointState:
        kind = model.joint_type[link]
        if kind == FREE:
            x = _join(x[..., :3], _unit(x[..., 3:]))
            if (origin := model.floating_origins.get(model.joint_names[link])) is not None:
                x = _placed(origin, x)
            u = _join(rotate(x[..., 3:], u[..., :3]), rotate(x[..., 3:], u[..., 3:]))
        elif kind == SPHERICAL:
            x = _unit(x)
        elif link in turns:
            x = _library(x).arctan2(x[..., 1:], x[..., :1])
        return x, u

    theirs = _split(q, v, order, _sizes(model, turns))
    return _collect(q, v, range(model.num_links), theirs, convert)


def to_mujoco(model: Model, q: Array, qd: Array, joint_order: Sequence[str] | None = None) -> JointState:
    """Return coordinates and velocities of this model in MuJoCo's convention, qpos and qvel.

    Args:
        model: the model.
        q: joint coordinates [..., nq].
        qd: joint velocities [..., nv].
        joint_order: names of all moving joints, in MuJoCo's order. Default: this model's order.

    Returns:
        qpos and qvel, quaternions normalised.

    Raises:
        ModelError: for an order that doesn't name each moving joint exactly once.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True)
        >>> qpos, qvel = sim.to_mujoco(model, model.q0, np.zeros(model.nv))
        >>> qpos[3:7].tolist()  # the quaternion of the trunk, w first
        [1.0, 0.0, 0.0, 0.0]
    """
    q, qd = _arrays(model, q, qd)

    def convert(link: int, x: Array, v: Array) -> JointState:
        kind = model.joint_type[link]
        if kind == FREE:
            quat = _unit(x[..., 3:])
            x = _join(x[..., :3], quat[..., 3:], quat[..., :3])
            v = _join(v[..., :3], rotate(_conjugate(quat), v[..., 3:]))
        elif kind == SPHERICAL:
            quat = _unit(x)
            x = _join(quat[..., 3:], quat[..., :3])
        return x, v

    if joint_order is None:
        return _in_runs(model, q, qd, convert)
    own = _split(q, qd, range(model.num_links), _sizes(model))
    return _collect(q, qd, _order(model, joint_order), own, convert)


def from_mujoco(model: Model, qpos: Array, qvel: Array, joint_order: Sequence[str] | None = None) -> JointState:
    """Return MuJoCo's qpos and qvel as coordinates and velocities of this model; the inverse of :func:`to_mujoco`.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/quadruped.urdf", floating_base=True)
        >>> qpos, qvel = sim.to_mujoco(model, model.q0, np.zeros(model.nv))
        >>> q, qd = sim.from_mujoco(model, qpos, qvel)
        >>> q[3:7].tolist()  # the quaternion of the trunk, w last
        [0.0, 0.0, 0.0, 1.0]
    """
    qpos, qvel = _arrays(model, qpos, qvel)

    def convert(link: int, x: Array, u: Array) -> JointState:
        kind = model.joint_type[link]
        if kind == FREE:
            quat = _unit(_join(x[..., 4:], x[..., 3:4]))
            x = _join(x[..., :3], quat)
            u = _join(u[..., :3], rotate(quat, u[..., 3:]))
        elif kind == SPHERICAL:
            x = _unit(_join(x[..., 1:], x[..., :1]))
        return x, u

    if joint_order is None:
        return _in_runs(model, qpos, qvel, convert)
    theirs = _split(qpos, qvel, _order(model, joint_order), _sizes(model))
    return _collect(qpos, qvel, range(model.num_links), theirs, convert)


def _order(model: Model, names: Sequence[str] | None) -> list[int]:
    moving = [link for link in range(model.num_links) if model.joint_type[link] != FIXED]
    if names is None:
        return moving
    order = [model.joint(name) for name in names_in("joint_order", names)]
    if sorted(order) != moving:
        missing = [model.joint_names[link] for link in moving if link not in order]
        raise ModelError(f"joint_order must name each moving joint once; missing: {missing}, given: {list(names)}")
    return order


def _turns(model: Model, unbounded: Sequence[str]) -> list[int]:
    turns = [model.joint(name) for name in names_in("unbounded", unbounded)]
    for link in turns:
        if model.joint_type[link] != REVOLUTE:
            raise ModelError(f"joint '{model.joint_names[link]}' is not revolute and can't be unbounded")
    return turns


def _sizes(model: Model, turns: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Return the numbers of coordinates and velocities of each joint; ``turns`` are stored as cosine and sine."""
    coordinates = np.diff(np.append(model.joint_q_start, model.nq))
    velocities = np.diff(np.append(model.joint_qd_start, model.nv))
    coordinates[list(turns)] += 1
    return [(int(a), int(b)) for a, b in zip(coordinates, velocities, strict=True)]


def _split(q: Array, qd: Array, order: Sequence[int], sizes: list[tuple[int, int]]) -> dict[int, JointState]:
    """Return coordinates and velocities of each joint, by link."""
    expected = tuple(sum(sizes[link][part] for link in order) for part in (0, 1))
    if (q.shape[-1], qd.shape[-1]) != expected:
        raise ModelError(f"q and its velocity have {q.shape[-1]} and {qd.shape[-1]} entries; expected {expected}")
    states = {}
    i = k = 0
    for link in order:
        coordinates, velocities = sizes[link]
        states[link] = (q[..., i : i + coordinates], qd[..., k : k + velocities])
        i, k = i + coordinates, k + velocities
    return states


def _collect(q: Array, qd: Array, order: Sequence[int], states: dict[int, JointState], convert: Convert) -> JointState:
    """Return the converted states of all joints, after empty columns of ``q`` and ``qd`` for models without joints."""
    converted = [convert(link, *states[link]) for link in order if link in states]
    return _join(q[..., :0], *(x for x, _ in converted)), _join(qd[..., :0], *(v for _, v in converted))


def _in_runs(model: Model, q: Array, qd: Array, convert: Convert) -> JointState:
    """Return the converted states of all joints in this model's order, where only quaternions differ.

    Ranges between quaternions are copied as a whole, since robots with many joints are converted in learning steps.
    """
    if (q.shape[-1], qd.shape[-1]) != (model.nq, model.nv):
        expected = (model.nq, model.nv)
        raise ModelError(f"q and its velocity have {q.shape[-1]} and {qd.shape[-1]} entries; expected {expected}")
    coordinates, velocities, i, k = [], [], 0, 0
    for link in np.flatnonzero(np.isin(model.joint_type, (FREE, SPHERICAL))):
        start, first = int(model.joint_q_start[link]), int(model.joint_qd_start[link])
        end, last = (start + 7, first + 6) if model.joint_type[link] == FREE else (start + 4, first + 3)
        x, v = convert(int(link), q[..., start:end], qd[..., first:last])
        coordinates += [q[..., i:start], x]
        velocities += [qd[..., k:first], v]
        i, k = end, last
    return _join(*coordinates, q[..., i:]), _join(*velocities, qd[..., k:])


def _arrays(model: Model, q: Array, v: Array) -> tuple[Array, Array]:
    """Return coordinates and velocities as NumPy arrays (also of lists and Warp arrays), or as the given tensors."""
    require_type("model", model, Model, "a sim.Model")
    named = (("q", q), ("its velocity", v))
    q, v = (x if _is_dense(x) else as_numbers(name, x) for name, x in named)
    for (name, _), x in zip(named, (q, v), strict=True):
        if not len(x.shape):
            raise ModelError(f"{name} is a single number; expected an array [..., n]")
        if math.prod(x.shape) > MOST_NUMBERS:
            raise ModelError(f"{name} has shape {tuple(x.shape)}; at most {MOST_NUMBERS} numbers are supported")
    if isinstance(q, np.ndarray) != isinstance(v, np.ndarray):  # a tensor and an array: two tensors
        tensor = v if isinstance(q, np.ndarray) else q
        q, v = (tensor.new_tensor(x) if isinstance(x, np.ndarray) else x for x in (q, v))
    if not isinstance(q, np.ndarray) and q.shape[:-1] != v.shape[:-1]:
        raise ModelError(f"q has shape {tuple(q.shape)} and its velocity {tuple(v.shape)}; all but the last must agree")
    return q, v


def _is_dense(x: Any) -> bool:
    """Return whether an argument is an array or tensor of floats with numbers in memory, not sparse or quantised."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "iuf"
    floats = hasattr(x, "detach") and x.is_floating_point()
    return bool(floats and not (x.is_meta or x.is_nested or x.is_sparse) and str(x.layout) == "torch.strided")


def _library(x: Array) -> Any:
    if isinstance(x, np.ndarray):
        return np
    import torch  # imported here because it takes seconds

    return torch


def _join(*parts: Array) -> Array:
    return _library(parts[0]).concatenate(parts, -1)


def _unit(quat: Array) -> Array:
    """Return quaternions with unit length; four zeros become the identity, as in MuJoCo."""
    identity = _library(quat).zeros_like(quat)
    identity[..., 3] = (quat**2).sum(-1) == 0.0
    quat = quat + identity
    return quat / (quat**2).sum(-1)[..., None] ** 0.5


def _placed(frame: np.ndarray, x: Array) -> Array:
    """Return poses [..., 7] in a frame [7] as poses in the frame's parent."""
    base = _like(x, frame)
    (u, w), (a, b) = ((each[..., 3:6], each[..., 6:]) for each in (base, x))
    vector = w * a + b * u + _library(x).linalg.cross(u, a)
    return _join(base[..., :3] + rotate(base[..., 3:], x[..., :3]), vector, w * b - (u * a).sum(-1)[..., None])


def _like(x: Array, pose: np.ndarray) -> Array:
    """Return a pose [7] broadcast to poses [..., 7], as their kind of array."""
    if isinstance(x, np.ndarray):
        return np.broadcast_to(pose, x.shape)
    return x.new_tensor(pose.tolist()).expand(x.shape)


def _conjugate(quat: Array) -> Array:
    return _join(-quat[..., :3], quat[..., 3:])


def rotate(quat: Array, v: Array) -> Array:
    """Return vectors [..., 3] rotated by unit quaternions [..., 4]; of other quaternions, vectors without meaning."""
    cross = _library(v).linalg.cross
    u, w = quat[..., :3], quat[..., 3:]
    return v + 2.0 * cross(u, cross(u, v) + w * v)
