"""Mass properties and joints as UsdPhysics prims."""

import warnings
from collections import Counter
from itertools import pairwise, product

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, Vt
from scipy.spatial.transform import Rotation

from sim.errors import USDWarning
from sim.model.checks import some
from sim.model.joint_types import JOINT_TYPES, name_in_files
from sim.model.model import Model
from sim.model.poses import compose, inverse, is_identity
from sim.model.shapes.inertia import principal_moments
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.usd.annotations import UNLIMITED, keep, keep_parameters, keep_softness, keep_text, kept_text
from sim.usd.geometries import child_name
from sim.usd.physics.drives import actuators_of, is_damped_apart, keep_actuator, stated_drive
from sim.usd.physics.series import Series
from warp_kernels import types as codes

# Mass of a massless link [kg]: 0 would mean "compute it from the colliders", by default with 1000 kg/m^3.
NO_MASS = 1e-12
# Slack of the triangle inequality of principal moments that are written, as a fraction of the largest one: less than
# the tolerance for stored inertias, more than a rotation in single precision changes.
LEAST_SLACK = 1e-6
X_AXIS = np.array([1.0, 0.0, 0.0])


def add_mass(prim: Usd.Prim, model: Model, link: int) -> None:
    """Add mass, centre of mass, principal moments and axes of a link."""
    keep_text(prim, "name", model.link_names[link])
    names = ("mass", "com", "inertia", *(("gravity_compensation",) if model.compensated else ()))
    for name in names:
        keep(prim, name, model.parameters[name][link])
    dragged = model.drag_boxes.link == link
    if dragged.any():
        keep(prim, "drag_boxes", np.hstack([model.drag_boxes.size[dragged], model.drag_boxes.placement[dragged]]))
    mass = float(model.parameters["mass"][link])
    api = UsdPhysics.MassAPI.Apply(prim)
    api.CreateMassAttr(max(mass, NO_MASS))
    api.CreateCenterOfMassAttr(vector_of(model.parameters["com"][link]))
    moments, axes = principal_moments(model.parameters["inertia"][link])
    if moments[0] > 0.0:
        api.CreateDiagonalInertiaAttr(vector_of(_clear_of_rounding(moments)))
        api.CreatePrincipalAxesAttr(quaternion_of(axes))


def _clear_of_rounding(moments: np.ndarray) -> np.ndarray:
    """Return principal moments that still satisfy the triangle inequality if rounded to single precision, as others do.

    Moments of plates satisfy it with equality: other programs, which turn them in single precision, would refuse the
    body. Moments that violate it by more than rounding are returned as they are.
    """
    largest = int(np.argmax(moments))
    slack = moments.sum() - 2.0 * moments[largest]
    missing = LEAST_SLACK * moments[largest] - slack
    if not 0.0 < missing < 2.0 * LEAST_SLACK * moments[largest]:
        return moments
    changed = moments + missing / 3.0
    changed[largest] = moments[largest] - missing / 3.0
    return changed


def add_articulations(stage: Usd.Stage, model: Model, paths: list[Sdf.Path], series: Series) -> None:
    """Mark the roots of trees with more than one link, and those with joints in series as Newton has them."""
    stacked = series.roots()
    for start, end in pairwise(model.tree_link_start.tolist()):
        if end - start > 1:
            prim = stage.GetPrimAtPath(paths[start])
            UsdPhysics.ArticulationRootAPI.Apply(prim)
            if start in stacked:
                prim.AddAppliedSchema("NewtonArticulationRootAPI")
                prim.CreateAttribute("newton:jointsAddMobility", Sdf.ValueTypeNames.Bool, False).Set(True)


def add_joints(stage: Usd.Stage, model: Model, paths: list[Sdf.Path], series: Series) -> list[Sdf.Path]:
    """Add every joint except free ones: a body without a joint is free.

    Joints in series are nested, since Newton follows the order of their paths.

    Returns:
        For each link the prim with the annotations of its joint: the joint, or the free body.
    """
    UsdGeom.Scope.Define(stage, "/World/Joints")
    _warn_of_uneven_springs(model)
    taken: dict[Sdf.Path, set[str]] = {}
    keepers: list[Sdf.Path] = []
    for link in range(model.num_links):
        path, above = paths[link], int(model.link_parent[link])
        if model.joint_type[link] != codes.FREE:
            inside = keepers[above] if above >= 0 and series.is_inner(above) else Sdf.Path("/World/Joints")
            path = inside.AppendChild(child_name(model.joint_names[link], taken.setdefault(inside, set())))
            _add_joint(stage, path, model, link, paths, series)
        prim = stage.GetPrimAtPath(path)
        _keep_joint(prim, model, link)
        if series.is_inner(link):
            keep_text(prim, "link", model.link_names[link])
        keepers.append(path)
    return keepers


