"""Properties of the joints of a USD file beyond their kinematics: limits, springs, friction, actuators."""

from __future__ import annotations

from typing import Any

import numpy as np
from pxr import Usd
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.reader import Reader
from sim.importers.usd.schemas.joints import joint_properties, states
from sim.importers.usd.schemas.mujoco_contacts import softness_of
from sim.importers.usd.stage import Scene
from sim.model.builder.properties import JOINT_FIELDS, in_groups
from sim.usd.annotations import UNLIMITED, agreed, kept, kept_softness
from sim.usd.physics.drives import Actuator, Drive, is_damped_apart, kept_actuators, stated_drive
from warp_kernels import types as codes

SCALAR = ("revolute", "prismatic")


def dof_properties(reader: Reader, prim: Usd.Prim, joint: Joint) -> dict[str, Any]:
    """Return all properties of a parent joint, as arguments of the builder's ``add_joint``.

    A kinematic joint, whose motion is given, has no others.
    """
    if is_kinematic(reader, prim, joint):
        if joint.drive is not None or np.isfinite([joint.lower, joint.upper, joint.swing]).any():
            reader.scene.notes.append(
                f"prim '{joint.path}': its body is kinematic, so that its limits and drive have no effect"
            )
        return {"kinematic": True}
    own = damping_and_friction(reader.scene, prim, joint)
    properties = own | limits(reader.scene, prim, joint) | springs(reader, prim, joint, own)
    found: dict[str, Any] = reader.add(joint.path, in_groups, JOINT_FIELDS, properties)
    return found


def is_kinematic(reader: Reader, prim: Usd.Prim, joint: Joint) -> bool:
    """Return whether the motion of a joint is prescribed: its body is kinematic, or it was written so."""
    return joint.child in reader.scene.kinematic or kept(prim, "kinematic", 1) is not None


def limits(scene: Scene, prim: Usd.Prim, joint: Joint) -> dict[str, float]:
    """Return limits of position, effort and velocity; an effort is that of the drive, or of a converted URDF file."""
    found: dict[str, float] = {}
    if joint.type in SCALAR:
        for name, key, bound in (("lower_limit", "lower", joint.lower), ("upper_limit", "upper", joint.upper)):
            found[key] = float(agreed(prim, name, bound)) if np.isfinite(bound) else bound
    elif joint.type == "spherical":
        found["swing_limit"] = float(agreed(prim, "swing_limit", joint.swing)) if np.isfinite(joint.swing) else np.inf
        for name in ("twist_limit", "rotation_limit"):
            value = kept(prim, name, 1)
            found[name] = float(value[0]) if value is not None else np.inf
        if scene.has_schema(prim, "MjcJointAPI"):  # MuJoCo limits the angle of the whole rotation
            found |= {"rotation_limit": found["swing_limit"], "swing_limit": np.inf}
    effort = scene.number(prim, "urdf:limit:effort")
    if effort is not None and joint.type in SCALAR:
        found["effort"] = effort
    if joint.drive is not None and np.isfinite(joint.drive.max_force):
        found["effort"] = joint.drive.max_force
    for name in ("effort", "velocity"):
        value = kept(prim, name, 1)
        if value is not None:
            found[name] = float(value[0]) if value[0] != UNLIMITED else np.inf
    return found


def damping_and_friction(scene: Scene, prim: Usd.Prim, joint: Joint | None) -> dict[str, Any]:
    """Return properties beyond those of UsdPhysics; the joint is None for a free body.

    Damping and spring of joints that can have a drive are read with the drive, if they aren't stated apart from it.
    """
    options = joint_properties(scene, prim, joint)
    if "damping" in options:
        options["damping"] = float(agreed(prim, "damping", options["damping"]))
    names = ["armature", "friction_loss", "limit_margin", "limit_stiffness", "limit_damping"]
    for name in names if joint is not None and joint.type in SCALAR else [*names, "damping"]:
        value = kept(prim, name, 1)
        if name in options:
            options[name] = float(agreed(prim, name, options[name]))
        elif value is not None and not states(scene, prim, name):
            options[name] = float(value[0])
    softness = {name: kept_softness(prim, name) for name in ("limit_softness", "friction_softness")}
    if scene.has_schema(prim, "MjcJointAPI"):
        softness = {
            "limit_softness": softness_of(scene, prim, "mjc:solreflimit", "mjc:solimplimit"),
            "friction_softness": softness_of(scene, prim, "mjc:solreffriction", "mjc:solimpfriction"),
        }
        unit = scene.length if joint is not None and joint.type == "prismatic" else 1.0
        options["limit_margin"] = max(0.0, scene.number(prim, "mjc:margin") or 0.0) * unit  # always in rad
    return {**options, **softness}


