"""Losses of the package ``mujoco-usd-converter``, applied to MuJoCo's own model of an MJCF file.

A converted file that differs from MuJoCo's model, but agrees with the model that has the same losses, differs for no
other reason.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import mujoco
import numpy as np
from pxr import Gf

KINDS = "PLANE", "SPHERE", "CAPSULE", "CYLINDER", "BOX", "MESH"
SOLIDS = {getattr(mujoco.mjtGeom, f"mjGEOM_{name}") for name in KINDS}
SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE
# Masses of bodies without geoms, which MuJoCo's compiler refuses, and below which they are removed then.
LEAST_MASS, LIGHT = 1e-11, 1e-9


def without_solids(spec: mujoco.MjSpec) -> int:
    """Replace ellipsoids and signed distance fields of bodies by spheres of next to no mass.

    Bodies keep a mass that is stated, and the mass that geoms without collisions have a share in.
    """
    changed = 0
    for body in spec.bodies[1:]:
        seen = [geom for geom in body.geoms if not (geom.contype or geom.conaffinity)]
        if body.explicitinertial or any(
            geom.mass > 0.0 or (np.isnan(geom.mass) and geom.density > 0.0) for geom in seen
        ):
            continue
        for geom in body.geoms:
            if geom.type not in SOLIDS:
                geom.type, geom.size, geom.mass, geom.fromto = SPHERE, (0.1, 0.0, 0.0), LEAST_MASS, np.full(6, np.nan)
                geom.contype = geom.conaffinity = 0
                changed += 1
    return changed


def with_rounded_rotations(spec: mujoco.MjSpec) -> int:
    """Turn bodies and geoms as quaternions in single precision that were an angle about an axis in between."""
    changed = 0
    for each in (*spec.bodies[1:], *spec.geoms, *spec.sites):
        if each.frame is not None:
            continue
        stated = np.array(_orientation(spec, each))
        single = Gf.Quatf(*map(float, stated)).GetNormalized()
        mujoco.mju_normalize4(stated)
        turn = Gf.Transform()
        turn.SetRotation(Gf.Rotation(single))
        found = Gf.Quatf((turn * Gf.Transform()).GetRotation().GetQuat())
        rounded = np.array([found.GetReal(), *found.GetImaginary()], dtype=float)
        if hasattr(each, "fromto") and not np.isnan(each.fromto[0]):
            _replace_ends(each)
        each.alt.type, each.quat = mujoco.mjtOrientation.mjORIENTATION_QUAT, rounded
        changed += bool(np.abs(rounded - np.sign(rounded @ stated) * stated).max() > 1e-6)
    return changed


def without_tendon_couplings(spec: mujoco.MjSpec) -> int:
    """Delete constraints between the lengths of tendons."""
    gone = [each for each in spec.equalities if each.type == mujoco.mjtEq.mjEQ_TENDON]
    for each in gone:
        spec.delete(each)
    return len(gone)


def with_plain_free_joints(spec: mujoco.MjSpec) -> int:
    """Remove armature, damping and dry friction of free joints."""
    found = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    changed = [joint for joint in found if joint.armature or joint.frictionloss or np.any(joint.damping)]
    for joint in changed:
        joint.armature = joint.frictionloss = 0.0
        joint.damping = np.zeros_like(joint.damping)
    return len(changed)


def without_transmissions(spec: mujoco.MjSpec) -> int:
    """Delete actuators of joints in the frame of the parent."""
    gone = [each for each in spec.actuators if each.trntype == mujoco.mjtTrn.mjTRN_JOINTINPARENT]
    for each in gone:
        spec.delete(each)
    return len(gone)


def without_ball_actuators(spec: mujoco.MjSpec) -> int:
    """Delete actuators of ball joints, which Backswing doesn't read."""
    balls = {joint.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_BALL}
    gone = [each for each in spec.actuators if each.trntype == mujoco.mjtTrn.mjTRN_JOINT and each.target in balls]
    for each in gone:
        spec.delete(each)
    return len(gone)


LOSSES: dict[str, Callable[[mujoco.MjSpec], int]] = {
    "ellipsoids": without_solids,
    "small rotations": with_rounded_rotations,
    "coupled tendons": without_tendon_couplings,
    "properties of free joints": with_plain_free_joints,
    "actuators in the frame of the parent": without_transmissions,
    "actuators of ball joints": without_ball_actuators,
}


def with_losses(source: Path, names: Iterable[str]) -> tuple[mujoco.MjModel, list[str]]:
    """Return MuJoCo's model of a file with losses of :data:`LOSSES`, and those of them that changed it.

    Its constants are to be set again, by ``mujoco.mj_setConst``.
    """
    spec = mujoco.MjSpec.from_file(str(source))
    for each in (*spec.sensors, *spec.pairs):  # without contacts and sensors nothing needs them
        spec.delete(each)
    changed = [name for name in names if LOSSES[name](spec)]
    model = spec.compile()
    light = model.body_mass < LIGHT
    model.body_mass[light], model.body_inertia[light] = 0.0, 0.0
    return model, changed


def needed(source: Path, agrees: Callable[[mujoco.MjModel], bool]) -> Iterator[str]:
    """Yield the losses without which a model doesn't agree; nothing if it doesn't agree with all of them."""
    whole, changed = with_losses(source, LOSSES)
    if agrees(whole):
        for name in changed:
            if not agrees(with_losses(source, [other for other in changed if other != name])[0]):
                yield name


def _orientation(spec: mujoco.MjSpec, each: mujoco.MjsBody | mujoco.MjsGeom | mujoco.MjsSite) -> list[float]:
    ends = getattr(each, "fromto", [np.nan])
    if not np.isnan(ends[0]):
        way = np.array(ends[3:]) - np.array(ends[:3])
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, way / np.linalg.norm(way))
        return quat.tolist()
    if each.alt.type == mujoco.mjtOrientation.mjORIENTATION_QUAT:
        return list(each.quat)
    compiler = spec.compiler
    return list(spec.resolve_orientation(degree=compiler.degree, sequence=compiler.eulerseq, orientation=each.alt))


def _replace_ends(geom: mujoco.MjsGeom) -> None:
    """Replace the ends of a geom by its middle and half its length."""
    ends = np.array(geom.fromto)
    size = np.array(geom.size)
    size[2 if geom.type in (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_ELLIPSOID) else 1] = (
        np.linalg.norm(ends[3:] - ends[:3]) / 2.0
    )
    geom.size, geom.pos, geom.fromto = size, (ends[:3] + ends[3:]) / 2.0, np.full(6, np.nan)