def is_kinematic(model: Model, link: int) -> bool:
    """Return whether the joint of a link is kinematic."""
    return model.link_names[link] in model.kinematic_links or bool(model.prescribed[model.dofs_of(link)].any())


def exclude_collisions(stage: Usd.Stage, model: Model, paths: list[Sdf.Path], series: Series) -> None:
    """Exclude links and colliders from collision as filtered pairs.

    Links joined by a joint never collide anyway, and those joined by several unless these allow it.
    """
    colliders = Counter(geometry.link for geometry in model.geometries if geometry.collides)
    between: dict[tuple[int, int], set[tuple[int, int]]] = {}
    left = set(model.excluded_pairs)
    for pair in left:
        one, two = (model.geometries[index] for index in pair)
        if one.collides and two.collides and one.link != two.link and min(one.link, two.link) >= 0:
            links = (min(one.link, two.link), max(one.link, two.link))
            between.setdefault(links, set()).add(pair)
    joined = {(series.parent(link), int(series.body[link])) for link in range(model.num_links)}
    for a, b in sorted(between):
        if len(between[a, b]) == colliders[a] * colliders[b]:
            left -= between[a, b]
            if (a, b) not in joined:
                _filter_pair(stage.GetPrimAtPath(paths[a]), paths[b])
    pairs_left = [[model.geometries[index] for index in pair] for pair in sorted(left)]
    single = [(a, b) for a, b in pairs_left if a.collides and b.collides and a.link != b.link]
    if single:
        prims = (prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI))
        named = {kept_text(prim, "name"): prim for prim in prims}
        for first, second in single:
            _filter_pair(named[first.name], named[second.name].GetPath())


def _filter_pair(prim: Usd.Prim, other: Sdf.Path) -> None:
    UsdPhysics.FilteredPairsAPI.Apply(prim).CreateFilteredPairsRel().AddTarget(other)


def _add_joint(
    stage: Usd.Stage, path: Sdf.Path, model: Model, link: int, paths: list[Sdf.Path], series: Series
) -> None:
    kind = int(model.joint_type[link])
    schema = getattr(UsdPhysics, name_in_files(kind, "usd", model.joint_names[link]))
    joint = schema.Define(stage, path)
    parent, child = series.parent(link), int(series.body[link])
    if parent >= 0:
        joint.CreateBody0Rel().SetTargets([paths[parent]])
    joint.CreateBody1Rel().SetTargets([paths[child]])
    if parent not in (-1, model.link_parent[child]) and _collide(model, parent, child):
        joint.CreateCollisionEnabledAttr(True)
    scalar = JOINT_TYPES[kind].scalar
    swing = float(model.parameters["swing_limit"][link])
    # USD only has the axes X, Y and Z, so the joint frame is rotated to make X the joint axis.
    has_axis = scalar or kind == codes.SPHERICAL
    turn = Rotation.align_vectors(model.joint_axis[link], X_AXIS)[0] if has_axis else Rotation.identity()
    frames = series.frames(link)
    if parent == -1 and scalar and is_identity(frames[0]) and turn.magnitude() == 0.0:
        # Newton takes a root's frame in the world that is the identity for one that is missing, and assumes that the
        # joint is at zero. Another angle about the axis is the same joint.
        turn = Rotation.from_rotvec(0.5 * np.pi * X_AXIS)
    for number, frame in enumerate(frames):
        rotation = turn if is_identity(frame) else Rotation.from_quat(frame[3:]) * turn
        getattr(joint, f"CreateLocalPos{number}Attr")(vector_of(frame[:3]))
        getattr(joint, f"CreateLocalRot{number}Attr")(quaternion_of(rotation))
    if has_axis:
        joint.CreateAxisAttr(UsdGeom.Tokens.x)
    if scalar:
        _add_limits(joint, model, link, kind)
    elif np.isfinite(swing):
        joint.CreateConeAngle0LimitAttr(np.degrees(swing))
        joint.CreateConeAngle1LimitAttr(np.degrees(swing))


def _collide(model: Model, link: int, other: int) -> bool:
    """Return whether any geometries of two links can touch."""
    owned = [
        [k for k, geometry in enumerate(model.geometries) if geometry.link == each and geometry.collides]
        for each in (link, other)
    ]
    return any((min(pair), max(pair)) not in model.excluded_pairs for pair in product(*owned))


