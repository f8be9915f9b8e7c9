"""Legged robots on their ground: from a file to a model with servos, a standing pose and feet."""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim.dynamics.lowest_points import lowest_points
from sim.envs.tasks.locomotion.checks import expression_of, feet_of, finite, is_servo
from sim.errors import ModelError, URDFWarning
from sim.importers.formats import ModelBuilder, format_of
from sim.importers.load import read_file
from sim.model.builder.properties import Delay, Gains, Surface
from sim.model.checks import require_type
from sim.model.model import Model
from sim.model.specs import JointSpec
from sim.terrain import Terrain
from warp_kernels import types as codes

TOUCHING = 0.01  # height above the lowest point of a standing robot up to which a geometry belongs to a foot [m]
ByJoint = float | Mapping[str, float]


@dataclass(frozen=True)
class LeggedRobot:
    """Legged robot on its ground.

    Attributes:
        model: model of robot and ground. The robot's free joint comes first, and each actuator is a servo of a joint.
        q: coordinates of the standing robot at the origin [nq]; its feet touch z = 0.
        base: name of the link with the free joint, whose x axis points ahead.
        feet: names of the geometries of each foot.
        terrain: the ground; None for a plane at z = 0 or that of the file.

    Raises:
        ModelError: for a model whose first joint isn't free, feet that it doesn't have or that don't move, and a foot
            without geometries.

    Example:
        >>> import sim.envs
        >>> robot = sim.envs.legged_robot(
        ...     "scenes/robots/quadruped.urdf", {".*thigh.*": 0.8, ".*calf.*": -1.6}, kp=60.0, kd=2.0
        ... )
        >>> robot.base, robot.feet[0], round(float(robot.height), 3)
        ('trunk', ('fl_foot/collision_0',), 0.317)
    """

    model: Model
    q: np.ndarray
    base: str
    feet: tuple[tuple[str, ...], ...]
    terrain: Terrain | None = None

    def __post_init__(self) -> None:
        model = self.model
        if model.num_links == 0 or model.joint_type[0] != codes.FREE or model.nq != model.nv + 1:
            raise ModelError(
                f"{model!r} isn't a legged robot: its first joint must be free, and the others must have one "
                "coordinate each; read a URDF with floating_base=True"
            )
        for name in (name for foot in feet_of(self.feet) for name in foot):
            if model.is_static(model.geometries[model.geometry(name)]):
                raise ModelError(f"feet: the geometry '{name}' is no part of the robot; name geometries that move")

    @property
    def height(self) -> float:
        """Height of the base of the standing robot above the ground [m]."""
        return float(self.q[2])

    @property
    def joints(self) -> list[str]:
        """Names of the joints after the free one, in the order of their coordinates ``q[7:]``."""
        return [self.model.joint_names[self.model.dof_link[dof]] for dof in range(6, self.model.nv)]

    @property
    def servos(self) -> np.ndarray:
        """Index of each actuator's joint in :attr:`joints` [nu]."""
        return np.asarray(self.model.actuator_dof) - 6

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the robot's links."""
        return self.model.link_names


