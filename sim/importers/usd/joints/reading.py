"""Joints of a USD file, in SI units and rad."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pxr import Sdf, Usd, UsdPhysics

from sim.importers.usd.stage import Kind, Scene
from sim.usd.annotations import agreed, kept_switch
from sim.usd.physics.drives import Drive

AXES = {"X": np.array([1.0, 0.0, 0.0]), "Y": np.array([0.0, 1.0, 0.0]), "Z": np.array([0.0, 0.0, 1.0])}


@dataclass(frozen=True)
class Joint:
    """A joint between two bodies, or a body and the world (None).

    Attributes:
        path: path of its prim.
        type: type as in :meth:`sim.ModelBuilder.add_joint`.
        parent: the body that carries it; child: the body that it moves.
        parent_frame: pose of the joint frame in the parent, or in the world [7]; child_frame: in the child [7].
        axis: unit axis in the joint frame [3].
        lower, upper: limits; swing: that of a spherical joint.
        drive: its drive, None without.
        in_tree: whether it may carry its child in the tree of joints.
        collides: whether its two bodies may collide.
        break_force, break_torque: loads above which a fixed joint or a ball joint breaks [N, N m].
        turned: whether parent and child are swapped with respect to the file.
        reference: coordinate at which the frames coincide [rad or m].
        chain: of type "chain", the joints that follow each other from the parent to the child.
        freedom: the degree of freedom that it is in the chain of a general joint, such as "rotX".
    """

    path: Sdf.Path
    type: str
    parent: Sdf.Path | None
    child: Sdf.Path
    parent_frame: np.ndarray
    child_frame: np.ndarray
    axis: np.ndarray = field(default_factory=lambda: AXES["X"])
    lower: float = -np.inf
    upper: float = np.inf
    swing: float = np.inf
    drive: Drive | None = None
    in_tree: bool = True
    collides: bool = False
    break_force: float = np.inf
    break_torque: float = np.inf
    turned: bool = False
    reference: float = 0.0
    chain: tuple[Joint, ...] = ()
    freedom: str = ""

    @property
    def name(self) -> str:
        """Name of its prim, with its degree of freedom in a chain."""
        return f"{self.path.name}_{self.freedom}" if self.freedom else self.path.name

    @property
    def steps(self) -> tuple[Joint, ...]:
        """Joints from the parent to the child: itself, or its chain."""
        return self.chain or (self,)

    def swapped(self) -> Joint:
        """Return the joint with parent and child swapped and its axis reversed, which preserves its coordinate."""
        if self.parent is None:
            raise ValueError("the world can't be a child")
        return self.turned_round(parent=self.child, child=self.parent)

    def turned_round(self, parent: Sdf.Path | None, child: Sdf.Path) -> Joint:
        """Return the joint as seen from its other side, between these bodies."""
        return replace(
            self, parent=parent, child=child, parent_frame=self.child_frame, child_frame=self.parent_frame,
            axis=-self.axis, turned=not self.turned,
            chain=tuple(step.turned_round(parent, child) for step in reversed(self.chain)),
        )  # fmt: skip


DOF = UsdPhysics.JointDOF
TRANSLATIONS = {DOF.TransX: "X", DOF.TransY: "Y", DOF.TransZ: "Z"}
ROTATIONS = {DOF.RotX: "X", DOF.RotY: "Y", DOF.RotZ: "Z"}
# Constraints of MuJoCo's schema, applied to joints of any kind.
EQUALITIES = {"MjcEqualityConnectAPI": "spherical", "MjcEqualityWeldAPI": "fixed"}


def read_joints(scene: Scene) -> list[Joint]:
    """Return all joints that constrain a body and are enabled, or a stored constraint that is off at first.

    Raises:
        ImportFileError: naming the joint: a kind that is not supported, a body that doesn't exist.
    """
    kinds = (Kind.FixedJoint, Kind.RevoluteJoint, Kind.PrismaticJoint, Kind.SphericalJoint, Kind.D6Joint)
    for found in scene.of(Kind.DistanceJoint, Kind.CustomJoint):
        if found.jointEnabled:
            what = "a distance joint" if found.type == Kind.DistanceJoint else "a custom joint"
            raise scene.error(found.primPath, f"is {what}, which is not supported; set its jointEnabled to false")
    joints = [_joint(scene, found) for found in scene.of(*kinds) if found.jointEnabled or _is_switch(scene, found)]
    return [joint for joint in joints if joint is not None]


def _is_switch(scene: Scene, found: Any) -> bool:
    return kept_switch(scene.prim(found.primPath), "anchor_active") is False


def _joint(scene: Scene, found: Any) -> Joint | None:
    """Return one joint; None if it constrains nothing that moves."""
    frames = []
    bodies = []
    # In the description these poses are already multiplied by the scale of the bodies, which is applied later here.
    api = UsdPhysics.Joint(scene.prim(found.primPath))
    for target, position, orientation in (
        (found.rel0, api.GetLocalPos0Attr().Get(), api.GetLocalRot0Attr().Get()),
        (found.rel1, api.GetLocalPos1Attr().Get(), api.GetLocalRot1Attr().Get()),
    ):
        if not target.isEmpty and not scene.prim(target):
            raise scene.error(found.primPath, f"refers to '{target}', which doesn't exist")
        body = None if target.isEmpty else scene.body_of(target)
        bodies.append(body)
        frames.append(scene.frame(found.primPath, target, position, orientation))
    if bodies[0] == bodies[1]:
        if bodies[0] is not None:
            raise scene.error(
                found.primPath, f"joins '{bodies[0]}' to itself; name another body in physics:body0 or physics:body1"
            )
        return None
    joint = Joint(
        found.primPath, "fixed", bodies[0], bodies[1] or Sdf.Path(), frames[0], frames[1],
        in_tree=not found.excludeFromArticulation, collides=found.collisionEnabled,
    )  # fmt: skip
    typed = _breaking(scene, _typed(scene, joint, found), found)
    return typed.turned_round(None, bodies[0]) if typed is not None and bodies[1] is None else typed


def _breaking(scene: Scene, joint: Joint | None, found: Any) -> Joint | None:
    """Return a joint with the loads at which it breaks; it is then a constraint, since joints of a tree can't break."""
    loads = {"force": float(found.breakForce), "torque": float(found.breakTorque)}
    if joint is None or min(loads.values()) > 3e38:
        return joint
    ball = joint.type == "spherical" and not np.isfinite(joint.swing)
    if not (ball or joint.type == "fixed") or min(loads.values()) <= 0.0:
        why = "only a fixed joint or a ball joint without limits can break, at a positive force"
        scene.notes.append(f"prim '{joint.path}': its break force and torque are ignored; {why}")
        return joint
    units = scene.mass * scene.length, scene.mass * scene.length**2
    force, torque = (
        np.inf if load > 3e38 else float(agreed(scene.prim(joint.path), f"anchor_break_{name}", load * unit))
        for (name, load), unit in zip(loads.items(), units, strict=True)
    )
    return replace(joint, in_tree=False, break_force=force, break_torque=torque)