def _add_limits(joint: Usd.SchemaBase, model: Model, link: int, kind: int) -> None:
    """Add limits, and spring, damper and servos as one drive; angles in degrees."""
    dof = int(model.joint_qd_start[link])
    parameters = model.parameters
    unit = np.degrees(1.0) if JOINT_TYPES[kind].angular else 1.0
    joint.CreateLowerLimitAttr(float(parameters["lower_limit"][dof]) * unit)
    joint.CreateUpperLimitAttr(float(parameters["upper_limit"][dof]) * unit)
    actuators = actuators_of(model, dof)
    for number, actuator in enumerate(actuators):
        keep_actuator(joint.GetPrim(), number, actuator)
    damping, stiffness, rest = (float(parameters[name][dof]) for name in ("damping", "stiffness", "rest_position"))
    drive = stated_drive(0.0 if is_damped_apart(stiffness, actuators) else damping, stiffness, rest, actuators)
    if drive is not None:
        api = UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular" if JOINT_TYPES[kind].angular else "linear")
        api.CreateDampingAttr(drive.damping / unit)
        api.CreateStiffnessAttr(drive.stiffness / unit)
        api.CreateTargetPositionAttr(drive.target * unit)
        api.CreateMaxForceAttr(drive.max_force)


def _keep_joint(prim: Usd.Prim, model: Model, link: int) -> None:
    """Store the properties of a joint that UsdPhysics can't express, or only in single precision."""
    keep_text(prim, "joint_name", model.joint_names[link])
    if model.joint_type[link] != codes.FREE:
        keep(prim, "joint_placement", model.parameters["joint_placement"][link])
        keep(prim, "axis", model.joint_axis[link])
    for name in ("swing_limit", "twist_limit", "rotation_limit"):
        if np.isfinite(model.parameters[name][link]):
            keep(prim, name, model.parameters[name][link])
    dof = int(model.joint_qd_start[link])
    if is_kinematic(model, link):
        if model.is_movable(link):  # otherwise its body has the annotation
            keep(prim, "kinematic", 1)
    elif dof < model.nv and model.dof_link[dof] == link:
        keep_parameters(prim, model, "dof", dof)
        if link in model.sprung_links:
            _keep_pose_spring(prim, model, link)
        keep_softness(prim, "limit_softness", model.limit_softness[dof])
        keep_softness(prim, "friction_softness", model.friction_softness[dof])
        for name, limits in (("effort", model.effort_limit), ("velocity", model.velocity_limit)):
            # An infinite limit is stored too: otherwise readers take the drive's maximum force for the effort limit.
            keep(prim, name, limits[dof] if np.isfinite(limits[dof]) else UNLIMITED)
        if model.joint_type[link] != codes.FREE:
            _state_for_newton(prim, model, link, dof)
        if JOINT_TYPES[int(model.joint_type[link])].scalar:
            _state_limits(prim, model, link, dof)


def _keep_pose_spring(prim: Usd.Prim, model: Model, link: int) -> None:
    """Store the reference of the spring of a spherical or free joint; state a spring that MuJoCo's schema has."""
    dofs = model.dofs_of(link)
    stiffness, rest = (model.parameters[name][dofs] for name in ("stiffness", "rest_position"))
    keep(prim, "rest_position", rest)
    if model.joint_type[link] == codes.SPHERICAL and not rest.any():
        prim.AddAppliedSchema("MjcJointAPI")
        prim.CreateAttribute("mjc:stiffness", Sdf.ValueTypeNames.Double, False).Set(float(stiffness[0]))


def _warn_of_uneven_springs(model: Model) -> None:
    """Warn of spherical and free joints whose springs differ between their axes."""
    stiffness = model.parameters["stiffness"]
    uneven = [model.joint_names[link] for link in model.sprung_links if np.ptp(stiffness[model.dofs_of(link)])]
    if uneven:
        said = f"joints {some(uneven)}: their springs are written with the stiffness of their first degree of freedom"
        warnings.warn(f"{said}, since a file has one for all axes", USDWarning, stacklevel=5)


