"""Torque regressor: joint forces as a matrix times the parameters in which they are linear.

Each link has ten such parameters, which represent its mass, centre of mass and inertia.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, names_in
from sim.model.model import Model
from sim.torch.modes import in_own_precision
from sim.torch.robot.arguments import check_shared
from sim.torch.robot.robot import Robot

# The order of a link's numbers: mass [kg], first moments mass * com [kg m], moments and products of inertia about the
# origin of the link's frame, along its axes [kg m^2]. It is Pinocchio's order.
INERTIAL_NAMES = ("mass", "mass*com_x", "mass*com_y", "mass*com_z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
ROWS, COLUMNS = (0, 1, 1, 2, 2, 2), (0, 0, 1, 0, 1, 2)  # of the entries of an inertia in that order


def to_linear(mass: torch.Tensor, com: torch.Tensor, inertia: torch.Tensor) -> torch.Tensor:
    """Return the ten linear parameters of bodies.

    Args:
        mass: masses [...], kg.
        com: centres of mass in the links' frames [..., 3], m.
        inertia: inertias about the centres of mass [..., 3, 3], kg m^2.

    Returns:
        [..., 10], in the order of :data:`INERTIAL_NAMES`.
    """
    about = inertia + mass[..., None, None] * _point_inertia(com)
    return torch.cat([mass[..., None], mass[..., None] * com, about[..., ROWS, COLUMNS]], dim=-1)


def from_linear(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Invert :func:`to_linear`, for masses other than zero: return mass, com and inertia about it."""
    mass = numbers[..., 0]
    com = numbers[..., 1:4] / mass[..., None]
    index = torch.tensor([[0, 1, 3], [1, 2, 4], [3, 4, 5]], device=numbers.device)
    about = numbers[..., 4:][..., index]
    return mass, com, about - mass[..., None, None] * _point_inertia(com)


def spread(mass: torch.Tensor, inertia: torch.Tensor) -> torch.Tensor:
    """Return second moments of mass distributions about their centres, per mass [..., 3, 3], m^2."""
    return (0.5 * trace(inertia) - inertia) / mass[..., None, None]


def trace(matrices: torch.Tensor) -> torch.Tensor:
    """Return identity matrices times the traces of matrices [..., 3, 3]."""
    identity = torch.eye(3, dtype=matrices.dtype, device=matrices.device)
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] * identity


def _point_inertia(com: torch.Tensor) -> torch.Tensor:
    """Return the inertia of unit masses at points [..., 3] about the origin [..., 3, 3]."""
    outer = com[..., :, None] * com[..., None, :]
    return trace(outer) - outer


# Joint parameters in which joint forces are linear too, each with one column per degree of freedom.
JOINT_COLUMNS = ("damping", "friction_loss", "armature")


@in_own_precision
def torque_regressor(
    model: Robot | Model, q: Any, qd: Any, qdd: Any, *, joint_columns: Sequence[str] = ()
) -> torch.Tensor:
    """Compute the matrix Y of ``tau = Y @ linear_parameters(model)``, without springs and joint parameters not in
    ``joint_columns``.

    A link's ten columns are the wrenches that produce its motion for one unit of each parameter, mapped to the joints
    by the transpose of the link's Jacobian (Khalil and Dombre, *Modeling, Identification and Control of Robots*, 2002,
    chapter 12). Y doesn't depend on the parameters. Differentiable in q, qd and qdd.

    Args:
        model: the robot, including its gravity and its links' gravity compensation.
        q: joint coordinates [..., nq], a tensor or anything that numpy can read, as are
        qd: joint velocities [..., nv] and
        qdd: joint accelerations [..., nv].
        joint_columns: those of "damping", "friction_loss" and "armature" that get columns after those of the links.

    Returns:
        Y [..., nv, 10 * num_links + nv * len(joint_columns)]: for each link the columns of :data:`INERTIAL_NAMES`,
        link after link, then for each of ``joint_columns`` those of all degrees of freedom. :func:`column_names` has
        their names.

    Raises:
        ModelError: for a wrong shape or name, non-numeric values, and for a robot with a value of gravity for each row.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import column_names, linear_parameters, torque_regressor
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> robot = sim.torch.Robot(scene.finalize("float64"))
        >>> Y = torque_regressor(robot, q=[0.5], qd=[0.0], qdd=[2.0])
        >>> Y.shape
        torch.Size([1, 10])
        >>> round(float(Y[0] @ linear_parameters(robot)), 3)  # 0.6 kg m^2 * 2 rad/s^2 + 2 kg * g * 0.5 m * sin(0.5)
        5.903
        >>> column_names(robot)[:2]
        ('mass of bob', 'mass*com_x of bob')
    """
    robot, kinds = as_robot(model), _kinds_of_columns(joint_columns)
    q, qd, qdd = (as_tensor(robot, value, name) for name, value in (("q", q), ("qd", qd), ("qdd", qdd)))
    gravity = robot.value("gravity")
    if gravity.dim() != 1:
        raise ModelError("the regressor needs one gravity for all rows; set the robot's gravity to a tensor [3]")
    names = robot.link_names
    jacobian = robot.jacobian(q, names, "local")
    angular_velocity = robot.frame_velocity(q, qd, names, "local")[..., :3]
    acceleration = robot.frame_acceleration(q, qd, qdd, names, "local")
    rotation = robot.forward_kinematics_matrix(q, names)[..., :3, :3]
    felt = rotation.mT @ gravity
    if robot.model.parameters.get("gravity_compensation") is not None:
        felt = felt * (1.0 - robot.value("gravity_compensation"))[:, None]
    columns = wrench_columns(angular_velocity, acceleration[..., :3], acceleration[..., 3:] - felt)
    by_link = torch.einsum("...lkv,...lkp->...vlp", jacobian, columns).flatten(-2)
    return torch.cat([by_link, *_joint_parts(kinds, qd, qdd, by_link)], dim=-1)