def legged_robot(
    file: str | os.PathLike[str],
    stand: Mapping[str, float],
    *,
    kp: ByJoint | None = None,
    kd: ByJoint = 0.0,
    armature: ByJoint | None = None,
    feet: Sequence[Sequence[str]] | None = None,
    colliders: str = ".*",
    balls: str | None = None,
    locked: str | None = None,
    terrain: Terrain | None = None,
    friction: float = 1.0,
    delay: Delay | None = None,
    dtype: str = "float32",
    **options: Any,
) -> LeggedRobot:
    """Read a legged robot, give its joints servos, and stand it on the ground.

    Joints and geometries are chosen by regular expressions that match whole names; of several that match the first
    counts.

    Args:
        file: the robot, in any format of :func:`sim.load`; the base of a URDF is free.
        stand: angles of the standing robot, by joint [rad]. Default: the file's initial coordinates.
        kp: position gains of the servos that a file without actuators gets, one for all or by joint [N m/rad].
        kd: velocity gains, likewise [N m s/rad].
        armature: rotor inertia of the joints, likewise, which a URDF lacks; without it stiff servos shake light feet
            [kg m^2]. Default: that of the file.
        feet: names of the geometries of each foot. Default: the geometries that touch the ground when the robot stands,
            one foot for each link.
        colliders: expression for the names of the geometries that collide, such as ".*foot.*". Fewer of them are
            faster.
        balls: expression for the names of meshes that collide as spheres, such as round feet with hundreds of points;
            their points lie on the sphere with the smallest sum of squared errors. Default: none.
        locked: expression for the names of joints that stay at their standing angles, such as those of the arms; the
            robot has neither these joints nor the file's keyframes, and is faster. Joints that are coupled to each
            other are locked together, at angles that agree. Default: none.
        terrain: the ground. Default: that of the file, or a plane.
        friction: friction of the ground, which multiplies that of the feet.
        delay: delay of the servos that are added.
        dtype: "float32" or "float64".
        **options: options of :func:`sim.load` for the format, such as ``self_collision=False`` of a URDF.

    Raises:
        ModelError: for a file with other actuators than servos, which are those with the force kp (u - q) - kd qd for
            the input u, times a gear, or with none if ``kp`` isn't given; for a delay of servos that the file has; for
            invalid expressions and those that match no joint, ``locked`` that leaves no joint with a servo, or, of a
            robot without servos, no joint; an empty list of feet; and as :class:`LeggedRobot`.
        ImportFileError: if the file can't be read.

    Example:
        >>> import sim.envs
        >>> robot = sim.envs.legged_robot(
        ...     "scenes/robots/quadruped.urdf", {".*thigh.*": 0.8, ".*calf.*": -1.6}, kp=60.0, kd=2.0
        ... )
        >>> robot.model
        Model(quadruped: 13 links in 1 tree, nq 19, nv 18, nu 12, 35 geometries, float32)
    """
    require_type("stand", stand, Mapping, "a dictionary of angles by joint")
    if feet is not None and not feet_of(feet):
        raise ModelError("feet is empty; name the geometries of each foot, or leave it out")
    chosen = expression_of("colliders", colliders)
    free = {"floating_base": True} if format_of(file) == "urdf" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", URDFWarning)  # rotors behind fixed joints, limits of safety controllers
        builder = read_file(file, **{**free, **options})
    for each in builder.geometries.values():
        geometry = each.geometry
        collides = geometry.collides and chosen.fullmatch(geometry.name) is not None
        each.geometry = replace(geometry, collides=collides)
    if balls is not None:
        _round(builder, os.fspath(file), expression_of("balls", balls))
    _add_servos(builder, os.fspath(file), kp, kd, delay)
    if armature is not None:
        for name, inertia in by_joint("armature", armature, _moving(builder)).items():
            builder.joints[name].armature = inertia
    angles = by_joint("stand", stand, _moving(builder))
    if locked is not None:
        _lock(builder, os.fspath(file), expression_of("locked", locked), angles)
    _add_ground(builder, terrain, friction)
    model = builder.finalize(dtype)
    q = model.q0.copy()
    trial = LeggedRobot(model, q, model.link_names[0] if model.num_links else "", ())
    q[7:] = [angles.get(name, given) for name, given in zip(trial.joints, q[7:], strict=True)]
    q[:3] = 0.0
    heights = lowest_points(model, q)
    if not heights:
        raise ModelError(f"{os.fspath(file)}: no geometry of the robot collides, so that it can't stand; see colliders")
    q[2] = -min(heights.values())
    found = _feet(model, heights) if feet is None else feet_of(feet)
    return LeggedRobot(model, q, trial.base, found, terrain)


def by_joint(where: str, given: ByJoint, joints: Sequence[str]) -> dict[str, float]:
    """Return the number of each joint that has one, from one for all or from regular expressions.

    Raises:
        ModelError: for an expression that is invalid or matches no joint, and for what isn't a finite number.
    """
    if not isinstance(given, Mapping):
        owner, _, setting = where.rpartition(".")
        return dict.fromkeys(joints, finite(owner or "legged_robot", setting, given))
    values = {expression_of(where, key): finite(where, f"'{key}'", value) for key, value in given.items()}
    for expression in values:
        if not any(expression.fullmatch(name) for name in joints):
            raise ModelError(f"{where}: '{expression.pattern}' matches none of the joints {', '.join(joints)}")
    found: dict[str, float] = {}
    for name in joints:
        for expression, value in values.items():
            if expression.fullmatch(name):
                found[name] = value
                break
    return found


def _add_servos(builder: ModelBuilder, file: str, kp: ByJoint | None, kd: ByJoint, delay: Delay | None) -> None:
    """Add a servo for each joint with a gain, or check the actuators that the file has."""
    for name, each in builder.actuators.items():
        if not is_servo(each):
            raise ModelError(
                f"{file}: the actuator '{name}' isn't a servo of a joint; make it a position actuator without a state "
                "or an offset"
            )
    if builder.actuators:
        if delay is not None:
            raise ModelError(f"{file}: delay: the file has servos of its own; give them their delay there")
        return
    if kp is None:
        raise ModelError(f"{file}: the joints have no servos; give their gains kp and kd")
    names = _moving(builder)
    damping = by_joint("kd", kd, names)
    for name, gain in by_joint("kp", kp, names).items():
        builder.add_actuator(name, "position", gains=Gains(kp=gain, kd=damping.get(name, 0.0)), delay=delay)


def _moving(builder: ModelBuilder) -> list[str]:
    """Return the names of the joints with one coordinate."""
    return [name for name, joint in builder.joints.items() if joint.type in (codes.REVOLUTE, codes.PRISMATIC)]


