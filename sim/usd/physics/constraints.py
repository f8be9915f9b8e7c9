"""Point, weld and coupling constraints of a model as prims, also in the schemas of Newton and MuJoCo."""

import warnings

import numpy as np
from pxr import Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.errors import USDWarning
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.usd.annotations import keep, keep_softness, keep_text
from sim.usd.geometries import child_name
from sim.usd.physics.physics import quaternion_of, state_softness, vector_of
from sim.usd.physics.series import Series


def add_constraints(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Add point and weld constraints as joints outside the articulations."""
    taken: set[str] = set()
    equalities = model.equalities
    for row, name in enumerate(equalities.anchor_names):
        path = UsdGeom.Scope.Define(stage, "/World/Constraints").GetPath().AppendChild(child_name(name, taken))
        schema = UsdPhysics.FixedJoint if equalities.anchor_welded[row] else UsdPhysics.SphericalJoint
        joint = schema.Define(stage, path)
        joint.CreateExcludeFromArticulationAttr(True)
        joint.CreateCollisionEnabledAttr(True)
        keep_text(joint.GetPrim(), "name", name)
        keep_softness(joint.GetPrim(), "softness", equalities.anchor_softness[row])
        if model.switches:
            keep(joint.GetPrim(), "anchor_active", model.parameters["anchor_active"][row])
            joint.CreateJointEnabledAttr(bool(model.parameters["anchor_active"][row]))
        for name, create in (("force", joint.CreateBreakForceAttr), ("torque", joint.CreateBreakTorqueAttr)):
            load = float(model.parameters[f"anchor_break_{name}"][row]) if model.breaks else np.inf
            if np.isfinite(load):
                create(load)
                keep(joint.GetPrim(), f"anchor_break_{name}", load)
        scale = float(equalities.anchor_torque_scale[row])
        if scale != 1.0:
            keep(joint.GetPrim(), "torque_scale", scale)
        _state_for_mujoco(joint.GetPrim(), bool(equalities.anchor_welded[row]), equalities.anchor_softness[row], scale)
        for number, side in enumerate("ab"):
            link = int(getattr(equalities, f"anchor_link_{side}")[row])
            anchor = model.parameters[f"anchor_{side}"][row]
            if link >= 0:
                getattr(joint, f"CreateBody{number}Rel")().SetTargets([paths[link]])
            getattr(joint, f"CreateLocalPos{number}Attr")(vector_of(anchor[:3]))
            getattr(joint, f"CreateLocalRot{number}Attr")(quaternion_of(Rotation.from_quat(anchor[3:])))
            keep(joint.GetPrim(), f"anchor_{side}", anchor)


def _state_for_mujoco(prim: Usd.Prim, welded: bool, softness: Softness, torque_scale: float) -> None:
    """Write the softness of a point or weld constraint in MuJoCo's schema, unless it is the default."""
    if softness == DEFAULT_SOFTNESS and torque_scale == 1.0:
        return
    prim.AddAppliedSchema("MjcEqualityWeldAPI" if welded else "MjcEqualityConnectAPI")
    state_softness(prim, softness)
    if torque_scale != 1.0:
        prim.CreateAttribute("mjc:torqueScale", Sdf.ValueTypeNames.Float, False).Set(torque_scale)


def add_couplings(stage: Usd.Stage, model: Model, joints: list[Sdf.Path], series: Series) -> None:
    """Add coupled joints, which UsdPhysics lacks, to the dependent joints: as annotations, and for other programs."""
    joint_of = {name: stage.GetPrimAtPath(path) for name, path in zip(model.joint_names, joints, strict=True)}
    equalities = model.equalities
    for row, name in enumerate(equalities.coupling_names):
        followed = int(model.dof_link[equalities.coupling_other[row]])
        keep_text(joint_of[name], "follows", model.joint_names[followed])
        keep(joint_of[name], "coupling_ratio", model.parameters["coupling_ratio"][row])
        keep(joint_of[name], "coupling_offset", model.parameters["coupling_offset"][row])
        keep(joint_of[name], "coupling_q0", equalities.coupling_q0[row])
        keep_softness(joint_of[name], "coupling_softness", equalities.coupling_softness[row])
        if model.switches:
            keep(joint_of[name], "coupling_active", model.parameters["coupling_active"][row])
        if model.breaks and np.isfinite(model.parameters["coupling_break_force"][row]):
            keep(joint_of[name], "coupling_break_force", model.parameters["coupling_break_force"][row])
        if any(series.is_shared(link) for link in (model.joint_names.index(name), followed)):
            warnings.warn(
                f"joint '{name}' follows '{model.joint_names[followed]}', which other programs don't read, since one "
                "of them is among several joints of a body; write with massless_bodies=True for them",
                USDWarning,
                stacklevel=2,
            )
        else:
            _couple_for_others(joint_of[name], joints[followed], model, row)


def _couple_for_others(prim: Usd.Prim, leader: Sdf.Path, model: Model, row: int) -> None:
    """Write a coupling in the schemas of Newton and MuJoCo, whose offset is in the unit of the follower."""
    prim.AddAppliedSchema("NewtonMimicAPI")
    prim.AddAppliedSchema("MjcEqualityJointAPI")
    prim.CreateRelationship("newton:mimicJoint", False).SetTargets([leader])
    kind = int(model.joint_type[model.dof_link[model.equalities.coupling_dof[row]]])
    unit = np.degrees(1.0) if JOINT_TYPES[kind].angular else 1.0
    ratio, offset = (float(model.parameters[f"coupling_{name}"][row]) for name in ("ratio", "offset"))
    for name, value in (("mimicCoef0", offset * unit), ("mimicCoef1", ratio)):
        prim.CreateAttribute(f"newton:{name}", Sdf.ValueTypeNames.Float, False).Set(value)
    if model.switches and not model.parameters["coupling_active"][row]:
        prim.CreateAttribute("newton:mimicEnabled", Sdf.ValueTypeNames.Bool, False).Set(False)
    state_softness(prim, model.equalities.coupling_softness[row])