def wrench_columns(
    angular_velocity: torch.Tensor, angular_acceleration: torch.Tensor, acceleration: torch.Tensor
) -> torch.Tensor:
    """Return the matrix that maps a body's ten parameters to the wrench about its origin that moves it, moment first.

    Args:
        angular_velocity: angular velocity [..., 3], like the others along the body's axes.
        angular_acceleration: angular acceleration [..., 3].
        acceleration: acceleration of the body's origin, minus gravity [..., 3].

    Returns:
        [..., 6, 10].
    """
    w, alpha, a = _cross(angular_velocity), _cross(angular_acceleration), _cross(acceleration)
    moment = _inertia_times(angular_acceleration) + w @ _inertia_times(angular_velocity)
    zero = torch.zeros_like(moment)
    upper = torch.cat([zero[..., :1], -a, moment], dim=-1)
    lower = torch.cat([acceleration[..., None], alpha + w @ w, zero], dim=-1)
    return torch.cat([upper, lower], dim=-2)


def linear_parameters(model: Robot | Model, joint_columns: Sequence[str] = ()) -> torch.Tensor:
    """Return the present values of the parameters that :func:`torque_regressor` multiplies, in the order of its
    columns.

    Example:
        >>> import sim
        >>> from sim.identify import column_names, linear_parameters
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> values = dict(zip(column_names(model), linear_parameters(model).tolist()))
        >>> values["mass of link7"] == float(model.parameters["mass"][-1])
        True
    """
    robot, kinds = as_robot(model), _kinds_of_columns(joint_columns)
    values = {name: robot.value(name) for name in ("mass", "com", "inertia", *kinds)}
    check_shared(robot.model, values, "a vector of parameters")
    numbers = to_linear(*(values[name] for name in ("mass", "com", "inertia")))
    return torch.cat([numbers.flatten(), *(values[name] for name in kinds)])


def column_names(model: Robot | Model, joint_columns: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the columns of :func:`torque_regressor`, such as "mass*com_x of forearm" or "damping of
    elbow".

    Example:
        >>> import sim
        >>> from sim.identify import column_names
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> names = column_names(model, ["damping"])
        >>> names[:3], names[-1]
        (('mass of link1', 'mass*com_x of link1', 'mass*com_y of link1'), 'damping of joint7')
    """
    robot, kinds = as_robot(model), _kinds_of_columns(joint_columns)
    links = [f"{name} of {link}" for link in robot.link_names for name in INERTIAL_NAMES]
    return (*links, *(f"{name} of {dof}" for name in kinds for dof in dof_names(robot.model)))


def dof_names(model: Model) -> tuple[str, ...]:
    """Return a name for each degree of freedom [nv]: the joint's, with an index if it has several."""
    ends = [*model.joint_qd_start[1:], model.nv]
    names: list[str] = []
    for name, start, end in zip(model.joint_names, model.joint_qd_start, ends, strict=True):
        names += [name] if end - start == 1 else [f"{name}[{k}]" for k in range(end - start)]
    return tuple(names)


def as_robot(model: Robot | Model) -> Robot:
    """Return a robot, made from a model if needed."""
    if isinstance(model, Robot):
        return model
    if not isinstance(model, Model):
        raise ModelError(f"expected a sim.torch.Robot or a sim.Model, not a {type(model).__name__}")
    return Robot(model)


def as_double(model: Robot | Model) -> Robot:
    """Return a robot in float64 on the CPU, a copy if a robot is given."""
    return copy.deepcopy(as_robot(model)).to("cpu", torch.float64)


def as_tensor(robot: Robot, value: Any, name: str = "argument") -> torch.Tensor:
    """Convert array-like values to a tensor of the robot's dtype, on its device; tensors are returned as they are."""
    if isinstance(value, torch.Tensor):
        return value
    like = robot.value("gravity")
    return torch.as_tensor(as_numbers(name, value), dtype=like.dtype, device=like.device)


def _joint_parts(kinds: Sequence[str], qd: torch.Tensor, qdd: torch.Tensor, like: torch.Tensor) -> list[torch.Tensor]:
    factors = {"damping": qd, "friction_loss": qd.sign(), "armature": qdd}
    batch = like.shape[:-1]
    return [torch.diag_embed(factors[name].expand(batch)) for name in kinds]


def _kinds_of_columns(joint_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names in ``joint_columns``. Raises ModelError for an unknown one."""
    kinds = names_in("joint_columns", joint_columns)
    for name in kinds:
        if name not in JOINT_COLUMNS:
            raise ModelError(f"joint_columns: unknown '{name}'; there are {', '.join(JOINT_COLUMNS)}")
    return kinds


def _cross(v: torch.Tensor) -> torch.Tensor:
    """Return matrices [..., 3, 3] that multiply a vector as v x does."""
    zero = torch.zeros_like(v[..., 0])
    x, y, z = v.unbind(-1)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).unflatten(-1, (3, 3))


def _inertia_times(v: torch.Tensor) -> torch.Tensor:
    """Return matrices [..., 3, 6] from the six entries of an inertia to the inertia times v."""
    zero = torch.zeros_like(v[..., 0])
    x, y, z = v.unbind(-1)
    rows = [x, y, zero, z, zero, zero], [zero, x, y, zero, z, zero], [zero, zero, zero, x, y, z]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