def springs(reader: Reader, prim: Usd.Prim, joint: Joint, own: dict[str, float]) -> dict[str, Any]:
    """Return spring and damping of the joint: those of its drive, added to its own."""
    if joint.type == "spherical":
        off = states(reader.scene, prim, "stiffness") and "stiffness" not in own
        return {} if off else pose_spring(prim, own.get("stiffness", 0.0), 3)
    if joint.type not in SCALAR:
        return {}
    driven = _drive_as_spring(reader, prim, joint)
    damping, stiffness = (driven.get(name, 0.0) + own.get(name, 0.0) for name in ("damping", "stiffness"))
    pull = sum(each.get("stiffness", 0.0) * each.get("rest_position", 0.0) for each in (driven, own))
    rest = pull / stiffness if "stiffness" in own and stiffness else driven.get("rest_position", 0.0)
    return {"damping": damping, "stiffness": stiffness, "rest_position": rest}


def pose_spring(prim: Usd.Prim, stated: float, dofs: int) -> dict[str, Any]:
    """Return the spring of a spherical or free joint with 3 or 6 degrees of freedom; empty without one.

    Args:
        prim: the joint, or the body that is free.
        stated: stiffness in MuJoCo's schema, whose springs rest where the joint's frames coincide; zero if not stated.
        dofs: number of degrees of freedom.
    """
    own, rest = kept(prim, "stiffness", 1), kept(prim, "rest_position", dofs)
    stiffness = float(agreed(prim, "stiffness", stated)) if stated or own is None else float(own[0])
    if not stiffness:
        return {}
    if rest is None:
        return {"stiffness": stiffness}
    turn = Rotation.from_rotvec(rest[-3:]).as_quat()
    return {"stiffness": stiffness, "rest_position": np.concatenate([rest[:-3], turn])}


def _drive_as_spring(reader: Reader, prim: Usd.Prim, joint: Joint) -> dict[str, float]:
    annotated = _annotated_springs(prim, joint)
    drive = joint.drive
    if annotated is not None or drive is None:
        return annotated or {}
    if reader.drives == "springs":
        if np.isfinite(drive.max_force):
            reader.scene.notes.append(f"prim '{joint.path}': the spring that replaces its drive has no force limit")
        if drive.velocity and drive.damping:
            reader.scene.notes.append(
                f"prim '{joint.path}': the damper that replaces its drive has no target velocity; "
                "read it with drives='actuators'"
            )
        return {"damping": drive.damping, "stiffness": drive.stiffness, "rest_position": drive.target}
    return {} if _is_servo(drive) else {"damping": drive.damping}


def actuators(reader: Reader, prim: Usd.Prim, joint: Joint) -> list[Actuator]:
    """Return the stored actuators of a joint if its drive still matches them; otherwise its drive."""
    own, drive = kept_actuators(prim), joint.drive
    if joint.type not in SCALAR or is_kinematic(reader, prim, joint):
        return []
    if _annotated_springs(prim, joint) is not None:
        return own
    motors = [actuator for actuator in own if actuator.kind == codes.TORQUE]
    if drive is None or reader.drives == "springs" or not _is_servo(drive):
        return motors
    kind = codes.POSITION if drive.stiffness else codes.VELOCITY
    if kind == codes.VELOCITY and not drive.damping:
        return motors
    _note_target(reader, joint, drive)
    return [*motors, Actuator(joint.name, kind, 1.0, drive.stiffness, drive.damping, drive.max_force)]


def _note_target(reader: Reader, joint: Joint, drive: Drive) -> None:
    """Note the target of a servo in the file, which is an input of the model."""
    target = drive.target if drive.stiffness else drive.velocity
    if target:
        unit = "rad" if joint.type == "revolute" else "m"
        rate = "" if drive.stiffness else "/s"
        own = f", its degree of freedom {joint.freedom}" if joint.freedom else ""
        reader.scene.notes.append(
            f"prim '{joint.path}'{own}: its drive has the target {target:.9g} {unit}{rate}; pass that as control, "
            f"since "
            "the default target is zero"
        )


def _is_servo(drive: Drive) -> bool:
    """Return whether a drive is more than a damper of its joint."""
    return bool(drive.stiffness or drive.velocity or np.isfinite(drive.max_force))


def _annotated_springs(prim: Usd.Prim, joint: Joint) -> dict[str, float] | None:
    """Return the stored spring and damping of a joint if its drive still matches them and its actuators.

    Damping that is stated apart from the drive isn't part of them.
    """
    found = {name: kept(prim, name, 1) for name in ("damping", "stiffness", "rest_position")}
    values = {name: float(value[0]) if value is not None else 0.0 for name, value in found.items()}
    own = kept_actuators(prim)
    apart = is_damped_apart(values["stiffness"], own) and prim.HasAttribute("newton:damping")
    for candidate in (*([values | {"damping": 0.0}] if apart else []), values):
        expected = stated_drive(**candidate, actuators=own)
        if expected is joint.drive is None or (expected and joint.drive and expected.agrees(joint.drive)):
            return candidate
    return None