def _state_for_newton(prim: Usd.Prim, model: Model, link: int, dof: int) -> None:
    """Write armature and dry friction, and damping that isn't part of a drive, in Newton's schema for joints."""
    stated = {"armature": model.parameters["armature"][dof], "friction": model.parameters["friction_loss"][dof]}
    if model.joint_type[link] == codes.SPHERICAL:
        stated["damping"] = np.radians(model.parameters["damping"][dof])
    elif is_damped_apart(float(model.parameters["stiffness"][dof]), actuators_of(model, dof)):
        unit = np.radians(1.0) if JOINT_TYPES[int(model.joint_type[link])].angular else 1.0
        stated["damping"] = model.parameters["damping"][dof] * unit
    stated = {name: float(value) for name, value in stated.items() if value}
    if stated:
        prim.AddAppliedSchema("NewtonJointAPI")
    for name, value in stated.items():
        prim.CreateAttribute(f"newton:{name}", Sdf.ValueTypeNames.Float, False).Set(value)


def _state_limits(prim: Usd.Prim, model: Model, link: int, dof: int) -> None:
    """Write springs of limits in Newton's schema, and under MuJoCo's law softness and margin in MuJoCo's schema."""
    unit = np.radians(1.0) if JOINT_TYPES[int(model.joint_type[link])].angular else 1.0
    stiffness, damping, margin = (
        float(model.parameters[f"limit_{name}"][dof]) for name in ("stiffness", "damping", "margin")
    )
    if np.isfinite(stiffness):
        prim.AddAppliedSchema("NewtonJointAPI")
        for name, value in (("Stiffness", stiffness), ("Damping", damping)):
            prim.CreateAttribute(f"newton:limit{name}", Sdf.ValueTypeNames.Float, False).Set(value * unit)
    limit, friction = model.limit_softness[dof], model.friction_softness[dof]
    if model.mujoco is None and (limit, friction, margin) == (DEFAULT_SOFTNESS, DEFAULT_SOFTNESS, 0.0):
        return
    prim.AddAppliedSchema("MjcJointAPI")
    prim.CreateAttribute("mjc:margin", Sdf.ValueTypeNames.Double, False).Set(margin)
    for name, softness in (("limit", limit), ("friction", friction)):
        state_softness(prim, softness, name)


def state_softness(prim: Usd.Prim, softness: Softness, suffix: str = "") -> None:
    """Write the softness of a constraint in MuJoCo's schema; Newton takes another than MuJoCo's for a missing one."""
    for name, value in (("solref", softness.solref), ("solimp", softness.solimp)):
        numbers = Vt.DoubleArray(list(value))
        prim.CreateAttribute(f"mjc:{name}{suffix}", Sdf.ValueTypeNames.DoubleArray, False).Set(numbers)


def state_coordinates(stage: Usd.Stage, model: Model, joints: list[Sdf.Path], poses: np.ndarray) -> None:
    """Write the coordinates of hinges and slides at link poses [num_links, 7], as PhysX joint states.

    Readers such as Newton start from these coordinates, not from the poses of the bodies.
    """
    for link, path in enumerate(joints):
        kind = JOINT_TYPES[int(model.joint_type[link])]
        if not kind.scalar:
            continue
        placement, parent = model.parameters["joint_placement"][link], int(model.link_parent[link])
        frame = placement if parent < 0 else compose(poses[parent], placement)
        motion, axis = compose(inverse(frame), poses[link]), model.joint_axis[link]
        label, unit, value = "linear", 1.0, float(motion[:3] @ axis)
        if kind.angular:
            label, unit = "angular", np.degrees(1.0)
            value = _within(model, link, float(Rotation.from_quat(motion[3:]).as_rotvec() @ axis))
        prim = stage.GetPrimAtPath(path)
        prim.AddAppliedSchema(f"PhysicsJointStateAPI:{label}")
        prim.CreateAttribute(f"state:{label}:physics:position", Sdf.ValueTypeNames.Float, False).Set(value * unit)


def _within(model: Model, link: int, angle: float) -> float:
    """Return the angle within the limits of a hinge, among those that differ by a full turn."""
    lower, upper = (model.parameters[f"{side}_limit"][model.joint_qd_start[link]] for side in ("lower", "upper"))
    turns = [angle + 2.0 * np.pi * k for k in (0, 1, -1)]
    return next((turn for turn in turns if lower <= turn <= upper), angle)


def vector_of(values: np.ndarray) -> Gf.Vec3f:
    """Return numbers [3] as USD's vector."""
    return Gf.Vec3f(*map(float, values))


def quaternion_of(rotation: Rotation) -> Gf.Quatf:
    """Return a rotation as USD's quaternion."""
    x, y, z, w = (float(value) for value in rotation.as_quat())
    return Gf.Quatf(w, x, y, z)