def _typed(scene: Scene, joint: Joint, found: Any) -> Joint | None:
    """Return type, axis, limits and drive; None for a joint without constraint."""
    prim = scene.prim(found.primPath)
    for schema in prim.GetPrimTypeInfo().GetAppliedAPISchemas():
        if schema in EQUALITIES:
            return replace(joint, type=EQUALITIES[schema], in_tree=False)
    if found.type == Kind.D6Joint:
        return _general(scene, joint, found)
    if found.type == Kind.FixedJoint:
        return joint
    axis = AXES.get(str(prim.GetAttribute("physics:axis").Get()))
    if axis is None:
        raise scene.error(prim, f"its axis is '{prim.GetAttribute('physics:axis').Get()}'; it must be X, Y or Z")
    if found.type == Kind.SphericalJoint:
        return replace(joint, type="spherical", axis=axis, swing=_cone(scene, found))
    type = "revolute" if found.type == Kind.RevoluteJoint else "prismatic"
    _note_drives(scene, prim, type)
    _check_limits(scene, found)
    reference = scene.mujoco_position(prim, "mjc:ref", type == "revolute") or 0.0
    return _scalar(scene, replace(joint, type=type, axis=axis, reference=reference), found.limit, found.drive)


def _cone(scene: Scene, found: Any) -> float:
    """Return the limit of a spherical joint [rad]; the smaller angle of a cone with two."""
    if not found.limit.enabled:
        return np.inf
    angles = [float(angle) for angle in (found.limit.lower, found.limit.upper) if angle >= 0.0]
    if len(set(angles)) > 1:
        scene.notes.append(f"prim '{found.primPath}': its cone has two angles; the smaller one is used for both")
    return min(np.radians(min(angles)), np.pi) if angles and min(angles) > 0.0 else np.inf


