"""Mass properties and joints as UsdPhysics."""

from itertools import pairwise

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.model import Model
from sim.usd.shapes import child_name
from warp_kernels import types as codes

X_AXIS = np.array([1.0, 0.0, 0.0])


def add_mass(prim: Usd.Prim, model: Model, link: int) -> None:
    """Mass, centre of mass, principal moments and axes of a link. None without mass: 0 would mean "work it out"."""
    mass = float(model.parameters["mass"][link])
    if mass <= 0.0:
        return
    api = UsdPhysics.MassAPI.Apply(prim)
    api.CreateMassAttr(mass)
    api.CreateCenterOfMassAttr(_vector(model.parameters["com"][link]))
    moments, axes = principal(model.parameters["inertia"][link])
    if moments[0] > 0.0:
        api.CreateDiagonalInertiaAttr(_vector(moments))
        api.CreatePrincipalAxesAttr(_quaternion(axes))


def principal(inertia: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Principal moments [3] of a rotational inertia [3, 3] and the rotation of their axes in the link frame."""
    if not np.any(inertia - np.diag(np.diag(inertia))):
        return np.diag(inertia), Rotation.identity()
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, Rotation.from_matrix(axes)


def articulation_roots(model: Model) -> list[int]:
    """The root links of the trees with more than one link."""
    starts = model.tree_link_start
    return [int(start) for start, end in pairwise(starts) if end - start > 1]


def add_joints(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Every joint but the free ones, whose bodies are loose without any."""
    UsdGeom.Scope.Define(stage, "/World/Joints")
    taken: set[str] = set()
    for link in range(model.num_links):
        if model.joint_type[link] != codes.FREE:
            path = Sdf.Path("/World/Joints").AppendChild(child_name(model.joint_names[link], taken))
            _add_joint(stage, path, model, link, paths)


def add_constraints(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Point and weld constraints as joints outside of the articulations; UsdPhysics has none for coupled joints."""
    taken: set[str] = set()
    equalities = model.equalities
    for row, name in enumerate(equalities.anchor_names):
        path = UsdGeom.Scope.Define(stage, "/World/Constraints").GetPath().AppendChild(child_name(name, taken))
        schema = UsdPhysics.FixedJoint if equalities.anchor_welded[row] else UsdPhysics.SphericalJoint
        joint = schema.Define(stage, path)
        joint.CreateExcludeFromArticulationAttr(True)
        for number, side in enumerate("ab"):
            link = int(getattr(equalities, f"anchor_link_{side}")[row])
            anchor = model.parameters[f"anchor_{side}"][row]
            if link >= 0:
                getattr(joint, f"CreateBody{number}Rel")().SetTargets([paths[link]])
            getattr(joint, f"CreateLocalPos{number}Attr")(_vector(anchor[:3]))
            getattr(joint, f"CreateLocalRot{number}Attr")(_quaternion(Rotation.from_quat(anchor[3:])))


def _add_joint(stage: Usd.Stage, path: Sdf.Path, model: Model, link: int, paths: list[Sdf.Path]) -> None:
    kind = int(model.joint_type[link])
    schema = {
        codes.FIXED: UsdPhysics.FixedJoint,
        codes.REVOLUTE: UsdPhysics.RevoluteJoint,
        codes.PRISMATIC: UsdPhysics.PrismaticJoint,
        codes.SPHERICAL: UsdPhysics.SphericalJoint,
    }[kind]
    joint = schema.Define(stage, path)
    parent = int(model.link_parent[link])
    if parent >= 0:
        joint.CreateBody0Rel().SetTargets([paths[parent]])
    joint.CreateBody1Rel().SetTargets([paths[link]])
    placement = model.parameters["joint_placement"][link]
    scalar = kind in (codes.REVOLUTE, codes.PRISMATIC)
    swing = float(model.parameters["swing_limit"][link])
    # USD knows the axes X, Y and Z alone: the joint frame is turned until X is the axis.
    has_axis = scalar or np.isfinite(swing)
    turn = Rotation.align_vectors(model.joint_axis[link], X_AXIS)[0] if has_axis else Rotation.identity()
    joint.CreateLocalPos0Attr(_vector(placement[:3]))
    joint.CreateLocalRot0Attr(_quaternion(Rotation.from_quat(placement[3:]) * turn))
    joint.CreateLocalPos1Attr(Gf.Vec3f(0.0, 0.0, 0.0))
    joint.CreateLocalRot1Attr(_quaternion(turn))
    if has_axis:
        joint.CreateAxisAttr(UsdGeom.Tokens.x)
    if scalar:
        _add_limits(joint, model, link, kind)
    elif has_axis:
        joint.CreateConeAngle0LimitAttr(np.degrees(swing))
        joint.CreateConeAngle1LimitAttr(np.degrees(swing))


def _add_limits(joint: Usd.SchemaBase, model: Model, link: int, kind: int) -> None:
    """Limits, and damping and spring as a drive; angles in degrees."""
    dof = int(model.joint_qd_start[link])
    parameters = {
        name: float(model.parameters[name][dof]) for name in ("lower_limit", "upper_limit", "damping", "stiffness")
    }
    unit = np.degrees(1.0) if kind == codes.REVOLUTE else 1.0
    joint.CreateLowerLimitAttr(parameters["lower_limit"] * unit)
    joint.CreateUpperLimitAttr(parameters["upper_limit"] * unit)
    if parameters["damping"] or parameters["stiffness"]:
        drive = UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular" if kind == codes.REVOLUTE else "linear")
        drive.CreateDampingAttr(parameters["damping"] / unit)
        drive.CreateStiffnessAttr(parameters["stiffness"] / unit)
        drive.CreateTargetPositionAttr(float(model.parameters["rest_position"][dof]) * unit)


def _vector(values: np.ndarray) -> Gf.Vec3f:
    return Gf.Vec3f(*map(float, values))


def _quaternion(rotation: Rotation) -> Gf.Quatf:
    x, y, z, w = (float(value) for value in rotation.as_quat())
    return Gf.Quatf(w, x, y, z)