def _lock(builder: ModelBuilder, file: str, chosen: re.Pattern[str], stand: Mapping[str, float]) -> None:
    """Replace joints by fixed ones at their standing angles, and leave out their servos."""
    names = [name for name in _moving(builder) if chosen.fullmatch(name)]
    if not names:
        raise ModelError(f"{file}: locked: '{chosen.pattern}' matches no joint with one coordinate")
    driven = {each.joint for each in builder.actuators.values()}
    if not (driven or set(_moving(builder))) - set(names):
        what = "all joints with a servo" if driven else "all joints"
        raise ModelError(
            f"{file}: locked: '{chosen.pattern}' matches {what}; choose an expression that leaves those that the robot "
            "moves"
        )
    angles = {name: stand.get(name, float(builder.joints[name].q0[0])) for name in names}
    _uncouple(builder, file, angles)
    for name in names:
        joint = builder.joints[name]
        along = angles[name] * joint.axis
        turned = Rotation.from_quat(joint.placement[3:])
        placement = joint.placement.copy()
        if joint.type == codes.PRISMATIC:
            placement[:3] += turned.apply(along)
        else:
            placement[3:] = (turned * Rotation.from_rotvec(along)).as_quat()
        builder.joints[name] = JointSpec(
            name=name, type=codes.FIXED, parent=joint.parent, child=joint.child, placement=placement, axis=joint.axis
        )
    for name in [name for name, each in builder.actuators.items() if each.joint in names]:
        del builder.actuators[name]
    builder.parts[:] = [replace(part, keyframes={}) for part in builder.parts]  # with coordinates of these joints


def _uncouple(builder: ModelBuilder, file: str, locked: Mapping[str, float]) -> None:
    """Leave out the couplings of joints that are locked, at angles by joint.

    Raises:
        ModelError: for a joint that is coupled to one that isn't locked, angles that the coupling doesn't allow, and
            joints of tendons.
    """
    for tendon in builder.tendons.values():
        for name in tendon.coefficients.keys() & locked.keys():
            raise ModelError(f"{file}: locked: the tendon '{tendon.name}' acts on the joint '{name}'; don't lock it")
    for name, coupling in list(builder.couplings.items()):
        pair = (coupling.joint, coupling.other)
        held = [each for each in pair if each in locked]
        if len(held) == 1:
            (free,) = set(pair) - set(held)
            raise ModelError(f"{file}: locked: the joint '{held[0]}' is coupled to '{free}'; lock both, or neither")
        if held:
            expected = coupling.ratio * locked[coupling.other] + coupling.offset
            if not np.isclose(locked[coupling.joint], expected, rtol=1e-6, atol=1e-6):
                raise ModelError(
                    f"{file}: locked: the joint '{coupling.joint}' stands at {locked[coupling.joint]:g}, but its "
                    f"coupling to '{coupling.other}' asks for {expected:g}; change stand"
                )
            del builder.couplings[name]


def _round(builder: ModelBuilder, file: str, chosen: re.Pattern[str]) -> None:
    """Replace meshes by spheres that fit their points."""
    named = [each for each in builder.geometries.values() if chosen.fullmatch(each.geometry.name)]
    meshes = [each for each in named if each.geometry.collides and each.geometry.mesh is not None]
    if not meshes:
        raise ModelError(f"{file}: balls: '{chosen.pattern}' matches no mesh that collides")
    for each in meshes:
        geometry = each.geometry
        assert geometry.mesh is not None
        centre, radius = fitted_sphere(np.asarray(geometry.mesh.vertices) * geometry.size)
        placement = geometry.placement.copy()
        placement[:3] += Rotation.from_quat(placement[3:]).apply(centre)
        size = np.array([radius, 0.0, 0.0])
        each.geometry = replace(geometry, type=codes.SPHERE, mesh=None, placement=placement, size=size)


def fitted_sphere(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return centre [3] and radius of the sphere near points [n, 3], by linear least squares of |p|^2 - 2 c p - (r^2 -
    |c|^2).
    """
    rows = np.column_stack([2.0 * points, np.ones(len(points))])
    *centre, rest = np.linalg.lstsq(rows, np.square(points).sum(axis=1))[0]
    return np.array(centre), float(np.sqrt(rest + np.square(centre).sum()))


def _add_ground(builder: ModelBuilder, terrain: Terrain | None, friction: float) -> None:
    """Add the terrain, or a plane unless the file has static geometries."""
    surface = Surface(friction=friction)
    if terrain is not None:
        terrain.add_to(builder, surface=surface)
    elif not any(each.link == "world" and each.geometry.collides for each in builder.geometries.values()):
        builder.add_ground(surface=surface)


def _feet(model: Model, heights: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """Return the geometries that touch the ground, those of a link together."""
    feet: dict[int, list[str]] = {}
    for name, height in heights.items():
        if height < min(heights.values()) + TOUCHING:
            feet.setdefault(model.geometries[model.geometry(name)].link, []).append(name)
    return tuple(tuple(foot) for foot in feet.values())