def _general(scene: Scene, joint: Joint, found: Any) -> Joint | None:
    """Return a joint with six degrees of freedom: the unlocked ones, in series; None if all are free.

    Slides come first, then rotations about x, y and z, each about the axis rotated by the previous ones. Three
    rotations without limits or drives are a ball joint.
    """
    limits = {pair.first: pair.second for pair in found.jointLimits}
    drives = {pair.first: pair.second for pair in found.jointDrives}
    if DOF.Distance in limits and limits[DOF.Distance].enabled:
        raise scene.error(found.primPath, "limits a distance, which is not supported; remove that limit")
    slides, turns = (
        [dof for dof in axes if dof not in limits or not limits[dof].enabled or limits[dof].lower <= limits[dof].upper]
        for axes in (TRANSLATIONS, ROTATIONS)
    )

    def step(dof: Any) -> Joint:
        type, letter = ("prismatic", TRANSLATIONS[dof]) if dof in TRANSLATIONS else ("revolute", ROTATIONS[dof])
        freedom = f"{'trans' if dof in TRANSLATIONS else 'rot'}{letter}"
        return _scalar(
            scene, replace(joint, type=type, axis=AXES[letter], freedom=freedom), limits.get(dof), drives.get(dof)
        )

    def unhindered(dofs: list[Any]) -> bool:
        return not any(_bounds(limits.get(dof)) or (dof in drives and drives[dof].enabled) for dof in dofs)

    if len(slides) + len(turns) == 6 and unhindered([*slides, *turns]):
        return None
    steps = [step(dof) for dof in slides]
    if len(turns) == 3 and unhindered(turns):
        steps.append(replace(joint, type="spherical", freedom="rot"))
    else:
        steps += [step(dof) for dof in turns]
    steps = [each for each in steps if each.type != "fixed"]
    if len(steps) > 1:
        return replace(joint, type="chain", chain=tuple(steps))
    return replace(steps[0], freedom="") if steps else joint


def _note_drives(scene: Scene, prim: Usd.Prim, type: str) -> None:
    """Note drives of axes that a revolute or prismatic joint doesn't have."""
    own = "angular" if type == "revolute" else "linear"
    for schema in prim.GetAppliedSchemas():
        kind, _, name = schema.partition(":")
        if kind == "PhysicsDriveAPI" and name != own:
            scene.notes.append(
                f"prim '{prim.GetPath()}': its drive '{name}' is not read; that of a {type} joint is '{own}'"
            )


def _check_limits(scene: Scene, found: Any) -> None:
    """Raise ImportFileError for infinite limits without a range, and note crossed ones."""
    prim = scene.prim(found.primPath)
    lower, upper = (float(prim.GetAttribute(f"physics:{side}Limit").Get()) for side in ("lower", "upper"))
    if lower == np.inf or upper == -np.inf:
        raise scene.error(prim, f"its limits are {lower} and {upper}; no position lies between them")
    if lower > upper:
        scene.notes.append(f"prim '{prim.GetPath()}': its lower limit {lower} is above the upper {upper}; it is locked")


def _scalar(scene: Scene, joint: Joint, limit: Any, drive: Any) -> Joint:
    """Return limits and drive of a revolute or prismatic joint."""
    angular = joint.type == "revolute"
    unit = np.radians(1.0) if angular else scene.length
    lower, upper = -np.inf, np.inf
    if _bounds(limit):
        lower, upper = (float(bound) * unit if abs(bound) < 3e38 else float(np.sign(bound)) * np.inf
                        for bound in (limit.lower, limit.upper))  # fmt: skip
        if lower > upper:
            # A reversed limit locks the axis.
            return replace(joint, type="fixed")
    return replace(joint, lower=lower, upper=upper, drive=_drive(scene, joint, drive, unit))


def _bounds(limit: Any) -> bool:
    """Return whether a description limits anything; UsdPhysics' calls a hinge with a single limit unlimited."""
    return limit is not None and (limit.enabled or min(abs(limit.lower), abs(limit.upper)) < 3e38)


def _drive(scene: Scene, joint: Joint, drive: Any, unit: float) -> Drive | None:
    if drive is None or not drive.enabled:
        return None
    if drive.acceleration:
        scene.notes.append(
            f"prim '{joint.path}': acceleration drives are not supported; the joint is left without a drive"
        )
        return None
    # A force of kg m/s^2, or a moment of kg m^2/s^2.
    force = scene.mass * scene.length * (scene.length if joint.type == "revolute" else 1.0)
    limit = float(drive.forceLimit) * force if drive.forceLimit < 3e38 else np.inf
    target, velocity = drive.targetPosition * unit, drive.targetVelocity * unit
    if drive.stiffness:
        # A constant velocity of the damper shifts the equilibrium of spring and damper.
        target, velocity = target + velocity * drive.damping / drive.stiffness, 0.0
    return Drive(drive.stiffness * force / unit, drive.damping * force / unit, target, limit, velocity)
