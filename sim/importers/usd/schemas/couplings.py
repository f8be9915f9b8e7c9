"""Joint couplings in the schemas of Newton, MuJoCo and PhysX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pxr import Sdf, Usd

from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.schemas.mujoco_contacts import constraint_softness, softness_of
from sim.importers.usd.stage import Scene
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.usd.annotations import kept, kept_switch, kept_text

HIGHER = ("mjc:coef2", "mjc:coef3", "mjc:coef4")
PHYSX = "PhysxMimicJointAPI:"


@dataclass(frozen=True)
class Coupling:
    """q = ratio q_leader + offset, in SI units and rad; the leader is a joint's path, or a stored name.

    ``active`` is False for a coupling that is off at first, None if nothing is stored.
    """

    leader: Sdf.Path | str
    ratio: float
    offset: float
    softness: Softness = DEFAULT_SOFTNESS
    active: bool | None = None


def coupling(scene: Scene, joint: Joint, carriers: Mapping[Sdf.Path, Joint]) -> Coupling | None:
    """Return the coupling of a joint; None for an independent one. Note unsupported couplings.

    Args:
        scene: the file.
        joint: the joint that may be coupled.
        carriers: all parent joints of bodies, by path.
    """
    prim = scene.prim(joint.path)
    written = _written(scene, prim)
    schemas = [str(name) for name in prim.GetPrimTypeInfo().GetAppliedAPISchemas()]
    if "NewtonMimicAPI" in schemas or "MjcEqualityJointAPI" in schemas:
        found = _newton(scene, prim, joint)
        if written is not None and _agree(scene, written, found):
            return written
    elif written is not None:  # by versions that wrote annotations alone, or a joint in series
        return written
    else:
        axis = next((name.removeprefix(PHYSX) for name in schemas if name.startswith(PHYSX)), None)
        found = None if axis is None else _physx(scene, prim, joint, axis)
    if found is None:
        return None
    if not scene.stage.GetPrimAtPath(found.leader):
        scene.notes.append(f"prim '{joint.path}': its leader, joint '{found.leader}', doesn't exist; it is not coupled")
        return None
    leader = carriers.get(Sdf.Path(found.leader))
    if leader is None or {leader.type, joint.type} - {"revolute", "prismatic"}:
        scene.notes.append(
            f"prim '{joint.path}': it doesn't follow '{found.leader}' here; only revolute and prismatic joints that "
            "carry a body follow and lead"
        )
        return None
    return found


def _written(scene: Scene, prim: Usd.Prim) -> Coupling | None:
    """Return a coupling written by Backswing."""
    followed = kept_text(prim, "follows")
    ratio, offset = (kept(prim, f"coupling_{name}", 1) for name in ("ratio", "offset"))
    if followed is None or ratio is None or offset is None:
        return None
    softness = constraint_softness(scene, prim, "coupling_softness")
    return Coupling(followed, float(ratio[0]), float(offset[0]), softness, kept_switch(prim, "coupling_active"))


def _agree(scene: Scene, written: Coupling, stated: Coupling | None) -> bool:
    """Return whether a coupling is that of the standard attributes next to it, which nobody has edited."""
    if stated is None:
        return written.active is False
    leader = scene.prim(Sdf.Path(stated.leader))
    name = kept_text(leader, "joint_name") if leader else None
    one, other = (np.array([each.ratio, each.offset]) for each in (written, stated))
    return written.active is not False and name == written.leader and np.allclose(one, other, rtol=2e-6, atol=1e-12)


def _newton(scene: Scene, prim: Usd.Prim, joint: Joint) -> Coupling | None:
    """Return a coupling of Newton's schema, which MuJoCo's extends; its former names in MuJoCo's are read too."""
    leaders = scene.targets(prim, "newton:mimicJoint") or scene.targets(prim, "mjc:target")
    offset, own_offset, ratio, own_ratio = (
        scene.number(prim, name) for name in ("newton:mimicCoef0", "mjc:coef0", "newton:mimicCoef1", "mjc:coef1")
    )
    if not leaders or scene.stated(prim, "newton:mimicEnabled") is False:
        return None
    if any(scene.number(prim, name) for name in HIGHER):
        scene.notes.append(
            f"prim '{joint.path}': it doesn't follow '{leaders[0]}' here, since its polynomial isn't linear"
        )
        return None
    # Newton's offset is in degrees, MuJoCo's in rad.
    unit, own_unit = _position(scene, joint), scene.length if joint.type == "prismatic" else 1.0
    constant = offset * unit if offset is not None else (own_offset or 0.0) * own_unit
    slope = ratio if ratio is not None else own_ratio
    softness = softness_of(scene, prim, "mjc:solref", "mjc:solimp")
    return Coupling(leaders[0], 1.0 if slope is None else slope, constant, softness)


def _physx(scene: Scene, prim: Usd.Prim, joint: Joint, axis: str) -> Coupling | None:
    """Return a coupling of PhysX' schema: q + gearing q_leader + offset = 0."""
    head = f"physxMimicJoint:{axis}:"
    leaders = scene.targets(prim, f"{head}referenceJoint")
    gearing, offset = (scene.number(prim, f"{head}{name}") for name in ("gearing", "offset"))
    scene.stated(prim, f"{head}referenceJointAxis")  # attribute of the leader's only coordinate
    if not leaders:
        return None
    if scene.stated(prim, f"{head}naturalFrequency"):
        scene.stated(prim, f"{head}dampingRatio")
        scene.notes.append(f"prim '{joint.path}': it follows '{leaders[0]}' rigidly here, not by a spring")
    return Coupling(leaders[0], -(1.0 if gearing is None else gearing), -(offset or 0.0) * _position(scene, joint))


def _position(scene: Scene, joint: Joint) -> float:
    return scene.length if joint.type == "prismatic" else float(np.radians(1.0))
